/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_graph_variants.c - a sample of the metamorphic proof of tests/proof/graphs.c, over the
 * modules in tests/data.
 *
 * The generators are part of this file: the test programs link what is in tests/ alone.
 */
#include "tests/proof/graph_variants.c"
#include "tests/proof/variants.c"

#include <criterion/criterion.h>

#include "keygen/canon.h"
#include "tests/support.h"

#define CASES 1000

static int key_of(enum graph_language language, struct text t, struct key *out, struct err *e)
{
    struct canon_input input = {
        .data = t.data, .len = t.len, .kind = language == GRAPH_HLO ? CANON_HLO : CANON_MLIR};
    struct canon_result result;
    int code = canon_key(&input, &result, NULL, e);
    if (!code)
        *out = result.key;
    return code;
}

static void variants_agree(const char *path, enum graph_language language)
{
    struct text base;
    struct key key, other;
    struct err e = {0};
    base.data = file_read(path, &base.len);
    cr_assert_eq(key_of(language, base, &key, &e), 0, "%s", e.text);
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        struct random r = {seed};
        struct text variant = variant_of_graph(&r, language, base);
        cr_assert_eq(key_of(language, variant, &other, &e), 0, "%s, seed %d: %s", path, (int)seed,
                     e.text);
        cr_assert(key_equal(&key, &other), "%s, seed %d:\n%s", path, (int)seed, variant.data);
        free(variant.data);
    }
    free(base.data);
}

static void mutants_differ(const char *path, enum graph_language language)
{
    struct text base;
    struct key key, other;
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
            cr_assert(!key_equal(&key, &other), "%s, seed %d: %s", path, (int)seed, what);
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

Test(graph_variants, mutants_of_mlir_have_another_key)
{
    mutants_differ("tests/data/train.mlir", GRAPH_MLIR);
    mutants_differ("tests/data/loop.mlir", GRAPH_MLIR);
}

Test(graph_variants, mutants_of_hlo_have_another_key)
{
    mutants_differ("tests/data/train.hlo", GRAPH_HLO);
    mutants_differ("tests/data/loop.hlo", GRAPH_HLO);
}
