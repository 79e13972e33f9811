/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compiler_run.h - runs a compiler for real; its output is passed on and recorded. The output of
 * job->given is only recorded.
 *
 * Signals that would end us go to the compiler, which ends and cleans up as it always does. If it
 * dies of a signal, so do we (compiler_run_end).
 *
 * Thread: main. Memory: a struct compiler_run owns its buffers (compiler_run_close).
 */
#ifndef WARM_TOOL_COMPILER_RUN_H
#define WARM_TOOL_COMPILER_RUN_H

#include <sys/stat.h>
#include <time.h>

#include "client/tool/tool.h"

/* The file of an output, before or after a run. */
struct output_state {
    bool is_there, is_executable;
    uint64_t inode;
    struct statx_timestamp birth, change; /* which file it is; when it was last written */
};

/* Returns the state of the file at a path; of a link, not of the file that it leads to. */
struct output_state output_state_of(const char *path);
/* True if both are one file, also if it was written meanwhile. */
bool output_is_same(const struct output_state *a, const struct output_state *b);

struct compiler_run {
    int wait_status;
    bool got_signal;        /* from us, while it ran */
    struct writer out, err; /* if both go to the same place, all is in `out` */
    uint8_t *log;           /* traced: records of trace.h */
    size_t log_len;
    struct timespec started;                      /* by the clock of files' stamps */
    struct output_state before[TOOL_OUTPUTS_MAX]; /* the files that were there */
    uint32_t cost_ms;
};

/* Who hears that a compiler makes progress: when it starts, and then each `period_ms` in which it, or a process below
 * it, used the processor. One that is stopped, or waits for ever, makes none. */
struct compiler_watch {
    void (*on_progress)(void *arg); /* NULL: nobody */
    void *arg;
    unsigned period_ms;
};

/* Runs job->program. Errors: IO, NOMEM, NOT_FOUND (traced: libwarm-trace.so is not installed). The
 * compiler has not been started then. */
int compiler_run_job(const struct tool_job *job, const struct compiler_watch *watch,
                     struct compiler_run *out, struct err *e);
/* Prints the output of a run that was only recorded. */
void compiler_run_show(const struct compiler_run *run);
/* Frees the buffers. */
void compiler_run_close(struct compiler_run *run);

/* Returns the exit status to end with; dies of the signal that the compiler died of. */
int compiler_run_end(const struct compiler_run *run);

#endif
