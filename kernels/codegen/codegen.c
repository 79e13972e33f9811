/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codegen.c - decides which values are stored, and writes a kernel for each of them. A kernel is written
 * from its stored value back to others: the element of a fused value at an index is an expression of the
 * elements of its operands at indices that follow from it.
 *
 * Thread: any; no state. Recursion: over fused operations, at most FUSED_DEPTH_MAX deep.
 */
#include "kernels/codegen/codegen.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "kernels/codegen/spread.h"
#include "kernels/codegen/tiled.h"
#include "kernels/program/gather.h"
#include "kernels/vjp/vjp.h"
#include "keygen/expect.h"

#define FUSED_DEPTH_MAX 24
#define FUSED_OPS_MAX 48         /* operations in a kernel */
#define GROUP_MAX 24             /* drafts in a launch */
#define GROUP_ARGS_MAX 256       /* of such a launch; CUDA passes 4 KiB of arguments at least */
#define ARGS_MAX 4000            /* of a launch of one draft; sm_70 and later take 32 764 bytes */
#define SMALL_WORK_MAX (1 << 15) /* statements: some us in one block, our estimate of a launch */
#define BLOCK_WORK_MAX (1 << 16) /* of all that one block does */
#define OWNS_MAX 8               /* more only make code longer */
#define SIDE_NAMES_MAX 256       /* values of a side function */
#define STEPS_MAX 24             /* likewise */
#define LAUNCH_BOUNDS                                                                              \
    "__launch_bounds__(256)" /* CODEGEN_BLOCK, TILED_THREADS: 255 registers are free to use */
#define ZERO UINT32_MAX      /* in place of a name: the number 0 */
#define SECTOR 8             /* f32 elements that a GPU reads at once: 32 bytes */

/* What each kernel may call. The edge cases are those of eval.c. f16 and bf16 are computed in f32, and rounded
 * after each operation; to the even one of two. */
static const char PRELUDE[] =
    "#pragma nv_diag_suppress 177, 186 /* unused functions; unsigned numbers below 0 */\n"
    "typedef long long place_t; /* indices, and places in memory */\n"
    "struct f16 { unsigned short bits; };\n"
    "struct bf16 { unsigned short bits; };\n"
    "static __device__ float of_bits(unsigned x) { union { unsigned u; float f; } b; b.u = x; "
    "return b.f; }\n"
    "static __device__ double of_bits(unsigned long long x) { union { unsigned long long u; double "
    "f; } b; b.u = x; return b.f; }\n"
    "static __device__ unsigned bits_of(float x) { union { unsigned u; float f; } b; b.f = x; "
    "return b.u; }\n"
    "static __device__ unsigned long long bits_of(double x) { union { unsigned long long u; double "
    "f; } b; b.f = x; return b.u; }\n"
    "static __device__ float value_of(bf16 x) { return of_bits((unsigned)x.bits << 16); }\n"
    "static __device__ float value_of(f16 x)\n"
    "{\n"
    "    const unsigned sign = (x.bits & 0x8000u) << 16, exponent = x.bits >> 10 & 31, part = "
    "x.bits & 1023;\n"
    "    const float least = part * 5.9604644775390625e-08f;\n"
    "    return exponent == 0 ? (sign ? -least : least) : of_bits(sign | (exponent == 31 ? "
    "0x7f800000u : (exponent + 112) << 23) | part << 13);\n"
    "}\n"
    "static __device__ void store(bf16 *to, float x)\n"
    "{\n"
    "    const unsigned u = bits_of(x);\n"
    "    to->bits = (unsigned short)(x != x ? u >> 16 | 64 : (u + 0x7fff + (u >> 16 & 1)) >> 16);\n"
    "}\n"
    "static __device__ void store(f16 *to, float x)\n"
    "{\n"
    "    const unsigned sign = bits_of(x) >> 16 & 0x8000u, u = bits_of(x) & 0x7fffffffu;\n"
    "    to->bits = (unsigned short)(sign | (x != x ? 0x7e00u : u >= 0x477ff000u ? 0x7c00u : u < "
    "0x38800000u ? bits_of(of_bits(u) * 16777216.0f + 8388608.0f) & 0x7fffffu : (u + 0xfff + (u >> "
    "13 & 1) >> 13) - (112u << 10)));\n"
    "}\n"
    "static __device__ float as_f16(float x) { f16 h; store(&h, x); return value_of(h); }\n"
    "static __device__ float as_bf16(float x) { bf16 h; store(&h, x); return value_of(h); }\n"
    "static __device__ unsigned bits_of_f16(float x) { f16 h; store(&h, x); return h.bits; }\n"
    "static __device__ unsigned bits_of_bf16(float x) { bf16 h; store(&h, x); return h.bits; }\n"
    "template <class T> static __device__ T larger(T x, T y) { return x > y ? x : y; }\n"
    "template <class T> static __device__ T smaller(T x, T y) { return x < y ? x : y; }\n"
    "static __device__ float larger(float x, float y) { return x > y ? x : x < y ? y : x == y ? "
    "of_bits(bits_of(x) & bits_of(y)) : x + y; }\n"
    "static __device__ float smaller(float x, float y) { return x < y ? x : x > y ? y : x == y ? "
    "of_bits(bits_of(x) | bits_of(y)) : x + y; }\n"
    "static __device__ double larger(double x, double y) { return x > y ? x : x < y ? y : x == y ? "
    "of_bits(bits_of(x) & bits_of(y)) : x + y; }\n"
    "static __device__ double smaller(double x, double y) { return x < y ? x : x > y ? y : x == y "
    "? "
    "of_bits(bits_of(x) | bits_of(y)) : x + y; }\n"
    "template <class T> static __device__ T signum(T x) { return x > 0 ? (T)1 : x < 0 ? (T)-1 : x; "
    "}\n"
    "static __device__ int ordered(float x) { const int i = (int)bits_of(x); return i < 0 ? i ^ "
    "0x7fffffff : i; }\n"
    "static __device__ long long ordered(double x) { const long long i = (long long)bits_of(x); "
    "return i < 0 ? i ^ 0x7fffffffffffffffll : i; }\n"
    "template <class T, class F> static __device__ T to_whole(F x, T least, T most) { return x != "
    "x "
    "? (T)0 : x <= (F)least ? least : x >= (F)most ? most : (T)x; }\n"
    "template <class T> static __device__ unsigned long long low_bits(T x) { return (unsigned long "
    "long)x & ~0ull >> (64 - 8 * sizeof(T)); }\n"
    "template <class T> static __device__ T quotient(T x, T y)\n"
    "{\n"
    "    return y == 0 ? (T)-1 : (T)-1 < (T)0 && y == (T)-1 ? (T)(0ull - (unsigned long long)x) : "
    "(T)(x / y);\n"
    "}\n"
    "template <class T> static __device__ T rest(T x, T y) { return y == 0 ? x : (T)-1 < (T)0 && y "
    "== (T)-1 ? (T)0 : (T)(x % y); }\n"
    "template <class T> static __device__ T to_power(T x, T y)\n"
    "{\n"
    "    unsigned long long power = 1, by = (unsigned long long)x;\n"
    "    if (y < 0)\n"
    "        return x == 1 ? (T)1 : x == (T)-1 ? (y & 1 ? x : (T)1) : (T)0;\n"
    "    for (unsigned long long n = (unsigned long long)y; n; n >>= 1, by *= by)\n"
    "        power *= n & 1 ? by : 1;\n"
    "    return (T)power;\n"
    "}\n"
    "template <class T> static __device__ T shift_left(T x, T by) { return low_bits(by) < 8 * "
    "sizeof(T) ? (T)(low_bits(x) << by) : (T)0; }\n"
    "template <class T> static __device__ T shift_right(T x, T by) { return low_bits(by) < 8 * "
    "sizeof(T) ? (T)(low_bits(x) >> by) : (T)0; }\n"
    "template <class T> static __device__ T shift_sign(T x, T by)\n"
    "{\n"
    "    const unsigned long long n = 8 * sizeof(T), most = low_bits(by) < n ? low_bits(by) : n - "
    "1;\n"
    "    return (T)((long long)(low_bits(x) << (64 - n)) >> (64 - n) >> most);\n"
    "}\n"
    "template <class T> static __device__ T ones(T x) { T n = 0; for (unsigned long long b = "
    "low_bits(x); b; b &= b - 1) n++; return n; }\n"
    "template <class T> static __device__ T leading_zeros(T x) { T n = 8 * sizeof(T); for "
    "(unsigned "
    "long long b = low_bits(x); b; b >>= 1) n--; return n; }\n"
    "template <class T> static __device__ long long within(T x, long long most) { return x < 0 ? 0 "
    ": (unsigned long long)x > (unsigned long long)most ? most : (long long)x; }\n";

/* By enum elem: the type in memory; in a register; of sums that wrap around; the least and the most. */
static const struct {
    const char *memory, *value, *bits, *least, *most;
} TYPES[ELEM_N] = {
    [ELEM_F32] = {"float", "float", NULL, NULL, NULL},
    [ELEM_F64] = {"double", "double", NULL, NULL, NULL},
    [ELEM_F16] = {"f16", "float", NULL, NULL, NULL},
    [ELEM_BF16] = {"bf16", "float", NULL, NULL, NULL},
    [ELEM_I1] = {"bool", "bool", NULL, NULL, NULL},
    [ELEM_I8] = {"signed char", "signed char", "unsigned", "-128", "127"},
    [ELEM_I16] = {"short", "short", "unsigned", "-32768", "32767"},
    [ELEM_I32] = {"int", "int", "unsigned", "-2147483647 - 1", "2147483647"},
    [ELEM_I64] = {"long long", "long long", "unsigned long long", "-9223372036854775807ll - 1",
                  "9223372036854775807ll"},
    [ELEM_U8] = {"unsigned char", "unsigned char", "unsigned", "0", "255"},
    [ELEM_U16] = {"unsigned short", "unsigned short", "unsigned", "0", "65535"},
    [ELEM_U32] = {"unsigned", "unsigned", "unsigned", "0", "4294967295u"},
    [ELEM_U64] = {"unsigned long long", "unsigned long long", "unsigned long long", "0",
                  "18446744073709551615ull"},
};

static const char *memory_of(enum elem elem) { return TYPES[elem].memory; }
static const char *value_type(enum elem elem) { return TYPES[elem].value; }

/* Expressions of the operands @ and #. On floats, "$" is the f of a function on f32. On whole numbers, T is their
 * type and U the one that wraps around. On truth values. */
static const struct {
    const char *f, *i, *b;
} TEXTS[OP_N] = {
    [OP_ABS] = {"fabs$(@)", "(T)(@ < 0 ? (U)0 - (U)@ : (U)@)", NULL},
    [OP_NEGATE] = {"-@", "(T)((U)0 - (U)@)", NULL},
    [OP_SIGN] = {"signum(@)", "(T)((@ > 0) - (@ < 0))", NULL},
    [OP_EXP] = {"exp$(@)", NULL, NULL},
    [OP_EXPM1] = {"expm1$(@)", NULL, NULL},
    [OP_LOG] = {"log$(@)", NULL, NULL},
    [OP_LOG1P] = {"log1p$(@)", NULL, NULL},
    [OP_LOGISTIC] = {"1.0f / (1.0f + exp$(-@))", NULL, NULL},
    [OP_TANH] = {"tanh$(@)", NULL, NULL},
    [OP_SQRT] = {"sqrt$(@)", NULL, NULL},
    [OP_RSQRT] = {"1.0f / sqrt$(@)", NULL, NULL},
    [OP_SINE] = {"sin$(@)", NULL, NULL},
    [OP_COSINE] = {"cos$(@)", NULL, NULL},
    [OP_TAN] = {"tan$(@)", NULL, NULL},
    [OP_CBRT] = {"cbrt$(@)", NULL, NULL},
    [OP_ERF] = {"erf$(@)", NULL, NULL},
    [OP_ERFC] = {"erfc$(@)", NULL, NULL},
    [OP_ERF_INV] = {"erfinv$(@)", NULL, NULL},
    [OP_LGAMMA] = {"lgamma$(@)", NULL, NULL},
    [OP_SINH] = {"sinh$(@)", NULL, NULL},
    [OP_COSH] = {"cosh$(@)", NULL, NULL},
    [OP_ASIN] = {"asin$(@)", NULL, NULL},
    [OP_ACOS] = {"acos$(@)", NULL, NULL},
    [OP_ATAN] = {"atan$(@)", NULL, NULL},
    [OP_ASINH] = {"asinh$(@)", NULL, NULL},
    [OP_ACOSH] = {"acosh$(@)", NULL, NULL},
    [OP_ATANH] = {"atanh$(@)", NULL, NULL},
    [OP_ROUND] = {"round$(@)", NULL, NULL},
    [OP_ROUND_EVEN] = {"rint$(@)", NULL, NULL},
    [OP_FLOOR] = {"floor$(@)", NULL, NULL},
    [OP_CEIL] = {"ceil$(@)", NULL, NULL},
    [OP_POPCNT] = {NULL, "ones(@)", NULL},
    [OP_CLZ] = {NULL, "leading_zeros(@)", NULL},
    [OP_NOT] = {NULL, "(T)~@", "!@"},
    [OP_ADD] = {"@ + #", "(T)((U)@ + (U)#)", NULL},
    [OP_SUBTRACT] = {"@ - #", "(T)((U)@ - (U)#)", NULL},
    [OP_MULTIPLY] = {"@ * #", "(T)((U)@ * (U)#)", NULL},
    [OP_DIVIDE] = {"@ / #", "quotient(@, #)", NULL},
    [OP_REMAINDER] = {"fmod$(@, #)", "rest(@, #)", NULL},
    [OP_POWER] = {"pow$(@, #)", "to_power(@, #)", NULL},
    [OP_ATAN2] = {"atan2$(@, #)", NULL, NULL},
    [OP_SHIFT_LEFT] = {NULL, "shift_left(@, #)", NULL},
    [OP_SHIFT_RIGHT] = {NULL, "shift_right(@, #)", NULL},
    [OP_SHIFT_SIGN] = {NULL, "shift_sign(@, #)", NULL},
    [OP_MAXIMUM] = {"larger(@, #)", "larger(@, #)", "@ || #"},
    [OP_MINIMUM] = {"smaller(@, #)", "smaller(@, #)", "@ && #"},
    [OP_AND] = {NULL, "(T)(@ & #)", "@ && #"},
    [OP_OR] = {NULL, "(T)(@ | #)", "@ || #"},
    [OP_XOR] = {NULL, "(T)(@ ^ #)", "@ != #"},
};

struct value {
    uint32_t op;    /* that computes it; NONE: an argument of a function or of a loop's body */
    uint32_t place; /* the value whose memory it has; itself, or one with a place in turn */
    uint32_t block; /* that defines it */
    uint32_t uses;  /* of it by operations that count */
    uint32_t read;  /* the last operation that reads it, or that computes what reads it */
    uint32_t carry; /* which of the values that a loop's body returns; NONE: no one */
    uint32_t arg;   /* its number in the kernel being written, if it has one */
    uint32_t draft; /* at the end of a trip: the draft that writes to it, + 1; 0: none */
    uint8_t depth;  /* of the fused operations below it */
    uint8_t size;   /* how many they are */
    uint16_t bytes; /* that they read for an element */
    uint16_t flops; /* that they take for an element */
    bool stored;
    bool must_store; /* a result, or an operand of a product */
    bool crosses;    /* an operation of an inner loop uses it */
    bool late; /* a loop carries it, and nothing else uses it: computed at the end of a trip */
};

struct index {
    uint32_t at[PROGRAM_RANK_MAX]; /* names, or ZERO */
};

/* An index of the element that the kernel writes, in a tensor of this type. */
struct own {
    const struct tensor *type;
    struct index index;
};

/* An index that is first + step × of, with `of` below n. */
struct steps {
    uint32_t name, of;
    int64_t first, step, n;
};

struct kernel {
    uint8_t *text;
    size_t len;
};

/* A declaration that an equal one can take the place of. */
struct let {
    uint64_t hash;
    size_t line, at, len; /* in `body`: where it begins; its expression */
    const char *type;
    uint32_t name;
};

/* A value that a kernel reads. */
struct arg {
    uint32_t value;
    bool elsewhere; /* other elements of it than the one that the thread writes */
};

/* Code that computes a value. Launches are made of one or several. */
struct draft {
    struct writer body;
    VECTOR(struct arg) args;
    int64_t n;         /* elements that it writes */
    int64_t work;      /* how often its innermost statement runs */
    uint32_t value;    /* what it computes */
    uint32_t to;       /* what it writes */
    uint32_t products; /* one behind the other, in its group up to it */
    bool conflict;     /* it reads other elements of `to` */
    bool slice;        /* it writes other elements than its own */
    bool is_product;
    bool compares; /* struct launch */
    bool done;
};

struct gen {
    const struct program *p;
    uint32_t side_names[SIDE_NAMES_MAX]; /* by value of the side function being written */
    uint32_t side_first;                 /* its first value */
    struct codegen *out;
    struct value *values;
    struct writer body;      /* of the kernel being written */
    uint32_t names;          /* so far */
    struct let let;          /* the declaration being written */
    VECTOR(struct let) lets; /* in scope */
    struct slots let_slots;
    struct own owns[OWNS_MAX]; /* the first one is of what it computes */
    uint32_t n_owns;
    struct steps steps[STEPS_MAX];
    uint32_t n_steps;
    uint32_t target;            /* the value that the kernel writes in place; NONE */
    uint32_t target_at;         /* the element that it writes */
    bool conflict;              /* it reads other elements of `target` */
    int64_t rounds, work;       /* of the open loops; the most so far */
    int64_t n_most;             /* elements of any tensor that the kernel has indices of */
    VECTOR(struct draft) group; /* of the launch being made */
    uint32_t *origins;          /* of program_origins */
    uint32_t forward;           /* of the function */
    VECTOR(struct arg) args;    /* values that the kernel reads */
    VECTOR(struct kernel) kernels;
    struct slots kernel_slots;
    bool failed;
    bool fault;    /* a promise of this file was broken */
    bool too_big;  /* a grid */
    bool too_many; /* arguments */
};

/* Checks a promise. If it is broken, there is no code. */
#define GEN_EXPECT(g, promise) (WARM_EXPECT(promise) || gen_broken(g))

/* Notes a broken promise. Returns false. Use GEN_EXPECT. */
static bool gen_broken(struct gen *g)
{
    g->failed = g->fault = true;
    return false;
}

/* ---- which values are stored ---- */

static bool is_splat(const struct program *p, const struct operation *op)
{
    return op->op == OP_CONSTANT && p->ints.at[op->ints + 1];
}

/* True for values that cost less to compute again than to load. */
static bool is_cheap(const struct gen *g, const struct operation *op)
{
    if (op->op == OP_BROADCAST) {
        uint32_t x = g->p->operands.at[op->operands], by = g->values[x].op;
        return by != PROGRAM_NONE && !g->values[x].stored && is_splat(g->p, &g->p->ops.at[by]);
    }
    return op->op == OP_IOTA || is_splat(g->p, op);
}

static uint32_t place_value(const struct gen *g, uint32_t value)
{
    while (g->values[value].place != value)
        value = g->values[value].place;
    return value;
}

/* True for an operation whose elements are those of its operand, or padding. */
static bool is_view(enum op op)
{
    return op == OP_WINDOW || op == OP_UNWINDOW || op == OP_PAD || op == OP_RESHAPE ||
           op == OP_TRANSPOSE || op == OP_REVERSE || op == OP_BROADCAST;
}

/* Returns the tensor that is stored for a product's operand: itself, or what it has in another shape, or what it
 * has windows of (convolutions; parts of a sum). Those would take many times its memory. */
static uint32_t part_of(const struct gen *g, uint32_t value)
{
    const struct program *p = g->p;
    bool windows = false, same = true;
    for (uint32_t at = value, by; (by = g->values[at].op) != PROGRAM_NONE;) {
        const struct operation *op = &p->ops.at[by];
        if (!is_view(op->op) || g->values[value].must_store)
            break;
        windows |= op->op == OP_WINDOW || op->op == OP_UNWINDOW;
        same &= op->op == OP_RESHAPE;
        at = p->operands.at[op->operands];
        value = windows || same ? at : value;
    }
    return value;
}

/* Returns how far an operand's elements along a dimension are from each other in memory. */
static int64_t stride_of(const struct gen *g, uint32_t value, uint32_t d)
{
    const struct program *p = g->p;
    for (int64_t steps = 1;;) {
        const struct tensor *t = program_tensor(p, value);
        int64_t stride = 1;
        for (uint32_t i = t->rank; i-- > d + 1;)
            stride *= t->dims[i];
        const struct operation *op =
            g->values[value].stored ? NULL : &p->ops.at[g->values[value].op];
        if (!op || !is_view(op->op))
            return steps * stride;
        const int64_t *ints = p->ints.at + op->ints;
        value = p->operands.at[op->operands];
        const struct tensor *of = program_tensor(p, value);
        uint32_t r = op->op == OP_WINDOW ? of->rank : op->op == OP_UNWINDOW ? op->n_ints / 4 : 0;
        if (r) {
            bool inner = d >= r;
            for (uint32_t k = d - r, i = 0; inner && d >= r; i++) /* the dimension of the window */
                if (ints[i] > 1 && k-- == 0)
                    d = i;
            steps *= inner ? ints[2 * r + d] : op->op == OP_WINDOW ? ints[r + d] : 1;
        } else if (op->op == OP_TRANSPOSE) {
            d = (uint32_t)ints[d];
        } else if (op->op == OP_BROADCAST) {
            uint32_t i = 0;
            while (i < of->rank && ints[i] != d)
                i++;
            if (i == of->rank || of->dims[i] == 1)
                return 0;
            d = i;
        } else if (op->op == OP_RESHAPE) {
            int64_t whole = steps * stride, behind = 1;
            d = of->rank;
            while (d > 1 && behind * of->dims[d - 1] <= whole)
                behind *= of->dims[--d];
            d -= d > 0;
            steps = whole / behind;
        }
    }
}

static bool is_counted(const struct gen *g, const struct operation *loop)
{
    struct counted counted;
    return program_counted(g->p, g->origins, loop, &counted);
}

/* Notes the operation and the block of each value, and how often it is used. The condition of a loop whose trips
 * are counted has no code. */
static void count_uses(struct gen *g, uint32_t block)
{
    const struct program *p = g->p;
    const struct block *b = &p->blocks.at[block];
    for (uint32_t i = 0; i < b->n_args; i++)
        g->values[b->args + i].block = block;
    for (uint32_t i = b->first; i < b->end; i = p->ops.at[i].next) {
        const struct operation *op = &p->ops.at[i];
        for (uint32_t k = 0; k < op->n_results; k++) {
            g->values[op->results + k].op = op->op == OP_WHILE ? PROGRAM_NONE : i;
            g->values[op->results + k].block = block;
        }
        for (uint32_t k = 0; k < op->n_operands; k++) {
            struct value *v = &g->values[p->operands.at[op->operands + k]];
            v->uses++;
            v->crosses |= v->block != block;
            v->must_store |= op->op == OP_RANK || op->op == OP_SCATTER || op->op == OP_CHAIN;
            if (op->op == OP_DOT)
                g->values[part_of(g, p->operands.at[op->operands + k])].must_store = true;
        }
        if (op->op == OP_WHILE) {
            count_uses(g, (uint32_t)p->ints.at[op->ints + 1]);
            if (!is_counted(g, op))
                count_uses(g, (uint32_t)p->ints.at[op->ints]);
        }
    }
    for (uint32_t i = 0; i < b->n_results; i++) {
        struct value *v = &g->values[p->operands.at[b->results + i]];
        v->must_store = true;
        v->uses++;
    }
}

/* Returns the f32 operations that an element of a result takes. */
static uint32_t flops_of(enum op op)
{
    switch (op) {
    case OP_EXP:
    case OP_EXPM1:
    case OP_LOG:
    case OP_LOG1P:
    case OP_LOGISTIC:
    case OP_TANH:
    case OP_SINE:
    case OP_COSINE:
    case OP_POWER:
    case OP_REMAINDER: return CODEGEN_SLOW;
    case OP_DIVIDE:
    case OP_SQRT:
    case OP_RSQRT: return CODEGEN_SLOW / 2;
    default: return 1;
    }
}

/* True if it costs less to store a value than to compute it for each use (codegen.h). */
static bool is_worth_storing(const struct value *v)
{
    double again = v->bytes + (double)v->flops / VJP_FLOPS_PER_BYTE;
    return v->uses > 1 && 4 + 4.0 * v->uses <= v->uses * again;
}

static void choose_value(struct gen *g, const struct operation *op)
{
    const struct program *p = g->p;
    struct value *v = &g->values[op->results];
    uint32_t depth = 1, size = 1, bytes = 0, flops = flops_of(op->op);
    for (uint32_t k = 0; k < op->n_operands; k++) {
        uint32_t operand = p->operands.at[op->operands + k];
        const struct value *x = &g->values[operand];
        depth = !x->stored && x->depth >= depth ? x->depth + 1u : depth;
        size += x->stored ? 0 : x->size;
        bytes += !x->stored ? x->bytes : program_tensor(p, operand)->n > 1 ? 4 : 0;
        flops += x->stored ? 0 : x->flops;
    }
    (void)GEN_EXPECT(g, depth <= FUSED_DEPTH_MAX); /* a deeper operand is stored */
    v->depth = (uint8_t)depth;
    v->size = size < UINT8_MAX ? (uint8_t)size : UINT8_MAX;
    v->bytes = bytes < UINT16_MAX ? (uint16_t)bytes : UINT16_MAX;
    v->flops = flops < UINT16_MAX ? (uint16_t)flops : UINT16_MAX;
    v->stored = v->must_store || program_has_loop(op->op) ||
                (op->op == OP_CONSTANT && !is_splat(p, op)) || depth >= FUSED_DEPTH_MAX ||
                size >= FUSED_OPS_MAX || (v->crosses && !is_cheap(g, op)) ||
                (is_worth_storing(v) && !is_cheap(g, op));
}

/* Places the carried values of a loop where its results are. */
static void choose_places(struct gen *g, const struct operation *op, uint32_t block)
{
    const struct program *p = g->p;
    const struct block *body = program_loop_block(p, op, 1);
    (void)GEN_EXPECT(g, op->op == OP_WHILE && op->n_results == op->n_operands &&
                            body->n_results == op->n_operands);
    for (uint32_t k = 0; k < op->n_operands && !g->failed; k++) {
        uint32_t operand = p->operands.at[op->operands + k],
                 returned = p->operands.at[body->results + k], maker = g->origins[operand];
        struct value *x = &g->values[operand];
        /* of an operation of the body, and returned once: program_flatten sees to it */
        (void)GEN_EXPECT(
            g, g->values[returned].op != PROGRAM_NONE && g->values[returned].op >= body->first &&
                   g->values[returned].op < body->end && g->values[returned].carry == PROGRAM_NONE);
        g->values[body->args + k].place = op->results + k;
        g->values[program_loop_block(p, op, 0)->args + k].place = op->results + k;
        g->values[returned].carry = k;
        g->values[returned].late = g->values[returned].uses == 1;
        bool made =
            maker != PROGRAM_NONE && x->block == block && operand >= p->ops.at[maker].results;
        if (made && x->stored && x->uses == 1 && p->ops.at[maker].op != OP_CONSTANT)
            x->place = op->results + k; /* its own launch writes there */
    }
}

static void choose_stored(struct gen *g, uint32_t block)
{
    const struct program *p = g->p;
    const struct block *b = &p->blocks.at[block];
    for (uint32_t i = b->first; i < b->end; i = p->ops.at[i].next) {
        const struct operation *op = &p->ops.at[i];
        if (op->op != OP_WHILE) {
            choose_value(g, op);
            continue;
        }
        choose_places(g, op, block);
        choose_stored(g, (uint32_t)p->ints.at[op->ints + 1]);
        if (!is_counted(g, op))
            choose_stored(g, (uint32_t)p->ints.at[op->ints]);
    }
}

/* Finds the last operation that reads each value: it is stored, or computed at the end of a trip. */
static void find_readers(struct gen *g, uint32_t block)
{
    const struct program *p = g->p;
    VECTOR(uint32_t) ops = {NULL, 0, 0};
    const struct block *b = &p->blocks.at[block];
    for (uint32_t i = b->first; i < b->end; i = p->ops.at[i].next)
        PUSH(g, ops, i);
    while (ops.n && !g->failed) {
        uint32_t i = ops.at[--ops.n];
        const struct operation *op = &p->ops.at[i];
        const struct value *v = &g->values[op->results];
        uint32_t at = op->op == OP_WHILE ? i : v->late ? b->end : v->stored ? i : v->read;
        if (op->op == OP_WHILE) {
            find_readers(g, (uint32_t)p->ints.at[op->ints + 1]);
            if (!is_counted(g, op))
                find_readers(g, (uint32_t)p->ints.at[op->ints]);
        }
        for (uint32_t k = 0; k < op->n_operands; k++) {
            struct value *x = &g->values[p->operands.at[op->operands + k]];
            x->read = x->read > at ? x->read : at;
        }
    }
    free(ops.at);
}

/* ---- statements ---- */

#define SAY(g, ...) writer_format(&(g)->body, __VA_ARGS__)

/* Writes "const TYPE tN = ", and returns N. The caller writes the rest, and calls settled. */
static uint32_t let(struct gen *g, const char *type)
{
    g->let = (struct let){.line = g->body.len, .type = type, .name = g->names};
    SAY(g, "    const %s t%u = ", type, g->names);
    g->let.at = g->body.len;
    return g->names++;
}

/* Ends a declaration. If an equal one is in scope, takes it back and returns the name of that one. */
static uint32_t settled(struct gen *g, uint32_t name)
{
    (void)GEN_EXPECT(g, name + 1 == g->names && g->let.name == name); /* the last one */
    struct let new = g->let;
    if (g->body.failed)
        return name;
    new.len = g->body.len - new.at;
    new.hash = XXH3_64bits(g->body.data + new.at, new.len);
    g->failed |= !slots_reserve(&g->let_slots);
    if (g->failed)
        return name;
    SLOTS_EACH(&g->let_slots, new.hash, i)
    {
        const struct let *old = &g->lets.at[i];
        if (old->type != new.type || old->len != new.len ||
            memcmp(g->body.data + old->at, g->body.data + new.at, new.len) != 0)
            continue;
        g->body.len = new.line;
        g->names--;
        return old->name;
    }
    slots_add(&g->let_slots, new.hash, g->lets.n);
    PUSH(g, g->lets, new);
    return name;
}

/* Ends the scope of all declarations but the first n. */
static void forget_lets(struct gen *g, uint32_t n)
{
    (void)GEN_EXPECT(g, n <= g->lets.n);
    for (; g->lets.n > n; g->lets.n--)
        slots_take(&g->let_slots, g->lets.at[g->lets.n - 1].hash, g->lets.n - 1);
}

/* Writes an index or 0. */
static void say_index(struct gen *g, uint32_t name)
{
    (void)GEN_EXPECT(g, name == ZERO || name < g->names);
    if (name == ZERO)
        SAY(g, "0");
    else
        SAY(g, "t%u", name);
}

/* True if an index of a tensor is `own`, which has the place of the element that the kernel writes: dimensions
 * of one element aside, both tensors have the same ones, and the indices are equal. */
static bool is_own(const struct own *own, const struct tensor *t, const struct index *index)
{
    for (uint32_t i = 0, k = 0;; i++, k++) {
        while (i < t->rank && t->dims[i] == 1)
            i++;
        while (k < own->type->rank && own->type->dims[k] == 1)
            k++;
        if (i == t->rank || k == own->type->rank)
            return i == t->rank && k == own->type->rank;
        if (t->dims[i] != own->type->dims[k] || index->at[i] != own->index.at[k])
            return false;
    }
}

/* Notes an index that has the place of the element that the kernel writes. */
static void add_own(struct gen *g, const struct tensor *t, const struct index *index)
{
    if (g->n_owns < OWNS_MAX)
        g->owns[g->n_owns++] = (struct own){t, *index};
}

/* Declares the place of an index in a row-major tensor. */
static uint32_t place_of(struct gen *g, const struct tensor *t, const struct index *index)
{
    int64_t stride = 1;
    bool first = true;
    for (uint32_t i = 0; i < g->n_owns; i++)
        if (is_own(&g->owns[i], t, index))
            return 0;
    uint32_t name = let(g, "place_t");
    for (uint32_t d = t->rank; d-- > 0; stride *= t->dims[d]) {
        if (index->at[d] == ZERO)
            continue;
        SAY(g, first ? "t%u * %" PRId64 "" : " + t%u * %" PRId64 "", index->at[d], stride);
        first = false;
    }
    SAY(g, first ? "0;\n" : ";\n");
    return settled(g, name);
}

/* Returns the steps of an index; NULL if it has none that are known. */
static const struct steps *steps_of(const struct gen *g, uint32_t name)
{
    static const struct steps zero = {.name = ZERO, .of = ZERO, .step = 1, .n = 1};
    for (uint32_t i = 0; i < g->n_steps; i++)
        if (g->steps[i].name == name)
            return &g->steps[i];
    return name == ZERO ? &zero : NULL;
}

static void add_steps(struct gen *g, const struct steps *s)
{
    if (!steps_of(g, s->name) && g->n_steps < STEPS_MAX)
        g->steps[g->n_steps++] = *s;
}

/* Declares the index of a place in a row-major tensor. */
static struct index index_of(struct gen *g, const struct tensor *t, uint32_t place)
{
    struct index index = {{0}};
    int64_t stride = 1;
    for (uint32_t d = t->rank; d-- > 0; stride *= t->dims[d]) {
        index.at[d] = ZERO;
        if (t->dims[d] == 1)
            continue;
        index.at[d] = let(g, "place_t");
        if (stride * t->dims[d] == t->n) /* the outermost one */
            SAY(g, "t%u / %" PRId64 ";\n", place, stride);
        else
            SAY(g, "t%u / %" PRId64 " %% %" PRId64 ";\n", place, stride,
                t->dims[d] > 0 ? t->dims[d] : 1);
        index.at[d] = settled(g, index.at[d]);
        add_steps(g, &(struct steps){index.at[d], index.at[d], 0, 1, t->dims[d]});
    }
    return index;
}

/* Returns the number of the kernel's argument for a stored value, whose element at `place` it reads. */
static uint32_t arg_of(struct gen *g, uint32_t value, uint32_t place)
{
    uint32_t i = g->values[value].arg;
    if (i >= g->args.n || g->args.at[i].value != value) {
        i = g->values[value].arg = g->args.n;
        PUSH(g, g->args, (struct arg){value, false});
    }
    if (i < g->args.n)
        g->args.at[i].elsewhere |= place != 0;
    return i;
}

/* Declares the element of a stored value at a place. */
static uint32_t emit_stored(struct gen *g, uint32_t value, uint32_t place)
{
    const struct tensor *t = program_tensor(g->p, value);
    value = place_value(g, value);
    uint32_t arg = arg_of(g, value, place), name = let(g, value_type(t->elem));
    bool half = t->elem == ELEM_F16 || t->elem == ELEM_BF16;
    g->conflict |= value == g->target && place != g->target_at;
    SAY(g, half ? "value_of(p%u[t%u]);\n" : "p%u[t%u];\n", arg, place);
    return settled(g, name);
}

static uint32_t emit(struct gen *g, uint32_t value, const struct index *index);

static const struct tensor *operand_type(const struct gen *g, const struct operation *op,
                                         uint32_t i)
{
    return program_tensor(g->p, g->p->operands.at[op->operands + i]);
}

/* Declares the element of an operand. A scalar operand has one element for all indices. */
static uint32_t emit_operand(struct gen *g, const struct operation *op, uint32_t i,
                             const struct index *index)
{
    return emit(g, g->p->operands.at[op->operands + i], index);
}

/* Writes an expression with these operands, and ends the statement. */
static void say_text(struct gen *g, const char *text, enum elem elem, uint32_t x, uint32_t y)
{
    bool half = elem == ELEM_F16 || elem == ELEM_BF16, whole = program_is_whole(elem);
    if (half)
        SAY(g, "as_%s(", memory_of(elem));
    for (const char *at = text; *at; at++) {
        bool is_type = whole && (*at == 'T' || *at == 'U');
        if (*at == '@' || *at == '#') {
            uint32_t name = *at == '@' ? x : y;
            (void)GEN_EXPECT(g, name < g->names); /* it is declared */
            SAY(g, "t%u", name);
        } else if (is_type) {
            SAY(g, "%s", *at == 'T' ? value_type(elem) : TYPES[elem].bits);
        } else if (*at == '$') {
            SAY(g, elem == ELEM_F64 ? "" : "f");
        } else {
            writer_bytes(&g->body, at, 1);
        }
    }
    SAY(g, half ? ");\n" : ";\n");
}

/* Writes the expression of an operation. */
static void say_applied(struct gen *g, enum op op, enum elem elem, uint32_t x, uint32_t y)
{
    const char *text = program_is_float(elem)   ? TEXTS[op].f
                       : program_is_whole(elem) ? TEXTS[op].i
                                                : TEXTS[op].b;
    (void)GEN_EXPECT(g, text); /* check_op refuses other elements */
    say_text(g, text ? text : "0", elem, x, y);
}

/* Writes a step of a reduction. A compiler must not fuse an addition with what it adds: the bits of a sum do
 * not depend on the GPU. */
static void say_reduced(struct gen *g, enum op op, enum elem elem, uint32_t x, uint32_t y)
{
    const char *text = op == OP_ADD ? elem == ELEM_F64 ? "__dadd_rn(@, #)" : "__fadd_rn(@, #)"
                       : op == OP_MULTIPLY
                           ? elem == ELEM_F64 ? "__dmul_rn(@, #)" : "__fmul_rn(@, #)"
                           : NULL;
    if (text && program_is_float(elem))
        say_text(g, text, elem, x, y);
    else
        say_applied(g, op, elem, x, y);
}

/* ---- operations ---- */

static void say_converted(struct gen *g, enum elem to, enum elem from, uint32_t x)
{
    if (to == ELEM_I1)
        SAY(g, "t%u != 0;\n", x);
    else if (program_is_whole(to) && program_is_float(from))
        SAY(g, "to_whole<%s>(t%u, %s, %s);\n", value_type(to), x, TYPES[to].least, TYPES[to].most);
    else if (to == ELEM_F16 || to == ELEM_BF16)
        say_text(g, "(float)@", to, x, x);
    else
        SAY(g, "(%s)t%u;\n", value_type(to), x);
}

/* Writes an element of `to` with the bytes of one of `from`. */
static void say_bitcast(struct gen *g, enum elem to, enum elem from, uint32_t x)
{
    bool half = program_elem_size(to) == 2;
    if (to == from || (program_is_whole(to) && program_is_whole(from)))
        SAY(g, "(%s)t%u;\n", value_type(to), x);
    else if (program_is_whole(to))
        SAY(g, "(%s)%s%s(t%u);\n", value_type(to), half ? "bits_of_" : "bits_of",
            half ? memory_of(from) : "", x);
    else if (half)
        SAY(g, "value_of(%s{(unsigned short)t%u});\n", memory_of(to), x);
    else
        SAY(g, "of_bits((%s)t%u);\n",
            program_elem_size(to) == 8 ? "unsigned long long" : "unsigned", x);
}

static uint32_t emit_elements(struct gen *g, const struct operation *op, const struct index *index)
{
    static const char *const DIRECTIONS[] = {"==", "!=", ">=", ">", "<=", "<"};
    enum elem elem = program_tensor(g->p, op->results)->elem, from = operand_type(g, op, 0)->elem;
    uint32_t x[3] = {0}, name;
    for (uint32_t i = 0; i < op->n_operands; i++)
        x[i] = emit_operand(g, op, i, index);
    if (op->op == OP_CLAMP) {
        uint32_t low = let(g, value_type(elem));
        say_applied(g, OP_MAXIMUM, elem, x[0], x[1]);
        low = settled(g, low);
        name = let(g, value_type(elem));
        say_applied(g, OP_MINIMUM, elem, low, x[2]);
        return settled(g, name);
    }
    name = let(g, value_type(elem));
    if (op->op == OP_COMPARE)
        SAY(g, g->p->ints.at[op->ints + 1] ? "ordered(t%u) %s ordered(t%u);\n" : "t%u %s t%u;\n",
            x[0], DIRECTIONS[g->p->ints.at[op->ints]], x[1]);
    else if (op->op == OP_IS_FINITE)
        SAY(g, "t%u - t%u == 0;\n", x[0], x[0]);
    else if (op->op == OP_BITCAST)
        say_bitcast(g, elem, from, x[0]);
    else if (op->op == OP_SELECT)
        SAY(g, "t%u ? t%u : t%u;\n", x[0], x[1], x[2]);
    else if (op->op == OP_CONVERT)
        say_converted(g, elem, from, x[0]);
    else
        say_applied(g, op->op, elem, x[0], x[1]);
    return settled(g, name);
}

static uint32_t emit_constant(struct gen *g, const struct operation *op)
{
    enum elem elem = program_tensor(g->p, op->results)->elem;
    const uint8_t *at = g->p->data.at + g->p->ints.at[op->ints];
    (void)GEN_EXPECT(g, elem != ELEM_I1 || at[0] <= 1);
    uint32_t name = let(g, value_type(elem));
    uint64_t bits = 0;
    memcpy(&bits, at, program_elem_size(elem));
    if (elem == ELEM_I1)
        SAY(g, bits ? "true;\n" : "false;\n");
    else if (program_is_whole(elem))
        SAY(g, "(%s)0x%" PRIx64 "%s;\n", value_type(elem), bits, bits > UINT32_MAX ? "ull" : "u");
    else if (elem == ELEM_F32)
        SAY(g, "of_bits(0x%08" PRIx64 "u);\n", bits);
    else if (elem == ELEM_F64)
        SAY(g, "of_bits(0x%016" PRIx64 "ull);\n", bits);
    else
        SAY(g, "value_of(%s{0x%" PRIx64 "});\n", memory_of(elem), bits);
    return settled(g, name);
}

/* Declares the first index of a dynamic slice of `size` elements in a dimension of n. */
static uint32_t emit_start(struct gen *g, const struct operation *op, uint32_t operand, int64_t n,
                           int64_t size)
{
    struct index none = {{0}};
    uint32_t at = emit_operand(g, op, operand, &none), name = let(g, "place_t");
    SAY(g, "within(t%u, %" PRId64 ");\n", at, n - size);
    return settled(g, name);
}

/* Declares first + step × index. The index is below n. */
static uint32_t emit_steps(struct gen *g, int64_t first, int64_t step, uint32_t index, int64_t n)
{
    if (first == 0 && step == 1)
        return index;
    uint32_t name = let(g, "place_t");
    SAY(g, "%" PRId64 " + %" PRId64 " * ", first, step);
    say_index(g, index);
    SAY(g, ";\n");
    name = settled(g, name);
    add_steps(g, &(struct steps){name, index, first, step, n});
    return name;
}

/* Declares the index of an operand that a view of it has at `index`, and the operand's element there. */
static uint32_t emit_view(struct gen *g, const struct operation *op, const struct index *index)
{
    const struct tensor *of = operand_type(g, op, 0), *t = program_tensor(g->p, op->results);
    const int64_t *ints = g->p->ints.at + op->ints;
    struct index to = {{0}};
    if (op->op == OP_RESHAPE) {
        uint32_t place = place_of(g, t, index), x = g->p->operands.at[op->operands];
        if (g->values[x].stored)
            return emit_stored(g, x, place);
        to = index_of(g, of, place);
        if (place == 0)
            add_own(g, of, &to);
        return emit_operand(g, op, 0, &to);
    }
    for (uint32_t d = 0; d < of->rank; d++) {
        if (op->op == OP_BROADCAST) {
            to.at[d] = of->dims[d] == 1 ? ZERO : index->at[ints[d]];
        } else if (op->op == OP_REVERSE) {
            to.at[d] = index->at[d];
        } else if (op->op == OP_TRANSPOSE) {
            to.at[ints[d]] = index->at[d];
        } else if (op->op == OP_SLICE) {
            to.at[d] = emit_steps(g, ints[d], ints[2 * of->rank + d], index->at[d], t->dims[d]);
        } else { /* OP_DYNAMIC_SLICE */
            uint32_t start = emit_start(g, op, 1 + d, of->dims[d], t->dims[d]);
            to.at[d] = let(g, "place_t");
            SAY(g, "t%u + ", start);
            say_index(g, index->at[d]);
            SAY(g, ";\n");
            to.at[d] = settled(g, to.at[d]);
        }
    }
    for (uint32_t i = 0; op->op == OP_REVERSE && i < op->n_ints; i++)
        to.at[ints[i]] =
            emit_steps(g, t->dims[ints[i]] - 1, -1, index->at[ints[i]], t->dims[ints[i]]);
    return emit_operand(g, op, 0, &to);
}

/* Declares a truth value: all of these names, or true. */
static uint32_t emit_all(struct gen *g, const uint32_t *names, uint32_t n)
{
    uint32_t name = let(g, "bool");
    for (uint32_t i = 0; i < n; i++)
        SAY(g, i ? " && t%u" : "t%u", names[i]);
    SAY(g, n ? ";\n" : "true;\n");
    return settled(g, name);
}

static uint32_t emit_choice(struct gen *g, enum elem elem, uint32_t which, uint32_t x, uint32_t y)
{
    uint32_t name = let(g, value_type(elem));
    SAY(g, "t%u ? t%u : t%u;\n", which, x, y);
    return settled(g, name);
}

/* True if an index of a padded dimension is always one of x's n, which stand at `low` and every `every` behind it.
 * Gives x's index. So a slice of padding, as a gradient of a slice has it, reads x where it was written. */
static bool is_inside(struct gen *g, uint32_t index, int64_t low, int64_t every, int64_t n,
                      uint32_t *out)
{
    const struct steps *s = steps_of(g, index);
    if (!s || s->step % every || (s->first - low) % every)
        return false;
    int64_t first = (s->first - low) / every, step = s->step / every;
    if (first < 0 || first + step * (s->n - 1) >= n)
        return false;
    *out = first == 0 && step == 1 ? s->of : emit_steps(g, first, step, s->of, s->n);
    return true;
}

/* Declares the padding, or the element of x if the index is one of x's. x is read at index 0 if not. */
static uint32_t emit_pad(struct gen *g, const struct operation *op, const struct index *index)
{
    const struct tensor *of = operand_type(g, op, 0);
    const int64_t *low = g->p->ints.at + op->ints, *interior = low + 2 * of->rank;
    uint32_t fits[PROGRAM_RANK_MAX], n = 0, padding = emit_operand(g, op, 1, index);
    struct index to = {{0}};
    if (of->n == 0)
        return padding;
    for (uint32_t d = 0; d < of->rank; d++) {
        if (is_inside(g, index->at[d], low[d], interior[d] + 1, of->dims[d], &to.at[d]))
            continue;
        uint32_t from = let(g, "place_t");
        say_index(g, index->at[d]);
        SAY(g, " - %" PRId64 ";\n", low[d]);
        from = settled(g, from);
        uint32_t is = let(g, "bool");
        SAY(g, "t%u >= 0 && t%u %% %" PRId64 " == 0 && t%u / %" PRId64 " < %" PRId64 ";\n", from,
            from, interior[d] + 1, from, interior[d] + 1, of->dims[d]);
        is = fits[n++] = settled(g, is);
        to.at[d] = let(g, "place_t");
        SAY(g, "t%u ? t%u / %" PRId64 " : 0;\n", is, from, interior[d] + 1);
        to.at[d] = settled(g, to.at[d]);
    }
    uint32_t x = emit_operand(g, op, 0, &to);
    return n ? emit_choice(g, of->elem, emit_all(g, fits, n), x, padding) : x;
}

/* Declares the element that a window has. */
static uint32_t emit_window(struct gen *g, const struct operation *op, const struct index *index)
{
    const int64_t *size = g->p->ints.at + op->ints;
    uint32_t rank = operand_type(g, op, 0)->rank;
    struct index to = {{0}};
    for (uint32_t d = 0, inner = rank; d < rank; d++) {
        int64_t stride = size[rank + d], dilation = size[2 * rank + d];
        to.at[d] = index->at[d];
        if (size[d] == 1 && stride == 1)
            continue;
        to.at[d] = let(g, "place_t");
        say_index(g, index->at[d]);
        SAY(g, " * %" PRId64 " + ", stride);
        say_index(g, size[d] > 1 ? index->at[inner++] : ZERO);
        SAY(g, " * %" PRId64 ";\n", dilation);
        to.at[d] = settled(g, to.at[d]);
    }
    return emit_operand(g, op, 0, &to);
}

/* Declares the element of the windows that hold x's element and have it at this place; 0 if there is none. */
static uint32_t emit_unwindow(struct gen *g, const struct operation *op, const struct index *index)
{
    const struct tensor *of = operand_type(g, op, 0);
    uint32_t r = op->n_ints / 4, fits[PROGRAM_RANK_MAX], n = 0;
    const int64_t *size = g->p->ints.at + op->ints, *step = size + r, *dilation = step + r;
    struct index to = {{0}};
    if (of->n == 0) {
        uint32_t zero = let(g, value_type(of->elem));
        SAY(g, "0;\n");
        return settled(g, zero);
    }
    for (uint32_t d = 0, inner = r; d < r; d++) {
        uint32_t at = size[d] > 1 ? index->at[inner] : ZERO, from = let(g, "place_t");
        say_index(g, index->at[d]);
        SAY(g, " - ");
        say_index(g, at);
        SAY(g, " * %" PRId64 ";\n", dilation[d]);
        from = settled(g, from);
        fits[n] = let(g, "bool");
        SAY(g, "t%u >= 0 && t%u %% %" PRId64 " == 0 && t%u / %" PRId64 " < %" PRId64 ";\n", from,
            from, step[d], from, step[d], of->dims[d]);
        fits[n] = settled(g, fits[n]);
        to.at[d] = let(g, "place_t");
        SAY(g, "t%u ? t%u / %" PRId64 " : 0;\n", fits[n++], from, step[d]);
        to.at[d] = settled(g, to.at[d]);
        if (size[d] > 1)
            to.at[inner++] = at;
    }
    uint32_t x = emit_operand(g, op, 0, &to), all = emit_all(g, fits, n),
             name = let(g, value_type(of->elem));
    SAY(g, "t%u ? t%u : (%s)0;\n", all, x, value_type(of->elem));
    return settled(g, name);
}

/* ---- slices at indices of a tensor ---- */

/* Declares a component of the index vector of a slice. */
static uint32_t emit_component(struct gen *g, const struct operation *op, uint32_t indices,
                               const struct gather *slices, const struct index *index,
                               int component)
{
    struct index to = {{0}};
    const struct tensor *t = operand_type(g, op, indices);
    for (uint32_t d = 0; d < t->rank; d++)
        to.at[d] = slices->at[d] < 0 ? ZERO : index->at[slices->at[d]];
    for (uint32_t d = 0; d < t->rank && component; d++) {
        if (slices->at[d] >= 0)
            continue;
        to.at[d] = let(g, "place_t");
        SAY(g, "%d;\n", component);
        to.at[d] = settled(g, to.at[d]);
    }
    return emit_operand(g, op, indices, &to);
}

static uint32_t emit_gather(struct gen *g, const struct operation *op, const struct index *index)
{
    const struct tensor *x = operand_type(g, op, 0);
    struct gather slices;
    struct index to = {{0}};
    if (!GEN_EXPECT(
            g, gather_of(g->p->ints.at + op->ints, op->n_ints, x, operand_type(g, op, 1), &slices)))
        return 0;
    for (uint32_t d = 0; d < x->rank; d++) {
        uint32_t along = slices.along[d] < 0 ? ZERO : index->at[slices.along[d]];
        to.at[d] = along;
        if (slices.start[d] < 0)
            continue;
        uint32_t at = emit_component(g, op, 1, &slices, index, slices.start[d]),
                 start = let(g, "place_t");
        SAY(g, "within(t%u, %" PRId64 ");\n", at, x->dims[d] - slices.sizes[d]);
        start = to.at[d] = settled(g, start);
        if (along == ZERO)
            continue;
        to.at[d] = let(g, "place_t");
        SAY(g, "t%u + t%u;\n", start, along);
        to.at[d] = settled(g, to.at[d]);
    }
    return emit_operand(g, op, 0, &to);
}

/* Writes a loop over n indices, and returns the index. One index needs no loop. */
static uint32_t begin_loop(struct gen *g, int64_t n, uint32_t *n_loops)
{
    if (n == 1)
        return ZERO;
    uint32_t name = g->names++;
    ++*n_loops;
    SAY(g, "    for (long long t%u = 0; t%u < %" PRId64 "; t%u++) {\n", name, name, n, name);
    g->rounds = n && g->rounds < INT64_MAX / n ? g->rounds * n : g->rounds;
    g->work = g->rounds > g->work ? g->rounds : g->work;
    return name;
}

/* Ends n loops. Declarations after the first `lets` go out of scope. */
static void end_loops(struct gen *g, uint32_t n, uint32_t lets)
{
    for (uint32_t i = 0; i < n; i++)
        SAY(g, "    }\n");
    forget_lets(g, lets);
    g->rounds = 1; /* a reduction is always stored: its loops are the only ones */
}

/* Declares the index of slice number `at` among those of a scatter, and of its element that x's would be. */
static struct index slice_index(struct gen *g, const struct gather *slices,
                                const struct tensor *indices, uint32_t at)
{
    struct index index = {{0}};
    int64_t stride = 1;
    for (uint32_t d = 0; d < slices->rank; d++)
        index.at[d] = ZERO;
    for (uint32_t d = indices->rank; d-- > 0;) {
        if (slices->at[d] < 0)
            continue;
        uint32_t name = let(g, "place_t");
        SAY(g, "t%u / %" PRId64 " %% %" PRId64 ";\n", at, stride,
            indices->dims[d] ? indices->dims[d] : 1);
        index.at[slices->at[d]] = settled(g, name);
        stride *= indices->dims[d];
    }
    return index;
}

/* Declares x's element with all updates of it, in the order of the slices: each slice is asked. */
static uint32_t emit_scatter(struct gen *g, const struct operation *op, const struct index *index)
{
    const struct tensor *x = operand_type(g, op, 0), *indices = operand_type(g, op, 1);
    const int64_t *ints = g->p->ints.at + op->ints;
    struct gather slices;
    uint32_t sum = g->names++, first = emit_operand(g, op, 0, index), lets = g->lets.n, n = 0,
             k = 0, fits[PROGRAM_RANK_MAX];
    if (!GEN_EXPECT(g, gather_of(ints + 1, op->n_ints - 1, x, indices, &slices)))
        return sum;
    SAY(g, "    %s t%u = t%u;\n", value_type(x->elem), sum, first);
    if (operand_type(g, op, 2)->n == 0)
        return sum;
    uint32_t at = begin_loop(g, gather_count(&slices, indices), &n);
    if (at == ZERO) {
        at = let(g, "place_t");
        SAY(g, "0;\n");
        at = settled(g, at);
    }
    struct index of = slice_index(g, &slices, indices, at);
    for (uint32_t d = 0; d < x->rank; d++) {
        bool whole = slices.start[d] < 0;
        uint32_t start = whole ? 0 : emit_component(g, op, 1, &slices, &of, slices.start[d]),
                 from = let(g, "place_t");
        say_index(g, index->at[d]);
        if (whole && slices.along[d] >= 0 && of.at[slices.along[d]] != ZERO)
            SAY(g, " - t%u;\n", of.at[slices.along[d]]); /* a batch: it must be the same */
        else if (whole)
            SAY(g, ";\n");
        else
            SAY(g, " - (long long)t%u;\n", start);
        from = settled(g, from);
        bool batch = whole && slices.along[d] >= 0 && of.at[slices.along[d]] != ZERO;
        fits[k] = let(g, "bool");
        SAY(g, "t%u >= 0 && t%u < %" PRId64 ";\n", from, from, batch ? 1 : slices.sizes[d]);
        fits[k] = settled(g, fits[k]);
        k++;
        if (slices.along[d] >= 0 && !batch) {
            uint32_t name = let(g, "place_t");
            SAY(g, "t%u ? t%u : 0;\n", fits[k - 1], from);
            of.at[slices.along[d]] = settled(g, name);
        }
    }
    uint32_t all = emit_all(g, fits, k), update = emit_operand(g, op, 2, &of);
    SAY(g, "    if (t%u)\n    t%u = ", all, sum);
    if (ints[0] == OP_SELECT)
        SAY(g, "t%u;\n", update);
    else
        say_reduced(g, (enum op)ints[0], x->elem, sum, update);
    end_loops(g, n, lets);
    return sum;
}

/* Declares the next slice with equal indices: n if there is none; less n + 1 if none is before. */
static uint32_t emit_chain(struct gen *g, const struct operation *op, const struct index *index)
{
    const struct tensor *indices = operand_type(g, op, 0);
    struct gather slices;
    int64_t n_slices = program_tensor(g->p, op->results)->n;
    uint32_t next = g->names++, first = g->names++, lets = g->lets.n, n = 0;
    if (!GEN_EXPECT(g, gather_of_chain(g->p->ints.at + op->ints, op->n_ints, operand_type(g, op, 0),
                                       operand_type(g, op, 1), &slices)))
        return next;
    SAY(g, "    long long t%u = %" PRId64 ";\n    bool t%u = true;\n", next, n_slices, first);
    uint32_t me = index->at[0];
    if (me == ZERO) {
        me = let(g, "place_t");
        SAY(g, "0;\n");
        me = settled(g, me);
    }
    struct index mine = slice_index(g, &slices, indices, me);
    uint32_t at = begin_loop(g, n_slices, &n);
    if (at != ZERO) {
        struct index its = slice_index(g, &slices, indices, at);
        SAY(g, "    bool same = t%u != t%u;\n", at, me);
        for (uint32_t d = 0; d < PROGRAM_RANK_MAX; d++) {
            if (slices.start[d] >= 0) {
                uint32_t a = emit_component(g, op, 0, &slices, &mine, slices.start[d]),
                         b = emit_component(g, op, 0, &slices, &its, slices.start[d]);
                SAY(g, "    same = same && t%u == t%u;\n", a, b);
            } else if (slices.along[d] >= 0 && mine.at[slices.along[d]] != ZERO) {
                SAY(g, "    same = same && t%u == t%u;\n", mine.at[slices.along[d]],
                    its.at[slices.along[d]]);
            }
        }
        SAY(g, "    if (same && t%u < t%u)\n    t%u = false;\n", at, me, first);
        SAY(g, "    if (same && t%u > t%u && t%u < t%u)\n    t%u = t%u;\n", at, me, at, next, next,
            at);
    }
    end_loops(g, n, lets);
    SAY(g, "    if (t%u)\n    t%u -= %" PRId64 ";\n", first, next, n_slices + 1);
    return next;
}

/* ---- side functions ---- */

/* True if a side function uses its argument i. */
static bool side_uses(const struct gen *g, int64_t function, uint32_t i)
{
    const struct program *side = g->p->side;
    const struct block *b = &side->blocks.at[side->functions.at[function].block];
    uint32_t value = b->args + i;
    bool uses = false;
    for (uint32_t k = b->first; k < b->end; k++)
        for (uint32_t x = 0; x < side->ops.at[k].n_operands; x++)
            uses |= side->operands.at[side->ops.at[k].operands + x] == value;
    for (uint32_t k = 0; k < b->n_results; k++)
        uses |= side->operands.at[b->results + k] == value;
    return uses;
}

/* Declares the results of a side function on these names. */
static void emit_side(struct gen *g, int64_t function, const uint32_t *args, uint32_t *results)
{
    const struct program *p = g->p, *side = p->side;
    const struct block *b = &side->blocks.at[side->functions.at[function].block];
    uint32_t first = b->args,
             last = b->end > b->first ? side->ops.at[b->end - 1].results : first + b->n_args;
    if (!GEN_EXPECT(g, last - first < SIDE_NAMES_MAX))
        return;
    g->side_first = first;
    for (uint32_t i = 0; i < b->n_args; i++)
        g->side_names[i] = args[i];
    g->p = side; /* its operations are written like any other */
    for (uint32_t i = b->first; i < b->end && !g->failed; i++) {
        const struct operation *op = &side->ops.at[i];
        struct index none = {{0}};
        uint32_t name = op->op == OP_CONSTANT ? emit_constant(g, op) : emit_elements(g, op, &none);
        g->side_names[op->results - first] = name;
    }
    for (uint32_t i = 0; i < b->n_results; i++)
        results[i] = g->side_names[side->operands.at[b->results + i] - first];
    g->p = p;
}

/* Declares the place that an element has in its sorted row: how many come before it. */
static uint32_t emit_rank(struct gen *g, const struct operation *op, const struct index *index)
{
    int64_t function = g->p->ints.at[op->ints], dim = g->p->ints.at[op->ints + 1];
    (void)GEN_EXPECT(g, g->rounds == 1 &&
                            op->n_operands <= SIDE_MAX); /* it is stored: no loop is open */
    uint32_t mine[SIDE_MAX], args[2 * SIDE_MAX], back[2 * SIDE_MAX], rank = g->names++, n = 0,
                                                                     before, behind;
    struct index to = *index;
    bool compares[SIDE_MAX];
    SAY(g, "    int t%u = 0;\n", rank);
    for (uint32_t i = 0; i < op->n_operands; i++) { /* most are only sorted along */
        compares[i] = side_uses(g, function, 2 * i) || side_uses(g, function, 2 * i + 1);
        mine[i] = compares[i] ? emit_operand(g, op, i, index) : ZERO;
    }
    uint32_t lets = g->lets.n;
    to.at[dim] = begin_loop(g, program_tensor(g->p, op->results)->dims[dim], &n);
    for (uint32_t i = 0; i < op->n_operands; i++) {
        args[2 * i] = back[2 * i + 1] = compares[i] ? emit_operand(g, op, i, &to) : ZERO;
        args[2 * i + 1] = back[2 * i] = mine[i];
    }
    if (to.at[dim] != ZERO) {
        emit_side(g, function, args, &before);
        emit_side(g, function, back, &behind);
        SAY(g, "    t%u += t%u || (!t%u && t%u < t%u);\n", rank, before, behind, to.at[dim],
            index->at[dim]);
    }
    end_loops(g, n, lets);
    return rank;
}

static uint32_t emit_reduce_many(struct gen *g, const struct operation *op,
                                 const struct index *index)
{
    const struct tensor *of = operand_type(g, op, 0);
    const int64_t *ints = g->p->ints.at + op->ints;
    uint32_t args[2 * SIDE_MAX], results[SIDE_MAX], m = op->n_operands / 2, n = 0, kept = 0;
    struct index to = {{0}};
    for (uint32_t i = 0; i < m; i++) {
        uint32_t first = emit_operand(g, op, m + i, index);
        args[i] = g->names++;
        SAY(g, "    %s t%u = t%u;\n", value_type(operand_type(g, op, i)->elem), args[i], first);
    }
    uint32_t lets = g->lets.n;
    for (uint32_t d = 0, k = 2; d < of->rank; d++) {
        bool reduced = k < op->n_ints && ints[k] == d;
        to.at[d] = reduced ? begin_loop(g, of->dims[d], &n) : index->at[kept];
        k += reduced;
        kept += !reduced;
    }
    (void)GEN_EXPECT(g, m <= SIDE_MAX && kept == program_tensor(g->p, op->results)->rank);
    for (uint32_t i = 0; i < m; i++)
        args[m + i] = emit_operand(g, op, i, &to);
    SAY(g, "    {\n");
    emit_side(g, ints[0], args, results);
    for (uint32_t i = 0; i < m; i++) /* all are computed before one changes */
        SAY(g, "    const %s n%u = t%u;\n", value_type(operand_type(g, op, i)->elem), i,
            results[i]);
    for (uint32_t i = 0; i < m; i++)
        SAY(g, "    t%u = n%u;\n", args[i], i);
    SAY(g, "    }\n");
    end_loops(g, n, lets);
    return args[ints[1]];
}

static uint32_t emit_concatenate(struct gen *g, const struct operation *op,
                                 const struct index *index)
{
    const struct tensor *t = program_tensor(g->p, op->results);
    int64_t dim = g->p->ints.at[op->ints], start = 0;
    uint32_t result = ZERO;
    for (uint32_t i = 0; i < op->n_operands; i++) {
        const struct tensor *of = operand_type(g, op, i);
        struct index to = *index;
        if (of->dims[dim] == 0)
            continue;
        uint32_t fits = let(g, "bool");
        say_index(g, index->at[dim]);
        SAY(g, " >= %" PRId64 " && ", start);
        say_index(g, index->at[dim]);
        SAY(g, " < %" PRId64 ";\n", start + of->dims[dim]);
        fits = settled(g, fits);
        to.at[dim] = let(g, "place_t");
        SAY(g, "t%u ? ", fits);
        say_index(g, index->at[dim]);
        SAY(g, " - %" PRId64 " : 0;\n", start);
        to.at[dim] = settled(g, to.at[dim]);
        start += of->dims[dim];
        uint32_t x = emit_operand(g, op, i, &to);
        result = result == ZERO ? x : emit_choice(g, t->elem, fits, x, result);
    }
    (void)GEN_EXPECT(g, start == t->dims[dim]);
    if (result == ZERO) { /* it has no element: only a loop without a round reads one */
        result = let(g, value_type(t->elem));
        SAY(g, "0;\n");
        result = settled(g, result);
    }
    return result;
}

static uint32_t emit_update(struct gen *g, const struct operation *op, const struct index *index)
{
    const struct tensor *of = operand_type(g, op, 0), *update = operand_type(g, op, 1);
    uint32_t fits[PROGRAM_RANK_MAX], x = emit_operand(g, op, 0, index);
    struct index to = {{0}};
    if (update->n == 0)
        return x;
    for (uint32_t d = 0; d < of->rank; d++) {
        uint32_t start = emit_start(g, op, 2 + d, of->dims[d], update->dims[d]),
                 from = let(g, "place_t");
        say_index(g, index->at[d]);
        SAY(g, " - t%u;\n", start);
        from = settled(g, from);
        fits[d] = let(g, "bool");
        SAY(g, "t%u >= 0 && t%u < %" PRId64 ";\n", from, from, update->dims[d]);
        fits[d] = settled(g, fits[d]);
        to.at[d] = let(g, "place_t");
        SAY(g, "t%u ? t%u : 0;\n", fits[d], from);
        to.at[d] = settled(g, to.at[d]);
    }
    uint32_t y = emit_operand(g, op, 1, &to);
    return emit_choice(g, of->elem, emit_all(g, fits, of->rank), y, x);
}

static uint32_t emit_reduce(struct gen *g, const struct operation *op, const struct index *index)
{
    const struct tensor *of = operand_type(g, op, 0);
    const int64_t *ints = g->p->ints.at + op->ints;
    uint32_t n = 0, first = emit_operand(g, op, 1, index), sum = g->names++, kept = 0;
    struct index to = {{0}};
    uint32_t lets = g->lets.n;
    (void)GEN_EXPECT(g, g->rounds == 1); /* it is stored: no loop is open */
    SAY(g, "    %s t%u = t%u;\n", value_type(of->elem), sum, first);
    for (uint32_t d = 0, k = 1; d < of->rank; d++) {
        bool reduced = k < op->n_ints && ints[k] == d;
        to.at[d] = reduced ? begin_loop(g, of->dims[d], &n) : index->at[kept];
        k += reduced;
        kept += !reduced;
    }
    (void)GEN_EXPECT(g, kept == program_tensor(g->p, op->results)->rank);
    uint32_t x = emit_operand(g, op, 0, &to);
    SAY(g, "    t%u = ", sum);
    say_reduced(g, (enum op)ints[0], of->elem, sum, x);
    end_loops(g, n, lets);
    return sum;
}

static uint32_t emit_dot(struct gen *g, const struct operation *op, const struct index *index)
{
    const int64_t *ints = g->p->ints.at + op->ints;
    uint32_t b = (uint32_t)ints[0], c = (uint32_t)ints[1], out = b, sum = g->names++;
    enum elem elem = program_tensor(g->p, op->results)->elem;
    struct index to[2] = {{{0}}};
    uint32_t loops[PROGRAM_RANK_MAX], x[2], lets = g->lets.n, n = 0;
    if (!GEN_EXPECT(g, g->rounds == 1 && b + c <= PROGRAM_RANK_MAX))
        return sum;
    SAY(g, "    %s t%u = 0;\n", value_type(elem), sum);
    for (uint32_t i = 0; i < c; i++)
        loops[i] = begin_loop(g, operand_type(g, op, 0)->dims[ints[2 + 2 * b + i]], &n);
    for (uint32_t side = 0; side < 2; side++) {
        struct dot_side s = program_dot_side(ints, side, operand_type(g, op, side)->rank);
        for (uint32_t i = 0; i < b; i++)
            to[side].at[s.batch[i]] = index->at[i];
        for (uint32_t i = 0; i < c; i++)
            to[side].at[s.contracted[i]] = loops[i];
        for (uint32_t i = 0; i < s.n_free; i++)
            to[side].at[s.free[i]] = index->at[out++];
        x[side] = emit_operand(g, op, side, &to[side]);
    }
    (void)GEN_EXPECT(g,
                     out == program_tensor(g->p, op->results)->rank); /* each index has a place */
    if (program_is_float(elem))
        SAY(g, "    t%u = fma%s(t%u, t%u, t%u);\n", sum, elem == ELEM_F64 ? "" : "f", x[0], x[1],
            sum);
    else
        SAY(g, "    t%u = (%s)((%s)t%u * (%s)t%u + (%s)t%u);\n", sum, value_type(elem),
            TYPES[elem].bits, x[0], TYPES[elem].bits, x[1], TYPES[elem].bits, sum);
    end_loops(g, n, lets);
    return sum;
}

/* Declares the element of an operation's result at an index, and returns its name. */
static uint32_t emit_op(struct gen *g, const struct operation *op, const struct index *index)
{
    switch (op->op) {
    case OP_CONSTANT: return emit_constant(g, op);
    case OP_IOTA: {
        enum elem elem = program_tensor(g->p, op->results)->elem;
        uint32_t name = let(g, value_type(elem));
        SAY(g, program_elem_size(elem) == 2 && program_is_float(elem) ? "as_%s(" : "(%s)(",
            program_elem_size(elem) == 2 && program_is_float(elem) ? memory_of(elem)
                                                                   : value_type(elem));
        say_index(g, index->at[g->p->ints.at[op->ints]]);
        SAY(g, ");\n");
        return settled(g, name);
    }
    case OP_BROADCAST:
    case OP_RESHAPE:
    case OP_TRANSPOSE:
    case OP_SLICE:
    case OP_REVERSE:
    case OP_DYNAMIC_SLICE: return emit_view(g, op, index);
    case OP_WINDOW: return emit_window(g, op, index);
    case OP_UNWINDOW: return emit_unwindow(g, op, index);
    case OP_GATHER: return emit_gather(g, op, index);
    case OP_SCATTER: return emit_scatter(g, op, index);
    case OP_CHAIN: return emit_chain(g, op, index);
    case OP_RANK: return emit_rank(g, op, index);
    case OP_REDUCE_MANY: return emit_reduce_many(g, op, index);
    case OP_PAD: return emit_pad(g, op, index);
    case OP_CONCATENATE: return emit_concatenate(g, op, index);
    case OP_DYNAMIC_UPDATE: return emit_update(g, op, index);
    case OP_REDUCE: return emit_reduce(g, op, index);
    case OP_DOT: return emit_dot(g, op, index);
    default: return emit_elements(g, op, index);
    }
}

static uint32_t emit(struct gen *g, uint32_t value, const struct index *index)
{
    if (g->p != g->out->p) /* of a side function */
        return g->side_names[value - g->side_first];
    const struct tensor *t = program_tensor(g->p, value);
    g->n_most = t->n > g->n_most ? t->n : g->n_most;
    if (!g->values[value].stored && GEN_EXPECT(g, g->values[value].op < g->p->ops.n))
        return emit_op(g, &g->p->ops.at[g->values[value].op], index);
    return emit_stored(g, value, place_of(g, t, index));
}

/* ---- kernels ---- */

/* Returns the number of a kernel with this text, which is added if it is new. Takes the text. */
static uint32_t kernel_of(struct gen *g, struct writer *text)
{
    struct kernel k;
    uint64_t hash = XXH3_64bits(text->data, text->len);
    g->failed |= !slots_reserve(&g->kernel_slots);
    if (g->failed)
        return 0;
    SLOTS_EACH(&g->kernel_slots, hash, i)
    {
        const struct kernel *old = &g->kernels.at[i];
        if (old->len == text->len && memcmp(old->text, text->data, text->len) == 0)
            return i;
    }
    writer_format(&g->out->source, "extern \"C\" __global__ void " LAUNCH_BOUNDS " kernel_%u",
                  g->kernels.n);
    PUSH(g->out, g->out->texts, (struct kernel_text){g->out->source.len, text->len});
    writer_bytes(&g->out->source, text->data, text->len);
    k.text = writer_take(text, &k.len);
    g->failed |= !k.text;
    uint32_t number = g->kernels.n;
    PUSH(g, g->kernels, k);
    if (g->kernels.n == number)
        free(k.text);
    else
        slots_add(&g->kernel_slots, hash, number);
    return number;
}

static void draft_close(struct draft *d)
{
    writer_close(&d->body);
    free(d->args.at);
}

/* Declares the element of an operation's result, and the place in a carried value where a slice of it has
 * its element: the one of the slice that the thread computes. */
static uint32_t emit_slice(struct gen *g, const struct operation *op)
{
    const struct tensor *of = operand_type(g, op, 0), *update = operand_type(g, op, 1);
    struct index to = {{0}}, own = g->owns[0].index;
    for (uint32_t d = 0; d < of->rank; d++) {
        uint32_t start = emit_start(g, op, 2 + d, of->dims[d], update->dims[d]);
        to.at[d] = let(g, "place_t");
        SAY(g, "t%u + ", start);
        say_index(g, own.at[d]);
        SAY(g, ";\n");
        to.at[d] = settled(g, to.at[d]);
    }
    g->target_at = place_of(g, of, &to);
    return emit_operand(g, op, 1, &own);
}

/* Begins the text of a kernel. */
static void begin_body(struct gen *g)
{
    g->args.n = 0;
    forget_lets(g, 0);
    g->names = 1; /* t0 is the place of the element */
    g->target = PROGRAM_NONE;
    g->target_at = 0;
    g->conflict = false;
    g->n_owns = g->n_steps = 0;
    g->rounds = g->work = 1;
    g->n_most = 0;
    writer_init(&g->body, 0);
}

/* Writes the kernel that computes a value. With a `target` it is to write there in place; `slice` says that
 * the target differs by a slice alone. */
static struct draft draft_of(struct gen *g, uint32_t value, uint32_t target, bool slice)
{
    const struct program *p = g->p;
    const struct operation *op =
        g->values[value].op == PROGRAM_NONE ? NULL : &p->ops.at[g->values[value].op];
    const struct tensor *t = program_tensor(p, value), *own = slice ? operand_type(g, op, 1) : t;
    struct draft d = {.n = own->n, .value = value, .to = PROGRAM_NONE, .slice = slice};
    (void)GEN_EXPECT(g, !slice || (op->op == OP_DYNAMIC_UPDATE && target != PROGRAM_NONE));
    begin_body(g);
    g->target = target;
    struct index index = index_of(g, own, 0);
    add_own(g, own, &index);
    uint32_t x = slice ? emit_slice(g, op) : op ? emit_op(g, op, &index) : emit(g, value, &index);
    bool half = t->elem == ELEM_F16 || t->elem == ELEM_BF16;
    SAY(g, half ? "    store(p + t%u, t%u);\n" : "    p[t%u] = t%u;\n", g->target_at, x);
    for (uint32_t i = 0; i < g->args.n; i++)
        PUSH(g, d.args, g->args.at[i]);
    g->failed |= g->body.failed;
    g->too_many |= g->args.n >= ARGS_MAX;
    d.body = g->body;
    d.conflict = g->conflict;
    d.is_product = op && op->op == OP_DOT;
    d.compares = op && (op->op == OP_RANK || op->op == OP_CHAIN);
    if (__builtin_mul_overflow(d.n, g->work, &d.work))
        d.work = INT64_MAX / GROUP_MAX;
    return d;
}

/* ---- launches: groups of drafts ---- */

static bool is_small(const struct draft *d) { return d->work <= SMALL_WORK_MAX; }

static const struct arg *read_of(const struct draft *d, uint32_t value)
{
    for (uint32_t i = 0; i < d->args.n; i++)
        if (d->args.at[i].value == value)
            return &d->args.at[i];
    return NULL;
}

/* True if b must wait for a, the draft before it: a thread of b may use an element that another thread of a
 * uses, and one of them writes it. A group writes no place twice, and reads none behind a slice (launch_trip). */
static bool must_wait(const struct draft *a, const struct draft *b)
{
    const struct arg *reads = read_of(b, a->to), *was_read = read_of(a, b->to);
    return (reads && reads->elsewhere) || (was_read && (was_read->elsewhere || b->slice));
}

/* True if a draft of the derivative reads values of the function alone: it computes another one again. */
static bool is_again(const struct gen *g, const struct draft *d)
{
    bool again = d->args.n > 0 && WARM_EXPECT(g->forward < g->p->ops.n); /* of the derivative */
    for (uint32_t i = 0; i < d->args.n; i++)
        again &= d->args.at[i].value < g->p->ops.at[g->forward].results;
    return again;
}

/* True if a small draft belongs to the layer of the group's launch. `before` counts the products in a row
 * at the group's end. In the function a launch begins with a product. In the derivative it begins behind
 * one, unless the draft only reorders the product's elements; and with a value of the function that is computed
 * again, for the next layer. So each launch is one layer, whatever its neighbours are. */
static bool is_of_layer(const struct gen *g, const struct draft *d, uint32_t before, bool products)
{
    bool moves = !g->values[d->value].read && d->work == d->n;
    if (g->out->n_forward == PROGRAM_NONE)
        return before + d->is_product < 2;
    return !(products && is_again(g, d)) && (before == 0 || (before == 1 && moves));
}

/* True if a draft may join the group. */
static bool joins(const struct gen *g, struct draft *d)
{
    bool small = is_small(d), parallel = true, products = false;
    int64_t work = d->work;
    uint32_t before = 0, n_args = d->args.n + 1;
    for (uint32_t i = 0; i < g->group.n; i++) {
        const struct draft *other = &g->group.at[i];
        n_args += other->args.n + 1;
        small &= is_small(other);
        work += other->work;
        parallel &= other->n == d->n && !must_wait(other, d);
        products |= other->is_product;
        if (read_of(d, other->to) && other->products > before)
            before = other->products;
    }
    d->products = before + d->is_product;
    if (g->group.n == GROUP_MAX || n_args > GROUP_ARGS_MAX ||
        (d->is_product && g->group.n >= GROUP_MAX / 2))
        return false;
    return small && work <= BLOCK_WORK_MAX ? is_of_layer(g, d, before, products) : parallel;
}

static uint32_t place_in(const uint32_t *list, uint32_t n, uint32_t value)
{
    uint32_t i = 0;
    while (i < n && list[i] != value)
        i++;
    return i;
}

/* Writes the kernel of one draft. */
static void say_single(const struct gen *g, struct writer *w, const struct draft *d)
{
    writer_format(w, "(");
    for (uint32_t i = 0; i < d->args.n; i++)
        writer_format(w, "const %s *p%u, ",
                      memory_of(program_tensor(g->p, d->args.at[i].value)->elem), i);
    writer_format(w, "%s *p)\n{\n", memory_of(program_tensor(g->p, d->to)->elem));
    writer_format(w, "    const long long t0 = blockIdx.x * %dLL + threadIdx.x;\n", CODEGEN_BLOCK);
    writer_format(w, "    if (t0 >= %" PRId64 ")\n        return;\n", d->n);
    writer_bytes(w, d->body.data, d->body.len);
    writer_format(w, "}\n");
}

/* Writes the kernel of several drafts, on a grid or in a single block. `names` are the values of its
 * arguments; those from n_reads on are written. */
static void say_group(const struct gen *g, struct writer *w, const uint32_t *names, uint32_t n,
                      uint32_t n_reads, bool in_block)
{
    uint32_t since = 0; /* the first draft behind the last barrier */
    writer_format(w, "(");
    for (uint32_t i = 0; i < n; i++)
        writer_format(w, "%s%s%s *a%u", i ? ", " : "", i < n_reads ? "const " : "",
                      memory_of(program_tensor(g->p, names[i])->elem), i);
    writer_format(w, ")\n{\n");
    if (!in_block)
        writer_format(w,
                      "    const long long t0 = blockIdx.x * %dLL + threadIdx.x;\n    if (t0 >= "
                      "%" PRId64 ")\n        return;\n",
                      CODEGEN_BLOCK, g->group.at[0].n);
    for (uint32_t k = 0; k < g->group.n; k++) {
        const struct draft *d = &g->group.at[k];
        bool waits = false;
        for (uint32_t i = since; i < k; i++)
            waits |= must_wait(&g->group.at[i], d);
        if (waits)
            writer_format(w, "    __syncthreads();\n");
        since = waits ? k : since;
        writer_format(w, "    {\n");
        for (uint32_t i = 0; i < d->args.n; i++)
            writer_format(w, "    const %s *p%u = a%u;\n",
                          memory_of(program_tensor(g->p, d->args.at[i].value)->elem), i,
                          place_in(names, n, d->args.at[i].value));
        writer_format(w, "    %s *p = a%u;\n", memory_of(program_tensor(g->p, d->to)->elem),
                      place_in(names, n, d->to));
        if (in_block)
            writer_format(w,
                          "    for (long long t0 = threadIdx.x; t0 < %" PRId64 "; t0 += %dLL) {\n",
                          d->n, CODEGEN_BLOCK);
        writer_bytes(w, d->body.data, d->body.len);
        writer_format(w, in_block ? "    }\n    }\n" : "    }\n");
    }
    writer_format(w, "}\n");
}

/* Adds the launch of the group, if there is one. */
static void flush(struct gen *g)
{
    uint32_t n = 0, n_reads = 0, most = 0;
    bool in_block = g->group.n > 1;
    int64_t work = 0, busiest = 0;
    bool compares = false;
    struct writer text;
    for (uint32_t k = 0; k < g->group.n; k++) {
        most += g->group.at[k].args.n + 1;
        in_block &= is_small(&g->group.at[k]);
        work += g->group.at[k].work;
    }
    in_block &= work <= BLOCK_WORK_MAX;
    for (uint32_t k = 0; k < g->group.n; k++) {
        const struct draft *d = &g->group.at[k];
        busiest += d->work / d->n * (in_block ? (d->n - 1) / CODEGEN_BLOCK + 1 : 1);
        compares |= d->compares;
    }
    uint32_t *names = malloc(((size_t)most + 1) * sizeof *names);
    writer_init(&text, 0);
    g->failed |= !names;
    /* what it only reads, then what it writes */
    for (uint32_t k = 0; !g->failed && k < g->group.n; k++)
        for (uint32_t i = 0; i < g->group.at[k].args.n; i++) {
            uint32_t value = g->group.at[k].args.at[i].value;
            bool written = false;
            for (uint32_t j = 0; j < g->group.n && g->group.n > 1; j++)
                written |= g->group.at[j].to == value;
            if (!written && place_in(names, n, value) == n)
                names[n++] = value;
        }
    n_reads = n;
    for (uint32_t k = 0; !g->failed && k < g->group.n; k++)
        if (g->group.n == 1 || place_in(names, n, g->group.at[k].to) == n)
            names[n++] = g->group.at[k].to;
    if (!g->failed && g->group.n == 1)
        say_single(g, &text, &g->group.at[0]);
    else if (!g->failed && g->group.n)
        say_group(g, &text, names, n, n_reads, in_block);
    g->failed |= text.failed;
    if (!g->failed && g->group.n) {
        int64_t blocks = in_block ? 1 : (g->group.at[0].n - 1) / CODEGEN_BLOCK + 1;
        struct launch l = {.kernel = kernel_of(g, &text),
                           .args = g->out->args.n,
                           .n_args = n,
                           .n_writes = n - n_reads,
                           .blocks = (uint32_t)blocks,
                           .threads = CODEGEN_BLOCK,
                           .work = work,
                           .most = busiest,
                           .compares = compares};
        (void)GEN_EXPECT(g, blocks > 0 && n_reads < n && n <= most); /* it writes something */
        g->too_big |= blocks > CODEGEN_BLOCKS_MAX;
        for (uint32_t i = 0; i < n; i++)
            PUSH(g->out, g->out->args, names[i]);
        PUSH(g->out, g->out->launches, l);
    }
    for (uint32_t k = 0; k < g->group.n; k++)
        draft_close(&g->group.at[k]);
    g->group.n = 0;
    writer_close(&text);
    free(names);
}

/* Adds a draft, which is to write `to`, to the group, or ends the group and begins one. Takes the draft. */
static void launch_draft(struct gen *g, struct draft *d, uint32_t to)
{
    d->done = true;
    d->to = to;
    if (d->n == 0 || g->failed || g->too_many) {
        draft_close(d);
        return;
    }
    if (!joins(g, d)) {
        flush(g);
        d->products = d->is_product;
    }
    uint32_t n = g->group.n;
    PUSH(g, g->group, *d);
    if (g->group.n == n)
        draft_close(d);
}

/* Adds a launch that computes a value and writes it to `to`. */
static void launch_value(struct gen *g, uint32_t value, uint32_t to)
{
    struct draft d = draft_of(g, value, PROGRAM_NONE, false);
    launch_draft(g, &d, to);
}

/* Declares the indices of dimensions that one index of the template stands for. */
static void emit_role(struct gen *g, const struct tensor *t, const int64_t *dims, uint32_t n,
                      uint32_t name, struct index *out)
{
    struct tensor role = {.rank = n, .n = 1};
    for (uint32_t i = 0; i < n; i++)
        role.n *= role.dims[i] = t->dims[dims[i]];
    (void)GEN_EXPECT(g, role.n > 0 && name < g->names);
    struct index index = index_of(g, &role, name);
    for (uint32_t i = 0; i < n; i++)
        out->at[dims[i]] = index.at[i];
}

/* Returns the stride of the last of these dimensions that has more than one element; 0. */
static int64_t last_stride(const struct gen *g, uint32_t value, const int64_t *dims, uint32_t n)
{
    while (n && program_tensor(g->p, value)->dims[dims[n - 1]] == 1)
        n--;
    return n ? stride_of(g, value, (uint32_t)dims[n - 1]) : 0;
}

/* Writes what loads an element of a product's operand into a tile. Returns true if threads that follow one another
 * are to load elements along k: else they would read memory in other places. */
static bool emit_load(struct gen *g, const struct operation *op, uint32_t side)
{
    const struct tensor *t = operand_type(g, op, side);
    uint32_t value = g->p->operands.at[op->operands + side];
    struct dot_side s = program_dot_side(g->p->ints.at + op->ints, side, t->rank);
    struct index index = {{0}};
    forget_lets(g, 0);
    g->names = 4; /* behind t1, t2, t3 of the template */
    g->n_steps = 0;
    emit_role(g, t, s.batch, s.n_batch, 1, &index);
    emit_role(g, t, s.free, s.n_free, side ? 3 : 2, &index);
    emit_role(g, t, s.contracted, s.n_contracted, side ? 2 : 3, &index);
    uint32_t x = emit_operand(g, op, side, &index);
    SAY(g, "    x = t%u;\n", x);
    int64_t free = last_stride(g, value, s.free, s.n_free);
    return free >= SECTOR && last_stride(g, value, s.contracted, s.n_contracted) < free;
}

/* Adds the launch of a kernel with this text: it reads g->args. Takes the text. */
static void launch_text(struct gen *g, struct launch l, int64_t blocks, struct writer *text,
                        uint32_t to)
{
    g->failed |= text->failed;
    g->too_big |= blocks > CODEGEN_BLOCKS_MAX;
    l.args = g->out->args.n;
    l.n_args = g->args.n + 1;
    l.n_writes = 1;
    l.blocks = (uint32_t)blocks;
    for (uint32_t i = 0; i < g->args.n; i++)
        PUSH(g->out, g->out->args, g->args.at[i].value);
    PUSH(g->out, g->out->args, to);
    if (!g->failed)
        l.kernel = kernel_of(g, text);
    PUSH(g->out, g->out->launches, l);
    writer_close(text);
}

/* Adds a launch that computes a product by tiles, if they pay. */
static bool launch_tiled(struct gen *g, const struct operation *op, uint32_t to)
{
    if (op->op != OP_DOT || !program_is_float(program_tensor(g->p, op->results)->elem))
        return false;
    struct tiled t =
        tiled_of(operand_type(g, op, 0), operand_type(g, op, 1), g->p->ints.at + op->ints);
    struct tiled_load loads[2];
    struct writer texts[2], parameters, text;
    if (!tiled_pays(&t))
        return false;
    flush(g);
    begin_body(g);
    for (uint32_t side = 0; side < 2; side++) {
        loads[side].along_k = emit_load(g, op, side);
        texts[side] = g->body;
        loads[side].text = (struct view){g->body.data, g->body.len};
        writer_init(&g->body, 0);
    }
    writer_init(&parameters, 0);
    writer_init(&text, 0);
    for (uint32_t i = 0; i < g->args.n; i++)
        writer_format(&parameters, "const %s *__restrict__ p%u, ",
                      memory_of(program_tensor(g->p, g->args.at[i].value)->elem), i);
    t.small = g->n_most <= INT32_MAX / 2; /* and beside the edges of tiles */
    tiled_write(&t, program_tensor(g->p, op->results)->elem,
                (struct view){parameters.data, parameters.len}, loads, &text);
    g->failed |= texts[0].failed || texts[1].failed || parameters.failed;
    launch_text(g,
                (struct launch){.threads = TILED_THREADS,
                                .work = t.batch * t.m * t.n * t.k,
                                .most = TILED_EACH * t.k},
                tiled_blocks(&t), &text, to);
    writer_close(&texts[0]);
    writer_close(&texts[1]);
    writer_close(&parameters);
    return true;
}

/* Adds a launch that copies a stored value. */
static void launch_copy(struct gen *g, uint32_t value, uint32_t to)
{
    uint32_t op = g->values[value].op;
    g->values[value].op = PROGRAM_NONE; /* it is read, not computed */
    launch_value(g, value, to);
    g->values[value].op = op;
}

/* True if no two slices of a scatter have an element in common. */
static bool is_unique(const struct gen *g, const struct operation *op)
{
    struct gather slices;
    const struct tensor *indices = operand_type(g, op, 1);
    return gather_of(g->p->ints.at + op->ints + 1, op->n_ints - 1, operand_type(g, op, 0), indices,
                     &slices) &&
           (gather_count(&slices, indices) == 1 || slices.unique);
}

/* Adds the launch of a scatter whose slices are in chains: a thread for each element of a slice, which goes on
 * with those of slices at the same indices. So no two threads have one element of `to`. */
static void launch_scatter(struct gen *g, const struct operation *op, uint32_t to)
{
    const uint32_t *operands = g->p->operands.at + op->operands;
    const struct tensor *x = operand_type(g, op, 0), *indices = operand_type(g, op, 1),
                        *updates = operand_type(g, op, 2);
    enum op reducer = (enum op)g->p->ints.at[op->ints];
    bool half = x->elem == ELEM_F16 || x->elem == ELEM_BF16, chained = op->n_operands > 3;
    struct gather slices;
    struct index at, of;
    struct writer text;
    (void)GEN_EXPECT(g, op->op == OP_SCATTER && op->n_operands >= 3 && op->n_operands <= 4);
    launch_copy(g, operands[0], to); /* then it is changed */
    flush(g);
    if (updates->n == 0 || !GEN_EXPECT(g, gather_of(g->p->ints.at + op->ints + 1, op->n_ints - 1, x,
                                                    indices, &slices)))
        return;
    begin_body(g);
    at = index_of(g, updates, 0);
    SAY(g, "    bool inside = true;\n    long long place = 0;\n");
    int64_t stride = 1;
    for (uint32_t d = x->rank; d-- > 0; stride *= x->dims[d]) {
        uint32_t along = slices.along[d] < 0 ? ZERO : at.at[slices.along[d]],
                 name = let(g, "place_t");
        if (slices.start[d] >= 0) {
            g->body.len = g->let.line; /* the component comes first */
            g->names--;
            uint32_t start = emit_component(g, op, 1, &slices, &at, slices.start[d]);
            name = let(g, "place_t");
            SAY(g, "(long long)t%u + ", start);
        }
        say_index(g, along);
        SAY(g, ";\n");
        name = settled(g, name);
        SAY(g,
            "    inside = inside && t%u >= 0 && t%u < %" PRId64 ";\n    place += t%u * %" PRId64
            ";\n",
            name, name, x->dims[d], name, stride);
    }
    /* The number of the slice, and of its element. */
    uint32_t slice = let(g, "place_t");
    stride = 1;
    SAY(g, "0");
    for (uint32_t d = indices->rank; d-- > 0;) {
        if (slices.at[d] < 0)
            continue;
        if (at.at[slices.at[d]] != ZERO)
            SAY(g, " + t%u * %" PRId64 "", at.at[slices.at[d]], stride);
        stride *= indices->dims[d];
    }
    SAY(g, ";\n");
    slice = settled(g, slice);
    uint32_t chain = chained ? arg_of(g, place_value(g, operands[3]), slice) : 0;
    if (chained)
        SAY(g, "    if (p%u[t%u] >= 0)\n        return;\n", chain, slice);
    uint32_t sum = g->names++, turn = g->names++;
    SAY(g, "    if (!inside)\n        return;\n    %s t%u = %s;\n", value_type(x->elem), sum,
        half ? "value_of(p[place])" : "p[place]");
    SAY(g,
        chained ? "    for (long long t%u = t%u; t%u < %" PRId64 ";) {\n"
                : "    {\n    const long long t%u = t%u;\n",
        turn, slice, turn, gather_count(&slices, indices));
    of = slice_index(g, &slices, indices, turn);
    for (uint32_t d = 0; d < slices.rank; d++)
        if (of.at[d] == ZERO)
            of.at[d] = at.at[d];
    uint32_t update = emit_operand(g, op, 2, &of);
    SAY(g, "    t%u = ", sum);
    if (reducer == OP_SELECT)
        SAY(g, "t%u;\n", update);
    else
        say_reduced(g, reducer, x->elem, sum, update);
    if (chained) /* the first of a chain has its next less n + 1 */
        SAY(g,
            "    const long long next = p%u[t%u];\n    t%u = next < 0 ? next + %" PRId64
            " : next;\n",
            chain, turn, turn, gather_count(&slices, indices) + 1);
    SAY(g, half ? "    }\n    store(p + place, t%u);\n" : "    }\n    p[place] = t%u;\n", sum);
    writer_init(&text, 0);
    struct draft d = {.body = g->body, .n = updates->n, .to = to};
    for (uint32_t i = 0; i < g->args.n; i++)
        PUSH(g, d.args, g->args.at[i]);
    if (!g->failed)
        say_single(g, &text, &d);
    g->failed |= g->body.failed;
    launch_text(g,
                (struct launch){
                    .threads = CODEGEN_BLOCK, .work = updates->n, .most = 1, .compares = chained},
                (updates->n - 1) / CODEGEN_BLOCK + 1, &text, to);
    draft_close(&d);
}

/* ---- blocks ---- */

/* Writes the kernel of a value that a loop carries, to write it over the old one if it may. */
static struct draft draft_carried(struct gen *g, uint32_t value, uint32_t to, uint32_t old)
{
    const struct program *p = g->p;
    const struct operation *op = &p->ops.at[g->values[value].op]; /* choose_places sees to it */
    if (op->op == OP_DYNAMIC_UPDATE && p->operands.at[op->operands] == old) {
        struct draft d = draft_of(g, value, to, true);
        if (!d.conflict) {
            d.to = to;
            return d;
        }
        draft_close(&d);
    }
    struct draft d = draft_of(g, value, to, false);
    d.to = to;
    return d;
}

/* The drafts at the end of a trip, and those whose place no other one reads: they come first. */
struct trip {
    struct draft *drafts;
    uint32_t *readers; /* by draft: how many others, which have no launch yet, read its place */
    uint32_t *ready;
    uint32_t n, n_ready;
};

/* Counts the other drafts that read a place: draft i does, or does no longer. */
static void count_readers(struct gen *g, struct trip *t, uint32_t i, bool reads)
{
    for (uint32_t k = 0; k < t->drafts[i].args.n; k++) {
        uint32_t of = g->values[t->drafts[i].args.at[k].value].draft;
        if (!of || of - 1 == i)
            continue;
        t->readers[of - 1] += reads ? 1u : UINT32_MAX;
        if (!reads && t->readers[of - 1] == 0 && !t->drafts[of - 1].done)
            t->ready[t->n_ready++] = of - 1;
    }
}

/* Writes the launches of the drafts, first those whose place no other one reads. If all places are read, one
 * draft gets a place of its own. */
static void launch_trip(struct gen *g, struct trip *t)
{
    uint32_t next = 0, any = 0;
    for (uint32_t i = 0; i < t->n; i++)
        g->values[t->drafts[i].to].draft = i + 1;
    for (uint32_t i = 0; i < t->n; i++)
        count_readers(g, t, i, true);
    for (uint32_t i = 0; i < t->n; i++)
        if (t->readers[i] == 0)
            t->ready[t->n_ready++] = i;
    for (uint32_t left = t->n; left && !g->failed; left--) {
        while (next == t->n_ready && any < t->n && t->drafts[any].done)
            any++;
        uint32_t i = next < t->n_ready ? t->ready[next++] : any;
        if (!GEN_EXPECT(g, i < t->n && t->n_ready <= t->n && !t->drafts[i].done)) /* once each */
            return;
        struct draft *d = &t->drafts[i];
        if (!d->conflict && t->readers[i] == 0)
            g->values[d->value].place = d->to;
        d->done = true;
        count_readers(g, t, i, false);
        if (d->slice && t->readers[i]) {
            /* It changes a slice in place. It is written again with all elements, for a place of its own. */
            struct draft whole = draft_of(g, d->value, PROGRAM_NONE, false);
            whole.to = d->to;
            draft_close(d);
            *d = whole;
        }
        g->values[d->to].draft = 0;
        launch_draft(g, d, place_value(g, d->value));
    }
}

/* Writes the launches at the end of a trip: new values to the places of the old ones. */
static void end_trip(struct gen *g, const struct operation *loop)
{
    const struct program *p = g->p;
    const struct block *body = program_loop_block(p, loop, 1);
    size_t room = (size_t)loop->n_operands + 1;
    struct trip t = {.drafts = calloc(room, sizeof *t.drafts),
                     .readers = calloc(room, sizeof *t.readers),
                     .ready = calloc(room, sizeof *t.ready)};
    g->failed |= !t.drafts || !t.readers || !t.ready;
    for (uint32_t k = 0; k < loop->n_operands && !g->failed; k++) {
        uint32_t value = p->operands.at[body->results + k];
        if (g->values[value].late)
            t.drafts[t.n++] =
                draft_carried(g, value, place_value(g, loop->results + k), body->args + k);
    }
    if (!g->failed)
        launch_trip(g, &t);
    for (uint32_t k = 0; k < t.n; k++)
        if (!t.drafts[k].done)
            draft_close(&t.drafts[k]);
    free(t.drafts);
    free(t.readers);
    free(t.ready);
    for (uint32_t k = 0; k < loop->n_operands && !g->failed; k++) {
        uint32_t value = p->operands.at[body->results + k], to = place_value(g, loop->results + k);
        if (place_value(g, value) != to)
            launch_copy(g, value, to);
    }
}

/* Writes the launch of a value at its operation. A carried one is written in place, if no later launch of the
 * trip reads the old one. */
static void write_value(struct gen *g, const struct operation *op, const struct operation *loop)
{
    const struct program *p = g->p;
    uint32_t value = op->results, i = g->values[value].op;
    const struct block *body = loop ? program_loop_block(p, loop, 1) : NULL;
    uint32_t k = g->values[value].carry;
    if (body && k != PROGRAM_NONE && g->values[body->args + k].read <= i) {
        uint32_t to = place_value(g, loop->results + k);
        struct draft d = draft_of(g, value, to, false);
        if (!d.conflict)
            g->values[value].place = to;
        launch_draft(g, &d, place_value(g, value));
        return;
    }
    if (op->op == OP_SCATTER && (op->n_operands > 3 || is_unique(g, op)))
        launch_scatter(g, op, place_value(g, value));
    else if (!launch_tiled(g, op, place_value(g, value)))
        launch_value(g, value, place_value(g, value));
}

static int write_block(struct gen *g, const struct block *b, const struct operation *loop,
                       bool inside, struct err *e);

/* Writes the launches of a loop's condition. */
static int write_condition(struct gen *g, const struct block *cond, struct err *e)
{
    int rc = write_block(g, cond, NULL, true, e);
    flush(g);
    return rc;
}

static int write_loop(struct gen *g, const struct operation *op, struct err *e)
{
    const struct program *p = g->p;
    struct counted counted = {.trips = 0};
    bool known = program_counted(p, g->origins, op, &counted);
    const struct block *cond = program_loop_block(p, op, 0);
    int rc = 0;
    for (uint32_t k = 0; k < op->n_operands && !g->failed; k++) {
        uint32_t operand = p->operands.at[op->operands + k], to = place_value(g, op->results + k);
        if (g->values[operand].stored && place_value(g, operand) != to)
            launch_copy(g, operand, to);
        else if (!g->values[operand].stored)
            launch_value(g, operand, to);
    }
    flush(g);
    if (!known)
        rc = write_condition(g, cond, e);
    uint32_t i = g->out->loops.n,
             condition = known ? PROGRAM_NONE : place_value(g, p->operands.at[cond->results]);
    PUSH(g->out, g->out->loops,
         (struct launch_loop){
             .first = g->out->launches.n, .trips = counted.trips, .condition = condition});
    if (rc == 0)
        rc = write_block(g, program_loop_block(p, op, 1), op, true, e);
    if (rc == 0 && !g->failed)
        end_trip(g, op);
    flush(g);
    if (rc == 0 && !known)
        rc = write_condition(g, cond, e);
    if (i < g->out->loops.n) {
        struct launch_loop *l = &g->out->loops.at[i];
        l->end = g->out->launches.n;
        (void)GEN_EXPECT(g,
                         rc || g->failed || g->too_many || l->first < l->end); /* of its counter */
    }
    return rc;
}

/* Writes the launches of a block: of a function, or of a loop's body. */
static int write_block(struct gen *g, const struct block *b, const struct operation *loop,
                       bool inside, struct err *e)
{
    const struct program *p = g->p;
    int rc = 0;
    for (uint32_t i = b->first; rc == 0 && !g->failed && i < b->end; i = p->ops.at[i].next) {
        const struct operation *op = &p->ops.at[i];
        const struct value *v = &g->values[op->results];
        if (!inside && i >= g->forward && g->out->n_forward == PROGRAM_NONE) {
            flush(g);
            g->out->n_forward = g->out->launches.n;
        }
        if (op->op == OP_WHILE) {
            rc = write_loop(g, op, e);
            continue;
        }
        bool is_data = op->op == OP_CONSTANT && !is_splat(p, op);
        if (v->uses && v->stored && !is_data && !(v->late && loop))
            write_value(g, op, loop);
    }
    return rc;
}

static int write_all(struct gen *g, uint32_t block, struct err *e)
{
    const struct program *p = g->p;
    for (uint32_t i = 0; i < p->values.n; i++)
        g->values[i] =
            (struct value){.op = PROGRAM_NONE, .place = i, .carry = PROGRAM_NONE, .stored = true};
    program_origins(p, g->origins);
    count_uses(g, block);
    choose_stored(g, block);
    find_readers(g, block);
    int rc = g->failed ? 0 : write_block(g, &p->blocks.at[block], NULL, false, e);
    flush(g);
    return rc;
}

int codegen_function(const struct program *of, uint32_t function, struct codegen *out,
                     struct err *e)
{
    *out = (struct codegen){.n_forward = PROGRAM_NONE};
    if (!WARM_EXPECT(function < of->functions.n))
        return program_fault(e);
    for (uint32_t i = 0; i < of->ops.n; i++)
        if (of->ops.at[i].op == OP_CALL) {
            err_set(e, WARM_EUNSUPPORTED, "call: no code for it");
            if (e)
                e->line = of->ops.at[i].line;
            return WARM_EUNSUPPORTED;
        }
    int rc = program_copy(of, function, spread_add, &out->p, e);
    if (rc)
        return rc;
    const struct program *p = out->p;
    struct gen g = {.p = p,
                    .out = out,
                    .forward = p->functions.at[0].forward,
                    .values = calloc((size_t)p->values.n + 1, sizeof *g.values),
                    .origins = calloc((size_t)p->values.n + 1, sizeof *g.origins)};
    out->places = calloc((size_t)p->values.n + 1, sizeof *out->places);
    writer_init(&out->source, 0);
    writer_format(&out->source, "%s", PRELUDE);
    g.failed = !g.values || !g.origins || !out->places;
    rc = g.failed ? 0 : write_all(&g, p->functions.at[0].block, e);
    for (uint32_t i = 0; rc == 0 && !g.failed && i < p->values.n; i++)
        out->places[i] = place_value(&g, i);
    if (out->n_forward == PROGRAM_NONE)
        out->n_forward = out->launches.n;
    out->n_kernels = g.kernels.n;
    (void)GEN_EXPECT(&g, rc || g.failed || out->failed ||
                             (out->texts.n == g.kernels.n && out->n_forward <= out->launches.n));
    if (rc == 0 && g.fault)
        rc = program_fault(e);
    if (rc == 0 && (g.failed || out->failed || out->source.failed))
        rc = err_set(e, WARM_ENOMEM, "code");
    if (rc == 0 && g.too_many)
        rc = err_set(e, WARM_ETOO_BIG, "an operation of more than %d tensors: use fewer operands",
                     ARGS_MAX);
    if (rc == 0 && g.too_big)
        rc = err_set(e, WARM_ETOO_BIG, "a tensor of more than 2^39 elements");
    for (uint32_t i = 0; i < g.kernels.n; i++)
        free(g.kernels.at[i].text);
    free(g.kernels.at);
    slots_close(&g.kernel_slots);
    slots_close(&g.let_slots);
    free(g.args.at);
    free(g.lets.at);
    free(g.group.at);
    free(g.values);
    free(g.origins);
    return rc;
}

void codegen_write_kernel(const struct codegen *c, uint32_t kernel, struct writer *out)
{
    if (!WARM_EXPECT(kernel < c->texts.n)) {
        out->failed = true;
        return;
    }
    const struct kernel_text *text = &c->texts.at[kernel];
    writer_format(out, "%sextern \"C\" __global__ void " LAUNCH_BOUNDS " kernel", PRELUDE);
    writer_bytes(out, c->source.data + text->at, text->len);
}

void codegen_free(struct codegen *c)
{
    program_free(c->p);
    free(c->texts.at);
    writer_close(&c->source);
    free(c->launches.at);
    free(c->loops.at);
    free(c->args.at);
    free(c->places);
}
