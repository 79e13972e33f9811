/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop_timer.h - a timer of the loop that costs nothing while it waits.
 *
 * libuv hands the time to its next timer to epoll_wait, and the kernel then sets and cancels a timer
 * of its own in each turn: a microsecond, where a whole hit takes ten. A loop timer waits in a timerfd
 * instead, which is one more descriptor of the loop. So whatever may be pending while hits are
 * served is a loop timer; a uv_timer_t does for the rest.
 *
 *     loop_timer_new ──▶ stopped ──loop_timer_start──▶ running ──loop_timer_stop, or the one tick──▶ stopped
 *
 * Thread: loop thread. Memory: its own, until loop_timer_free.
 */
#ifndef WARM_DAEMON_PROCESS_LOOP_TIMER_H
#define WARM_DAEMON_PROCESS_LOOP_TIMER_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct loop_timer;

/* Gives a stopped timer; NULL if there is no memory or no descriptor. */
struct loop_timer *loop_timer_new(uv_loop_t *loop, void (*on_tick)(void *arg), void *arg);
/* Nothing is called after this, not even of the turn that runs. NULL is fine. The loop must run
 * once more before it is closed. */
void loop_timer_free(struct loop_timer *t);

/* Ticks in `after_ms`, and then each `repeat_ms` if that is not 0. One that runs starts anew. */
void loop_timer_start(struct loop_timer *t, uint64_t after_ms, uint64_t repeat_ms);
/* Stops the timer. A stopped one stays so. */
void loop_timer_stop(struct loop_timer *t);
/* True from loop_timer_start to loop_timer_stop or the one tick. */
bool loop_timer_runs(const struct loop_timer *t);

#endif
