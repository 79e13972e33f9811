/* SPDX-License-Identifier: Apache-2.0 */
/* test_manifest.c - the files that a compile read, as bytes and as a comparison. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "daemon/headers/manifest.h"

/* A file whose content is `byte`, or nothing there. */
static struct manifest_state state(uint32_t path, int byte)
{
    struct manifest_state s = {.path = path, .absent = byte < 0};
    s.same = path;
    if (byte >= 0)
        s.sha256 = proof_of_bytes(&byte, 1);
    return s;
}

static struct wire_path_seen seen(uint32_t path, int byte)
{
    struct wire_path_seen it = {.state = byte < 0 ? WIRE_PATH_ABSENT : WIRE_PATH_FILE,
                                .same = path};
    if (byte >= 0)
        it.sha256 = proof_of_bytes(&byte, 1);
    return it;
}

/* a.h holds `a`, b.h holds `b`; the result's key is `result`. */
static struct manifest *two_files(uint32_t maker, int a, int b, uint8_t result)
{
    const struct view paths[] = {view_of_text("a.h"), view_of_text("sub/b.h")};
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
    static const uint8_t start[] = {'W', 'M', 'A', 'N', 4,   0,   1,    0, 2, 0, 0,   0,
                                    3,   0,   0,   0,   'a', '.', 'h',  7, 0, 0, 0,   's',
                                    'u', 'b', '/', 'b', '.', 'h', 0xe8, 3, 0, 0, 0xee};
    cr_assert_eq(w.len, 30 + 4 + 16 + 32 + 32 + 1 + 4 + (5 + 36) + 5);
    cr_assert_eq(memcmp(w.data, start, sizeof start), 0);
    writer_close(&w);
    manifest_unref(m);
}

Test(manifest, matches_equal_files)
{
    struct manifest *m = two_files(1, 5, -1, 1);
    struct wire_path_seen same[] = {seen(0, 5), seen(1, -1)};
    struct wire_path_seen changed[] = {seen(0, 6), seen(1, -1)};
    struct wire_path_seen appeared[] = {seen(0, 5), seen(1, 5)};
    struct wire_path_seen gone[] = {seen(0, -1), seen(1, -1)};
    cr_assert_not_null(manifest_match(m, same));
    cr_assert_null(manifest_match(m, changed));
    cr_assert_null(manifest_match(m, appeared), "a file earlier on the path counts");
    cr_assert_null(manifest_match(m, gone));
    same[1].state = WIRE_PATH_REFUSED;
    cr_assert_not_null(manifest_match(m, same), "what is refused was absent to the compiler");
    manifest_unref(m);
}

/* Four names of equal content; `same` says which of them lead to one file. */
static struct manifest *four_names(const uint32_t same[4])
{
    const struct view paths[] = {view_of_text("a.h"), view_of_text("b.h"), view_of_text("c.h"),
                                 view_of_text("d.h")};
    struct manifest_state states[4];
    for (uint32_t i = 0; i < 4; i++) {
        states[i] = state(i, 5);
        states[i].same = same[i];
    }
    struct manifest *m =
        manifest_new(paths, states, 4, &(struct manifest_alternative){.one_file = true});
    cr_assert_not_null(m);
    return m;
}

/* `#pragma once` leaves out a file that was read under another name, and no copy of it. */
Test(manifest, equal_files_must_be_one_file_where_they_were)
{
    static const uint32_t partitions[][4] = {{0, 1, 2, 3}, {0, 0, 2, 3}, {0, 1, 0, 3}, {0, 1, 2, 0},
                                             {0, 1, 1, 3}, {0, 1, 2, 1}, {0, 1, 2, 2}, {0, 0, 2, 2},
                                             {0, 1, 0, 1}, {0, 1, 1, 0}, {0, 0, 0, 3}, {0, 0, 2, 0},
                                             {0, 1, 0, 0}, {0, 1, 1, 1}, {0, 0, 0, 0}};
    enum { N = sizeof partitions / sizeof *partitions };
    for (unsigned i = 0; i < N; i++) {
        struct manifest *m = four_names(partitions[i]);
        for (unsigned k = 0; k < N; k++) {
            struct wire_path_seen states[4];
            for (uint32_t p = 0; p < 4; p++) {
                states[p] = seen(p, 5);
                states[p].same = partitions[k][p];
            }
            cr_assert_eq(manifest_match(m, states) != NULL, i == k, "%u and %u", i, k);
            cr_assert_eq(manifest_other_file(m, m->alternatives, states) < 4, i != k);
        }
        manifest_unref(m);
    }
}

/* A path may be meant from one folder or from another (daemon/headers/manifest_paths.h): an asker may read both. */
Test(manifest, forms_of_a_path_are_one_file_where_that_counts)
{
    const struct view paths[] = {view_of_text("one/a.h"), view_of_text("\1a.h")};
    struct manifest_state states[] = {state(0, 5), state(1, 5)};
    struct wire_path_seen copies[] = {seen(0, 5), seen(1, 5)}, linked[] = {seen(0, 5), seen(1, 5)};
    states[1].same = linked[1].same = 0;
    for (int once = 0; once < 2; once++) {
        struct manifest *m =
            manifest_new(paths, states, 2, &(struct manifest_alternative){.one_file = once});
        cr_assert_not_null(manifest_match(m, linked));
        cr_assert_eq(manifest_match(m, copies) != NULL, !once);
        manifest_unref(m);
    }
}

Test(manifest, a_name_that_comes_again_is_the_same_file)
{
    const struct view paths[] = {view_of_text("a.h"), view_of_text("a.h"), view_of_text("b.h")};
    struct manifest_state states[] = {state(0, 5), state(1, 5), state(2, 5)};
    states[2].same = 1;
    struct manifest *m = manifest_new(paths, states, 3, &(struct manifest_alternative){.maker = 1});
    cr_assert_eq(m->alternatives->n_states, 2);
    cr_assert_eq(m->alternatives->states[1].same, 0);
    manifest_unref(m);
}

/* The bases of a job with these absolute -I folders, NULL behind the last. */
static struct bases *bases_of(const char *folder, const char *one, const char *two)
{
    const struct view places[] = {view_of_text(one), view_of_text(two ? two : "")};
    struct bases *b = bases_new(view_of_text(folder), places, two ? 2 : 1);
    cr_assert_not_null(b);
    return b;
}

/* Where __FILE__ of a header may show, its folder must be the asker's. */
Test(manifest, a_result_that_shows_a_folder_is_for_those_who_have_it)
{
    struct bases *here = bases_of("", "/a/", "/b/"), *there = bases_of("", "/b/", "/a/");
    struct wire_path_seen same[] = {seen(0, 5), seen(1, -1)};
    struct manifest *m = two_files(1, 5, -1, 1);
    m->alternatives->places = here->places_proof;
    cr_assert_null(manifest_match(m, same));
    cr_assert(manifest_set_bases(m, there));
    cr_assert_null(manifest_match(m, same));
    cr_assert(manifest_set_bases(m, here));
    cr_assert_not_null(manifest_match(m, same));
    manifest_unref(m);
    bases_unref(here);
    bases_unref(there);
}

/* A path that shows another user's folders is never asked about. */
Test(manifest, an_asker_is_asked_about_what_may_be_its_own)
{
    struct bases *here = bases_of("", "/a/", NULL), *there = bases_of("", "/b/", NULL);
    const struct view paths[] = {view_of_text("/a/h.h"), view_of_text("k.h")};
    const struct manifest_state states[] = {state(0, 5), state(1, 5)};
    struct manifest_alternative of_here = {.result = {{1}}, .places = here->places_proof};
    struct manifest_alternative of_all = {.result = {{2}}};
    struct manifest *m = merge(manifest_new(paths, states, 2, &of_here),
                               manifest_new(paths + 1, states, 1, &of_all));
    struct key digest = m->digest;
    cr_assert_eq(m->n_paths, 2);
    struct manifest *own = manifest_for(manifest_ref(m), here);
    cr_assert(own == m && own->bases == here);
    manifest_unref(own);
    own = manifest_for(manifest_ref(m), there);
    cr_assert(own->n_alternatives == 1 && own->n_paths == 1 && key_equal(&own->digest, &digest));
    cr_assert_eq(own->alternatives->result.bytes[0], 2);
    manifest_unref(own);
    cr_assert_null(manifest_for(manifest_new(paths, states, 2, &of_here), there));
    manifest_unref(m);
    bases_unref(here);
    bases_unref(there);
}

static void expect_path(const struct bases *b, const char *path, const char *expected)
{
    char out[64];
    bases_path(b, view_of_text(path), out, sizeof out);
    cr_expect_str_eq(out, expected);
}

Test(manifest, marks_in_paths_are_the_askers_folders)
{
    struct bases *b = bases_of("/src/", "/a/", "/b/");
    expect_path(b, "h.h", "h.h");
    expect_path(b, "/x/h.h", "/x/h.h");
    expect_path(b, "\1h.h", "/src/h.h");
    expect_path(b,
                "\2"
                "0/h.h",
                "/a/h.h");
    expect_path(b,
                "\2"
                "1/../h.h",
                "/b/../h.h");
    const char *none[] = {"\2"
                          "2/h.h",
                          "\2",
                          "\2"
                          "0",
                          "\2/h.h",
                          "\2"
                          "99999999999/h.h",
                          "\1"};
    struct view folder, rest;
    for (size_t i = 0; i < 5; i++)
        cr_expect_not(bases_find(b, view_of_text(none[i]), &folder, &rest), "%zu", i);
    for (size_t i = 0; i < 6; i++) {
        const struct view paths[] = {view_of_text(none[i])};
        const struct manifest_state states[] = {state(0, 5)};
        struct manifest *m =
            manifest_new(paths, states, 1, &(struct manifest_alternative){.maker = 1});
        cr_expect(i == 5 || !manifest_set_bases(m, b), "%zu", i);
        cr_expect_not(manifest_set_bases(m, NULL), "%zu", i);
        manifest_unref(m);
    }
    bases_unref(b);
}

Test(manifest, an_alias_brings_back_its_bases)
{
    struct bases *b = bases_of("src/", "/a/", "/b/");
    struct alias alias = {{{1}}, {{2}}, b}, again;
    struct writer w;
    writer_init(&w, 0);
    alias_write(&alias, &w);
    cr_assert(alias_read(w.data, w.len, &again));
    cr_assert(again.bases->n_places == 2 && again.bases->folder.len == 4);
    cr_assert_eq(memcmp(&again.bases->places_proof, &b->places_proof, sizeof b->places_proof), 0);
    bases_unref(again.bases);
    for (size_t len = 0; len < w.len; len++)
        cr_assert_not(alias_read(w.data, len, &again), "%zu bytes", len);
    writer_close(&w);
    bases_unref(b);
}

Test(manifest, keeps_sixteen_alternatives_newest_first)
{
    struct manifest *m = NULL;
    for (int i = 0; i < 20; i++)
        m = merge(two_files(1, i, -1, (uint8_t)i), m);
    cr_assert_eq(m->n_alternatives, MANIFEST_ALTERNATIVES_MAX);
    cr_assert_eq(m->n_paths, 2);
    cr_assert_eq(m->alternatives[0].result.bytes[0], 19);
    struct wire_path_seen newest[] = {seen(0, 19), seen(1, -1)};
    struct wire_path_seen oldest[] = {seen(0, 4), seen(1, -1)};
    struct wire_path_seen dropped[] = {seen(0, 3), seen(1, -1)};
    cr_assert_eq(manifest_match(m, newest)->result.bytes[0], 19);
    cr_assert_eq(manifest_match(m, oldest)->result.bytes[0], 4);
    cr_assert_null(manifest_match(m, dropped));
    manifest_unref(m);
}

Test(manifest, a_users_many_headers_push_out_its_own)
{
    struct manifest *m = two_files(1, 100, -1, 100);
    m = merge(two_files(2, 101, -1, 101), m);
    for (int i = 0; i < 40; i++)
        m = merge(two_files(3, i, -1, (uint8_t)i), m);
    struct wire_path_seen first[] = {seen(0, 100), seen(1, -1)};
    struct wire_path_seen second[] = {seen(0, 101), seen(1, -1)};
    cr_assert_eq(m->n_alternatives, MANIFEST_ALTERNATIVES_MAX);
    cr_assert_eq(manifest_match(m, first)->result.bytes[0], 100);
    cr_assert_eq(manifest_match(m, second)->result.bytes[0], 101);
    manifest_unref(m);
}

Test(manifest, the_same_result_is_kept_once)
{
    struct manifest *m = merge(two_files(1, 5, -1, 7), two_files(2, 6, -1, 7));
    cr_assert_eq(m->n_alternatives, 1);
    cr_assert_eq(m->alternatives->maker, 1);
    manifest_unref(m);
}

Test(manifest, the_result_has_another_key_for_each_difference)
{
    const struct key graph = {{1}};
    const struct proof proof = {{2}}, other_proof = {{3}};
    const struct view paths[] = {view_of_text("a.h"), view_of_text("b.h")};
    const struct view swapped[] = {view_of_text("b.h"), view_of_text("a.h")};
    const struct manifest_state states[] = {state(0, 5), state(1, -1)};
    const struct manifest_state changed[] = {state(0, 6), state(1, -1)};
    const struct manifest_state present[] = {state(0, 5), state(1, 5)};
    struct manifest_state one_file[] = {state(0, 5), state(1, 5)};
    one_file[1].same = 0;
    const struct proof any = {{0}}, places = {{4}};
    struct key k[8];
    struct proof p;
    manifest_seal(&graph, &proof, &any, paths, states, 2, &k[0], &p);
    manifest_seal(&graph, &other_proof, &any, paths, states, 2, &k[1], &p);
    manifest_seal(&graph, &proof, &any, swapped, states, 2, &k[2], &p);
    manifest_seal(&graph, &proof, &any, paths, changed, 2, &k[3], &p);
    manifest_seal(&graph, &proof, &any, paths, present, 2, &k[4], &p);
    manifest_seal(&graph, &proof, &any, paths, states, 1, &k[5], &p);
    manifest_seal(&graph, &proof, &any, paths, one_file, 2, &k[6], &p);
    manifest_seal(&graph, &proof, &places, paths, states, 2, &k[7], &p);
    for (int i = 0; i < 8; i++)
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
    w.data[4] = 1;
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
