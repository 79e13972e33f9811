/* SPDX-License-Identifier: Apache-2.0 */
/*
 * files.h - the file system that the compiler sees: the client's files, and no others.
 *
 *    NVRTC: stat, fopen "X" ──▶ known in this compile? ──yes──▶ the bytes in memory, or ENOENT
 *                                      │ no
 *                                      ▼ one question a path
 *                    client: ABSENT │ REFUSED │ FILE + descriptor ──▶ read once, hashed, kept
 *
 * The worker program defines open, fopen, stat and their kin; it is linked so that NVRTC's calls
 * bind to these. A file's bytes are read once and served from memory, so what was hashed is what
 * was compiled, however the file changes meanwhile. Paths that were absent are kept too: a header
 * that appears there later must make a cached result stale.
 *
 * What NVRTC writes under WORKER_TMP goes to unnamed files in memory, which end with the process.
 *
 * Outside of files_begin and files_end the same functions reach the real file system, as far as the
 * sandbox allows.
 *
 * Thread: main thread. Memory: what files_at gives lives until files_end.
 */
#ifndef WARM_DAEMON_WORKER_FILES_H
#define WARM_DAEMON_WORKER_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "keygen/bytes.h"
#include "keygen/err.h"
#include "keygen/key.h"

struct file {
    char *path; /* as asked */
    bool absent;
    struct proof sha256; /* of `bytes` */
    struct view bytes;
    struct stat st;
};

/* Begins a compile: `channel` leads to the client (-1: there is none, and every path is absent),
 * `cwd` is its working folder, `name` the program's name. All are borrowed until files_end. The
 * compiler checks that the folders of both exist. It is told that they do, with all folders above
 * them, and the client is not asked: the answer does not change the result. */
void files_begin(int channel, const char *cwd, const char *name);
/* Ends the compile: forgets all questions and answers. */
void files_end(void);

/*
 * Hides three files from the next run of the compiler. NVRTC looks for them by stat alone, and does not read them:
 *
 *     the program itself             once; if its name has a folder, once more after all includes
 *     __nv_nvrtc_builtin_header.h    in the working folder, once
 *     __nv_name_map                  in the working folder, once, after all includes
 *
 * Their presence shows in line tables and in nothing else (evidence: 12.9 and 13.5). These looks find nothing, ask
 * nobody and are in no list, so that a source without includes depends on no file. Any further look, and any opening,
 * of the three asks the client as for every other path.
 */
void files_hide(bool hide);
/* True if the compiler looked for one of them once more: the program includes it. The result of
 * that run must not be used; the next run must hide nothing. */
bool files_hidden_met(void);

/* Returns the paths asked for so far, in the order of first requests. */
size_t files_count(void);
/* Returns the i-th of them. */
const struct file *files_at(size_t i);

/* Returns 0, or the reason why the result cannot be trusted at all: CLOSED (the client has gone),
 * TIMEOUT (it does not answer), NOMEM, MALFORMED. */
int files_status(struct err *e);
/* True if some path was refused: the result then depends on more than files_at tells. */
bool files_refused(void);

#endif
