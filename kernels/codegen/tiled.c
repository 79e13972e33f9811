/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tiled.c - decides if a dot_general is a product of matrices that tiles pay for, and fills the template in.
 * codegen.c calls it.
 *
 * The template is part of the program as a text, as the file has it.
 *
 * Thread: any; no state.
 */
#include "kernels/codegen/tiled.h"

#include <inttypes.h>
#include <string.h>

#include "keygen/expect.h"

#define TILE 64
#define KERNEL "void kernel("
#define SIZES "    SIZES\n"

__asm__(".section .rodata\n"
        ".hidden tiled_product_template\n"
        ".global tiled_product_template\n"
        "tiled_product_template:\n"
        ".incbin \"kernels/codegen/tiled_product.cu\"\n"
        ".byte 0\n"
        ".previous\n");
extern const char tiled_product_template[] __attribute__((visibility("hidden")));

/* One role of dimensions: their product, and the stride of the last one. */
struct role {
    int64_t n, stride;
    bool is_one; /* they follow one another in memory */
};

/* An operand: a stored tensor, or parts of one dimension of it. */
struct side {
    uint32_t value;
    int64_t dims[PROGRAM_RANK_MAX], strides[PROGRAM_RANK_MAX];
    int64_t cut, all; /* the dimension of parts, and the elements of all; -1 */
};

/* Joins dimensions, given in the order in which the role counts. */
static struct role join(const struct side *t, const int64_t *dims, uint32_t n)
{
    struct role r = {.n = 1, .stride = 0, .is_one = true};
    for (uint32_t i = n; i-- > 0;) {
        int64_t stride = t->strides[dims[i]], size = t->dims[dims[i]];
        if (size == 1)
            continue;
        r.is_one &= r.n == 1 || stride == r.stride * r.n;
        r.stride = r.n == 1 ? stride : r.stride;
        r.n *= size;
    }
    return r;
}

/* Returns the operation that makes a value; NULL for an argument. */
static const struct operation *maker(const struct program *p, const uint32_t *origins,
                                     uint32_t value)
{
    return origins[value] == PROGRAM_NONE ? NULL : &p->ops.at[origins[value]];
}

/* Describes an operand. Parts are windows whose elements follow one another, of a tensor or of its padding. */
static struct side side_of(const struct program *p, const uint32_t *origins, uint32_t value)
{
    struct side s = {.value = value, .cut = -1};
    const struct tensor *t = program_tensor(p, value);
    const struct operation *op = maker(p, origins, value);
    memcpy(s.dims, t->dims, sizeof s.dims);
    if (op && op->op == OP_WINDOW) {
        s.value = p->operands.at[op->operands];
        for (s.cut = 0; p->ints.at[op->ints + (uint32_t)s.cut] == 1;)
            s.cut++;
        const struct operation *pad = maker(p, origins, s.value);
        if (pad && pad->op == OP_PAD)
            s.value = p->operands.at[pad->operands];
        s.all = program_tensor(p, s.value)->dims[s.cut];
    }
    const struct tensor *whole = program_tensor(p, s.value);
    int64_t stride = 1;
    for (uint32_t d = whole->rank; d-- > 0; stride *= whole->dims[d])
        s.strides[d] = stride;
    if (s.cut >= 0) {
        s.strides[whole->rank] = s.strides[s.cut];
        s.strides[s.cut] *= s.dims[whole->rank];
    }
    return s;
}

/* Fills `out` with the dimensions that are in neither list. Returns their number. */
static uint32_t others(uint32_t rank, const int64_t *a, uint32_t n_a, const int64_t *b,
                       uint32_t n_b, int64_t out[PROGRAM_RANK_MAX])
{
    uint32_t n = 0;
    for (int64_t d = 0; d < rank; d++) {
        bool used = false;
        for (uint32_t i = 0; i < n_a; i++)
            used |= a[i] == d;
        for (uint32_t i = 0; i < n_b; i++)
            used |= b[i] == d;
        if (!used)
            out[n++] = d;
    }
    return n;
}

bool tiled_of(const struct program *p, const uint32_t *origins, const struct operation *dot,
              struct tiled *out)
{
    if (!WARM_EXPECT(dot->op == OP_DOT && dot->n_operands == 2))
        return false;
    const int64_t *ints = p->ints.at + dot->ints;
    uint32_t n_batch = (uint32_t)ints[0], n_k = (uint32_t)ints[1];
    enum elem elem = program_tensor(p, p->operands.at[dot->operands])->elem;
    struct role batch[2], free[2], k[2];
    struct side sides[2];
    bool cut = false;
    for (uint32_t side = 0; side < 2; side++) {
        uint32_t value = p->operands.at[dot->operands + side], n_rest;
        const struct tensor *t = program_tensor(p, value);
        const int64_t *b = ints + 2 + side * n_batch, *c = ints + 2 + 2 * n_batch + side * n_k;
        int64_t rest[PROGRAM_RANK_MAX];
        struct side *s = &sides[side];
        *s = side_of(p, origins, value);
        if (side && cut != (s->cut >= 0))
            return false;
        cut = s->cut >= 0;
        if (cut && (n_k != 1 || !n_batch || b[n_batch - 1] != s->cut || c[0] != t->rank - 1))
            return false;
        n_rest = others(t->rank, b, n_batch, c, n_k, rest);
        batch[side] = join(s, b, n_batch - cut);
        k[side] = join(s, c, n_k);
        free[side] = join(s, rest, n_rest);
        if (t->elem != elem || !program_is_float(elem) || t->n == 0 || !batch[side].is_one ||
            !k[side].is_one || !free[side].is_one)
            return false;
    }
    if (!WARM_EXPECT(batch[0].n == batch[1].n && k[0].n == k[1].n))
        return false;
    *out = (struct tiled){.batch = batch[0].n,
                          .m = free[0].n,
                          .n = free[1].n,
                          .k = k[0].n,
                          .a_batch = batch[0].stride,
                          .a_m = free[0].stride,
                          .a_k = k[0].stride,
                          .b_batch = batch[1].stride,
                          .b_k = k[1].stride,
                          .b_n = free[1].stride,
                          .parts = cut ? sides[0].dims[sides[0].cut] : 1,
                          .k_all = cut ? sides[0].all : k[0].n,
                          .a_part = cut ? sides[0].strides[sides[0].cut] : 0,
                          .b_part = cut ? sides[1].strides[sides[1].cut] : 0,
                          .a = sides[0].value,
                          .b = sides[1].value,
                          .elem = elem,
                          .sum = program_tensor(p, dot->results)->elem};
    return true;
}

int64_t tiled_blocks(const struct tiled *t)
{
    return t->batch * t->parts * ((t->m + TILE - 1) / TILE) * ((t->n + TILE - 1) / TILE);
}

bool tiled_pays(const struct tiled *t)
{
    return t->m >= TILED_SIZE_MIN && t->n >= TILED_SIZE_MIN && t->k >= TILED_K_MIN &&
           tiled_blocks(t) >= TILED_TILES_MIN;
}

void tiled_sizes(const struct tiled *t, struct writer *out)
{
    writer_format(out,
                  "constexpr long long M = %" PRId64 ", N = %" PRId64 ", K = %" PRId64
                  ", A_BATCH = %" PRId64 ", A_M = %" PRId64 ", A_K = %" PRId64
                  ", B_BATCH = %" PRId64 ", B_K = %" PRId64 ", B_N = %" PRId64 ", PARTS = %" PRId64
                  ", A_PART = %" PRId64 ", B_PART = %" PRId64 ", K_ALL = %" PRId64 ";",
                  t->m, t->n, t->k, t->a_batch, t->a_m, t->a_k, t->b_batch, t->b_k, t->b_n,
                  t->parts, t->a_part, t->b_part, t->k_all);
}

/* Appends a part of the template, with the types in place of their names. */
static void put_template(const struct tiled *t, const char *at, const char *end, struct writer *out)
{
    const char *of[][2] = {{"ELEM", t->elem == ELEM_F64    ? "double"
                                    : t->elem == ELEM_F16  ? "f16"
                                    : t->elem == ELEM_BF16 ? "bf16"
                                                           : "float"},
                           {"SUM", t->sum == ELEM_F64 ? "double" : "float"},
                           {"LOAD", program_elem_size(t->elem) == 2 ? "value_of" : ""},
                           {"FMA", t->sum == ELEM_F64 ? "fma" : "fmaf"},
                           {"PLUS", t->sum == ELEM_F64 ? "__dadd_rn" : "__fadd_rn"}};
    while (at < end) {
        size_t i = 0, n = sizeof of / sizeof *of;
        while (i < n && strncmp(at, of[i][0], strlen(of[i][0])) != 0)
            i++;
        if (i < n)
            writer_format(out, "%s", of[i][1]);
        else
            writer_bytes(out, at, 1);
        at += i < n ? strlen(of[i][0]) : 1;
    }
}

void tiled_write(const struct tiled *t, struct writer *out)
{
    const char *begin = strstr(tiled_product_template, KERNEL) + strlen(KERNEL) - 1,
               *sizes = strstr(begin, SIZES), *rest = sizes + strlen(SIZES);
    put_template(t, begin, sizes, out);
    writer_format(out, "    ");
    tiled_sizes(t, out);
    writer_format(out, "\n");
    put_template(t, rest, rest + strlen(rest), out);
}
