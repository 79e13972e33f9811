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
#include <sys/stat.h>
#include <unistd.h>

#include "keygen/expect.h"

/* True for a file that may be executed; access() says the same of a folder that may be entered. */
static bool is_program(const char *path)
{
    struct stat st;
    return access(path, X_OK) == 0 && stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

bool program_find(const char *name, char out[PATH_MAX])
{
    if (!WARM_EXPECT(name && !strchr(name, '/')))
        return false;
    const char *path = getenv("PATH");
    for (const char *at = path; at; at = *at ? at + 1 : NULL) {
        int len = (int)strcspn(at, ":");
        int n = snprintf(out, PATH_MAX, "%.*s%s%s", len, at, len ? "/" : "", name);
        if (n > 0 && n < PATH_MAX && is_program(out))
            return true;
        at += len;
    }
    return false;
}
