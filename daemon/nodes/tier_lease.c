/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier_lease.c - keeps leases beyond the machine: while this daemon has one, no other node makes that key.
 *
 * The happy path:
 *   1. the tier has no such object, and gives the lease with that answer (tier_fetch.c);
 *   2. an asker of this daemon makes the key; the lease is renewed three times in its length;
 *   3. the entry is sent with FINISH, which ends the lease in the same step.
 * Failures:
 *   - nobody makes the key any more, or its entry is not worth sending: RELEASE, and another node has the
 *     lease at its next question;
 *   - nobody wants the answer of an ASK any more: RELEASE, whether it was a lease or is not known;
 *   - this daemon dies, hangs or loses its network: the lease ends after tier_lease;
 *   - a RENEW is on its way meanwhile: RELEASE follows its answer; one that fails is sent again, for a while;
 *   - the lease is lost: the key is made and sent all the same;
 *   - the entry cannot be sent for SEND_LIMIT_MS: RELEASE.
 *
 * Thread: loop thread.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "daemon/nodes/tier_state.h"
#include "keygen/list.h"

#define LEASE_OP_MS 2000u
#define AGAIN_MS 100u /* between two tries to give a lease back */
#define SEND_LIMIT_MS 5000u

void tier_lease_token(uint8_t out[TIER_TOKEN_SIZE])
{
    if (getrandom(out, TIER_TOKEN_SIZE, 0) != TIER_TOKEN_SIZE)
        abort(); /* it does not fail for 16 bytes: getrandom(2) */
}

struct tier_lease *tier_lease_find(const struct tier *t, const struct store_id *id)
{
    struct tier_lease *l = t->leases;
    while (l && (l->is_over || !store_id_equal(&l->id, id)))
        l = l->next;
    return l;
}

static uint64_t lease_ms(const struct tier *t) { return t->host.config->tier_lease_ms; }

static struct tier_lease *lease_new(struct tier *t, const struct store_id *id,
                                    const struct tier_ask *ask)
{
    assert(ask->operation == TIER_ASK && *ask->name);
    struct tier_lease *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->tier = t;
    l->id = *id;
    memcpy(l->name, ask->name, sizeof l->name);
    memcpy(l->token, ask->token, sizeof l->token);
    l->slot = ask->slot;
    l->next_ms = tier_now_ms(t) + lease_ms(t) / 3;
    LIST_ADD(t->leases, l);
    tier_tick_start(t);
    return l;
}

void tier_lease_add(struct tier *t, const struct store_id *id, const struct tier_ask *ask)
{
    if (tier_lease_find(t, id) || !lease_new(t, id, ask))
        return;
    stats_add(t->host.stats, STATS_tier_leases, STORE_OTHER, 1);
}

bool tier_lease_offered(struct tier *t, const struct store_id *id)
{
    struct tier_lease *l = tier_lease_find(t, id);
    if (l && !l->offered_ms)
        l->offered_ms = tier_now_ms(t);
    return l != NULL;
}

static void lease_free(struct tier_lease *l)
{
    assert(l->is_over && !l->is_busy);
    LIST_REMOVE(l->tier->leases, l);
    free(l);
}

static void lease_leave(struct tier_lease *l);

static void on_answer(struct tier_errand *errand, const struct tier_answer *a, int fd)
{
    struct tier_lease *l = errand->user;
    assert(l->is_busy);
    l->is_busy = false;
    l->is_lost |= a->outcome == TIER_ABSENT;
    if (fd >= 0)
        close(fd);
    if (errand->ask.operation == TIER_RELEASE) {
        l->is_owed &= a->outcome != TIER_OK;
        l->next_ms = tier_now_ms(l->tier) + AGAIN_MS;
    }
    if (l->is_over)
        lease_leave(l);
}

static bool lease_send(struct tier_lease *l, enum tier_operation operation)
{
    assert(!l->is_busy); /* it has one request */
    l->errand = (struct tier_errand){.fd = -1,
                                     .done = on_answer,
                                     .user = l,
                                     .ask = {.operation = operation,
                                             .timeout_ms = LEASE_OP_MS,
                                             .lease_ms = lease_ms(l->tier),
                                             .slot = l->slot}};
    memcpy(l->errand.ask.name, l->name, sizeof l->name);
    memcpy(l->errand.ask.token, l->token, sizeof l->token);
    l->is_busy = tier_link_send(l->tier->link, &l->errand);
    return l->is_busy;
}

/* Gives a lease that is over back, if it must, as soon as it may ask; then frees it. */
static void lease_leave(struct tier_lease *l)
{
    assert(l->is_over && !l->is_busy);
    uint64_t now = tier_now_ms(l->tier);
    bool gives = l->is_owed && !l->is_lost && now < l->give_up_ms;
    if (!gives || (now >= l->next_ms && !lease_send(l, TIER_RELEASE)))
        lease_free(l);
}

/* Forgets a lease. With `give`, gives it back first. */
static void lease_over(struct tier_lease *l, bool give)
{
    assert(!l->is_over);
    l->is_over = true;
    l->is_owed = give;
    l->next_ms = tier_now_ms(l->tier);
    l->give_up_ms = l->next_ms + 2 * LEASE_OP_MS; /* one for a RENEW that is on its way */
    if (!l->is_busy)
        lease_leave(l);
}

void tier_lease_decline(struct tier *t, const struct store_id *id, const struct tier_ask *ask)
{
    struct tier_lease *l = lease_new(t, id, ask);
    if (l)
        lease_over(l, true);
}

void tier_lease_sent(struct tier *t, const struct store_id *id)
{
    struct tier_lease *l = tier_lease_find(t, id);
    if (l)
        lease_over(l, false);
}

void tier_lease_end(struct tier *t, const struct store_id *id)
{
    struct tier_lease *l = tier_lease_find(t, id);
    if (l)
        lease_over(l, true);
}

/* True if somebody here still makes the key, or its entry is on its way. */
static bool lease_is_used(const struct tier_lease *l, uint64_t now)
{
    if (l->offered_ms)
        return tier_queue_has(l->tier, &l->id) && now - l->offered_ms < SEND_LIMIT_MS;
    return l->tier->host.is_made(l->tier->host.arg, &l->id);
}

void tier_leases_tick(struct tier *t)
{
    uint64_t now = tier_now_ms(t);
    for (struct tier_lease *l = t->leases, *next; l; l = next) {
        next = l->next;
        if (l->is_busy)
            continue;
        if (l->is_over) {
            lease_leave(l);
        } else if (!lease_is_used(l, now)) {
            lease_over(l, true);
        } else if (now >= l->next_ms) {
            l->next_ms = now + lease_ms(t) / 3;
            lease_send(l, TIER_RENEW);
        }
    }
}

size_t tier_leases_count(const struct tier *t)
{
    size_t n = 0;
    for (const struct tier_lease *l = t->leases; l; l = l->next)
        n += !l->is_over;
    return n;
}

void tier_leases_close(struct tier *t)
{
    for (struct tier_lease *l = t->leases, *next; l; l = next) {
        next = l->next;
        if (!l->is_over)
            lease_over(l, true);
    }
}

void tier_leases_free(struct tier *t)
{
    while (t->leases) {
        t->leases->is_over = true;
        lease_free(t->leases);
    }
}
