/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec.c - becomes the program that `warm run` was given, or `warm tool` if the program is a
 * compiler. commands/run.c calls it, and wait.c in the child.
 *
 * Thread: main.
 */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/cli.h"
#include "client/cli/run/run.h"
#include "client/exec/compilers.h"
#include "client/exec/programs.h"
#include "client/lib/environment.h"

/* Runs a compiler through `warm tool`, as client/preload/exec.c does for those that a program
 * starts. Returns if the program is no compiler, or cannot run that way. */
static void exec_compiler(char **argv)
{
    char found[PATH_MAX];
    char tool[] = "tool", option[] = "--argv0", end[] = "--", *exe = getenv("WARM_EXE");
    const char *path = strchr(argv[0], '/') ? argv[0] : program_find(argv[0], found) ? found : NULL;
    struct stat st;
    size_t n = 0;
    if (!compiler_name(argv[0]) || !exe || !path || environment_is_set("WARM_DISABLE") ||
        environment_is_set("WARM_TOOL_ACTIVE") || stat(path, &st) < 0 || !S_ISREG(st.st_mode) ||
        st.st_mode & (S_ISUID | S_ISGID) || access(path, X_OK) < 0)
        return;
    while (argv[n])
        n++;
    char *head[] = {exe, tool, option, argv[0], end, strdup(path)};
    enum { N_HEAD = sizeof head / sizeof *head };
    char **stand_in = malloc((N_HEAD + n) * sizeof *stand_in);
    if (stand_in && head[N_HEAD - 1]) {
        memcpy(stand_in, head, sizeof head);
        memcpy(stand_in + N_HEAD, argv + 1, n * sizeof *argv); /* with the NULL at the end */
        execv(exe, stand_in);
    }
    free(head[N_HEAD - 1]);
    free(stand_in);
}

int run_exec(char **argv)
{
    assert(argv && argv[0]);
    exec_compiler(argv);
    execvp(argv[0], argv);
    int error = errno;
    cli_say("%s: %s", argv[0], strerror(error));
    return error == ENOENT ? 127 : 126;
}
