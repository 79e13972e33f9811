/* SPDX-License-Identifier: Apache-2.0 */
/*
 * programs.c - decides which file a program's name means. `warm run`, `warm tool` and the inputs of
 * a traced compile ask it, because another program of that name on $PATH gives another result.
 *
 * Thread: any; no state.
 */
#include "client/exec/programs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "keygen/expect.h"

bool program_find(const char *name, char out[PATH_MAX])
{
    if (!WARM_EXPECT(name && !strchr(name, '/')))
        return false;
    const char *path = getenv("PATH");
    for (const char *at = path; at; at = *at ? at + 1 : NULL) {
        int len = (int)strcspn(at, ":");
        int n = snprintf(out, PATH_MAX, "%.*s%s%s", len, at, len ? "/" : "", name);
        if (n > 0 && n < PATH_MAX && access(out, X_OK) == 0)
            return true;
        at += len;
    }
    return false;
}
