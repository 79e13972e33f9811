/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer.c - decides who is at the other end of a socket and which entries that peer may see.
 *
 * SO_PEERCRED and SO_PEERGROUPS (unix(7)) are fixed by the kernel when the peer connects. server.c asks for
 * each connection; the service asks peer_may_see.
 *
 * Thread: loop thread.
 */
#include "daemon/users/peer.h"

#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define PEER_GROUPS_MAX 65536 /* NGROUPS_MAX of Linux */

int peer_find_group(const char *name, gid_t *out, struct err *e)
{
    *out = PEER_NO_GROUP;
    if (!*name)
        return 0;
    if (isdigit((unsigned char)*name)) {
        char *end;
        unsigned long n = strtoul(name, &end, 10);
        if (*end || n >= PEER_NO_GROUP)
            return err_set(e, WARM_EINVALID, "trust_group: \"%s\" is no group", name);
        *out = (gid_t)n;
        return 0;
    }
    const struct group *group = getgrnam(name);
    if (!group)
        return err_set(e, WARM_ENOT_FOUND, "trust_group: there is no group \"%s\"", name);
    *out = group->gr_gid;
    return 0;
}

static bool peer_in_group(int fd, gid_t primary, gid_t wanted)
{
    if (wanted == PEER_NO_GROUP)
        return false;
    if (primary == wanted)
        return true;
    gid_t few[64], *groups = few;
    socklen_t len = sizeof few;
    int rc = getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &len);
    if (rc != 0 && errno == ERANGE && len <= PEER_GROUPS_MAX * sizeof(gid_t)) {
        groups = malloc(len);
        rc = groups ? getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &len) : -1;
    }
    bool found = false;
    for (size_t i = 0; rc == 0 && !found && i < len / sizeof(gid_t); i++)
        found = groups[i] == wanted;
    if (groups != few)
        free(groups);
    return found;
}

int peer_identify(int fd, gid_t trust_group, bool admits_admin, struct peer *out, struct err *e)
{
    struct ucred cred;
    socklen_t len = sizeof cred;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0)
        return err_sys(e, WARM_EIO, errno, "cannot tell who is connecting");
    if (cred.uid >= PEER_TRUST_SPACE)
        return err_set(e, WARM_EDENIED, "uid %u is reserved", (unsigned)cred.uid);
    *out = (struct peer){
        .uid = cred.uid,
        .space = peer_in_group(fd, cred.gid, trust_group) ? PEER_TRUST_SPACE : cred.uid,
        .pid = cred.pid,
        .is_admin = admits_admin && (cred.uid == 0 || cred.uid == geteuid()),
    };
    return 0;
}

bool peer_may_see(const struct peer *peer, const struct store_row *row)
{
    return peer->is_admin || row->id.owner == peer->space || row->maker == peer->uid;
}
