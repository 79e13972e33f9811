/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output.h - writes a result to the output file of a command.
 *
 * Thread: main. Memory: borrows all.
 */
#ifndef WARM_CLI_OUTPUT_H
#define WARM_CLI_OUTPUT_H

#include <stddef.h>

/* Writes all of `data` to `path`, "-" for stdout. A regular file is complete or absent: it is
 * written beside its place and renamed. Returns 0, or an exit status after printing the reason. */
int output_write(const char *path, const void *data, size_t len);

#endif
