/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier.h - the store beyond the machine, as the service uses it: asked after a local miss, and given what
 * was made here.
 *
 *     a miss ──▶ tier_ask ──▶ warm-tier: GET entry, GET its value ──▶ verified ──▶ put ──▶ `again`
 *     a put is on disk ──▶ tier_offer ──▶ queue ──▶ warm-tier: PUT value, PUT entry
 *
 * An entry counts only if a trusted key signed it, it is the one that was asked for, and its value has its
 * length and both digests (tier/entry.h). All that can go wrong is a miss. An asker waits for at most
 * ASK_MS, and for a large value longer by its size. After FAILURES_MAX failures in a row nobody waits for
 * OFF_MS. A definite miss is remembered for ABSENT_MS; an error is no miss.
 *
 * The tier is the daemon's own user's: what other users put, or had compiled, is not sent, and they do not
 * ask there. Names, labels and proofs do not leave the machine.
 *
 * Thread: loop thread, but for the digests of large values. Memory: tier_close frees it.
 */
#ifndef WARM_DAEMON_SERVICE_TIER_H
#define WARM_DAEMON_SERVICE_TIER_H

#include "daemon/compiler/spawner.h"
#include "daemon/service/call.h"
#include "daemon/service/service.h"

struct tier;

/* Makes the tier of the service's configuration, and starts the helper. *out is NULL if none is
 * configured. INVALID: a setting of it is wrong; IO, NOMEM. */
int tier_new(struct tier **out, struct service *s, struct spawner *spawner, struct err *e);
/* Ends all waits: the calls go on without it, and nobody waits any more. NULL is fine. */
void tier_stop(struct tier *t);
/* Ends the helper and frees all. The loop must run once more. NULL is fine. */
void tier_close(struct tier *t);

/* Asks the tier for the entry of an id, if that makes sense, for a call that found nothing here. True if
 * the call waits: `again` runs later unless the call has ended. call->from_tier is then the value, which
 * is on its way to the store, or NULL. A call asks once for an id. `name`: of a named entry; else empty, and the
 * proof is the entry's. */
bool tier_ask(struct call *call, const struct store_id *id, const struct proof *proof,
              struct view name, void (*again)(struct call *call));
/* Takes the call out of its wait. */
void tier_leave(struct call *call);

/* Queues an entry that is on disk now for the tier, unless it is not worth it. */
void tier_offer(struct tier *t, const struct store_id *id, const struct artifact *a);

#endif
