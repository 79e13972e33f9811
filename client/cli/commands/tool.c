/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tool.c - `warm tool -- PROGRAM ARGS…`: stands in for the compilers that programs under `warm run`
 * start. main.c calls it; client/tool/tool.h has the picture.
 *
 * Any failure before the compiler ran ends in pass_on: the real compiler runs, as without us.
 *
 * Thread: main.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/cli.h"
#include "client/exec/compilers.h"
#include "client/exec/programs.h"
#include "client/lib/deadlines.h"
#include "client/tool/tool.h"

/* ---- which front end ---- */

typedef int (*plan_fn)(struct tool_job *job, struct warm *w, struct err *e);

static plan_fn find_front_end(const char *program)
{
    static const struct {
        const char *name; /* as compiler_at() returns it */
        plan_fn plan;
    } front_ends[] = {
        {"ptxas", ptxas_plan},     {"ptxas-blackwell", ptxas_plan},
        {"nvcc", nvidia_plan},     {"cicc", nvidia_plan},
        {"nvlink", nvidia_plan},   {"fatbinary", nvidia_plan},
        {"tileiras", nvidia_plan}, {"clang++", cc_plan},
        {"clang", cc_plan},        {"g++", cc_plan},
        {"gcc", cc_plan},          {"c++", cc_plan},
        {"cc", cc_plan},
    };
    const char *name = compiler_at(program);
    for (size_t i = 0; name && i < sizeof front_ends / sizeof front_ends[0]; i++)
        if (strcmp(name, front_ends[i].name) == 0)
            return front_ends[i].plan;
    return NULL;
}

/* True for a script, which is passed on: the compilers that it starts come here by themselves. */
static bool is_script(const char *program)
{
    char head[2] = {0};
    FILE *f = fopen(program, "re");
    bool script = f && fread(head, 1, sizeof head, f) == sizeof head && memcmp(head, "#!", 2) == 0;
    if (f)
        fclose(f);
    return script;
}

/* ---- running ---- */

/* Becomes the real tool. Returns only if that fails: 126 or 127. */
static int pass_on(const struct tool_job *job)
{
    execv(job->program, job->argv);
    int error = errno;
    cli_say("%s: %s", job->program, strerror(error));
    return error == ENOENT ? 127 : 126;
}

/* Lets the job write a precompiled header to a temporary file beside its place. */
static int aim_at_temporary(struct tool_job *job, char temporary[PATH_MAX])
{
    int n = snprintf(temporary, PATH_MAX, "%s.warm-%d%s", job->header, (int)getpid(), ".gch");
    if (n < 0 || n >= PATH_MAX)
        return WARM_ETOO_BIG;
    for (int i = 1; i < job->argc; i++)
        if (strcmp(job->argv[i], job->header) == 0 && strcmp(job->argv[i - 1], "-o") == 0) {
            job->argv[i] = temporary;
            return 0;
        }
    return WARM_EREFUSED;
}

/* Returns the deadline of an answer: WARM_TIMEOUT_MS if that is longer than the default. */
static unsigned patience_ms(void)
{
    const char *timeout = getenv("WARM_TIMEOUT_MS");
    unsigned long ms = timeout ? strtoul(timeout, NULL, 10) : 0;
    return ms > DEADLINE_TOOL_MS && ms < DEADLINE_TOOL_WAIT_MS ? (unsigned)ms : DEADLINE_TOOL_MS;
}

static int serve(struct tool_job *job)
{
    struct warm *w = NULL;
    struct warm_options soon = {.request_timeout_ms = patience_ms()};
    struct err e = {0};
    char temporary[PATH_MAX];
    int status = -1;
    int code = warm_open(&w, &soon);
    if (!code && job->header)
        code = aim_at_temporary(job, temporary);
    if (!code)
        code = tool_plan(job, w, &e);
    if (!code)
        status = tool_run_cached(job, w);
    else
        tool_debug("passed on: %s", e.text[0] ? e.text : warm_error_name(code));
    if (code == WARM_EREFUSED)
        warm_note(w, "uncacheable", job->label, e.text);
    warm_close(w);
    return status;
}

static bool are_standard_descriptors_open(void)
{
    struct stat st;
    return fstat(0, &st) == 0 && fstat(1, &st) == 0 && fstat(2, &st) == 0;
}

static int run(const struct command *self, int argc, char **argv)
{
    struct tool_job job = {0};
    char *argv0 = NULL;
    int status;
    const struct cli_option options[] = {{"argv0", '\0', cli_take_text, &argv0, "a name"},
                                         {"header", '\0', cli_take_text, &job.header, "a path"},
                                         {0}};
    if (!cli_options(self, argc, argv, options, &status))
        return status;
    if (optind >= argc)
        return cli_usage(self, "which program?");
    char found[PATH_MAX];
    job.program = argv[optind];
    if (!strchr(job.program, '/') && program_find(job.program, found))
        job.program = found;
    job.argv = argv + optind;
    job.argc = argc - optind;
    if (argv0)
        job.argv[0] = argv0;
    job.plan = find_front_end(job.program);
    status = -1;
    if (job.plan && access(job.program, X_OK) == 0 && are_standard_descriptors_open() &&
        !is_script(job.program))
        status = serve(&job);
    if (status < 0)
        status = pass_on(&job);
    tool_job_close(&job);
    return status;
}

const struct command cmd_tool = {
    .name = "tool",
    .takes_program = true,
    .run = run,
    .summary = "Run a compiler, or take its result from the cache",
    .synopsis = "[--argv0 NAME] -- PROGRAM [ARGUMENT...]",
    .help =
        "Runs PROGRAM (ptxas, nvcc, cicc, nvlink, fatbinary, tileiras, gcc, g++, clang) as it "
        "would run by\n"
        "itself: output files, standard output and error and exit status are the compiler's own.\n"
        "They come from the cache if the same run is known and all files that it read are\n"
        "unchanged. Runs that cannot be kept soundly, and all runs without a daemon, are real.\n"
        "Under `warm run` programs get this in place of the compilers that they start.\n\n"
        "  --argv0 NAME    the name that the program sees as its own\n"
        "  --header PATH   make the precompiled header at PATH for real (`warm tool` uses this)\n\n"
        "WARM_TOOL_EXACT=1      temporary folders count, as they show in debug information\n"
        "WARM_TOOL_DEBUG=/FILE  append lines to FILE: what was done, and why\n\n"
        "Example: warm tool -- g++ -O2 -shared -fPIC -o f.so f.cpp\n",
};
