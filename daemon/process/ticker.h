/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ticker.h - a timer of the loop that costs nothing while it waits.
 *
 * libuv hands the time to its next timer to epoll_wait, and the kernel then sets and cancels a timer
 * of its own in each turn: a microsecond, where a whole hit takes ten. A ticker waits in a timerfd
 * instead, which is one more descriptor of the loop. So whatever may be pending while hits are
 * served is a ticker; a uv_timer_t does for the rest.
 *
 *     ticker_new ──▶ stopped ──ticker_start──▶ running ──ticker_stop, or the one tick──▶ stopped
 *
 * Thread: loop thread. Memory: its own, until ticker_free.
 */
#ifndef WARM_DAEMON_PROCESS_TICKER_H
#define WARM_DAEMON_PROCESS_TICKER_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct ticker;

/* Gives a stopped ticker; NULL if there is no memory or no descriptor. */
struct ticker *ticker_new(uv_loop_t *loop, void (*on_tick)(void *arg), void *arg);
/* Nothing is called after this, not even of the turn that runs. NULL is fine. The loop must run
 * once more before it is closed. */
void ticker_free(struct ticker *t);

/* Ticks in `after_ms`, and then each `repeat_ms` if that is not 0. One that runs starts anew. */
void ticker_start(struct ticker *t, uint64_t after_ms, uint64_t repeat_ms);
void ticker_stop(struct ticker *t);
bool ticker_runs(const struct ticker *t);

#endif
