/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listing.c - asks the daemon for rows in pieces, and keeps them for commands that need all at
 * once. ls and export call it; listing.h has the contract.
 *
 * Thread: main.
 */
#include "client/cli/listing.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_PER_ASK 4096u
#define KEYS_PER_ASK 500u

/* Sends the request and takes its rows, until an END comes. */
static int take_rows(struct warm *w, uint64_t tag, listing_on_row on_row, void *arg,
                     struct wire_end *out_end)
{
    struct answer answer;
    struct wire_row row;
    *out_end = (struct wire_end){0};
    int code = request_ask(w, tag, NULL, 0, conn_now_ms() + DEADLINE_PERSON_ANSWER_MS, &answer);
    while (!code && answer.frame.type == WIRE_ROW) {
        code = wire_get_row(&answer.frame, &row, &w->err);
        if (!code)
            code = on_row(arg, &row, answer.frame.payload);
        if (!code)
            code = request_next(w, tag, -1, conn_now_ms() + DEADLINE_PERSON_ANSWER_MS, &answer);
    }
    if (code)
        return code;
    if (answer.frame.type != WIRE_END || wire_get_end(&answer.frame, out_end, &w->err))
        return request_unexpected(w, &answer);
    return 0;
}

int listing_ask(struct remote *r, struct wire_list *message, listing_on_row on_row, void *arg)
{
    assert(r && r->w && message && on_row);
    struct wire_end end;
    int code;
    message->max_rows = ROWS_PER_ASK;
    do {
        uint64_t tag = request_begin(r->w);
        wire_put_list(&r->w->request, tag, message);
        code = take_rows(r->w, tag, on_row, arg, &end);
        memcpy(message->cursor, end.cursor, sizeof end.cursor);
    } while (!code && end.more);
    return code;
}

int listing_closure(struct remote *r, const struct key *keys, size_t n, listing_on_row on_row,
                    void *arg)
{
    assert(r && r->w && on_row);
    struct wire_end end;
    int code = 0;
    for (size_t i = 0; i < n && !code;) {
        struct writer list;
        uint32_t n_asked = 0;
        writer_init(&list, 0);
        for (; i < n && n_asked < KEYS_PER_ASK; i++, n_asked++)
            wire_keys_add(&list, WIRE_SPACE_KEY, keys[i].bytes, sizeof keys[i].bytes);
        uint64_t tag = request_begin(r->w);
        wire_put_closure(&r->w->request, tag,
                         &(struct wire_remove){n_asked, {list.data, list.len}});
        code = list.failed ? WARM_ENOMEM : take_rows(r->w, tag, on_row, arg, &end);
        writer_close(&list);
    }
    return code;
}

int listing_keep(struct listing *l, struct view frame, uint64_t value)
{
    assert(l && frame.data);
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 256;
        struct kept_row *rows = realloc(l->rows, cap * sizeof *rows);
        if (!rows)
            return WARM_ENOMEM;
        l->rows = rows;
        l->cap = cap;
    }
    uint8_t *copy = malloc(frame.len);
    if (!copy)
        return WARM_ENOMEM;
    memcpy(copy, frame.data, frame.len);
    l->rows[l->n++] = (struct kept_row){value, copy, frame.len};
    return 0;
}

static int by_value(const void *a, const void *b)
{
    const struct kept_row *x = a, *y = b;
    return x->value < y->value ? 1 : x->value > y->value ? -1 : 0;
}

void listing_sort(struct listing *l)
{
    if (l->n)
        qsort(l->rows, l->n, sizeof *l->rows, by_value);
}

int listing_add_closure(struct remote *r, const struct listing *l, listing_on_row on_row, void *arg)
{
    struct wire_row row;
    size_t n = 0, n_rows = l->n; /* `on_row` may add to it */
    struct key *keys = calloc(n_rows ? n_rows : 1, sizeof *keys);
    if (!keys)
        return WARM_ENOMEM;
    for (size_t i = 0; i < n_rows; i++)
        if (listing_row(l, i, &row))
            keys[n++] = row.key;
    int code = listing_closure(r, keys, n, on_row, arg);
    free(keys);
    return code;
}

struct place {
    struct key key;
    uint32_t owner;
    size_t at;
};

static int by_entry(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    int order = memcmp(&x->key, &y->key, sizeof x->key);
    if (!order)
        order = (x->owner > y->owner) - (x->owner < y->owner);
    return order ? order : (x->at > y->at) - (x->at < y->at);
}

int listing_unique(struct listing *l)
{
    struct place *places = calloc(l->n ? l->n : 1, sizeof *places);
    struct wire_row row;
    size_t n = 0;
    if (!places)
        return WARM_ENOMEM;
    for (size_t i = 0; i < l->n; i++)
        if (listing_row(l, i, &row))
            places[i] = (struct place){row.key, row.owner, i};
    qsort(places, l->n, sizeof *places, by_entry);
    for (size_t i = 1; i < l->n; i++)
        if (key_equal(&places[i].key, &places[i - 1].key) &&
            places[i].owner == places[i - 1].owner) {
            free(l->rows[places[i].at].frame);
            l->rows[places[i].at].frame = NULL;
        }
    for (size_t i = 0; i < l->n; i++)
        if (l->rows[i].frame)
            l->rows[n++] = l->rows[i];
    l->n = n;
    free(places);
    return 0;
}

bool listing_row(const struct listing *l, size_t i, struct wire_row *out)
{
    assert(l && out && i < l->n);
    struct wire_frame frame = {.type = WIRE_ROW, .payload = {l->rows[i].frame, l->rows[i].len}};
    return wire_get_row(&frame, out, NULL) == 0;
}

void listing_close(struct listing *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->rows[i].frame);
    free(l->rows);
    *l = (struct listing){0};
}
