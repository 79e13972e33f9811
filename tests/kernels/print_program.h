/* SPDX-License-Identifier: Apache-2.0 */
/*
 * print_program.h - a program as text, to be read again, hashed and checked by others.
 *
 * Thread: any; no state. Memory: the caller's writer.
 */
#ifndef WARM_TESTS_KERNELS_PRINT_PROGRAM_H
#define WARM_TESTS_KERNELS_PRINT_PROGRAM_H

#include "kernels/program/program.h"

/* Appends the program as StableHLO in MLIR's generic text form, which keygen and StableHLO's tools read. */
void program_write(const struct program *p, struct writer *out);

#endif
