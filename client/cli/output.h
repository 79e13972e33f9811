/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output.h - writes a result to the output file of a command, and makes folders for files.
 *
 * Thread: main. Memory: borrows all.
 */
#ifndef WARM_CLI_OUTPUT_H
#define WARM_CLI_OUTPUT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Writes all of `data` to `path`, "-" for stdout. A regular file is complete or absent: it is
 * written beside its place and renamed. Returns 0, or an exit status after printing the reason. */
int output_write(const char *path, const void *data, size_t len);

/* Makes the folders above `path` that are missing. Returns 0, or an errno of the folder that *out_failed then names. */
int output_make_folders(const char *path, mode_t mode, char out_failed[PATH_MAX]);

/* True for what stays where it is and gets the bytes: a device, a pipe, what a link leads to; and for a
 * folder, which refuses them. */
bool output_goes_in_place(const char *path);

/* Writes the default name of an output: "k.cubin" for "dir/k.cu", in the working folder. False if it is too
 * long. */
bool output_name(const char *file, const char *ending, char out[PATH_MAX]);

#endif
