/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier_kit.h - for suites of daemons with stores of their own and one store beyond them: a folder, or a
 * redis-server. Each wait has a deadline, and fails the test when it is reached.
 *
 *     tier_setup ─▶ tier_up, warmd_down, … ─▶ tier_teardown
 *
 * Thread: the test's own. Memory: tier_teardown frees the folder, with the key file in it.
 */
#ifndef WARM_TESTS_SUPPORT_TIER_KIT_H
#define WARM_TESTS_SUPPORT_TIER_KIT_H

#include "tests/support/compile.h"

/* The folder beyond the daemons, its URL (or another that the test writes there), and the key that they
 * sign with. */
extern char *tier_folder, *tier_key_file, tier_url[128];

/* Makes the folder and the key: the .init of a suite. */
void tier_setup(void);
/* Frees all: its .fini. */
void tier_teardown(void);

/* Makes a key of this name in a new file. */
void tier_make_key(const char *name, const char *path);
/* Starts a daemon with the tier, and NVRTC unless that is NULL; `more` are further options, ended by NULL,
 * or NULL. */
struct warmd tier_up(char *nvrtc, char *key, char *const *more);
/* Starts it in the folder of `k`, where one may have run before. */
void tier_up_again(struct warmd *k, char *nvrtc, char *key, char *const *more);

/* Waits until the folder has so many objects. */
void await_objects(unsigned n);
/* Counts the objects in the folder. */
unsigned count_objects(void);
/* Waits until the daemon's log has a text. */
void await_log(const struct warmd *k, const char *text);
/* Waits until the daemon's STATS have a text. */
void await_stats(const struct warmd *k, const char *text);

/* Puts a value under a name. */
void put_one(const struct warmd *k, const char *name, const char *value);
/* Asks for a name, and expects this value, or a miss. */
void expect_value(const struct warmd *k, const char *name, const char *value);
void expect_miss(const struct warmd *k, const char *name);

/* Two kernels. The second one's h.h defines N as 7. */
#define TIER_SOURCE "extern \"C\" __global__ void f(float *x) { x[threadIdx.x] *= 3; }\n"
#define TIER_WITH_HEADER                                                                           \
    "#include \"h.h\"\nextern \"C\" __global__ void f(float *x) { x[threadIdx.x] *= N; }\n"
/* Has a daemon compile both. Returns the key of the first. */
struct key make_kernels(const struct warmd *k);
/* Expects that another daemon has both, without a compile. */
void expect_kernels(const struct warmd *k, const struct key *made);

/* Returns the helper of a daemon: a grandchild of the test. */
pid_t helper_of(const struct warmd *k);

#endif
