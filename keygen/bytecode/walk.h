/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk.h - the inside of the walk over the operations of bytecode.
 *
 *   walk.c     the walk: regions, values, operations as pieces of text
 *   repeat.c   operations that repeat earlier ones
 *
 * Terms
 *   piece     text of one operation, or of its beginning or end: mlir/pieces.h
 *   list      all that an operation says apart from the identity of its operands: repeat.c
 *   capture   an operation with a region, while it is read for the first time
 *
 * Thread: one at a time for a walk. Memory: 4 bytes for each value of the current function; a list for
 * each different operation.
 */
#ifndef WARM_KEYGEN_BYTECODE_WALK_H
#define WARM_KEYGEN_BYTECODE_WALK_H

#include "keygen/bytecode/bytecode.h"
#include "keygen/mlir/pieces.h"

#define REPEATED_MAX 32 /* operands, and results, of a remembered operation */
#define BODY_MAX 8      /* operations, and arguments, of a remembered region */
#define LIST_MAX 320    /* numbers of a list; a longer one is not remembered */

/* An open region, and the parts of its operation that are printed after it. */
struct frame {
    struct reader r;       /* an isolated region has a section of its own */
    uint64_t regions_left; /* after the current one */
    uint64_t blocks_left, ops_left;
    bool own_section, in_function;
    bool begun;             /* the current block has an operation */
    uint32_t scope;         /* first value of the isolated scope */
    uint32_t values_before; /* values before the region: the number at its end */
    uint32_t next_value, end_value;
    uint32_t first_block, next_block; /* labels: of the region's first block, of the next one */
    uint64_t attrs;    /* number + 1 of the dictionary that is printed after the regions, or 0 */
    uint32_t types_at; /* into `types`: operands, then results */
    uint32_t n_operands, n_results;
    uint32_t results; /* its first result */
};

struct numbers {
    uint32_t *at;
    uint32_t n, cap;
};

/* An operation, decoded. */
struct encoded {
    const struct bytecode_opname *name;
    uint8_t mask;
    bool isolated;
    uint64_t attrs, properties, n_regions; /* attrs, properties: number + 1; 0: none */
    struct numbers *results;               /* types */
    struct numbers *operands; /* numbers of values; after resolving: values of the graph */
    struct reader successors; /* at its first number */
    uint64_t n_successors;
};

/* See "list" above. */
struct op_list {
    uint32_t at[LIST_MAX], n; /* n: 0 if it cannot be remembered */
};

/* A remembered operation. */
struct known_op {
    uint64_t hash;
    uint32_t list, n;  /* its list in `lists`; the parts of its region follow behind */
    uint32_t shape;    /* for mlir_piece_repeats; 0: it has a region */
    uint32_t text_len; /* bytes of its text */
};

/* See "capture" above. */
struct capture {
    uint32_t frame; /* number of frames including that of its region; 0: none, or it has ended */
    bool ended;     /* with the current piece */
    struct op_list list;
    uint32_t shapes[BODY_MAX], n_shapes;
    uint32_t args[BODY_MAX], n_args; /* types, in the graph */
    uint32_t results, n_results;     /* values */
    size_t room;                     /* before its text */
};

struct walk {
    struct bytecode *b;
    struct mlir_pieces *pieces;
    uint32_t *values; /* by number: the value in the graph, GRAPH_NONE before its definition */
    struct frame *frames;
    uint32_t *types;
    uint32_t n_values, n_frames, n_types, cap_values, cap_frames, cap_types;
    struct numbers numbers[2][2]; /* of the current operation, and of one in its region */
    struct numbers value_types;   /* by type in the graph: an equal type of the bytecode, + 1 */
    uint32_t n_named;             /* operands of the current piece */
    uint32_t next_block;
    uint32_t defined;             /* the first value that the current piece defines */
    struct numbers defined_types; /* of each, its type */
    bool are_args; /* block arguments, each with a name; else results of one operation */
    bool opened;   /* the label of a region's first block belongs to this piece */
    size_t room;   /* bytes left for the rest of the text */
    bool no_memory;

    struct op_list list; /* of the operation that the current piece is */
    struct capture capture;
    struct known_op *known;
    uint32_t *lists, *slots; /* slots: by hash, known + 1; 0: empty */
    uint32_t n_known, cap_known, n_lists, cap_lists, mask;
};

/* Returns the topmost frame. */
static inline struct frame *walk_top(const struct walk *w) { return &w->frames[w->n_frames - 1]; }

/* Returns the value in the graph, GRAPH_NONE if it is not defined. */
static inline uint32_t walk_value(const struct walk *w, uint32_t value) { return w->values[value]; }
/* Sets the value in the graph. */
static inline void walk_define(struct walk *w, uint32_t value, uint32_t graph)
{
    w->values[value] = graph;
}
/* Makes room for `need` entries; false without memory. `array` points to the pointer. */
bool walk_grow(struct walk *w, void *array, uint32_t need, uint32_t *cap, size_t size);
/* Takes the next operation into `numbers`. False, and the reading stops, if there is none. */
bool walk_take_op(struct walk *w, struct reader *r, struct numbers numbers[2], struct encoded *o);
/* Skips the order of each value's uses. It has no meaning for the program. */
void walk_skip_use_lists(struct bytecode *b, struct reader *r, uint64_t n_values);
/* Takes an argument of a block with its location, and returns its type. */
uint64_t walk_take_argument(struct bytecode *b, struct reader *r);

/* ---- bytecode/repeat.c ---- */

/* Adds the current operation to the graph if an equal one was there before, and moves the walk behind
 * its regions. Its operands are resolved, its results begin at `results`. If false, w->list is set. */
bool repeat_op(struct walk *w, const struct encoded *o, uint32_t results);
/* Notes that the region of the current operation, which did not repeat, is about to be read. */
void repeat_region_begins(struct walk *w, const struct encoded *o, uint32_t results);
/* Notes that the region of the topmost frame ends. */
void repeat_region_ends(struct walk *w);
/* Remembers the operation of the last piece. Its values are in the graph now. */
void repeat_remember(struct walk *w);
/* Frees the lists. */
void repeat_close(struct walk *w);

#endif
