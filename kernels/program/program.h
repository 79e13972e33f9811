/* SPDX-License-Identifier: Apache-2.0 */
/*
 * program.h - a StableHLO graph with types: what the graph compiler reads, differentiates and compiles.
 *
 *     StableHLO text or bytecode ──keygen──▶ canonical text ──read.c──▶ program
 *                                                     builder calls ──────▲
 *
 * The compiler's input is the canonical text that keygen hashes (`warm hash --explain` prints it). So
 * equal keys are equal input. Both ways into a program end in program_add, which checks each operation.
 *
 *     function ── block ── operations: kind, operands, ints, results
 *                             └── while: two blocks, condition and body
 *
 * Terms
 *   value   the number of a function's argument, a block's argument or an operation's result
 *   ints    the numbers of an operation that are no operands: dimensions, sizes. See PROGRAM_OPS
 *   block   arguments, operations in order, and the values that it returns
 *
 * Element types are in PROGRAM_ELEMS. A tensor is row-major. Shapes are known; no dimension is dynamic.
 *
 * Errors: err->line is a line of the canonical text; err->text names the operation.
 *
 * Thread: one at a time for a program; no other state.
 * Memory: a program owns its arrays. A reader may look at them directly; only the functions here change
 * them. Only program_flatten recurses, into loops and calls.
 */
#ifndef WARM_KERNELS_PROGRAM_PROGRAM_H
#define WARM_KERNELS_PROGRAM_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keygen/bytes.h"
#include "keygen/canon/slots.h"
#include "keygen/err.h"
#include "keygen/vector.h"

#define PROGRAM_NONE UINT32_MAX                 /* no value, no type */
#define PROGRAM_RANK_MAX 10                     /* 8 of a module, and 2 of a window */
#define SIDE_MAX 16                             /* tensors that one operation reduces or sorts */
#define PROGRAM_DEPTH_MAX 32                    /* loops inside of loops */
#define PROGRAM_TEXT_MAX ((size_t)1 << 30)      /* bytes of canonical text */
#define PROGRAM_OPS_MAX 10000000u               /* of a function, with its calls written out */
#define PROGRAM_CALLS_MAX 64                    /* calls inside of calls */
#define PROGRAM_ELEMENTS_MAX ((int64_t)1 << 40) /* of one tensor */

/* name, name in MLIR, bytes of an element, kind. The order is that of BUNDLE.md's numbers. */
#define PROGRAM_ELEMS(X)                                                                           \
    X(F32, "f32", 4, FLOAT)                                                                        \
    X(I32, "i32", 4, SIGNED)                                                                       \
    X(I1, "i1", 1, TRUTH)                                                                          \
    X(I64, "i64", 8, SIGNED)                                                                       \
    X(F64, "f64", 8, FLOAT)                                                                        \
    X(F16, "f16", 2, FLOAT)                                                                        \
    X(BF16, "bf16", 2, FLOAT)                                                                      \
    X(I8, "i8", 1, SIGNED)                                                                         \
    X(I16, "i16", 2, SIGNED)                                                                       \
    X(U8, "ui8", 1, UNSIGNED)                                                                      \
    X(U16, "ui16", 2, UNSIGNED)                                                                    \
    X(U32, "ui32", 4, UNSIGNED)                                                                    \
    X(U64, "ui64", 8, UNSIGNED)

enum elem {
#define X(name, text, size, kind) ELEM_##name,
    PROGRAM_ELEMS(X)
#undef X
        ELEM_N
};
enum elem_kind { KIND_FLOAT, KIND_SIGNED, KIND_UNSIGNED, KIND_TRUTH };

struct tensor {
    enum elem elem;
    uint32_t rank;
    int64_t dims[PROGRAM_RANK_MAX]; /* outermost first; 0 beyond the rank */
    int64_t n;                      /* elements */
};

/*
 * name, name in StableHLO, operands (-1: any number), its elements, its ints.
 *   F, FI, FIB, IB   element-wise on floating-point numbers (F), whole numbers (I), truth values (B); the result
 *                    has the operands' type
 *   SHAPE            has a rule of its own (check.c)
 * "r" is the rank of the first operand. A side function is one of program.side, on scalars. The operations "warm.x"
 * are our own; read.c writes operations of StableHLO with them:
 *   REDUCE_MANY   one result of a reduction of several tensors: its operands are those, then initial values
 *   RANK          by element, its place if the dimension is sorted by a stable sort; read.c has the rest of sort
 *   GATHER        stablehlo.gather. SCATTER: stablehlo.scatter of one tensor; SELECT as its reducer is assignment
 *   CHAIN         by place in `indices`, the next place with equal indices, or their number; less that number - 1
 *                 for the first of equal ones. SCATTER in this form has no two threads at one element (spread.h)
 *   UNWINDOW      unwindow[i, w] = y[(i - w * dilation) / stride, w], 0 if there is none: sums of it are the
 *                 transpose of WINDOW
 WINDOW has the elements that windows have. Its
 * dimensions are the places of the windows, then the place in a window, for each size above 1:
 * window[o, w] = x[o * stride + w * dilation].
 */
#define PROGRAM_OPS(X)                                                                             \
    X(ABS, "abs", 1, FI)                                                                           \
    X(NEGATE, "negate", 1, FI)                                                                     \
    X(SIGN, "sign", 1, FI)                                                                         \
    X(EXP, "exponential", 1, F)                                                                    \
    X(EXPM1, "exponential_minus_one", 1, F)                                                        \
    X(LOG, "log", 1, F)                                                                            \
    X(LOG1P, "log_plus_one", 1, F)                                                                 \
    X(LOGISTIC, "logistic", 1, F)                                                                  \
    X(TANH, "tanh", 1, F)                                                                          \
    X(SQRT, "sqrt", 1, F)                                                                          \
    X(RSQRT, "rsqrt", 1, F)                                                                        \
    X(SINE, "sine", 1, F)                                                                          \
    X(COSINE, "cosine", 1, F)                                                                      \
    X(TAN, "tan", 1, F)                                                                            \
    X(CBRT, "cbrt", 1, F)                                                                          \
    X(ERF, "chlo.erf", 1, F)                                                                       \
    X(ERFC, "chlo.erfc", 1, F)                                                                     \
    X(ERF_INV, "chlo.erf_inv", 1, F)                                                               \
    X(LGAMMA, "chlo.lgamma", 1, F)                                                                 \
    X(SINH, "chlo.sinh", 1, F)                                                                     \
    X(COSH, "chlo.cosh", 1, F)                                                                     \
    X(ASIN, "chlo.asin", 1, F)                                                                     \
    X(ACOS, "chlo.acos", 1, F)                                                                     \
    X(ATAN, "chlo.atan", 1, F)                                                                     \
    X(ASINH, "chlo.asinh", 1, F)                                                                   \
    X(ACOSH, "chlo.acosh", 1, F)                                                                   \
    X(ATANH, "chlo.atanh", 1, F)                                                                   \
    X(ROUND, "round_nearest_afz", 1, F)                                                            \
    X(ROUND_EVEN, "round_nearest_even", 1, F)                                                      \
    X(FLOOR, "floor", 1, F)                                                                        \
    X(CEIL, "ceil", 1, F)                                                                          \
    X(POPCNT, "popcnt", 1, I)                                                                      \
    X(CLZ, "count_leading_zeros", 1, I)                                                            \
    X(NOT, "not", 1, IB)                                                                           \
    X(ADD, "add", 2, FI)                                                                           \
    X(SUBTRACT, "subtract", 2, FI)                                                                 \
    X(MULTIPLY, "multiply", 2, FI)                                                                 \
    X(DIVIDE, "divide", 2, FI)                                                                     \
    X(REMAINDER, "remainder", 2, FI)                                                               \
    X(POWER, "power", 2, FI)                                                                       \
    X(ATAN2, "atan2", 2, F)                                                                        \
    X(SHIFT_LEFT, "shift_left", 2, I)                                                              \
    X(SHIFT_RIGHT, "shift_right_logical", 2, I)                                                    \
    X(SHIFT_SIGN, "shift_right_arithmetic", 2, I)                                                  \
    X(MAXIMUM, "maximum", 2, FIB)                                                                  \
    X(MINIMUM, "minimum", 2, FIB)                                                                  \
    X(AND, "and", 2, IB)                                                                           \
    X(OR, "or", 2, IB)                                                                             \
    X(XOR, "xor", 2, IB)                                                                           \
    X(IS_FINITE, "is_finite", 1, SHAPE)                                                            \
    X(BITCAST, "bitcast_convert", 1, SHAPE) /* none; the caller gives the type, of as many bits */ \
    X(COMPARE, "compare", 2, SHAPE)         /* enum direction; 1 if it is of the total order */    \
    X(SELECT, "select", 3, SHAPE)           /* none; the first operand may be a scalar */          \
    X(CLAMP, "clamp", 3, SHAPE)             /* none: low, x, high; low and high may be scalars */  \
    X(CONVERT, "convert", 1, SHAPE)         /* none; the caller gives the type */                  \
    X(CONSTANT, "constant", 0, SHAPE)       /* offset in `data`, 1 if it is a splat; type */       \
    X(IOTA, "iota", 0, SHAPE)               /* dimension; type */                                  \
    X(BROADCAST, "broadcast_in_dim", 1, SHAPE)   /* r: the dimension of the result; type */        \
    X(RESHAPE, "reshape", 1, SHAPE)              /* none; type */                                  \
    X(TRANSPOSE, "transpose", 1, SHAPE)          /* r: result dimension i is operand's ints[i] */  \
    X(SLICE, "slice", 1, SHAPE)                  /* r starts, r limits, r strides */               \
    X(PAD, "pad", 2, SHAPE)                      /* r low, r high, r interior */                   \
    X(CONCATENATE, "concatenate", -1, SHAPE)     /* dimension */                                   \
    X(DYNAMIC_SLICE, "dynamic_slice", -1, SHAPE) /* r sizes; operands: x, r starts */              \
    X(DYNAMIC_UPDATE, "dynamic_update_slice", -1, SHAPE) /* none; x, update, r starts */           \
    X(REDUCE, "reduce", 2, SHAPE)   /* enum op of the reducer, dimensions in order; x, initial */  \
    X(DOT, "dot_general", 2, SHAPE) /* b, c, b lhs batch, b rhs batch, c lhs and c rhs contract */ \
    X(REVERSE, "reverse", 1, SHAPE) /* dimensions */                                               \
    X(GATHER, "warm.gather", 2, SHAPE)    /* gather.h; x, indices */                               \
    X(SCATTER, "warm.scatter", -1, SHAPE) /* enum op, gather.h; x, indices, updates, or CHAIN */   \
    X(CHAIN, "warm.chain", 2, SHAPE)      /* gather.h; indices, updates */                         \
    X(RANK, "warm.rank", -1, SHAPE)       /* side function, dimension */                           \
    X(REDUCE_MANY, "warm.reduce", -1, SHAPE) /* side function, which result, dimensions */         \
    X(UNWINDOW, "warm.unwindow", 1, SHAPE)   /* ints of WINDOW, sizes of x */                      \
    X(WINDOW, "warm.window", 1, SHAPE)       /* r sizes, r strides, r dilations */                 \
    X(WHILE, "while", -1, SHAPE) /* condition block, body block; one result per operand */         \
    X(CALL, "call", -1, SHAPE)   /* function */

enum op {
#define X(name, text, operands, elements) OP_##name,
    PROGRAM_OPS(X)
#undef X
        OP_N
};

enum direction {
    DIRECTION_EQ,
    DIRECTION_NE,
    DIRECTION_GE,
    DIRECTION_GT,
    DIRECTION_LE,
    DIRECTION_LT
};

struct operation {
    enum op op;
    uint32_t line;                 /* of the canonical text; 0: built */
    uint32_t operands, n_operands; /* slice of program.operands */
    uint32_t ints, n_ints;         /* slice of program.ints */
    uint32_t results, n_results;   /* values; they follow one another */
    uint32_t next;                 /* the operation behind it and its blocks */
};

struct block {
    uint32_t args, n_args;       /* values */
    uint32_t first, end;         /* operations: first, its next, ... up to end */
    uint32_t results, n_results; /* slice of program.operands */
};

struct function {
    const char *name; /* of a public one; NULL if private. In `names` */
    uint32_t block;
    uint32_t types, n_types; /* of its results: slice of program.operands */
    uint32_t forward; /* the operations from this one on are the derivative's; NONE: it has none */
};

struct program {
    VECTOR(struct tensor) types;
    struct slots type_slots;
    VECTOR(uint32_t) values; /* by value: its type */
    VECTOR(struct operation) ops;
    VECTOR(uint32_t) operands;
    VECTOR(int64_t) ints;
    VECTOR(struct block) blocks;
    VECTOR(struct function) functions;
    VECTOR(char *) names;
    VECTOR(uint8_t) data; /* elements of constants, as program_elem_size has them */
    struct program *side; /* functions that operations apply to scalars; NULL. Shared: `users` */
    uint32_t users;
    bool failed; /* no memory */
};

/* Returns the error of a broken promise of the compiler's own, INVALID. */
int program_fault(struct err *e);

/* Returns the name of an operation without "stablehlo.": "add", "chlo.erf". Static memory. */
const char *program_op_name(enum op op);
/* True for operations that go over many elements for one of the result: it has memory, to be computed once. */
static inline bool program_has_loop(enum op op)
{
    return op == OP_REDUCE || op == OP_DOT || op == OP_SCATTER || op == OP_CHAIN || op == OP_RANK ||
           op == OP_REDUCE_MANY;
}
/* The dimensions of a product's operand. */
struct dot_side {
    const int64_t *batch, *contracted;
    int64_t free[PROGRAM_RANK_MAX]; /* the others, in order */
    uint32_t n_batch, n_contracted, n_free;
};
/* Sorts the dimensions of operand `which`, 0 or 1, by the ints of the product. Borrows them. */
struct dot_side program_dot_side(const int64_t *ints, uint32_t which, uint32_t rank);
/* Returns the bytes of an element of a constant. */
static inline uint32_t program_elem_size(enum elem elem)
{
    static const uint8_t SIZES[] = {
#define X(name, text, size, kind) size,
        PROGRAM_ELEMS(X)
#undef X
    };
    return SIZES[elem];
}
/* Returns the kind of elements. */
static inline enum elem_kind program_elem_kind(enum elem elem)
{
    static const uint8_t KINDS[] = {
#define X(name, text, size, kind) KIND_##kind,
        PROGRAM_ELEMS(X)
#undef X
    };
    return (enum elem_kind)KINDS[elem];
}
/* True for floating-point numbers. */
static inline bool program_is_float(enum elem elem)
{
    return program_elem_kind(elem) == KIND_FLOAT;
}
/* True for whole numbers with a sign and without. */
static inline bool program_is_whole(enum elem elem)
{
    enum elem_kind kind = program_elem_kind(elem);
    return kind == KIND_SIGNED || kind == KIND_UNSIGNED;
}
/* Returns MLIR's name of elements, "f32". Static memory. */
const char *program_elem_name(enum elem elem);
/* Returns the value of an element, exactly. */
long double program_elem_get(enum elem elem, const uint8_t *at);
/* Writes a number as an element: the nearest one; of floating-point elements, to its double. */
void program_elem_put(enum elem elem, long double value, uint8_t *at);

/* Reads StableHLO text or bytecode. Gives *out (program_free). Errors: those of canon_key; UNSUPPORTED for
 * an operation, a type or an attribute that the compiler lacks; INVALID for types that do not fit. */
int program_read(const void *data, size_t len, struct program **out, struct err *e);
/* Returns an empty program. NULL without memory. */
struct program *program_new(void);
/* Returns the operation's name in a line of the canonical form; empty if it has none. */
struct view program_line_op(struct view line);
/* True if the compiler has code for an operation of this name, in some form at least. */
bool program_has_op(struct view name);

/* Returns a program's side for one more user; NULL for NULL. */
struct program *program_share(struct program *side);
/* Frees a program. NULL is fine. */
void program_free(struct program *p);

/* Returns the public function of this name, or the only public one if `name` is NULL; NONE if there is none. */
uint32_t program_function(const struct program *p, const char *name);

/* Finds or adds a type. Sets out->n. Errors: TOO_BIG for a product of dimensions that is too large; NOMEM. */
int program_type(struct program *p, struct tensor *type, uint32_t *out, struct err *e);
/* Returns the type of a value. It lives until the next type is added. */
static inline const struct tensor *program_tensor(const struct program *p, uint32_t value)
{
    return &p->types.at[p->values.at[value]];
}

/* Begins a public function and its block. Gives it arguments of these types; the first is *out_args. */
int program_func_begin(struct program *p, const char *name, const uint32_t *types, uint32_t n_types,
                       uint32_t *out_args, struct err *e);
/* Ends the function that was begun last: it returns these values. */
int program_func_end(struct program *p, const uint32_t *values, uint32_t n, struct err *e);

/* An operation to add. Not for WHILE and CALL. The arrays must not be the program's own: they move. */
struct new_op {
    enum op op;
    uint32_t line;
    const uint32_t *operands;
    uint32_t n_operands;
    const int64_t *ints;
    uint32_t n_ints;
    uint32_t
        type; /* of the result; NONE: computed, unless PROGRAM_OPS says that the caller gives it */
};
/* Checks an operation and adds it to the open block. Sets *out to its result. Errors: INVALID, NOMEM. */
int program_add(struct program *p, const struct new_op *op, uint32_t *out, struct err *e);
/* Adds a constant all of whose elements are `value`, rounded to the type. */
int program_splat(struct program *p, uint32_t type, double value, uint32_t *out, struct err *e);
/* Adds the scalar that an operation of a reduction leaves all others as they are with: 0 of add. */
int program_identity(struct program *p, enum op reducer, enum elem elem, uint32_t *out,
                     struct err *e);

/* Adds a call of a function. Gives the first of its results. The array is not the program's own. Errors:
 * INVALID for operands of other types; NOMEM. */
int program_call(struct program *p, uint32_t function, const uint32_t *operands, uint32_t n,
                 uint32_t *out_results, struct err *e);
/* Begins a loop that carries n values, and its condition. Gives the operation in *out_loop. The arrays of
 * these three must not be the program's own. */
int program_while_begin(struct program *p, uint32_t line, const uint32_t *operands, uint32_t n,
                        uint32_t *out_loop, struct err *e);
/* Ends the condition with its result, and begins the body. */
int program_while_body(struct program *p, uint32_t loop, uint32_t condition, struct err *e);
/* Ends the body with the n values that it returns. Gives the first of the loop's results. */
int program_while_end(struct program *p, uint32_t loop, const uint32_t *values, uint32_t n,
                      uint32_t *out_results, struct err *e);
/* Returns the condition (0) or the body (1) of a loop. It lives until the next block is added. */
static inline const struct block *program_loop_block(const struct program *p,
                                                     const struct operation *loop, int which)
{
    return &p->blocks.at[p->ints.at[loop->ints + (uint32_t)which]];
}

/* A loop whose number of trips is known: `while (i < 10) i += 2`. */
struct counted {
    uint32_t carry; /* the counter: a scalar of i32 or i64. It is start, start + step, ... */
    int64_t start, step;
    uint64_t trips;
};
/* Fills an array with the operation that makes each value: for a block's argument, the loop; NONE for an
 * argument of a function. The caller's array has p->values.n entries. */
void program_origins(const struct program *p, uint32_t *out);
/* True if a loop is counted. `origins` is of program_origins. */
bool program_counted(const struct program *p, const uint32_t *origins, const struct operation *loop,
                     struct counted *out);

/* Copies a function in a plain form. Gives *out (program_free): one public function.
 *   - calls are written out;
 *   - a value that a loop carries without a change is used inside of it as it is outside;
 *   - operations and carried values that no result needs are gone, as are loops without a trip;
 *   - each value that a body returns is the only result of an operation of that body.
 * Errors: TOO_BIG; NOMEM. */
int program_flatten(const struct program *p, uint32_t function, struct program **out,
                    struct err *e);

/* Adds an operation to a program: program_add, or what adds others in its place. */
typedef int program_adder(struct program *p, const struct new_op *op, uint32_t *out, struct err *e);
/* Copies a function of that form, without unused operations, by another adder. Gives *out (program_free). */
int program_copy(const struct program *p, uint32_t function, program_adder *add,
                 struct program **out, struct err *e);

#endif
