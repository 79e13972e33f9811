/* SPDX-License-Identifier: Apache-2.0 */
/*
 * headers.h - what a compiler elsewhere may read of this process's files, and the answers to it.
 *
 * A worker of the daemon has no rights of its own. It asks "what is at this path?", and the client
 * opens the file with the client's rights, but only for paths beneath the job's roots:
 *
 *     the working folder · the folder of the program's name · -I folders · folders of -include
 * files
 *
 * A path is beneath a root if it is after "." and ".." are taken out of its text: the text decides,
 * not what symbolic links make of it. A link beneath a root is followed, since include folders are
 * often links themselves; what is behind it is still only read with the client's rights. The root
 * "/" stands for the files directly in it and no more, so that a daemon or a service that works in
 * "/" does not offer the whole machine.
 *
 * Only regular files of at most JOB_SOURCE_MAX bytes are given; opening never blocks, whatever is
 * at the path. Everything else reads as absent or refused.
 *
 * Thread: one at a time. Memory: owns its roots; borrows nothing else after headers_open.
 */
#ifndef WARM_LIB_HEADERS_H
#define WARM_LIB_HEADERS_H

#include "client/lib/digests.h"
#include "client/wire/wire.h"
#include "keygen/cuda/job.h"

struct headers;

/* Gives *out (headers_close). Errors: INVALID (the job's cwd is not an absolute path), NOMEM, and
 * what options_parse says of the options. */
int headers_open(struct headers **out, const struct job *job, struct err *e);
void headers_close(struct headers *h); /* NULL is fine */

/* Where headers_check finds, and leaves, what files hold; borrowed until headers_close. NULL: it reads
 * them each time. */
void headers_remember_in(struct headers *h, struct digests *digests);

/* What is at `path`. For WIRE_PATH_FILE *out_fd is a read-only descriptor, which the caller closes,
 * and *out_len the file's length; else -1 and 0. */
enum wire_path_state headers_find(struct headers *h, struct view path, int *out_fd,
                                  uint64_t *out_len);

/* The first path that was refused, or NULL. Valid until headers_close. */
const char *headers_refused(const struct headers *h);

/* Answers one question on the channel of a SOURCE. Errors: CLOSED (the worker is gone), MALFORMED,
 * IO: the channel is then of no further use. */
int headers_serve(struct headers *h, int channel_fd, struct err *e);

/* Reads the list of a CHECK and appends the list of its CHECKED. Errors: MALFORMED, NOMEM. */
int headers_check(struct headers *h, const struct wire_check *check, struct view paths,
                  struct writer *out_states, struct err *e);

#endif
