/* SPDX-License-Identifier: Apache-2.0 */
/*
 * progress.h - a line on stderr with the progress of long work, and colours; both only on a
 * terminal.
 *
 * Thread: main. Memory: none.
 */
#ifndef WARM_CLI_PROGRESS_H
#define WARM_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Draws the line again, if stderr is a terminal. */
void progress_show(const char *what, uint64_t done, uint64_t total);
/* Removes the line. */
void progress_end(void);

/* True if `out` is a terminal that wants colours: not with NO_COLOR, not with TERM=dumb. */
bool colour_wanted(FILE *out);

#endif
