/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_forms.c - `warm why` names the first line in which a program differs from the nearest one, and the
 * daemon bounds the texts that this needs.
 */
#include "tests/support/warmd.h"

#include "client/cli/import/nearest_form.h"
#include "client/cli/import/unpack.h"
#include "client/wire/memfd.h"

static struct forms_change change(const char *old, const char *now)
{
    struct forms_change c = {.n_lines = 0};
    cr_assert(forms_differ(view_of_text(old), view_of_text(now), &c));
    return c;
}

Test(forms, the_words_that_differ_are_shown_with_their_line)
{
    struct forms_change c = change("option a: 1\nfunc {\n  %1 = stablehlo.tanh %0 : f32\n}\n",
                                   "option a: 1\nfunc {\n  %1 = stablehlo.sine %0 : f32\n}\n");
    cr_expect_str_eq(c.old, "stablehlo.tanh");
    cr_expect_str_eq(c.now, "stablehlo.sine");
    cr_expect_eq(c.line, 2, "options are no lines of the program: %zu", c.line);
    cr_expect_eq(c.n_lines, 1);
}

Test(forms, options_are_shown_as_options)
{
    struct forms_change c = change("option num_warps: 4\nx\n", "option num_warps: 8\ny\n");
    cr_expect_eq(c.line, 0);
    cr_expect_str_eq(c.option, "option num_warps");
    cr_expect_str_eq(c.old, "4");
    cr_expect_str_eq(c.now, "8");
    cr_expect_eq(c.n_lines, 2);
}

Test(forms, of_a_long_option_the_words_that_differ_are_shown)
{
    char old[400], now[400];
    snprintf(old, sizeof old, "option config: %0200d, name='first', last\n", 0);
    snprintf(now, sizeof now, "option config: %0200d, name='other', last\n", 0);
    struct forms_change c = change(old, now);
    cr_expect_str_eq(c.option, "option config");
    cr_expect_str_eq(c.old, "first");
    cr_expect_str_eq(c.now, "other");
}

Test(forms, a_text_that_ends_earlier_differs_where_it_ends)
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

Test(forms, why_compares_with_the_nearest_of_the_same_name)
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

/* ---- bounds ---- */

/* Puts a form of `len` random bytes as a user; the daemon's answer: 0 or its error. */
static uint32_t put_form(int fd, uint64_t tag, const char *name, size_t len)
{
    static struct warmd_frame f;
    static char bytes[300 << 10];
    struct wire_error error;
    struct writer w;
    for (size_t i = 0; i < len; i++)
        bytes[i] = (char)(i * 2654435761u >> 7 ^ tag);
    struct wire_put put = {.kind = WIRE_KIND_FORM,
                           .len = len,
                           .check = key_of_bytes(bytes, len),
                           .key = view_of_text(name)};
    int value = memfd_sealed("test", bytes, len, NULL);
    cr_assert_geq(value, 0);
    writer_init(&w, 0);
    wire_put_put(&w, tag, &put);
    w.data[2] = 1; /* one descriptor */
    warmd_send_fds(fd, w.data, w.len, &value, 1);
    writer_close(&w);
    close(value);
    cr_assert(warmd_frame_try(fd, &f) && f.frame.tag == tag);
    if (f.frame.type == WIRE_OK)
        return 0;
    cr_assert_eq(f.frame.type, WIRE_ERROR);
    cr_assert_eq(wire_get_error(&f.frame, &error, NULL), 0);
    return error.code;
}

static unsigned long long form_bytes(const struct warmd *k)
{
    char *stats = warmd_stats(k), *at = strstr(stats, "\"form\": {");
    at = at ? strstr(at, "\"bytes\": ") : NULL;
    unsigned long long n = at ? strtoull(at + 9, NULL, 10) : 0;
    free(stats);
    return n;
}

static bool has(const struct warmd *k, int fd, uint64_t tag, const char *name)
{
    static struct warmd_frame f;
    (void)k;
    warmd_get(fd, tag, name, false, 0);
    cr_assert(warmd_frame_try(fd, &f));
    if (f.fd >= 0)
        close(f.fd);
    return f.frame.type == WIRE_HIT;
}

Test(forms, they_have_a_fiftieth_of_the_store_and_one_user_leaves_room_for_others)
{
    NEEDS_TWO_USERS();
    struct warmd k = warmd_up((char *[]){(char *)"--max-size", (char *)"100M", NULL});
    int alice = warmd_native_as(&k, 12345), bob = warmd_native_as(&k, 23456);
    const unsigned long long most = (100ull << 20) / 50;
    char name[32];
    cr_expect_eq(put_form(alice, 1, "form:large", (256u << 10) + 1), (uint32_t)-WARM_ETOO_BIG);
    unsigned refused = 0;
    for (unsigned i = 0; i < 60; i++) {
        snprintf(name, sizeof name, "form:a%u", i);
        uint32_t code = put_form(alice, 2 + i, name, 200u << 10);
        cr_assert(code == 0 || code == (uint32_t)-WARM_EFULL, "%u", code);
        refused += code != 0;
        cr_assert_leq(form_bytes(&k), most);
    }
    cr_expect_lt(refused, 60u, "room is made");
    uint64_t tag = 100;
    for (unsigned i = 0; i < 20 && !has(&k, bob, tag++, "form:b"); i++)
        put_form(bob, tag++, "form:b", 100u << 10);
    cr_expect(has(&k, bob, tag, "form:b"), "Bob finds room beside Alice's");
    close(alice);
    close(bob);
    warmd_down(&k);
}
