/* SPDX-License-Identifier: Apache-2.0 */
/*
 * budget.c - decides whether a user may take more of the daemon, in a hash table of the users who hold
 * anything.
 *
 * Invariant:
 *   (1) `all[what]` is the sum of `used[what]` over all users in the table.
 *
 * Every place that gives something to users calls it.
 *
 * Thread: loop thread.
 */
#include "daemon/users/budget.h"

#include <assert.h>
#include <stdlib.h>

#define SLOTS_FIRST 64u

struct user {
    uint32_t uid;
    bool there;
    uint64_t used[BUDGETS];
};

static const struct {
    const char *name, *unit;
} rows[BUDGETS] = {
#define X(name, user, all, unit, help) {#name, unit},
    BUDGET_LIST(X)
#undef X
};

static uint64_t limits[BUDGETS] = {
#define X(name, user, all, unit, help) user,
    BUDGET_LIST(X)
#undef X
};

static uint64_t total_limits[BUDGETS] = {
#define X(name, user, all, unit, help) all,
    BUDGET_LIST(X)
#undef X
};

static struct user *users; /* n_slots of them, a power of two */
static size_t n_slots, n_users;
static uint64_t all[BUDGETS];

const char *budget_name(enum budget what) { return rows[what].name; }
const char *budget_unit(enum budget what) { return rows[what].unit; }
uint64_t budget_limit(enum budget what) { return limits[what]; }
uint64_t budget_total_limit(enum budget what) { return total_limits[what]; }

void budget_set(enum budget what, uint64_t for_user, uint64_t for_all)
{
    limits[what] = for_user;
    total_limits[what] = for_all;
}

/* ---- the table: linear probing, as in Knuth, TAOCP 3, 6.4, algorithms L and R ---- */

static size_t slot_of(uint32_t uid)
{
    return (size_t)(uid * 0x9e3779b97f4a7c15u >> 32) & (n_slots - 1);
}

/* Finds a user's slot, or the free slot for it. There is always a free one. */
static struct user *slot_find(uint32_t uid)
{
    assert(2 * n_users <= n_slots); /* half of them are free */
    size_t i = slot_of(uid);
    while (users[i].there && users[i].uid != uid)
        i = (i + 1) & (n_slots - 1);
    return &users[i];
}

static bool table_grow(void)
{
    struct user *old = users;
    size_t n_old = n_slots, n = n_slots ? 2 * n_slots : SLOTS_FIRST;
    struct user *grown = calloc(n, sizeof *grown);
    if (!grown)
        return false;
    assert(n > n_users && (n & (n - 1)) == 0);
    users = grown;
    n_slots = n;
    for (size_t i = 0; i < n_old; i++)
        if (old[i].there)
            *slot_find(old[i].uid) = old[i];
    free(old);
    return true;
}

static struct user *user_make(uint32_t uid)
{
    struct user *u = n_slots ? slot_find(uid) : NULL;
    if (u && u->there)
        return u;
    if (2 * (n_users + 1) > n_slots && !table_grow())
        return NULL;
    u = slot_find(uid);
    *u = (struct user){.uid = uid, .there = true};
    n_users++;
    return u;
}

/* Frees a user's slot, and moves the users behind it that would not be found any more. */
static void user_forget(struct user *u)
{
    size_t hole = (size_t)(u - users), i = hole;
    assert(u->there && n_users);
    u->there = false;
    n_users--;
    for (;;) {
        i = (i + 1) & (n_slots - 1);
        if (!users[i].there)
            return;
        size_t home = slot_of(users[i].uid);
        if (((i - home) & (n_slots - 1)) < ((i - hole) & (n_slots - 1)))
            continue; /* its home lies behind the hole */
        users[hole] = users[i];
        users[i].there = false;
        hole = i;
    }
}

static bool holds_nothing(const struct user *u)
{
    for (unsigned i = 0; i < BUDGETS; i++)
        if (u->used[i])
            return false;
    return true;
}

/* ---- taking and giving ---- */

uint64_t budget_used(uint32_t uid, enum budget what)
{
    const struct user *u = n_slots ? slot_find(uid) : NULL;
    return u && u->there ? u->used[what] : 0;
}

uint64_t budget_used_by_all(enum budget what) { return all[what]; }

bool budget_has(uint32_t uid, enum budget what, uint64_t n)
{
    uint64_t used = all[what] ? budget_used(uid, what) : 0;
    uint64_t limit = limits[what], total = total_limits[what];
    if (limit && (n > limit || used > limit - n))
        return false;
    uint64_t left = total > all[what] ? total - all[what] : 0;
    return !total || (n <= left && used <= left - n);
}

bool budget_charge(uint32_t uid, enum budget what, uint64_t n)
{
    struct user *u = n ? user_make(uid) : NULL;
    assert((unsigned)what < BUDGETS);
    if (u) {
        u->used[what] += n;
        all[what] += n;
    }
    return u || !n;
}

bool budget_take(uint32_t uid, enum budget what, uint64_t n)
{
    return budget_has(uid, what, n) && budget_charge(uid, what, n);
}

int budget_ask(uint32_t uid, enum budget what, uint64_t n, struct err *e)
{
    if (budget_take(uid, what, n))
        return 0;
    return err_set(e, WARM_ETOO_BIG, "uid %u has too much under way: %llu of %llu %s (%s)",
                   (unsigned)uid, (unsigned long long)budget_used(uid, what),
                   (unsigned long long)limits[what], rows[what].unit, rows[what].name);
}

void budget_give(uint32_t uid, enum budget what, uint64_t n)
{
    if (!n)
        return;
    assert((unsigned)what < BUDGETS && n_slots);
    struct user *u = slot_find(uid);
    assert(u->there && u->used[what] >= n && all[what] >= n);
    u->used[what] -= n;
    all[what] -= n;
    if (holds_nothing(u))
        user_forget(u);
}

bool budget_largest(enum budget what, uint32_t *out_uid)
{
    const struct user *most = NULL;
    for (size_t i = 0; all[what] && i < n_slots; i++)
        if (users[i].there && users[i].used[what] > (most ? most->used[what] : 0))
            most = &users[i];
    if (most)
        *out_uid = most->uid;
    return most != NULL;
}

size_t budget_users(uint32_t *out, size_t cap)
{
    size_t n = 0;
    for (size_t i = 0; i < n_slots && n < cap; i++)
        if (users[i].there)
            out[n++] = users[i].uid;
    return n;
}
