/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process_tree.h - the processor time that a process and all processes below it have used, so that a compiler that
 * works is told from one that is stopped or waits for ever.
 *
 * Thread: any. Memory: none.
 */
#ifndef WARM_TOOL_PROCESS_TREE_H
#define WARM_TOOL_PROCESS_TREE_H

#include <stdint.h>
#include <sys/types.h>

/* Returns the clock ticks that the tree uses, with those of children that ended. It changes whenever one of them works,
 * and is the same as long as none does. Of a kernel without lists of children (CONFIG_PROC_CHILDREN) only the process itself
 * counts. */
uint64_t process_tree_ticks(pid_t pid);

#endif
