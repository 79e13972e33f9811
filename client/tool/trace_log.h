/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_log.h - the last steps from a trace to inputs: absent_folders.c and root_names.c, for
 * trace_log.c.
 *
 * Thread: main. Memory: the caller's.
 */
#ifndef WARM_TOOL_TRACE_LOG_H
#define WARM_TOOL_TRACE_LOG_H

#include "client/tool/inputs.h"

/*
 * Sorts `list`, absent inputs last, and gives a copy in out->list (inputs_close), with a FOLDER
 * before the absent inputs of each folder. A folder's path is an offset into `folders`, which gets
 * all of them. `started_ns`: a folder that changed since then has no stamp. NOMEM.
 */
int inputs_group(const struct tool_job *job, uint64_t started_ns, struct input *list, size_t n,
                 struct inputs *out, struct writer *folders);

/*
 * Checks a job with roots: REFUSED if the result may depend on a root's name without showing it, as
 * the length of __FILE__ does.
 */
int root_names_check(const struct tool_job *job, const struct inputs *in, struct err *e);

#endif
