/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reader.h - the reader of MLIR text, for a program of which only types and attributes are text.
 *
 *     bytecode ──┬── operations ──────────────────────────────────────▶ graph
 *                └── types, attributes as text ──▶ reader ── numbers ──▲
 *
 * The caller adds the operations to the graph itself. So one place decides which parts of types and
 * attributes the canonical form drops (KEYS.md 2.1), whatever the encoding of the program.
 *
 * Errors: a call cannot fail. The first error stops the reader; numbers that it returns from then on are
 * harmless, and mlir_reader_free returns the error.
 *
 * Thread: one at a time for a reader. Memory: it copies what it keeps of a text.
 */
#ifndef WARM_KEYGEN_MLIR_READER_H
#define WARM_KEYGEN_MLIR_READER_H

#include "keygen/canon/form.h"
#include "keygen/graph/graph.h"

struct mlir;

/* The parts of an operation in the generic form: empty, or each in its brackets. */
struct mlir_parts {
    struct view properties; /* "{a = 1}" */
    struct view attributes; /* the same, behind the regions */
    struct view successors; /* "[^1, ^2]": labels in the order of their first mention */
};

/* Returns a new reader that writes to `out`. NULL without memory. */
struct mlir *mlir_reader_new(bool many_processes, struct form *out, struct err *e);
/* Frees a reader. If the program is `complete`, ends its form. Errors: that of the reader; NOMEM. */
int mlir_reader_free(struct mlir *m, bool complete, struct form *out, struct err *e);
/* True after an error. */
bool mlir_reader_stopped(const struct mlir *m);
/* Returns the graph of the program. */
struct graph *mlir_reader_graph(const struct mlir *m);

/* Returns the reader's number of an operation. `name` is a full name, with a quote before and behind. */
uint32_t mlir_reader_op(struct mlir *m, struct view name);
/* Returns the graph's number of the operation's name. */
uint32_t mlir_reader_name(const struct mlir *m, uint32_t op);
/* Returns the number of a type. */
uint32_t mlir_reader_type(struct mlir *m, struct view text);
/* Returns the dictionary of an operation. */
uint32_t mlir_reader_dict(struct mlir *m, uint32_t op, const struct mlir_parts *parts);
/* Sets the module's dictionary. */
void mlir_reader_module(struct mlir *m, uint32_t op, const struct mlir_parts *parts);
/* Begins a function whose first block has arguments of these types; if it is a declaration, it has
 * none. Returns the value of the first. */
uint32_t mlir_reader_func(struct mlir *m, uint32_t op, const struct mlir_parts *parts,
                          const uint32_t *types, uint32_t n_args, bool is_declaration);

#endif
