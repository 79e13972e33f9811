/* SPDX-License-Identifier: Apache-2.0 */
/* test_fx.c - keys of FX graph code: names, order, devices, effects, and what is refused. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "keygen/canon.h"

#define T "\"f32[4, 8][8, 1]cuda:0\""
#define U "\"f32[4, 1][1, 1]cuda:0\""
#define HEAD                                                                                       \
    "class GraphModule(torch.nn.Module):\n"                                                        \
    "    def forward(self, x: " T ", y: " T "):\n"
#define BASE                                                                                       \
    HEAD "        # File: /home/a/m.py:7 in f, code: z = x.sin() * y\n"                            \
         "        sin: " T " = torch.ops.aten.sin.default(x);  x = None\n"                         \
         "        exp: " T " = torch.ops.aten.exp.default(y)\n"                                    \
         "        mul: " T " = torch.ops.aten.mul.Tensor(sin, exp);  sin = exp = None\n"           \
         "        sum_1: " U " = torch.ops.aten.sum.dim_IntList(mul, [1], True);  mul = None\n"    \
         "        return (sum_1, y)\n"

static bool exact;

static struct key key_of(const char *text)
{
    struct canon_input input = {.data = text, .len = strlen(text), .kind = CANON_FX};
    struct canon_result result;
    struct err e = {0};
    cr_assert_eq(canon_key(&input, &result, NULL, &e), 0, "%s\n%s", e.text, text);
    exact = result.exact;
    return result.key;
}

static int error_of(const char *text, struct err *e)
{
    struct canon_input input = {.data = text, .len = strlen(text), .kind = CANON_FX};
    struct canon_result result;
    return canon_key(&input, &result, NULL, e);
}

static void same(const char *a, const char *b)
{
    struct key x = key_of(a), y = key_of(b);
    cr_expect(key_equal(&x, &y), "these differ:\n%s\n%s", a, b);
}

static void differ(const char *a, const char *b)
{
    struct key x = key_of(a), y = key_of(b);
    cr_expect(!key_equal(&x, &y), "these are alike:\n%s\n%s", a, b);
}

/* `base` with every `from` replaced by `to`; two results live at a time. */
static const char *with(const char *base, const char *from, const char *to)
{
    static char texts[2][8192];
    static int turn;
    char *out = texts[turn ^= 1];
    size_t used = 0;
    const char *at;
    cr_assert_not_null(strstr(base, from), "no %s", from);
    while ((at = strstr(base, from)) != NULL) {
        used += (size_t)snprintf(out + used, sizeof texts[0] - used, "%.*s%s", (int)(at - base),
                                 base, to);
        base = at + strlen(from);
    }
    snprintf(out + used, sizeof texts[0] - used, "%s", base);
    return out;
}

Test(fx, golden_key)
{
    char text[WARM_KEY_TEXT];
    struct key key = key_of(BASE);
    key_to_text(&key, text);
    cr_assert_str_eq(text, "d67dd3e8212eb8feacb19141b94234ff");
}

Test(fx, names_comments_and_deletions_do_not_count)
{
    same(BASE, with(BASE, "sum_1", "total"));
    same(BASE, with(BASE, "/home/a/m.py:7", "/opt/b.py:12"));
    same(BASE, with(BASE, ";  x = None", ""));
    same(BASE, with(BASE, ";  sin = exp = None", ""));
    same(BASE, with(BASE, "class GraphModule", "class <lambda>"));
}

Test(fx, order_of_statements_does_not_count)
{
    same(BASE, HEAD "        b: " T " = torch.ops.aten.exp.default(y)\n"
                    "        a: " T " = torch.ops.aten.sin.default(x)\n"
                    "        c: " T " = torch.ops.aten.mul.Tensor(a, b)\n"
                    "        d: " U " = torch.ops.aten.sum.dim_IntList(c, [1], True)\n"
                    "        return (d, y)\n");
}

Test(fx, operands_that_commute_are_sorted)
{
    same(BASE, with(BASE, "mul.Tensor(sin, exp)", "mul.Tensor(exp, sin)"));
    same(with(BASE, "torch.ops.aten.mul.Tensor(sin, exp)", "sin * exp"),
         with(BASE, "torch.ops.aten.mul.Tensor(sin, exp)", "exp * sin"));
    same(with(BASE, "torch.ops.aten.mul.Tensor(sin, exp)", "sin + 1e-05"),
         with(BASE, "torch.ops.aten.mul.Tensor(sin, exp)", "1e-05 + sin"));
    same(with(BASE, "mul.Tensor(sin, exp)", "add.Tensor(sin, y)"),
         with(BASE, "mul.Tensor(sin, exp)", "add.Tensor(y, sin)"));
    differ(with(BASE, "mul.Tensor(sin, exp)",
                "add.Tensor(sin, exp)"), /* either may end in a product */
           with(BASE, "mul.Tensor(sin, exp)", "add.Tensor(exp, sin)"));
    differ(with(BASE, "mul.Tensor(sin, exp)", "sub.Tensor(sin, exp)"),
           with(BASE, "mul.Tensor(sin, exp)", "sub.Tensor(exp, sin)"));
    differ(with(BASE, "torch.ops.aten.mul.Tensor(sin, exp)",
                "torch.ops.aten.add.Tensor(sin, exp, alpha = 2)"),
           with(BASE, "torch.ops.aten.mul.Tensor(sin, exp)",
                "torch.ops.aten.add.Tensor(exp, sin, alpha = 2)"));
}

Test(fx, what_nothing_needs_does_not_count)
{
    same(BASE, with(BASE, "        exp:",
                    "        dead: " T " = torch.ops.aten.cos.default(y)\n"
                    "        exp:"));
    differ(BASE, with(BASE, "        exp:",
                      "        dead: " T " = torch.ops.aten.bernoulli.p(y, 0.5)\n        exp:"));
}

Test(fx, what_means_something_counts)
{
    static const char *const changes[][2] = {
        {"f32[4, 8][8, 1]", "f16[4, 8][8, 1]"},
        {"[4, 8][8, 1]", "[4, 8][1, 4]"},
        {"f32[4, 8]", "f32[8, 8]"},
        {"cuda:0", "cpu"},
        {"sin.default", "cos.default"},
        {"[1], True", "[0], True"},
        {"[1], True", "[1], False"},
        {"(sum_1, y)", "(y, sum_1)"},
        {"(sum_1, y)", "(sum_1,)"},
        {"sin.default(x)", "sin.default(y)"},
        {"dim_IntList", "default"},
        {"(self, x:", "(self, w: " U ", x:"},
        {"(sum_1, y)", "[sum_1, y]"},
    };
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++)
        differ(BASE, with(BASE, changes[i][0], changes[i][1]));
}

Test(fx, a_single_device_index_does_not_count_but_two_do)
{
    same(BASE, with(BASE, "cuda:0", "cuda:3"));
    differ(BASE, with(BASE, "y: \"f32[4, 8][8, 1]cuda:0\"", "y: \"f32[4, 8][8, 1]cuda:1\""));
    differ(with(BASE, "y: \"f32[4, 8][8, 1]cuda:0\"", "y: \"f32[4, 8][8, 1]cuda:1\""),
           with(BASE, "x: \"f32[4, 8][8, 1]cuda:0\"", "x: \"f32[4, 8][8, 1]cuda:1\""));
    differ(with(BASE, "y: \"f32[4, 8][8, 1]cuda:0\"", "y: \"f32[4, 8][8, 1]cuda:11\""),
           with(BASE, "y: \"f32[4, 8][8, 1]cuda:0\"", "y: \"f32[4, 8][8, 1]cuda:12\""));
#define FULL(i) "torch.ops.aten.full.default([4, 8], 1, device = device(type='cuda', index=" i "))"
    const char *zero = with(BASE, "torch.ops.aten.exp.default(y)", FULL("0"));
    same(zero, with(with(BASE, "torch.ops.aten.exp.default(y)", FULL("2")), "cuda:0", "cuda:2"));
    differ(zero, with(BASE, "torch.ops.aten.exp.default(y)", FULL("1")));
}

Test(fx, operations_with_effects_keep_their_order)
{
#define RANDOM(a, b)                                                                               \
    HEAD "        a: " T " = torch.ops.aten.bernoulli.p(" a ", 0.5)\n"                             \
         "        b: " T " = torch.ops.aten.bernoulli.p(" b ", 0.5)\n"
    differ(RANDOM("x", "y") "        return (a, b)\n", RANDOM("y", "x") "        return (b, a)\n");
#define SIN "        s: " T " = torch.ops.aten.sin.default(x)\n"
#define SET "        c: " T " = torch.ops.aten.copy_.default(x, y)\n"
    differ(HEAD SIN SET "        return (s, c)\n", HEAD SET SIN "        return (s, c)\n");
    differ(HEAD SIN "        return (s,)\n",
           HEAD "        s: " T " = torch.relu(x, inplace = True)\n        return (s,)\n");
}

Test(fx, inputs_of_a_joint_graph_come_from_the_flattening)
{
#define JOINT(a, b)                                                                                \
    "class inner_f(torch.nn.Module):\n    def forward(self, primals, tangents):\n"                 \
    "        " a ": " T "; " b ": " T "; \n\n"                                                     \
    "        " a ", " b ", = fx_pytree.tree_flatten_spec([primals, tangents], self._in_spec)\n"    \
    "        r: " T " = torch.ops.aten.sub.Tensor(p, t)\n"                                         \
    "        return pytree.tree_unflatten([r, None], self._out_spec)\n"
    differ(JOINT("p", "t"), JOINT("t", "p"));
    cr_expect(!exact);
    same(JOINT("p", "t"), with(JOINT("p", "t"), "inner_f", "other"));
}

Test(fx, graphs_inside_graphs_are_told_by_their_names)
{
    const char *two =
        HEAD "        body_0 = self.body_0\n"
             "        r = torch.ops.higher_order.wrap(body_0, x);  body_0 = x = None\n"
             "        g: " T " = r[0];  r = None\n"
             "        return (g,)\n\n"
             "    class body_0(torch.nn.Module):\n"
             "        def forward(self, x: " T "):\n"
             "            s: " T " = x.sin();  x = None\n"
             "            return (s,)\n";
    key_of(two);
    cr_expect(!exact);
    differ(two, with(two, "x.sin()", "x.cos()"));
    differ(two, with(two, "body_0", "body_1"));
}

Test(fx, text_without_types_is_refused)
{
    static const char *const texts[] = {
        "def forward(self, x, y):\n    sin = torch.ops.aten.sin.default(x)\n    return (sin,)\n",
        "graph():\n    %x : [num_users=1] = placeholder[target=x]\n    return x\n",
        "class G(torch.nn.Module):\n    def forward(self, x: \"f32[4, 8]\"):\n"
        "        s: \"f32[4, 8]\" = x.sin()\n        return (s,)\n",
        "class G(torch.nn.Module):\n    def forward(self, x: \"f32[4, 8][8, 1]\"):\n"
        "        return (x,)\n",
        "class G(torch.nn.Module):\n    def forward(self, x, y: " T "):\n"
        "        s: " T " = x + y\n        return (s,)\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct err e = {0};
        cr_expect_eq(error_of(texts[i], &e), WARM_EREFUSED, "%s", texts[i]);
        cr_expect_not_null(strstr(e.text, "include_stride=True"), "%s", e.text);
    }
}

Test(fx, what_is_not_understood_is_exact)
{
    key_of(BASE);
    cr_expect(!exact);
    key_of(with(BASE, "        exp:", "        with torch.no_grad(): pass\n        exp:"));
    cr_expect(exact);
}

Test(fx, broken_text_is_an_error_with_its_place)
{
    struct err e = {0};
    cr_expect_eq(error_of(HEAD "        s: " T " = x.sin()\n", &e), WARM_ETRUNCATED);
    cr_expect_eq(error_of(HEAD "        return (x, \"open\n", &e), WARM_ETRUNCATED);
    cr_expect_eq(e.line, 3u);
    cr_expect_eq(error_of(HEAD "        return (x))\n", &e), WARM_EMALFORMED);
    cr_expect_eq(error_of(HEAD "        return (x\n", &e), WARM_ETRUNCATED);
}

Test(fx, is_known_by_its_content)
{
    cr_expect_eq(canon_detect(NULL, BASE, strlen(BASE)), CANON_FX);
}
