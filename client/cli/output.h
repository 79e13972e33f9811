/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output.h - writes a result where the command line said.
 *
 * Thread: the main thread only. Memory: borrows all.
 */
#ifndef WARM_CLI_OUTPUT_H
#define WARM_CLI_OUTPUT_H

#include <stddef.h>

/* Writes all of `data` to `path`, "-" for stdout. A regular file is there whole or not at all: it
 * is written beside its place and renamed. Returns 0, or an exit status with the reason already on
 * stderr. */
int output_write(const char *path, const void *data, size_t len);

#endif
