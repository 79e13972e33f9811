/* SPDX-License-Identifier: Apache-2.0 */
/* trace_log.h - between trace_log.c, absent_folders.c and places.c: the last steps from records to inputs. */
#ifndef WARM_TOOL_TRACE_LOG_H
#define WARM_TOOL_TRACE_LOG_H

#include "client/tool/inputs.h"

/*
 * Sorts `list`, what is absent last, and gives it in out->list with a FOLDER before each run of
 * inputs that are absent in one. A folder's path is an offset into `folders`, which gets them all.
 * `started_ns`: a folder that changed since has no stamp. NOMEM.
 */
int inputs_group(const struct tool_job *job, uint64_t started_ns, struct input *list, size_t n,
                 struct inputs *out, struct writer *folders);

/*
 * For a job with roots: REFUSED if the name of a root may decide the result in a way that its bytes do
 * not show, as the length of __FILE__ would. NOMEM.
 */
int places_check(const struct tool_job *job, const struct inputs *in, struct err *e);

#endif
