/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connection.h - one client's socket: bytes and descriptors in, bytes and descriptors out.
 *
 *     recvmsg ─▶ input ─▶ on_bytes (native, redis or http, told apart by the first bytes)
 *                             │ connection_begin … connection_commit
 *     sendmsg ◀─ output ◀─────┘        one sendmsg for all answers of a turn
 *
 * A descriptor is sent with the first byte of its frame: the bytes before it are sent on their own. Bytes
 * that the socket does not take are queued; while much is queued, nothing more is read (back-pressure).
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
struct resp_command;

enum protocol_fit {
    PROTOCOL_IS_OTHER,
    PROTOCOL_FITS,
    PROTOCOL_NEEDS_MORE, /* bytes: they may be the beginning of its first message */
};

/* A protocol, as a connection sees it. */
struct protocol {
    bool takes_fds; /* messages may carry descriptors */
    /* Decides whether the first bytes of a connection, one at least, are of this protocol. */
    enum protocol_fit (*fits)(const uint8_t *data, size_t len);
    /* Makes the protocol's state for a connection; NULL: no memory. */
    void *(*open)(struct connection *c);
    /* Takes one message from the front of `data`. Returns its bytes; 0 if the message is not
     * complete; negative if the connection must end (committed answers are still sent). */
    long (*on_bytes)(void *state, const uint8_t *data, size_t len);
    /* Tells that the client will send no more, but may still read. Returns true if answers are on
     * their way that it should get. */
    bool (*on_end)(void *state);
    /* True if the protocol holds part of a message. */
    bool (*is_partial)(const void *state);
    /* True if nothing would be lost with the connection: nothing is awaited, held or half done. */
    bool (*is_idle)(const void *state);
    /* Frees the state: the connection is gone. */
    void (*on_close)(void *state);
};

/* Returns the peer, borrowed. */
const struct peer *connection_peer(const struct connection *c);
/* Returns the service. */
struct service *connection_service(const struct connection *c);
/* Joins the session that the client names: connection_peer's `session` from now on. */
void connection_join(struct connection *c, struct view session_id);
/* Notes the project of the client, and of its session. "": none. */
void connection_set_project(struct connection *c, struct view name);
/* Makes the client's requests count neither as hits nor as misses. */
void connection_administer(struct connection *c);
/* Returns scratch space for one parsed command, shared by all connections. */
struct resp_command *connection_command(const struct connection *c);

/* Returns the writer for an answer; then call connection_commit. Nothing else may begin in
 * between. */
struct writer *connection_begin(struct connection *c);
/* Sends the bytes appended since connection_begin, with `n_fds` descriptors, which are taken. */
void connection_commit(struct connection *c, const int *fds, unsigned n_fds);
/* Sends the bytes appended since connection_begin, with the descriptor of an artifact (which is
 * referenced). The receiver gets an open file description of its own. */
void connection_commit_artifact(struct connection *c, struct artifact *a);
/* Sends bytes that stay in place until the store's turn ends; after a commit. */
void connection_borrow(struct connection *c, const void *data, size_t len);
/* Sends an artifact's bytes; after a commit. */
void connection_share(struct connection *c, struct artifact *a);
/* Sends the first `len` bytes of a file (taken); after a commit. */
void connection_send_file(struct connection *c, int fd, uint64_t len);

/* Sends the base64 of `len` bytes of a file (taken) from `from` on; after a commit. It is encoded
 * as the socket takes it. */
void connection_send_base64(struct connection *c, int fd, uint64_t from, uint64_t len);

/* Takes `n` descriptors that came along, in order. False, and none is taken, if there are fewer. */
bool connection_take_fds(struct connection *c, unsigned n, int *out);

/* Parses no message until connection_resume, so that answers stay in order. Answers are still sent. */
void connection_hold(struct connection *c);
/* Parses messages again. */
void connection_resume(struct connection *c);
/* Resumes after other connections had their turn: for work that is done in slices. */
void connection_resume_later(struct connection *c);
/* True if a long message should leave the rest for another turn: there is enough output, or this
 * turn has lasted long enough. Then call connection_yield, and stop for now. */
bool connection_must_yield(const struct connection *c);
/* Keeps the message in the input (on_bytes returns 0): it comes again when it can go on. */
void connection_yield(struct connection *c);
/* Notes progress: the first message is complete, and the next may be partial. */
void connection_greeted(struct connection *c);

#endif
