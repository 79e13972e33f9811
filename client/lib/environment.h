/* SPDX-License-Identifier: Apache-2.0 */
/*
 * environment.h - switches in the environment: WARM_DISABLE, WARM_READONLY and the like.
 *
 * Thread: any, while no thread changes the environment. Memory: none.
 */
#ifndef WARM_LIB_ENVIRONMENT_H
#define WARM_LIB_ENVIRONMENT_H

#include <stdbool.h>

/* True if the variable is there and is neither empty nor "0". */
bool environment_is_set(const char *name);

#endif
