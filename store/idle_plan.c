/* SPDX-License-Identifier: Apache-2.0 */
/*
 * idle_plan.c - decides when each kind of idle work is due. idle.c does the work; transaction.c says what
 * its commits make due, and open.c begins.
 *
 * Thread: writer; idle_begin also the opening thread.
 */
#include "store/internal.h"

#define WALK_DELAY_MS 2000u /* after open; no delay if there are rows to adopt */
#define SYNC_MS 1000u       /* at most, from a commit until its meta page is durable */
#define RETRY_MS 10u        /* doubled up to a minute */

void idle_begin(struct store *s)
{
    uint64_t now_ms = clock_mono_ms();
    s->idle = (struct idle){
        .n_begun = s->idle.n_begun + 1,
        .retry_ms = RETRY_MS,
        .next_walk_ms = now_ms + (s->index.adopting ? 0 : WALK_DELAY_MS),
        .next_old_ms = now_ms,
        .next_expiry_ms = now_ms + IDLE_EXPIRY_MS,
        .next_check_ms = now_ms + IDLE_MINUTE_MS,
        .next_sync_ms = now_ms + IDLE_EXPIRY_MS,
        .next_wake_ms = now_ms + IDLE_MINUTE_MS,
    };
}

void idle_end(struct store *s)
{
    if (!s->idle.walking)
        return;
    blob_walk_end(&s->idle.walk);
    s->idle.walking = false;
    s->idle.next_walk_ms = IDLE_NEVER;
}

void idle_walk_again(struct store *s, uint64_t now_ms)
{
    struct idle *idle = &s->idle;
    idle_end(s);
    idle->unread = false;
    idle->next_walk_ms = now_ms + idle->retry_ms;
    idle->retry_ms = idle->retry_ms < IDLE_MINUTE_MS / 2 ? 2 * idle->retry_ms : IDLE_MINUTE_MS;
}

void idle_walk_deeply(struct store *s)
{
    if (s->idle.deep || s->index.adopting)
        return;
    idle_end(s);
    s->idle.deep = true;
    s->idle.next_walk_ms = clock_mono_ms() + IDLE_WALK_PACE_MS;
}

static uint64_t soonest(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Plans a sync, unless one is planned: later commits do not put it off. A change that wrote
 * nothing needs none. */
void idle_sync_soon(struct store *s)
{
    struct idle *idle = &s->idle;
    uint64_t commit = index_last_commit(&s->index);
    if (commit != idle->last_commit)
        idle->next_sync_ms = soonest(idle->next_sync_ms, clock_mono_ms() + SYNC_MS);
    idle->last_commit = commit;
}

uint64_t idle_wait_ms(const struct store *s)
{
    const struct idle *idle = &s->idle;
    uint64_t next = soonest(idle->next_walk_ms, idle->next_expiry_ms);
    next = soonest(soonest(next, idle->next_check_ms),
                   soonest(idle->next_sync_ms, idle->next_wake_ms));
    if (s->old_before_ms)
        next = soonest(next, idle->next_old_ms);
    uint64_t now_ms = clock_mono_ms();
    return next > now_ms ? next - now_ms : 0;
}
