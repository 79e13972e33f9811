/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inputs.h - what a run of a compiler depended on beside its key: files, their absence, variables.
 *
 *     trace of a run ──inputs_from_trace──▶ struct inputs ──inputs_write──▶ manifest, in the cache
 *     manifest ──inputs_read──▶ sets ──inputs_now──▶ what is there now: name of the result
 *
 * A result's name is a SHA-256 over the job's name and, for each input, where it is and what is
 * there: equal digests, equal result. Each file is looked at each time; it is read only where its
 * size, times or inode are not those under which its digest was taken. Where job->times_show its time
 * counts too, in seconds. What was absent and is there now changes the digest too.
 *
 * Of files of equal content it counts which are one file (device, inode) and which have one mtime, in
 * seconds. `#pragma once` and #import go by that: Clang reads a file once, GCC files of one content
 * and time. A text need not spell the pragma to have it (_Pragma in another's macro), so this holds
 * for all files.
 *
 * Bytes, little-endian: "WINP", u16 version 3, u16 s, then s × (u32 n, n × input):
 *     u8 kind, u8 root + 1 (0: none), blob path (after the root), then
 *     FILE     u64 device, inode, size, mtime, ctime (ns), SHA-256 of the content (32 bytes)
 *     EXISTS   u8 type: 'f', 'd' or 'o'
 *     LIST     SHA-256 of the sorted names (32 bytes)
 *     PROGRAM  blob: where PATH leads to; the path is the name that is looked up
 *     VARIABLE u8 type: 's' set or 'u' not, SHA-256 of its value (32 bytes); the path is its name
 *     FOLDER   the five of FILE, of the folder; u32 n: the n inputs that follow are ABSENT, directly
 *              in it. While the folder is as it was nothing was added, and none of them is looked at
 *     ABSENT, HEADER: nothing
 * Another version is as good as no manifest.
 *
 * Thread: one. Memory: a struct inputs owns its array; paths point into `bytes`, which it owns too.
 */
#ifndef WARM_TOOL_INPUTS_H
#define WARM_TOOL_INPUTS_H

#include <time.h>

#include "client/tool/tool.h"

#define INPUTS_VERSION 3u
#define INPUTS_SETS_MAX 6            /* of one manifest: the oldest go */
#define INPUTS_MAX (1u << 17)        /* inputs of one set */
#define INPUTS_BYTES_MAX (32u << 20) /* of a manifest */

enum input_kind {
    INPUT_FILE = 1,
    INPUT_ABSENT,
    INPUT_EXISTS,
    INPUT_LIST,
    INPUT_PROGRAM,
    INPUT_FOLDER,
    INPUT_HEADER, /* a precompiled header of ours, or none: what it holds is among the others */
    INPUT_VARIABLE,
};

struct stamp { /* of a file whose digest is known */
    uint64_t device, inode, size, mtime_ns, ctime_ns;
};

struct input {
    uint8_t kind;
    uint8_t root;    /* index + 1, 0: none */
    uint8_t type;    /* EXISTS, VARIABLE */
    bool is_renewed; /* the stamp is newer than the manifest's */
    bool is_there;   /* ABSENT, covered by a folder: it is not */
    const char *path;
    const char *program; /* PROGRAM */
    bool may_change;     /* FILE, since it was looked at, without its stamp doing so */
    struct stamp stamp;  /* FILE, FOLDER; zero of a file that may change, or a folder not settled */
    uint32_t covers;     /* FOLDER */
    struct proof digest; /* FILE, LIST, VARIABLE */
};

struct inputs {
    struct input *list;
    size_t n;
    uint8_t *bytes; /* of the manifest, or of the paths alone */
    size_t len;
    size_t n_sets;
    struct input *sets[INPUTS_SETS_MAX]; /* in `list` */
    size_t set_len[INPUTS_SETS_MAX];
};

/*
 * What a trace says (`log`, trace.h), as one set. `started`: the clock that files are stamped by,
 * before the run began. Errors: REFUSED (a file changed meanwhile, the tool wrote files that are not
 * among job->outputs, a process was not seen, the clock shows in the result, …), NOMEM.
 */
int inputs_from_trace(const struct tool_job *job, struct warm *w, const void *log, size_t len,
                      struct timespec started, struct inputs *out, struct err *e);

int inputs_read(const void *data, size_t len, struct inputs *out, struct err *e);
/* Appends a manifest: the set of `fresh`, then those of `old` (NULL: none) that are others. */
void inputs_write(const struct inputs *fresh, const struct inputs *old, struct writer *w);
void inputs_close(struct inputs *in);

/* The result's name for set `set` of `in` as the files are now. Digests and stamps of files that
 * were read anew are renewed in `in`. False if something is there that was absent, or the other way
 * round, or cannot be read: `out` then names no result, but is equal for who sees the same. */
bool inputs_now(const struct tool_job *job, struct warm *w, struct inputs *in, size_t set,
                char out[TOOL_NAME_TEXT]);

/* The result's name for the one set of a run that was traced. NOMEM. */
int inputs_name(const struct tool_job *job, const struct input *list, size_t n,
                char out[TOOL_NAME_TEXT]);

/* Brings a VARIABLE up to date with the environment. */
void input_look_at_variable(struct input *i);

/* True if set `set` holds stamps that inputs_now renewed. */
bool inputs_are_renewed(const struct inputs *in, size_t set);

#endif
