/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph_internal.h - the inside of a graph, for graph*.c only.
 *
 *   graph_texts.c    texts and dictionaries, each once
 *   graph.c          appends what the readers give: one pass, nothing changed
 *   graph_funcs.c    which functions count, and which are inlined
 *   graph_canon.c    inlines, merges, and finds the order within each block
 *   graph_content.c  hashes of what values are
 *   graph_commute.c  what commutes for the sake of its operands
 *   graph_write.c    walks blocks in that order and writes the text
 *   graph_short.c    the text in short, which is what is hashed
 *   graph_regions.c  finds what repeats
 *
 * Operations stand in `ops` in the order in which they ended, so an operation follows all that is
 * inside its regions and, in valid input, all that its operands come from. A function's operations
 * are contiguous. graph_canon appends copies of inlined operations at the end.
 *
 * Thread: one at a time for a graph. Memory: arrays that double; their unused half is not resident.
 */
#ifndef WARM_KEYGEN_GRAPH_INTERNAL_H
#define WARM_KEYGEN_GRAPH_INTERNAL_H

#include "keygen/graph.h"
#include "keygen/vector.h"

struct text {
    const char *data;
    uint64_t hash; /* of the content alone: equal in every process */
    uint32_t len;
    uint32_t aux; /* of an operation's name: its traits */
};

struct intern {
    VECTOR(struct text) items;
    uint32_t *slots; /* item + 1, or 0; open addressing */
    uint32_t mask;
};

enum hole_kind { HOLE_SYMBOL, HOLE_CHANNEL, HOLE_BORROW };

/* Something that is written at a place of a dictionary's text but is not fixed text. */
struct hole {
    uint32_t at; /* offset in the text */
    enum hole_kind kind;
    union {
        uint32_t symbol;
        int64_t channel;
        struct view borrow;
    } is;
};

struct dict {
    const char *text; /* "{a = 1, b}", the holes left out */
    uint64_t hash;    /* of the content, numbers of symbols and channels left out */
    uint64_t slot;    /* of all of it: finds equal ones */
    uint32_t len;
    uint32_t holes, n_holes;
};

struct value {
    uint64_t hash; /* content, down to the arguments */
    uint32_t type;
    uint32_t def;  /* the operation, or DEF_ARG | block */
    uint32_t same; /* the value that stands for this one; itself if it stands for itself */
    uint32_t num;  /* its number in the text; while inlining, its copy */
};
#define DEF_ARG 0x80000000u

/* What an operation says apart from which operands it has. Those without regions that say the same have
 * one shape. */
struct shape {
    uint64_t hash; /* of the name and the dictionary */
    uint32_t name, dict;
    uint32_t n_operands, n_results;
    uint32_t types;      /* of the results: slice of graph.shape_types */
    uint32_t regions;    /* first region or NONE; of a call, the callee's symbol */
    uint16_t traits;     /* as the reader gives them */
    bool has_holes;      /* the dictionary */
};

struct op {
    uint32_t shape, block;
    uint32_t operands; /* slice of graph.operands; graph_op_words */
    uint32_t results;  /* values results .. results + n_results - 1 */
    uint32_t pos;      /* place in its block's order; NONE: not in it */
    uint32_t traits;
};

struct region {
    uint32_t block; /* first */
    uint32_t next;  /* of the same operation, or NONE */
    /* in the first region of an operation: the values that all its regions take from outside */
    uint32_t captures, n_captures;
};

struct block {
    uint32_t args, n_args;
    uint32_t label;
    uint32_t next;   /* of the same region, or NONE */
    uint32_t last;   /* last operation, or NONE */
    uint32_t effect; /* last operation with an effect: a chain through op.pos until it is ordered */
    uint32_t n_effects;
    uint32_t order, n_order; /* slice of graph.order */
    uint32_t depth;
    uint32_t sure; /* TRAIT_SURE, of its arguments */
    bool frozen;   /* one of several blocks: everything stays */
};

struct func {
    uint32_t symbol, dict;
    bool is_public, defined, recursive, inlines, reached, walked;
    bool ordered, surveyed;      /* its blocks are; its traits and hash are known */
    uint32_t traits;             /* of its most restricted operation */
    uint64_t hash;               /* of its content */
    uint32_t block;              /* first */
    uint32_t ops, n_ops;         /* slice of ops as read */
    uint32_t uses, n_uses;       /* slice of graph.uses */
    uint32_t arg_dicts;          /* slice of graph.dict_ids, n_args of the block */
    uint32_t results, n_results; /* slice of graph.pairs: type, dict */
    uint64_t size;               /* operations after inlining */
    uint64_t count;              /* times it is reached by calls */
    bool keyed;                  /* `key` stands for all of it */
    struct key key;              /* as a region */
};

/* A place where a function names another: a call, or a dictionary. */
struct use {
    uint32_t symbol;
    bool is_call;
};

struct frame { /* an operation that is begun */
    uint32_t name, dict, callee, traits;
    uint32_t operands, results; /* first in the scratch stacks */
    uint32_t region, last_region, last_block, block;
};

struct copy {                             /* an operation with regions while it is being copied */
    uint32_t source, block;               /* into this block */
    uint32_t region, inner, at;           /* where in the source */
    uint32_t copied_region, first_region; /* what it has become */
    uint32_t copied_block;
};

struct entry { /* of the open dictionary, offsets in `draft` */
    uint32_t key, key_len, value, end, holes, n_holes;
    bool unit;
};

struct graph {
    bool failed;
    struct intern types, names, symbols;
    VECTOR(struct dict) dicts;
    uint32_t *dict_slots, dict_mask;
    VECTOR(struct hole) holes;
    VECTOR(uint32_t) symbol_func; /* function of a symbol or NONE; PRIVATE if defined elsewhere */

    struct arena_page *pages;
    char *page_at, *page_end;

    VECTOR(struct shape) shapes;
    VECTOR(uint32_t) shape_types;
    uint32_t *shape_slots, shape_mask; /* of those without regions */
    VECTOR(struct op) ops;
    VECTOR(uint32_t) operands;
    VECTOR(struct value) values;
    VECTOR(struct region) regions;
    VECTOR(struct block) blocks;
    VECTOR(struct func) funcs;
    VECTOR(struct use) uses;
    VECTOR(uint32_t) arg_dicts;
    VECTOR(uint32_t) pairs;
    uint32_t module_dict, regions_dict;

    /* building */
    VECTOR(struct frame) frames;
    VECTOR(uint32_t) stack_operands;
    VECTOR(uint32_t) stack_results;
    uint32_t block; /* current */
    VECTOR(char) draft;
    VECTOR(struct entry) entries;
    VECTOR(struct hole) draft_holes;

    /* canonicalization */
    VECTOR(uint32_t) order; /* operations, block by block */
    VECTOR(uint32_t) captures;
    VECTOR(uint32_t) func_order; /* callees before callers; only those that are reached */
    VECTOR(uint32_t) roots;
    VECTOR(uint64_t) walk; /* a stack of whoever walks */
    VECTOR(struct copy) copies;
    uint64_t *merge_slots; /* by content: upper half of the hash, operation + 1 */
    uint32_t merge_mask, n_merge;
    uint32_t n_public;
    bool defined_twice;    /* a symbol */
    const char *why_exact; /* set when the graph is beyond a bound */
};

#define NONE GRAPH_NONE
#define SYMBOL_PRIVATE (GRAPH_NONE - 1)
#define SYMBOL_OUTSIDE GRAPH_NONE

#define TRAIT_CLASS 3u      /* PURE, DISTINCT or EFFECT in struct op's traits */
#define TRAIT_REGIONS 0x200 /* in them: it has regions */

/* In an operation's traits once it is placed: its results are surely no product, no exponential; are
 * known only when the program runs; are a constant, or what a compiler makes one of at once. */
#define TRAIT_NO_PRODUCT 0x800u
#define TRAIT_NO_EXP 0x1000u
#define TRAIT_VARIES 0x2000u
#define TRAIT_LITERAL 0x4000u
#define TRAIT_SURE (TRAIT_NO_PRODUCT | TRAIT_NO_EXP | TRAIT_VARIES | TRAIT_LITERAL)
#define TRAIT_SETTLED (TRAIT_SURE | GRAPH_COMMUTES | GRAPH_FUSES) /* by graph_commute_settle */

/* The values of the program numbered by content, calls inlined, blocks ordered.
 * NOMEM, MALFORMED; UNSUPPORTED with g->why_exact set. */
int graph_canon(struct graph *g, struct err *e);

/* ---- graph.c ---- */

/* Another shape, like one that is there but with other regions: its number. */
uint32_t graph_shape_add(struct graph *g, const struct shape *s);
/* The next operation, of a shape, in a block, with results that have no hash yet and operands that are
 * to be set. NULL if there is no memory. */
struct op *graph_op_add(struct graph *g, uint32_t shape, uint32_t block, uint32_t traits);

/* ---- graph_texts.c ---- */

void graph_texts_begin(struct graph *g);
void graph_texts_free(struct graph *g);
/* Doubles a table of `item + 1`, whose items' hashes `hash_of` gives. */
bool graph_slots_widen(struct graph *g, uint32_t **slots, uint32_t *mask, uint32_t n_items,
                       uint64_t (*hash_of)(const struct graph *, const void *, uint32_t),
                       const void *items);

/* ---- graph_funcs.c ---- */

/* The function that a symbol names in this module, or NULL. */
struct func *graph_func_of(const struct graph *g, uint32_t symbol);
/* True if the symbol is written as a number. */
bool graph_symbol_numbered(const struct graph *g, uint32_t symbol);
/* Fills func_order, and says of each function whether it is inlined. */
void graph_funcs_plan(struct graph *g);

/* ---- graph_commute.c ---- */

/* Settles which of TRAIT_SETTLED an operation has, from its operands and what is in its regions, which
 * are placed. Before, it has none of them. */
void graph_commute_settle(const struct graph *g, struct op *o);

/* ---- graph_content.c ---- */

/* How many words an operation has in graph.operands: its operands, and behind many of them what
 * they are (graph_content.c). */
#define NEAR_FEW 4
#define NEAR_WORDS 6
static inline uint32_t graph_op_words(uint32_t n_operands)
{
    return n_operands > NEAR_FEW ? n_operands + NEAR_WORDS : n_operands;
}

/* Hashes of a block's arguments. */
void graph_args_hash(struct graph *g, uint32_t b);
/* Hashes of an operation's results, from what it says and its operands, which have theirs and are in
 * the order that they will have. `inside` is what else it holds. */
void graph_results_hash(struct graph *g, const struct op *o, uint64_t inside);
/* A hash of what the operation that gives a value says, without its operands; of an argument, its
 * type. */
uint32_t graph_value_says(const struct graph *g, uint32_t value);
/* Which of two operands comes first where their order does not matter: below, above or 0. */
int graph_value_order(const struct graph *g, uint32_t a, uint32_t b);

/* ---- graph_write.c ---- */

struct place {   /* in a block that is being written */
    uint32_t op; /* the operation around it, or NONE */
    uint32_t region, block, at;
};

struct channel {
    int64_t id;
    uint32_t num; /* from 1; 0: an empty slot */
};

/* A line apart from its indent and the numbers of its values. */
struct line {
    uint64_t hash;
    uint32_t of;   /* a shape that has it; of a block's head, DEF_ARG | such a block */
    bool later;    /* of a block's head: its region is not the operation's first */
    uint32_t text; /* the last text that has it (shortener.text), and its number there */
    uint32_t kind;
};

#define SHORT_BYTES 4096 /* of items in a chunk */

struct shortener {
    uint32_t *shape_lines; /* by shape: its line + 1; 0: not looked for yet */
    VECTOR(struct line) lines;
    uint32_t *slots, mask;
    uint32_t text;        /* the number of the text that is being written, from 1 */
    uint32_t n_kinds;     /* of lines in this text */
    uint64_t chunk, told; /* bytes of the form that are in chunks; that items tell of */
    uint32_t n_items;     /* bytes */
    uint8_t items[SHORT_BYTES];
};

struct printer {
    struct graph *g;
    struct form *out;
    uint32_t *symbol_num; /* by symbol; NONE: not named yet */
    uint32_t n_symbols;
    struct channel *channels; /* open addressing */
    uint32_t channel_mask, n_channels;
    VECTOR(uint32_t) queue; /* functions that are named and not yet written */
    VECTOR(struct place) places;
    uint32_t n_values;  /* numbered in this function */
    uint64_t n_ops;     /* written */
    bool readable;      /* no line in short */
    bool by_key;        /* functions are named by their keys, not written along */
    bool unordered;     /* an operand that has no number yet */
    bool names_outside; /* a symbol of the module's own level was named */
    struct shortener shortener;
};

bool printer_init(struct printer *p, struct graph *g, struct form *out);
/* Forgets the numbers that symbols and channels have. */
void printer_reset(struct printer *p);
void printer_close(struct printer *p);
void printer_put_value(struct printer *p, uint32_t value);
/* Gives the value the next number and writes it with its type. */
void printer_put_param(struct printer *p, uint32_t value);
/* An operation with all that is inside it. */
void printer_put_tree(struct printer *p, uint32_t op);
void printer_put_func(struct printer *p, const struct func *f, bool named);
/* A dictionary of the module's and the operations of its own level. */
void printer_put_module(struct printer *p, uint32_t dict);

/* ---- graph_short.c ---- */

/* The line of an operation, up to what is inside it. False if it is to be written in full. */
bool short_put_op(struct printer *p, const struct op *o);
/* The line that begins a block of an operation; `later`: of another region than its first. False if
 * there is no memory. */
bool short_put_head(struct printer *p, uint32_t block, bool later);
/* The end of an operation's regions, before its place is left. */
void short_put_close(struct printer *p);
/* The end of a text; the next one's lines are numbered anew. */
void short_end(struct printer *p);
/* False if there is no memory. */
bool short_begin(struct printer *p);
void short_close(struct printer *p);

/* ---- graph_regions.c ---- */

/* The regions of a graph that graph_canon is done with, into out->regions. */
int graph_regions(struct graph *g, const char *domain, struct form *out, struct err *e);

static inline const struct shape *op_shape(const struct graph *g, const struct op *o)
{
    return &g->shapes.at[o->shape];
}

static inline bool op_has_regions(const struct op *o) { return (o->traits & TRAIT_REGIONS) != 0; }

/* The i-th value that an operation depends on, operands first, then what its regions capture;
 * false after the last. */
static inline bool graph_dependency(const struct graph *g, const struct op *o, uint32_t i,
                                    uint32_t *out)
{
    const struct shape *s = op_shape(g, o);
    if (i < s->n_operands) {
        *out = g->operands.at[o->operands + i];
        return true;
    }
    if (!op_has_regions(o))
        return false;
    const struct region *r = &g->regions.at[s->regions];
    if (i - s->n_operands >= r->n_captures)
        return false;
    *out = g->captures.at[r->captures + i - s->n_operands];
    return true;
}

static inline uint32_t value_block(const struct graph *g, const struct value *v)
{
    return v->def & DEF_ARG ? v->def & ~DEF_ARG : g->ops.at[v->def].block;
}

/* Which of the results or arguments that it is one of. */
static inline uint32_t value_index(const struct graph *g, uint32_t value)
{
    uint32_t def = g->values.at[value].def;
    return value - (def & DEF_ARG ? g->blocks.at[def & ~DEF_ARG].args : g->ops.at[def].results);
}

static inline uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 29;
}

/* What `h` was before mix(h, x). */
static inline uint64_t unmix(uint64_t h, uint64_t x)
{
    h ^= h >> 29 ^ h >> 58;
    return (h * 0xF1DE83E19937733Du) ^ x;
}

#endif
