/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch.c - looks at the beats and the CPU time of the loop's thread twice a second. main.c starts it.
 *
 * Thread: its own, and those of watch.h.
 */
#include "daemon/process/watch.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

#include "store/clock.h"

#define LOOK_MS 500

static struct watch_config config;
static pthread_t watched;
static atomic_ullong beats;
static atomic_bool is_asked;

void watch_beat(void) { atomic_fetch_add_explicit(&beats, 1, memory_order_relaxed); }
void watch_asked(void) { atomic_store(&is_asked, true); }
bool watch_was_asked(void) { return atomic_load(&is_asked); }

static void *watch_main(void *unused)
{
    const struct timespec pause = {LOOK_MS / 1000, LOOK_MS % 1000 * 1000000l};
    clockid_t cpu;
    (void)unused;
    if (pthread_getcpuclockid(watched, &cpu) != 0)
        return NULL;
    uint64_t seen = 0, cpu_then = 0, then = 0;
    bool was_asked = false;
    for (;; nanosleep(&pause, NULL)) {
        uint64_t n = atomic_load(&beats), now = clock_mono_ms(), cpu_now = clock_cpu_ms(cpu);
        bool asked = atomic_load(&is_asked);
        if (n != seen || asked != was_asked || !then) {
            seen = n, then = now, cpu_then = cpu_now, was_asked = asked;
            continue;
        }
        if (asked && now - then >= config.end_ms)
            config.on_late();
        else if (!asked && cpu_now - cpu_then >= config.stuck_ms)
            config.on_stuck("its loop");
        else if (!asked && config.other_ms && config.other_ms(config.arg) >= config.other_stuck_ms)
            config.on_stuck("the store's writer");
    }
    return NULL;
}

void watch_start(const struct watch_config *given)
{
    pthread_t thread;
    sigset_t all, old;
    config = *given;
    watched = pthread_self();
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old); /* signals are for the loop */
    if (pthread_create(&thread, NULL, watch_main, NULL) == 0)
        pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}
