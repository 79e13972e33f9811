/* SPDX-License-Identifier: Apache-2.0 */
/*
 * headers.h - opens this process's files for a compiler in a worker, which has no rights of its
 * own.
 *
 * The worker asks for a path, and the client opens the file with the client's rights, but only
 * beneath the job's roots:
 *
 *   the working folder · the folder of the program's name · -I folders · folders of -include files
 *
 * A path is beneath a root if its text is, after "." and ".." are taken out. Symbolic links do not
 * count for that. A link beneath a root is followed, because include folders are often links; its
 * target is still opened with the client's rights only. The root "/" stands for the files directly
 * in it, so that a service that works in "/" does not offer the whole machine.
 *
 * Only regular files of at most JOB_SOURCE_MAX bytes are given. Opening never blocks, whatever is
 * at the path. Everything else reads as absent or refused.
 *
 * Thread: one at a time. Memory: a struct headers owns its roots, and borrows nothing after
 * headers_open.
 */
#ifndef WARM_LIB_HEADERS_H
#define WARM_LIB_HEADERS_H

#include "client/lib/digests.h"
#include "client/wire/wire.h"
#include "keygen/cuda/job.h"

struct headers;

/* Collects the roots of a job. Gives *out (headers_close). Errors: INVALID (the job's cwd is not an
 * absolute path), NOMEM, and those of options_parse. */
int headers_open(struct headers **out, const struct job *job, struct err *e);
/* Frees it; NULL is fine. */
void headers_close(struct headers *h);

/* Lends a memory of digests to headers_check until headers_close. NULL: it reads files each
 * time. */
void headers_remember_in(struct headers *h, struct digests *digests);

/* Looks at `path`. For WIRE_PATH_FILE *out_fd is a read-only descriptor, which the caller closes,
 * and *out_len the file's length; else -1 and 0. */
enum wire_path_state headers_find(struct headers *h, struct view path, int *out_fd,
                                  uint64_t *out_len);

/* Returns the first path that was refused, or NULL. Valid until headers_close. */
const char *headers_refused(const struct headers *h);

/* Answers one question on the channel of a SOURCE. Errors: CLOSED (the worker is gone), MALFORMED,
 * IO: the channel is then useless. */
int headers_serve(struct headers *h, int channel_fd, struct err *e);

/* Reads the list of a CHECK and appends the list of its CHECKED. Errors: MALFORMED, NOMEM. */
int headers_check(struct headers *h, const struct wire_check *check, struct view paths,
                  struct writer *out_states, struct err *e);

#endif
