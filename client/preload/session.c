/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.c - connections to the daemon for all threads of a process, and when to go on without.
 *
 *     idle[] ──borrow──▶ one thread's ──return──▶ idle[] │ closed, where there is no room
 *
 *     working ── a failure that took t ms ──▶ pause of max(250, 100 t) ms, twice as long each time
 *        ▲                                       │ over: one thread tries, the others go on without
 *        └──────────── it works ─────────────────┘
 *
 * So a daemon that hangs costs WARM_TIMEOUT_MS once, and one in a hundred of the time from then on
 * at most; one that is started again is found.
 *
 * Any thread, no lock. Across fork: the child's handler closes what it inherited, and a child that
 * was made without handlers is told by libwarm that its connections are another process's.
 */
#include "client/preload/preload.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/session.h"

enum { IDLE_MAX = 16 };
#define PAUSE_MIN_MS 250u
#define PAUSE_MAX_MS (10u * 60 * 1000)
#define PAUSE_FACTOR 100u

static _Atomic(struct warm *) idle[IDLE_MAX];
static _Atomic uint64_t closed_until_ms; /* 0: working */
static _Atomic unsigned n_failures;      /* in a row */

bool preload_env_is_set(const char *name)
{
    const char *value = getenv(name);
    return value && *value && strcmp(value, "0") != 0;
}

/* ---- failures ---- */

static void note_failure(uint64_t took_ms)
{
    unsigned n = atomic_fetch_add(&n_failures, 1);
    uint64_t pause = took_ms * PAUSE_FACTOR;
    if (pause < PAUSE_MIN_MS)
        pause = PAUSE_MIN_MS;
    pause <<= n < 12 ? n : 12;
    atomic_store(&closed_until_ms, conn_now_ms() + (pause < PAUSE_MAX_MS ? pause : PAUSE_MAX_MS));
}

static void note_success(void)
{
    if (atomic_load_explicit(&n_failures, memory_order_relaxed) == 0)
        return;
    atomic_store(&n_failures, 0);
    atomic_store(&closed_until_ms, 0);
}

/* During a pause: no. After it: yes for one thread, which may take as long as a failure takes. */
static bool may_try(void)
{
    uint64_t until = atomic_load_explicit(&closed_until_ms, memory_order_relaxed);
    if (until == 0)
        return true;
    uint64_t now = conn_now_ms();
    return now >= until &&
           atomic_compare_exchange_strong(&closed_until_ms, &until, now + PAUSE_MIN_MS * 4);
}

/* ---- connections ---- */

static void close_all(void)
{
    for (size_t i = 0; i < IDLE_MAX; i++)
        warm_close(atomic_exchange(&idle[i], NULL));
}

/* The parent's troubles are not the child's, nor its connections. */
static void on_fork_in_child(void)
{
    close_all();
    atomic_store(&n_failures, 0);
    atomic_store(&closed_until_ms, 0);
}

static struct warm *open_one(void)
{
    static atomic_flag registered = ATOMIC_FLAG_INIT;
    struct warm *w = NULL;
    uint64_t start_ms = conn_now_ms();
    if (!atomic_flag_test_and_set(&registered))
        pthread_atfork(NULL, NULL, on_fork_in_child);
    int code = warm_open(&w, NULL);
    if (!code) {
        code = session_connect(w);
        if (code)
            warm_close(w);
    }
    if (code)
        note_failure(conn_now_ms() - start_ms);
    else
        note_success();
    return code ? NULL : w;
}

struct warm *preload_borrow(void)
{
    if (preload_env_is_set("WARM_DISABLE") || !may_try())
        return NULL;
    for (size_t i = 0; i < IDLE_MAX; i++) {
        struct warm *w = NULL;
        if (atomic_load_explicit(&idle[i], memory_order_relaxed))
            w = atomic_exchange(&idle[i], NULL);
        if (w && w->pid == getpid())
            return w;
        warm_close(w);
    }
    return open_one();
}

void preload_return(struct warm *w)
{
    if (!w)
        return;
    if (w->pid == getpid() && w->connected) {
        note_success();
        for (size_t i = 0; i < IDLE_MAX; i++) {
            struct warm *empty = NULL;
            if (atomic_compare_exchange_strong(&idle[i], &empty, w))
                return;
        }
    } else if (w->pid == getpid()) {
        /* Those that wait in idle[] have the same daemon. Where it went away another one may be
         * there already, and whether it is costs nothing to find out. */
        close_all();
        if (w->err.code == WARM_ETIMEOUT)
            note_failure(w->connect_timeout_ms);
    }
    warm_close(w);
}
