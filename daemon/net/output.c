/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output.c - decides how the answers of a turn leave: batched and sent at its end, or through a queue that
 * the socket empties. connection.c has the invariants. The protocols append answers; connection.c flushes
 * them.
 *
 * Thread: loop thread.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "daemon/net/connection.h"
#include "daemon/net/internal.h"
#include "daemon/pytorch/torch_value.h"
#include "daemon/service/artifact.h"
#include "daemon/users/budget.h"

#define BATCH_MAX (256u << 10)  /* bytes batched before they are sent within a turn */
#define TURN_MAX (256u << 10)   /* bytes of queue sent in one turn, while other connections wait */
#define ENCODED_MAX (32u << 10) /* letters of base64 that are encoded at once */
#define IOVECS 64               /* pieces in one sendmsg */
#define MAP_MIN (32u << 10)     /* bytes: larger pieces of the queue return to the system at once */

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
    close_all(p->fds, &p->n_fds);
    if (p->file_fd >= 0)
        close(p->file_fd);
    artifact_unref(p->artifact);
    if (p->size)
        munmap(p, p->size);
    else
        free(p);
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

/* Marks the connection as deaf if sending failed because the client has closed its end: requests that it
 * sent before must still be read. Returns true if the connection is deaf. */
static bool note_deaf(struct connection *c, ssize_t sent)
{
    c->deaf |= sent == -EPIPE || sent == -ECONNRESET;
    return c->deaf;
}

bool output_send_queue(struct connection *c)
{
    size_t share = TURN_MAX;
    if (c->deaf)
        output_drop_queue(c);
    while (c->queue) {
        ssize_t sent = c->queue->encodes        ? queue_send_base64(c, share)
                       : c->queue->file_fd >= 0 ? queue_send_file(c, share)
                                                : queue_send_bytes(c, share);
        if (sent == -EAGAIN)
            return true;
        if (sent < 0) {
            output_drop_queue(c);
            return note_deaf(c, sent);
        }
        c->progress_ms = service_now_ms(c->turn->service);
        queue_advance(c, (uint64_t)sent);
        if ((size_t)sent >= share)
            return true;
        share -= (size_t)sent;
    }
    return true;
}

void output_drop_queue(struct connection *c)
{
    while (c->queue)
        queue_drop_first(c);
}

/* ---- this turn's output ---- */

static const uint8_t *item_data(const struct turn *t, const struct output_item *item)
{
    return item->data ? item->data : t->out.data + item->at;
}

static void item_close(struct output_item *item)
{
    close_all(item->fds, &item->n_fds);
    artifact_unref(item->artifact);
    item->artifact = NULL;
    item->with_artifact_fd = false;
}

void output_clear(struct turn *t)
{
    while (t->n_items)
        item_close(&t->items[--t->n_items]);
    t->n_batched = 0;
    t->out.len = 0;
}

/* Sends items from `first` on up to the next with descriptors. */
static ssize_t batch_send(struct connection *c, unsigned first)
{
    struct turn *t = c->turn;
    struct output_item *head = &t->items[first];
    struct iovec iov[IOVECS];
    unsigned n = 0;
    for (unsigned i = first; i < t->n_items && n < IOVECS; i++) {
        const struct output_item *item = &t->items[i];
        if (i > first && (item->n_fds || item->with_artifact_fd))
            break;
        iov[n++] = (struct iovec){(void *)(uintptr_t)item_data(t, item), item->len};
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

/* Keeps (2): sends batched output, and queues the bytes that the socket does not take. */
bool output_flush(struct connection *c)
{
    struct turn *t = c->turn;
    unsigned i = 0;
    bool good = !t->out.failed;
    assert(!t->n_items || !c->queue); /* (1) */
    while (good && i < t->n_items && !c->deaf) {
        ssize_t sent = batch_send(c, i);
        if (sent == -EAGAIN)
            break;
        good = sent >= 0 || note_deaf(c, sent);
        while (sent > 0) {
            sent -= (ssize_t)item_advance(&t->items[i], (size_t)sent);
            i += t->items[i].len == 0;
        }
    }
    for (; good && i < t->n_items && !c->deaf; i++)
        good = queue_item(c, item_data(t, &t->items[i]), &t->items[i]);
    output_clear(t);
    return good;
}

static bool is_batched(const struct connection *c) { return c->turn->current == c && !c->queue; }

void output_break(struct connection *c)
{
    c->ended = c->ending = true;
    output_drop_queue(c);
    turn_make_ready(c);
}

struct writer *connection_begin(struct connection *c)
{
    c->turn->begun_at = c->turn->out.len;
    return &c->turn->out;
}

/* Adds an item to this turn's output, or to the queue. Takes the item's artifact and descriptors. */
static void output_add(struct connection *c, struct output_item *item)
{
    struct turn *t = c->turn;
    bool lends = item->n_fds || item->with_artifact_fd;
    if (!is_batched(c)) {
        if (!queue_item(c, item_data(t, item), item)) {
            item_close(item);
            output_break(c);
        }
        turn_make_ready(c);
        return;
    }
    assert(t->n_items < OUTPUT_ITEMS);
    t->items[t->n_items++] = *item;
    t->n_batched += item->len;
    /* descriptors that the socket takes now need not be counted */
    if ((lends || t->n_batched > BATCH_MAX || t->n_items == OUTPUT_ITEMS) && !output_flush(c))
        output_break(c);
}

/* Commits the bytes that were appended since connection_begin, with the artifact and the
 * descriptors of `item`. */
static void commit(struct connection *c, struct output_item *item)
{
    struct turn *t = c->turn;
    struct output_item *last = t->n_items ? &t->items[t->n_items - 1] : NULL;
    bool bare = !item->n_fds && !item->artifact;
    item->at = t->begun_at;
    item->len = t->out.len - item->at;
    if (t->out.failed) {
        t->out.failed = false;
        t->out.len = item->at;
        item_close(item);
        output_break(c);
    } else if (!is_batched(c)) {
        output_add(c, item);
        t->out.len = item->at;
    } else if (bare && last && !last->data && last->at + last->len == item->at &&
               t->n_batched <= BATCH_MAX) {
        last->len += item->len;
        t->n_batched += item->len;
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
    if (c->turn->current == c && !output_flush(c))
        output_break(c);
    if (!p) {
        output_break(c);
        return;
    }
    queue_append(c, p);
    turn_make_ready(c);
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
