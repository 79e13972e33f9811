/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign_cache.h - reads and writes cache folders of other programs as entries.
 *
 * | format | a file of it | the entry's name |
 * |---|---|---|
 * | jax | KEY-cache: zlib or zstd | jax:stock:KEY |
 * | triton | KEY/__grp__NAME with the files it lists | triton:2:KEY:NAME, one entry for the group |
 * | triton | KEY/FILE of no group | triton:2:KEY:FILE |
 * | inductor | fxgraph/XX/KEY/DIGEST: a pickle | pt2:fx-graph-v1::KEY:c1 |
 * | inductor | aotautograd/KEY/DIGEST | pt2:autograd-experimental::KEY:c1 |
 * | inductor | XX/FILE.so | inductor:XX/FILE.so |
 * | inductor | triton/DEVICE/… | as triton |
 *
 * The adapters ask for the names "jax:", "triton:2:" and "pt2:". No program asks for "inductor:",
 * because the folder has only a digest of what made the file. It travels in an archive from machine
 * to machine, and goes back into a folder.
 *
 * A walk follows no links. Damaged files, and files of no format, go to `on_bad`.
 *
 * Thread: main. Memory: arguments of callbacks are borrowed until they return.
 */
#ifndef WARM_CLI_IMPORT_FOREIGN_CACHE_H
#define WARM_CLI_IMPORT_FOREIGN_CACHE_H

#include "client/cli/import/archive.h"

struct foreign_sink {
    /* Takes an entry. 0 to go on; any other value ends the walk. */
    int (*on_entry)(void *arg, const struct archive_entry *entry);
    void (*on_bad)(void *arg, const char *path, const char *why);
    void *arg;
};

#define FOREIGN_CACHE_FORMATS "one of jax, triton and inductor"
/* Takes one of those names: *to is a const char *. */
bool foreign_cache_take_format(const char *value, void *to);

/* Walks a folder. Returns 0, the value with which on_entry ended the walk, or IO. */
int foreign_cache_read(const char *format, const char *path, const struct foreign_sink *sink,
                       struct err *e);

/* Writes one entry to its place beneath `path`; without a format (NULL), beneath "PATH/FORMAT" of
 * its own format. 1: it was written; 0: it has another format, or none; or IO, MALFORMED, NOMEM.
 * Existing files stay. */
int foreign_cache_write(const char *format, const char *path, const struct archive_entry *entry,
                        struct err *e);

#endif
