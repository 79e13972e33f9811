/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connection_pool.c - decides if a thread gets a connection to the daemon, or goes on without.
 * The stand-ins borrow one for each call that they serve; connection_pool.h draws the states.
 *
 * Thread: any, no lock: each slot changes hands by one compare-and-swap.
 */
#include "client/preload/connection_pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "client/lib/environment.h"
#include "client/lib/request.h"
#include "keygen/expect.h"

enum { SLOTS = 32 };
#define PAUSE_MIN_MS 250u
#define PAUSE_MAX_MS (10u * 60 * 1000)
#define PAUSE_FACTOR 100u
/* A connection that was idle for longer must answer a request first (is_alive). */
#define STALE_MS 1000u

enum slot_state { EMPTY, BUSY, IDLE };

static struct slot {
    _Atomic int state;
    struct warm *_Atomic w; /* BUSY and IDLE; NULL while it is opened */
    uint64_t since_ms;
} slots[SLOTS];

static _Atomic uint64_t paused_until_ms; /* 0: working */
static _Atomic unsigned n_failures;      /* in a row */

#define NOBODY_YET (-1)
static _Atomic int64_t first_user = NOBODY_YET; /* at this process's first call */

/* ---- failures ---- */

static void note_failure(uint64_t took_ms)
{
    unsigned n = atomic_fetch_add(&n_failures, 1);
    uint64_t pause = took_ms * PAUSE_FACTOR;
    if (pause < PAUSE_MIN_MS)
        pause = PAUSE_MIN_MS;
    pause <<= n < 12 ? n : 12;
    atomic_store(&paused_until_ms, conn_now_ms() + (pause < PAUSE_MAX_MS ? pause : PAUSE_MAX_MS));
}

static void note_success(void)
{
    if (atomic_load_explicit(&n_failures, memory_order_relaxed) == 0)
        return;
    atomic_store(&n_failures, 0);
    atomic_store(&paused_until_ms, 0);
}

/* False during a pause. After the pause true for one thread, and for all once that one has succeeded. */
static bool may_try(void)
{
    uint64_t until = atomic_load_explicit(&paused_until_ms, memory_order_relaxed);
    if (until == 0)
        return true;
    uint64_t now = conn_now_ms();
    return now >= until &&
           atomic_compare_exchange_strong(&paused_until_ms, &until, now + 4 * PAUSE_MIN_MS);
}

/* ---- slots ---- */

/* Claims a slot in state `from`: returns it as BUSY, the caller's; NULL: there is none. */
static struct slot *claim(int from)
{
    for (size_t i = 0; i < SLOTS; i++) {
        int state = atomic_load_explicit(&slots[i].state, memory_order_relaxed);
        if (state == from && atomic_compare_exchange_strong(&slots[i].state, &state, BUSY))
            return &slots[i];
    }
    return NULL;
}

/* Makes the slot forget its connection, and then closes it: a new one of another thread may get its address. */
static void empty(struct slot *s)
{
    warm_close(atomic_exchange(&s->w, NULL));
    atomic_store(&s->state, EMPTY);
}

static struct slot *slot_of(const struct warm *w)
{
    for (size_t i = 0; i < SLOTS; i++)
        if (slots[i].w == w && atomic_load_explicit(&slots[i].state, memory_order_relaxed) == BUSY)
            return &slots[i];
    return NULL;
}

/* Empties all slots: the child's one thread uses none of them. Failures of the parent do not
 * count. */
static void on_fork_in_child(void)
{
    for (size_t i = 0; i < SLOTS; i++)
        empty(&slots[i]);
    atomic_store(&n_failures, 0);
    atomic_store(&paused_until_ms, 0);
    atomic_store(&first_user, NOBODY_YET);
}

/* ---- connections ---- */

/* True if the process has changed its user since its first call: later results must not be kept in the first
 * user's name. */
static bool is_another_user(void)
{
    int64_t user = geteuid(), was = NOBODY_YET;
    return !atomic_compare_exchange_strong(&first_user, &was, user) && was != user;
}

/* True if the daemon answers, even with a refusal, in the time that connecting may take. */
static bool is_alive(struct warm *w)
{
    unsigned timeout_ms = w->request_timeout_ms;
    w->request_timeout_ms = w->connect_timeout_ms;
    warm_release(w, 0);
    w->request_timeout_ms = timeout_ms;
    return w->connected;
}

/* Prints, once, the one failure that a person must know of: another user listens there. */
static void tell_denied(void)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    char path[256];
    if (atomic_flag_test_and_set(&told) || warm_default_socket(path, sizeof path))
        return;
    dprintf(STDERR_FILENO,
            "warm: %s belongs to another user, or is not accessible: going on without the cache\n",
            path);
}

/* Opens the connection of the caller's slot; empties the slot if it cannot. */
static struct warm *open_in(struct slot *s)
{
    static atomic_flag registered = ATOMIC_FLAG_INIT;
    struct warm *w = NULL;
    uint64_t start_ms = conn_now_ms();
    if (!atomic_flag_test_and_set(&registered))
        pthread_atfork(NULL, NULL, on_fork_in_child);
    int code = warm_open(&w, NULL);
    s->w = w;
    if (!code)
        code = request_connect(w);
    if (!code) {
        note_success();
        return w;
    }
    if (code == WARM_EDENIED)
        tell_denied();
    note_failure(conn_now_ms() - start_ms);
    empty(s);
    return NULL;
}

struct warm *connection_pool_borrow(void)
{
    if (expect_is_off() || environment_is_set("WARM_DISABLE") || !may_try())
        return NULL;
    struct slot *s;
    if (is_another_user()) {
        while ((s = claim(IDLE)))
            empty(s);
        return NULL;
    }
    while ((s = claim(IDLE))) {
        struct warm *w = s->w;
        uint64_t start_ms = conn_now_ms();
        if (w->pid == getpid() && start_ms - s->since_ms < STALE_MS)
            return w;
        if (w->pid == getpid() && is_alive(w))
            return w;
        bool hangs = w->pid == getpid() && w->err.code == WARM_ETIMEOUT;
        empty(s);
        if (hangs) {
            note_failure(conn_now_ms() - start_ms);
            return NULL;
        }
    }
    s = claim(EMPTY);
    return s ? open_in(s) : NULL;
}

/* Takes a connection back. A lost one is no failure here: a daemon may have been started again,
 * and a look costs nothing. A daemon that does not answer is left alone for a while. */
void connection_pool_return(struct warm *w)
{
    struct slot *s = w ? slot_of(w) : NULL;
    if (!w || !WARM_EXPECT(s))
        return;
    bool hangs = w->err.code == WARM_ETIMEOUT;
    /* A process without a free descriptor gets this one back: the real library may need it now. */
    bool kept = w->connected && w->err.code != WARM_EIO;
    if (w->pid == getpid() && kept) {
        note_success();
        s->since_ms = conn_now_ms();
        atomic_store(&s->state, IDLE);
        return;
    }
    if (hangs && w->pid == getpid())
        note_failure(w->connect_timeout_ms);
    empty(s);
}
