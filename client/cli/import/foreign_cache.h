/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign_cache.h - cache folders as other programs keep them, and the entries that they are.
 *
 * | format | a file of it | the entry's name |
 * |---|---|---|
 * | jax | KEY-cache: zlib or zstd | jax:stock:KEY |
 * | triton | KEY/__grp__NAME with the files it lists | triton:KEY:NAME, one entry for the group |
 * | triton | KEY/FILE of no group | triton:KEY:FILE |
 * | inductor | fxgraph/XX/KEY/DIGEST: a pickle | pt2:fx-graph-v1::KEY:c1 |
 * | inductor | aotautograd/KEY/DIGEST | pt2:autograd-experimental::KEY:c1 |
 * | inductor | XX/FILE.so | inductor:XX/FILE.so |
 * | inductor | triton/DEVICE/… | as triton |
 * | cupy | HASH.cubin and the like | cupy:FILE |
 * | nv | X/Y/HASH, index | nv:PATH |
 *
 * The names "jax:", "triton:" and "pt2:" are those that the adapters ask for. Nobody asks for the
 * others, since what they are made from is not in the folder: a digest stands for it. Those files
 * come along, in an archive, from machine to machine, and go back into a folder.
 *
 * Folders are walked without following links; what is damaged, as far as its format can tell, and
 * what belongs to no format is told to `on_bad`.
 *
 * Thread: the main thread only. Memory: what callbacks get is borrowed until they return.
 */
#ifndef WARM_CLI_IMPORT_FOREIGN_CACHE_H
#define WARM_CLI_IMPORT_FOREIGN_CACHE_H

#include "client/cli/import/archive.h"

struct foreign_sink {
    /* 0 to go on; else the walk ends with that. */
    int (*on_entry)(void *arg, const struct archive_entry *entry);
    void (*on_bad)(void *arg, const char *path, const char *why);
    void *arg;
};

/* "jax, triton, inductor, cupy, nv" */
const char *foreign_cache_formats(void);
bool foreign_cache_is_format(const char *format);

/* Walks a folder. 0, what on_entry returned, or IO with *e where it cannot be read. */
int foreign_cache_read(const char *format, const char *path, const struct foreign_sink *sink,
                       struct err *e);

/* Writes one entry where the format has it, beneath `path`; with no format (NULL) beneath the folder
 * "PATH/FORMAT" of the one that it is of. 1: it was written; 0: it is none of this format; or IO,
 * MALFORMED, NOMEM. Files that are there stay. */
int foreign_cache_write(const char *format, const char *path, const struct archive_entry *entry,
                        struct err *e);

#endif
