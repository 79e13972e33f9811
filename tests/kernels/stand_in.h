/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stand_in.h - the stand-in for libcuda.so.1 (tests/fakecuda), built into a folder.
 *
 * Thread: the test's. Memory: as each function says.
 */
#ifndef WARM_TESTS_KERNELS_STAND_IN_H
#define WARM_TESTS_KERNELS_STAND_IN_H

#include <stdbool.h>

/* True if this machine has a real driver, which tests of the stand-in must not meet. */
bool stand_in_is_needless(void);
/* Builds FOLDER/libcuda.so.1. */
void stand_in_build(const char *folder);
/* Loads it into this process, so that driver_open finds it, with the kernels of a library. */
void stand_in_load(const char *folder, const char *kernels);

#endif
