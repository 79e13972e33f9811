/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pieces.h - the reader of MLIR text, fed with the text of bytecode as it is made.
 *
 *     bytecode ──next──▶ "%0 = \"stablehlo.add\"(%0, %1) : ..." ──▶ mlir.c ──▶ graph
 *         ▲                                                                      │
 *         └───────────── number of its value, "the same again" ──────────────────┘
 *
 * A piece is text that ends behind an operation or the label of a block. It stays valid until the next
 * one is requested; the reader copies names, attributes and constants that it needs longer. While
 * `next` runs, the producer may itself add to the graph an operation equal to one already read. It must
 * stand between two operations of the same block.
 *
 * Thread: one at a time. Memory: that of the reader, as for a text, and the copies.
 */
#ifndef WARM_KEYGEN_MLIR_PIECES_H
#define WARM_KEYGEN_MLIR_PIECES_H

#include "keygen/canon/form.h"
#include "keygen/graph/graph.h"

struct mlir;

struct mlir_pieces {
    /* Sets the next piece; false after the last. */
    bool (*next)(struct mlir_pieces *pieces, struct view *out);
    bool broken;         /* the pieces end too early: the text is not complete */
    bool many_processes; /* see canon_input */
    size_t about;        /* bytes of the whole text, roughly: sizes of tables depend on it */
    struct mlir *reader; /* set while it reads, else NULL */
};

/* Puts the form of all pieces together, as form_mlir does for one text. Error: MALFORMED if the text
 * breaks off. */
int form_mlir_pieces(struct mlir_pieces *pieces, struct form *out, struct err *e);

/* `next` may call the functions below; values are numbers of the graph. */

/* Sets the values that "%0", "%1", ... mean from the next piece on. */
void mlir_piece_names(struct mlir *reader, const uint32_t *values, uint32_t n);
/* Returns the value of "%n" after the last piece, of several results the first; GRAPH_NONE if none. */
uint32_t mlir_piece_value(struct mlir *reader, uint32_t n);
/* Returns a number for the last piece if it was one operation that may be repeated; else 0. */
uint32_t mlir_piece_shape(const struct mlir *reader);
/* Adds such an operation with these operands and sets *out to its first result. False, and nothing
 * changes, if the number or the types of operands or results differ. */
bool mlir_piece_repeats(struct mlir *reader, uint32_t shape, const uint32_t *operands,
                        uint32_t n_operands, uint32_t n_results, uint32_t *out);

/* Sets the types of n values; 0 if a number is none. */
void mlir_piece_types(const struct mlir *reader, const uint32_t *values, uint32_t n,
                      uint32_t *out_types);
/* Returns the shape of the operation that ended with the last piece. */
struct graph_op_shape mlir_piece_operation(const struct mlir *reader);

#define MLIR_PIECE_VALUES 64 /* arguments and results in a region */

/* An operation with one region of one block, equal to one that was read as pieces. The caller begins it,
 * adds the operations of the region, and ends it. `op` comes from mlir_piece_operation. */
struct mlir_piece_region {
    struct graph_op_shape op;
    const uint32_t *results, *args; /* types */
    uint32_t n_args;
    uint32_t values[MLIR_PIECE_VALUES], n_values; /* private: values of the region so far */
};
/* Begins such an operation. */
void mlir_piece_region_begin(struct mlir *reader, struct mlir_piece_region *region,
                             const uint32_t *operands);
/* Adds an operation to the region. An operand is its place among the region's values, of which the
 * arguments come first. */
void mlir_piece_region_op(struct mlir *reader, struct mlir_piece_region *region, uint32_t shape,
                          const uint32_t *operands, uint32_t n_operands);
/* Ends the operation and sets *out to its first result. False without memory. */
bool mlir_piece_region_end(struct mlir *reader, struct mlir_piece_region *region, uint32_t *out);

#endif
