/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk.h - the inside of the walk over the operations of bytecode.
 *
 *   bytecode/walk.c     the walk: regions, values, operations as pieces of text
 *   bytecode/repeat.c   operations that say what earlier ones did
 *
 * Thread: one at a time. Memory: 4 bytes for each value of the function at hand; what was remembered
 * of each different operation.
 */
#ifndef WARM_KEYGEN_BYTECODE_WALK_H
#define WARM_KEYGEN_BYTECODE_WALK_H

#include "keygen/bytecode/bytecode.h"
#include "keygen/mlir/pieces.h"

#define REPEATED_MAX 32 /* operands, and results, of an operation that is remembered */
#define BODY_MAX 8      /* operations, and arguments, of a region that is remembered */
#define LIST_MAX 320    /* numbers that say all of an operation; a longer one is not remembered */

/* A region being walked, and of the operation that it belongs to what is printed after it. */
struct frame {
    struct reader r;       /* of an isolated region its own section */
    uint64_t regions_left; /* after the one at hand */
    uint64_t blocks_left, ops_left;
    bool own_section, in_function;
    bool begun;             /* the block at hand has an operation */
    uint32_t scope;         /* where the values of the isolated scope begin */
    uint32_t values_before; /* values to go back to at the end of the region */
    uint32_t next_value, end_value;
    uint32_t first_block, next_block; /* labels: of the region's first, of the next to come */
    uint64_t attrs;    /* number + 1 of the dictionary to print after the regions, or 0 */
    uint32_t types_at; /* into `types`: operands, then results */
    uint32_t n_operands, n_results;
    uint32_t results; /* its first result */
};

struct numbers {
    uint32_t *at;
    uint32_t n, cap;
};

/* One operation as it is encoded. */
struct encoded {
    const struct bytecode_opname *name;
    uint8_t mask;
    bool isolated;
    uint64_t attrs, properties, n_regions; /* attrs, properties: number + 1; 0: none */
    struct numbers *results;               /* types */
    struct numbers *operands;              /* numbers of values; resolved: in the graph */
    struct reader successors;              /* at its first number */
    uint64_t n_successors;
};

/* All that an operation says but the values of its operands. */
struct op_list {
    uint32_t at[LIST_MAX], n; /* n: 0 if it is not to be remembered */
};

/* An operation that was read, and what is remembered of it. */
struct known_op {
    uint64_t hash;
    uint32_t list, n;  /* into `lists`; what makes one with a region stands behind the list */
    uint32_t shape;    /* of mlir_piece_repeats; 0: it has a region */
    uint32_t text_len; /* bytes that it was as text */
};

/* An operation with a region that is being read for the first time. */
struct capture {
    uint32_t
        frame;  /* number of frames with that of its region; 0: there is none, or it has ended */
    bool ended; /* with the piece at hand */
    struct op_list list;
    uint32_t shapes[BODY_MAX], n_shapes;
    uint32_t args[BODY_MAX], n_args; /* types, in the graph */
    uint32_t results, n_results;     /* values */
    size_t room;                     /* before its text */
};

struct walk {
    struct bytecode *b;
    struct mlir_pieces *pieces;
    uint32_t *values; /* by number: its number in the graph, GRAPH_NONE before its definition */
    struct frame *frames;
    uint32_t *types;
    uint32_t n_values, n_frames, n_types, cap_values, cap_frames, cap_types;
    struct numbers numbers[2][2]; /* of the operation at hand and of one in its region */
    struct numbers
        value_types;  /* by type in the graph: a type of the bytecode that became it, + 1 */
    uint32_t n_named; /* operands that the piece at hand names */
    uint32_t next_block;
    uint32_t defined;             /* the first value that the piece at hand defines; */
    struct numbers defined_types; /* of each, its type */
    bool are_args;                /* as block arguments, each under a name; else results of one */
    bool opened;                  /* the label of a region's first block belongs to the piece */
    size_t room;                  /* bytes that the rest of the text may have */
    bool no_memory;

    struct op_list list; /* of the operation that the piece at hand is */
    struct capture capture;
    struct known_op *known;
    uint32_t *lists, *slots; /* slots: by hash, known + 1; 0: empty */
    uint32_t n_known, cap_known, n_lists, cap_lists, mask;
};

static inline struct frame *walk_top(const struct walk *w) { return &w->frames[w->n_frames - 1]; }

/* The number in the graph of a value, GRAPH_NONE if it is not defined; and defining one. */
static inline uint32_t walk_value(const struct walk *w, uint32_t value) { return w->values[value]; }
static inline void walk_define(struct walk *w, uint32_t value, uint32_t graph)
{
    w->values[value] = graph;
}
/* Room for `need` entries; false without memory. `array` points to the pointer. */
bool walk_grow(struct walk *w, void *array, uint32_t need, uint32_t *cap, size_t size);
/* The next operation, into `numbers`; false, and the reading stops, if it is none. */
bool walk_take_op(struct walk *w, struct reader *r, struct numbers numbers[2], struct encoded *o);
/* Reads over how the uses of values were linked in the producer's memory. */
void walk_skip_use_lists(struct bytecode *b, struct reader *r, uint64_t n_values);
/* The type of an argument of a block, read with its location. */
uint64_t walk_take_argument(struct bytecode *b, struct reader *r);

/* ---- bytecode/repeat.c ---- */

/* Puts the operation at hand, whose operands are resolved and whose results begin at `results`, into the
 * graph if one like it was there before, and moves the walk behind its regions. Else w->list is what to
 * remember it by. */
bool repeat_op(struct walk *w, const struct encoded *o, uint32_t results);
/* The operation at hand, which did not repeat, is about to have its region read. */
void repeat_region_begins(struct walk *w, const struct encoded *o, uint32_t results);
/* The region of the frame on top ends. */
void repeat_region_ends(struct walk *w);
/* The last piece was read; the values that it defined are known. */
void repeat_remember(struct walk *w);
void repeat_close(struct walk *w);

#endif
