/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvrtc_rig.h - a program on NVRTC that has never heard of warm (tests/programs/nvrtc_client.c), built here, and run
 * with libwarm-preload.so and without: whatever the daemon does, it prints the same.
 *
 * Thread: the test's own. Memory: nvrtc_rig_down frees what nvrtc_rig_up made; other texts are the caller's: free().
 */
#ifndef WARM_TESTS_SUPPORT_NVRTC_RIG_H
#define WARM_TESTS_SUPPORT_NVRTC_RIG_H

#include "tests/support/warmd.h"

#define NVRTC_CLIENT "tests/programs/nvrtc_client.c"
#define NVRTC_13 "13.5.37/lib/libnvrtc.so.13"
#define NVRTC_12 "12.9.86/lib/libnvrtc.so.12"

extern struct nvrtc_rig {
    char *folder, *preload; /* of the test; the preloaded library */
    char *client, *library; /* the program; the NVRTC */
    const char *timeout_ms; /* WARM_TIMEOUT_MS: long enough for a busy machine */
} nvrtc_rig;
extern char *nvrtc_rig_options[]; /* of a daemon */

/* Finds an NVRTC of the toolchain and builds the program. Skips the test if something is missing. */
void nvrtc_rig_up(const char *version);
void nvrtc_rig_down(void);

/* Returns the real path of a program or library of this build; NULL if there is none. */
char *nvrtc_rig_own_path(const char *name);
/* Compiles a program or a library into the test's folder; `how` is flags and sources. Returns its path. */
char *nvrtc_rig_build(const char *name, const char *how);
/* Writes a file into the test's folder. */
void nvrtc_rig_write(const char *name, const char *text);

/* Returns the output of a program; `socket` NULL: without the preloaded library. */
char *nvrtc_rig_run(const char *socket, const char *settings, const char *program,
                    const char *arguments);
/* Returns arguments of the program, with the test's folder as the last; static memory. */
char *nvrtc_rig_arguments(const char *prefix, const char *path, const char *command);
/* Fails the test, and shows the place, unless two outputs are the same. */
void nvrtc_rig_expect_same(const char *expected, const char *got, const char *what);
/* Runs a program without warm, and twice with it: the same, and the second time from the cache alone. */
void nvrtc_rig_expect_hits(const char *program, const char *settings, const char *arguments);
/* Returns a number of `warm stats`. */
long nvrtc_rig_counter(const struct warmd *k, const char *name);

#endif
