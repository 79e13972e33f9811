/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - the inside of a graph, for the files of this folder only.
 *
 *   texts.c     stores each text and each dictionary once
 *   graph.c     the builder: turns the calls of the readers into lines
 *   write.c     writes lines as canonical text and as hashed records
 *
 * A program is a sequence of lines. An operation without regions is one line; one with regions is
 * several. Values get their numbers in the order of the lines:
 *
 *     %2 = stablehlo.add %0, %1 : type            LINE_OP
 *     stablehlo.while %2 (                        LINE_OPEN
 *       ^0 (%3 : type)                            LINE_BLOCK
 *       stablehlo.return %3                       LINE_OP
 *     | ^0 (%4 : type)                            LINE_NEXT: a block of another region
 *       ...
 *     ) {dictionary} : type = %7                  LINE_CLOSE
 *
 * graph.h defines the terms.
 *
 * Thread: one at a time for a graph. Memory: arrays that double.
 */
#ifndef WARM_KEYGEN_GRAPH_INTERNAL_H
#define WARM_KEYGEN_GRAPH_INTERNAL_H

#include <string.h>

#include "keygen/canon/slots.h"
#include "keygen/expect.h"
#include "keygen/graph/graph.h"
#include "keygen/vector.h"

#define NONE GRAPH_NONE

/* True if the reader keeps a promise of graph.h. A broken one marks the graph, so that it has no key. */
#define GRAPH_EXPECT(g, promise) (WARM_EXPECT(promise) || !((g)->failed = true))

struct text {
    const char *data;
    uint32_t number; /* in the hashed records, from 1; 0: it is not there yet */
    uint32_t len;
    uint32_t flags; /* of a symbol: SYMBOL_* */
};

#define SYMBOL_PRIVATE 1u /* only the module can name it */
#define SYMBOL_KEPT 2u    /* its name counts all the same */

struct intern {
    VECTOR(struct text) items;
    struct slots slots;
};

enum hole_kind { HOLE_SYMBOL, HOLE_CHANNEL, HOLE_BORROW };

/* See "hole" in graph.h. The text of the dictionary leaves it out. */
struct hole {
    uint32_t at; /* offset in the text */
    enum hole_kind kind;
    union {
        uint32_t symbol;
        uint64_t channel;
        struct view borrow;
    } is;
};

struct dict {
    const char *text; /* "{a = 1, b}", the holes left out */
    uint32_t len;
    uint32_t holes, n_holes;
    uint32_t number; /* as that of a text */
};

enum line_kind {
    LINE_OP,
    LINE_OPEN,       /* an operation, up to its regions */
    LINE_BLOCK,      /* the head of a block */
    LINE_NEXT,       /* the head of the first block of a second or later region */
    LINE_EMPTY,      /* a region without blocks */
    LINE_NEXT_EMPTY, /* the same, for a second or later region */
    LINE_CLOSE,      /* the end of an operation with regions */
};

struct shape {
    enum line_kind kind;
    uint32_t name; /* of an operation; the label of a block */
    uint32_t dict;
    uint32_t n_operands;
    uint32_t n_types; /* of results or of a block's arguments */
    uint32_t types;   /* slice of graph.shape_types */
    uint32_t number;  /* in the hashed records, from 1; 0: it is not there yet */
};

struct entry { /* of the open dictionary, offsets in `draft` */
    uint32_t key, key_len, value, end, holes, n_holes;
    bool unit;
};

struct frame { /* an open operation */
    uint32_t name, dict;
    uint32_t operands, results; /* first in the scratch stacks */
    bool opened;                /* LINE_OPEN was put */
};

struct func {
    uint32_t symbol, dict;
    bool is_public, defined;
    uint32_t values, n_args;     /* the first of its values, which are its arguments */
    uint32_t arg_dicts;          /* slice of graph.arg_dicts */
    uint32_t results, n_results; /* slice of graph.results: type, dictionary */
};

/* Writes lines to a form. */
struct printer {
    struct graph *g;
    struct form *out;
    uint32_t n_kinds, n_texts;   /* shapes; names, dictionaries and types, that have a number */
    uint32_t next;               /* the number of the next value */
    uint32_t depth;              /* functions and regions that are open */
    VECTOR(uint32_t) symbols;    /* those with a number, in the order of their numbers */
    VECTOR(uint32_t) symbol_num; /* by symbol; NONE: it has none */
    VECTOR(uint64_t) channels;   /* those with a number; numbers begin at 1 */
    struct writer scratch;
};

struct graph {
    bool failed;
    struct intern types, names, symbols;
    VECTOR(struct dict) dicts;
    struct slots dict_slots;
    VECTOR(struct hole) holes;

    struct arena_page *pages;
    char *page_at, *page_end;

    VECTOR(struct shape) shapes;
    VECTOR(uint32_t) shape_types;
    struct slots shape_slots;

    VECTOR(uint32_t) values; /* by value: its type */
    struct func func;        /* the open one */
    VECTOR(uint32_t) arg_dicts, results;
    bool in_func, head_put;
    uint32_t module_dict;

    VECTOR(struct frame) frames;
    VECTOR(uint32_t) stack_operands, stack_results;
    bool region_empty; /* the current region has no block yet */
    bool block_open;   /* the current block's head has not been written yet */
    enum line_kind block_kind;
    uint32_t block_label, block_args;

    VECTOR(char) draft;
    VECTOR(struct entry) entries;
    VECTOR(struct hole) draft_holes;

    struct printer printer;
};

/* ---- graph/texts.c ---- */

/* Prepares the tables of a new graph. */
void graph_texts_begin(struct graph *g);
/* Frees all texts and dictionaries. */
void graph_texts_free(struct graph *g);
/* ---- graph/write.c ---- */

/* Prepares a printer, and begins the form of `out` under a domain. */
void printer_init(struct printer *p, struct graph *g, const char *domain, struct form *out);
/* Frees the printer's tables. */
void printer_close(struct printer *p);
/* Writes a line. Its results, or the arguments of its block, get the next numbers. */
void printer_line(struct printer *p, uint32_t shape, const uint32_t *operands);
/* Writes the head of a function, "func public @#0 (%0 : type {dict}) -> (type {dict}) {". */
void printer_func_begin(struct printer *p, const struct func *f);
/* Writes the end of a function, "} {dict}". */
void printer_func_end(struct printer *p, const struct func *f);
/* Writes the module's dictionary, and the names of the symbols whose names count. */
void printer_module(struct printer *p, uint32_t dict);

/* Returns hash `h` extended by `x`. */
static inline uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 29;
}

/* Returns how many results a line of this shape defines. */
static inline uint32_t shape_results(const struct shape *s)
{
    return s->kind == LINE_OP || s->kind == LINE_CLOSE ? s->n_types : 0;
}

#endif
