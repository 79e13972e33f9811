/* SPDX-License-Identifier: Apache-2.0 */
/* test_manifest.c - what a compile read, as bytes and as a comparison. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "daemon/manifest.h"

static struct view text(const char *s) { return (struct view){s, strlen(s)}; }

/* A file whose content is `byte`, or nothing there. */
static struct manifest_state state(uint32_t path, int byte)
{
    struct manifest_state s = {.path = path, .absent = byte < 0};
    if (byte >= 0) {
        s.xxh3 = key_of_bytes(&byte, 1);
        s.sha256 = proof_of_bytes(&byte, 1);
    }
    return s;
}

static struct wire_path_digest seen(enum wire_digest digest, int byte)
{
    struct wire_path_digest d = {.state = byte < 0 ? WIRE_PATH_ABSENT : WIRE_PATH_FILE};
    struct key key = key_of_bytes(&byte, 1);
    struct proof proof = proof_of_bytes(&byte, 1);
    if (byte >= 0 && digest == WIRE_XXH3)
        memcpy(d.digest, &key, sizeof key);
    else if (byte >= 0)
        memcpy(d.digest, &proof, sizeof proof);
    return d;
}

/* a.h holds `a`, b.h holds `b`; the result's key is `result`. */
static struct manifest *two_files(uint32_t maker, int a, int b, uint8_t result)
{
    const struct view paths[] = {text("a.h"), text("sub/b.h")};
    const struct manifest_state states[] = {state(0, a), state(1, b)};
    struct manifest_alternative alternative = {.maker = maker, .result = {{result}}};
    struct manifest *m = manifest_new(paths, states, 2, &alternative);
    cr_assert_not_null(m);
    return m;
}

static struct manifest *merge(struct manifest *fresh, struct manifest *old)
{
    struct writer w;
    struct manifest *m;
    writer_init(&w, 0);
    manifest_write(fresh, old, &w);
    cr_assert_not(w.failed);
    cr_assert_eq(manifest_decode(w.data, w.len, &m, NULL), 0);
    writer_close(&w);
    manifest_unref(fresh);
    manifest_unref(old);
    return m;
}

Test(manifest, has_these_bytes)
{
    struct manifest *m = two_files(1000, 5, -1, 0xee);
    struct writer w;
    writer_init(&w, 0);
    manifest_write(m, NULL, &w);
    static const uint8_t start[] = {'W', 'M', 'A', 'N', 1,   0,   1,    0, 2, 0, 0,   0,
                                    3,   0,   0,   0,   'a', '.', 'h',  7, 0, 0, 0,   's',
                                    'u', 'b', '/', 'b', '.', 'h', 0xe8, 3, 0, 0, 0xee};
    cr_assert_eq(w.len, 30 + 4 + 16 + 32 + 4 + (5 + 48) + 5);
    cr_assert_eq(memcmp(w.data, start, sizeof start), 0);
    writer_close(&w);
    manifest_unref(m);
}

Test(manifest, matches_equal_files_by_either_digest)
{
    struct manifest *m = two_files(1, 5, -1, 1);
    for (enum wire_digest d = WIRE_XXH3; d <= WIRE_SHA256; d++) {
        struct wire_path_digest same[] = {seen(d, 5), seen(d, -1)};
        struct wire_path_digest changed[] = {seen(d, 6), seen(d, -1)};
        struct wire_path_digest appeared[] = {seen(d, 5), seen(d, 5)};
        struct wire_path_digest gone[] = {seen(d, -1), seen(d, -1)};
        cr_assert_not_null(manifest_match(m, d, same));
        cr_assert_null(manifest_match(m, d, changed));
        cr_assert_null(manifest_match(m, d, appeared), "a file earlier on the path counts");
        cr_assert_null(manifest_match(m, d, gone));
        same[1].state = WIRE_PATH_REFUSED;
        cr_assert_not_null(manifest_match(m, d, same),
                           "what is refused was absent to the compiler");
    }
    manifest_unref(m);
}

Test(manifest, keeps_sixteen_alternatives_newest_first)
{
    struct manifest *m = NULL;
    for (int i = 0; i < 20; i++)
        m = merge(two_files(1, i, -1, (uint8_t)i), m);
    cr_assert_eq(m->n_alternatives, MANIFEST_ALTERNATIVES_MAX);
    cr_assert_eq(m->n_paths, 2);
    cr_assert_eq(m->alternatives[0].result.bytes[0], 19);
    struct wire_path_digest newest[] = {seen(WIRE_XXH3, 19), seen(WIRE_XXH3, -1)};
    struct wire_path_digest oldest[] = {seen(WIRE_XXH3, 4), seen(WIRE_XXH3, -1)};
    struct wire_path_digest dropped[] = {seen(WIRE_XXH3, 3), seen(WIRE_XXH3, -1)};
    cr_assert_eq(manifest_match(m, WIRE_XXH3, newest)->result.bytes[0], 19);
    cr_assert_eq(manifest_match(m, WIRE_XXH3, oldest)->result.bytes[0], 4);
    cr_assert_null(manifest_match(m, WIRE_XXH3, dropped));
    manifest_unref(m);
}

Test(manifest, the_same_result_is_kept_once)
{
    struct manifest *m = merge(two_files(1, 5, -1, 7), two_files(2, 6, -1, 7));
    cr_assert_eq(m->n_alternatives, 1);
    cr_assert_eq(m->alternatives->maker, 1);
    manifest_unref(m);
}

Test(manifest, others_must_prove_that_they_have_the_files)
{
    struct manifest *own = two_files(1, 5, -1, 1);
    cr_assert_eq(manifest_digest(own, 1), WIRE_XXH3);
    cr_assert_eq(manifest_digest(own, 2), WIRE_SHA256);
    struct manifest *mixed = merge(own, two_files(2, 6, -1, 2));
    cr_assert_eq(manifest_digest(mixed, 1), WIRE_SHA256);
    manifest_unref(mixed);
}

Test(manifest, the_result_has_another_key_for_each_difference)
{
    const struct key graph = {{1}};
    const struct proof proof = {{2}}, other_proof = {{3}};
    const struct view paths[] = {text("a.h"), text("b.h")};
    const struct view swapped[] = {text("b.h"), text("a.h")};
    const struct manifest_state states[] = {state(0, 5), state(1, -1)};
    const struct manifest_state changed[] = {state(0, 6), state(1, -1)};
    const struct manifest_state present[] = {state(0, 5), state(1, 5)};
    struct key k[6];
    struct proof p;
    manifest_seal(&graph, &proof, paths, states, 2, &k[0], &p);
    manifest_seal(&graph, &other_proof, paths, states, 2, &k[1], &p);
    manifest_seal(&graph, &proof, swapped, states, 2, &k[2], &p);
    manifest_seal(&graph, &proof, paths, changed, 2, &k[3], &p);
    manifest_seal(&graph, &proof, paths, present, 2, &k[4], &p);
    manifest_seal(&graph, &proof, paths, states, 1, &k[5], &p);
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < i; j++)
            cr_assert_not(key_equal(&k[i], &k[j]), "%d and %d", i, j);
}

Test(manifest, every_truncation_and_an_unknown_version_are_refused)
{
    struct manifest *m = two_files(1, 5, -1, 1), *out;
    struct writer w;
    writer_init(&w, 0);
    manifest_write(m, NULL, &w);
    for (size_t len = 0; len < w.len; len++)
        cr_assert_lt(manifest_decode(w.data, len, &out, NULL), 0, "%zu bytes", len);
    w.data[4] = 2;
    cr_assert_eq(manifest_decode(w.data, w.len, &out, NULL), WARM_EVERSION);
    writer_close(&w);
    manifest_unref(m);
}

Test(manifest, the_oldest_alternatives_give_way_to_the_limit)
{
    enum { N = 1000, LEN = 1000 };
    static char names[N][LEN];
    static struct view paths[N];
    static struct manifest_state states[N];
    struct manifest *m = NULL;
    for (unsigned round = 0; round < 8; round++) {
        for (uint32_t i = 0; i < N; i++) {
            memset(names[i], 'p', LEN);
            snprintf(names[i], LEN, "%u/%u", round, i);
            names[i][strlen(names[i])] = '-';
            paths[i] = (struct view){names[i], LEN};
            states[i] = state(i, (int)round);
        }
        struct manifest_alternative a = {.result = {{(uint8_t)round}}};
        m = merge(manifest_new(paths, states, N, &a), m);
    }
    cr_assert_gt(m->n_alternatives, 1);
    cr_assert_lt(m->n_alternatives, 8);
    cr_assert_eq(m->alternatives[0].result.bytes[0], 7);
    manifest_unref(m);
}
