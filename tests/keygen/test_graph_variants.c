/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_graph_variants.c - a sample of the metamorphic proof of tests/proof/graphs.c, over the
 * modules in tests/data; and programs of which what is hashed in short (KEYS.md, section 2.3) must tell
 * apart whatever the canonical text tells apart, and nothing else.
 *
 * The generators are part of this file: the test programs link what is in tests/ alone.
 */
#include "tests/proof/graph_variants.c"
#include "tests/proof/short_text.c"
#include "tests/proof/variants.c"

#include <criterion/criterion.h>

#include "keygen/canon/canon.h"
#include "tests/support/support.h"

#define CASES 1000

static int key_of(enum graph_language language, struct text t, struct short_text *out,
                  struct err *e)
{
    struct canon_input input = {
        .data = t.data, .len = t.len, .kind = language == GRAPH_HLO ? CANON_HLO : CANON_MLIR};
    return short_text_of(&input, out, e);
}

static void variants_agree(const char *path, enum graph_language language)
{
    struct text base;
    struct short_text key, other;
    struct err e = {0};
    base.data = file_read(path, &base.len);
    cr_assert_eq(key_of(language, base, &key, &e), 0, "%s", e.text);
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        struct random r = {seed};
        struct text variant = variant_of_graph(&r, language, base);
        cr_assert_eq(key_of(language, variant, &other, &e), 0, "%s, seed %d: %s", path, (int)seed,
                     e.text);
        cr_assert(key_equal(&key.key, &other.key), "%s, seed %d:\n%s", path, (int)seed,
                  variant.data);
        cr_assert(short_text_agree(&key, &other), "%s, seed %d:\n%s", path, (int)seed,
                  variant.data);
        free(variant.data);
    }
    free(base.data);
}

static void mutants_differ(const char *path, enum graph_language language)
{
    struct text base;
    struct short_text key, other;
    struct err e = {0};
    int keyed = 0;
    base.data = file_read(path, &base.len);
    cr_assert_eq(key_of(language, base, &key, &e), 0, "%s", e.text);
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        struct random r = {seed};
        const char *what;
        struct text mutant = mutant_of_graph(&r, language, base, &what);
        if (!mutant.data)
            continue;
        if (key_of(language, mutant, &other, &e) == 0) {
            cr_assert(!key_equal(&key.key, &other.key), "%s, seed %d: %s", path, (int)seed, what);
            cr_assert(short_text_agree(&key, &other), "%s, seed %d: %s", path, (int)seed, what);
            keyed++;
        }
        free(mutant.data);
    }
    cr_assert_gt(keyed, CASES / 50, "only %d mutants had a key", keyed);
    free(base.data);
}

Test(graph_variants, of_mlir_keep_the_key)
{
    variants_agree("tests/data/train.mlir", GRAPH_MLIR);
    variants_agree("tests/data/loop.mlir", GRAPH_MLIR);
    variants_agree("tests/data/step.mlir", GRAPH_MLIR);
}

Test(graph_variants, of_hlo_keep_the_key)
{
    variants_agree("tests/data/train.hlo", GRAPH_HLO);
    variants_agree("tests/data/loop.hlo", GRAPH_HLO);
}

Test(graph_variants, mutants_of_hlo_have_another_key)
{
    mutants_differ("tests/data/train.hlo", GRAPH_HLO);
    mutants_differ("tests/data/loop.hlo", GRAPH_HLO);
}

Test(graph_variants, mutants_of_mlir_have_another_key)
{
    mutants_differ("tests/data/train.mlir", GRAPH_MLIR);
    mutants_differ("tests/data/loop.mlir", GRAPH_MLIR);
}

/* ---- the text in short ---- */

#define T "tensor<4xf32>"
#define ADD(result, a, b) result " = stablehlo.add " a ", " b " : " T "\n"
#define SINE(result, a) result " = stablehlo.sine " a " : " T "\n"
#define CALL(result, a, target)                                                                    \
    result " = stablehlo.custom_call @" target "(" a ") : (" T ") -> " T "\n"
#define SAYS(result, a, text)                                                                      \
    result " = stablehlo.custom_call @f(" a ") {backend_config = \"" text "\"} : (" T ") -> " T "\n"
#define MAIN(body, out)                                                                            \
    "func.func public @main(%x: " T ", %y: " T ") -> " T " {\n" body "return " out " : " T "\n}\n"
#define REDUCE(result, a, c, op)                                                                   \
    result " = stablehlo.reduce(" a " init: " c ") applies stablehlo." op                          \
           " across dimensions = [0] : (" T ", tensor<f32>) -> tensor<f32>\n"
#define REDUCES(first, second)                                                                     \
    "func.func public @main(%x: " T ", %y: " T ") -> (tensor<f32>, tensor<f32>) {\n"               \
    "%c = stablehlo.constant dense<0.0> : tensor<f32>\n" REDUCE("%a", "%x", "%c", first)           \
        REDUCE("%b", "%y", "%c", second) "return %a, %b : tensor<f32>, tensor<f32>\n}\n"
/* A loop in a loop: its lines stand at two depths. */
#define LOOP(cond, inner)                                                                          \
    "func.func public @main(%x: " T ", %p: tensor<i1>) -> " T " {\n"                               \
    "%r = stablehlo.while(%i = %x) : " T "\ncond {\nstablehlo.return " cond                        \
    " : tensor<i1>\n} do {\n"                                                                      \
    "%s = stablehlo.while(%j = %i) : " T                                                           \
    "\ncond {\nstablehlo.return %p : tensor<i1>\n} do {\n" SINE("%k", "%j")                        \
        SINE("%l", "%k") "stablehlo.return " inner " : " T                                         \
                         "\n}\n" SINE("%m", "%s") "stablehlo.return %m : " T "\n}\nreturn %r : " T \
                                                  "\n}\n"

/* All of them different programs. */
static const char *const programs[] = {
    MAIN(ADD("%a", "%x", "%y") ADD("%b", "%a", "%x") ADD("%c", "%b", "%a"), "%c"),
    MAIN(ADD("%a", "%x", "%y") ADD("%b", "%a", "%x") ADD("%c", "%b", "%x"), "%c"),
    MAIN(ADD("%a", "%x", "%y") ADD("%b", "%a", "%x"), "%b"),
    MAIN(ADD("%a", "%x", "%y") ADD("%b", "%a", "%y"), "%b"),
    MAIN(SINE("%a", "%x"), "%a"),
    MAIN(SINE("%a", "%x") SINE("%b", "%a"), "%b"),
    MAIN(SINE("%a", "%x") SINE("%b", "%a") SINE("%c", "%b"), "%c"),
    MAIN(SINE("%a", "%y") SINE("%b", "%a") SINE("%c", "%b"), "%c"),
    MAIN("%a = stablehlo.subtract %x, %y : " T "\n%b = stablehlo.subtract %y, %a : " T "\n", "%b"),
    MAIN("%a = stablehlo.subtract %x, %y : " T "\n%b = stablehlo.subtract %a, %y : " T "\n", "%b"),
    MAIN("%a = stablehlo.subtract %y, %x : " T "\n%b = stablehlo.subtract %y, %a : " T "\n", "%b"),
    MAIN(CALL("%a", "%x", "f") CALL("%b", "%a", "f"), "%b"),
    MAIN(CALL("%a", "%x", "f") CALL("%b", "%a", "g"), "%b"),
    MAIN(CALL("%a", "%x", "g") CALL("%b", "%a", "f"), "%b"),
    MAIN(SAYS("%a", "%x", "f\\0A  %3 = stablehlo.sine %2") SINE("%b", "%a"), "%b"),
    MAIN(SAYS("%a", "%x", "\x04\x01\x05\x01") SINE("%b", "%a"), "%b"),
    MAIN(SAYS("%a", "%x", "\x04\x01\x05\x02") SINE("%b", "%a"), "%b"),
    REDUCES("add", "add"),
    REDUCES("add", "maximum"),
    REDUCES("maximum", "add"),
    REDUCES("maximum", "maximum"),
    LOOP("%p", "%l"),
    LOOP("%p", "%k"),
    LOOP("%p", "%j"),
};
#define N_PROGRAMS (sizeof programs / sizeof *programs)

static struct short_text short_of(const char *program, size_t len)
{
    struct canon_input input = {.data = program, .len = len, .kind = CANON_MLIR};
    struct short_text form;
    struct err e = {0};
    int rc = short_text_of(&input, &form, &e);
    cr_assert_eq(rc, 0, "%u:%u: %s in\n%s", e.line, e.column, e.text, program);
    cr_assert_null(form.wrong, "%s of\n%s", form.wrong, program);
    return form;
}

Test(graph_variants, short_form_tells_apart_what_the_text_tells_apart)
{
    struct short_text forms[N_PROGRAMS];
    for (size_t i = 0; i < N_PROGRAMS; i++)
        forms[i] = short_of(programs[i], strlen(programs[i]));
    for (size_t i = 0; i < N_PROGRAMS; i++)
        for (size_t j = 0; j < i; j++) {
            cr_expect(short_text_agree(&forms[i], &forms[j]), "%zu and %zu", i, j);
            cr_expect(!key_equal(&forms[i].key, &forms[j].key), "%zu and %zu", i, j);
        }
}

/* The constant is spelled in two ways; both are shorter, or both longer, than what a reader may borrow. */
static char *with_constant(size_t n, bool hex)
{
    struct writer w;
    size_t len;
    writer_init(&w, 0);
    writer_format(
        &w, "func.func public @main() -> tensor<%zuxi8> {\n%%c = stablehlo.constant dense<", n);
    writer_format(&w, hex ? "\"0x" : "[");
    for (size_t i = 0; i < n; i++)
        writer_format(&w, hex ? "%02zX" : i ? ", %zu" : "%zu", i % 100);
    writer_format(&w, "%s> : tensor<%zuxi8>\nreturn %%c : tensor<%zuxi8>\n}\n", hex ? "\"" : "]", n,
                  n);
    writer_u8(&w, 0);
    return writer_take(&w, &len);
}

Test(graph_variants, short_form_does_not_depend_on_how_a_constant_was_read)
{
    for (size_t n = 2000; n < 2100; n++) {
        char *list = with_constant(n, false), *hex = with_constant(n, true);
        struct short_text a = short_of(list, strlen(list)), b = short_of(hex, strlen(hex));
        cr_expect(key_equal(&a.key, &b.key), "%zu bytes", n);
        cr_expect(short_text_agree(&a, &b), "%zu bytes", n);
        free(list);
        free(hex);
    }
}

/* More items than a chunk has room for, in one line and in many, and numbers of several bytes. */
static struct short_text long_program(unsigned n, unsigned swapped)
{
    struct writer w;
    writer_init(&w, 0);
    writer_format(&w, "func.func public @main(%%v0: " T ", %%v1: " T ") -> (" T);
    for (unsigned i = 1; i < n; i++)
        writer_format(&w, ", " T);
    writer_format(&w, ") {\n");
    for (unsigned i = 2; i < n + 2; i++)
        writer_format(&w, "%%v%u = stablehlo.subtract %%v%u, %%v%u : " T "\n", i,
                      i == swapped ? i / 3 : i - 1, i == swapped ? i - 1 : i / 3);
    writer_format(&w, "return %%v2");
    for (unsigned i = 3; i < n + 2; i++)
        writer_format(&w, ", %%v%u", i);
    writer_format(&w, " : " T);
    for (unsigned i = 1; i < n; i++)
        writer_format(&w, ", " T);
    writer_format(&w, "\n}\n");
    struct short_text form = short_of((const char *)w.data, w.len);
    writer_close(&w);
    return form;
}

Test(graph_variants, short_form_of_a_long_program_stands_for_all_of_it)
{
    struct short_text base = long_program(20000, 0);
    static const unsigned swapped[] = {3, 700, 16500, 20001};
    for (size_t i = 0; i < sizeof swapped / sizeof *swapped; i++) {
        struct short_text other = long_program(20000, swapped[i]);
        cr_expect(short_text_agree(&base, &other));
        cr_expect(!key_equal(&base.key, &other.key), "swapped at %u", swapped[i]);
    }
}
