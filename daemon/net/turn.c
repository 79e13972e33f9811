/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turn.c - keeps which connection has the turn of the loop, and which ones go on outside their own events.
 * connection.c and output.c put connections on its lists; server.c takes them off.
 *
 * Thread: loop thread.
 */
#include <assert.h>

#include "daemon/net/internal.h"
#include "store/clock.h"

#define TURN_NS 1000000u /* a longer turn leaves the rest for the next one */

void turn_begin(struct turn *t, struct connection *c)
{
    t->current = c;
    t->began_ns = clock_mono_ns();
}

bool turn_is_over(const struct turn *t) { return clock_mono_ns() - t->began_ns > TURN_NS; }

void turn_make_ready(struct connection *c)
{
    if (c->is_ready || c->is_later || c->closing)
        return;
    c->is_ready = true;
    c->next_ready = c->turn->ready;
    c->turn->ready = c;
}

static void on_idle(uv_idle_t *idle) { (void)idle; }

void turn_make_ready_later(struct connection *c)
{
    struct turn *t = c->turn;
    if (c->is_ready || c->is_later || c->closing)
        return;
    c->is_later = true;
    c->next_ready = t->later;
    t->later = c;
    uv_idle_start(&t->idle, on_idle);
}

void turn_take_later(struct turn *t)
{
    struct connection *c;
    uv_idle_stop(&t->idle);
    while ((c = t->later)) {
        t->later = c->next_ready;
        c->is_later = false;
        c->held &= !c->resumes;
        c->resumes = false;
        turn_make_ready(c);
    }
}

void turn_make_starved(struct connection *c)
{
    struct turn *t = c->turn;
    if (c->starved || c->closing)
        return;
    c->starved = true;
    c->next_starved = t->starved;
    t->starved = c;
}

void turn_take_starved(struct turn *t, bool (*may_go_on)(const struct connection *c))
{
    for (struct connection **at = &t->starved, *c; (c = *at);) {
        if (!may_go_on(c)) {
            at = &c->next_starved;
            continue;
        }
        *at = c->next_starved;
        c->starved = false;
        turn_make_ready(c);
    }
}

struct connection *turn_next_ready(struct turn *t)
{
    struct connection *c = t->ready;
    if (!c)
        return NULL;
    assert(c->is_ready && !c->closing);
    t->ready = c->next_ready;
    c->is_ready = false;
    return c;
}

void turn_forget(struct connection *c)
{
    struct turn *t = c->turn;
    if (c->is_ready || c->is_later) {
        struct connection **at = c->is_ready ? &t->ready : &t->later;
        while (*at != c)
            at = &(*at)->next_ready;
        *at = c->next_ready;
        c->is_ready = c->is_later = false;
    }
    if (c->starved) {
        struct connection **at = &t->starved;
        while (*at != c)
            at = &(*at)->next_starved;
        *at = c->next_starved;
        c->starved = false;
    }
}
