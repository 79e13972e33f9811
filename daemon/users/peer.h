/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer.h - who is at the other end of a connection, as the kernel says, and what is theirs.
 *
 * What clients put is kept in a space: the entries' owner. A user's space is the uid. The members
 * of the group that the administrator trusts share one space, PEER_TRUST_SPACE. That number and
 * those above it are not given to users: a peer with such a uid is refused.
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

#define PEER_TRUST_SPACE 0xfffffffdu /* owner of what members of the trusted group put */
_Static_assert(PEER_TRUST_SPACE < STORE_MADE_HERE, "reserved owners are the highest numbers");

struct peer {
    uint32_t uid;
    uint32_t space;   /* owner of what this peer puts and gets by name */
    pid_t pid;        /* for logs only: a pid may be somebody else's by now */
    uint32_t session; /* of history.h; 0: none */
    bool is_admin;    /* may list and evict everything */
};

#define PEER_NO_GROUP ((gid_t)-1)
/* Finds the number of the group that shares, from its name or digits; PEER_NO_GROUP for "".
 * NOT_FOUND. */
int peer_find_group(const char *name, gid_t *out, struct err *e);

/* Who is at the other end of the socket. With `admits_admin`, of a socket that others cannot use,
 * root and the user whom the daemon runs as are administrators. On any other socket nobody is: it may
 * lie in a container, whose root is somebody else. IO; DENIED for a uid that is reserved here. */
int peer_identify(int fd, gid_t trust_group, bool admits_admin, struct peer *out, struct err *e);

/* What the daemon may hand to this peer by key alone: what is in its space, what it made, and to an
 * administrator everything. */
bool peer_may_see(const struct peer *peer, const struct store_row *row);

#endif
