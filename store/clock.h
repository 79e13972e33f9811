/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clock.h - the time, and random numbers for sampling.
 *
 * Thread: any; a state of random_next belongs to one thread. Memory: none.
 */
#ifndef WARM_STORE_CLOCK_H
#define WARM_STORE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Returns Unix time in milliseconds: for times that are stored. */
uint64_t clock_wall_ms(void);
/* Returns Unix time in microseconds. */
uint64_t clock_wall_us(void);
/* Returns Unix time in milliseconds, as of the kernel's last tick. It costs a few nanoseconds: every hit
 * asks for it. */
uint64_t clock_wall_coarse_ms(void);
/* Returns a time in milliseconds that never goes back: for deadlines. */
uint64_t clock_mono_ms(void);
/* Returns the same time in nanoseconds. */
uint64_t clock_mono_ns(void);
/* Returns the CPU time of a thread or process in milliseconds; 0 if that is gone. */
uint64_t clock_cpu_ms(clockid_t cpu);
/* Returns a random number from a uint64_t of state. For sampling, not for secrets. */
uint64_t random_next(void *state);

#endif
