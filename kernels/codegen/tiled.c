/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tiled.c - decides if tiles pay for a dot_general, and fills the template in. codegen.c calls it.
 *
 * The template is part of the program as a text, as the file has it.
 *
 * Thread: any; no state.
 */
#include "kernels/codegen/tiled.h"

#include <inttypes.h>
#include <string.h>

#define TILE 64
#define KERNEL "void kernel("

__asm__(".section .rodata\n"
        ".hidden tiled_product_template\n"
        ".global tiled_product_template\n"
        "tiled_product_template:\n"
        ".incbin \"kernels/codegen/tiled_product.cu\"\n"
        ".byte 0\n"
        ".previous\n");
extern const char tiled_product_template[] __attribute__((visibility("hidden")));

struct tiled tiled_of(const struct tensor *x, const struct tensor *y, const int64_t *ints)
{
    struct dot_side side = program_dot_side(ints, 0, x->rank);
    struct tiled t = {1, 1, 1, 1, false};
    for (uint32_t i = 0; i < side.n_batch; i++)
        t.batch *= x->dims[side.batch[i]];
    for (uint32_t i = 0; i < side.n_contracted; i++)
        t.k *= x->dims[side.contracted[i]];
    if (t.batch && t.k) {
        t.m = x->n / t.batch / t.k;
        t.n = y->n / t.batch / t.k;
    }
    return t;
}

int64_t tiled_blocks(const struct tiled *t)
{
    return t->batch * ((t->m + TILE - 1) / TILE) * ((t->n + TILE - 1) / TILE);
}

bool tiled_fits(const struct tiled *t)
{
    return t->m >= TILED_SIZE_MIN && t->n >= TILED_SIZE_MIN && t->k >= TILED_K_MIN;
}

bool tiled_pays(const struct tiled *t)
{
    return tiled_fits(t) && tiled_blocks(t) >= TILED_TILES_MIN;
}

void tiled_write(const struct tiled *t, enum elem sum, struct view parameters,
                 const struct tiled_load loads[2], struct writer *out)
{
    struct writer sizes;
    writer_init(&sizes, 0);
    writer_format(&sizes,
                  "typedef %s place_t;\n    constexpr long long M = %" PRId64 ", N = %" PRId64
                  ", K = %" PRId64 ";\n    constexpr bool A_ALONG_K = %d, B_ALONG_K = %d;",
                  t->small ? "int" : "long long", t->m, t->n, t->k, loads[0].along_k,
                  loads[1].along_k);
    const struct {
        const char *name;
        struct view text;
    } of[] = {{"PARAMETERS", parameters},
              {"SIZES", {sizes.data, sizes.len}},
              {"LOAD_A\n", loads[0].text},
              {"LOAD_B\n", loads[1].text},
              {"SUM", view_of_text(sum == ELEM_F64 ? "double" : "float")},
              {"FMA", view_of_text(sum == ELEM_F64 ? "fma" : "fmaf")},
              {"PLUS", view_of_text(sum == ELEM_F64 ? "__dadd_rn" : "__fadd_rn")}};
    const char *at = strstr(tiled_product_template, KERNEL) + strlen(KERNEL) - 1;
    while (*at) {
        size_t i = 0, n = sizeof of / sizeof *of;
        while (i < n && strncmp(at, of[i].name, strlen(of[i].name)) != 0)
            i++;
        if (i < n)
            writer_bytes(out, of[i].text.data, of[i].text.len);
        else
            writer_bytes(out, at, 1);
        at += i < n ? strlen(of[i].name) : 1;
    }
    out->failed |= sizes.failed;
    writer_close(&sizes);
}
