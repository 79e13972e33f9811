/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier_rules.c - decides which entries leave the machine and who may ask for them, and when the tier is left alone.
 *
 * All files tier*.c ask here; it calls none of them.
 *
 * Thread: loop thread.
 */
#include <assert.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/wire/wire.h"
#include "daemon/nodes/tier_state.h"
#include "daemon/process/log.h"
#include "daemon/users/peer.h"
#include "store/clock.h"

/* ---- what travels ---- */

/* Writes the space of a user's or a group's entries, which the same name on another machine shares. False
 * if that is not shared. */
static bool shared_space(const struct tier *t, uint32_t owner, struct view *space)
{
    static char text[128]; /* until the next call */
    const char *share = t->host.config->tier_share;
    if (strcmp(share, "group") == 0 && owner == PEER_TRUST_SPACE) {
        snprintf(text, sizeof text, "group %.100s", t->host.config->trust_group);
    } else if (strcmp(share, "user") == 0 && owner < PEER_TRUST_SPACE) {
        const struct passwd *user = getpwuid(owner);
        if (!user)
            return false;
        snprintf(text, sizeof text, "user %u %.100s", (unsigned)owner, user->pw_name);
    } else {
        return false;
    }
    *space = view_of_text(text);
    return true;
}

/* Keeps other users' manifests and aliases here: they have the paths of those users' files. */
bool tier_travels(const struct tier *t, const struct store_row *row, struct view *space)
{
    uint32_t owner = row->id.owner;
    if (owner != STORE_MADE_HERE && wire_name_is_note(row->name))
        return false;
    if (owner == STORE_MADE_HERE) {
        *space = view_of_text("made");
        return row->maker == geteuid() || row->kind != STORE_MANIFEST;
    }
    *space = view_of_text("user");
    return owner == geteuid() || shared_space(t, owner, space);
}

bool tier_space(const struct tier *t, uint32_t peer_space, uint32_t owner, struct view *space)
{
    *space = view_of_text(owner == STORE_MADE_HERE ? "made" : "user");
    return owner == STORE_MADE_HERE || owner == geteuid() ||
           (owner == peer_space && shared_space(t, owner, space));
}

bool tier_is_too_old(const struct tier *t, const struct store_row *row)
{
    return row->created_ms + t->host.config->tier_queue_age_ms < clock_wall_ms();
}

/* ---- breakers ---- */

bool tier_is_off(const struct tier *t, const struct tier_breaker *b)
{
    return b->n_failures >= FAILURES_MAX || tier_now_ms(t) < b->off_until_ms;
}

void tier_log_once(struct tier *t, char last[200], const char *what, const char *why)
{
    (void)t;
    if (strcmp(last, why) != 0)
        log_warning("the tier: %s: %s", what, why);
    snprintf(last, 200, "%s", why);
}

static bool is_success(uint32_t outcome)
{
    return outcome == TIER_OK || outcome == TIER_ABSENT || outcome == TIER_EXISTS ||
           outcome == TIER_TOO_LARGE || outcome == TIER_LEASE || outcome == TIER_WAIT;
}

void tier_leave_alone(struct tier *t, struct tier_breaker *b, uint64_t ms)
{
    assert(ms && (b == &t->reads || b == &t->writes));
    b->off_until_ms = tier_now_ms(t) + ms;
    if (b == &t->reads)
        loop_timer_start(t->probe_timer, ms, 0);
}

bool tier_note(struct tier *t, struct tier_breaker *b, const struct tier_answer *a)
{
    assert(b == &t->reads || b == &t->writes);
    if (is_success(a->outcome)) {
        if (*b->said)
            log_info("the tier: %s work again", b->what);
        b->n_failures = 0;
        b->off_until_ms = 0;
        *b->said = '\0';
        return true;
    }
    if (t->closing) /* warmd ends the helper itself */
        return false;
    bool is_late = strncmp(a->said, "timed out", 9) == 0;
    stats_add(t->host.stats, is_late ? STATS_tier_timeouts : STATS_tier_errors, STORE_OTHER, 1);
    if (strcmp(b->said, a->said) != 0)
        log_warning("the tier: %s fail: %s", b->what, a->said);
    memcpy(b->said, a->said, sizeof b->said);
    if (a->outcome == TIER_LATER) { /* it works, and has too much to do */
        tier_leave_alone(t, b, a->wait_ms ? a->wait_ms : LATER_MS);
        return false;
    }
    if (a->outcome == TIER_DENIED || a->outcome == TIER_MISSET)
        b->n_failures = FAILURES_MAX;
    if (++b->n_failures >= FAILURES_MAX)
        tier_leave_alone(t, b, t->host.config->tier_breaker_ms);
    return false;
}
