/* SPDX-License-Identifier: Apache-2.0 */
/*
 * path_names.h - finds names in nvcc's outputs that are made of the source's path or of a process number.
 *
 * nvcc gives entities of internal linkage, and each relocatable module, a name with the module's id:
 *
 *     _GLOBAL__N__2d9c9a17_4_a_cu_g      hash of the path, length and name of the file, an external symbol
 *     __fatbinwrap_42217a73_4_k_cu_5cb939b5_28075      no external symbol: the process number instead
 *
 * Two sources with one text in two folders have different names, so that they link. A result with such a name must not
 * serve another path.
 *
 * Thread: any; no state. Memory: the bytes are borrowed.
 */
#ifndef WARM_TOOL_PATH_NAMES_H
#define WARM_TOOL_PATH_NAMES_H

#include <stdbool.h>

#include "keygen/bytes.h"

/* True if a file that nvcc wrote from `source` has such a name, or if warm cannot read a part of it. Reads compressed
 * parts, too. `source_counts`: only names with a process number do, as the
 * source's full path is in the key. */
bool path_names_show(const char *source, bool source_counts, struct view file);

#endif
