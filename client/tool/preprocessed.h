/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preprocessed.h - the text that a preprocessor writes into a file (-E -o), for another folder.
 *
 *     '# 1 "/tmp/a/m.cc"'  ──preprocessed_pack──▶  '# 1 "<0>/m.cc"'     <0>: a root (tool.h)
 *                          ──preprocessed_unpack──▶  the same, with the roots of that job
 *
 * Line markers and __FILE__ name a file in quotes, by its folder and a '/'. A preprocessor computes
 * nothing with such names, so the text has the same bytes around them whatever their length is.
 *
 * Thread: any; no state. Memory: the caller's.
 */
#ifndef WARM_TOOL_PREPROCESSED_H
#define WARM_TOOL_PREPROCESSED_H

#include "client/tool/tool.h"

/* Appends the packed text. REFUSED if it names a root in another way. */
int preprocessed_pack(const struct tool_job *job, struct view text, struct writer *out,
                      struct err *e);

/* Appends the text for this job. False if preprocessed_pack cannot have made `packed`. */
bool preprocessed_unpack(const struct tool_job *job, struct view packed, struct writer *out);

#endif
