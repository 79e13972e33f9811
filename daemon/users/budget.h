/* SPDX-License-Identifier: Apache-2.0 */
/*
 * budget.h - limits what one user may take of the daemon: one table for all that the daemon hands out.
 *
 *     budget_take ──▶ true: counted until budget_give
 *                 ──▶ false: over the user's budget, or more than the others have left
 *
 * A row of the table has a limit for each user and one for all users together; 0 is no limit. A
 * user may take no more of the total than is left of it. If n users take all that they can get,
 * each has 1/(n + 1) of the total. As much is left for the next one. (Dynamic thresholds:
 * Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches", 1998.)
 *
 * Bytes of the store (`space`, `pins`) are counted by the store itself, which asks for their limits
 * at open; the table lists them so that all budgets stand in one place.
 *
 * Thread: loop thread. Memory: a user who holds nothing takes none.
 */
#ifndef WARM_DAEMON_USERS_BUDGET_H
#define WARM_DAEMON_USERS_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keygen/bytes.h"
#include "keygen/err.h"

/* name, for a user, for all users, unit, what it is of */
#define BUDGET_LIST(X)                                                                             \
    X(connections, 1024, 0, "connections", "open at a time")                                       \
    X(buffers, 128u << 20, 512u << 20, "bytes", "answers not read yet, requests not complete yet") \
    X(descriptors, 256, 2048, "descriptors", "in those, and in values that wait to be written")    \
    X(calls, 8192, 65536, "requests", "lookups and compiles that wait for an answer")              \
    X(leases, 8192, 65536, "leases", "given out and not yet fulfilled")                            \
    X(compiles, 256, 0, "compiles", "from the source on until there is a result")                  \
    X(puts, 256u << 20, 1u << 30, "bytes", "values in the daemon's memory that are to be written") \
    X(checks, 64, 256, "values", "large ones that are verified before they are first sent")        \
    X(rank_jobs, 16, 64, "jobs", "whose ranks get one answer to one question")                     \
    X(rank_bytes, 32u << 20, 256u << 20, "bytes", "answers that are kept for those ranks")         \
    X(tier_asks, 24, 40, "requests", "to the tier at a time; of more, users take turns")           \
    X(tier_waits, 256, 1024, "entries", "that the tier is asked for, or is to be asked for")       \
    X(space, 0, 0, "bytes", "of the store, by who put or first asked for an entry")                \
    X(pins, 0, 0, "bytes", "of the store that eviction may not take")

enum budget {
#define X(name, user, all, unit, help) BUDGET_##name,
    BUDGET_LIST(X)
#undef X
        BUDGETS
};

/* Returns the name in BUDGET_LIST. Static memory. */
const char *budget_name(enum budget what);
/* Returns the unit in BUDGET_LIST. Static memory. */
const char *budget_unit(enum budget what);
/* Returns the limit for each user; 0: none. */
uint64_t budget_limit(enum budget what);
/* Returns the limit for all users together; 0: none. */
uint64_t budget_total_limit(enum budget what);
/* Sets other limits from now on. Holdings stay. */
void budget_set(enum budget what, uint64_t for_user, uint64_t for_all);

/* Counts `n` more of a user's. False, and nothing is counted, if that is too much, or there is no
 * memory. */
bool budget_take(uint32_t uid, enum budget what, uint64_t n);
/* Counts like budget_take, with an error that names the budget: TOO_BIG. */
int budget_ask(uint32_t uid, enum budget what, uint64_t n, struct err *e);
/* Counts `n` more even if that is too much, for holdings that exist already. False without
 * memory. */
bool budget_charge(uint32_t uid, enum budget what, uint64_t n);
/* Gives back `n` that were taken or charged. */
void budget_give(uint32_t uid, enum budget what, uint64_t n);
/* True if a budget_take of `n` would succeed. */
bool budget_has(uint32_t uid, enum budget what, uint64_t n);

/* Returns how much the user holds. */
uint64_t budget_used(uint32_t uid, enum budget what);
/* Returns how much all users hold together. */
uint64_t budget_used_by_all(enum budget what);

/* Finds the user who holds the most. False if nobody holds any. */
bool budget_largest(enum budget what, uint32_t *out_uid);
/* Lists the users who hold anything, at most `cap`, in no order; returns how many. */
size_t budget_users(uint32_t *out, size_t cap);

#endif
