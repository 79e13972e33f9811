/* SPDX-License-Identifier: Apache-2.0 */
/*
 * npy.h - tensors in files: NumPy's .npy, or the elements alone.
 *
 * Source: NEP 1, "A Simple File Format for NumPy Arrays". Versions 1 to 3 are read, 1 is written.
 *
 *     "\x93NUMPY", version (2 bytes), length of the header (2 bytes, from version 2 on 4), header, elements
 *     header: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
 *
 * Thread: any; no state. Memory: borrows all.
 */
#ifndef WARM_KERNELS_EXEC_NPY_H
#define WARM_KERNELS_EXEC_NPY_H

#include "kernels/program/program.h"

/* Finds the elements of a tensor of this type in a file's bytes. Sets *out to a view of the bytes. Errors:
 * INVALID for another type or length, with both; MALFORMED. */
int npy_read(const void *data, size_t len, const struct tensor *type, struct view *out,
             struct err *e);
/* Appends a tensor as a .npy file; check writer->failed. */
void npy_write(const struct tensor *type, const void *elements, struct writer *out);

/* Writes a type as StableHLO does, "2x3xf32", cut off to fit. */
void npy_type_text(const struct tensor *type, char *out, size_t cap);

#endif
