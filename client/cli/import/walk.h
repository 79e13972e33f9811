/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk.h - what the formats of cache folders share: walking a folder, telling of its files,
 * writing them.
 *
 *     folder.c ──▶ import/jax.c │ import/triton.c │ import/inductor.c │ import/plain.c
 *                     └──────────────┴── import/walk.c ──┴─────────────────┘
 *
 * A format is one file, which defines a `struct folder_format`; folder.c lists them.
 *
 * Thread: the main thread only. Memory: views and paths are borrowed.
 */
#ifndef WARM_CLI_IMPORT_WALK_H
#define WARM_CLI_IMPORT_WALK_H

#include <limits.h>

#include "client/cli/cli.h"
#include "client/cli/import/folder.h"

#define FOLDER_VALUE_MAX ((size_t)4 << 30) /* bytes of a file, unpacked */

struct folder_walk {
    const struct folder_sink *sink;
    struct err *e;
};

struct folder_format {
    const char *name;
    /* As folder_read and folder_write (folder.h). */
    int (*read)(const struct folder_walk *w, const char *folder);
    int (*write)(const char *folder, const struct archive_entry *entry, struct err *e);
};

extern const struct folder_format folder_jax, folder_triton, folder_inductor, folder_cupy,
    folder_nv;

/* ---- names ---- */

struct view folder_view(const char *text);
bool folder_starts(struct view v, const char *text);
/* The name without what it begins with; false if it does not. */
bool folder_after(struct view name, const char *prefix, struct view *out);
/* A file's name that stays in its folder. */
bool folder_is_plain(struct view name);
/* "FOLDER/NAME" in `out`, of PATH_MAX bytes; false where it does not fit. */
bool folder_join(char *out, const char *folder, struct view name);

/* ---- reading ---- */

void folder_bad(const struct folder_walk *w, const char *path, const char *why);

/* Gives an entry to the walk's sink: its name is its label, too. A name that is too long is told.
 * Returns what the sink does. */
int folder_emit(const struct folder_walk *w, const char *kind, uint32_t cost_ms, const char *path,
                const char *name, struct view value);

/* Opens what is a regular file and not empty; false where it is not, which was told. The caller
 * ends with cli_input_close. */
bool folder_open(const struct folder_walk *w, struct cli_input *in, const char *path);

/* Calls `each` for the files, or the folders, of a folder, sorted; names with a dot in front are
 * left out. 0, what `each` returned, or IO. */
int folder_each(const struct folder_walk *w, const char *folder, bool folders,
                int (*each)(const struct folder_walk *w, const char *folder, const char *name));

/* ---- writing ---- */

/* Both make the folders above; a file that is there stays. 1, or IO, or MALFORMED for a name that
 * leaves its folder. */
int folder_write_file(const char *path, struct view value, struct err *e);
int folder_write_named(const char *folder, struct view file, struct view value, struct err *e);

#endif
