/* SPDX-License-Identifier: Apache-2.0 */
/*
 * two_nvrtc.h - a daemon and both NVRTCs that the tests have, with a connection by libwarm.
 *
 * Thread: the test's own. Memory: rig_up and rig_up_with give what rig_down frees.
 */
#ifndef WARM_TESTS_SUPPORT_TWO_NVRTC_H
#define WARM_TESTS_SUPPORT_TWO_NVRTC_H

#include "client/lib/warm.h"
#include "tests/support/warmd.h"

struct rig {
    struct warmd kit;
    char *lib13, *lib12; /* folders of the libraries */
    char *own;           /* a folder of the test; may be NULL */
    struct warm *warm;
};

/* Defines the rig; skips the test if a toolchain is missing. */
#define NEEDS_TOOLCHAIN(r)                                                                         \
    struct rig r = {.lib13 = toolchain_lib("13.5.37"), .lib12 = toolchain_lib("12.9.86")};         \
    if (!r.lib13 || !r.lib12)                                                                      \
    cr_skip_test("no CUDA toolchain: set WARM_TOOLCHAIN or run `make toolchain`")

/* Starts a daemon that has both NVRTCs, and connects. */
void rig_up(struct rig *r);
/* Starts a daemon with these options, and connects. */
void rig_up_with(struct rig *r, char *const *options);
/* Ends both, and frees the folders' names. */
void rig_down(struct rig *r);

#endif
