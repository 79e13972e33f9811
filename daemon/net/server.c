/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.c - decides who may connect, and goes on with connections between their own events.
 *
 * Before the loop sleeps (uv_prepare), the server goes through the connections that became ready in other
 * ways: an answer came for them, or they may go on with their input. Then the store's turn ends.
 *
 * main.c makes it; connection.c tells it which connections are ready.
 *
 * Thread: loop thread.
 */
#include "daemon/net/server.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/net/internal.h"
#include "daemon/process/log.h"
#include "daemon/users/budget.h"

#define TICK_MS 1000u   /* how exact the deadlines of connections are */
#define RESERVE_MAX 64u /* places for users who have no connection yet */

/* ---- connections that come and go ---- */

/*
 * Near the limit idle connections are closed first, those of the user with the most connections. The last
 * places are for users without a connection:
 *
 *     0 ────────────────────────────── max - reserve ───────── max
 *       anybody                        │ users without one     │
 *                                      │ users with fewer than the largest user, who loses an idle one
 *                                      │ else: parked, and then closed
 */
static unsigned reserve(const struct server *s)
{
    uint64_t eighth = s->config.config->max_connections / 8;
    return eighth < RESERVE_MAX ? (unsigned)eighth : RESERVE_MAX;
}

/* Finds the idle connection of a user that is silent for longest; NULL if there is none. */
static struct connection *idle_of(const struct server *s, uint32_t uid)
{
    struct connection *found = NULL;
    for (struct connection *c = s->all; c; c = c->next)
        if (c->peer.uid == uid && (!found || c->progress_ms < found->progress_ms) &&
            connection_is_idle(c))
            found = c;
    return found;
}

/* True if there is a place for one more connection of this user, perhaps that of an idle one. */
static bool make_place(struct server *s, uint32_t uid)
{
    uint64_t max = s->config.config->max_connections, mine = budget_used(uid, BUDGET_connections);
    uint32_t largest;
    if (s->count + reserve(s) < max || (mine == 0 && s->count < max))
        return true;
    if (!budget_largest(BUDGET_connections, &largest) ||
        budget_used(largest, BUDGET_connections) <= mine + 1)
        return false;
    struct connection *idle = idle_of(s, largest);
    if (idle)
        connection_close(idle);
    return idle != NULL;
}

static void refuse(int fd, const struct peer *peer)
{
    log_user(peer->uid, LOG_LEVEL_WARNING, "uid %u has too many connections: one is refused",
             (unsigned)peer->uid);
    close(fd);
}

/* Takes the socket of a peer for whom there is a place. */
static void let_in(struct server *s, int fd, const struct peer *peer)
{
    if (!budget_take(peer->uid, BUDGET_connections, 1)) {
        refuse(fd, peer);
        return;
    }
    struct connection *c = connection_new(s, fd, peer);
    if (!c) {
        budget_give(peer->uid, BUDGET_connections, 1);
        log_user(peer->uid, LOG_LEVEL_WARNING, "no memory for a connection");
        return;
    }
    c->next = s->all;
    if (s->all)
        s->all->prev = c;
    s->all = c;
    s->n_open_handles++;
    s->count++;
    if (!loop_timer_runs(s->tick))
        loop_timer_start(s->tick, TICK_MS, TICK_MS);
}

static void park(struct server *s, int fd, const struct peer *peer)
{
    unsigned n_theirs = 0;
    for (unsigned i = 0; i < s->n_parked; i++)
        n_theirs += s->parked[i].peer.uid == peer->uid;
    if (s->n_parked < PARKED_MAX && n_theirs < PARKED_OF_USER)
        s->parked[s->n_parked++] = (struct parked){fd, *peer};
    else
        refuse(fd, peer);
}

/* Lets parked sockets in: a place has become free. */
static void unpark(struct server *s)
{
    for (unsigned i = 0; i < s->n_parked;) {
        struct parked p = s->parked[i];
        if (!make_place(s, p.peer.uid)) {
            i++;
            continue;
        }
        s->n_parked--;
        memmove(&s->parked[i], &s->parked[i + 1], (s->n_parked - i) * sizeof *s->parked);
        let_in(s, p.fd, &p.peer);
    }
}

static bool take_connection(struct server *s, int fd, bool admits_admin, bool always)
{
    struct peer peer;
    struct err e = {0};
    if (peer_identify(fd, s->config.trust_group, admits_admin, &peer, &e) != 0) {
        log_user(UINT32_MAX, LOG_LEVEL_WARNING, "a connection is refused: %s", e.text);
        close(fd);
    } else if (!budget_has(peer.uid, BUDGET_connections, 1)) {
        refuse(fd, &peer);
    } else if (always || make_place(s, peer.uid)) {
        let_in(s, fd, &peer);
    } else {
        park(s, fd, &peer);
    }
    return true;
}

static bool on_connection(void *arg, int fd)
{
    struct server *s = arg;
    return take_connection(s, fd, !s->config.is_shared, false);
}

/* The administrator gets in, however many connections there are. */
static bool on_admin_connection(void *arg, int fd) { return take_connection(arg, fd, true, true); }

void server_forget(struct connection *c)
{
    struct server *s = c->server;
    if (c->is_ready || c->is_later) {
        struct connection **at = c->is_ready ? &s->ready : &s->later;
        while (*at != c)
            at = &(*at)->next_ready;
        *at = c->next_ready;
        c->is_ready = c->is_later = false;
    }
    if (c->starved) {
        struct connection **at = &s->starved;
        while (*at != c)
            at = &(*at)->next_starved;
        *at = c->next_starved;
        c->starved = false;
    }
    if (c->next)
        c->next->prev = c->prev;
    *(c->prev ? &c->prev->next : &s->all) = c->next;
    budget_give(c->peer.uid, BUDGET_connections, 1);
    s->count--;
}

void server_forget_handle(struct server *s)
{
    if (--s->n_open_handles == 0 && s->closing)
        s->on_closed(s->on_closed_arg);
}

/* ---- turns ---- */

void server_make_ready(struct connection *c)
{
    if (c->is_ready || c->is_later || c->closing)
        return;
    c->is_ready = true;
    c->next_ready = c->server->ready;
    c->server->ready = c;
}

static void on_idle(uv_idle_t *idle) { (void)idle; }

void server_make_ready_later(struct connection *c)
{
    struct server *s = c->server;
    if (c->is_ready || c->is_later || c->closing)
        return;
    c->is_later = true;
    c->next_ready = s->later;
    s->later = c;
    uv_idle_start(&s->idle, on_idle);
}

static void take_later(struct server *s)
{
    struct connection *c;
    uv_idle_stop(&s->idle);
    while ((c = s->later)) {
        s->later = c->next_ready;
        c->is_later = false;
        c->held &= !c->resumes;
        c->resumes = false;
        server_make_ready(c);
    }
}

void server_make_starved(struct connection *c)
{
    struct server *s = c->server;
    if (c->starved || c->closing)
        return;
    c->starved = true;
    c->next_starved = s->starved;
    s->starved = c;
}

/* Goes on with connections whose users may take more again. */
static void take_starved(struct server *s)
{
    for (struct connection **at = &s->starved, *c; (c = *at);) {
        if (connection_is_over_budget(c)) {
            at = &c->next_starved;
            continue;
        }
        *at = c->next_starved;
        c->starved = false;
        server_make_ready(c);
    }
}

/* Goes through the ready connections. Those that become ready meanwhile have the same turn: an
 * answer to one may free another. */
static void on_prepare(uv_prepare_t *prepare)
{
    struct server *s = prepare->data;
    take_later(s);
    take_starved(s);
    unpark(s);
    while (s->ready) {
        struct connection *c = s->ready;
        assert(c->is_ready && !c->closing);
        s->ready = c->next_ready;
        c->is_ready = false;
        connection_continue(c);
        if (!s->ready)
            take_starved(s);
    }
    assert(!s->n_items); /* no answer borrows from the store any more */
    store_turn_end(service_store(s->config.service));
}

static void on_tick(void *arg)
{
    struct server *s = arg;
    uint64_t now = service_now_ms(s->config.service);
    if (s->count == 0)
        loop_timer_stop(s->tick);
    for (struct connection *c = s->all, *next; c; c = next) {
        next = c->next;
        connection_check_deadlines(c, now);
    }
}

/* ---- the server ---- */

int server_start(struct server **out, const struct server_config *config, struct err *e)
{
    struct server *s = calloc(1, sizeof *s);
    if (!s)
        return err_set(e, WARM_ENOMEM, "no memory for the server");
    s->config = *config;
    writer_init(&s->out, 0);
    s->tick = loop_timer_new(config->loop, on_tick, s);
    if (!s->tick) {
        free(s);
        return err_set(e, WARM_ENOMEM, "no descriptor for the server's timer");
    }
    int code = listener_start(&s->listener, config->loop, config->listener_fd, on_connection, s, e);
    if (code) {
        loop_timer_free(s->tick);
        free(s);
        return code;
    }
    if (config->admin_fd >= 0 &&
        listener_start(&s->admin, config->loop, config->admin_fd, on_admin_connection, s, e)) {
        log_warning("%s", e->text);
        s->config.admin_fd = -1;
    }
    uv_prepare_init(config->loop, &s->prepare);
    uv_idle_init(config->loop, &s->idle);
    s->prepare.data = s->idle.data = s;
    uv_prepare_start(&s->prepare, on_prepare);
    s->n_open_handles = s->config.admin_fd >= 0 ? 4 : 3;
    *out = s;
    return 0;
}

static void on_handle_closed(uv_handle_t *handle) { server_forget_handle(handle->data); }
static void on_listener_closed(void *arg) { server_forget_handle(arg); }

void server_stop_accepting(struct server *s)
{
    if (s->closing)
        return;
    s->closing = true;
    s->n_open_handles++; /* until server_close: on_closed does not run before */
    listener_close(&s->listener, on_listener_closed);
    if (s->config.admin_fd >= 0)
        listener_close(&s->admin, on_listener_closed);
}

bool server_is_quiet(const struct server *s)
{
    for (const struct connection *c = s->all; c; c = c->next)
        if (c->queue)
            return false;
    return true;
}

void server_close(struct server *s, void (*on_closed)(void *arg), void *arg)
{
    server_stop_accepting(s);
    s->on_closed = on_closed;
    s->on_closed_arg = arg;
    while (s->all)
        connection_close(s->all);
    uv_close((uv_handle_t *)&s->prepare, on_handle_closed);
    uv_close((uv_handle_t *)&s->idle, on_handle_closed);
    loop_timer_free(s->tick);
    s->tick = NULL;
    server_forget_handle(s);
}

void server_free(struct server *s)
{
    if (!s)
        return;
    while (s->n_parked)
        close(s->parked[--s->n_parked].fd);
    writer_close(&s->out);
    free(s);
}

unsigned server_count(const struct server *s) { return s->count; }
