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

/* Joins dimensions, given in the order in which the role counts. */
static struct role join(const struct tensor *t, const int64_t *dims, uint32_t n)
{
    struct role r = {.n = 1, .stride = 0, .is_one = true};
    for (uint32_t i = n; i-- > 0;) {
        int64_t stride = 1, size = t->dims[dims[i]];
        for (uint32_t d = (uint32_t)dims[i] + 1; d < t->rank; d++)
            stride *= t->dims[d];
        if (size == 1)
            continue;
        r.is_one &= r.n == 1 || stride == r.stride * r.n;
        r.stride = r.n == 1 ? stride : r.stride;
        r.n *= size;
    }
    return r;
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

bool tiled_of(const struct program *p, const struct operation *dot, struct tiled *out)
{
    if (!WARM_EXPECT(dot->op == OP_DOT && dot->n_operands == 2))
        return false;
    const int64_t *ints = p->ints.at + dot->ints;
    uint32_t n_batch = (uint32_t)ints[0], n_k = (uint32_t)ints[1];
    struct role batch[2], free[2], k[2];
    for (uint32_t side = 0; side < 2; side++) {
        const struct tensor *t = program_tensor(p, p->operands.at[dot->operands + side]);
        const int64_t *b = ints + 2 + side * n_batch, *c = ints + 2 + 2 * n_batch + side * n_k;
        int64_t rest[PROGRAM_RANK_MAX];
        uint32_t n_rest = others(t->rank, b, n_batch, c, n_k, rest);
        batch[side] = join(t, b, n_batch);
        k[side] = join(t, c, n_k);
        free[side] = join(t, rest, n_rest);
        if (t->elem != ELEM_F32 || t->n == 0 || !batch[side].is_one || !k[side].is_one ||
            !free[side].is_one)
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
                          .b_n = free[1].stride};
    return true;
}

int64_t tiled_blocks(const struct tiled *t)
{
    return t->batch * ((t->m + TILE - 1) / TILE) * ((t->n + TILE - 1) / TILE);
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
                  ", B_BATCH = %" PRId64 ", B_K = %" PRId64 ", B_N = %" PRId64 ";",
                  t->m, t->n, t->k, t->a_batch, t->a_m, t->a_k, t->b_batch, t->b_k, t->b_n);
}

void tiled_write(const struct tiled *t, struct writer *out)
{
    const char *begin = strstr(tiled_product_template, KERNEL) + strlen(KERNEL) - 1,
               *sizes = strstr(begin, SIZES), *rest = sizes + strlen(SIZES);
    writer_bytes(out, begin, (size_t)(sizes - begin));
    writer_format(out, "    ");
    tiled_sizes(t, out);
    writer_format(out, "\n%s", rest);
}
