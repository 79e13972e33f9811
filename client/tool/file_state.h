/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_state.h - reads the state of a path: stamps and digests of files, entries of folders.
 *
 * Thread: main. Memory: none.
 */
#ifndef WARM_TOOL_FILE_STATE_H
#define WARM_TOOL_FILE_STATE_H

#include <sys/stat.h>

#include "client/tool/inputs.h"

/* Returns the stamp of a file: its identity, size and times. */
struct stamp stamp_of(const struct stat *st);
/* True if every later change of a file of this stamp changes the stamp. */
bool stamp_is_settled(const struct stamp *stamp);

/* True if the file's last change came before `ns`, by the clock of files. If that clock counts whole seconds,
 * the change must be two seconds older. */
bool stamp_is_before(const struct stamp *stamp, uint64_t ns);

/* Computes the SHA-256 of a file's content, without what tool_hide_includes hides; for a large file it asks the daemon. *out_may_change:
 * the file can change from now on without its stamp doing so, through a mapping. BUSY if the file
 * does not match `stamp` before or after. */
int file_digest(struct warm *w, const char *path, const struct stamp *stamp, struct proof *out,
                bool *out_may_change);

/* True for programs, objects, libraries and the loader's list of them: no compiler reads them as
 * text. */
bool file_is_binary(const char *path);

/* Returns 'f' for a file, 'd' for a folder, 'o' for another type. */
char file_type(const struct stat *st);

/* Computes the SHA-256 of the sorted names in a folder. Errors: NOT_FOUND, TOO_BIG (or no memory). */
int folder_digest(const char *path, struct proof *out);

#endif
