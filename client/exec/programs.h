/* SPDX-License-Identifier: Apache-2.0 */
/*
 * programs.h - finds programs on $PATH, as a shell does.
 *
 * Thread: any, while no thread changes the environment. Memory: the caller's.
 */
#ifndef WARM_EXEC_PROGRAMS_H
#define WARM_EXEC_PROGRAMS_H

#include <limits.h>
#include <stdbool.h>

/* Finds the executable file that $PATH has for a name without a slash, and writes its path. False
 * if there is none; `out` is then undefined. */
bool program_find(const char *name, char out[PATH_MAX]);

#endif
