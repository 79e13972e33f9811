/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch.h - a thread that finds out if another one is in an endless loop, for instance on a damaged page of the
 * index, and if the daemon does not end though it was told to.
 *
 *     each turn of the loop ── watch_beat ──▶ a counter     no beat, and the thread uses the CPU: it is stuck.
 *     SIGTERM ── watch_asked ──▶ the time                   no beat for too long since then: it must end.
 *
 * CPU time decides, not the clock: a slow disk or a stopped machine is no endless loop.
 *
 * Thread: watch_start: the one that is watched. watch_beat: the same. watch_asked: any, also a signal's handler.
 * Memory: static; there is one watch.
 */
#ifndef WARM_DAEMON_PROCESS_WATCH_H
#define WARM_DAEMON_PROCESS_WATCH_H

#include <stdbool.h>
#include <stdint.h>

struct watch_config {
    uint64_t stuck_ms; /* CPU time of one turn */
    uint64_t end_ms;   /* without a beat, after watch_asked */
    /* Returns the CPU time that another thread has spent on one piece of work; NULL: there is none. */
    uint64_t (*other_ms)(void *arg);
    uint64_t other_stuck_ms;
    void *arg;
    void (*on_stuck)(const char *who); /* on the watch's thread */
    void (*on_late)(void);             /* it was asked to end, and does not */
};

/* Watches the calling thread from now on. Without a thread for it, nothing is watched. */
void watch_start(const struct watch_config *config);
/* Says that the thread has begun another turn. */
void watch_beat(void);
/* Says that the daemon was told to end. */
void watch_asked(void);
/* True after watch_asked. */
bool watch_was_asked(void);

#endif
