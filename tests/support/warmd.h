/* SPDX-License-Identifier: Apache-2.0 */
/*
 * warmd.h - a real warmd for one test: started on a store and a socket of its own, spoken to byte by
 * byte, and ended. Each wait has a deadline, and fails the test when it is reached.
 *
 * Thread: the test's own. Memory: warmd_new and warmd_up give a struct that warmd_down or warmd_free
 * frees.
 */
#ifndef WARM_TESTS_SUPPORT_WARMD_H
#define WARM_TESTS_SUPPORT_WARMD_H

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/lib/conn.h"
#include "client/lib/warm.h"
#include "client/wire/wire.h"
#include "tests/support/support.h"

#define WARMD_WAIT_MS 60000 /* for anything that should come; sanitizers are slow */

struct warmd {
    char *dir, *socket, *store, *log;
    char *program; /* owned; NULL: warmd of this build */
    pid_t pid;
};

/* Returns a monotonic clock's time in milliseconds. */
uint64_t clock_now_ms(void);

/* ---- its life ---- */

/* Makes the folder and the paths; starts nothing. */
struct warmd warmd_new(void);
/* Starts warmd with further options (NULL-terminated, or NULL); its stderr goes to k->log. Returns the
 * process. */
pid_t warmd_spawn(const struct warmd *k, char *const *options);
/* Waits until warmd accepts connections. */
void warmd_await(const struct warmd *k);
/* Spawns and awaits it. */
void warmd_start(struct warmd *k, char *const *options);
/* Makes the folder and starts warmd in it. */
struct warmd warmd_up(char *const *options);
/* Waits until a process ends by itself, and returns its wait status. */
int warmd_reap(pid_t pid);
/* Reads what a process writes to its terminal, until it ends; closes `fd`. Static memory. */
char *warmd_read_terminal(int fd, pid_t pid);
/* Runs a shell command in the daemon's folder, with its socket and with `warm` as $W. Expects this status, and a text in
 * the output. */
void warmd_shell(const struct warmd *k, int status, const char *command, const char *text);
/* Sends SIGTERM, expects that warmd drains and exits with 0, and frees all. */
void warmd_down(struct warmd *k);
/* Removes the folder and frees the paths; the process is the caller's. */
void warmd_free(struct warmd *k);
/* True if warmd's log contains the text. */
bool warmd_log_has(const struct warmd *k, const char *text);

/* ---- bytes ---- */

/* Returns a connection, or -1 if nobody listens there. */
int warmd_try_connect(const char *path);
/* Returns a connection on which nothing was sent yet. */
int warmd_connect(const struct warmd *k);
/* Sends all bytes. */
void warmd_send(int fd, const void *data, size_t len);
/* Sends bytes with at most two descriptors, in one message. */
void warmd_send_fds(int fd, const void *data, size_t len, const int *fds, size_t n_fds);
/* Reads exactly `len` bytes. False at the end of the connection. */
bool warmd_recv(int fd, void *out, size_t len);
/* True if the daemon ends the connection; discards what it sends before. */
bool warmd_is_closed(int fd);
/* True if nothing comes within `ms`. */
bool warmd_is_silent(int fd, int ms);
/* Sends a RESP command as it stands and compares the answer. */
void warmd_redis(int fd, const char *command, const char *answer);

/* ---- frames ---- */

struct warmd_frame {
    struct wire_frame frame;
    uint8_t bytes[WIRE_HEADER + (128u << 10)];
    int fd; /* that came along; -1 */
};

/* Reads the next frame; false at the end of the connection. */
bool warmd_frame_try(int fd, struct warmd_frame *out);
/* Reads the next frame, which must have this type and tag. */
void warmd_frame(int fd, struct warmd_frame *out, uint8_t type, uint64_t tag);
/* Reads the next frame, which must have this type and tag, and closes its descriptor. */
void warmd_expect(int fd, uint64_t tag, uint8_t type);
/* Sends the writer's bytes, and empties it. */
void warmd_flush(int fd, struct writer *w);

/* Exchanges HELLO and WELCOME. */
void warmd_hello(int fd);
/* Returns a connection after HELLO. */
int warmd_native(const struct warmd *k);
/* Returns a connection of another user after HELLO. The test must be root: the kernel notes the user
 * at connect. */
int warmd_native_as(const struct warmd *k, uid_t uid);
/* Returns an administrator's connection: on the socket that root's daemon has for it, or else on the
 * common one. */
int warmd_admin(const struct warmd *k);

/* Returns a connection of libwarm with long deadlines, for warm_close. */
struct warm *warmd_libwarm(const struct warmd *k);

/* Returns the JSON of STATS; free() it. */
char *warmd_stats(const struct warmd *k);
/* True if the JSON of STATS contains the text; if not, prints the JSON. */
bool warmd_stats_have(const struct warmd *k, const char *text);
/* Sends GET for a name; with `lease`, a miss is answered with a lease. */
void warmd_get(int fd, uint64_t tag, const char *name, bool lease, uint32_t wait_ms);
/* Sends PUT of a name; `token` is the lease's, or 0. */
void warmd_put(int fd, uint64_t tag, const char *name, const char *value, uint64_t token);
/* Expects a HIT with this inline value. */
void warmd_expect_hit(int fd, uint64_t tag, const char *value);
/* Expects a LEASE and returns its token. */
uint64_t warmd_expect_lease(int fd, uint64_t tag);
/* Expects that warmd serves others: one native and one RESP round trip. */
void warmd_expect_alive(const struct warmd *k);
/* True if VERIFY, which only administrators may send, gets a report. Closes the connection. */
bool warmd_may_verify(int fd);

#endif
