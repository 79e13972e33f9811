/* SPDX-License-Identifier: Apache-2.0 */
/*
 * environment.c - decides if a switch in the environment is on. The library, `warm run` and the
 * preload library ask it, so that one value means the same to all of them.
 *
 * Thread: any; no state.
 */
#include "client/lib/environment.h"

#include <stdlib.h>
#include <string.h>

bool environment_is_set(const char *name)
{
    const char *value = getenv(name);
    return value && *value && strcmp(value, "0") != 0;
}
