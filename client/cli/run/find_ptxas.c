/* SPDX-License-Identifier: Apache-2.0 */
/*
 * find_ptxas.c - looks at the places of find_ptxas.h in order; the first program that may be executed wins.
 * `warm compile` calls it for PTX.
 *
 * Thread: main.
 */
#include "client/cli/run/find_ptxas.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/exec/programs.h"

/* Takes the first program below a folder that matches. */
static bool take(const char *base, const char *pattern, char out[PATH_MAX])
{
    char text[PATH_MAX];
    glob_t g;
    bool found = false;
    if (!base || !*base || snprintf(text, sizeof text, "%s%s", base, pattern) >= (int)sizeof text ||
        glob(text, 0, NULL, &g) != 0)
        return false;
    for (size_t i = 0; i < g.gl_pathc && !found; i++)
        found = access(g.gl_pathv[i], X_OK) == 0 &&
                snprintf(out, PATH_MAX, "%s", g.gl_pathv[i]) < PATH_MAX;
    globfree(&g);
    return found;
}

/* Looks in the packages of a Python: NVIDIA's own, else Triton's copy. */
static bool take_python(const char *prefix, char out[PATH_MAX])
{
    static const char *const patterns[] = {
        "/lib/python3*/site-packages/nvidia/c*/bin/ptxas",
        "/lib/python3*/site-packages/triton/backends/nvidia/bin/ptxas"};
    return take(prefix, patterns[0], out) || take(prefix, patterns[1], out);
}

bool ptxas_find(char out[PATH_MAX])
{
    char python[PATH_MAX];
    if (take(getenv("CUDA_HOME"), "/bin/ptxas", out) ||
        take(getenv("CUDA_PATH"), "/bin/ptxas", out) || take_python(getenv("VIRTUAL_ENV"), out) ||
        take_python(getenv("CONDA_PREFIX"), out) || program_find("ptxas", out))
        return true;
    if (program_find("python3", python)) {
        char *slash = strrchr(python, '/');
        strcpy(slash ? slash : python, slash ? "/.." : ".."); /* none: of an empty part of PATH */
        if (take_python(python, out))
            return true;
    }
    return take("/usr/local", "/cuda*/bin/ptxas", out);
}
