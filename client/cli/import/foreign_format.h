/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign_format.h - shared by the formats of cache folders: walks a folder, reports its files,
 * writes files.
 *
 *     foreign_cache.c ──▶ import/jax.c │ import/triton.c │ import/inductor.c
 *                     └───────── import/foreign_format.c ─────────┘
 *
 * A format is one file, which defines a `struct foreign_format`; foreign_cache.c lists them.
 *
 * Thread: main. Memory: views and paths are borrowed.
 */
#ifndef WARM_CLI_IMPORT_FOREIGN_FORMAT_H
#define WARM_CLI_IMPORT_FOREIGN_FORMAT_H

#include <limits.h>

#include "client/cli/cli.h"
#include "client/cli/import/foreign_cache.h"

#define FOREIGN_VALUE_MAX ((size_t)4 << 30) /* bytes of a file, unpacked */

struct foreign_walk {
    const struct foreign_sink *sink;
    struct err *e;
};

struct foreign_format {
    const char *name;
    /* As foreign_cache_read and foreign_cache_write (foreign_cache.h). */
    int (*read)(const struct foreign_walk *w, const char *folder);
    int (*write)(const char *folder, const struct archive_entry *entry, struct err *e);
};

extern const struct foreign_format foreign_jax, foreign_triton, foreign_inductor;

/* ---- names ---- */

/* Removes a prefix from a name. False if the name does not begin with it. */
bool foreign_after(struct view name, const char *prefix, struct view *out);
/* True for a file's name that stays in its folder. */
bool foreign_is_plain(struct view name);
/* Writes "FOLDER/NAME" to `out`, of PATH_MAX bytes. False if it does not fit. */
bool foreign_join(char *out, const char *folder, struct view name);

/* ---- reading ---- */

/* Reports a damaged or unknown file to the walk's sink. */
void foreign_bad(const struct foreign_walk *w, const char *path, const char *why);

/* Passes an entry to the walk's sink, with its name as its label. Reports a name that is too long.
 * Returns the sink's answer. */
int foreign_emit(const struct foreign_walk *w, const char *kind, uint32_t cost_ms, const char *path,
                 const char *name, struct view value);

/* Opens a regular file that is not empty (cli_input_close). False if it is not, which it
 * reports. */
bool foreign_open(const struct foreign_walk *w, struct cli_input *in, const char *path);

/* Calls `each` for the files, or the folders, of a folder in sorted order, without names that begin
 * with a dot. Returns 0, the value with which `each` ended it, or IO. */
int foreign_each(const struct foreign_walk *w, const char *folder, bool folders,
                 int (*each)(const struct foreign_walk *w, const char *folder, const char *name));

/* ---- writing ---- */

/* Writes `value` to the file of that name in a folder, and makes the folders above it; an existing
 * file stays. 1, or IO, or MALFORMED for a name that leaves its folder. */
int foreign_write_named(const char *folder, struct view file, struct view value, struct err *e);

#endif
