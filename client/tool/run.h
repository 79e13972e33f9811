/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.h - one real run of a compiler, with what it prints passed on and recorded.
 *
 * Signals that would end us are given to the compiler, which ends and cleans up as it always does.
 * If it dies of a signal, so do we (run_end).
 *
 * Thread: one. Memory: a struct run owns its buffers (run_close).
 */
#ifndef WARM_TOOL_RUN_H
#define WARM_TOOL_RUN_H

#include <time.h>

#include "client/tool/tool.h"

struct run {
    int wait_status;
    struct writer out, err; /* where both go to the same place, all is in `out` */
    uint8_t *log;           /* traced: records of trace.h */
    size_t log_len;
    struct timespec started; /* by the clock that files are stamped with */
    uint32_t cost_ms;
};

/* Runs job->program. Errors: IO, NOMEM, NOT_FOUND (traced: libwarm-trace.so is not installed). The
 * compiler has not been started then. */
int run_job(const struct tool_job *job, struct run *out, struct err *e);
void run_close(struct run *run);

/* The exit status to end with; does not return if the compiler died of a signal. */
int run_end(const struct run *run);

#endif
