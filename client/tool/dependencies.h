/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dependencies.h - the file of dependencies that GCC, Clang or nvcc writes (-MD, -MF), for another folder.
 *
 *     "/tmp/a/m.o: /tmp/a/m.cc \<newline> /tmp/a/h.h"
 *        ──dependencies_pack──▶ "<0>/m.o: <0>/m.cc <0>/h.h"     on one line; <0>: a root (tool.h)
 *        ──dependencies_unpack──▶ the file as the compiler writes it with the roots of that job
 *
 * GCC and Clang break the lines of the rule by the lengths of names, so they are broken anew; nvcc's stay.
 *
 * Thread: any; no state. Memory: the caller's.
 */
#ifndef WARM_TOOL_DEPENDENCIES_H
#define WARM_TOOL_DEPENDENCIES_H

#include "client/tool/tool.h"

/* True if the compiler writes a root's name into such a file without escapes; or, of GCC, `is_escaped`: with those for
 * spaces, which are known. But a name that -MT gives has none. */
bool dependencies_can_name(const char *root, bool is_escaped);

/* Appends the packed file. `log`: the trace of the run (trace.h). REFUSED: unpacking it here does not
 * produce the same bytes, or a name of a root in it does not stand for that root. */
int dependencies_pack(const struct tool_job *job, struct view file, struct view log,
                      struct writer *out, struct err *e);

/* Appends the file as the compiler would write it for this job. False if dependencies_pack cannot have made
 * `packed`. */
bool dependencies_unpack(const struct tool_job *job, struct view packed, struct writer *out);

#endif
