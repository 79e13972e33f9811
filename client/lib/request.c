/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.c - sends requests on a connection that comes and goes, and decides when to connect
 * again. client.c and remote_compile.c call it; request.h draws the states.
 *
 * A failure must never delay the program: each wait has a deadline, and after a failure the next
 * requests fail at once, without a system call, until a pause is over.
 *
 * Thread: one at a time for each struct warm; the process's memory of hangs is shared by all
 * threads.
 */
#include "client/lib/request.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/lib/deadlines.h"
#include "client/lib/debug.h"
#include "client/lib/whole_io.h"
#include "keygen/expect.h"

#define PAUSE_START_MS 100u
#define PAUSE_MAX_MS 5000u
/* A value in a file is read up to this size; a larger one is mapped, which is cheaper. */
#define READ_MAX_BYTES ((size_t)256 * 1024)
/* A value in a frame of at least this size keeps the buffer that it came in; a smaller one is
 * copied. */
#define KEEP_BUFFER_BYTES ((size_t)16 * 1024)
#define PID_PAGE_AFTER 3u /* requests: a process with fewer needs no page */

/* ---- which process this is ---- */

/* Returns the process's id. getpid is a system call and costs a fiftieth of a hit. So a page
 * remembers the answer; the kernel empties that page in every forked child. */
static pid_t own_pid(void)
{
    static _Atomic(_Atomic pid_t *) remembered;
    static _Atomic unsigned n_asked;
    _Atomic pid_t *page = atomic_load_explicit(&remembered, memory_order_acquire);
    pid_t pid = page ? atomic_load_explicit(page, memory_order_relaxed) : 0;
    if (pid)
        return pid;
    pid = getpid();
    if (page) {
        atomic_store_explicit(page, pid, memory_order_relaxed);
    } else if (atomic_fetch_add(&n_asked, 1) == PID_PAGE_AFTER) {
        page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED)
            return pid;
        if (madvise(page, sizeof *page, MADV_WIPEONFORK) == 0)
            atomic_store_explicit(&remembered, page, memory_order_release);
        else
            munmap(page, sizeof *page);
    }
    return pid;
}

/* ---- lost requests ---- */

/* Requests of this process that a daemon did not answer in time. It is told when it answers again.
 * Counted for the process, because a struct warm is often closed after a failure. */
static _Atomic unsigned n_lost;
static _Atomic pid_t lost_by; /* the process that lost them: a child begins with none */

static void note_lost(const struct warm *w, int code)
{
    if (code != WARM_ETIMEOUT)
        return;
    if (atomic_exchange(&lost_by, w->pid) != w->pid)
        atomic_store(&n_lost, 0);
    atomic_fetch_add(&n_lost, 1);
}

static void tell_lost(struct warm *w)
{
    char text[96];
    unsigned n = atomic_load_explicit(&lost_by, memory_order_relaxed) == w->pid
                     ? atomic_exchange(&n_lost, 0)
                     : 0;
    if (n == 0)
        return;
    snprintf(text, sizeof text,
             "%u request%s not answered in time: the daemon hung, or was stopped", n,
             n == 1 ? " was" : "s were");
    wire_put_note(&w->conn.out, 0,
                  &(struct wire_note){WIRE_REASON_TIMEOUT, {"", 0}, {text, strlen(text)}});
    conn_send(&w->conn, 0, NULL, 0, conn_now_ms() + w->connect_timeout_ms, &w->err);
}

/* ---- a daemon that hangs ---- */

/* Digest of the last socket with a daemon that hung, and the time until which it is left alone. A
 * race of two threads that write both costs a wait or a miss. */
static _Atomic uint64_t hung_socket, hung_until_ms;

static uint64_t socket_digest(const struct warm *w)
{
    struct key key = key_of_bytes(w->socket, strlen(w->socket));
    uint64_t digest;
    memcpy(&digest, key.bytes, sizeof digest);
    return digest;
}

static bool hung_before(const struct warm *w)
{
    uint64_t until_ms = atomic_load_explicit(&hung_until_ms, memory_order_relaxed);
    return until_ms && conn_now_ms() < until_ms && atomic_load(&hung_socket) == socket_digest(w);
}

/* Remembers a hang. Returns TIMEOUT. */
static int note_hang(struct warm *w, unsigned waited_ms)
{
    uint64_t pause_ms = (uint64_t)waited_ms * DEADLINE_PAUSE_FACTOR;
    atomic_store(&hung_socket, socket_digest(w));
    atomic_store(&hung_until_ms,
                 conn_now_ms() +
                     (pause_ms < DEADLINE_PAUSE_MAX_MS ? pause_ms : DEADLINE_PAUSE_MAX_MS));
    return WARM_ETIMEOUT;
}

/* ---- the connection ---- */

/* Closes the connection after a failure and begins a pause. Returns `code`. */
static int drop(struct warm *w, int code)
{
    debug_say(code == WARM_ENO_DAEMON ? DEBUG_INFO : DEBUG_WARNING, "%s: %s", w->socket,
              *w->err.text ? w->err.text : err_text(code));
    conn_close(&w->conn);
    note_lost(w, code);
    w->connected = false;
    w->pause_ms = w->pause_ms ? w->pause_ms * 2 : PAUSE_START_MS;
    if (w->pause_ms > PAUSE_MAX_MS)
        w->pause_ms = PAUSE_MAX_MS;
    w->retry_at_ms = conn_now_ms() + w->pause_ms;
    return code;
}

int request_open(struct warm *w)
{
    if (hung_before(w))
        return err_set(&w->err, WARM_ENO_DAEMON, "the daemon at %s hung a moment ago", w->socket);
    int code = conn_open(&w->conn, w->socket, conn_now_ms() + w->connect_timeout_ms, &w->err);
    w->connected = code == 0;
    if (code == WARM_ETIMEOUT)
        note_hang(w, w->connect_timeout_ms);
    if (!code)
        debug_say(DEBUG_ALL, "connected to %s", w->socket);
    return code ? drop(w, code) : 0;
}

static int ensure_connected(struct warm *w)
{
    if (expect_is_off())
        return err_set(&w->err, WARM_ENO_DAEMON, "warm is off in this process");
    if (own_pid() != w->pid)
        return err_set(&w->err, WARM_ECLOSED, "this connection belongs to the parent process");
    if (w->connected)
        return 0;
    if (conn_now_ms() < w->retry_at_ms)
        return err_set(&w->err, WARM_ENO_DAEMON, "no daemon a moment ago at %s", w->socket);
    return request_open(w);
}

/* Waits for WELCOME. It has its own short deadline, so that a stuck daemon is noticed at once. */
static int await_welcome(struct warm *w)
{
    if (w->conn.welcomed)
        return 0;
    int code = conn_shake_hands(&w->conn, conn_now_ms() + w->connect_timeout_ms, &w->err);
    if (code == WARM_ETIMEOUT)
        note_hang(w, w->connect_timeout_ms);
    if (!code) {
        w->pause_ms = 0;
        tell_lost(w);
    }
    return code;
}

void request_note(struct warm *w, const struct wire_note *note)
{
    struct err before = w->err;
    uint64_t tag = request_begin(w);
    debug_say(DEBUG_INFO, "%s: %.*s: %.*s", wire_reason_name(note->reason), (int)note->label.len,
              (const char *)note->label.data, (int)note->text.len, (const char *)note->text.data);
    wire_put_note(&w->request, tag, note);
    if (ensure_connected(w) == 0)
        request_tell(w, NULL, 0, conn_now_ms() + w->connect_timeout_ms);
    w->err = before;
}

int request_connect(struct warm *w)
{
    int code = ensure_connected(w);
    if (code)
        return code;
    code = await_welcome(w);
    return code ? drop(w, code) : 0;
}

/* ---- requests ---- */

void request_renew(struct warm *w)
{
    w->request.len = 0;
    w->request.failed = false;
}

uint64_t request_begin_many(struct warm *w, uint64_t n)
{
    (void)WARM_EXPECT(n > 0);
    uint64_t first = w->last_tag + 1;
    request_renew(w);
    w->last_tag += n;
    w->n_tags = n;
    return first;
}

uint64_t request_begin(struct warm *w) { return request_begin_many(w, 1); }

/* Returns 0 if the request could be encoded, else TOO_BIG. */
static int check_request(struct warm *w)
{
    if (w->request.failed)
        return err_set(&w->err, WARM_ETOO_BIG, "the request is above a limit, or memory is short");
    return 0;
}

static int send_request(struct warm *w, const int *fds, size_t n_fds, uint64_t deadline_ms)
{
    w->life_tag = 0;
    w->heard_ms = conn_now_ms();
    if (deadline_ms > w->heard_ms + w->silence_ms)
        deadline_ms = w->heard_ms + w->silence_ms;
    size_t at = w->conn.out.len; /* HELLO may be in front */
    writer_bytes(&w->conn.out, w->request.data, w->request.len);
    return conn_send(&w->conn, at, fds, n_fds, deadline_ms, &w->err);
}

/* Receives the next frame with that tag. Other frames answer requests that were given up. */
static int next_frame(struct warm *w, uint64_t tag, int other_fd, uint64_t deadline_ms,
                      struct answer *out)
{
    if (!WARM_EXPECT(tag && w->n_tags))
        return err_set(&w->err, WARM_EINVALID, "no request waits for an answer");
    for (;;) {
        int code = conn_recv(&w->conn, other_fd, &out->frame, out->fds, deadline_ms, &w->err);
        if (code)
            return code;
        bool is_ours = out->frame.tag - tag < w->n_tags;
        if (is_ours ? out->frame.type != WIRE_WAIT
                    : out->frame.tag == w->life_tag && out->frame.type == WIRE_OK) {
            w->life_tag = 0;
            w->heard_ms = conn_now_ms();
        }
        if (is_ours)
            return 0;
        conn_fds_close(out->fds);
    }
}

/* Receives the next frame, as next_frame does, as long as the daemon shows signs of life. */
static int await_frame(struct warm *w, uint64_t tag, int other_fd, uint64_t deadline_ms,
                       struct answer *out)
{
    for (;;) {
        uint64_t silent_ms = w->heard_ms + (w->silence_ms + 1) / 2;
        if (silent_ms >= deadline_ms)
            return next_frame(w, tag, other_fd, deadline_ms, out);
        int code = next_frame(w, tag, other_fd, silent_ms, out);
        if (code != WARM_ETIMEOUT)
            return code;
        if (w->heard_ms + (w->silence_ms + 1) / 2 > silent_ms)
            continue; /* there was a sign of life meanwhile */
        if (w->life_tag) {
            err_set(&w->err, WARM_ETIMEOUT, "the daemon at %s hangs", w->socket);
            return note_hang(w, w->silence_ms);
        }
        /* The daemon answers this question at once, whatever else it does. */
        w->life_tag = ++w->last_tag;
        w->heard_ms = conn_now_ms();
        wire_put_release(&w->conn.out, w->life_tag, &(struct wire_release){0});
        code = conn_send(&w->conn, 0, NULL, 0, w->heard_ms + w->silence_ms / 2, &w->err);
        if (code)
            return code == WARM_ETIMEOUT ? note_hang(w, w->silence_ms) : code;
    }
}

static int exchange(struct warm *w, uint64_t tag, const int *fds, size_t n_fds,
                    uint64_t deadline_ms, struct answer *out)
{
    int code = send_request(w, fds, n_fds, deadline_ms);
    if (!code)
        code = await_welcome(w);
    return code ? code : await_frame(w, tag, -1, deadline_ms, out);
}

/* Turns an ERROR frame into its code; the connection stays open. Closes descriptors with a frame that nobody
 * decodes. */
static int finish_answer(struct warm *w, struct answer *answer)
{
    if (answer->frame.type == WIRE_WAIT || answer->frame.type == WIRE_MISS)
        conn_fds_close(answer->fds);
    if (answer->frame.type != WIRE_ERROR)
        return 0;
    conn_fds_close(answer->fds);
    return conn_error(&answer->frame, &w->err);
}

int request_ask(struct warm *w, uint64_t tag, const int *fds, size_t n_fds, uint64_t deadline_ms,
                struct answer *out)
{
    if (!WARM_EXPECT(tag && tag <= w->last_tag && n_fds <= WIRE_FDS_MAX))
        return err_set(&w->err, WARM_EINVALID, "a request that was not begun");
    int code = check_request(w);
    if (!code)
        code = ensure_connected(w);
    if (code)
        return code;
    bool idle = w->conn.welcomed;
    code = exchange(w, tag, fds, n_fds, deadline_ms, out);
    if (code == WARM_ECLOSED && idle) {
        conn_close(&w->conn);
        code = request_open(w);
        if (code)
            return code;
        code = exchange(w, tag, fds, n_fds, deadline_ms, out);
    }
    return code ? drop(w, code) : finish_answer(w, out);
}

int request_tell(struct warm *w, const int *fds, size_t n_fds, uint64_t deadline_ms)
{
    if (!WARM_EXPECT(n_fds <= WIRE_FDS_MAX))
        return err_set(&w->err, WARM_EINVALID, "%zu descriptors with one frame", n_fds);
    int code = check_request(w);
    if (code)
        return code;
    code = send_request(w, fds, n_fds, deadline_ms);
    return code ? drop(w, code) : 0;
}

int request_next(struct warm *w, uint64_t tag, int other_fd, uint64_t deadline_ms,
                 struct answer *out)
{
    int code = await_frame(w, tag, other_fd, deadline_ms, out);
    if (code == CONN_OTHER)
        return code;
    return code ? drop(w, code) : finish_answer(w, out);
}

int request_unexpected(struct warm *w, struct answer *answer)
{
    conn_fds_close(answer->fds);
    err_set(&w->err, WARM_EMALFORMED, "the daemon answered with %s",
            wire_type_name(answer->frame.type));
    return drop(w, WARM_EMALFORMED);
}

/* ---- values ---- */

/* Marks a value that lies in a buffer of the connection. internal[0] of a value is malloc'ed memory
 * if internal[1] is NULL, such a buffer if it is &in_buffer, else a mapping of internal[1]
 * bytes. */
static char in_buffer;

static int value_take(struct conn *c, const void *data, size_t len, struct warm_value *out,
                      struct err *e)
{
    void *buffer = len >= KEEP_BUFFER_BYTES ? conn_give_buffer(c) : NULL;
    if (buffer) {
        *out = (struct warm_value){.data = data, .len = len, .internal = {buffer, &in_buffer}};
        return 0;
    }
    void *copy = malloc(len ? len : 1);
    if (!copy)
        return err_set(e, WARM_ENOMEM, "no memory for a value of %zu bytes", len);
    if (len)
        memcpy(copy, data, len);
    *out = (struct warm_value){.data = copy, .len = len, .internal = {copy, NULL}};
    return 0;
}

static int value_read(int fd, size_t len, struct warm_value *out, struct err *e)
{
    uint8_t *copy = malloc(len);
    if (!copy)
        return err_set(e, WARM_ENOMEM, "no memory for a value of %zu bytes", len);
    if (whole_read(fd, copy, len, 0) != (ssize_t)len) {
        free(copy);
        return err_set(e, WARM_EIO, "cannot read a value's file");
    }
    *out = (struct warm_value){.data = copy, .len = len, .internal = {copy, NULL}};
    return 0;
}

static int value_load(struct conn *c, const struct wire_hit *hit, int fd, struct warm_value *out,
                      struct err *e)
{
    if (fd < 0)
        return value_take(c, hit->value.data, hit->value.len, out, e);
    if (hit->len > SIZE_MAX / 2)
        return err_set(e, WARM_ETOO_BIG, "a value of %llu bytes", (unsigned long long)hit->len);
    size_t len = (size_t)hit->len;
    if (len <= READ_MAX_BYTES && value_read(fd, len, out, e) == 0)
        return 0;
    /* The file is mapped, also one that could not be read. Its length first: reading behind the end of a file would end the
     * program. Files of the store never change after they were served. */
    struct stat st;
    if (fstat(fd, &st) < 0 || (uint64_t)st.st_size < len)
        return err_set(e, WARM_EIO, "a value's file is shorter than the value");
    void *map = mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return err_sys(e, WARM_EIO, errno, "cannot map a value of %zu bytes", len);
    *out = (struct warm_value){.data = map, .len = len, .internal = {map, (void *)(uintptr_t)len}};
    return 0;
}

static void tell_damaged(struct warm *w, const struct wire_damaged *damaged)
{
    uint64_t tag = request_begin(w);
    wire_put_damaged(&w->request, tag, damaged);
    request_tell(w, NULL, 0, conn_now_ms() + w->connect_timeout_ms);
}

void request_tell_refused(struct warm *w, const struct key *key, const struct key *check)
{
    struct wire_damaged refused = {.key = *key, .seen = *check};
    tell_damaged(w, &refused);
}

int request_value(struct warm *w, struct answer *answer, const struct wire_hit *hit,
                  struct warm_value *out)
{
    struct warm_value value;
    struct wire_damaged damaged = {.key = hit->key};
    int code = value_load(&w->conn, hit, answer->fds[0], &value, &w->err);
    conn_fds_close(answer->fds);
    if (code == WARM_EIO) { /* as bad as damaged: the daemon checks it, and the caller asks again */
        tell_damaged(w, &damaged);
        return err_set(&w->err, WARM_ECORRUPT, "a value's file cannot be read");
    }
    if (code)
        return code;
    damaged.seen = key_of_bytes(value.data, value.len);
    if (!key_equal(&damaged.seen, &hit->check)) {
        warm_value_free(&value);
        tell_damaged(w, &damaged);
        return err_set(&w->err, WARM_ECORRUPT, "a value did not match its checksum");
    }
    value.cost_ms = hit->cost_ms;
    value.outcome = (int)(hit->outcome == WIRE_WAS_HIT_AUDIT ? WIRE_WAS_HIT : hit->outcome);
    key_to_text(&hit->key, value.key);
    *out = value;
    return 0;
}

void warm_value_free(struct warm_value *v)
{
    if (v->internal[1] == &in_buffer)
        conn_buffer_free(v->internal[0]);
    else if (v->internal[1])
        munmap(v->internal[0], (size_t)(uintptr_t)v->internal[1]);
    else
        free(v->internal[0]);
    *v = (struct warm_value){0};
}
