/* SPDX-License-Identifier: Apache-2.0 */
/*
 * result.h - what a run of a compiler left: exit status, texts, files.
 *
 * Bytes, little-endian: "WRES", u16 version 3, u16 n files, u32 exit status, SHA-256 of the outputs'
 * names if they show in the texts or files (else zero), blob standard output, blob standard error, n × (u8 there, u8 executable, u64 length, the bytes). In the texts a root
 * (tool.h) stands as the byte 1 and its index as a digit. Of a precompiled header there are no
 * bytes: a stub stands for it (pch.h).
 *
 * Thread: one. Memory: a decoded result borrows the bytes.
 */
#ifndef WARM_TOOL_RESULT_H
#define WARM_TOOL_RESULT_H

#include "client/tool/compiler_run.h"
#include "client/tool/tool.h"

#define RESULT_VERSION 3u

struct result_file {
    bool is_there, is_executable;
    struct view data;
};
struct result {
    int status;
    struct proof named; /* zero: neither texts nor files name the outputs */
    struct view out, err;
    size_t n_files;
    struct result_file files[TOOL_OUTPUTS_MAX];
};

/* Appends what `run` left, its files read from job->outputs. REFUSED: it should not be kept (it was
 * killed, out of memory, …, or a root shows where it cannot be put back), TOO_BIG, NOMEM, IO. */
int result_write(const struct tool_job *job, const struct compiler_run *run, struct writer *w,
                 struct err *e);

/* True if what a run by ptxas printed may show its source: a line's number, a name. Messages that begin
 * with "ptxas info" show its functions alone, by the names that code of the same form has too. */
bool result_shows_source(const struct compiler_run *run);

int result_read(const void *data, size_t len, struct result *out, struct err *e);

/* Does as the run did: files, each as a whole or not at all, then the texts. Returns the exit
 * status, or -1 where a file cannot be written or the texts name other files; nothing was printed
 * then. */
int result_replay(const struct tool_job *job, const struct result *result);

#endif
