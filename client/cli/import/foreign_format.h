/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign_format.h - what the formats of cache folders share: walking a folder, telling of its files,
 * writing them.
 *
 *     foreign_cache.c ──▶ import/jax.c │ import/triton.c │ import/inductor.c │ import/cupy_and_nv.c
 *                     └──────────────┴── import/foreign_format.c ──┴─────────────────┘
 *
 * A format is one file, which defines a `struct foreign_format`; foreign_cache.c lists them.
 *
 * Thread: the main thread only. Memory: views and paths are borrowed.
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

extern const struct foreign_format foreign_jax, foreign_triton, foreign_inductor, foreign_cupy,
    foreign_nv;

/* ---- names ---- */

struct view foreign_view(const char *text);
bool foreign_starts(struct view v, const char *text);
/* The name without what it begins with; false if it does not. */
bool foreign_after(struct view name, const char *prefix, struct view *out);
/* A file's name that stays in its folder. */
bool foreign_is_plain(struct view name);
/* "FOLDER/NAME" in `out`, of PATH_MAX bytes; false where it does not fit. */
bool foreign_join(char *out, const char *folder, struct view name);

/* ---- reading ---- */

void foreign_bad(const struct foreign_walk *w, const char *path, const char *why);

/* Gives an entry to the walk's sink: its name is its label, too. A name that is too long is told.
 * Returns what the sink does. */
int foreign_emit(const struct foreign_walk *w, const char *kind, uint32_t cost_ms, const char *path,
                 const char *name, struct view value);

/* Opens what is a regular file and not empty; false where it is not, which was told. The caller
 * ends with cli_input_close. */
bool foreign_open(const struct foreign_walk *w, struct cli_input *in, const char *path);

/* Calls `each` for the files, or the folders, of a folder, sorted; names with a dot in front are
 * left out. 0, what `each` returned, or IO. */
int foreign_each(const struct foreign_walk *w, const char *folder, bool folders,
                 int (*each)(const struct foreign_walk *w, const char *folder, const char *name));

/* ---- writing ---- */

/* Both make the folders above; a file that is there stays. 1, or IO, or MALFORMED for a name that
 * leaves its folder. */
int foreign_write_file(const char *path, struct view value, struct err *e);
int foreign_write_named(const char *folder, struct view file, struct view value, struct err *e);

#endif
