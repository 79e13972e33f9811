/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pch.h - makes precompiled headers (g++ -x c++-header X.h -o X.h.gch) when a compile needs them.
 *
 *     X.h.gch       the real header, as the compiler wrote it, or a stub: "warm-pch-stub 1", the
 *                   folder and the command line that make the real one. A compiler does not take
 *                   a stub for a precompiled header, and reads X.h: slower, but right
 *     X.h.gch.warm  beside a real one: its size and times, and its inputs, on which compiles with
 *                   it depend
 *
 * This holds for TorchInductor's headers only: others are made at once, and are not kept.
 *
 * A run that would make a header leaves a stub, if the cache has a successful run with the same
 * inputs. Before a compile that includes X.h really runs, the real header replaces the stub, once,
 * under a lock. The inputs of a header that others made, or that does not match its .warm, are not
 * known: for GCC its bytes count as those of any file; compiles by clang, which looks at the times of the
 * inputs, are not kept. A compiler uses a real header even if the header's inputs have
 * changed. Meanwhile no result for the new text is a hit (inputs.c).
 *
 * Thread: main. Memory: as each function says.
 */
#ifndef WARM_TOOL_PCH_H
#define WARM_TOOL_PCH_H

#include "client/tool/inputs.h"

#define PCH_SUFFIX ".gch"

/* True if nothing is at `path`, or a stub: the compiler reads the text. */
bool pch_is_absent_or_stub(const char *path);
/* True if a stub is at `path`. */
bool pch_is_stub(const char *path);

/* Leaves a stub at job->outputs[0], as a whole or not at all. */
int pch_write_stub(const struct tool_job *job, struct err *e);

/* Writes the .warm of the real header at `path`, which the job has made from `in`. It has full
 * paths instead of roots, so that other jobs can read it. */
int pch_write_inputs(const struct tool_job *job, const char *path, const struct inputs *in,
                     struct err *e);

/* Reads the inputs of the real header at `path`: gives *out (inputs_close). NOT_FOUND if the header
 * is not ours. */
int pch_read_inputs(const char *path, struct inputs *out, struct err *e);

/* Makes the real header if a stub is at `path`, or waits for the process that does. 0 also if there
 * is no stub. */
int pch_make_real(const char *path, struct err *e);

#endif
