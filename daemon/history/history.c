/* SPDX-License-Identifier: Apache-2.0 */
/*
 * history.c - decides which reason a miss has: from entries that have left the store, and from the nearest
 * recipe.
 *
 * A walk over the known recipes finds the nearest. It compares 64-bit digests of label and source: 2048
 * recipes cost some microseconds, and the compile after a miss takes milliseconds.
 *
 * The nearest recipe has the same source or the same label, and the same user. Among these it has the
 * fewest changes, and is the newest of equals. A recipe that was used in this very session and has
 * another source belongs to a sibling, not to an older version.
 *
 * bookkeeping.c calls it for sessions, misses, puts and compiles.
 *
 * Thread: loop thread.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/history/internal.h"

#define COMPARED_MAX 64u /* recipes that one miss is compared with */

/* ---- sessions ---- */

static struct session *session_at(struct history *h, uint32_t session)
{
    assert(session <= HISTORY_SESSIONS);
    return session == HISTORY_NO_SESSION ? NULL : &h->session[session - 1];
}

uint32_t history_join(struct history *h, uint32_t uid, struct view id, uint64_t now_ms)
{
    struct session *s = NULL;
    if (!wire_session_ok(id.data, id.len))
        return HISTORY_NO_SESSION;
    for (size_t i = 0; i < HISTORY_SESSIONS && !s; i++)
        if (h->session[i].uid == uid && view_equal(view_of_text(h->session[i].id), id))
            s = &h->session[i];
    if (!s) {
        s = history_session_place(h);
        if (!s)
            return HISTORY_NO_SESSION;
        assert(!s->refs);
        history_session_drop(h, s);
        *s = (struct session){.uid = uid, .number = ++h->last_session, .started_ms = now_ms};
        memcpy(s->id, id.data, id.len);
        history_session_begin(h, s);
    }
    s->refs++;
    return (uint32_t)(s - h->session) + 1;
}

const char *history_session_id(const struct history *h, uint32_t session)
{
    return session == HISTORY_NO_SESSION ? NULL : h->session[session - 1].id;
}

void history_set_project(struct history *h, uint32_t session, const char *project)
{
    struct session *s = session_at(h, session);
    if (s)
        snprintf(s->project, sizeof s->project, "%s", project);
}

void history_started(struct history *h, uint32_t session, struct view command)
{
    struct session *s = session_at(h, session);
    if (s && !*s->command)
        snprintf(s->command, sizeof s->command, "%.*s", (int)command.len,
                 (const char *)command.data);
}

void history_use(struct history *h, uint32_t uid, uint32_t session, const char *project,
                 enum usage_counter what, uint64_t n, uint64_t now_ms)
{
    struct session *s = session_at(h, session);
    history_load(h);
    usage_count(&h->usage, uid, s && *s->project ? s->project : project, what, n, now_ms);
    h->dirty = true;
}

void history_leave(struct history *h, uint32_t session)
{
    struct session *s = session_at(h, session);
    assert(!s || s->refs);
    if (s)
        s->refs--;
}

void history_count(struct history *h, uint32_t session, enum history_counter what, uint64_t n,
                   uint64_t now_ms)
{
    struct session *s = session_at(h, session);
    if (!s)
        return;
    s->counters[what] += n;
    s->last_ms = now_ms;
}

/* ---- entries that have left the store ---- */

static const char *cause_text(uint32_t cause)
{
    switch (cause) {
    case STORE_LEFT_FOR_ROOM: return "evicted, to stay below max_size";
    case STORE_LEFT_FOR_QUOTA: return "evicted, to stay below its user's quota";
    case STORE_LEFT_EVICTED: return "evicted by `warm evict` or `warm clear`";
    case STORE_LEFT_REMOVED: return "removed by `warm rm`";
    case STORE_LEFT_EXPIRED: return "its time to live was over";
    case STORE_LEFT_REFUSED: return "refused by the driver that was to load it, and quarantined";
    default: return "damaged on disk, and quarantined";
    }
}

void history_left(struct history *h, const struct store_departure *gone)
{
    history_load(h);
    history_left_add(h, gone);
    h->dirty = true;
    history_feed(&(struct feed_thing){.uid = gone->id.owner,
                                      .what = "left",
                                      .label = history_label(h, &gone->id, -1),
                                      .why = view_of_text(cause_text(gone->cause))});
}

void history_put(struct history *h, const struct store_id *id)
{
    history_load(h);
    struct store_departure *gone = history_left_find(h, id);
    if (gone) {
        *gone = (struct store_departure){.cause = 0};
        h->dirty = true;
    }
}

void history_hit(struct history *h, uint32_t session, const struct store_id *id)
{
    struct session *s = session_at(h, session);
    struct known *k = s && h->loaded ? history_known_find(h, id) : NULL;
    if (k)
        k->session = s->number;
}

/* ---- misses ---- */

/* Tells `warm events` why there was a miss. */
static void feed_reason(const struct miss *m, struct view text)
{
    const char *label = m->text[TEXT_LABEL] ? m->text[TEXT_LABEL] : m->text[TEXT_NAME];
    char why[128];
    snprintf(why, sizeof why, "%s: %.*s", wire_reason_name(m->reason),
             (int)(text.len < 96 ? text.len : 96), text.len ? (const char *)text.data : "");
    history_feed(&(struct feed_thing){.uid = m->uid,
                                      .kind = m->kind,
                                      .what = "reason",
                                      .session = m->text[TEXT_SESSION],
                                      .label = view_of_text(label),
                                      .why = view_of_text(why)});
}

static void settle(struct miss *m, enum wire_reason reason, struct view text)
{
    m->reason = (uint8_t)reason;
    m->settled = true;
    history_set_text(m, TEXT_TEXT, text);
    feed_reason(m, text);
}

static struct miss *miss_begin(struct history *h, uint32_t uid, uint32_t session, uint64_t now_ms)
{
    struct session *s = session_at(h, session);
    struct miss *m = history_miss_new(h, uid);
    m->at_ms = now_ms;
    m->uid = uid;
    if (s) {
        m->session = s->number;
        history_set_text(m, TEXT_SESSION, view_of_text(s->id));
        s->last_ms = now_ms;
    }
    return m;
}

/* Gives a miss the reason that the end of its entry tells. */
static void settle_by_end(struct history *h, struct miss *m, const struct store_id *id)
{
    const struct store_departure *gone = history_left_find(h, id);
    char text[HISTORY_TEXT_MAX], when[40];
    if (!gone || m->settled)
        return;
    time_t s = (time_t)(gone->at_ms / 1000);
    struct tm tm;
    gmtime_r(&s, &tm);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &tm);
    snprintf(text, sizeof text, "%s: %s", when, cause_text(gone->cause));
    bool was_bad = gone->cause == STORE_LEFT_DAMAGED || gone->cause == STORE_LEFT_REFUSED;
    settle(m, was_bad ? WIRE_REASON_CORRUPT : WIRE_REASON_EVICTED, view_of_text(text));
}

uint64_t history_miss(struct history *h, const struct history_ask *ask, uint64_t now_ms)
{
    static const struct store_id none;
    assert(h && ask);
    history_load(h);
    struct miss *m = miss_begin(h, ask->uid, ask->session, now_ms);
    m->id = ask->id;
    h->miss_hash[m->number % HISTORY_MISSES] = history_hash(&m->id);
    m->kind = (uint8_t)ask->kind;
    m->reason = WIRE_REASON_COLD;
    history_set_text(m, TEXT_NAME, ask->name);
    history_set_text(m, TEXT_LABEL, ask->label);
    history_set_text(m, TEXT_HARDWARE, ask->hardware);
    history_set_text(m, TEXT_COMPILER, ask->compiler);
    history_set_text(m, TEXT_TIER, ask->tier);
    if (ask->was_corrupt)
        settle(m, WIRE_REASON_CORRUPT, view_of_text("damaged on disk, and quarantined"));
    if (ask->failure.len)
        settle(m, WIRE_REASON_FAILED, ask->failure);
    settle_by_end(h, m, &ask->id);
    if (!store_id_equal(&ask->also, &none))
        settle_by_end(h, m, &ask->also);
    return m->number;
}

uint64_t history_find(const struct history *h, const struct store_id *id)
{
    uint32_t hash = history_hash(id);
    uint64_t newest = 0;
    for (size_t i = 0; i < HISTORY_MISSES; i++)
        if (h->miss_hash[i] == hash && h->miss[i].number > newest &&
            store_id_equal(&h->miss[i].id, id))
            newest = h->miss[i].number;
    return newest;
}

struct view history_label(const struct history *h, const struct store_id *id, int64_t uid)
{
    const struct miss *m = &h->miss[history_find(h, id) % HISTORY_MISSES];
    if (!store_id_equal(&m->id, id) || (uid >= 0 && m->uid != uid))
        return (struct view){"", 0};
    const char *label = m->text[TEXT_LABEL];
    return view_of_text(label && *label ? label : m->text[TEXT_NAME]);
}

void history_forget(struct history *h, uint32_t session, uint64_t miss)
{
    struct miss *m = history_miss_at(h, miss);
    struct session *s = session_at(h, session);
    if (!m)
        return;
    h->miss_hash[miss % HISTORY_MISSES] = 0;
    if (history_event_forget(h, m) && s)
        s->n_events--;
    history_miss_clear(m);
    if (s && s->counters[HISTORY_asked] && s->counters[HISTORY_misses]) {
        s->counters[HISTORY_asked]--;
        s->counters[HISTORY_misses]--;
    }
}

void history_tell(struct history *h, uint64_t miss, enum store_kind kind, struct view label,
                  struct view hardware, struct view compiler)
{
    struct miss *m = history_miss_at(h, miss);
    if (!m)
        return;
    m->kind = (uint8_t)kind;
    history_set_text(m, TEXT_LABEL, label);
    history_set_text(m, TEXT_HARDWARE, hardware);
    history_set_text(m, TEXT_COMPILER, compiler);
}

void history_settle(struct history *h, uint64_t miss, enum wire_reason reason, struct view text)
{
    struct miss *m = history_miss_at(h, miss);
    if (m)
        settle(m, reason, text);
}

bool history_is_settled(struct history *h, uint64_t miss)
{
    const struct miss *m = history_miss_at(h, miss);
    return m && m->settled;
}

static struct view cut(struct view v)
{
    return (struct view){v.data, v.len < RECIPE_TEXT_MAX ? v.len : RECIPE_TEXT_MAX};
}

static void add_change(struct miss *m, const struct recipe_change *change)
{
    struct view part = cut(change->part), old = cut(change->old), now = cut(change->now);
    assert(m->n_changes <= HISTORY_CHANGES_MAX);
    if (m->n_changes == HISTORY_CHANGES_MAX)
        return;
    m->n_changes++;
    writer_blob(&m->changes, part.data, part.len);
    writer_blob(&m->changes, old.data, old.len);
    writer_blob(&m->changes, now.data, now.len);
    feed_reason(m, part);
}

void history_change(struct history *h, uint64_t miss, const struct recipe_change *change)
{
    struct miss *m = history_miss_at(h, miss);
    if (!m || (m->settled && m->reason != WIRE_REASON_DIFFERS))
        return;
    m->reason = WIRE_REASON_DIFFERS;
    m->settled = true;
    add_change(m, change);
}

struct nearest {
    const struct known *known;
    size_t n_changes;
    struct recipe_change change[HISTORY_CHANGES_MAX];
};

/* True if one of the two may be an older version of the other. */
static bool is_kin(const struct known *k, const struct miss *m, uint64_t source, uint64_t label)
{
    bool same_source = source && k->source == source;
    if (k->at_ms == 0 || k->uid != m->uid || !(same_source || (label && k->label_digest == label)))
        return false;
    return same_source || !m->session || k->session != m->session;
}

static void find_nearest(struct history *h, const struct miss *m, struct view recipe,
                         struct nearest *best)
{
    uint64_t source, label;
    history_kinship(recipe, &source, &label);
    size_t n_compared = 0;
    for (size_t i = 1; i <= HISTORY_KNOWN && i <= h->n_added && n_compared < COMPARED_MAX; i++) {
        const struct known *k = &h->known[(h->next_known + HISTORY_KNOWN - i) % HISTORY_KNOWN];
        struct recipe_change change[HISTORY_CHANGES_MAX];
        if (!is_kin(k, m, source, label) || store_id_equal(&k->id, &m->id))
            continue;
        size_t n =
            recipe_compare((struct view){k->recipe, k->len}, recipe, change, HISTORY_CHANGES_MAX);
        n_compared++;
        if (!best->known || n < best->n_changes) {
            best->known = k;
            best->n_changes = n;
            memcpy(best->change, change, sizeof change);
        }
    }
}

static void key_part(const struct store_id *id, char out[WARM_KEY_TEXT])
{
    key_to_text(&id->key, out);
    out[16] = '\0';
}

void history_explain(struct history *h, uint64_t miss, struct view recipe)
{
    struct nearest best = {.known = NULL};
    struct miss *m = history_miss_at(h, miss);
    if (!m || m->settled)
        return;
    const struct known *same = history_known_find(h, &m->id);
    if (same) { /* or made because of this miss, and put once more */
        if (same->at_ms < m->at_ms) {
            /* It was made before, and its end is not known. */
            if (same->kept == HISTORY_KEPT)
                settle(m, WIRE_REASON_EVICTED,
                       view_of_text("made here before; when it went is not known"));
            else if (same->kept == HISTORY_NOT_SOUND)
                settle(m, WIRE_REASON_UNCACHEABLE,
                       view_of_text(
                           "made here before, and not kept: it depends on more than its key"));
            else
                settle(
                    m, WIRE_REASON_DISABLED,
                    view_of_text("made here before, and not stored: WARM_READONLY, or --no-store"));
        }
        return;
    }
    find_nearest(h, m, recipe, &best);
    if (!best.known)
        return;
    assert(best.known->at_ms && best.known->uid == m->uid);
    m->reason = WIRE_REASON_DIFFERS;
    m->settled = true;
    for (size_t i = 0; i < best.n_changes && i < HISTORY_CHANGES_MAX; i++)
        add_change(m, &best.change[i]);
    if (best.n_changes == 0) { /* all that is known of the two is the same */
        char old[WARM_KEY_TEXT], now[WARM_KEY_TEXT];
        key_part(&best.known->id, old);
        key_part(&m->id, now);
        add_change(m, &(struct recipe_change){{"input", 5}, view_of_text(old), view_of_text(now)});
    }
}

void history_remember(struct history *h, const struct history_made *made, struct view recipe,
                      uint64_t now_ms)
{
    struct session *s = session_at(h, made->session);
    history_load(h);
    history_known_add(h,
                      &(struct known){.id = made->id,
                                      .uid = made->uid,
                                      .kept = (uint8_t)made->kept,
                                      .at_ms = now_ms,
                                      .session = s ? s->number : 0},
                      recipe);
    h->dirty = true;
}

void history_note(struct history *h, uint32_t uid, uint32_t session, enum wire_reason reason,
                  struct view label, struct view text, uint64_t now_ms)
{
    history_load(h);
    const struct session *s = session_at(h, session);
    struct miss *m = NULL; /* the newest one of the session with this name */
    for (struct miss *one = h->miss; label.len && one < h->miss + HISTORY_MISSES; one++)
        if (one->number && one->uid == uid && one->session == (s ? s->number : 0) &&
            (!m || one->number > m->number) &&
            view_equal(view_of_text(one->text[TEXT_NAME]), label))
            m = one;
    if (!m) {
        m = miss_begin(h, uid, session, now_ms);
        history_set_text(m, TEXT_LABEL, label);
        if (reason == WIRE_REASON_UNCACHEABLE)
            history_count(h, session, HISTORY_unkept, 1, now_ms);
    }
    settle(m, reason, text);
    h->dirty = true;
}

/* ---- making and freeing ---- */

struct history *history_new(const char *path)
{
    struct history *h = calloc(1, sizeof *h);
    if (!h)
        return NULL;
    h->path = path ? strdup(path) : NULL;
    shares_init(&h->miss_shares, h->next_miss, HISTORY_MISSES);
    shares_init(&h->event_shares, h->next_event, HISTORY_EVENTS);
    for (size_t i = 0; i < BUCKETS; i++)
        h->bucket[i] = NOBODY;
    return h;
}

void history_save(struct history *h)
{
    history_file_save(h);
    history_sessions_save(h);
}

void history_free(struct history *h)
{
    if (!h)
        return;
    for (size_t i = 0; i < HISTORY_MISSES; i++)
        history_miss_clear(&h->miss[i]);
    for (size_t i = 0; i < HISTORY_KNOWN && i < h->n_added; i++)
        history_known_drop(h, &h->known[i]);
    history_sessions_free(h);
    free(h->path);
    free(h);
}
