/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h - clocks, medians and child processes for the benchmark programs. */
#ifndef WARM_TESTS_BENCH_H
#define WARM_TESTS_BENCH_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

uint64_t bench_now_ns(void); /* monotonic */

/* Sorts `v` and returns the value at a quantile from 0 to 1. */
double bench_quantile(double *v, size_t n, double q);

/* Returns the number of rounds: `most`, or $BENCH_ROUNDS if that is less. */
size_t bench_rounds(size_t most);

/* Pins this process, and what it starts later, to one CPU; -1: to all. */
void bench_pin(int cpu);

/* Starts a program with stdout and stderr to /dev/null (or $BENCH_LOG); it dies with this process.
 */
pid_t bench_start(char *const argv[]);
/* SIGTERM, then waits. */
void bench_stop(pid_t pid);

/* Connects a blocking Unix socket, trying for up to ten seconds; exits with a message if it cannot.
 */
int bench_connect(const char *path);

/* Starts a child that answers 32 bytes with 1 KiB, and does nothing else: what any server needs. Returns the
 * socket to it. */
int bench_ping_pong(pid_t *out_pid);
/* One round trip to it. */
void bench_ping(int fd);

/* One row of the table: the median of `n` rounds (sorts them), the lowest and the highest, and whether
 * the median is at most, or at least, `limit`. Goes to the file $BENCH_ROWS, or to stdout. */
enum bench_target { BENCH_AT_MOST, BENCH_AT_LEAST, BENCH_NO_TARGET };
void bench_row(const char *figure, const char *what, double *rounds, size_t n,
               enum bench_target target, double limit);
/* A row that says why there is none. */
void bench_absent(const char *figure, const char *what, const char *why);

void bench_die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#endif
