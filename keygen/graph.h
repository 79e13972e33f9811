/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph.h - a program as a graph of operations, and its canonical text.
 *
 * The readers (mlir.c, hlo.c, mlir_bytecode.c) fill a graph in one pass; graph_write turns it into the
 * canonical text, graph_regions into regions. What a graph holds:
 *
 *     module ── dictionary
 *       ├── operations of the module's own level (a mesh, a global), in order
 *       └── functions: symbol, public or not, dictionary, results
 *             └── arguments, then operations
 *                   operation: name, traits, dictionary, operands, result types
 *                     └── regions ── blocks: label, arguments, operations (and so on)
 *
 * Everything is a number: a `type`, a `name` of an operation, a `symbol` and a `dict` are interned
 * texts; a `value` is an argument of a function or block, or a result of an operation.
 *
 * What is canonical about the text that comes out (KEYS.md argues each):
 *   - values, private symbols, channels: numbered in the order in which the text names them;
 *   - an operation stands where the walk from the block's last operation and from those with an
 *     effect first needs it, so the order of independent operations in the input is gone, and what
 *     nothing needs is gone too, but for calls; equal constants of one block are one;
 *   - the operands of an operation that commutes stand in an order that depends on their content;
 *   - calls of plain private functions are replaced by the function's operations;
 *   - where a region has one block, its label is how many values the operation's regions take from
 *     outside as they are written, constants apart;
 *   - dictionaries are sorted by name;
 *   - private functions that nothing refers to are gone; the name of the only public one is too.
 * In a program for several devices nothing commutes, calls stay, and more than calls is not dropped; where
 * each device runs it on numbers of its own, everything stays where it is, and so does all but constants
 * where matrix products may share an operand.
 *
 * Errors: a builder call cannot fail; the first one that runs out of memory marks the graph, the
 * later ones do nothing and graph_write says NOMEM. Numbers given while marked are 0 and harmless.
 * Nothing recurses; nesting costs heap.
 *
 * Thread: one at a time for a graph; no other state.
 * Memory: a graph owns all it holds, except that texts given to graph_dict_borrow must live, where they
 * are, until graph_free. At most 3 bytes for each byte of usual input.
 */
#ifndef WARM_KEYGEN_GRAPH_H
#define WARM_KEYGEN_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keygen/canon.h"
#include "keygen/forms.h"

struct graph;

/* What the canonical form may do with an operation. One of the first three, and flags. A reader
 * gives GRAPH_EFFECT to whatever it does not know. An operation with regions is as restricted as
 * the most restricted operation inside it. */
enum graph_trait {
    GRAPH_PURE = 0,     /* may be moved, and dropped if nothing uses it; constants merged */
    GRAPH_DISTINCT = 1, /* may be moved, and dropped if nothing uses it; never merged */
    GRAPH_EFFECT = 2,   /* stays, in the order that the input gives among its like */
    GRAPH_COMMUTES = 4, /* its first two operands may change places, bit for bit */
    GRAPH_CALL = 8,     /* calls the function of graph_op_callee: results are the function's */
    /* a sum, difference, product or quotient of real numbers: commutes, if at all, only if one of the
     * two is surely nothing that a compiler joins with its like: no product in a sum (GRAPH_SUM), no
     * exponential in a product; graph_commute.c */
    GRAPH_FUSES = 16,
    GRAPH_SUM = 32, /* a constant, or the sum of two operands: no product unless one of those is */
    GRAPH_MOVES = 64,   /* its result has the numbers of its first operand, moved */
    GRAPH_KEEPS = 1024, /* its result is no exponential unless an operand is one */
    GRAPH_CONSTANT = 256, /* its result is what its dictionary says */
    /* nobody can know its result before the program runs where that holds for all of its operands */
    GRAPH_LIVES = 4096,
    GRAPH_STAYS = 16384,   /* as a call does where nothing needs it, in a program for several devices */
    GRAPH_ALTERS = 32768,  /* its result is surely none of its operands as they are */
    GRAPH_DELICATE = 8192, /* a compiler may make sums of products of several of its operands */
    /* of the arguments of its region at most one of two is a product: the other is what was reduced so
     * far */
    GRAPH_REDUCES = 128,
};

#define GRAPH_NONE UINT32_MAX /* no value, no symbol */

/* The graph for an input of `input_len` bytes (a hint for sizes). NULL if there is no memory. */
struct graph *graph_new(size_t input_len);
void graph_free(struct graph *g);
/* True once memory has run out. */
bool graph_failed(const struct graph *g);

/* ---- interned texts ---- */

/* Names are not looked into: a reader canonicalizes the spelling of a type before it gives it. */
uint32_t graph_type(struct graph *g, const char *text, size_t len);
uint32_t graph_opname(struct graph *g, const char *text, size_t len, unsigned traits);
uint32_t graph_symbol(struct graph *g, const char *name, size_t len);
struct view graph_type_text(const struct graph *g, uint32_t type);
/* Behind the texts of n types, with ", " between them, if `text` begins with them and ends there or goes on
 * with ',' or ')'; else NULL. */
const char *graph_types_at(const struct graph *g, const uint32_t *types, uint32_t n,
                           const char *text, const char *end);
struct view graph_symbol_text(const struct graph *g, uint32_t symbol);
/* A copy that lives as long as the graph; NULL without memory. */
const char *graph_keep(struct graph *g, const char *text, size_t len);
unsigned graph_opname_traits(const struct graph *g, uint32_t opname);

/* Says that the module defines `symbol` and that nothing outside knows its name: it is numbered.
 * graph_func_begin does this for private functions. Other symbols keep their name. */
void graph_symbol_private(struct graph *g, uint32_t symbol);

/* ---- dictionaries: names and the canonical text of their values ---- */

/* Begin, then for each entry one key and any number of pieces of its value, then end, which sorts
 * by key and gives a number that is equal for equal dictionaries. 0 is the empty dictionary. An
 * entry whose value has no piece is a unit attribute. Only one dictionary is open at a time.
 * A key may come twice; both entries count. */
void graph_dict_begin(struct graph *g);
void graph_dict_key(struct graph *g, const char *name, size_t len);
void graph_dict_text(struct graph *g, const char *text, size_t len);
/* A text of the value that lies in memory that outlives the graph: not copied if it is as large as this.
 * It must be the whole value, or its last piece. */
#define GRAPH_BORROWED 4096
void graph_dict_borrow(struct graph *g, const char *text, size_t len);
/* "@name" in a value: the symbol's number or name is written in its place. */
void graph_dict_symbol(struct graph *g, uint32_t symbol);
/* The id of a channel in a value: numbered by first use if above 0, else kept. */
void graph_dict_channel(struct graph *g, int64_t channel);
/* The last entry: the fixed text of its value so far, and taking it back. */
struct view graph_dict_last(const struct graph *g);
void graph_dict_drop(struct graph *g);
uint32_t graph_dict_end(struct graph *g);

/* ---- the module and its functions ---- */

/* What the module says of itself; and what of that holds for each region of it, of which the rest says
 * nothing (where the public function's parameters lie): all of it, unless the second call says so. */
void graph_module_dict(struct graph *g, uint32_t dict);
void graph_module_regions_dict(struct graph *g, uint32_t dict);

/* Says that compilers of this kind compute with constants at another time where a module has a call:
 * KEYS.md 2.2. */
void graph_folds_at_calls(struct graph *g);
/* Says that the compiler is given operations that nothing needs, too: KEYS.md 2.2. */
void graph_keeps_unused(struct graph *g);

/* Begin, arguments and results in order, operations (the last of them the return), end. A function
 * without operations is a declaration. Operations outside of any function belong to the module. */
void graph_func_begin(struct graph *g, uint32_t symbol, bool is_public);
uint32_t graph_func_arg(struct graph *g, uint32_t type, uint32_t dict); /* gives the value */
void graph_func_result(struct graph *g, uint32_t type, uint32_t dict);
void graph_func_dict(struct graph *g, uint32_t dict);
/* Another block of the function's body: see graph_block_begin. */
void graph_func_end(struct graph *g);

/* ---- operations ---- */

/* Begin, then operands, results and regions each in their order, then end. Operations nest: those
 * that are begun between graph_region_begin and graph_region_end are inside the region. An operand
 * is a value that was given before, in the same region or around it. */
void graph_op_begin(struct graph *g, uint32_t opname);
void graph_op_traits(struct graph *g, unsigned traits); /* in place of the name's own */
void graph_op_dict(struct graph *g, uint32_t dict);
void graph_op_callee(struct graph *g, uint32_t symbol); /* of a GRAPH_CALL; not in the dictionary */
void graph_op_operand(struct graph *g, uint32_t value);
void graph_op_result(struct graph *g, uint32_t type);
/* Gives the first result; the others follow it by one. GRAPH_NONE if it has none. */
uint32_t graph_op_end(struct graph *g);
/* Takes back an operation that was begun and has no regions yet. */
void graph_op_drop(struct graph *g);

/* A whole operation without regions, at once: what it says apart from which operands it has. */
struct graph_op_shape {
    uint32_t name, dict, callee; /* callee: NONE unless it is a GRAPH_CALL */
    unsigned traits;
    uint32_t n_operands, n_results;
};
/* What the open operation is so far. */
struct graph_op_shape graph_op_shape(const struct graph *g);
/* Its operands so far; NULL if it has none. Lives until the next builder call. */
const uint32_t *graph_op_operands(const struct graph *g);
/* `types`: of the operands, then of the results. False, and nothing happens, if the operands have
 * other types; else as graph_op_end, with the first result in *out. */
bool graph_op_repeat(struct graph *g, const struct graph_op_shape *shape, const uint32_t *types,
                     const uint32_t *operands, uint32_t *out);
/* The number of a shape with these results, and graph_op_repeat of it; `types`: of the operands, or NULL if
 * they are what the operands have. */
uint32_t graph_shape(struct graph *g, const struct graph_op_shape *shape, const uint32_t *results);
bool graph_op_of_shape(struct graph *g, uint32_t shape, const uint32_t *types,
                       const uint32_t *operands, uint32_t *out);

/* The last operation of a region's only block is its result and is always kept. If a region or a
 * function has more than one block, all of its operations stay where they are. Every region needs
 * one graph_block_begin; in a function the first block is begun by graph_func_begin. `label` is a
 * number for the block that is equal for equal programs (successors go into a dictionary). */
void graph_region_begin(struct graph *g);
void graph_block_begin(struct graph *g, uint32_t label);
uint32_t graph_block_arg(struct graph *g, uint32_t type); /* gives the value */
void graph_region_end(struct graph *g);

uint32_t graph_value_type(const struct graph *g, uint32_t value);
void graph_value_types(const struct graph *g, const uint32_t *values, uint32_t n, uint32_t *types);
/* Values given so far: each number below it is a value. */
uint32_t graph_n_values(const struct graph *g);

/* ---- what comes out ---- */

/*
 * Writes the canonical text, or the regions, as `out` asks; the graph is used up and only good for
 * graph_free. `domain` names the kind and version of the form, e.g. "mlir/12".
 * Errors: NOMEM; MALFORMED if a function calls a function with other numbers of operands.
 */
int graph_write(struct graph *g, const char *domain, struct form *out, struct err *e);

#endif
