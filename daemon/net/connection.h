/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connection.h - one client's socket: bytes and descriptors in, bytes and descriptors out.
 *
 *     recvmsg ─▶ input ─▶ on_bytes (native, redis or http, told apart by the first bytes)
 *                             │ connection_begin … connection_commit
 *     sendmsg ◀─ output ◀─────┘        one sendmsg for all answers of a turn
 *
 * A descriptor goes with the first byte of its frame: what comes before it is sent on its own. What
 * the socket does not take is queued; while much is queued, nothing more is read (back-pressure).
 *
 *     silent ──first message──▶ open ──end of input──▶ answering what is left ──▶ closed
 *        │ 10 s                  │ half a message, or a full queue, and no progress for 30 s
 *        └───────────────────────┴──▶ closed
 *
 * Thread: loop thread. Memory: a connection lives until its handle's close callback; a protocol may
 * use it until its on_close is called.
 */
#ifndef WARM_DAEMON_NET_CONNECTION_H
#define WARM_DAEMON_NET_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/service/service.h"
#include "daemon/users/peer.h"
#include "keygen/bytes.h"

struct connection;
struct server;
struct resp_command;

/* What a protocol is to a connection. */
struct protocol {
    /* Makes the protocol's state for a connection; NULL: no memory. */
    void *(*open)(struct connection *c);
    /* Takes one message from the front of `data`. Returns how many bytes it took; 0 if the message
     * is not complete; negative if the connection is to end (what was committed is still sent). */
    long (*on_bytes)(void *state, const uint8_t *data, size_t len);
    /* The client will send no more, but may still read. Returns true if answers are on their way
     * that it should get. */
    bool (*on_end)(void *state);
    /* True if part of a message is held by the protocol. */
    bool (*is_partial)(const void *state);
    /* True if nothing would be lost with the connection: nothing is awaited, held or half done. */
    bool (*is_idle)(const void *state);
    /* The connection is gone: free the state. */
    void (*on_close)(void *state);
};

/* Takes the socket. NULL: no memory, and the socket is closed. */
struct connection *connection_new(struct server *server, int fd, const struct peer *peer);
/* Closes the socket, and frees the connection when libuv has closed its handle. */
void connection_close(struct connection *c);

/* Returns who is at the other end; lives as long as the connection. */
const struct peer *connection_peer(const struct connection *c);
/* Returns the service of the server. */
struct service *connection_service(const struct connection *c);
/* The client says which session it belongs to: connection_peer's `session` from now on. */
void connection_join(struct connection *c, struct view session_id);
/* Scratch space for one parsed command, shared by all connections. */
struct resp_command *connection_command(const struct connection *c);

/* Where to append an answer; then connection_commit. Nothing else may be begun in between. */
struct writer *connection_begin(struct connection *c);
/* What was appended since connection_begin goes out, with `n_fds` descriptors, which are taken. */
void connection_commit(struct connection *c, const int *fds, unsigned n_fds);
/* The same with the descriptor of an artifact (which is referenced). The receiver gets an open file
 * description of its own, made when it is sent. */
void connection_commit_artifact(struct connection *c, struct artifact *a);
/* Bytes that stay where they are until the store's turn ends; after a commit. */
void connection_borrow(struct connection *c, const void *data, size_t len);
/* An artifact's bytes; after a commit. */
void connection_share(struct connection *c, struct artifact *a);
/* The first `len` bytes of a file (taken); after a commit. */
void connection_send_file(struct connection *c, int fd, uint64_t len);

/* The base64 of `len` bytes of a file (taken) from `from` on; after a commit. It is encoded as the
 * socket takes it. */
void connection_send_base64(struct connection *c, int fd, uint64_t from, uint64_t len);

/* Takes `n` descriptors that came along, in order. False, and none taken, if there are fewer. */
bool connection_take_fds(struct connection *c, unsigned n, int *out);

/* Messages are left alone until connection_resume: to keep answers in order. */
void connection_hold(struct connection *c);
/* Handles messages again, those first that are in the input already. */
void connection_resume(struct connection *c);
/* The same, but others have their turn first: for work that is done in slices. */
void connection_resume_later(struct connection *c);
/* True if a message that goes on for long should leave the rest for another turn: there is enough
 * output, or this turn has lasted long enough. Then: connection_yield, and no more of it now. */
bool connection_must_yield(const struct connection *c);
/* The message stays in the input (on_bytes returns 0) and comes again when it can go on. */
void connection_yield(struct connection *c);
/* The next message may be partial: it is progress all the same. */
void connection_greeted(struct connection *c);

#endif
