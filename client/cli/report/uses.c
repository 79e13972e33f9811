/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uses.c - finds the entries that a session used, and all that belongs to them, in the order of their first use.
 * `warm export` and `warm tier push` call it.
 *
 *     HISTORY: the keys of the session ─▶ CLOSURE: their rows ─▶ those that match the filter
 *
 * Thread: main.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/cli/json_reader.h"
#include "client/cli/report/report.h"
#include "keygen/vector.h"

#define STORED_MS 2000 /* a value is answered before it is stored; later it never will be */
#define LOOK_MS 50

struct uses {
    VECTOR(struct key) keys; /* in the order of their first use */
    bool failed;             /* no memory for them */
    char id[REPORT_TEXT];    /* of the session */
    uint64_t lost;           /* entries that the daemon no longer knows */
};

/* Reads one page. `*next`: where the next one begins; 0: this was the last. */
static int read_page(struct view doc, struct uses *u, uint32_t *next)
{
    struct view rest, item;
    struct key key;
    json_reader_copy(doc, "session.id", u->id, sizeof u->id);
    u->lost = json_reader_count(doc, "lost");
    *next = (uint32_t)json_reader_count(doc, "next");
    if (!json_reader_find(doc, "used", &rest))
        return 0;
    while (json_reader_next(&rest, &item)) {
        char text[WARM_KEY_TEXT] = "";
        json_reader_text(item, text, sizeof text);
        if (key_from_text(text, strlen(text), &key))
            PUSH(u, u->keys, key);
    }
    return u->failed ? WARM_ENOMEM : 0;
}

/* Asks for all that a session used; for the one that asked last if `id` is empty. 0 or an exit status, after
 * printing the reason. */
static int ask(struct remote *r, const char *id, struct uses *u)
{
    struct wire_text text;
    uint32_t next = 0;
    int status;
    do {
        struct wire_history question = {
            .of = WIRE_HISTORY_USED, .max_misses = next, .id = view_of_text(id)};
        status = remote_history(r, &question, &text);
        int code = status ? 0 : read_page(text.text, u, &next);
        if (code)
            status = remote_fail(r, code);
    } while (!status && next);
    if (status == CLI_FINDING)
        cli_say(*id ? "no session %s is known" : "no session is known", id);
    return status;
}

/* ---- their rows ---- */

struct search {
    struct listing *found;
    struct listing *chosen; /* NULL: no filter */
    uint64_t order;
};

static int on_row(void *arg, const struct wire_row *row, struct view frame)
{
    struct search *s = arg;
    (void)row;
    return listing_keep(s->found, frame, UINT64_MAX - s->order++);
}

static int on_chosen(void *arg, const struct wire_row *row, struct view frame)
{
    (void)row;
    return listing_keep(arg, frame, 0);
}

static int compare_keys(const void *a, const void *b) { return memcmp(a, b, sizeof(struct key)); }

/* Copies the keys of rows, sorted. NULL: no memory. */
static struct key *sorted_keys(const struct listing *l)
{
    struct wire_row row;
    struct key *keys = calloc(l->n ? l->n : 1, sizeof *keys);
    for (size_t i = 0; keys && i < l->n; i++)
        if (listing_row(l, i, &row))
            keys[i] = row.key;
    if (keys)
        qsort(keys, l->n, sizeof *keys, compare_keys);
    return keys;
}

/* Keeps the rows that match a filter as well. */
static int choose(struct remote *r, struct wire_filter filter, struct listing *l)
{
    struct listing matching = {0};
    struct wire_list message = {.filter = filter};
    struct wire_row row;
    size_t n = 0;
    int code = listing_ask(r, &message, on_chosen, &matching);
    struct key *keys = code ? NULL : sorted_keys(&matching);
    code = code || keys ? code : WARM_ENOMEM;
    for (size_t i = 0; i < l->n && !code; i++)
        if (listing_row(l, i, &row) &&
            bsearch(&row.key, keys, matching.n, sizeof *keys, compare_keys))
            l->rows[n++] = l->rows[i];
        else
            free(l->rows[i].frame);
    l->n = code ? l->n : n;
    free(keys);
    listing_close(&matching);
    return code;
}

static int rows_of(struct remote *r, const struct uses *u, struct listing *out,
                   uint64_t *out_missing)
{
    struct search s = {.found = out};
    int code = listing_closure(r, u->keys.at, u->keys.n, on_row, &s);
    code = code ? code : listing_unique(out);
    struct key *keys = code ? NULL : sorted_keys(out);
    code = code || keys ? code : WARM_ENOMEM;
    *out_missing = 0;
    for (size_t i = 0; keys && i < u->keys.n; i++)
        *out_missing += !bsearch(&u->keys.at[i], keys, out->n, sizeof *keys, compare_keys);
    free(keys);
    return code;
}

int report_uses(struct remote *r, const char *session, struct wire_filter filter,
                struct listing *out, struct report_missing *missing)
{
    static const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000};
    struct uses u = {.failed = false};
    int code = 0, status = ask(r, session, &u);
    for (unsigned waited = 0; !status && !code; waited += LOOK_MS) {
        code = rows_of(r, &u, out, &missing->gone);
        if (code || !missing->gone || waited >= STORED_MS)
            break;
        listing_close(out);
        nanosleep(&pause, NULL);
    }
    if (!status && !code && !filter_is_all(&filter))
        code = choose(r, filter, out);
    missing->lost = u.lost;
    free(u.keys.at);
    return code ? remote_fail(r, code) : status;
}
