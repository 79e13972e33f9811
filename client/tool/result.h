/* SPDX-License-Identifier: Apache-2.0 */
/*
 * result.h - the result of a compiler's run: exit status, texts, files.
 *
 * Bytes, little-endian:
 *
 *     "WRES", u16 version 5, u16 n: the number of files, u32 exit status
 *     SHA-256 of the outputs' names, if they show in the texts or files; else zero
 *     blob standard output, blob standard error
 *     n × (u8 state, u8 executable, u64 length, the bytes)
 *
 * States: enum result_state. In the texts a root
 * (tool.h) stands as the byte 1 and its index as a digit. The texts lack the lines in which ptxas says how
 * long it took. A file of dependencies and a preprocessed text are packed, if the job has
 * roots (dependencies.h, preprocessed.h). Of a precompiled header there are no bytes: a stub stands
 * for it (pch.h).
 *
 * Thread: main. Memory: a decoded result borrows the bytes.
 */
#ifndef WARM_TOOL_RESULT_H
#define WARM_TOOL_RESULT_H

#include "client/tool/compiler_run.h"
#include "client/tool/tool.h"

#define RESULT_VERSION 5u

/* What a run did to the file of an output. A compiler that fails removes an old file, or leaves it. */
enum result_state {
    RESULT_ABSENT,  /* there was none, and it wrote none: what it does to an old one is not known */
    RESULT_FILE,    /* it wrote one */
    RESULT_REMOVED, /* it removed an old one */
    RESULT_UNTOUCHED, /* it left an old one */
};

struct result_file {
    uint8_t state; /* enum result_state */
    bool is_executable;
    struct view data;
};
struct result {
    int status;
    struct proof named; /* zero: neither texts nor files name the outputs */
    struct view out, err;
    size_t n_files;
    struct result_file files[TOOL_OUTPUTS_MAX];
};

/* Appends the result of `run`, with its files from job->outputs. Errors: REFUSED (it must not
 * be kept: killed, out of memory, …, or a root shows where no hit can replace it), TOO_BIG, NOMEM, IO. */
int result_write(const struct tool_job *job, const struct compiler_run *run, struct writer *w,
                 struct err *e);

/* True if the messages of a ptxas run may show its source: a line's number, a name. An info line
 * (client/lib/ptxas_log.h) shows names of functions alone. Sources of one canonical form share these. */
bool result_shows_source(const struct compiler_run *run);

/* Decodes a result; *out borrows the data. Errors: MALFORMED, VERSION. */
int result_read(const void *data, size_t len, struct result *out, struct err *e);

/* Repeats a run: writes the files, each as a whole or not at all, then prints the texts. Returns
 * the exit status, or -1 if a file cannot be written or the texts name other files; it then printed
 * nothing. */
int result_replay(const struct tool_job *job, const struct result *result);

#endif
