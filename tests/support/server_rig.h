/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_rig.h - a server and its clients for one test, without a daemon around them: a real service and store,
 * real sockets, all protocols, on one loop of the test's own.
 *
 *     server_rig_up ─▶ server_rig_client, say, expect … ─▶ server_rig_down
 *
 * Thread: the test's own. It runs the loop while a client waits. Memory: server_rig_down frees all; the clients'
 * descriptors are the test's.
 */
#ifndef WARM_TESTS_SUPPORT_SERVER_RIG_H
#define WARM_TESTS_SUPPORT_SERVER_RIG_H

#include "client/wire/wire.h"
#include "daemon/net/server.h"
#include "store/clock.h"
#include "tests/support/service.h"

struct server_rig {
    struct service_rig base;
    struct server *server;
    char *dir;           /* of the two sockets; other users reach it */
    int listener, admin; /* that listen */
    struct server_config config;
};

/* Makes the service and the sockets, and fills the server's configuration; starts no server. */
void server_rig_prepare(struct server_rig *r);
/* Starts the server: `is_shared` if its first socket is for other users, too. */
void server_rig_start(struct server_rig *r);
/* Does both. */
void server_rig_up(struct server_rig *r);
/* Closes the server and waits for its last handle. */
void server_rig_close_server(struct server_rig *r);
/* Does that unless it was done, and frees all. */
void server_rig_down(struct server_rig *r);

/* Runs the loop once. */
void server_rig_turn(struct server_rig *r);
#define SERVER_RIG_WAIT_MS 60000u /* for anything that must happen */
/* Runs the loop until a condition holds; fails the test after a minute. */
#define SERVER_RIG_AWAIT(r, condition)                                                             \
    do {                                                                                           \
        uint64_t begun = clock_mono_ns() / 1000000u;                                               \
        while (!(condition)) {                                                                     \
            cr_assert_lt(clock_mono_ns() / 1000000u, begun + SERVER_RIG_WAIT_MS,                   \
                         "never: " #condition);                                                    \
            server_rig_turn(r);                                                                    \
        }                                                                                          \
    } while (0)

/* ---- a client ---- */

/* Connects; the server has not accepted yet. */
int server_rig_connect(struct server_rig *r);
/* Connects as another user, for which the test must be root. */
int server_rig_connect_as(struct server_rig *r, uid_t uid);
/* Connects to the administrator's socket. */
int server_rig_connect_admin(struct server_rig *r);
/* Connects, and waits until the server has accepted. */
int server_rig_client(struct server_rig *r);

/* Sends a text whole. */
void server_rig_say(int fd, const char *text);
/* Runs the loop until `len` bytes came, or the connection ended; fails the test after a minute. Returns the number of bytes. */
size_t server_rig_receive(struct server_rig *r, int fd, char *out, size_t len);
/* Expects these bytes. */
void server_rig_expect(struct server_rig *r, int fd, const char *want);
/* True if the server ends the connection. */
bool server_rig_is_ended(struct server_rig *r, int fd);

/* ---- a client of the native protocol ---- */

struct server_rig_frame {
    struct wire_frame frame;
    uint8_t bytes[WIRE_HEADER + (128u << 10)];
    int fd; /* that came with it, or -1 */
};

/* Sends the frames in a writer, with descriptors, and empties it. */
void server_rig_send(int fd, struct writer *w, const int *fds, size_t n_fds);
/* Receives the next frame. False at the end of the connection. */
bool server_rig_take(struct server_rig *r, int fd, struct server_rig_frame *out);
/* Receives the next frame, which must have this tag and type. */
void server_rig_answer(struct server_rig *r, int fd, struct server_rig_frame *out, uint64_t tag,
                       enum wire_type type);
/* Does so, and ignores its fields. */
void server_rig_expect_frame(struct server_rig *r, int fd, uint64_t tag, enum wire_type type);
/* Expects ERROR with this code. */
void server_rig_expect_error(struct server_rig *r, int fd, uint64_t tag, int code);
/* Sends PUT. A value that does not fit the frame goes as a sealed memfd. */
void server_rig_put(int fd, uint64_t tag, const struct wire_put *put);
/* Exchanges HELLO and WELCOME on a connection. Returns it. */
int server_rig_hello(struct server_rig *r, int fd);
/* Returns a connection after HELLO. */
int server_rig_native(struct server_rig *r);

#endif
