/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pch.h - precompiled headers (g++ -x c++-header X.h -o X.h.gch), made when something needs them.
 *
 *     X.h.gch       real: what the compiler wrote
 *                   or a stub: "warm-pch-stub 1", the folder and the command line that make the
 *                   real one. The compiler takes a stub for no precompiled header, and
 *                   reads X.h: slower, and right.
 *     X.h.gch.warm  beside a real one: its size and times, and what it was made from, so that what
 *                   is compiled with it depends on that
 *
 * TorchInductor's headers only: others are made at once, and are not kept.
 *
 * A run that would make a header, and of which the cache knows that it works with these inputs,
 * leaves a stub. Before a compile that includes X.h really runs, the stub is replaced by the real
 * thing, once, under a lock. A header that others made, or that is not as its .warm says, cannot be
 * told about: what is compiled with it is not kept.
 * A compiler uses a real header even where what it was made from has changed since: as long as that is
 * so, no result for the new text is taken (inputs.c).
 *
 * Thread: one. Memory: as said.
 */
#ifndef WARM_TOOL_PCH_H
#define WARM_TOOL_PCH_H

#include "client/tool/inputs.h"

#define PCH_SUFFIX ".gch"

/* True if nothing is at `path`, or a stub: the compiler reads the text. */
bool pch_is_absent_or_stub(const char *path);
bool pch_is_stub(const char *path);

/* Leaves a stub at job->outputs[0], as a whole or not at all. */
int pch_write_stub(const struct tool_job *job, struct err *e);

/* Writes the .warm of the real header at `path`, which the job has made: from `in`. Paths are
 * written without roots, so that others may read them. */
int pch_write_inputs(const struct tool_job *job, const char *path, const struct inputs *in,
                     struct err *e);

/* What the real header at `path` was made from: gives *out. NOT_FOUND if it is not ours. */
int pch_read_inputs(const char *path, struct inputs *out, struct err *e);

/* Makes the real header where `path` is a stub, or waits for who does. 0 also where there is
 * nothing to do. */
int pch_make_real(const char *path, struct err *e);

#endif
