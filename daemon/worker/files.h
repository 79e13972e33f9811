/* SPDX-License-Identifier: Apache-2.0 */
/*
 * files.h - the file system as the compiler sees it: what the client hands over, and nothing else.
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
 * sandbox lets them.
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

/* A compile begins: `channel` leads to the client (-1: nobody, so every path is absent), `cwd` is
 * its working folder, `name` what the program is called. All are borrowed until files_end.
 *
 * The compiler looks whether the folders of both are there. It is told that they are, and those
 * above them, and the client is not asked: the answer changes nothing in what it yields. */
void files_begin(int channel, const char *cwd, const char *name);
/* The compile is over: forgets what was asked. */
void files_end(void);

/*
 * In every compile NVRTC looks, by stat alone, for three files that it does not read: the program
 * itself (once, and if its name has a folder once more behind all includes) and, in the working
 * folder, __nv_nvrtc_builtin_header.h (once), __nv_name_map (once, behind all includes). Their
 * presence shows in line tables and in nothing else (measured on 12.9 and 13.5). These looks are
 * answered with "absent", ask nobody and are in no list, so that what includes no file depends on no
 * file. Any further look, and any opening, of the three asks the client as for every other path.
 * Called before each run of the compiler.
 */
void files_hide(bool hide);
/* True if one of them was looked for once more: the program includes it. What that run yielded is
 * not to be used; the next is to hide nothing. */
bool files_hidden_met(void);

/* What is at a path, asked once; NULL if memory ran out. */
const struct file *files_ask(const char *path);

/* The paths asked so far, in the order in which they first were. */
size_t files_count(void);
/* Returns the i-th of them. */
const struct file *files_at(size_t i);

/* 0, or why the compile's result is not to be trusted at all: CLOSED (the client has gone), TIMEOUT
 * (it does not answer), NOMEM, MALFORMED. */
int files_status(struct err *e);
/* True if some path was refused, so that the result depends on more than what files_at tells. */
bool files_refused(void);

#endif
