/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop_timer.h - a timer of the loop that costs nothing while it waits.
 *
 * libuv passes the time of its next timer to epoll_wait, and the kernel then sets and cancels a timer of
 * its own in each turn. That costs a microsecond, and a whole hit takes ten. A loop timer waits in a
 * timerfd instead, which is one more descriptor of the loop. So timers that may run while hits are served
 * are loop timers; a uv_timer_t serves for the others.
 *
 *     loop_timer_new ──▶ stopped ──loop_timer_start──▶ running
 *                           ◀──loop_timer_stop, or its one tick──┘
 *
 * Thread: loop thread. Memory: its own, until loop_timer_free.
 */
#ifndef WARM_DAEMON_PROCESS_LOOP_TIMER_H
#define WARM_DAEMON_PROCESS_LOOP_TIMER_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct loop_timer;

/* Makes a stopped timer; NULL if there is no memory or no descriptor. */
struct loop_timer *loop_timer_new(uv_loop_t *loop, void (*on_tick)(void *arg), void *arg);
/* Frees the timer: on_tick does not run any more, even in this turn. NULL is fine. The loop must
 * run once more before it is closed. */
void loop_timer_free(struct loop_timer *t);

/* Ticks in `after_ms`, and then each `repeat_ms` if that is not 0. A running timer starts again. */
void loop_timer_start(struct loop_timer *t, uint64_t after_ms, uint64_t repeat_ms);
/* Stops the timer. */
void loop_timer_stop(struct loop_timer *t);
/* True if the timer runs. */
bool loop_timer_runs(const struct loop_timer *t);

#endif
