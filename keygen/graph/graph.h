/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph.h - a program of operations, as its canonical text.
 *
 * The readers of MLIR (mlir/mlir.c, bytecode/bytecode.c) call this builder while they read. The
 * builder writes the canonical text at once, line by line, and keeps only the types of visible values
 * (graph/write.c). A program consists of:
 *
 *     module ── dictionary
 *       ├── operations of the module's own level (a mesh, a global)
 *       └── functions: symbol, public or not, dictionary, arguments, results
 *             └── operations: name, operands, dictionary, result types
 *                   └── regions ── blocks: label, arguments, operations (and so on)
 *
 * Terms
 *   type, name, symbol, dict   the number of an interned text; equal texts have equal numbers. A name
 *                              is that of an operation
 *   value     the number of an argument of a function or block, or of an operation's result
 *   line      an operation, its opening or closing, or the head of a block: graph/internal.h draws it
 *   shape     a line without its operands: name, dictionary, counts and types
 *   hole      a place in a dictionary's text at which a symbol, a channel or a borrowed text is written
 *   region    a list of blocks inside of an operation
 *
 * The text keeps the order of the program. Two things in it are canonical. Values, symbols and
 * channels are numbered by their first mention, and the entries of a dictionary are sorted.
 * KEYS.md, section 2, is its specification.
 *
 * Errors: a builder call cannot fail. The first one that runs out of memory marks the graph; later
 * ones do nothing, and graph_end returns NOMEM. Numbers returned by a marked graph are 0 and
 * harmless. Nothing recurses; nesting costs heap.
 *
 * Thread: one at a time for a graph; no other state.
 * Memory: a graph owns everything that it holds. Only a text for graph_dict_borrow stays the caller's:
 * it must not move or change before graph_free.
 */
#ifndef WARM_KEYGEN_GRAPH_GRAPH_H
#define WARM_KEYGEN_GRAPH_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keygen/canon/canon.h"
#include "keygen/canon/form.h"

struct graph;

#define GRAPH_NONE UINT32_MAX /* no value */

/* Returns a new graph that writes its text to `out`. `domain` is the kind and version of the form,
 * DOMAIN_MLIR. NULL without memory. */
struct graph *graph_new(const char *domain, struct form *out);
/* Frees a graph and all its texts. NULL is fine. */
void graph_free(struct graph *g);
/* True after memory has run out. */
bool graph_failed(const struct graph *g);
/* Ends the text of a complete program. Error: NOMEM. */
int graph_end(struct graph *g, struct err *e);

/* ---- interned texts ---- */

/* Returns the number of a type. The caller has already brought its spelling into canonical form. */
uint32_t graph_type(struct graph *g, const char *text, size_t len);
/* Returns the number of an operation's name. */
uint32_t graph_opname(struct graph *g, const char *text, size_t len);
/* Returns the number of a symbol; `name` has no '@'. */
uint32_t graph_symbol(struct graph *g, const char *name, size_t len);
/* Returns the text of a type. It lives as long as the graph. */
struct view graph_type_text(const struct graph *g, uint32_t type);
/* Returns the name of a symbol. It lives as long as the graph. */
struct view graph_symbol_text(const struct graph *g, uint32_t symbol);
/* Compares `text` with the names of n types, with ", " between them. Returns the place behind them if
 * they are all there, and ',' or ')' or the end follows; else NULL. */
const char *graph_types_at(const struct graph *g, const uint32_t *types, uint32_t n,
                           const char *text, const char *end);
/* Copies a text for the life of the graph. NULL without memory. */
const char *graph_keep(struct graph *g, const char *text, size_t len);

/* Marks a symbol that this module defines and that no other can name. Its name does not count, unless
 * it begins with "xla.". graph_func_begin marks those of private functions. */
void graph_symbol_private(struct graph *g, uint32_t symbol);
/* Makes the name of a symbol count, because a type or a string contains it. */
void graph_symbol_keep(struct graph *g, uint32_t symbol);

/* ---- dictionaries: names and the canonical text of their values ---- */

/* To build a dictionary, call begin; for each entry call key once, then append its value in any number
 * of parts; then call end. Only one dictionary is open at a time. An entry without a value is a unit
 * attribute. A key may come twice; both entries count. */
/* Begins a dictionary. */
void graph_dict_begin(struct graph *g);
/* Begins an entry. */
void graph_dict_key(struct graph *g, const char *name, size_t len);
/* Appends text to the entry's value. */
void graph_dict_text(struct graph *g, const char *text, size_t len);
/* A borrowed text of this many bytes or more is not copied. */
#define GRAPH_BORROWED 4096
/* Appends a text that outlives the graph. It must be the whole value, or its last part. */
void graph_dict_borrow(struct graph *g, const char *text, size_t len);
/* Appends a symbol, "@name". The canonical text has its number instead. */
void graph_dict_symbol(struct graph *g, uint32_t symbol);
/* Appends a channel's number, above 0. The canonical text numbers channels by first mention. */
void graph_dict_channel(struct graph *g, uint64_t channel);
/* Returns the text of the last entry's value so far, without its holes. */
struct view graph_dict_last(const struct graph *g);
/* Removes the last entry. */
void graph_dict_drop(struct graph *g);
/* Ends the dictionary: sorts it by key, and returns its number. 0 is the empty dictionary. */
uint32_t graph_dict_end(struct graph *g);

/* ---- the module and its functions ---- */

/* Sets the module's dictionary. */
void graph_module_dict(struct graph *g, uint32_t dict);

/* To build a function, call begin, then arg, result and dict, then build its operations, then end. A
 * function without operations is a declaration. Operations outside of functions belong to the module. */
/* Begins a function, and its first block. */
void graph_func_begin(struct graph *g, uint32_t symbol, bool is_public);
/* Adds an argument and returns its value. */
uint32_t graph_func_arg(struct graph *g, uint32_t type, uint32_t dict);
/* Adds the type of a result. */
void graph_func_result(struct graph *g, uint32_t type, uint32_t dict);
/* Sets the function's dictionary. */
void graph_func_dict(struct graph *g, uint32_t dict);
/* Ends the function and all its values. Their numbers are used again. */
void graph_func_end(struct graph *g);

/* ---- operations ---- */

/* To build an operation, call begin, add its operands, regions and results in their order, then call
 * end. All operands come before the first region. Operations that begin between graph_region_begin and
 * graph_region_end are inside of the region. */
/* Begins an operation. */
void graph_op_begin(struct graph *g, uint32_t opname);
/* Sets the dictionary of the open operation. */
void graph_op_dict(struct graph *g, uint32_t dict);
/* Adds an operand: a value that the builder has returned. */
void graph_op_operand(struct graph *g, uint32_t value);
/* Adds the type of a result. */
void graph_op_result(struct graph *g, uint32_t type);
/* Ends the operation. Returns its first result, or GRAPH_NONE; the other results follow it by one. */
uint32_t graph_op_end(struct graph *g);
/* Discards the open operation, which has no region yet. */
void graph_op_drop(struct graph *g);

/* An operation without regions, as a whole, apart from its operands. */
struct graph_op_shape {
    uint32_t name, dict;
    uint32_t n_operands, n_results;
};
/* Returns the number of a shape whose results have these types. */
uint32_t graph_shape(struct graph *g, const struct graph_op_shape *shape, const uint32_t *results);
/* Adds an operation of this shape and sets *out to its first result, as graph_op_end returns it. False
 * without memory. */
bool graph_op_of_shape(struct graph *g, uint32_t shape, const uint32_t *operands, uint32_t *out);

/* Begins a region of the open operation. */
void graph_region_begin(struct graph *g);
/* Begins a block. A region calls it for each of its blocks, a function for each but its first. `label`
 * must be equal for equal programs, because dictionaries name successors by it. */
void graph_block_begin(struct graph *g, uint32_t label);
/* Adds an argument of the open block and returns its value. */
uint32_t graph_block_arg(struct graph *g, uint32_t type);
/* Ends the region. */
void graph_region_end(struct graph *g);

/* Returns the type of a value; 0 if it is none. */
uint32_t graph_value_type(const struct graph *g, uint32_t value);
/* Returns how many values are visible now. They are the numbers below it. */
uint32_t graph_n_values(const struct graph *g);

#endif
