/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uses.c - finds the entries that a session used, in the order of their first use. `warm export --session`
 * and `warm record` call it.
 *
 * An entry that the daemon compiled is found through others of its group, which know its headers. So the
 * whole group belongs to a session that used one of it.
 *
 * Thread: main.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/cli/report/report.h"
#include "keygen/key.h"

#define STORED_MS 2000 /* a value is answered before it is stored; later it never will be */
#define LOOK_MS 50

struct use {
    struct key key; /* of an entry, or of a group */
    uint64_t order;
    bool made, found; /* the session made it; it is in the store */
};
struct uses {
    struct use *use; /* sorted by key */
    size_t n, cap;
};

static int add(struct uses *u, const struct key *key, uint64_t order, bool made)
{
    assert(u->n <= u->cap);
    if (u->n == u->cap) {
        size_t cap = u->cap ? u->cap * 2 : 256;
        struct use *grown = realloc(u->use, cap * sizeof *grown);
        if (!grown)
            return WARM_ENOMEM;
        u->use = grown;
        u->cap = cap;
    }
    u->use[u->n++] = (struct use){*key, order, made, false};
    return 0;
}

static int compare_uses(const void *a, const void *b)
{
    const struct use *x = a, *y = b;
    int order = memcmp(&x->key, &y->key, sizeof x->key);
    return order ? order : (x->order > y->order) - (x->order < y->order);
}

/* Sorts by key, and keeps the first use of each. */
static void settle(struct uses *u)
{
    size_t n = 0;
    if (u->n)
        qsort(u->use, u->n, sizeof *u->use, compare_uses);
    for (size_t i = 0; i < u->n; i++)
        if (n == 0 || !key_equal(&u->use[n - 1].key, &u->use[i].key))
            u->use[n++] = u->use[i];
        else
            u->use[n - 1].made |= u->use[i].made;
    u->n = n;
}

static int compare_key(const void *key, const void *use)
{
    return memcmp(key, &((const struct use *)use)->key, sizeof(struct key));
}

static struct use *find(const struct uses *u, const struct key *key)
{
    return u->n ? bsearch(key, u->use, u->n, sizeof *u->use, compare_key) : NULL;
}

struct search {
    struct uses keys, groups;
    struct listing *found;
};

static int on_first(void *arg, const struct wire_row *row, struct view frame)
{
    static const struct key none;
    struct search *s = arg;
    struct use *use = find(&s->keys, &row->key);
    (void)frame;
    if (use)
        use->found = true;
    return use && !key_equal(&row->group, &none) ? add(&s->groups, &row->group, use->order, false)
                                                 : 0;
}

static int on_second(void *arg, const struct wire_row *row, struct view frame)
{
    struct search *s = arg;
    const struct use *use = find(&s->keys, &row->key);
    if (!use)
        use = find(&s->groups, &row->group);
    return use ? listing_keep(s->found, frame, UINT64_MAX - use->order) : 0;
}

static int walk(struct remote *r, struct wire_filter filter, listing_on_row on_row,
                struct search *s)
{
    struct wire_list message = {.filter = filter};
    int code;
    do
        code = listing_ask(r, &message, on_row, s);
    while (code == 1);
    return code;
}

int report_rows(struct remote *r, const struct report *report, struct wire_filter filter,
                struct listing *out, size_t *out_missing)
{
    struct search s = {.found = out};
    struct key key;
    int code = 0;
    for (size_t i = 0; i < report->n_events && !code; i++) {
        const struct report_event *e = &report->event[i];
        if (key_from_text(e->key, strlen(e->key), &key))
            code =
                add(&s.keys, &key, e->at_us, e->what == REPORT_COMPILE || e->what == REPORT_MAKE);
    }
    assert(s.keys.n <= report->n_events);
    settle(&s.keys);
    if (!code)
        code = walk(r, filter_all(), on_first, &s);
    settle(&s.groups);
    if (!code)
        code = walk(r, filter, on_second, &s);
    if (!code)
        listing_sort(out);
    *out_missing = 0;
    for (size_t i = 0; i < s.keys.n; i++)
        *out_missing += s.keys.use[i].made && !s.keys.use[i].found;
    free(s.keys.use);
    free(s.groups.use);
    return code;
}

int report_rows_stored(struct remote *r, const struct report *report, struct wire_filter filter,
                       struct listing *out)
{
    static const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000};
    size_t before = SIZE_MAX, missing = 0;
    for (unsigned waited = 0;; waited += LOOK_MS) {
        int code = report_rows(r, report, filter, out, &missing);
        if (code || (!missing && out->n == before) || waited >= STORED_MS)
            return code;
        before = out->n;
        listing_close(out);
        nanosleep(&pause, NULL);
    }
}
