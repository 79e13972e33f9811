/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pieces.h - MLIR text that is read while it is being made, and never held whole.
 *
 *     bytecode ──next──▶ "%0 = \"stablehlo.add\"(%0, %1) : ..." ──▶ mlir.c ──▶ graph
 *         ▲                                                                      │
 *         └───────────── which value it became, and "the same again" ────────────┘
 *
 * A piece ends behind an operation or the label of a block. It lives until the next is asked for; what the reader needs longer (names, attributes,
 * constants) it copies. While `next` runs, the reader stands behind the last piece, and who makes the
 * text may put an operation into the graph itself that is like one that was read, between two others of
 * a block.
 *
 * Thread: one at a time. Memory: the reader's, as of a text, and the copies.
 */
#ifndef WARM_KEYGEN_MLIR_PIECES_H
#define WARM_KEYGEN_MLIR_PIECES_H

#include "keygen/canon/forms.h"
#include "keygen/graph/graph.h"

struct mlir;

struct mlir_pieces {
    /* The next piece; false after the last. */
    bool (*next)(struct mlir_pieces *pieces, struct view *out);
    bool broken;         /* there is no next piece, but the text is not complete */
    bool many_processes; /* see canon_input */
    size_t about;        /* bytes in all, for sizes */
    struct mlir *reader; /* NULL but while it reads */
};

/* As form_mlir of all pieces together. A text that breaks off is MALFORMED. */
int form_mlir_pieces(struct mlir_pieces *pieces, struct form *out, struct err *e);

/* For `next`; values are the graph's. */

/* From the next piece on, "%0", "%1", ... are these values. */
void mlir_piece_names(struct mlir *reader, const uint32_t *values, uint32_t n);
/* The value that "%n" is after the last piece, of several results the first; GRAPH_NONE if none. */
uint32_t mlir_piece_value(struct mlir *reader, uint32_t n);
/* If the last piece was one operation that may be repeated, its number; else 0. */
uint32_t mlir_piece_shape(const struct mlir *reader);
/* Puts such an operation, with these operands. False, and nothing happens, if they have other types or
 * numbers; else *out is its first result. */
bool mlir_piece_repeats(struct mlir *reader, uint32_t shape, const uint32_t *operands,
                        uint32_t n_operands, uint32_t n_results, uint32_t *out);

/* The types of values; values that are none have type 0. */
void mlir_piece_types(const struct mlir *reader, const uint32_t *values, uint32_t n,
                      uint32_t *out_types);
/* What the operation was that ended with the last piece. */
struct graph_op_shape mlir_piece_operation(const struct mlir *reader);

#define MLIR_PIECE_VALUES 64 /* of a region: arguments and results */

/* An operation with one region of one block, that was read before as pieces: begin, the operations of
 * the region, end. `op` is what mlir_piece_operation said, and all types are what they were. */
struct mlir_piece_region {
    struct graph_op_shape op;
    const uint32_t *results, *args; /* types */
    uint32_t n_args;
    uint32_t values[MLIR_PIECE_VALUES], n_values; /* the reader's: in the graph */
};
void mlir_piece_region_begin(struct mlir *reader, struct mlir_piece_region *region,
                             const uint32_t *operands);
/* As mlir_piece_repeats; each operand is its place among the region's values, arguments first. */
void mlir_piece_region_op(struct mlir *reader, struct mlir_piece_region *region, uint32_t shape,
                          const uint32_t *operands, uint32_t n_operands);
/* False without memory; else *out is the operation's first result. */
bool mlir_piece_region_end(struct mlir *reader, struct mlir_piece_region *region, uint32_t *out);

#endif
