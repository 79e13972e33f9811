/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compiler_variables.h - finds variables with which NVRTC, nvJitLink, libNVVM and the driver's compiler make another
 * result, write a file or say more. No key has their values, so a process with one of them is neither served nor kept.
 *
 * Thread: any, while no thread changes the environment. Memory: the text is the environment's.
 */
#ifndef WARM_PRELOAD_COMPILER_VARIABLES_H
#define WARM_PRELOAD_COMPILER_VARIABLES_H

#pragma GCC visibility push(hidden)

/* Returns such a variable as "NAME=value", or NULL. */
const char *compiler_variables_find(void);

#pragma GCC visibility pop

#endif
