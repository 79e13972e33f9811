/* SPDX-License-Identifier: Apache-2.0 */
/*
 * progress.h - one line on stderr that shows how far long work is, and colours; both only where a
 * person looks at a terminal.
 *
 * Thread: the main thread only. Memory: none.
 */
#ifndef WARM_CLI_PROGRESS_H
#define WARM_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Draws the line anew; nothing where stderr is no terminal. */
void progress_show(const char *what, uint64_t done, uint64_t total);
/* Takes the line away. */
void progress_end(void);

/* True if `out` is a terminal that wants colours: not with NO_COLOR, not with TERM=dumb. */
bool colour_wanted(FILE *out);

#endif
