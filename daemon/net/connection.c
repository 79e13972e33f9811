/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connection.c - decides what one connection reads, parses and sends in a turn: one recvmsg, the messages
 * in it, one sendmsg.
 *
 * libuv watches the descriptor and does no more: its pipes drop descriptors that come in, and cannot send
 * those of files. server.c calls it for events of other connections; the protocols append answers.
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
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "daemon/net/internal.h"
#include "daemon/process/closer.h"
#include "daemon/process/log.h"
#include "daemon/service/artifact.h"
#include "daemon/service/torch_value.h"
#include "daemon/users/budget.h"

#define QUEUE_MAX (1u << 20)    /* bytes queued before reading stops */
#define BATCH_MAX (256u << 10)  /* bytes batched before they are sent within a turn */
#define TURN_MAX (256u << 10)   /* bytes of queue sent in one turn, while other connections wait */
#define ENCODED_MAX (32u << 10) /* letters of base64 that are encoded at once */
#define IOVECS 64               /* pieces in one sendmsg */
#define GREETING_MS 10000u      /* until the first message must be complete */
#define PROGRESS_MS 30000u      /* without progress, with half a message or a full queue */
#define HURRY_MS 2000u          /* likewise, while the user is over a budget */
#define TURN_NS 1000000u        /* a longer turn leaves the rest for the next one */
#define MAP_MIN                                                                                    \
    (32u << 10) /* bytes: pieces of the queue from here on go back to the system at once */
#define INPUT_MAX                                                                                  \
    (WIRE_PAYLOAD_MAX + (256u << 10)) /* bytes of input that are kept for the next turn */

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void close_all(int *fds, unsigned *n)
{
    while (*n)
        close(fds[--*n]);
}

/* ---- sending ---- */

/* Sends as many bytes as the socket takes now; -EAGAIN and the like if none. */
static ssize_t send_pieces(int fd, struct iovec *iov, size_t n, const int *fds, unsigned n_fds)
{
    union {
        char bytes[CMSG_SPACE(WIRE_FDS_MAX * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct msghdr m = {.msg_iov = iov, .msg_iovlen = n};
    if (n_fds) {
        m.msg_control = control.bytes;
        m.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
        memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
    }
    ssize_t sent;
    do /* most answers are one piece: send has less to copy and to check than sendmsg */
        sent = n == 1 && n_fds == 0
                   ? send(fd, iov->iov_base, iov->iov_len, MSG_NOSIGNAL | MSG_DONTWAIT)
                   : sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : sent;
}

/* Sends the same, with an own open description of the artifact's file. */
static ssize_t send_with_artifact(int fd, struct iovec *iov, size_t n, const struct artifact *a)
{
    int own = fd_reopen(a->fd);
    if (own < 0)
        return -EIO;
    ssize_t sent = send_pieces(fd, iov, n, &own, 1);
    close(own);
    return sent;
}

/* Allocates a piece of the queue. Large ones are mapped, so that their memory goes back to the
 * system when a slow client is gone. */
static struct output_piece *piece_new(size_t len)
{
    size_t size = sizeof(struct output_piece) + len;
    bool maps = len >= MAP_MIN;
    struct output_piece *p =
        maps ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
             : malloc(size);
    if (!p || p == MAP_FAILED)
        return NULL;
    *p = (struct output_piece){.file_fd = -1, .len = len, .size = maps ? size : 0};
    p->bytes = p->data;
    return p;
}

static void piece_free(struct output_piece *p)
{
    close_all(p->fds, &p->n_fds);
    if (p->file_fd >= 0)
        close(p->file_fd);
    artifact_unref(p->artifact);
    if (p->size)
        munmap(p, p->size);
    else
        free(p);
}

/* Returns the memory that a piece holds beside itself: of an artifact's bytes its part, since many
 * queues may share them. */
static uint64_t piece_bytes(const struct output_piece *p)
{
    if (p->file_fd >= 0)
        return 0;
    return p->artifact && p->artifact->data ? p->len / p->artifact->refs : p->len;
}

static void queue_append(struct connection *c, struct output_piece *p)
{
    p->next = NULL;
    *c->queue_end = p;
    c->queue_end = &p->next;
    c->queued += p->len - p->at;
    p->n_buffer = sizeof *p + piece_bytes(p);
    if (!budget_charge(c->peer.uid, BUDGET_buffers, p->n_buffer))
        p->n_buffer = 0;
    p->n_counted = p->n_fds + (p->file_fd >= 0);
    if (!budget_charge(c->peer.uid, BUDGET_descriptors, p->n_counted))
        p->n_counted = 0;
}

/* Moves an item to the queue: copies its bytes, unless they are an artifact's. False without
 * memory. */
static bool queue_item(struct connection *c, const void *data, struct output_item *item)
{
    bool shared = item->artifact && !item->with_artifact_fd;
    struct output_piece *p = piece_new(shared ? 0 : item->len);
    if (!p)
        return false;
    if (shared)
        p->bytes = data;
    else
        memcpy(p->data, data, item->len);
    p->len = item->len;
    memcpy(p->fds, item->fds, sizeof p->fds);
    p->n_fds = item->n_fds;
    p->artifact = item->artifact;
    p->with_artifact_fd = item->with_artifact_fd;
    item->n_fds = 0;
    item->artifact = NULL;
    queue_append(c, p);
    return true;
}

static void queue_drop_first(struct connection *c)
{
    struct output_piece *p = c->queue;
    assert(c->queued >= p->len - p->at);
    c->queue = p->next;
    if (!c->queue)
        c->queue_end = &c->queue;
    c->queued -= p->len - p->at;
    budget_give(c->peer.uid, BUDGET_buffers, p->n_buffer);
    budget_give(c->peer.uid, BUDGET_descriptors, p->n_counted);
    piece_free(p);
}

/* Removes `sent` bytes from the queue. */
static void queue_advance(struct connection *c, uint64_t sent)
{
    while (sent) {
        struct output_piece *p = c->queue;
        uint64_t n = p->len - p->at < sent ? p->len - p->at : sent;
        close_all(p->fds, &p->n_fds); /* they were sent with the first byte */
        p->with_artifact_fd = false;
        p->at += n;
        c->queued -= n;
        sent -= n;
        if (p->at == p->len)
            queue_drop_first(c);
    }
}

static ssize_t queue_send_file(struct connection *c, size_t max)
{
    struct output_piece *p = c->queue;
    off_t at = (off_t)p->at;
    size_t len = p->len - p->at < max ? (size_t)(p->len - p->at) : max;
    ssize_t sent = sendfile(c->fd, p->file_fd, &at, len);
    if (sent == 0)
        return -EIO; /* the file ends early: the answer cannot be completed */
    return sent < 0 ? -errno : sent;
}

/* Encodes a part of the file, and sends as much as the socket takes. The next part begins there. */
static ssize_t queue_send_base64(struct connection *c, size_t max)
{
    uint8_t raw[ENCODED_MAX / 4 * 3], text[ENCODED_MAX];
    const struct output_piece *p = c->queue;
    uint64_t done = p->at / 4 * 3;
    size_t skip = p->at % 4; /* letters of the first four that were sent */
    size_t n = p->raw_len - done < sizeof raw ? (size_t)(p->raw_len - done) : sizeof raw;
    if (file_read_at(p->file_fd, raw, n, p->raw_at + done, NULL) != 0)
        return -EIO;
    torch_value_encode(raw, n, text);
    size_t len = (size_t)torch_value_encoded_len(n) - skip;
    struct iovec iov = {text + skip, len < max ? len : max};
    return send_pieces(c->fd, &iov, 1, NULL, 0);
}

/* Collects the bytes at the head of the queue, up to the next piece with descriptors or of a
 * file. */
static ssize_t queue_send_bytes(struct connection *c, size_t max)
{
    struct iovec iov[IOVECS];
    const struct output_piece *p = c->queue;
    size_t n = 0, total = 0;
    for (; p && n < IOVECS && total < max; p = p->next) {
        if (p->file_fd >= 0 || (n && (p->n_fds || p->with_artifact_fd)))
            break;
        size_t len = (size_t)(p->len - p->at);
        iov[n++] = (struct iovec){(void *)(uintptr_t)(p->bytes + p->at), len};
        total += len;
    }
    if (c->queue->with_artifact_fd)
        return send_with_artifact(c->fd, iov, n, c->queue->artifact);
    return send_pieces(c->fd, iov, n, c->queue->fds, c->queue->n_fds);
}

/* Sends from the queue as much as the socket takes, within a turn's share. False if the connection
 * is broken. */
static bool queue_send(struct connection *c)
{
    size_t share = TURN_MAX;
    while (c->queue) {
        ssize_t sent = c->queue->encodes        ? queue_send_base64(c, share)
                       : c->queue->file_fd >= 0 ? queue_send_file(c, share)
                                                : queue_send_bytes(c, share);
        if (sent == -EAGAIN)
            return true;
        if (sent < 0)
            return false;
        c->progress_ms = service_now_ms(c->server->config.service);
        queue_advance(c, (uint64_t)sent);
        if ((size_t)sent >= share)
            return true;
        share -= (size_t)sent;
    }
    return true;
}

/* ---- this turn's output ---- */

static const uint8_t *item_data(const struct server *s, const struct output_item *item)
{
    return item->data ? item->data : s->out.data + item->at;
}

static void item_close(struct output_item *item)
{
    close_all(item->fds, &item->n_fds);
    artifact_unref(item->artifact);
    item->artifact = NULL;
    item->with_artifact_fd = false;
}

static void batch_clear(struct server *s)
{
    while (s->n_items)
        item_close(&s->items[--s->n_items]);
    s->n_batched = 0;
    s->out.len = 0;
}

/* Sends items from `first` on up to the next with descriptors. */
static ssize_t batch_send(struct connection *c, unsigned first)
{
    struct server *s = c->server;
    struct output_item *head = &s->items[first];
    struct iovec iov[IOVECS];
    unsigned n = 0;
    for (unsigned i = first; i < s->n_items && n < IOVECS; i++) {
        const struct output_item *item = &s->items[i];
        if (i > first && (item->n_fds || item->with_artifact_fd))
            break;
        iov[n++] = (struct iovec){(void *)(uintptr_t)item_data(s, item), item->len};
    }
    if (head->with_artifact_fd)
        return send_with_artifact(c->fd, iov, n, head->artifact);
    return send_pieces(c->fd, iov, n, head->fds, head->n_fds);
}

/* Removes up to `sent` bytes from an item. Returns how many. */
static size_t item_advance(struct output_item *item, size_t sent)
{
    size_t n = item->len < sent ? item->len : sent;
    close_all(item->fds, &item->n_fds); /* they went with its first byte */
    item->with_artifact_fd = false;
    if (item->data)
        item->data = (const uint8_t *)item->data + n;
    item->at += n;
    item->len -= n;
    if (item->len == 0)
        item_close(item);
    return n;
}

/* Keeps (2): sends batched output, and queues what the socket does not take. */
static bool batch_flush(struct connection *c)
{
    struct server *s = c->server;
    unsigned i = 0;
    bool good = !s->out.failed;
    assert(!s->n_items || !c->queue); /* (1) */
    while (good && i < s->n_items) {
        ssize_t sent = batch_send(c, i);
        if (sent == -EAGAIN)
            break;
        good = sent >= 0;
        while (good && sent) {
            sent -= (ssize_t)item_advance(&s->items[i], (size_t)sent);
            i += s->items[i].len == 0;
        }
    }
    for (; good && i < s->n_items; i++)
        good = queue_item(c, item_data(s, &s->items[i]), &s->items[i]);
    batch_clear(s);
    return good;
}

static bool is_batched(const struct connection *c) { return c->server->current == c && !c->queue; }

/* Ends a connection for whose answer there is no memory. */
static void connection_break(struct connection *c)
{
    c->ended = c->ending = true;
    while (c->queue)
        queue_drop_first(c);
    server_make_ready(c);
}

struct writer *connection_begin(struct connection *c)
{
    c->server->begun_at = c->server->out.len;
    return &c->server->out;
}

/* Adds an item to this turn's output, or to the queue. Takes what the item owns. */
static void output_add(struct connection *c, struct output_item *item)
{
    struct server *s = c->server;
    bool lends = item->n_fds || item->with_artifact_fd;
    if (!is_batched(c)) {
        if (!queue_item(c, item_data(s, item), item)) {
            item_close(item);
            connection_break(c);
        }
        server_make_ready(c);
        return;
    }
    assert(s->n_items < OUTPUT_ITEMS);
    s->items[s->n_items++] = *item;
    s->n_batched += item->len;
    /* descriptors that the socket takes now need not be counted */
    if ((lends || s->n_batched > BATCH_MAX || s->n_items == OUTPUT_ITEMS) && !batch_flush(c))
        connection_break(c);
}

/* Commits the bytes that were appended since connection_begin, with what `item` owns. */
static void commit(struct connection *c, struct output_item *item)
{
    struct server *s = c->server;
    struct output_item *last = s->n_items ? &s->items[s->n_items - 1] : NULL;
    bool bare = !item->n_fds && !item->artifact;
    item->at = s->begun_at;
    item->len = s->out.len - item->at;
    if (s->out.failed) {
        s->out.failed = false;
        s->out.len = item->at;
        item_close(item);
        connection_break(c);
    } else if (!is_batched(c)) {
        output_add(c, item);
        s->out.len = item->at;
    } else if (bare && last && !last->data && last->at + last->len == item->at &&
               s->n_batched <= BATCH_MAX) {
        last->len += item->len;
        s->n_batched += item->len;
    } else {
        output_add(c, item);
    }
}

void connection_commit(struct connection *c, const int *fds, unsigned n_fds)
{
    struct output_item item = {.n_fds = n_fds};
    assert(n_fds <= WIRE_FDS_MAX);
    if (n_fds)
        memcpy(item.fds, fds, n_fds * sizeof *fds);
    commit(c, &item);
}

void connection_commit_artifact(struct connection *c, struct artifact *a)
{
    struct output_item item = {.artifact = artifact_ref(a), .with_artifact_fd = true};
    commit(c, &item);
}

void connection_borrow(struct connection *c, const void *data, size_t len)
{
    if (len)
        output_add(c, &(struct output_item){.data = data, .len = len});
}

void connection_share(struct connection *c, struct artifact *a)
{
    if (a->len)
        output_add(c, &(struct output_item){
                          .data = a->data, .len = (size_t)a->len, .artifact = artifact_ref(a)});
}

/* Makes a piece of `len` bytes of a file (taken). NULL without memory. */
static struct output_piece *piece_of_file(int fd, uint64_t len)
{
    struct output_piece *p = piece_new(0);
    if (!p) {
        close(fd);
        return NULL;
    }
    p->file_fd = fd;
    p->len = len;
    return p;
}

/* Queues a piece; NULL: there was no memory for it. */
static void output_add_piece(struct connection *c, struct output_piece *p)
{
    if (c->server->current == c && !batch_flush(c))
        connection_break(c);
    if (!p) {
        connection_break(c);
        return;
    }
    queue_append(c, p);
    server_make_ready(c);
}

void connection_send_file(struct connection *c, int fd, uint64_t len)
{
    output_add_piece(c, piece_of_file(fd, len));
}

void connection_send_base64(struct connection *c, int fd, uint64_t from, uint64_t len)
{
    struct output_piece *p = piece_of_file(fd, torch_value_encoded_len(len));
    if (p) {
        p->encodes = true;
        p->raw_at = from;
        p->raw_len = len;
    }
    output_add_piece(c, p);
}

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
        ssize_t got = recv(c->fd, c->server->input, INPUT_SHARED, MSG_DONTWAIT);
        return got < 0 ? (errno == EINTR ? -EAGAIN : -errno) : got;
    }
    struct iovec iov = {c->in_len ? c->in + c->in_len : c->server->input,
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

static bool turn_is_over(const struct connection *c)
{
    return now_ns() - c->server->turn_began_ns > TURN_NS;
}

bool connection_must_yield(const struct connection *c) { return !may_parse(c) || turn_is_over(c); }

void connection_yield(struct connection *c)
{
    c->stopped = true;
    if (may_parse(c))
        server_make_ready_later(c);
}

/* Returns the protocol that the first bytes belong to; NULL if they are too few to tell. */
static const struct protocol *protocol_of(const struct server *s, const uint8_t *data, size_t len)
{
    for (const struct protocol *const *p = s->config.protocols; *p; p++) {
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
            c->protocol ? NULL : protocol_of(c->server, data + at, len - at);
        if (!c->protocol && !protocol)
            break;
        if (protocol && !choose_protocol(c, protocol)) {
            connection_break(c);
            break;
        }
        long n = c->protocol->on_bytes(c->state, data + at, len - at);
        if (n < 0)
            c->ended = c->ending = true;
        if (n <= 0)
            break;
        at += (size_t)n;
        if (at < len && turn_is_over(c)) {
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
        connection_break(c);
        return;
    }
    memmove(c->in, data + taken, left);
    c->in_len = left;
}

static void parse_and_keep(struct connection *c, size_t fresh)
{
    assert(!c->closing); /* (3) */
    const uint8_t *data = c->in_len ? c->in : c->server->input;
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
        server_make_starved(c);
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
static void turn_end(struct connection *c)
{
    if (c->closing)
        return;
    bool good = true;
    if (c->server->current == c)
        good = batch_flush(c);
    c->server->current = NULL;
    assert(!c->server->n_items); /* (2) */
    if (good && c->queue)
        good = queue_send(c);
    if (good && c->stopped && may_parse(c)) /* the obstacle has gone meanwhile */
        server_make_ready_later(c);
    if (good && c->ended && !c->ending && !c->is_later && (!c->in_len || may_parse(c)))
        c->ending = !c->protocol || !c->protocol->on_end(c->state);
    if (!good || (c->ending && !c->queue))
        connection_close(c);
    else
        watch(c);
}

static void note_hits(struct server *s, uint64_t hits_before, uint64_t began_ns)
{
    struct stats *stats = service_stats(s->config.service);
    uint64_t hits = stats_total(stats, STATS_hits) - hits_before;
    if (hits)
        stats_add_hit_time(stats, now_ns() - began_ns, hits);
}

static void read_turn(struct connection *c)
{
    struct server *s = c->server;
    struct stats *stats = service_stats(s->config.service);
    ssize_t n = input_read(c);
    if (n < 0 && n != -EAGAIN) {
        connection_close(c);
        return;
    }
    if (n <= 0) {
        c->ended = n == 0;
        turn_end(c);
        return;
    }
    uint64_t hits = stats_total(stats, STATS_hits);
    s->turn_began_ns = now_ns();
    c->progress_ms = service_now_ms(s->config.service);
    parse_and_keep(c, (size_t)n);
    turn_end(c);
    note_hits(s, hits, s->turn_began_ns);
}

static void on_event(uv_poll_t *poll, int status, int events)
{
    struct connection *c = poll->data;
    if (status < 0) {
        connection_close(c);
        return;
    }
    assert(!c->closing && !c->server->current && !c->server->n_items); /* (2), (3) */
    c->server->current = c;
    if (events & UV_DISCONNECT)
        c->hung_up = true; /* its last bytes are read when its turn comes */
    if ((events & UV_WRITABLE) && c->queue && !queue_send(c)) {
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
    c->server->current = c;
    c->server->turn_began_ns = now_ns();
    if (c->in_len && may_parse(c))
        parse_and_keep(c, 0);
    turn_end(c);
    c->server->current = NULL;
}

void connection_hold(struct connection *c) { c->held = true; }

void connection_resume(struct connection *c)
{
    c->held = false;
    server_make_ready(c);
}

void connection_resume_later(struct connection *c)
{
    c->resumes = true;
    server_make_ready_later(c);
}

void connection_greeted(struct connection *c) { c->greeted = true; }

/* ---- its life ---- */

struct connection *connection_new(struct server *server, int fd, const struct peer *peer)
{
    struct connection *c = calloc(1, sizeof *c);
    if (!c || uv_poll_init(server->config.loop, &c->poll, fd) != 0) {
        free(c);
        close(fd);
        return NULL;
    }
    c->poll.data = c;
    c->server = server;
    c->peer = *peer;
    c->fd = fd;
    c->queue_end = &c->queue;
    c->born_ms = c->progress_ms = service_now_ms(server->config.service);
    watch(c);
    return c;
}

static void on_poll_closed(uv_handle_t *handle)
{
    struct connection *c = handle->data;
    struct server *s = c->server;
    free(c);
    server_forget_handle(s);
}

void connection_close(struct connection *c)
{
    struct server *s = c->server;
    if (c->closing)
        return;
    c->closing = true;
    if (s->current == c) {
        s->current = NULL;
        batch_clear(s);
    }
    if (c->protocol)
        c->protocol->on_close(c->state);
    service_leave_session(s->config.service, c->peer.session);
    while (c->queue)
        queue_drop_first(c);
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
    server_forget(c);
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
    struct service *s = c->server->config.service;
    service_leave_session(s, c->peer.session);
    c->peer.session = service_join_session(s, c->peer.uid, session_id);
}

const struct peer *connection_peer(const struct connection *c) { return &c->peer; }
struct service *connection_service(const struct connection *c) { return c->server->config.service; }
struct resp_command *connection_command(const struct connection *c) { return &c->server->command; }
