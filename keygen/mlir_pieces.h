/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlir_pieces.h - MLIR text that is read while it is being made, and never held whole.
 *
 *     bytecode ──next──▶ "%3 = \"stablehlo.add\"(%1, %2) : ..." ──▶ mlir.c ──▶ graph
 *
 * A piece ends behind an operation without regions, or behind the last one. It lives until the next is
 * asked for; what the reader needs longer (names, attributes, constants) it copies.
 *
 * Thread: one at a time. Memory: the reader's, as of a text, and the copies.
 */
#ifndef WARM_KEYGEN_MLIR_PIECES_H
#define WARM_KEYGEN_MLIR_PIECES_H

#include "keygen/forms.h"

struct mlir_pieces {
    /* The next piece; false after the last. */
    bool (*next)(struct mlir_pieces *pieces, struct view *out);
    bool broken;  /* there is no next piece, but the text is not complete */
    size_t about; /* bytes in all, for sizes */
};

/* As form_mlir of all pieces together. A text that breaks off is MALFORMED. */
int form_mlir_pieces(struct mlir_pieces *pieces, struct form *out, struct err *e);

#endif
