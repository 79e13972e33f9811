/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier.h - the store beyond the machine, as the service uses it: asked after a local miss, and given what
 * was made here.
 *
 *     a miss ──▶ try_tier ──▶ warm-tier: GET entry, GET its value ──▶ verified ──▶ put ──▶ the ask goes on
 *     a put is on disk ──▶ tier_offer ──▶ queue ──▶ warm-tier: PUT value, PUT entry
 *
 * An entry counts only if a trusted key signed it and it answers the request. Its value must have its length
 * and both digests (tier/entry.h). All that can go wrong is a miss; tier_fetch.c says how long an
 * asker waits. After FAILURES_MAX failures in a row nobody waits, until the daemon itself has seen that the
 * tier answers again. A definite miss is remembered for ABSENT_MS; an error is no miss.
 *
 * tier_travels (tier_rules.c) decides which entries travel. Names, labels and proofs do not leave the machine.
 *
 * Thread: loop thread, but for the digests of large values. Memory: tier_close frees it.
 */
#ifndef WARM_DAEMON_NODES_TIER_H
#define WARM_DAEMON_NODES_TIER_H

#include <uv.h>

#include "daemon/compiler/spawner.h"
#include "daemon/history/stats.h"
#include "daemon/nodes/signers.h"
#include "daemon/process/config.h"
#include "store/store.h"

struct tier;

/* What a tier has of its daemon. All borrowed until tier_close. */
struct tier_host {
    uv_loop_t *loop;
    const struct config *config;
    struct store *store;
    struct stats *stats;
    const struct signers *signers;
    struct spawner *spawner;
    /* True if somebody here makes an entry, or it is on its way to the disk. */
    bool (*is_made)(void *arg, const struct store_id *id);
    /* Returns when the oldest put on its way to the disk came; UINT64_MAX: there is none. */
    uint64_t (*first_put_ns)(void *arg);
    /* Runs the clock of look-ups (tier_fetch.c); and ends them. */
    void (*on_tick)(struct tier *t);
    void (*on_stop)(struct tier *t);
    void *arg;
};

/* Makes the tier of a configuration, and starts the helper. *out is NULL if none is configured. INVALID: a setting
 * of it is wrong; IO, NOMEM. */
int tier_new(struct tier **out, const struct tier_host *host, struct err *e);
/* Ends all waits: the asks go on without it, and nobody waits any more. NULL is fine. */
void tier_stop(struct tier *t);
/* Ends the helper and frees all. The loop must run once more. NULL is fine. */
void tier_close(struct tier *t);

/* True if an entry with a value of `len` bytes that took `cost_ms` is not sent: the tier's settings say so, or it is
 * of no use elsewhere. Only `warm tier push` sends it. */
bool tier_keeps(const struct tier *t, const struct store_row *row, uint64_t len, uint32_t cost_ms);
/* Returns the marks of an entry that is about to be put, and notes what making it took. */
uint32_t tier_marks(struct tier *t, const struct store_row *row, bool from_tier);
/* Queues an entry that is on disk now and has STORE_TIER_WAITS: by its id, length, cost and digest. */
void tier_offer(struct tier *t, const struct store_row *row);
/* Marks entries as waiting; `cb` gets those that were not. UNSUPPORTED: no tier (NULL), or no key; NOMEM. */
int tier_push(struct tier *t, const struct store_id *ids, size_t n, store_report_cb cb, void *arg,
              struct err *e);

/* True if nothing is left that could be sent now. NULL is fine. */
bool tier_has_sent_all(const struct tier *t);
/* True if no lease is asked for, or is still to be given back. NULL is fine. */
bool tier_has_let_go(const struct tier *t);
/* Writes what must not be lost, once a minute and at the end. NULL is fine. */
void tier_save(struct tier *t);
/* Writes the member "tier" of STATS. NULL is fine. */
void tier_write_json(const struct tier *t, struct writer *out);
/* Writes the metrics of the tier. NULL is fine. */
void tier_write_metrics(const struct tier *t, struct writer *out);

#endif
