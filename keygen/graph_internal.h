/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph_internal.h - the inside of a graph, for graph*.c only.
 *
 *   graph_texts.c    texts and dictionaries, each once
 *   graph.c          appends what the readers give: one pass, nothing changed
 *   graph_bodies.c   the regions of reductions and the like, each once
 *   graph_funcs.c    which functions count, and which are inlined
 *   graph_layouts.c  sees whether it shows how values lie in memory
 *   graph_products.c sees whether matrix products may become one
 *   graph_values.c   what values may come out as, for graph_products.c, and what names do
 *   graph_canon.c    takes operations function by function, and inlines
 *   graph_place.c    places operations, merges constants, and finds the order within each block
 *   graph_content.c  hashes of what values are
 *   graph_commute.c  what commutes for the sake of its operands
 *   graph_write.c    walks blocks in that order and writes the text
 *   graph_short.c    the text in short, which is what is hashed
 *   graph_regions.c  finds what repeats
 *
 * A node is an argument, or an operation that is its own first result; each further result is a node
 * behind it:
 *
 *     func (%0, %1) { %2, %3 = f(%0); return %2 }      arg arg | f, result 1 | return
 *
 * Nodes stand in the order in which their operations ended, so an operation follows all that is inside its
 * regions and, in valid input, all that its operands come from; only regions that several operations have
 * (graph_bodies.c) may stand further on, in another function. A function's nodes are contiguous.
 * graph_canon appends copies of inlined operations at the end.
 *
 * Thread: one at a time for a graph. Memory: arrays that double; their unused half is not resident.
 */
#ifndef WARM_KEYGEN_GRAPH_INTERNAL_H
#define WARM_KEYGEN_GRAPH_INTERNAL_H

#include <string.h>

#include "keygen/graph.h"
#include "keygen/vector.h"

struct text {
    const char *data;
    uint64_t hash; /* of the content alone: equal in every process */
    uint32_t len;
    uint32_t aux; /* of an operation's name: its traits; of a type: graph_sure_of_type */
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

/* A value, and the operation that gives it. There are as many as the program has lines and more, so they
 * decide how much memory a graph takes. */
struct node {
    /* content, down to the arguments: node_hash; and before operations are placed, with `same`, what
     * graph_values.c knows of a value while it looks */
    uint32_t hash[2];
    uint32_t shape; /* of an operation; or one of: */
#define NODE_ARG UINT32_MAX
#define NODE_RESULT (UINT32_MAX - 1) /* not the first of its operation */
    uint32_t operands[2];            /* of an operation: op_operands; else: */
#define NODE_TYPE 0                  /* of an argument */
#define NODE_INDEX 0                 /* of a result: which it is */
#define NODE_SPILL 0                 /* of an operation that spills: slice of graph.spilled */
#define NODE_REGION 1                /* of an operation with regions: the first of them */
    union {
        /* while operations are placed: what stands for this value, maybe itself; while its function is
         * inlined: what stands for its copy */
        uint32_t same;
        uint32_t num; /* after that: its number in the text */
    };
    uint32_t where; /* block << NODE_FLAGS | flags */
};
#define NODE_FLAGS 10
#define NODE_BLOCK (~0u << NODE_FLAGS)
#define DEPTH_MAX 256 /* regions inside one another; with more a graph is exact */
#define BLOCKS_MAX ((uint32_t)1 << (32 - NODE_FLAGS))
#define GRAPH_MANY_BLOCKS "there are more than 4194304 blocks" /* for why_exact */
_Static_assert(sizeof(struct node) == 28, "graphs are as small as they can be");

/* A node's flags: its class (PURE, DISTINCT or EFFECT) and, once it is placed, what it does for the sake of
 * its operands (graph_commute.c). GRAPH_COMMUTES is among them. Of arguments, and of results that are not
 * the first, they are NODE_SURE. */
#define NODE_CLASS 3u
#define NODE_SWAPPED 8u     /* its first two operands did change places */
#define NODE_MADE 16u       /* its results are made of constants alone, all in one function; */
#define NODE_NO_PRODUCT 32u /* its results are surely no product, */
#define NODE_NO_EXP 64u     /* no exponential; */
#define NODE_VARIES 128u    /* are known only when the program runs; */
#define NODE_LITERAL 256u   /* are a constant, or what a compiler makes one of at once */
#define NODE_ORDERED 512u   /* in its block's order, or about to be; of other values: needed */
#define NODE_SURE (NODE_MADE | NODE_NO_PRODUCT | NODE_NO_EXP | NODE_VARIES | NODE_LITERAL)
#define NODE_SETTLED (NODE_SURE | GRAPH_COMMUTES)

/* Which of NODE_SURE an operation's results are: in any case, and if all, one or the first of its operands
 * are so. */
struct sure {
    uint16_t always, if_all, if_any, if_first;
};

/* What an operation says apart from which operands it has, and what is in its regions. Operations that say
 * the same have one shape; what holds for all of them is found once, when the first comes. */
struct shape {
    uint64_t hash; /* of the name and the dictionary */
    uint64_t line; /* of all that its operations' lines say but for the operands */
    uint32_t name, dict;
    uint32_t n_operands, n_results;
    uint32_t types;  /* of the results: slice of graph.shape_types */
    uint32_t type;   /* the first of them */
    uint32_t callee; /* of a call: a symbol; or NONE */
    uint32_t last; /* while reading: the last such operation, if another may be that one; or NONE */
    uint32_t alike;  /* the first shape whose operations' lines say the same; maybe this one */
    uint16_t traits; /* as the reader gives them, and SHAPE_REGIONS */
    bool has_holes;  /* the dictionary */
    uint8_t facts;
    struct sure sure;
};
_Static_assert(sizeof(struct shape) == 64, "one line of the processor's cache");

/* A shape's facts. */
#define SHAPE_PLAIN 1u    /* no regions, no symbol or channel, no call: the shape says it all, */
#define SHAPE_CONSTANT 2u /* and gives one result that depends on nothing, if it may be moved */
#define SHAPE_MOVED 4u    /* it gives what its only operand gives, moved */
#define SHAPE_KEEPS 8u   /* its result is no exponential if no operand is and no region makes one */
#define SHAPE_SPILLS 16u /* its operands are in graph.spilled */

struct region {
    uint32_t block; /* first */
    uint32_t next;  /* of the same operation, or NONE */
    /* in the first region of an operation: the values that all its regions take from outside, */
    uint32_t captures, n_captures;
    /* and, once another operation may have them, what is in them: graph_place.c */
    uint64_t inside;
    uint32_t class;
    bool settled;
};

struct block {
    uint32_t args, n_args;
    uint32_t label;
    uint32_t next;  /* of the same region, or NONE */
    uint32_t last;  /* last operation, or NONE */
    uint32_t calls; /* what stays in it, itself or inside, the last first: as effects are */
    union {
        struct { /* until it is ordered: its operations with an effect, the last of them first */
            uint32_t effect, n_effects;
        };
        struct { /* its operations: slice of graph.order */
            uint32_t order, n_order;
        };
    };
    uint16_t depth;
    uint16_t sure : 13;   /* NODE_SURE, of its arguments */
    uint16_t frozen : 1;  /* everything stays: it is one of several blocks, or devices sum up */
    uint16_t kept : 1;    /* of a function that stays beside the public ones: nothing commutes */
    uint16_t ordered : 1; /* it has its operations' order */
};

struct effect {          /* or a call */
    uint32_t op, before; /* the one before it in the same block, or NONE */
};

struct func {
    uint32_t symbol, dict;
    bool is_public, defined, recursive, inlines, reached, walked;
    bool ordered, surveyed;      /* its blocks are; its traits and hash are known */
    bool named;                  /* in a dictionary; or public, and called */
    bool calls;                  /* itself, or in what it names */
    bool passes;                 /* what it gives may be one of its arguments as it is */
    uint32_t class;              /* of its most restricted operation */
    uint64_t hash;               /* of its content */
    uint32_t block;              /* first */
    uint32_t nodes, n_nodes;     /* slice of nodes as read */
    uint32_t n_ops;              /* operations that were given for it */
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

struct graph_extent { /* how much of a graph there is */
    uint32_t nodes, spilled, blocks, regions, uses;
};

struct body { /* the regions of an operation, which others share: graph_bodies.c */
    struct graph_extent from;
    uint32_t n_nodes, n_blocks, n_regions;
    uint64_t hash;
};

struct frame { /* an operation that is begun */
    uint32_t name, dict, callee, traits;
    uint32_t operands, results; /* first in the scratch stacks */
    uint32_t region, last_region, last_block, block;
    struct graph_extent from; /* what comes after it is inside */
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
    uint32_t *shape_slots, shape_mask;
    VECTOR(struct node) nodes;
    VECTOR(uint32_t) spilled; /* operands of operations with many, or with regions */
    uint32_t n_ops; /* operations that were given and copied, also those that need no node */
    VECTOR(struct region) regions;
    VECTOR(struct body) bodies;
    uint32_t *body_slots, body_mask;
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
    VECTOR(struct effect) effects;
    uint8_t *used;         /* by node as read, if unused ones are kept: an operation takes it */
    uint32_t *merge_slots; /* by content: operation + 1 */
    uint32_t merge_size, n_merge;
    uint32_t n_public;
    bool defined_twice;    /* a symbol */
    bool as_given;         /* nothing commutes, and calls stay: regions are wanted */
    bool folds_at_calls;   /* see graph_folds_at_calls */
    bool keeps_unused;     /* see graph_keeps_unused */
    bool in_named;         /* the function that is being taken is named */
    bool any_idle;         /* nothing is needed of some call, since this was reset */
    bool delicate;         /* there is a sum of two products, or may be one: graph_commute.c */
    bool single;           /* the module says that it is for one device, and nothing else */
    bool several;          /* it is for more, or may be; while reading: something has a sharding */
    bool widths_differ;    /* of the numbers in it, in bits */
    bool narrow;           /* there are floats of less than 32 bits */
    bool products_meet;    /* graph_products.c: all but constants stays */
    bool layouts_show;     /* graph_layouts.c: operands and calls stay */
    bool folds_otherwise;  /* it does, and something is computed from constants alone */
    const char *why_exact; /* set when the graph is beyond a bound */
};

#define NONE GRAPH_NONE
#define SYMBOL_PRIVATE (GRAPH_NONE - 1)
#define SYMBOL_OUTSIDE GRAPH_NONE

#define SHAPE_REGIONS 0x200 /* beside the reader's traits: operations of this shape have regions */
#define SHAPE_PASSED 0x800  /* and: a constant that went into a function or came out of it */
#define SHAPE_CLASS 3u      /* in them: PURE, DISTINCT or EFFECT */

/* The values of the program numbered by content, calls inlined, blocks ordered.
 * NOMEM, MALFORMED; UNSUPPORTED with g->why_exact set. */
int graph_canon(struct graph *g, struct err *e);

/* ---- graph.c ---- */

/* An argument of a block, and its value, which is `sure` (NODE_SURE). */
uint32_t graph_arg_add(struct graph *g, uint32_t type, uint32_t block, uint32_t sure);
/* Makes room for an operation of a shape: op_add. */
bool graph_op_room(struct graph *g, const struct shape *s);

/* ---- graph_bodies.c ---- */

struct graph_extent graph_extent(const struct graph *g);
/* The regions of an operation have ended, which are all that came since `from`; the first is `region`.
 * Gives the first of those that stand for them. */
uint32_t graph_body(struct graph *g, const struct graph_extent *from, uint32_t region);

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

/* ---- graph_layouts.c ---- */

/* Whether it may decide how something is computed that values lie in memory otherwise than row by row, which
 * follows from the order of operands and from calls. Of a graph as it was read. */
bool graph_layouts_show(struct graph *g);

/* ---- graph_products.c ---- */

/* Whether two matrix products may share an operand, and sum over the same of it: which becomes one with
 * which depends on the order of all operations. Of a graph as it was read, with its func_order. */
bool graph_products_meet(struct graph *g);

/* ---- graph_place.c ---- */

/* Places an operation, whose name, dictionary and regions are set: gives it its operands, which are those
 * that stand for the values `from` (its own as they were read, or those of what it is a copy of), and all
 * that is known of its results. Nodes may come for its sake. */
void graph_op_place(struct graph *g, struct node *o, const struct shape *s, const uint32_t *from);
/* Puts a block's operations, which are placed, in their order. */
void graph_block_order(struct graph *g, uint32_t b);
/* Sees whether something in a block that is in order lets nothing commute. For blocks of functions; those
 * of regions are looked at when they are ordered. */
void graph_block_look(struct graph *g, uint32_t b);

/* ---- graph_commute.c ---- */

/* What values of a type of this spelling may be sure of: those of an array without elements never vary. */
uint32_t graph_sure_of_type(const char *text, size_t len);
/* True of a sum of two values that both may be products, of what may be made of such, and of what nothing is
 * known. Of an operation that is placed. */
bool graph_op_is_delicate(const struct graph *g, const struct node *o);
/* Does a dictionary of the module say one partition and one replica, and nothing else? */
bool graph_dict_plain(const struct graph *g, uint32_t dict);
/* Puts back what changed places, and lets nothing commute any more, if the graph is delicate or for
 * several devices. */
void graph_commute_undo(struct graph *g);
/* What operations of such a shape are sure of, but for what is in their regions. */
struct sure graph_shape_sure(const struct graph *g, const struct shape *s);
/* True if what is in the operation's regions makes no exponential of what comes in. */
bool graph_regions_keep(const struct graph *g, const struct node *o);
/* Whether an operation that may commute does, of whose operands all are sure of `all` and one or the other
 * of `any`. */
bool graph_sure_commutes(const struct shape *s, uint32_t all, uint32_t any);

/* ---- graph_content.c ---- */

/* An operation of more operands than these keeps hashes behind them. */
#define NEAR_FEW 4
#define NEAR_DEPTHS 3
#define NEAR_WORDS (1 + 2 * NEAR_DEPTHS)

/* Hashes of a block's arguments. */
void graph_args_hash(struct graph *g, uint32_t b);
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

/* The kind of a line: all of it but for its indent and the numbers of its values. */
struct kind {
    uint32_t text; /* the last text that has it (shortener.text), and its number there */
    uint32_t number;
};

/* That of a block's head, and whose head it is. */
struct head {
    struct kind kind;
    uint32_t block;
    bool later; /* its region is not the operation's first */
};

#define SHORT_BYTES 4096 /* of items in a chunk */

struct shortener {
    struct kind *kinds; /* by shape, the first of those that are alike */
    uint32_t
        *block_heads; /* by block, of a first region and of later ones: its head + 1; 0: none yet */
    VECTOR(struct head) heads;
    uint32_t *slots, mask; /* of them */
    uint32_t text;         /* the number of the text that is being written, from 1 */
    uint32_t n_kinds;      /* of lines in this text */
    uint64_t chunk, told;  /* bytes of the form that are in chunks; that items tell of */
    uint32_t n_items;      /* bytes */
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
bool short_put_op(struct printer *p, uint32_t op);
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

static inline bool node_is_op(const struct node *n) { return n->shape < NODE_RESULT; }

static inline const struct shape *op_shape(const struct graph *g, const struct node *o)
{
    return &g->shapes.at[o->shape];
}

static inline bool shape_has_regions(const struct shape *s)
{
    return (s->traits & SHAPE_REGIONS) != 0;
}

static inline bool op_has_regions(const struct graph *g, const struct node *o)
{
    return shape_has_regions(op_shape(g, o));
}

static inline bool shape_spills(const struct shape *s) { return (s->facts & SHAPE_SPILLS) != 0; }

/* How many words of it its operands take, and behind many of them what is near (graph_content.c). */
static inline uint32_t shape_spill_words(const struct shape *s)
{
    if (!shape_spills(s))
        return 0;
    return s->n_operands + (s->n_operands > NEAR_FEW ? NEAR_WORDS : 0);
}

/* The operands of an operation of shape `s`; valid until the next node comes. */
static inline const uint32_t *op_operands(const struct graph *g, const struct node *o,
                                          const struct shape *s)
{
    return shape_spills(s) ? g->spilled.at + o->operands[NODE_SPILL] : o->operands;
}

static inline uint32_t *op_operands_set(struct graph *g, struct node *o, const struct shape *s)
{
    return shape_spills(s) ? g->spilled.at + o->operands[NODE_SPILL] : o->operands;
}

/* First region of an operation, or NONE. */
static inline uint32_t op_region(const struct graph *g, const struct node *o)
{
    return op_has_regions(g, o) ? o->operands[NODE_REGION] : NONE;
}

static inline uint32_t node_block(const struct node *n) { return n->where >> NODE_FLAGS; }

static inline uint32_t op_class(const struct node *o) { return o->where & NODE_CLASS; }

static inline void op_class_set(struct node *o, uint32_t class)
{
    o->where = (o->where & ~NODE_CLASS) | class;
}

/* An operation that says what its shape says and nothing more. It is placed. */
static inline bool op_is_plain(const struct node *o, const struct shape *s)
{
    return s->facts & SHAPE_PLAIN && op_class(o) != GRAPH_EFFECT;
}

/* The result of an operation that is the same wherever it stands: it depends on nothing. */
static inline bool graph_is_constant(const struct graph *g, uint32_t value)
{
    const struct node *o = &g->nodes.at[value];
    return node_is_op(o) && op_shape(g, o)->facts & SHAPE_CONSTANT && op_class(o) == GRAPH_PURE;
}

/* An operation of shape `s` that is a constant, or moves the elements of one: a broadcast, a reshape. */
static inline bool op_is_constant(const struct graph *g, const struct node *o,
                                  const struct shape *s)
{
    return s->facts & (SHAPE_CONSTANT | SHAPE_MOVED) && op_class(o) == GRAPH_PURE &&
           (s->facts & SHAPE_CONSTANT || graph_is_constant(g, op_operands(g, o, s)[0]));
}

/* The next operation, of a shape, in a block, with results that have no hash yet and operands and regions
 * that are to be set. NULL if there is no memory. */
static inline struct node *op_add(struct graph *g, uint32_t shape, uint32_t block, uint32_t flags)
{
    const struct shape *s = &g->shapes.at[shape];
    uint32_t id = g->nodes.n, n = s->n_results ? s->n_results : 1, words = shape_spill_words(s);
    if ((g->nodes.cap - id < n || g->spilled.cap - g->spilled.n < words) && !graph_op_room(g, s))
        return NULL;
    struct node *o = &g->nodes.at[id];
    uint32_t where = block << NODE_FLAGS | flags;
    *o = (struct node){.shape = shape,
                       .operands = {[NODE_SPILL] = g->spilled.n, [NODE_REGION] = NONE},
                       .same = id,
                       .where = where};
    for (uint32_t i = 1; i < n; i++)
        o[i] = (struct node){
            .shape = NODE_RESULT, .operands[NODE_INDEX] = i, .same = id + i, .where = where};
    g->nodes.n += n;
    g->spilled.n += words;
    g->n_ops++;
    return o;
}

static inline uint64_t node_hash(const struct node *n)
{
    uint64_t hash;
    memcpy(&hash, n->hash, sizeof hash);
    return hash;
}

static inline void node_hash_set(struct node *n, uint64_t hash)
{
    memcpy(n->hash, &hash, sizeof hash);
}

/* The operation that gives a value; NONE for an argument. */
static inline uint32_t value_op(const struct graph *g, uint32_t value)
{
    const struct node *n = &g->nodes.at[value];
    if (node_is_op(n))
        return value;
    return n->shape == NODE_ARG ? NONE : value - n->operands[NODE_INDEX];
}

/* Which of the results or arguments that it is one of. */
static inline uint32_t value_index(const struct graph *g, uint32_t value)
{
    const struct node *n = &g->nodes.at[value];
    if (node_is_op(n))
        return 0;
    return n->shape == NODE_ARG ? value - g->blocks.at[node_block(n)].args
                                : n->operands[NODE_INDEX];
}

static inline uint32_t value_type(const struct graph *g, uint32_t value)
{
    const struct node *n = &g->nodes.at[value];
    if (node_is_op(n))
        return op_shape(g, n)->type;
    if (n->shape == NODE_ARG)
        return n->operands[NODE_TYPE];
    uint32_t index = n->operands[NODE_INDEX];
    return g->shape_types.at[op_shape(g, n - index)->types + index];
}

/* The i-th value that an operation depends on, operands first, then what its regions capture;
 * false after the last. */
static inline bool graph_dependency(const struct graph *g, const struct node *o, uint32_t i,
                                    uint32_t *out)
{
    const struct shape *s = op_shape(g, o);
    if (i < s->n_operands) {
        *out = op_operands(g, o, s)[i];
        return true;
    }
    if (!shape_has_regions(s))
        return false;
    const struct region *r = &g->regions.at[o->operands[NODE_REGION]];
    if (i - s->n_operands >= r->n_captures)
        return false;
    *out = g->captures.at[r->captures + i - s->n_operands];
    return true;
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

/* What values of a type may be sure of. */
static inline uint32_t type_sure(const struct graph *g, uint32_t type)
{
    return type < g->types.items.n ? g->types.items.at[type].aux : 0;
}

static inline uint64_t type_hash(const struct graph *g, uint32_t type)
{
    return g->types.items.at[type].hash;
}

/* An operation's first two operands change places, or back. */
static inline void op_swap(struct graph *g, struct node *o)
{
    uint32_t *operands = op_operands_set(g, o, op_shape(g, o)), first = operands[0];
    operands[0] = operands[1];
    operands[1] = first;
    o->where ^= NODE_SWAPPED;
}

/* What an operation says, before the hashes of its operands are mixed with it one after the other.
 * `inside` is what it holds that its shape does not say: nothing, 0, if it is op_is_plain. */
static inline uint64_t op_says(const struct shape *s, uint64_t inside)
{
    return mix(s->hash, inside + s->n_operands);
}

/* Keeps it where an operation has many operands: graph_content.c. */
static inline void op_says_keep(struct graph *g, const struct node *o, const struct shape *s,
                                uint64_t says)
{
    if (s->n_operands <= NEAR_FEW)
        return;
    uint32_t *kept = g->spilled.at + o->operands[NODE_SPILL] + s->n_operands;
    kept[0] = 1;
    memcpy(kept + 1, &says, sizeof says);
}

#endif
