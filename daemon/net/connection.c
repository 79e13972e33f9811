/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connection.c - decides what one connection reads and parses in a turn: one recvmsg, the messages in it,
 * and then output.c's one sendmsg.
 *
 * libuv watches the descriptor and does no more: its pipes drop descriptors that come in, and cannot send
 * those of files. server.c calls it for events of other connections.
 *
 * Invariants:
 *   (1) while a connection has a queue, all of its output goes through the queue, in order;
 *   (2) batched output is sent, or copied to the queue, before the turn ends;
 *   (3) after connection_close nothing is read, written or parsed, and the protocol's state is gone.
 *
 * Thread: loop thread.
 */
#include "daemon/net/connection.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/net/internal.h"
#include "daemon/process/closer.h"
#include "daemon/process/log.h"
#include "daemon/users/budget.h"
#include "store/clock.h"

#define QUEUE_MAX (1u << 20) /* bytes queued before reading stops */
#define GREETING_MS 10000u   /* until the first message must be complete */
#define PROGRESS_MS 30000u   /* without progress, with half a message or a full queue */
#define HURRY_MS 2000u       /* likewise, while the user is over a budget */
#define INPUT_MAX                                                                                  \
    (WIRE_PAYLOAD_MAX + (256u << 10)) /* bytes of input that are kept for the next turn */

/* ---- reading ---- */

/* Keeps the descriptors that came. False if there are more than a client may send ahead. */
static bool keep_fds(struct connection *c, struct msghdr *m)
{
    bool good = !(m->msg_flags & MSG_CTRUNC);
    for (struct cmsghdr *h = CMSG_FIRSTHDR(m); h; h = CMSG_NXTHDR(m, h)) {
        if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(h) + i * sizeof fd, sizeof fd);
            if (c->n_in_fds < FDS_MAX && budget_charge(c->peer.uid, BUDGET_descriptors, 1)) {
                c->in_fds[c->n_in_fds++] = fd;
            } else {
                fd_close_later(fd);
                good = false;
            }
        }
    }
    return good;
}

static void input_free(struct connection *c)
{
    budget_give(c->peer.uid, BUDGET_buffers, c->in_cap);
    free(c->in);
    c->in = NULL;
    c->in_len = c->in_cap = 0;
}

static bool input_resize(struct connection *c, size_t cap)
{
    uint8_t *in = budget_charge(c->peer.uid, BUDGET_buffers, cap) ? realloc(c->in, cap) : NULL;
    if (!in)
        return false;
    budget_give(c->peer.uid, BUDGET_buffers, c->in_cap);
    c->in = in;
    c->in_cap = cap;
    return true;
}

/* Makes room for more input behind the kept bytes. */
static bool input_grow(struct connection *c)
{
    size_t want = c->in_len + (c->in_len < 16384 ? 16384 : c->in_len);
    if (want > INPUT_MAX)
        want = INPUT_MAX;
    if (want <= c->in_cap)
        return c->in_len < c->in_cap;
    return input_resize(c, want);
}

/* Reads once, behind the kept bytes or into the shared buffer. Returns as recvmsg, or -errno. */
static ssize_t input_read(struct connection *c)
{
    union {
        char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
        struct cmsghdr align;
    } control;
    if (c->in_len && !input_grow(c))
        return -ENOMEM;
    if (c->protocol && !c->protocol->takes_fds && !c->in_len) {
        ssize_t got = recv(c->fd, c->turn->input, INPUT_SHARED, MSG_DONTWAIT);
        return got < 0 ? (errno == EINTR ? -EAGAIN : -errno) : got;
    }
    struct iovec iov = {c->in_len ? c->in + c->in_len : c->turn->input,
                        c->in_len ? c->in_cap - c->in_len : INPUT_SHARED};
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof control.bytes};
    ssize_t n;
    do
        n = recvmsg(c->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    if (m.msg_controllen && !keep_fds(c, &m)) {
        log_debug("uid %u sent more descriptors than were taken", (unsigned)c->peer.uid);
        return -EPROTO;
    }
    return n;
}

bool connection_take_fds(struct connection *c, unsigned n, int *out)
{
    if (c->n_in_fds < n)
        return false;
    memcpy(out, c->in_fds, n * sizeof *out);
    budget_give(c->peer.uid, BUDGET_descriptors, n);
    c->n_in_fds -= n;
    memmove(c->in_fds, c->in_fds + n, c->n_in_fds * sizeof *out);
    return true;
}

/* True if a connection must wait for its user's budget. One that holds descriptors goes on: it
 * gives them back by using them. */
bool connection_is_over_budget(const struct connection *c)
{
    uint32_t uid = c->peer.uid;
    return !budget_has(uid, BUDGET_buffers, 1) || !budget_has(uid, BUDGET_puts, 1) ||
           (!budget_has(uid, BUDGET_descriptors, 1) && (c->queue || !c->n_in_fds));
}

static bool may_parse(const struct connection *c)
{
    return !c->held && !c->ending && !c->closing && c->queued < QUEUE_MAX &&
           !connection_is_over_budget(c);
}

bool connection_must_yield(const struct connection *c)
{
    return !may_parse(c) || turn_is_over(c->turn);
}

void connection_yield(struct connection *c)
{
    c->stopped = true;
    if (may_parse(c))
        turn_make_ready_later(c);
}

/* Returns the protocol that the first bytes belong to; NULL if they are too few to tell. */
static const struct protocol *protocol_of(const struct turn *t, const uint8_t *data, size_t len)
{
    for (const struct protocol *const *p = t->protocols; *p; p++) {
        enum protocol_fit fit = (*p)->fits(data, len);
        if (fit != PROTOCOL_IS_OTHER)
            return fit == PROTOCOL_FITS ? *p : NULL;
    }
    assert(!"the last protocol takes every connection");
    return NULL;
}

static bool choose_protocol(struct connection *c, const struct protocol *protocol)
{
    c->state = protocol->open(c);
    if (c->state)
        c->protocol = protocol;
    return c->state != NULL;
}

/* Passes messages to the protocol. Returns how many bytes were taken. */
static size_t parse_input(struct connection *c, const uint8_t *data, size_t len)
{
    size_t at = 0;
    c->stopped = false;
    while (at < len && may_parse(c)) {
        const struct protocol *protocol =
            c->protocol ? NULL : protocol_of(c->turn, data + at, len - at);
        if (!c->protocol && !protocol)
            break;
        if (protocol && !choose_protocol(c, protocol)) {
            output_break(c);
            break;
        }
        long n = c->protocol->on_bytes(c->state, data + at, len - at);
        if (n < 0)
            c->ended = c->ending = true;
        if (n <= 0)
            break;
        at += (size_t)n;
        if (at < len && turn_is_over(c->turn)) {
            connection_yield(c);
            break;
        }
    }
    c->stopped |= at < len && !may_parse(c);
    return at;
}

/* Keeps the bytes that were not taken. `data` is the shared buffer or c->in itself. */
static void keep_input(struct connection *c, const uint8_t *data, size_t len, size_t taken)
{
    size_t left = c->ending ? 0 : len - taken;
    if (left == 0) {
        input_free(c);
        return;
    }
    if (!c->in && !input_resize(c, left)) {
        output_break(c);
        return;
    }
    memmove(c->in, data + taken, left);
    c->in_len = left;
}

static void parse_and_keep(struct connection *c, size_t fresh)
{
    assert(!c->closing); /* (3) */
    const uint8_t *data = c->in_len ? c->in : c->turn->input;
    size_t len = c->in_len + fresh;
    size_t taken = parse_input(c, data, len);
    if (!c->closing)
        keep_input(c, data, len, taken);
}

/* ---- a turn ---- */

static void on_event(uv_poll_t *poll, int status, int events);

/* Watches for the events that the connection can use now. */
static void watch(struct connection *c)
{
    bool starved = connection_is_over_budget(c);
    bool full = c->queued >= QUEUE_MAX || (c->held && c->in_len) || starved;
    int events = 0;
    if (starved)
        turn_make_starved(c);
    if (!c->ended && !full)
        events |= UV_READABLE;
    else if (!c->ended && !c->hung_up)
        events |= UV_DISCONNECT;
    if (c->queue)
        events |= UV_WRITABLE;
    if (events == c->events)
        return;
    c->events = events;
    if (events)
        uv_poll_start(&c->poll, events, on_event);
    else
        uv_poll_stop(&c->poll);
}

/* Ends a turn: keeps (2), and decides whether the connection goes on. */
static void end_turn(struct connection *c)
{
    if (c->closing)
        return;
    bool good = true;
    if (c->turn->current == c)
        good = output_flush(c);
    c->turn->current = NULL;
    assert(!c->turn->n_items); /* (2) */
    if (good && c->queue)
        good = output_send_queue(c);
    if (good && c->stopped && may_parse(c)) /* the obstacle has gone meanwhile */
        turn_make_ready_later(c);
    if (good && c->ended && !c->ending && !c->is_later && (!c->in_len || may_parse(c)))
        c->ending = !c->protocol || !c->protocol->on_end(c->state) || c->deaf;
    if (!good || (c->ending && !c->queue))
        connection_close(c);
    else
        watch(c);
}

/* Notes the time of the hits since there were so many of each kind. */
static void note_hits(struct turn *t, const uint64_t before[STATS_KINDS], uint64_t began_ns)
{
    struct stats *stats = service_stats(t->service);
    uint64_t ns = 0;
    for (unsigned k = 0; k < STATS_KINDS; k++) {
        uint64_t hits = stats->now[STATS_hits][k] - before[k];
        if (hits && !ns)
            ns = clock_mono_ns() - began_ns;
        if (hits)
            stats_add_hit_time(stats, k, ns, hits);
    }
}

static void read_turn(struct connection *c)
{
    struct turn *t = c->turn;
    struct stats *stats = service_stats(t->service);
    ssize_t n = input_read(c);
    if (n == -ECONNRESET) /* a local socket's end if answers were left unread */
        n = 0;
    if (n < 0 && n != -EAGAIN) {
        connection_close(c);
        return;
    }
    if (n <= 0) {
        c->ended = n == 0;
        end_turn(c);
        return;
    }
    uint64_t hits[STATS_KINDS];
    memcpy(hits, stats->now[STATS_hits], sizeof hits);
    t->began_ns = clock_mono_ns();
    c->progress_ms = service_now_ms(t->service);
    parse_and_keep(c, (size_t)n);
    end_turn(c);
    note_hits(t, hits, t->began_ns);
}

static void on_event(uv_poll_t *poll, int status, int events)
{
    struct connection *c = poll->data;
    assert(!c->closing && !c->turn->current && !c->turn->n_items); /* (2), (3) */
    c->turn->current = c;
    if (status < 0) { /* an answer was left unread, and libuv watches no more */
        events = c->events | UV_DISCONNECT;
        c->events = 0;
        c->deaf = true;
    }
    if (events & UV_DISCONNECT)
        c->hung_up = true; /* its last bytes are read when its turn comes */
    if ((events & UV_WRITABLE) && c->queue && !output_send_queue(c)) {
        connection_close(c);
        return;
    }
    if (events & UV_READABLE)
        read_turn(c);
    else
        connection_continue(c);
}

void connection_continue(struct connection *c)
{
    if (c->closing)
        return;
    turn_begin(c->turn, c);
    if (c->in_len && may_parse(c))
        parse_and_keep(c, 0);
    end_turn(c);
    c->turn->current = NULL;
}

void connection_hold(struct connection *c) { c->held = true; }

void connection_resume(struct connection *c)
{
    c->held = false;
    turn_make_ready(c);
}

void connection_resume_later(struct connection *c)
{
    c->resumes = true;
    turn_make_ready_later(c);
}

void connection_greeted(struct connection *c) { c->greeted = true; }

/* ---- its life ---- */

struct connection *connection_new(struct turn *turn, int fd, const struct peer *peer)
{
    struct connection *c = calloc(1, sizeof *c);
    if (!c || uv_poll_init(turn->loop, &c->poll, fd) != 0) {
        free(c);
        close(fd);
        return NULL;
    }
    c->poll.data = c;
    c->turn = turn;
    c->peer = *peer;
    c->fd = fd;
    c->queue_end = &c->queue;
    c->born_ms = c->progress_ms = service_now_ms(turn->service);
    watch(c);
    return c;
}

static void on_poll_closed(uv_handle_t *handle)
{
    struct connection *c = handle->data;
    struct turn *t = c->turn;
    free(c);
    t->on_freed(t->arg);
}

void connection_close(struct connection *c)
{
    struct turn *t = c->turn;
    if (c->closing)
        return;
    c->closing = true;
    if (t->current == c) {
        t->current = NULL;
        output_clear(t);
    }
    if (c->protocol)
        c->protocol->on_close(c->state);
    service_leave_session(t->service, c->peer.session);
    output_drop_queue(c);
    budget_give(c->peer.uid, BUDGET_descriptors, c->n_in_fds);
    while (c->n_in_fds)
        fd_close_later(c->in_fds[--c->n_in_fds]);
    input_free(c);
    uv_close((uv_handle_t *)&c->poll, on_poll_closed);
    int unread = 0; /* unread bytes may carry descriptors */
    if (ioctl(c->fd, FIONREAD, &unread) == 0 && unread == 0)
        close(c->fd);
    else
        fd_close_later(c->fd);
    turn_forget(c);
    t->on_close(t->arg, c);
}

bool connection_is_idle(const struct connection *c)
{
    return !c->closing && !c->ended && !c->held && !c->in_len && !c->n_in_fds && !c->queue &&
           (!c->protocol || c->protocol->is_idle(c->state));
}

void connection_check_deadlines(struct connection *c, uint64_t now_ms)
{
    bool partial = (c->in_len && !c->held) ||
                   (c->protocol && c->protocol->is_partial && c->protocol->is_partial(c->state));
    /* A connection that only waits for its user's budget is not closed. */
    bool waits = c->stopped && !c->queue;
    uint64_t patience_ms = connection_is_over_budget(c) && !waits ? HURRY_MS : PROGRESS_MS;
    bool late = (!c->greeted && now_ms - c->born_ms > GREETING_MS) ||
                ((partial || c->queue) && now_ms - c->progress_ms > patience_ms);
    if (!late || c->closing)
        return;
    log_debug("a connection of uid %u (pid %ld) got no further in time", (unsigned)c->peer.uid,
              (long)c->peer.pid);
    connection_close(c);
}

void connection_join(struct connection *c, struct view session_id)
{
    struct service *s = c->turn->service;
    service_leave_session(s, c->peer.session);
    c->peer.session = service_join_session(s, c->peer.uid, session_id);
}

void connection_set_project(struct connection *c, struct view name)
{
    if (!name.len)
        return;
    snprintf(c->peer.project, sizeof c->peer.project, "%.*s", (int)name.len,
             (const char *)name.data);
    service_set_project(connection_service(c), &c->peer);
}

void connection_administer(struct connection *c) { c->peer.administers = true; }

const struct peer *connection_peer(const struct connection *c) { return &c->peer; }
struct service *connection_service(const struct connection *c) { return c->turn->service; }
struct resp_command *connection_command(const struct connection *c) { return &c->turn->command; }
