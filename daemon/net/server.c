/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.c - decides who may connect, and goes on with connections between their own events.
 *
 * Before the loop sleeps (uv_prepare), the server goes through the connections that became ready
 * without an event. An answer came for them, or they may go on with their input. Then the store's
 * turn ends.
 *
 * main.c makes it; turn.c has the lists of ready connections.
 *
 * Thread: loop thread.
 */
#include "daemon/net/server.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/net/internal.h"
#include "daemon/net/listener.h"
#include "daemon/process/log.h"
#include "daemon/process/loop_timer.h"
#include "daemon/users/budget.h"
#include "keygen/list.h"

#define TICK_MS 1000u   /* how exact the deadlines of connections are */
#define RESERVE_MAX 64u /* places for users who have no connection yet */

/* An accepted socket for which there is no place yet. */
#define PARKED_MAX 64u
#define PARKED_OF_USER 8u
struct parked {
    int fd;
    struct peer peer;
};

struct server {
    struct server_config config;
    struct listener listener, admin; /* the second if there is an admin_fd */
    uv_prepare_t prepare;
    struct loop_timer *tick; /* runs while there are connections, and a little longer */
    struct connection *all;
    unsigned count, n_open_handles;   /* count: connections that are not closed yet */
    struct parked parked[PARKED_MAX]; /* the longest waiting first */
    unsigned n_parked;
    bool closing;
    void (*on_closed)(void *arg);
    void *on_closed_arg;

    struct turn turn;
};

/* ---- connections that come and go ---- */

/*
 * Returns the number of places that are for users without a connection. Near the limit idle connections
 * are closed first, those of the user with the most connections:
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
    struct connection *idle = NULL; /* the one that is silent for longest */
    for (struct connection *c = s->all; c; c = c->next)
        if (c->peer.uid == largest && (!idle || c->progress_ms < idle->progress_ms) &&
            connection_is_idle(c))
            idle = c;
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
    struct connection *c = connection_new(&s->turn, fd, peer);
    if (!c) {
        budget_give(peer->uid, BUDGET_connections, 1);
        log_user(peer->uid, LOG_LEVEL_WARNING, "no memory for a connection");
        return;
    }
    LIST_ADD(s->all, c);
    s->n_open_handles++;
    s->count++;
    if (!loop_timer_runs(s->tick))
        loop_timer_start(s->tick, TICK_MS, TICK_MS);
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
        unsigned n_theirs = 0;
        for (unsigned i = 0; i < s->n_parked; i++)
            n_theirs += s->parked[i].peer.uid == peer.uid;
        if (s->n_parked < PARKED_MAX && n_theirs < PARKED_OF_USER)
            s->parked[s->n_parked++] = (struct parked){fd, peer};
        else
            refuse(fd, &peer);
    }
    return true;
}

static bool on_connection(void *arg, int fd)
{
    struct server *s = arg;
    return take_connection(s, fd, !s->config.is_shared, false);
}

/* Takes an administrator's connection, however many there are. */
static bool on_admin_connection(void *arg, int fd) { return take_connection(arg, fd, true, true); }

static void on_close(void *arg, struct connection *c)
{
    struct server *s = arg;
    LIST_REMOVE(s->all, c);
    budget_give(c->peer.uid, BUDGET_connections, 1);
    assert(s->count);
    s->count--;
}

static void forget_handle(void *arg)
{
    struct server *s = arg;
    assert(s->n_open_handles);
    if (--s->n_open_handles == 0 && s->closing)
        s->on_closed(s->on_closed_arg);
}

/* ---- turns ---- */

static bool may_take_more(const struct connection *c) { return !connection_is_over_budget(c); }

/* Goes through the ready connections. Those that become ready meanwhile have the same turn: an
 * answer to one may free another. */
static void on_prepare(uv_prepare_t *prepare)
{
    struct server *s = prepare->data;
    struct turn *t = &s->turn;
    turn_take_later(t);
    turn_take_starved(t, may_take_more);
    /* A place may have become free: parked sockets are let in. */
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
    for (struct connection *c; (c = turn_next_ready(t));) {
        connection_continue(c);
        if (!t->ready)
            turn_take_starved(t, may_take_more);
    }
    assert(!t->n_items); /* no answer borrows from the store any more */
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
    s->turn.loop = config->loop;
    s->turn.service = config->service;
    s->turn.protocols = config->protocols;
    s->turn.on_close = on_close;
    s->turn.on_freed = forget_handle;
    s->turn.arg = s;
    writer_init(&s->turn.out, 0);
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
    uv_idle_init(config->loop, &s->turn.idle);
    s->prepare.data = s->turn.idle.data = s;
    uv_prepare_start(&s->prepare, on_prepare);
    s->n_open_handles = s->config.admin_fd >= 0 ? 4 : 3;
    *out = s;
    return 0;
}

static void on_handle_closed(uv_handle_t *handle) { forget_handle(handle->data); }

void server_stop_accepting(struct server *s)
{
    if (s->closing)
        return;
    s->closing = true;
    s->n_open_handles++; /* until server_close: on_closed does not run before */
    listener_close(&s->listener, forget_handle);
    if (s->config.admin_fd >= 0)
        listener_close(&s->admin, forget_handle);
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
    uv_close((uv_handle_t *)&s->turn.idle, on_handle_closed);
    loop_timer_free(s->tick);
    s->tick = NULL;
    forget_handle(s);
}

void server_free(struct server *s)
{
    if (!s)
        return;
    while (s->n_parked)
        close(s->parked[--s->n_parked].fd);
    writer_close(&s->turn.out);
    free(s);
}

unsigned server_count(const struct server *s) { return s->count; }
