/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ptx_files.h - adds to a key the files that a PTX text names in its .file directives. Before 13.4, ptxas and the
 * linkers with a ptxas of their own copy size and time of these files into the cubin, with and without -lineinfo.
 *
 * Thread: any; no state. Memory: nothing is owned.
 */
#ifndef WARM_LIB_PTX_FILES_H
#define WARM_LIB_PTX_FILES_H

#include "keygen/key.h"

/* Adds size and time of each file that is there; nothing without such a directive. */
void ptx_files_add(struct key_builder *key, uint32_t tag, const void *ptx, size_t len);

#endif
