/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inputs.h - the inputs of a compiler's run beyond its key: files, absent files, variables,
 * libraries.
 *
 *     trace of a run ──inputs_from_trace──▶ struct inputs ──inputs_write──▶ manifest, in the cache
 *     manifest ──inputs_read──▶ sets ──inputs_now──▶ state now: name of the result
 *
 * A result's name is a SHA-256 over the job's name and, for each input, its place and its state:
 * equal digests, equal result. Each file is looked at each time. It is read only if its size, times
 * or inode have changed since its digest was taken. If job->times_show, its time counts too, in
 * seconds. A file that was absent and now exists changes the digest too.
 *
 * Among files of equal content it counts which are one file (device, inode), and which have one
 * mtime in seconds. `#pragma once` and #import depend on that: Clang reads a file once, GCC reads
 * files of one content and time once. A text can have the pragma without spelling it (_Pragma in a
 * macro of another file), so this holds for all files.
 *
 * Bytes, little-endian: "WINP", u16 version 5, u16 s, then s × (u32 n, n × input):
 *     u8 kind, u8 root + 1 (0: none), blob path (after the root), then
 *     FILE     u64 device, inode, size, mtime, ctime (ns), SHA-256 of the content (32 bytes), u8 type: 'p' if the
 *              compiler asked for its name without links, and that was this name; else 0
 *     REAL     u8 type, blob: a name without links that the compiler asked for, in the form of real_name
 *     EXISTS   u8 type: 'f', 'd' or 'o'; 'x': a file that was started, and may be run
 *     LIST     SHA-256 of the sorted names (32 bytes)
 *     PROGRAM  blob: the file that PATH has for it ("": none); the path is the name that is looked up
 *     VARIABLE u8 type: 's' set or 'u' not, SHA-256 of its value (32 bytes); the path is its name
 *     LIBRARY  SHA-256 of what the loader finds by that name (libraries.h, 32 bytes)
 *     FOLDER   the five of FILE, of the folder; u32 n: the next n inputs are ABSENT, right in it.
 *              While the folder is unchanged, nothing was added, and none of them is looked at
 *     ABSENT, HEADER: nothing
 * A manifest of another version is ignored.
 *
 * Thread: main. Memory: a struct inputs owns its array; paths point into `bytes`, which it owns
 * too.
 */
#ifndef WARM_TOOL_INPUTS_H
#define WARM_TOOL_INPUTS_H

#include <time.h>

#include "client/tool/tool.h"

#define INPUTS_VERSION 5u
#define INPUTS_SETS_MAX 6            /* of one manifest: the oldest are dropped */
#define INPUTS_MAX (1u << 17)        /* inputs of one set */
#define INPUTS_BYTES_MAX (32u << 20) /* of a manifest */

#define EXISTS_RUNNABLE 'x'

enum input_kind {
    INPUT_FILE = 1,
    INPUT_ABSENT,
    INPUT_EXISTS,
    INPUT_LIST,
    INPUT_PROGRAM,
    INPUT_FOLDER,
    INPUT_HEADER, /* a precompiled header of ours, or none: its own inputs are in the list too */
    INPUT_VARIABLE,
    INPUT_LIBRARY, /* the name of a library, and what the loader finds by it */
    INPUT_REAL, /* a name with links, or one that is not its shortest: what realpath says of it */
};

struct stamp { /* of a file whose digest is known */
    uint64_t device, inode, size, mtime_ns, ctime_ns;
};

struct input {
    uint8_t kind;
    uint8_t root;    /* index + 1, 0: none */
    uint8_t type;    /* EXISTS, VARIABLE, FILE, REAL */
    bool is_renewed; /* the stamp is newer than the manifest's */
    bool is_there;   /* ABSENT, covered by a folder: it exists now */
    const char *path;
    const char *program; /* PROGRAM; REAL: its text */
    bool may_change;     /* FILE: it can change without a change of its stamp */
    struct stamp stamp;  /* FILE, FOLDER; zero of a file that may change, or a folder not settled */
    uint32_t covers;     /* FOLDER */
    struct proof digest; /* FILE, LIST, VARIABLE, LIBRARY */
};

/* True for kinds with a digest. */
static inline bool input_has_digest(const struct input *i)
{
    return i->kind == INPUT_FILE || i->kind == INPUT_LIST || i->kind == INPUT_VARIABLE ||
           i->kind == INPUT_LIBRARY;
}

/* True for kinds that have a text besides the path: `program`. */
static inline bool input_has_text(const struct input *i)
{
    return i->kind == INPUT_PROGRAM || i->kind == INPUT_REAL;
}

/* True for kinds whose type is kept. */
static inline bool input_has_type(const struct input *i)
{
    return i->kind == INPUT_EXISTS || i->kind == INPUT_VARIABLE || i->kind == INPUT_FILE ||
           i->kind == INPUT_REAL;
}

struct inputs {
    struct input *list;
    size_t n;
    uint8_t *bytes; /* of the manifest, or of the paths alone */
    size_t len;
    size_t n_sets;
    struct input *sets[INPUTS_SETS_MAX]; /* in `list` */
    size_t set_len[INPUTS_SETS_MAX];
    const struct input *changed; /* the first of set 0 that inputs_now found changed; NULL: none */
};

/*
 * Makes one set of a trace (`log`, trace.h). `started`: the clock of files' stamps before the run
 * began. Errors: NOMEM; REFUSED: the result must not be kept, and err->text says why. For example, a
 * file changed meanwhile, a process left no trace, or the clock shows in the result.
 */
int inputs_from_trace(const struct tool_job *job, struct warm *w, const void *log, size_t len,
                      struct timespec started, struct inputs *out, struct err *e);

/* ---- input_sets.c ---- */

/* Decodes a manifest: gives *out (inputs_close). Errors: MALFORMED, VERSION, NOMEM, … */
int inputs_read(const void *data, size_t len, struct inputs *out, struct err *e);
/* Appends a manifest: the set of `fresh`, then those of `old` (NULL: none) that are others. */
void inputs_write(const struct inputs *fresh, const struct inputs *old, struct writer *w);
/* Frees the inputs. */
void inputs_close(struct inputs *in);

/* ---- inputs.c ---- */

/* Computes the result's name for set `set` of `in`, as the files are now. Renews digests and stamps
 * of changed files in `in`. False if an input appeared, disappeared or cannot be read: `out` then
 * names no result, but is equal for all processes that see the same. */
bool inputs_now(const struct tool_job *job, struct warm *w, struct inputs *in, size_t set,
                char out[TOOL_NAME_TEXT]);

/* Says to a person how an input changed: "a/b.h has changed". */
void input_describe_change(const struct tool_job *job, const struct input *i, char *out,
                           size_t cap);

/* Computes the result's name for the one set of a traced run. NOMEM. */
int inputs_name(const struct tool_job *job, const struct input *list, size_t n,
                char out[TOOL_NAME_TEXT]);

/* ---- real_names.c ---- */

enum {
    REAL_PLAIN = 'p', /* the path has no links behind its root: no text */
    REAL_BELOW = 'b', /* it lies below the real name of the path's root or of the working folder */
    REAL_ELSEWHERE = 'e',     /* it lies elsewhere */
    REAL_SHORTER_BELOW = 'B', /* the same of a name that is shorter than the path: GCC shows it */
    REAL_SHORTER = 'E',
};

/* Writes what counts of the name of `path` without links: the part behind the root, or all of it. Returns one of REAL_*;
 * 0: there is no such name, or no memory. */
char real_name(const struct tool_job *job, const char *path, char out[PATH_MAX]);

/* ---- inputs.c ---- */

/* Brings a VARIABLE up to date with the environment. */
void input_look_at_variable(struct input *i);

/* True if inputs_now renewed stamps in set `set`. */
bool inputs_are_renewed(const struct inputs *in, size_t set);

#endif
