/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_state.h - what is at a path: stamps, digests, types, folders.
 *
 * Thread: one. Memory: nothing is kept.
 */
#ifndef WARM_TOOL_FILE_STATE_H
#define WARM_TOOL_FILE_STATE_H

#include <sys/stat.h>

#include "client/tool/inputs.h"

struct stamp stamp_of(const struct stat *st);
/* True if a file of this stamp cannot change any more without its stamp doing so. */
bool stamp_is_settled(const struct stamp *stamp);

/* True if the file's last change came before `ns`, by the clock of files. Where that clock counts
 * whole seconds, a second or two before. */
bool stamp_is_before(const struct stamp *stamp, uint64_t ns);

/* SHA-256 of a file's content; the daemon is asked for that of a long file. *out_may_change: it may
 * change from now on without its stamp doing so, through a mapping. BUSY if the file is not as `stamp`
 * says, before or after. */
int file_digest(struct warm *w, const char *path, const struct stamp *stamp, struct proof *out,
                bool *out_may_change);

/* True for programs, objects, libraries and the loader's list of them: no compiler reads them as a
 * text. */
bool file_is_binary(const char *path);

/* 'f', 'd' or 'o'. */
char file_type(const struct stat *st);

/* SHA-256 of the sorted names in a folder. */
int folder_digest(const char *path, struct proof *out);

#endif
