/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer.h - identifies the peer of a connection, as the kernel says, and tells which entries it may see.
 *
 * Puts of clients are kept in a space: the entries' owner. A user's space is the uid. The members of
 * the group that the administrator trusts share one space, PEER_TRUST_SPACE. No user may have that
 * number or a higher one: a peer with such a uid is refused.
 *
 * Thread: loop thread. Memory: embedded by its user.
 */
#ifndef WARM_DAEMON_USERS_PEER_H
#define WARM_DAEMON_USERS_PEER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "keygen/err.h"
#include "store/store.h"

#define PEER_TRUST_SPACE 0xfffffffdu /* owner of the puts of the trusted group's members */
_Static_assert(PEER_TRUST_SPACE < STORE_MADE_HERE, "reserved owners are the highest numbers");

struct peer {
    uint32_t uid;
    uint32_t space;   /* owner of the entries that this peer puts and gets by name */
    pid_t pid;        /* for logs only: another process may have it by now */
    uint32_t session; /* of history.h; 0: none */
    char project[32]; /* "" for none */
    bool administers; /* its requests count neither as hits nor as misses */
    bool is_admin;    /* may list and evict everything */
};

/* The uid of a peer that is no user: the readers of a TCP port. No process has it, and no entry's owner. */
#define PEER_NO_USER 0xffffffffu
/* Nobody is in it. */
#define PEER_NO_GROUP ((gid_t)-1)
/* Finds the number of the trusted group from its name or digits; PEER_NO_GROUP for "". NOT_FOUND;
 * INVALID for other digits. */
int peer_find_group(const char *name, gid_t *out, struct err *e);

/* Identifies the peer of a socket. With `admits_admin`, for a socket that others cannot use, root
 * and the daemon's own user are administrators. Other sockets have no administrators: one may lie
 * in a container, whose root is another user. IO; DENIED for a reserved uid. */
int peer_identify(int fd, gid_t trust_group, bool admits_admin, struct peer *out, struct err *e);

/* True if the peer may have an entry by its key alone: an entry of its space, one that it made, and
 * for an administrator any. */
bool peer_may_see(const struct peer *peer, const struct store_row *row);

#endif
