/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.c - answers a query of the history as JSON: the sessions, misses and reasons that a peer may see.
 * `warm why` and `warm run --report` print it.
 *
 * The service calls it for HISTORY messages.
 *
 * Thread: loop thread.
 */
#include "daemon/history/internal.h"
#include "keygen/json.h"
#include "keygen/label.h"

#define EVENT_JSON_MAX 1024u /* bytes; a label is escaped to six times its length */

static void write_text(struct writer *out, const char *name, struct view text)
{
    writer_format(out, ", \"%s\": ", name);
    json_write_text(out, text.data, text.len);
}

static void write_number(struct writer *out, const char *name, uint64_t n)
{
    writer_format(out, ", \"%s\": %llu", name, (unsigned long long)n);
}

static void write_session(const struct history *h, struct writer *out, const struct session *s)
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
    write_number(out, "gained_ms", history_gained_ms(h, s));
    write_number(out, "n_events", s->n_events);
    write_text(out, "command", view_of_text(s->command));
    writer_format(out, "}, ");
}

static void write_miss(struct writer *out, const struct miss *m)
{
    static const struct key no_key;
    char key[WARM_KEY_TEXT] = "";
    if (!key_equal(&m->id.key, &no_key))
        key_to_text(&m->id.key, key);
    writer_format(out, "{\"time_ms\": %llu", (unsigned long long)m->at_ms);
    write_number(out, "number", m->number);
    write_text(out, "session", view_of_text(m->text[TEXT_SESSION]));
    write_text(out, "key", view_of_text(key));
    write_text(out, "name", view_of_text(m->text[TEXT_NAME]));
    write_text(out, "label", view_of_text(m->text[TEXT_LABEL]));
    write_text(out, "kind", view_of_text(wire_kind_name(m->kind)));
    write_text(out, "hardware", view_of_text(m->text[TEXT_HARDWARE]));
    write_text(out, "compiler", view_of_text(m->text[TEXT_COMPILER]));
    write_text(out, "reason", view_of_text(wire_reason_name(m->reason)));
    write_text(out, "text", view_of_text(m->text[TEXT_TEXT]));
    write_text(out, "tier", view_of_text(m->text[TEXT_TIER]));
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
    writer_u8(out, '}');
}

/* The misses that a question is about. */
struct choice {
    const struct session *session;
    uint64_t only; /* one miss; 0: all of the session, or of the key */
};

/* True for the beginning of a key, of as many digits as the commands take (client/cli/find.c). */
static bool is_part_of_key(const struct key *key, struct view part)
{
    char text[WARM_KEY_TEXT];
    key_to_text(key, text);
    return part.len >= 8 && part.len < WARM_KEY_TEXT && strncasecmp(text, part.data, part.len) == 0;
}

static bool is_chosen(const struct history_query *q, const struct choice *c, const struct miss *m)
{
    struct key key;
    if (q->uid >= 0 && m->uid != q->uid)
        return false;
    if (c->only)
        return m->number == c->only;
    if (c->session && m->session)
        return m->session == c->session->number;
    if (c->session) /* noted by an earlier daemon */
        return m->uid == c->session->uid &&
               view_equal(view_of_text(m->text[TEXT_SESSION]), view_of_text(c->session->id));
    if (q->of == WIRE_HISTORY_SESSION) /* a session of an earlier daemon */
        return view_equal(view_of_text(m->text[TEXT_SESSION]), q->id);
    return view_equal(view_of_text(m->text[TEXT_NAME]), q->id) ||
           view_equal(view_of_text(m->text[TEXT_LABEL]), q->id) ||
           label_has_file(view_of_text(m->text[TEXT_LABEL]), q->id) ||
           (key_from_text(q->id.data, q->id.len, &key) && key_equal(&key, &m->id.key)) ||
           is_part_of_key(&m->id.key, q->id);
}

/* Finds the session that asked last; or the last miss, if that has no session. */
static void choose_last(struct history *h, const struct history_query *q, struct choice *out)
{
    for (size_t i = 0; i < HISTORY_SESSIONS; i++) {
        const struct session *s = &h->session[i];
        if ((s->last_ms || s->n_events) && s->uid == q->asker &&
            (!out->session || s->last_ms > out->session->last_ms))
            out->session = s;
    }
    const struct miss *list[HISTORY_MISSES];
    for (size_t n = history_misses(h, list); n > 0; n--) {
        const struct miss *m = list[n - 1];
        if (m->uid != q->asker)
            continue;
        if (!m->session && (!out->session || m->at_ms > out->session->last_ms)) {
            out->session = NULL;
            out->only = m->number;
        }
        return;
    }
}

static void choose(struct history *h, const struct history_query *q, struct choice *out)
{
    *out = (struct choice){NULL, 0};
    bool of_one = q->of == WIRE_HISTORY_EVENTS || q->of == WIRE_HISTORY_USED;
    bool by_id = q->of == WIRE_HISTORY_SESSION || (of_one && q->id.len);
    if (q->of == WIRE_HISTORY_LAST || (of_one && !by_id))
        choose_last(h, q, out);
    for (size_t i = 0; by_id && i < HISTORY_SESSIONS; i++)
        if (view_equal(view_of_text(h->session[i].id), q->id) &&
            (q->uid < 0 || h->session[i].uid == q->uid) &&
            (!out->session ||
             h->session[i].uid == q->asker)) /* the asker's own, if several have this id */
            out->session = &h->session[i];
}

/* Lists the newest misses that are asked for and fit, the oldest first. Returns how many there are. */
static size_t choose_misses(const struct history *h, const struct history_query *q,
                            const struct choice *c, const struct miss *out[HISTORY_MISSES])
{
    size_t bytes = 1024, n = 0, all = history_misses(h, out), first = all;
    for (size_t i = all; i > 0; i--) {
        const struct miss *m = out[i - 1];
        if (!is_chosen(q, c, m))
            continue;
        struct writer w;
        writer_init(&w, 0);
        write_miss(&w, m);
        bytes += w.len + 2;
        writer_close(&w);
        if (bytes > q->max_bytes || (q->max_misses && n == q->max_misses))
            break;
        out[--first] = m;
        n++;
    }
    memmove(out, out + first, n * sizeof *out);
    return n;
}

static void write_event(struct writer *out, const struct event *event)
{
    static const char *const whats[] = {
#define X(name, text) text,
        HISTORY_WHAT_LIST(X)
#undef X
    };
    const struct history_event *e = &event->e;
    char key[WARM_KEY_TEXT];
    key_to_text(&e->key, key);
    writer_format(out, "{\"at_us\": %llu, \"us\": %llu, \"pid\": %lu, \"what\": \"%s\"",
                  (unsigned long long)e->at_us, (unsigned long long)e->us, (unsigned long)e->pid,
                  whats[e->what]);
    write_number(out, "cost_ms", e->cost_ms);
    write_number(out, "made_ms", e->made_ms);
    write_number(out, "bytes", e->bytes);
    write_number(out, "miss", e->miss);
    write_text(out, "kind", view_of_text(wire_kind_name(e->kind)));
    write_text(out, "key", view_of_text(key));
    write_text(out, "label", (struct view){event->label, event->label_len});
    writer_u8(out, '}');
}

/* Writes a session and a page of its events. `next`: how many are to be passed over for the next page;
 * 0 after the last one. */
static bool write_events(struct history *h, const struct history_query *query,
                         const struct session *s, struct writer *out)
{
    const struct event *e;
    uint64_t at = 0;
    uint32_t n = 0, next = 0;
    if (!s)
        return false;
    writer_u8(out, '{');
    write_session(h, out, s);
    writer_format(out, "\"events\": [");
    for (; (e = history_event_next(h, s, &at)); n++) {
        if (n < query->max_misses)
            continue;
        if (out->len + EVENT_JSON_MAX > query->max_bytes) {
            next = n;
            break;
        }
        writer_bytes(out, ", ", n > query->max_misses ? 2 : 0);
        write_event(out, e);
    }
    writer_format(out, "]");
    write_number(out, "next", next);
    writer_u8(out, '}');
    return true;
}

/* Writes a session and a page of the entries that it used, in the order of their first use. */
static bool write_used(const struct history *h, const struct history_query *query,
                       const struct session *s, struct writer *out)
{
    uint32_t i = query->max_misses, next = 0;
    if (!s)
        return false;
    writer_u8(out, '{');
    write_session(h, out, s);
    writer_format(out, "\"used\": [");
    for (; i < s->used.n && !next; i++) {
        char key[WARM_KEY_TEXT];
        key_to_text(&s->used.id[i].key, key);
        writer_format(out, "%s\"%s\"", i > query->max_misses ? ", " : "", key);
        if (out->len + EVENT_JSON_MAX > query->max_bytes)
            next = i + 1;
    }
    writer_format(out, "]");
    write_number(out, "lost", s->lost);
    write_number(out, "next", next < s->used.n ? next : 0);
    writer_u8(out, '}');
    return true;
}

/* Writes the counters by hour, and which sessions are known. */
static bool write_usage(const struct history *h, const struct history_query *query,
                        struct writer *out)
{
    bool comma = false;
    writer_format(out, "{\"usage\": ");
    usage_write_json(&h->usage, query->uid, out);
    writer_format(out, ", \"sessions\": [");
    for (size_t i = 0; i < HISTORY_SESSIONS; i++) {
        const struct session *s = &h->session[i];
        if (!*s->id || (query->uid >= 0 && s->uid != query->uid))
            continue;
        writer_format(out, "%s{\"id\": \"%s\"", comma ? ", " : "", s->id);
        write_number(out, "uid", s->uid);
        write_text(out, "project", view_of_text(s->project));
        write_number(out, "last_ms", s->last_ms);
        writer_u8(out, '}');
        comma = true;
    }
    writer_format(out, "]}");
    return true;
}

bool history_write_json(struct history *h, const struct history_query *query, struct writer *out)
{
    struct choice choice;
    history_load(h);
    history_sessions_load(h);
    if (query->of == WIRE_HISTORY_FEED) {
        history_feed_write(query, out);
        return true;
    }
    if (query->of == WIRE_HISTORY_USAGE)
        return write_usage(h, query, out);
    choose(h, query, &choice);
    if (query->of == WIRE_HISTORY_EVENTS)
        return write_events(h, query, choice.session, out);
    if (query->of == WIRE_HISTORY_USED)
        return write_used(h, query, choice.session, out);
    const struct miss *list[HISTORY_MISSES];
    size_t n = choose_misses(h, query, &choice, list);
    if (n == 0 && !choice.session)
        return false;
    writer_u8(out, '{');
    if (choice.session)
        write_session(h, out, choice.session);
    writer_format(out, "\"misses\": [");
    for (size_t i = 0; i < n; i++) {
        writer_bytes(out, ", ", i ? 2 : 0);
        write_miss(out, list[i]);
    }
    writer_format(out, "]}");
    return true;
}
