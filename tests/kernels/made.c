/* SPDX-License-Identifier: Apache-2.0 */
/*
 * made.c - makes bundles for the tests of the runner: codegen's kernels, as cubins of NVRTC or as images whose bytes
 * lead the stand-in to a kernel for the CPU. test_exec.c and test_graph_xla.c use it.
 *
 * Thread: the test's.
 */
#include "tests/kernels/made.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "tests/kernels/any_gpu.h"

#define IMAGE_LEN 72u

static void elf_begin(uint8_t *out) { memcpy(out, "\177ELF\2\1", 6); }

/* Gives an ELF file without sections that stands for the cubin of a kernel (free()). */
static uint8_t *image_of(const struct codegen *c, uint32_t kernel)
{
    const struct kernel_text *text = &c->texts.at[kernel];
    uint8_t *image = calloc(1, IMAGE_LEN);
    elf_begin(image);
    bytes_store(image + 0x28, IMAGE_LEN, 8);
    bytes_store(image + 64, XXH3_64bits(c->source.data + text->at, text->len), 8);
    return image;
}

/* Gives the cubin of a kernel for the real GPU (free()). */
static uint8_t *cubin_of(const struct codegen *c, uint32_t kernel, size_t *out_len)
{
    struct writer source;
    writer_init(&source, 0);
    codegen_write_kernel(c, kernel, &source);
    writer_u8(&source, 0);
    uint8_t *cubin = any_gpu_cubin((const char *)source.data, out_len);
    writer_close(&source);
    return cubin;
}

struct made made_of_program(struct program *p, FILE *f)
{
    struct made m = {.p = p};
    struct codegen c;
    struct err e = {0};
    cr_assert_eq(codegen_function(p, program_function(p, NULL), &c, &e), 0, "%s", e.text);
    cr_assert_eq(graph_bundle_plan(&c, &m.b, &e), 0, "%s", e.text);
    m.images = calloc((size_t)c.n_kernels + 1, sizeof *m.images);
    for (uint32_t i = 0; i < c.n_kernels; i++) {
        size_t len = IMAGE_LEN;
        m.images[i] = any_gpu_is_real() ? cubin_of(&c, i, &len) : image_of(&c, i);
        m.b.kernels.at[i].cubin = (struct view){m.images[i], len};
        if (!any_gpu_is_real())
            for_cpu_cubin(f, &c, i, m.images[i]);
    }
    m.b.target = view_of_text(any_gpu_target());
    codegen_free(&c);
    return m;
}

void made_free(struct made *m)
{
    for (uint32_t i = 0; i < m->b.kernels.n; i++)
        free(m->images[i]);
    graph_bundle_close(&m->b);
    program_free(m->p);
    free(m->images);
}

struct made made_of_text(const char *text, FILE *f)
{
    struct program *p, *inlined;
    struct err e = {0};
    cr_assert_eq(program_read(text, strlen(text), &p, &e), 0, "%s", e.text);
    cr_assert_eq(program_flatten(p, program_function(p, NULL), &inlined, &e), 0, "%s", e.text);
    program_free(p);
    return made_of_program(inlined, f);
}
