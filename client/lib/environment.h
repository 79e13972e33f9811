/* SPDX-License-Identifier: Apache-2.0 */
/*
 * environment.h - switches in the environment: WARM_DISABLE, WARM_READONLY and the like. One value means the same to
 * the library, `warm run` and the preload library.
 *
 * Thread: any, while no thread changes the environment. Memory: none.
 */
#ifndef WARM_LIB_ENVIRONMENT_H
#define WARM_LIB_ENVIRONMENT_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* True if the variable is there and is neither empty nor "0". */
static inline bool environment_is_set(const char *name)
{
    const char *value = getenv(name);
    return value && *value && strcmp(value, "0") != 0;
}

#endif
