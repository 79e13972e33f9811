/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clock.c - reads the system's clocks and makes the random numbers of samples. All files of the store
 * and of the daemon call it. One place decides which clock and which generator they use.
 *
 * Thread: any.
 */
#include "store/clock.h"

static uint64_t now_ns(clockid_t clock)
{
    struct timespec t = {0};
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t clock_wall_ms(void) { return now_ns(CLOCK_REALTIME) / 1000000; }

uint64_t clock_wall_us(void) { return now_ns(CLOCK_REALTIME) / 1000; }

uint64_t clock_wall_coarse_ms(void) { return now_ns(CLOCK_REALTIME_COARSE) / 1000000; }

uint64_t clock_mono_ms(void) { return now_ns(CLOCK_MONOTONIC) / 1000000; }

uint64_t clock_mono_ns(void) { return now_ns(CLOCK_MONOTONIC); }

uint64_t clock_cpu_ms(clockid_t cpu) { return now_ns(cpu) / 1000000; }

/* Computes xorshift64*: Marsaglia 2003, Vigna 2016. */
uint64_t random_next(void *arg)
{
    uint64_t *state = arg, x = *state ? *state : 0x9e3779b97f4a7c15u;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * 0x2545f4914f6cdd1du;
}
