/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_recipe.c - recipes: the named parts of a request, and the comparison of two of them.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "daemon/history/recipe.h"
#include "tests/support/recipe.h"

static void expect_change(const struct recipe_change *c, const char *part, const char *old,
                          const char *now)
{
    char got[256], want[256];
    snprintf(got, sizeof got, "%.*s: %.*s, %.*s", (int)c->part.len, (const char *)c->part.data,
             (int)c->old.len, (const char *)c->old.data, (int)c->now.len,
             (const char *)c->now.data);
    snprintf(want, sizeof want, "%s: %s, %s", part, old, now);
    cr_assert_str_eq(got, want);
}

Test(recipe, comparison_pairs_what_has_one_name)
{
    struct recipe_change c[8];
    struct writer a, b;
    recipe_make(&a, "sm_90", "k; -O3; x=1; -v", NULL);
    recipe_make(&b, "sm_80", "k; -O3; x=2", NULL);
    struct view old = {a.data, a.len}, now = {b.data, b.len};
    cr_assert_eq(recipe_compare(old, old, c, 8), 0);
    cr_assert_eq(recipe_compare(old, now, c, 8), 3);
    expect_change(&c[0], "hardware", "sm_90", "sm_80");
    expect_change(&c[1], "option -v", "given", "");
    expect_change(&c[2], "x", "1", "2");
    cr_assert_eq(recipe_compare(now, old, c, 1), 3, "all are counted");
    writer_close(&a);
    writer_close(&b);
}

Test(recipe, options_of_a_job_have_names_and_values)
{
    static struct recipe r;
    struct view options[] = {view_of_text("-DN=4"),
                             view_of_text("-I"),
                             view_of_text("inc"),
                             view_of_text("--std=c++17"),
                             view_of_text("--gpu-architecture=sm_90"),
                             view_of_text("-lineinfo")};
    struct job job = {.language = JOB_CUDA,
                      .name = view_of_text("k.cu"),
                      .source = view_of_text("source"),
                      .options = options,
                      .n_options = 6};
    struct writer w;
    struct view value;
    recipe_begin(&r);
    recipe_add_job(&r, &job);
    writer_init(&w, RECIPE_MAX);
    recipe_end(&r, &w);
    struct view bytes = {w.data, w.len};
    static const char *const parts[][2] = {{"option -D", "N=4"},
                                           {"option -I", "inc"},
                                           {"option --std", "c++17"},
                                           {"option -lineinfo", "given"},
                                           {"name", "k.cu"}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        cr_assert(recipe_find(bytes, parts[i][0], &value), "%s", parts[i][0]);
        cr_assert(value.len == strlen(parts[i][1]) && !memcmp(value.data, parts[i][1], value.len));
    }
    cr_assert(!recipe_find(bytes, "option --gpu-architecture", &value), "that is the target's");
    writer_close(&w);
}

/* A result that holds the folder is kept for that folder alone. */
Test(recipe, working_folder_is_a_part_where_the_key_has_it)
{
    static const struct {
        const char *option;
        bool shows;
    } rows[] = {{"-dlto", true},     {"--dlink-time-opt", true}, {"-G", true},
                {"-lineinfo", true}, {"-use_fast_math", false},  {"--no-such-option", false}};
    static struct recipe r;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct view option = view_of_text(rows[i].option), value;
        struct job job = {.language = JOB_CUDA,
                          .name = view_of_text("k.cu"),
                          .cwd = view_of_text("/home/a/build"),
                          .options = &option,
                          .n_options = 1};
        struct writer w;
        recipe_begin(&r);
        recipe_add_job(&r, &job);
        writer_init(&w, RECIPE_MAX);
        recipe_end(&r, &w);
        bool found = recipe_find((struct view){w.data, w.len}, "working folder", &value);
        cr_expect_eq(found, rows[i].shows, "%s", rows[i].option);
        cr_expect(!found ||
                  (value.len == job.cwd.len && !memcmp(value.data, job.cwd.data, value.len)));
        writer_close(&w);
    }
}

Test(recipe, parts_beyond_the_limit_still_tell_a_difference)
{
    static struct recipe r;
    struct recipe_change c[2];
    struct writer w[2];
    char name[32];
    for (int side = 0; side < 2; side++) {
        recipe_begin(&r);
        for (unsigned i = 0; i < 300; i++) {
            snprintf(name, sizeof name, "part %u", i);
            recipe_add(&r, name, view_of_text(i == 299 && side ? "other" : "same"));
        }
        writer_init(&w[side], RECIPE_MAX);
        recipe_end(&r, &w[side]);
        cr_assert(!w[side].failed);
    }
    cr_assert_eq(recipe_compare((struct view){w[0].data, w[0].len},
                                (struct view){w[1].data, w[1].len}, c, 2),
                 1);
    writer_close(&w[0]);
    writer_close(&w[1]);
}
