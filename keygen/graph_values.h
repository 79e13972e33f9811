/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph_values.h - what a compiler may find the values of a program to be. Part of graph_internal.h.
 *
 * The program is gone through once as it runs, calls opened. Of each value is known:
 *
 *   exact  what it is, down to the arguments: equal values that are computed twice are one
 *   value  what it is, but for what leaves every element where it is (x * 2, convert(x))
 *   class  what it may be found to be, moved or not. What an operation gives is of one class with all that it
 *          is given, since compilers see through slices, branches and sums with 0. Only products, and real
 *          arithmetic of two values neither of which a compiler may leave out, make something new; and that is
 *          of one class with all that is made of values of the same classes, since there are many ways to say
 *          the same (x / sqrt(y), x * rsqrt(y)). Where two classes turn out to be one, so do those that are
 *          made of them (congruence closure).
 *
 * Of a loop that surely turns twice each turn is as the last; what no turn changes is what it was before.
 * Compilers may open any other loop: what goes in, around and out of it is one class.
 *
 * Hashes that collide make values alike that are not. Thread: one at a time for a struct values.
 */
#ifndef WARM_KEYGEN_GRAPH_VALUES_H
#define WARM_KEYGEN_GRAPH_VALUES_H

#include "keygen/finder.h"
#include "keygen/graph_internal.h"

/* What operations of a name do. */
enum role {
    OTHER,
    PRODUCT,
    CONVOLUTION,
    MAPS,   /* element for element, */
    COPIES, /* the operand, in a type, */
    ADDS,   /* and of two real numbers it makes another, unless one is 0, */
    SCALES, /* or 1, */
    PAIRS,  /* or something else; */
    SELECT, /* element for element of all operands but the first */
    COMPARE,
    MOVES,   /* the result has the elements of its operand, */
    TAKES,   /* or some, of the first one, */
    PUTS,    /* or those of the first two */
    REDUCES, /* the first operand */
    LOOP,
    BRANCH, /* it is what its regions give, */
    OPENED, /* or what functions that it names give */
    BARRIER,
    TUPLE,
};

/* What is sure of a value. */
#define VARIES 1u    /* nobody can know it before the program runs; else a compiler may, and then */
#define NOT_ZERO 2u  /* it is not 0, */
#define NOT_ONE 4u   /* neither 1 nor -1, */
#define ONLY_ZERO 8u /* or 0 */
#define SURE (VARIES | NOT_ZERO | NOT_ONE | ONLY_ZERO)

#define EXACT_BITS 45
#define LOOP_BITS 14
#define VALUE_BITS 40
#define CLASS_BITS FINDER_BITS

/* There are as many as the program has operations and more, so they are as small as they can be: of each the
 * last four bytes are in values.known, and the others in its node. */
struct value {
    uint64_t exact : EXACT_BITS;
    uint64_t loop : LOOP_BITS; /* the innermost, turning twice, in whose turns it may differ */
    uint64_t constant : 1;     /* made of constants alone */
    uint64_t sure : 4;
    uint64_t value : VALUE_BITS;
    uint64_t class : CLASS_BITS;
};
_Static_assert(sizeof(struct value) == 16, "two words");

struct value_class {
    uint32_t is;   /* itself, or another one that it is one with */
    uint32_t made; /* of: values.made, how many and how, then which; 0: of nothing else */
};

/* A function while it is gone through; never twice at a time. */
struct activation {
    const struct func *f;
    uint32_t at;   /* node */
    uint32_t call; /* in the activation before it */
    uint32_t loop; /* around that */
    uint32_t number;
};

/* The operation that a block is inside of. */
struct around {
    uint32_t op;   /* or NONE */
    uint32_t loop; /* its number while it is gone through, if it */
    bool turns;    /* surely turns twice */
};

struct type_kind {
    uint64_t dims; /* a hash of which elements there are, or 0 */
    bool real;     /* they are real numbers */
};

/* What operations of a shape do. */
struct shape_kind {
    bool looked;
    bool pure;     /* as far as the shape says */
    bool real;     /* what they give are real numbers, */
    bool varies;   /* and may be known only when the program runs */
    uint8_t role;  /* enum role */
    uint8_t needs; /* sure of an operand, it keeps the result from being the other one */
    uint8_t sure;  /* of a constant */
};

struct values {
    struct graph *g;
    bool failed;
    bool unknown;          /* it is too large, or says what this cannot go through */
    uint8_t *role;         /* by name */
    struct around *around; /* by block */
    struct type_kind *types;
    struct shape_kind *shapes;
    VECTOR(struct activation) calls;
    uint32_t *known;        /* by node */
    VECTOR(uint32_t) loops; /* that surely turn twice, by number: the one around each; 0: none */
    VECTOR(struct value_class) classes;
    VECTOR(uint32_t) made; /* what they are made of */
    uint32_t n_joined;     /* how often two became one */
    struct finder by_made; /* finds classes by what they are made of */
    uint32_t number;       /* of activations */
    uint64_t room;         /* for nodes that are to be gone through */
};

/* By its last part, as StableHLO or HLO has it. */
enum role values_role(const struct graph *g, uint32_t opname);

/* False, and v->failed, if there is no memory; values_end all the same. Of a graph as it was read, whose nodes
 * have no hashes yet; what they have in between is gone at the end. */
bool values_begin(struct values *v, struct graph *g);
void values_end(struct values *v);

/* Goes through the public functions; v->unknown if what comes out is of no use. `at_op` is called for each
 * operation, once its results are known; what is in the regions of operations that others share is not gone
 * through for each of them. Classes may become one until it returns. */
void values_walk(struct values *v, void (*at_op)(struct values *v, uint32_t id, void *ctx),
                 void *ctx);

/* What a class has become by now. */
uint32_t values_class(const struct values *v, uint32_t class);
/* The innermost loop around an operation, of those that surely turn twice; 0: none. During values_walk. */
uint32_t values_loop(const struct values *v, uint32_t id);

/* What is known of a value of a function that is gone through. */
static inline struct value value_at(const struct values *v, uint32_t id)
{
    const struct node *n = &v->g->nodes.at[id];
    uint64_t words[] = {node_hash(n), (uint64_t)v->known[id] << 32 | n->same};
    struct value value;
    memcpy(&value, words, sizeof value);
    return value;
}

static inline void value_set(struct values *v, uint32_t id, struct value value)
{
    struct node *n = &v->g->nodes.at[id];
    uint64_t words[2];
    memcpy(words, &value, sizeof value);
    node_hash_set(n, words[0]);
    n->same = (uint32_t)words[1];
    v->known[id] = (uint32_t)(words[1] >> 32);
}

#endif
