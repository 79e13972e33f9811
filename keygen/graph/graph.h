/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph.h - a program of operations, as its canonical text and as regions.
 *
 * The readers of MLIR (mlir.c, bytecode/bytecode.c) call a builder while they read. For a key the builder
 * writes the canonical text at once, line by line, and keeps only the types of the values that can
 * still be named (graph/write.c). For regions it keeps the lines (graph/regions.c). What it is told:
 *
 *     module ── dictionary
 *       ├── operations of the module's own level (a mesh, a global)
 *       └── functions: symbol, public or not, dictionary, arguments, results
 *             └── operations: name, operands, dictionary, result types
 *                   └── regions ── blocks: label, arguments, operations (and so on)
 *
 * Everything is a number: a `type`, a `name` of an operation, a `symbol` and a `dict` are interned
 * texts; a `value` is an argument of a function or block, or a result of an operation.
 *
 * The text has everything in the order of the program. Canonical about it are the names (values,
 * symbols and channels are numbered in the order in which the text has them first) and the order of the entries of
 * a dictionary. KEYS.md, section 2, is its specification.
 *
 * Errors: a builder call cannot fail; the first one that runs out of memory marks the graph, later
 * ones do nothing, and graph_end says NOMEM. Numbers given while marked are 0 and harmless. Nothing
 * recurses; nesting costs heap.
 *
 * Thread: one at a time for a graph; no other state.
 * Memory: a graph owns all that it holds, except that texts given to graph_dict_borrow must live,
 * where they are, until graph_free.
 */
#ifndef WARM_KEYGEN_GRAPH_GRAPH_H
#define WARM_KEYGEN_GRAPH_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keygen/canon/canon.h"
#include "keygen/canon/forms.h"

struct graph;

#define GRAPH_NONE UINT32_MAX /* no value */

/* A graph that writes to `out` what it asks for: the text, or regions. `domain` names the kind and
 * version of the form, "mlir/13"; it is static memory. NULL if there is no memory. */
struct graph *graph_new(const char *domain, struct form *out);
void graph_free(struct graph *g);
/* True once memory has run out. */
bool graph_failed(const struct graph *g);
/* The program is complete: ends the text, or gives the regions. NOMEM. */
int graph_end(struct graph *g, struct err *e);

/* ---- interned texts ---- */

/* Texts are not looked into: a reader canonicalizes the spelling of a type before it gives it. */
uint32_t graph_type(struct graph *g, const char *text, size_t len);
/* `is_pure`: the operation depends on its operands alone and has no effect. For regions only. */
uint32_t graph_opname(struct graph *g, const char *text, size_t len, bool is_pure);
uint32_t graph_symbol(struct graph *g, const char *name, size_t len);
struct view graph_type_text(const struct graph *g, uint32_t type);
struct view graph_symbol_text(const struct graph *g, uint32_t symbol);
/* Behind the texts of n types, with ", " between them, if `text` begins with them and ends there or
 * goes on with ',' or ')'; else NULL. */
const char *graph_types_at(const struct graph *g, const uint32_t *types, uint32_t n,
                           const char *text, const char *end);
/* A copy that lives as long as the graph; NULL without memory. */
const char *graph_keep(struct graph *g, const char *text, size_t len);

/* The module defines the symbol, and only the module can name it: its name does not count, unless it
 * begins with "xla.". graph_func_begin says so of private functions. */
void graph_symbol_private(struct graph *g, uint32_t symbol);
/* The name counts all the same: it stands in a type or a string. */
void graph_symbol_keep(struct graph *g, uint32_t symbol);

/* ---- dictionaries: names and the canonical text of their values ---- */

/* Begin, then for each entry one key and any number of pieces of its value, then end, which sorts by
 * key and gives a number that is equal for equal dictionaries. 0 is the empty dictionary. An entry
 * whose value has no piece is a unit attribute. Only one dictionary is open at a time. A key may come
 * twice; both entries count. */
void graph_dict_begin(struct graph *g);
void graph_dict_key(struct graph *g, const char *name, size_t len);
void graph_dict_text(struct graph *g, const char *text, size_t len);
/* A text of the value in memory that outlives the graph: not copied if it is as large as this. It
 * must be the whole value, or its last piece. */
#define GRAPH_BORROWED 4096
void graph_dict_borrow(struct graph *g, const char *text, size_t len);
/* "@name" in a value: the symbol's number is written in its place. */
void graph_dict_symbol(struct graph *g, uint32_t symbol);
/* The number of a channel, above 0: the text has another one, by first mention. */
void graph_dict_channel(struct graph *g, uint64_t channel);
/* The last entry: the fixed text of its value so far, and taking it back. */
struct view graph_dict_last(const struct graph *g);
void graph_dict_drop(struct graph *g);
uint32_t graph_dict_end(struct graph *g);

/* ---- the module and its functions ---- */

void graph_module_dict(struct graph *g, uint32_t dict);

/* Begin, arguments, results, operations, end; the dictionary before the end. A function without
 * operations is a declaration. Operations outside of any function belong to the module. */
void graph_func_begin(struct graph *g, uint32_t symbol, bool is_public);
uint32_t graph_func_arg(struct graph *g, uint32_t type, uint32_t dict); /* gives the value */
void graph_func_result(struct graph *g, uint32_t type, uint32_t dict);
void graph_func_dict(struct graph *g, uint32_t dict);
/* At its end the function's values are gone: numbers of values are given again. */
void graph_func_end(struct graph *g);

/* ---- operations ---- */

/* Begin, then operands, regions and results, each in their order, then end. Operations nest: those
 * that are begun between graph_region_begin and graph_region_end are inside the region. The operands
 * come before the first region. An operand is a value that was given before. */
void graph_op_begin(struct graph *g, uint32_t opname);
void graph_op_dict(struct graph *g, uint32_t dict);
void graph_op_operand(struct graph *g, uint32_t value);
void graph_op_result(struct graph *g, uint32_t type);
/* Gives the first result; the others follow it by one. GRAPH_NONE if it has none. */
uint32_t graph_op_end(struct graph *g);
/* Takes back an operation that was begun and has no regions yet. */
void graph_op_drop(struct graph *g);

/* A whole operation without regions, at once: what it says apart from which operands it has. */
struct graph_op_shape {
    uint32_t name, dict;
    uint32_t n_operands, n_results;
};
/* What the open operation is so far. */
struct graph_op_shape graph_op_shape(const struct graph *g);
/* Its operands so far; NULL if it has none. Lives until the next builder call. */
const uint32_t *graph_op_operands(const struct graph *g);
/* The number of a shape with these types of results. */
uint32_t graph_shape(struct graph *g, const struct graph_op_shape *shape, const uint32_t *results);
/* Puts an operation of a shape. `types`: what its operands must have, or NULL. False, and nothing
 * happens, if they have others; else as graph_op_end, with the first result in *out. */
bool graph_op_of_shape(struct graph *g, uint32_t shape, const uint32_t *types,
                       const uint32_t *operands, uint32_t *out);

/* Every region that has blocks needs one graph_block_begin for each; in a function the first block is
 * begun by graph_func_begin. `label` is a number that is equal for equal programs (successors go into
 * a dictionary). */
void graph_region_begin(struct graph *g);
void graph_block_begin(struct graph *g, uint32_t label);
uint32_t graph_block_arg(struct graph *g, uint32_t type); /* gives the value */
void graph_region_end(struct graph *g);

/* 0 for a number that is no value. */
uint32_t graph_value_type(const struct graph *g, uint32_t value);
/* Values that can be named: each number below it is one. */
uint32_t graph_n_values(const struct graph *g);

#endif
