/* SPDX-License-Identifier: Apache-2.0 */
/*
 * history.c - sessions, misses and their reasons; history.h says what there is.
 *
 *   left    8192 places in sets of four, found by the key's own bytes: what is new takes the place of
 *           the oldest of its set
 *   known   a ring of recipes; an index by key finds one, a walk finds the nearest: it compares 64-bit
 *           digests of label and source, so 2048 cost some microseconds, and misses cost milliseconds
 *   misses  a ring
 *
 * Which known recipe is the nearest: of those with the same source or the same label, and the same
 * user, the one with the fewest changes, the newest of equals. One that was used in this very session
 * and has another source is a sibling, no older version.
 *
 * Thread: loop thread.
 */
#include "daemon/history.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "daemon/json.h"

#define MAGIC "WHIS"
#define VERSION 1u
#define SET 4u            /* places in which one entry that is gone may be */
#define BUCKETS 1024u     /* of the index of what is known */
#define COMPARED_MAX 64u  /* recipes that one miss is compared with */
#define NOBODY UINT16_MAX /* end of a chain */

#define TEXT_MAX WIRE_NAME_MAX

struct session {
    char id[WIRE_SESSION_MAX + 1]; /* "": the place is free */
    uint32_t uid;
    unsigned refs;
    uint64_t number; /* never the same twice */
    uint64_t started_ms, last_ms;
    uint64_t counters[HISTORY_N_COUNTERS];
};

struct known {
    struct store_id id;
    uint32_t uid;
    uint8_t kept;                  /* enum history_kept */
    uint16_t next;                 /* in its bucket */
    uint64_t at_ms;                /* 0: the place is free */
    uint64_t session;              /* number of the last one that used it; 0: none */
    uint64_t source, label_digest; /* 0: there is none */
    uint8_t *recipe;
    size_t len;
};

enum text { TEXT_SESSION, TEXT_NAME, TEXT_LABEL, TEXT_HARDWARE, TEXT_COMPILER, TEXT_TEXT, TEXTS };

struct miss {
    uint64_t number; /* 0: the place is free */
    uint64_t at_ms;
    struct store_id id;
    uint32_t uid;
    uint64_t session; /* number */
    uint8_t kind, reason;
    bool settled;
    char *text[TEXTS];     /* NULL: empty */
    struct writer changes; /* n × blobs part, old, new */
    unsigned n_changes;
};

struct history {
    char *path;
    bool loaded, dirty;
    uint64_t last_session, last_miss;
    struct session session[HISTORY_SESSIONS];
    struct store_departure left[HISTORY_LEFT];
    struct known known[HISTORY_KNOWN];
    uint16_t bucket[BUCKETS];
    size_t next_known, known_bytes;
    uint64_t n_added;                   /* recipes, ever */
    uint32_t miss_hash[HISTORY_MISSES]; /* of their ids, to find one fast */
    struct miss miss[HISTORY_MISSES];
};

static void load(struct history *h);

/* ---- small things ---- */

static bool same_id(const struct store_id *a, const struct store_id *b)
{
    return a->owner == b->owner && key_equal(&a->key, &b->key);
}

static uint32_t hash_id(const struct store_id *id)
{
    uint32_t bits; /* keys are digests */
    memcpy(&bits, id->key.bytes + 4, sizeof bits);
    return bits ^ id->owner * 0x9e3779b1u;
}

static uint64_t digest_of(struct view v)
{
    uint64_t bits;
    if (v.len == 0)
        return 0;
    struct key key = key_of_bytes(v.data, v.len);
    memcpy(&bits, key.bytes, sizeof bits);
    return bits ? bits : 1;
}

static struct view view_of(const char *text)
{
    return (struct view){text ? text : "", text ? strlen(text) : 0};
}

/* NULL for an empty text, and without memory. */
static char *copy_of(struct view v)
{
    return v.len ? strndup(v.data, v.len < TEXT_MAX ? v.len : TEXT_MAX) : NULL;
}

static bool view_equal(struct view a, struct view b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* ---- sessions ---- */

static struct session *session_at(struct history *h, uint32_t session)
{
    return session == HISTORY_NO_SESSION ? NULL : &h->session[session - 1];
}

/* A place for a new session: a free one, or that of the session that is silent for longest. */
static struct session *session_place(struct history *h)
{
    struct session *best = NULL;
    for (size_t i = 0; i < HISTORY_SESSIONS; i++) {
        struct session *s = &h->session[i];
        if (s->refs == 0 && (!best || s->last_ms < best->last_ms))
            best = s;
    }
    return best;
}

uint32_t history_join(struct history *h, uint32_t uid, struct view id, uint64_t now_ms)
{
    struct session *s = NULL;
    if (!wire_session_ok(id.data, id.len))
        return HISTORY_NO_SESSION;
    for (size_t i = 0; i < HISTORY_SESSIONS && !s; i++)
        if (h->session[i].uid == uid && view_equal(view_of(h->session[i].id), id))
            s = &h->session[i];
    if (!s) {
        s = session_place(h);
        if (!s)
            return HISTORY_NO_SESSION;
        *s = (struct session){.uid = uid, .number = ++h->last_session, .started_ms = now_ms};
        memcpy(s->id, id.data, id.len);
    }
    s->refs++;
    return (uint32_t)(s - h->session) + 1;
}

void history_leave(struct history *h, uint32_t session)
{
    struct session *s = session_at(h, session);
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

/* ---- what is gone ---- */

static struct store_departure *left_set(struct history *h, const struct store_id *id)
{
    return &h->left[hash_id(id) % (HISTORY_LEFT / SET) * SET];
}

static struct store_departure *left_find(struct history *h, const struct store_id *id)
{
    struct store_departure *set = left_set(h, id);
    for (size_t i = 0; i < SET; i++)
        if (set[i].cause && same_id(&set[i].id, id))
            return &set[i];
    return NULL;
}

static void left_add(struct history *h, const struct store_departure *gone)
{
    struct store_departure *to = left_find(h, &gone->id), *set = left_set(h, &gone->id);
    for (size_t i = 0; i < SET && !to; i++)
        if (!set[i].cause)
            to = &set[i];
    if (!to) {
        to = set;
        for (size_t i = 1; i < SET; i++)
            if (set[i].at_ms < to->at_ms)
                to = &set[i];
    }
    *to = *gone;
}

void history_left(struct history *h, const struct store_departure *gone)
{
    load(h);
    left_add(h, gone);
    h->dirty = true;
}

void history_put(struct history *h, const struct store_id *id)
{
    load(h);
    struct store_departure *gone = left_find(h, id);
    if (gone) {
        *gone = (struct store_departure){.cause = 0};
        h->dirty = true;
    }
}

static const char *cause_text(uint32_t cause)
{
    switch (cause) {
    case STORE_LEFT_FOR_ROOM: return "evicted, to stay below max_size";
    case STORE_LEFT_FOR_QUOTA: return "evicted, to stay below its user's quota";
    case STORE_LEFT_EVICTED: return "evicted by `warm evict` or `warm clear`";
    case STORE_LEFT_REMOVED: return "removed by `warm rm`";
    case STORE_LEFT_EXPIRED: return "its time to live was over";
    default: return "damaged on disk, and quarantined";
    }
}

/* ---- what is known ---- */

static struct known *known_find(struct history *h, const struct store_id *id)
{
    uint16_t i = h->bucket[hash_id(id) % BUCKETS];
    while (i != NOBODY && !same_id(&h->known[i].id, id))
        i = h->known[i].next;
    return i == NOBODY ? NULL : &h->known[i];
}

static void known_drop(struct history *h, struct known *k)
{
    uint16_t *link = &h->bucket[hash_id(&k->id) % BUCKETS];
    if (k->at_ms == 0)
        return;
    while (&h->known[*link] != k)
        link = &h->known[*link].next;
    *link = k->next;
    h->known_bytes -= k->len;
    free(k->recipe);
    *k = (struct known){.at_ms = 0};
}

/* The next place of the ring, emptied; older recipes go until there is room for `len` bytes. */
static struct known *known_place(struct history *h, size_t len)
{
    struct known *place = &h->known[h->next_known];
    known_drop(h, place);
    for (size_t n = 1; h->known_bytes + len > HISTORY_KNOWN_BYTES && n < HISTORY_KNOWN; n++)
        known_drop(h, &h->known[(h->next_known + n) % HISTORY_KNOWN]);
    h->next_known = (h->next_known + 1) % HISTORY_KNOWN;
    return place;
}

/* What tells whether two recipes are of one thing. */
static void kinship(struct view recipe, uint64_t *source, uint64_t *label)
{
    struct view text = {"", 0};
    recipe_find(recipe, "source", &text);
    *source = digest_of(text);
    text.len = 0;
    if (!recipe_find(recipe, "label", &text))
        recipe_find(recipe, "name", &text);
    *label = digest_of(text);
}

static void known_add(struct history *h, const struct known *from, struct view recipe)
{
    uint8_t *bytes = malloc(recipe.len ? recipe.len : 1);
    if (!bytes)
        return;
    struct known *k = known_find(h, &from->id);
    if (k)
        known_drop(h, k);
    k = known_place(h, recipe.len);
    *k = *from;
    kinship(recipe, &k->source, &k->label_digest);
    if (recipe.len)
        memcpy(bytes, recipe.data, recipe.len);
    k->recipe = bytes;
    k->len = recipe.len;
    h->known_bytes += recipe.len;
    h->n_added++;
    uint16_t *bucket = &h->bucket[hash_id(&k->id) % BUCKETS];
    k->next = *bucket;
    *bucket = (uint16_t)(k - h->known);
}

void history_hit(struct history *h, uint32_t session, const struct store_id *id)
{
    struct session *s = session_at(h, session);
    struct known *k = s && h->loaded ? known_find(h, id) : NULL;
    if (k)
        k->session = s->number;
}

/* ---- misses ---- */

static struct miss *miss_at(struct history *h, uint64_t number)
{
    struct miss *m = &h->miss[number % HISTORY_MISSES];
    return number && m->number == number ? m : NULL;
}

static void miss_clear(struct miss *m)
{
    for (size_t i = 0; i < TEXTS; i++)
        free(m->text[i]);
    writer_close(&m->changes);
    *m = (struct miss){.number = 0};
}

static struct miss *miss_new(struct history *h)
{
    struct miss *m = &h->miss[++h->last_miss % HISTORY_MISSES];
    miss_clear(m);
    m->number = h->last_miss;
    writer_init(&m->changes, HISTORY_CHANGES_MAX * (3 * (RECIPE_TEXT_MAX + 4)));
    h->miss_hash[h->last_miss % HISTORY_MISSES] = 0;
    h->dirty = true;
    return m;
}

static void set_text(struct miss *m, enum text which, struct view text)
{
    free(m->text[which]);
    m->text[which] = copy_of(text);
}

static void settle(struct miss *m, enum wire_reason reason, struct view text)
{
    m->reason = (uint8_t)reason;
    m->settled = true;
    set_text(m, TEXT_TEXT, text);
}

static struct miss *miss_begin(struct history *h, uint32_t uid, uint32_t session, uint64_t now_ms)
{
    struct session *s = session_at(h, session);
    struct miss *m = miss_new(h);
    m->at_ms = now_ms;
    m->uid = uid;
    if (s) {
        m->session = s->number;
        set_text(m, TEXT_SESSION, view_of(s->id));
        s->last_ms = now_ms;
    }
    return m;
}

/* What the end of an entry tells of its miss. */
static void settle_by_end(struct history *h, struct miss *m, const struct store_id *id)
{
    const struct store_departure *gone = left_find(h, id);
    char text[TEXT_MAX], when[40];
    if (!gone || m->settled)
        return;
    time_t s = (time_t)(gone->at_ms / 1000);
    struct tm tm;
    gmtime_r(&s, &tm);
    strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S UTC", &tm);
    snprintf(text, sizeof text, "%s: %s", when, cause_text(gone->cause));
    settle(m, gone->cause == STORE_LEFT_DAMAGED ? WIRE_REASON_CORRUPT : WIRE_REASON_EVICTED,
           view_of(text));
}

uint64_t history_miss(struct history *h, const struct history_ask *ask, uint64_t now_ms)
{
    static const struct store_id none;
    load(h);
    struct miss *m = miss_begin(h, ask->uid, ask->session, now_ms);
    m->id = ask->id;
    h->miss_hash[m->number % HISTORY_MISSES] = hash_id(&m->id);
    m->kind = (uint8_t)ask->kind;
    m->reason = WIRE_REASON_COLD;
    set_text(m, TEXT_NAME, ask->name);
    set_text(m, TEXT_LABEL, ask->label);
    set_text(m, TEXT_HARDWARE, ask->hardware);
    set_text(m, TEXT_COMPILER, ask->compiler);
    if (ask->was_corrupt)
        settle(m, WIRE_REASON_CORRUPT, view_of("damaged on disk, and quarantined"));
    settle_by_end(h, m, &ask->id);
    if (!same_id(&ask->also, &none))
        settle_by_end(h, m, &ask->also);
    return m->number;
}

uint64_t history_find(const struct history *h, const struct store_id *id)
{
    uint32_t hash = hash_id(id);
    for (uint64_t n = h->last_miss; n && n + HISTORY_MISSES > h->last_miss; n--)
        if (h->miss_hash[n % HISTORY_MISSES] == hash &&
            same_id(&h->miss[n % HISTORY_MISSES].id, id))
            return n;
    return 0;
}

void history_tell(struct history *h, uint64_t miss, enum store_kind kind, struct view label,
                  struct view hardware, struct view compiler)
{
    struct miss *m = miss_at(h, miss);
    if (!m)
        return;
    m->kind = (uint8_t)kind;
    set_text(m, TEXT_LABEL, label);
    set_text(m, TEXT_HARDWARE, hardware);
    set_text(m, TEXT_COMPILER, compiler);
}

void history_settle(struct history *h, uint64_t miss, enum wire_reason reason, struct view text)
{
    struct miss *m = miss_at(h, miss);
    if (m)
        settle(m, reason, text);
}

static struct view cut(struct view v)
{
    return (struct view){v.data, v.len < RECIPE_TEXT_MAX ? v.len : RECIPE_TEXT_MAX};
}

static void add_change(struct miss *m, const struct recipe_change *change)
{
    struct view part = cut(change->part), old = cut(change->old), now = cut(change->now);
    if (m->n_changes == HISTORY_CHANGES_MAX)
        return;
    m->n_changes++;
    writer_blob(&m->changes, part.data, part.len);
    writer_blob(&m->changes, old.data, old.len);
    writer_blob(&m->changes, now.data, now.len);
}

void history_change(struct history *h, uint64_t miss, const struct recipe_change *change)
{
    struct miss *m = miss_at(h, miss);
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

/* True if one of them may be an older version of the other. */
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
    kinship(recipe, &source, &label);
    size_t n_compared = 0;
    for (size_t i = 1; i <= HISTORY_KNOWN && i <= h->n_added && n_compared < COMPARED_MAX; i++) {
        const struct known *k = &h->known[(h->next_known + HISTORY_KNOWN - i) % HISTORY_KNOWN];
        struct recipe_change change[HISTORY_CHANGES_MAX];
        if (!is_kin(k, m, source, label) || same_id(&k->id, &m->id))
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

/* It was made before, and nobody saw it go. */
static void explain_known(struct miss *m, const struct known *k)
{
    if (k->kept == HISTORY_KEPT)
        settle(m, WIRE_REASON_EVICTED, view_of("made here before; when it went is not known"));
    else if (k->kept == HISTORY_NOT_SOUND)
        settle(m, WIRE_REASON_UNCACHEABLE,
               view_of("made here before, and not kept: it depends on more than its key"));
    else
        settle(m, WIRE_REASON_DISABLED,
               view_of("made here before, and not stored: WARM_READONLY, or --no-store"));
}

static void key_part(const struct store_id *id, char out[WARM_KEY_TEXT])
{
    key_to_text(&id->key, out);
    out[16] = '\0';
}

void history_explain(struct history *h, uint64_t miss, struct view recipe)
{
    struct nearest best = {.known = NULL};
    struct miss *m = miss_at(h, miss);
    if (!m || m->settled)
        return;
    const struct known *same = known_find(h, &m->id);
    if (same) {
        explain_known(m, same);
        return;
    }
    find_nearest(h, m, recipe, &best);
    if (!best.known)
        return;
    m->reason = WIRE_REASON_DIFFERS;
    m->settled = true;
    for (size_t i = 0; i < best.n_changes && i < HISTORY_CHANGES_MAX; i++)
        add_change(m, &best.change[i]);
    if (best.n_changes == 0) { /* all that was told of them is the same */
        char old[WARM_KEY_TEXT], now[WARM_KEY_TEXT];
        key_part(&best.known->id, old);
        key_part(&m->id, now);
        add_change(m, &(struct recipe_change){{"input", 5}, view_of(old), view_of(now)});
    }
}

void history_remember(struct history *h, const struct history_made *made, struct view recipe,
                      uint64_t now_ms)
{
    struct session *s = session_at(h, made->session);
    load(h);
    known_add(h,
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
    load(h);
    struct miss *m = miss_begin(h, uid, session, now_ms);
    set_text(m, TEXT_LABEL, label);
    settle(m, reason, text);
}

/* ---- JSON ---- */

static void write_text(struct writer *out, const char *name, struct view text)
{
    writer_format(out, ", \"%s\": ", name);
    json_write_text(out, text.data, text.len);
}

static void write_number(struct writer *out, const char *name, uint64_t n)
{
    writer_format(out, ", \"%s\": %llu", name, (unsigned long long)n);
}

static void write_session(struct writer *out, const struct session *s)
{
    static const char *const names[] = {
#define X(name) #name,
        HISTORY_COUNTERS(X)
#undef X
    };
    writer_format(out, "\"session\": {\"id\": \"%s\"", s->id);
    write_number(out, "uid", s->uid);
    write_number(out, "started_ms", s->started_ms);
    write_number(out, "last_ms", s->last_ms);
    for (size_t i = 0; i < HISTORY_N_COUNTERS; i++)
        write_number(out, names[i], s->counters[i]);
    writer_format(out, "}, ");
}

static void write_changes(struct writer *out, const struct miss *m)
{
    struct reader r = reader_over(m->changes.data, m->changes.len);
    writer_format(out, ", \"changes\": [");
    for (unsigned i = 0; r.len; i++) {
        struct view part = reader_blob(&r, RECIPE_TEXT_MAX), old = reader_blob(&r, RECIPE_TEXT_MAX),
                    now = reader_blob(&r, RECIPE_TEXT_MAX);
        if (r.failed)
            break;
        writer_format(out, "%s{\"part\": ", i ? ", " : "");
        json_write_text(out, part.data, part.len);
        write_text(out, "old", old);
        write_text(out, "new", now);
        writer_u8(out, '}');
    }
    writer_u8(out, ']');
}

static void write_miss(struct writer *out, const struct miss *m)
{
    static const struct key no_key;
    char key[WARM_KEY_TEXT] = "";
    if (!key_equal(&m->id.key, &no_key))
        key_to_text(&m->id.key, key);
    writer_format(out, "{\"time_ms\": %llu", (unsigned long long)m->at_ms);
    write_text(out, "session", view_of(m->text[TEXT_SESSION]));
    write_text(out, "key", view_of(key));
    write_text(out, "name", view_of(m->text[TEXT_NAME]));
    write_text(out, "label", view_of(m->text[TEXT_LABEL]));
    write_text(out, "kind", view_of(store_kind_name(m->kind)));
    write_text(out, "hardware", view_of(m->text[TEXT_HARDWARE]));
    write_text(out, "compiler", view_of(m->text[TEXT_COMPILER]));
    write_text(out, "reason", view_of(wire_reason_name(m->reason)));
    write_text(out, "text", view_of(m->text[TEXT_TEXT]));
    write_changes(out, m);
    writer_u8(out, '}');
}

/* Which misses are asked for. */
struct choice {
    const struct session *session;
    uint64_t only; /* one miss; 0: those of the session, or of the key */
};

static bool is_chosen(const struct history_query *q, const struct choice *c, const struct miss *m)
{
    struct key key;
    if (q->uid >= 0 && m->uid != q->uid)
        return false;
    if (c->only)
        return m->number == c->only;
    if (c->session)
        return m->session == c->session->number;
    if (q->of == WIRE_HISTORY_SESSION) /* of an earlier daemon */
        return view_equal(view_of(m->text[TEXT_SESSION]), q->id);
    return view_equal(view_of(m->text[TEXT_NAME]), q->id) ||
           view_equal(view_of(m->text[TEXT_LABEL]), q->id) ||
           (key_from_text(q->id.data, q->id.len, &key) && key_equal(&key, &m->id.key));
}

/* The session that asked last; or the last miss, if it is of none. */
static void choose_last(struct history *h, const struct history_query *q, struct choice *out)
{
    for (size_t i = 0; i < HISTORY_SESSIONS; i++) {
        const struct session *s = &h->session[i];
        if (*s->id && s->uid == q->asker && (!out->session || s->last_ms > out->session->last_ms))
            out->session = s;
    }
    for (uint64_t n = h->last_miss; n && n + HISTORY_MISSES > h->last_miss; n--) {
        const struct miss *m = &h->miss[n % HISTORY_MISSES];
        if (m->number != n || m->uid != q->asker)
            continue;
        if (!m->session && (!out->session || m->at_ms > out->session->last_ms)) {
            out->session = NULL;
            out->only = n;
        }
        return;
    }
}

static void choose(struct history *h, const struct history_query *q, struct choice *out)
{
    *out = (struct choice){NULL, 0};
    if (q->of == WIRE_HISTORY_LAST)
        choose_last(h, q, out);
    for (size_t i = 0; q->of == WIRE_HISTORY_SESSION && i < HISTORY_SESSIONS; i++)
        if (view_equal(view_of(h->session[i].id), q->id) &&
            (q->uid < 0 || h->session[i].uid == q->uid) &&
            (!out->session || h->session[i].uid == q->asker)) /* their own, of several */
            out->session = &h->session[i];
}

/* The first of the newest misses that were chosen and fit. */
static uint64_t first_that_fits(const struct history *h, const struct history_query *q,
                                const struct choice *c, size_t *out_n)
{
    uint64_t first = h->last_miss + 1;
    size_t bytes = 1024, n = 0;
    for (uint64_t i = h->last_miss; i && i + HISTORY_MISSES > h->last_miss; i--) {
        const struct miss *m = &h->miss[i % HISTORY_MISSES];
        if (m->number != i || !is_chosen(q, c, m))
            continue;
        struct writer w;
        writer_init(&w, 0);
        write_miss(&w, m);
        bytes += w.len + 2;
        writer_close(&w);
        if (bytes > q->max_bytes || (q->max_misses && n == q->max_misses))
            break;
        first = i;
        n++;
    }
    *out_n = n;
    return first;
}

bool history_write_json(struct history *h, const struct history_query *query, struct writer *out)
{
    struct choice choice;
    size_t n;
    load(h);
    choose(h, query, &choice);
    uint64_t first = first_that_fits(h, query, &choice, &n);
    if (n == 0 && !choice.session)
        return false;
    writer_u8(out, '{');
    if (choice.session)
        write_session(out, choice.session);
    writer_format(out, "\"misses\": [");
    bool comma = false;
    for (uint64_t i = first; i <= h->last_miss; i++) {
        const struct miss *m = &h->miss[i % HISTORY_MISSES];
        if (m->number != i || !is_chosen(query, &choice, m))
            continue;
        writer_bytes(out, ", ", comma ? 2 : 0);
        write_miss(out, m);
        comma = true;
    }
    writer_format(out, "]}");
    return true;
}

/* ---- the file ---- */

static void write_id(struct writer *w, const struct store_id *id)
{
    writer_u32(w, id->owner);
    writer_bytes(w, id->key.bytes, sizeof id->key.bytes);
}

static void write_view(struct writer *w, struct view v) { writer_blob(w, v.data, v.len); }

static void encode(const struct history *h, struct writer *w)
{
    uint32_t n[3] = {0, 0, 0};
    writer_bytes(w, MAGIC, 4);
    writer_u32(w, VERSION);
    for (size_t i = 0; i < HISTORY_LEFT; i++)
        n[0] += h->left[i].cause != 0;
    for (size_t i = 0; i < HISTORY_KNOWN; i++)
        n[1] += h->known[i].at_ms != 0;
    for (size_t i = 0; i < HISTORY_MISSES; i++)
        n[2] += h->miss[i].number != 0;
    for (size_t i = 0; i < 3; i++)
        writer_u32(w, n[i]);
    for (size_t i = 0; i < HISTORY_LEFT; i++) {
        const struct store_departure *gone = &h->left[i];
        if (!gone->cause)
            continue;
        write_id(w, &gone->id);
        writer_u32(w, gone->cause);
        writer_u64(w, gone->at_ms);
    }
    for (size_t i = 0; i < HISTORY_KNOWN; i++) {
        const struct known *k = &h->known[(h->next_known + i) % HISTORY_KNOWN];
        if (!k->at_ms)
            continue;
        writer_u32(w, k->uid);
        write_id(w, &k->id);
        writer_u64(w, k->at_ms);
        writer_u8(w, k->kept);
        writer_blob(w, k->recipe, k->len);
    }
    for (uint64_t i = 1; i <= HISTORY_MISSES; i++) {
        const struct miss *m = &h->miss[(h->last_miss + i) % HISTORY_MISSES];
        if (!m->number)
            continue;
        writer_u64(w, m->at_ms);
        writer_u32(w, m->uid);
        write_id(w, &m->id);
        writer_u8(w, m->kind);
        writer_u8(w, m->reason);
        for (size_t t = 0; t < TEXTS; t++)
            write_view(w, view_of(m->text[t]));
        writer_blob(w, m->changes.data, m->changes.len);
    }
}

static struct store_id read_id(struct reader *r)
{
    struct store_id id = {.owner = reader_u32(r)};
    reader_copy(r, id.key.bytes, sizeof id.key.bytes);
    return id;
}

static void read_left(struct history *h, struct reader *r)
{
    struct store_departure gone = {.id = read_id(r)};
    gone.cause = reader_u32(r);
    gone.at_ms = reader_u64(r);
    if (!r->failed && gone.cause)
        left_add(h, &gone);
}

static void read_known(struct history *h, struct reader *r)
{
    struct known k = {.uid = reader_u32(r)};
    k.id = read_id(r);
    k.at_ms = reader_u64(r);
    k.kept = reader_u8(r);
    struct view recipe = reader_blob(r, RECIPE_MAX);
    if (!r->failed && k.at_ms)
        known_add(h, &k, recipe);
}

static void read_miss(struct history *h, struct reader *r)
{
    struct miss head = {.at_ms = reader_u64(r)};
    struct view text[TEXTS];
    head.uid = reader_u32(r);
    head.id = read_id(r);
    head.kind = reader_u8(r);
    head.reason = reader_u8(r);
    for (size_t t = 0; t < TEXTS; t++)
        text[t] = reader_blob(r, TEXT_MAX);
    struct view changes = reader_blob(r, HISTORY_CHANGES_MAX * 3 * (RECIPE_TEXT_MAX + 4));
    if (r->failed)
        return;
    struct miss *m = miss_new(h);
    m->at_ms = head.at_ms;
    m->uid = head.uid;
    m->id = head.id;
    h->miss_hash[m->number % HISTORY_MISSES] = hash_id(&m->id);
    m->kind = head.kind;
    m->reason = head.reason;
    m->settled = true;
    for (size_t t = 0; t < TEXTS; t++)
        set_text(m, t, text[t]);
    writer_bytes(&m->changes, changes.data, changes.len);
}

void history_read(struct history *h, const void *data, size_t len)
{
    struct reader r = reader_over(data, len);
    struct view magic = reader_bytes(&r, 4);
    if (r.failed || memcmp(magic.data, MAGIC, 4) != 0 || reader_u32(&r) != VERSION)
        return;
    uint32_t n_left = reader_u32(&r), n_known = reader_u32(&r), n_misses = reader_u32(&r);
    for (uint32_t i = 0; i < n_left && !r.failed; i++)
        read_left(h, &r);
    for (uint32_t i = 0; i < n_known && !r.failed; i++)
        read_known(h, &r);
    for (uint32_t i = 0; i < n_misses && !r.failed; i++)
        read_miss(h, &r);
}

static void read_sealed(struct history *h, const uint8_t *data, size_t len)
{
    struct key seal;
    if (len < sizeof seal)
        return;
    len -= sizeof seal;
    struct key seen = key_of_bytes(data, len);
    memcpy(&seal, data + len, sizeof seal);
    if (key_equal(&seal, &seen))
        history_read(h, data, len);
}

static bool read_file(int fd, size_t len, uint8_t *out)
{
    for (size_t at = 0; at < len;) {
        ssize_t n = read(fd, out + at, len - at);
        if (n <= 0 && !(n < 0 && errno == EINTR))
            return false;
        at += n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* Once, when it is first needed. */
static void load(struct history *h)
{
    struct stat st;
    if (h->loaded)
        return;
    h->loaded = true;
    int fd = h->path ? open(h->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && st.st_size > 0 && st.st_size <= HISTORY_FILE_MAX) {
        uint8_t *data = malloc((size_t)st.st_size);
        if (data && read_file(fd, (size_t)st.st_size, data))
            read_sealed(h, data, (size_t)st.st_size);
        free(data);
    }
    close(fd);
    h->dirty = false;
}

static bool write_file(const char *path, const struct writer *w)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return false;
    size_t at = 0;
    while (at < w->len) {
        ssize_t n = write(fd, w->data + at, w->len - at);
        if (n <= 0 && !(n < 0 && errno == EINTR))
            break;
        at += n > 0 ? (size_t)n : 0;
    }
    return close(fd) == 0 && at == w->len;
}

void history_save(struct history *h)
{
    char *fresh = NULL;
    struct writer w;
    if (!h->path || !h->dirty || asprintf(&fresh, "%s.new", h->path) < 0)
        return;
    writer_init(&w, HISTORY_FILE_MAX);
    encode(h, &w);
    if (!w.failed) {
        struct key seal = key_of_bytes(w.data, w.len);
        writer_bytes(&w, seal.bytes, sizeof seal.bytes);
    }
    if (!w.failed && write_file(fresh, &w) && rename(fresh, h->path) == 0)
        h->dirty = false;
    else
        unlink(fresh);
    writer_close(&w);
    free(fresh);
}

/* ---- the whole ---- */

struct history *history_new(const char *path)
{
    struct history *h = calloc(1, sizeof *h);
    if (!h)
        return NULL;
    h->path = path ? strdup(path) : NULL;
    for (size_t i = 0; i < BUCKETS; i++)
        h->bucket[i] = NOBODY;
    return h;
}

void history_free(struct history *h)
{
    if (!h)
        return;
    for (size_t i = 0; i < HISTORY_MISSES && i <= h->last_miss; i++)
        miss_clear(&h->miss[i]);
    for (size_t i = 0; i < HISTORY_KNOWN && i < h->n_added; i++)
        known_drop(h, &h->known[i]);
    free(h->path);
    free(h);
}
