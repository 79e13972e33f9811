/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_canon.c - which kind an input is, and the keys of inputs of no kind. Each kind's own suite has its
 * form.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/canon_kit.h"

static const struct {
    enum canon_kind kind;
    const char *text;
} samples[] = {
    {CANON_MLIR, "module {\n}\n"},
    {CANON_MLIR, "func.func @main() {\nreturn\n}\n"},
    {CANON_MLIR_BYTECODE, "ML\xefR\x0d"},
    {CANON_HLO, "HloModule m\n\nENTRY e {\n  ROOT c = f32[] constant(1)\n}\n"},
    {CANON_PTX, ".version 8.0\n.target sm_90\n.address_size 64\n"},
    {CANON_CUDA, "__global__ void f() {}\n"},
    {CANON_RAW, ""},
    {CANON_RAW, "anything else\n"},
    {CANON_RAW, "\x7f"
                "ELF\x02\x01"},
};
enum { N_SAMPLES = sizeof samples / sizeof *samples };

static enum canon_kind detect(const char *name, const char *text)
{
    return canon_detect(name, text, strlen(text));
}

Test(canon, a_kind_is_known_by_its_content)
{
    static const char *const names[] = {NULL, "", "x", "x.txt", ".mlir", "mlir", "x.mlir.txt"};
    for (size_t i = 0; i < N_SAMPLES; i++)
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            cr_expect_eq(detect(names[k], samples[i].text), samples[i].kind, "%zu as %s: %s", i,
                         names[k] ? names[k] : "nothing",
                         canon_kind_name(detect(names[k], samples[i].text)));
}

Test(canon, a_name_decides_nothing_alone)
{
    static const char *const names[] = {"x.mlir", "x.mlirbc", "x.hlo", "x.ptx", "x.cu"};
    for (size_t i = 0; i < N_SAMPLES; i++)
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            cr_expect_eq(detect(names[k], samples[i].text), samples[i].kind, "%zu as %s", i,
                         names[k]);
}

Test(canon, each_kind_has_a_name_that_finds_it)
{
    enum canon_kind kind = CANON_AUTO;
    for (int i = CANON_AUTO; i <= CANON_RAW; i++) {
        cr_assert(canon_kind_from_name(canon_kind_name((enum canon_kind)i), &kind));
        cr_expect_eq(kind, (enum canon_kind)i);
    }
    kind = CANON_PTX;
    cr_expect_not(canon_kind_from_name("", &kind));
    cr_expect_not(canon_kind_from_name("MLIR", &kind));
    cr_expect_not(canon_kind_from_name("unknown", &kind));
    cr_expect_eq(kind, CANON_PTX, "it is set on success alone");
    cr_expect_str_eq(canon_kind_name((enum canon_kind)(CANON_RAW + 1)), "unknown");
    cr_expect_str_eq(canon_kind_name((enum canon_kind) - 1), "unknown");
}

/* ---- other bytes ---- */

static struct canon_result raw_key(const void *data, size_t len, struct writer *text)
{
    struct canon_input input = {.data = data, .len = len, .kind = CANON_RAW};
    struct canon_result result;
    struct err e;
    cr_assert_eq(canon_key(&input, &result, text, &e), 0, "%s", e.text);
    cr_expect(result.kind == CANON_RAW && !result.exact && !result.why_exact);
    return result;
}

Test(canon, other_bytes_are_their_own_form)
{
    static const size_t lens[] = {0, 1, 16383, 16384, 16385, 262143, 262144, 262145, 1000000};
    char *data = calloc(1, 1000001);
    for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
        struct writer text;
        writer_init(&text, 0);
        writer_u8(&text, '!'); /* what was there stays */
        struct canon_result a = raw_key(data, lens[i], &text),
                            longer = raw_key(data, lens[i] + 1, NULL);
        cr_assert(!text.failed && text.len == lens[i] + 1 && text.data[0] == '!', "%zu", lens[i]);
        cr_expect_eq(memcmp(text.data + 1, data, lens[i]), 0, "%zu", lens[i]);
        cr_expect(!key_equal(&a.key, &longer.key) && !proof_equal(&a.proof, &longer.proof));
        if (lens[i]) {
            data[lens[i] - 1] ^= 1;
            struct canon_result b = raw_key(data, lens[i], NULL);
            cr_expect(!key_equal(&a.key, &b.key) && !proof_equal(&a.proof, &b.proof), "%zu",
                      lens[i]);
            data[lens[i] - 1] ^= 1;
        }
        writer_close(&text);
    }
    free(data);
}

Test(canon, a_text_that_is_refused_leaves_the_callers_text)
{
    static const struct {
        enum canon_kind kind;
        const char *text;
        unsigned line;
    } bad[] = {{CANON_MLIR, "module {\n}\n}\n", 3},
               {CANON_PTX, ".version 8.0\n.target sm_90\n.address_size 64\n/*", 4},
               {CANON_HLO, "HloModule m\n\nENTRY e {\n", 0}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct canon_input input = {
            .data = bad[i].text, .len = strlen(bad[i].text), .kind = bad[i].kind};
        struct canon_result result = {.kind = CANON_AUTO};
        struct writer text;
        struct err e = {0};
        writer_init(&text, 0);
        writer_u8(&text, '!');
        int code = canon_key(&input, &result, &text, &e);
        cr_expect(code == WARM_EMALFORMED || code == WARM_ETRUNCATED, "%zu: %d", i, code);
        cr_expect(e.code == code && (!bad[i].line || e.line == bad[i].line), "%zu: line %u", i,
                  e.line);
        cr_expect(text.len == 1 && result.kind == CANON_AUTO, "%zu: %zu bytes", i, text.len);
        cr_expect_eq(canon_key(&input, &result, NULL, NULL), code, "nobody asks why");
        writer_close(&text);
    }
}

/* The exact bytes have a domain of their own for each kind. */
Test(canon, exact_bytes_of_a_kind_are_no_other_bytes)
{
    static const char text[] = "__global__ void f() {}\n";
    struct canon_input input = {
        .data = text, .len = sizeof text - 1, .kind = CANON_CUDA, .debug_info = true};
    struct canon_result exact, other = raw_key(text, sizeof text - 1, NULL);
    cr_assert_eq(canon_key(&input, &exact, NULL, NULL), 0);
    cr_expect(exact.exact && exact.why_exact && *exact.why_exact && exact.kind == CANON_CUDA);
    cr_expect(!key_equal(&exact.key, &other.key));
    struct canon_result form = canon_of(CANON_CUDA, text), ptx;
    input.kind = CANON_PTX;
    cr_assert_eq(canon_key(&input, &ptx, NULL, NULL), 0);
    cr_expect(ptx.exact && !key_equal(&ptx.key, &exact.key), "of another kind");
    cr_expect(!form.exact && !key_equal(&exact.key, &form.key));
}
