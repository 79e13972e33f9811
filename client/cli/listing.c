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

int listing_ask(struct remote *r, struct wire_list *message, listing_on_row on_row, void *arg)
{
    assert(r && r->w && message && on_row);
    struct warm *w = r->w;
    struct answer answer;
    struct wire_row row;
    struct wire_end end;
    uint64_t tag = request_begin(w);
    message->max_rows = ROWS_PER_ASK;
    wire_put_list(&w->request, tag, message);
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
    if (answer.frame.type != WIRE_END || wire_get_end(&answer.frame, &end, &w->err))
        return request_unexpected(w, &answer);
    memcpy(message->cursor, end.cursor, sizeof end.cursor);
    return end.more;
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
