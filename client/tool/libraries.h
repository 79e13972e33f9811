/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libraries.h - the dynamic loader's answer for the name of a library.
 *
 *     LD_LIBRARY_PATH ──▶ files of that name, in order ─┐
 *     /etc/ld.so.cache ──▶ its entries for that name ───┴──▶ one digest
 *
 * Equal digests mean an equal answer. The digest covers all files that the loader could choose for the name,
 * and does not decide which one it chooses. Entries for other names do not count. Folders that a program
 * names itself (RUNPATH), and the loader's own folders, are in the trace.
 *
 * Thread: main. Memory: keeps the loader's list until the process ends.
 */
#ifndef WARM_TOOL_LIBRARIES_H
#define WARM_TOOL_LIBRARIES_H

#include "client/tool/inputs.h"

#define LOADER_LIST "/etc/ld.so.cache"
/* Not a name: the processor, by which the loader chooses among variants of a library. */
#define LIBRARY_PROCESSOR "(processor)"

/*
 * Computes the digest for a name without a slash. Errors: REFUSED if only the loader knows the
 * answer; BUSY if something that it depends on changed at or after `started_ns` (UINT64_MAX: that
 * does not matter).
 */
int library_digest(struct warm *w, const char *name, uint64_t started_ns, struct proof *out);

#endif
