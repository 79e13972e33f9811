/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events.c - keeps an event for each answered request of a session: its time, its process, what became
 * of it, and the time that it saved or cost. `warm report` draws its timeline from them.
 *
 * All users share one table in memory (shares.h); a restart drops it. Each session counts its events, so a
 * reader can tell that some are gone. They are no part of the history's file: each hit would have to be written.
 *
 * bookkeeping.c adds them; report.c writes them.
 *
 * Thread: loop thread.
 */
#include <stdlib.h>

#include "daemon/history/internal.h"

static struct event *event_at(struct history *h, uint64_t number)
{
    struct event *e = &h->event[number % HISTORY_EVENTS];
    return number && e->number == number ? e : NULL;
}

void history_event(struct history *h, const struct history_event *from)
{
    if (from->session == HISTORY_NO_SESSION)
        return;
    struct session *s = &h->session[from->session - 1];
    uint64_t number = shares_take(&h->event_shares, s->uid);
    struct event *e = &h->event[number % HISTORY_EVENTS];
    *e = (struct event){.number = number, .session = s->number, .e = *from};
    s->n_events++;
    size_t n = from->label.len < EVENT_LABEL ? from->label.len : EVENT_LABEL;
    if (n)
        memcpy(e->label, from->label.data, n);
    e->e.label = (struct view){0};
    e->label_len = (uint8_t)n;
    struct miss *m = history_miss_at(h, from->miss);
    if (m)
        m->event = e->number;
}

void history_event_made(struct history *h, uint64_t miss, const struct history_event *made)
{
    struct miss *m = history_miss_at(h, miss);
    struct event *e = m ? event_at(h, m->event) : NULL;
    if (!e || (e->e.what != HISTORY_MISSED && e->e.what != HISTORY_LEASED))
        return;
    e->e.what = HISTORY_MADE;
    e->e.us = made->at_us > e->e.at_us ? made->at_us - e->e.at_us : 0;
    e->e.kind = made->kind;
    e->e.cost_ms = made->cost_ms;
    e->e.bytes = made->bytes;
}

bool history_event_forget(struct history *h, const struct miss *m)
{
    struct event *e = event_at(h, m->event);
    if (e)
        e->number = 0;
    return e;
}

const struct event *history_event_next(const struct history *h, const struct session *session,
                                       uint64_t *number)
{
    uint32_t slot = shares_next(&h->event_shares, session->uid, *number);
    while (slot < HISTORY_EVENTS) {
        const struct event *e = &h->event[slot];
        if (e->number && e->session == session->number) {
            *number = e->number;
            return e;
        }
        slot = shares_next(&h->event_shares, session->uid, HISTORY_EVENTS + slot);
    }
    return NULL;
}

/* ---- saved time ---- */

struct span {
    uint64_t from_ms, to_ms;
};

static int compare_spans(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    return (x->from_ms > y->from_ms) - (x->from_ms < y->from_ms);
}

uint64_t history_gained_ms(const struct history *h, const struct session *session)
{
    struct span *span = malloc(HISTORY_EVENTS * sizeof *span);
    size_t n = 0;
    if (!span)
        return 0;
    const struct event *e;
    for (uint64_t at = 0; (e = history_event_next(h, session, &at));) {
        if (e->e.what != HISTORY_HIT || !e->e.cost_ms)
            continue;
        uint64_t end_ms = e->e.made_ms ? e->e.made_ms : e->e.at_us / 1000;
        span[n++] = (struct span){end_ms > e->e.cost_ms ? end_ms - e->e.cost_ms : 0, end_ms};
    }
    /* How many milliseconds do the spans cover? */
    uint64_t gained_ms = 0, end = 0;
    qsort(span, n, sizeof *span, compare_spans);
    for (size_t i = 0; i < n; i++) {
        uint64_t from = span[i].from_ms > end ? span[i].from_ms : end;
        if (span[i].to_ms <= from)
            continue;
        gained_ms += span[i].to_ms - from;
        end = span[i].to_ms;
    }
    free(span);
    return gained_ms;
}
