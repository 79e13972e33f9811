/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier_moves.h - `warm tier status`, `push` and `pull`: what the daemon's tier does, entries sent there, and
 * entries brought from there.
 *
 * Thread: main. Memory: texts are borrowed from the command line.
 */
#ifndef WARM_CLI_COMMANDS_TIER_MOVES_H
#define WARM_CLI_COMMANDS_TIER_MOVES_H

#include "client/cli/remote.h"

/* What push and pull move. */
struct tier_moves {
    struct wire_filter filter; /* push */
    const char *session;       /* push: what it used; NULL: entries of any */
    uint64_t since_ms;         /* push: made or used since, Unix time; 0: of any age */
    uint64_t max_entries, max_bytes;
    bool dry_run;
};

/* Prints the state of the tier. Returns an exit status. */
int tier_moves_status(struct remote *r);
/* Has the daemon send the entries that match to its tier, the costliest first. Returns an exit status. */
int tier_moves_push(struct remote *r, const struct tier_moves *m);
/* Asks for the entries in a list of `warm ls --json`, so that the daemon brings those that are not here from
 * its tier. Returns an exit status. */
int tier_moves_pull(struct remote *r, const struct tier_moves *m, const char *list);

#endif
