/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_nearest_form.c - `warm why` names the first line in which a program differs from the nearest one.
 * test_forms.c has the bounds of the texts that this needs.
 */
#include "tests/support/warmd.h"

#include "client/cli/import/nearest_form.h"
#include "client/tool/unpack.h"

static struct forms_change change(const char *old, const char *now)
{
    struct forms_change c = {.n_lines = 0};
    cr_assert(forms_differ(view_of_text(old), view_of_text(now), &c));
    return c;
}

Test(nearest_form, the_words_that_differ_are_shown_with_their_line)
{
    struct forms_change c = change("option a: 1\nfunc {\n  %1 = stablehlo.tanh %0 : f32\n}\n",
                                   "option a: 1\nfunc {\n  %1 = stablehlo.sine %0 : f32\n}\n");
    cr_expect_str_eq(c.old, "stablehlo.tanh");
    cr_expect_str_eq(c.now, "stablehlo.sine");
    cr_expect_eq(c.line, 2, "options are no lines of the program: %zu", c.line);
    cr_expect_eq(c.n_lines, 1);
}

Test(nearest_form, options_are_shown_as_options)
{
    struct forms_change c = change("option num_warps: 4\nx\n", "option num_warps: 8\ny\n");
    cr_expect_eq(c.line, 0);
    cr_expect_str_eq(c.option, "option num_warps");
    cr_expect_str_eq(c.old, "4");
    cr_expect_str_eq(c.now, "8");
    cr_expect_eq(c.n_lines, 2);
}

Test(nearest_form, of_a_long_option_the_words_that_differ_are_shown)
{
    char old[400], now[400];
    snprintf(old, sizeof old, "option config: %0200d, name='first', last\n", 0);
    snprintf(now, sizeof now, "option config: %0200d, name='other', last\n", 0);
    struct forms_change c = change(old, now);
    cr_expect_str_eq(c.option, "option config");
    cr_expect_str_eq(c.old, "first");
    cr_expect_str_eq(c.now, "other");
}

Test(nearest_form, a_text_that_ends_earlier_differs_where_it_ends)
{
    struct forms_change c = change("a\nb\n", "a\n");
    cr_expect_str_eq(c.old, "b");
    cr_expect_str_eq(c.now, "");
    cr_expect_eq(c.line, 2);
    c = change("", "a");
    cr_expect_str_eq(c.now, "a");
    cr_expect_not(forms_differ(view_of_text("a\n"), view_of_text("a\n"), &c));
}

/* ---- with a daemon ---- */

/* Puts a program, as an adapter does after a miss: the artifact, then its form. */
static void make(struct warm *w, const char *name, const char *label, const char *text)
{
    char form[128];
    struct writer packed;
    struct warm_put_options options = {.kind = "executable", .label = label};
    cr_assert_eq(warm_put(w, name, strlen(name), "bytes", 5, &options), 0);
    writer_init(&packed, 0);
    cr_assert_eq(unpack_pack_zlib(view_of_text(text), &packed), 0);
    snprintf(form, sizeof form, "form:%s", name);
    options.kind = "form";
    cr_assert_eq(warm_put(w, form, strlen(form), packed.data, packed.len, &options), 0, "%s",
                 warm_message(w));
    writer_close(&packed);
}

static void miss(struct warm *w, const char *name)
{
    struct warm_value v;
    cr_assert_eq(warm_get(w, name, strlen(name), WARM_WANT_LEASE, &v), WARM_LEASE);
    cr_assert_eq(warm_release(w, v.token), 0);
}

static char *why(const struct warmd *k, const char *arguments)
{
    char *out, *program = bin_path("warm");
    cr_assert_eq(
        run_command(&out, "WARM_SOCKET='%s' %s why %s 2>&1", k->socket, program, arguments), 0,
        "%s", out);
    free(program);
    return out;
}

Test(nearest_form, why_compares_with_the_nearest_of_the_same_name)
{
    struct warmd k = warmd_up(NULL);
    struct warm *w = warmd_libwarm(&k);
    make(w, "jax:1", "jit_step", "func {\n  a\n  stablehlo.tanh %0\n  b\n  c\n}\n");
    make(w, "jax:2", "jit_step", "func {\n  x\n  y\n  z\n  q\n}\n");
    make(w, "jax:3", "jit_other", "func {\n  a\n  stablehlo.cosine %0\n  b\n  c\n}\n");
    make(w, "triton:4", "jit_step", "func {\n  a\n  stablehlo.sine %0\n  b\n  c\n}\n");
    miss(w, "jax:5");
    make(w, "jax:5", "jit_step", "func {\n  a\n  stablehlo.sine %0\n  b\n  c\n}\n");
    char *told = why(&k, "jax:5");
    cr_expect(strstr(told, "differs from jit_step of ") &&
                  strstr(told, ": stablehlo.tanh \xe2\x86\x92 stablehlo.sine, line 3\n"),
              "%s", told);
    free(told);
    char *stats = warmd_stats(&k);
    cr_expect(strstr(stats, "\"hits\": 0,"), "looking is no use: %s", stats);
    free(stats);
    warm_close(w);
    warmd_down(&k);
}
