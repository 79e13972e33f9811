/* SPDX-License-Identifier: Apache-2.0 */
/* test_fx.c - keys of FX graph code: names, order, devices, effects, and refusals. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/canon_kit.h"

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

static struct key key_of(const char *text) { return canon_of(CANON_FX, text).key; }

static int error_of(const char *text, struct err *e) { return canon_error(CANON_FX, text, e); }

static void same(const char *a, const char *b) { canon_expect_same(CANON_FX, a, b); }

static void differ(const char *a, const char *b) { canon_expect_other(CANON_FX, a, b); }

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
    cr_assert_str_eq(text, "facf2a7cc46cb28e3cec2a688e0671c4"); /* fx/8 */
}

Test(fx, names_comments_and_white_space_do_not_count)
{
    same(BASE, with(BASE, "sum_1", "total"));
    same(BASE, with(BASE, "/home/a/m.py:7", "/opt/b.py:12"));
    same(BASE,
         with(BASE, " = torch.ops.aten.sin.default(x);", "  =  torch.ops.aten.sin.default( x ) ;"));
    same(BASE, with(BASE, "class GraphModule", "class <lambda>"));
}

/* Whatever compiles it: statements in another order are another program. */
Test(fx, the_programs_own_order_counts)
{
    static const char *const changes[][2] = {
        {"mul.Tensor(sin, exp)", "mul.Tensor(exp, sin)"},
        {"        exp:", "        dead: " T " = torch.ops.aten.cos.default(y)\n        exp:"},
        {"        exp:", "        one = x\n        exp:"},
        {";  x = None", ""},
    };
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++)
        differ(BASE, with(BASE, changes[i][0], changes[i][1]));
    differ(BASE,
           HEAD "        exp: " T " = torch.ops.aten.exp.default(y)\n"
                "        sin: " T " = torch.ops.aten.sin.default(x);  x = None\n"
                "        mul: " T " = torch.ops.aten.mul.Tensor(sin, exp);  sin = exp = None\n"
                "        sum_1: " U " = torch.ops.aten.sum.dim_IntList(mul, [1], True);  mul "
                "= None\n"
                "        return (sum_1, y)\n");
}

/* Any true value means in place: F.relu(x, 1) writes to x, so readers of x stay on their side. */
Test(fx, what_writes_to_an_operand_keeps_its_place)
{
    static const char *const calls[] = {"torch.nn.functional.leaky_relu(x, 0.1, 1)",
                                        "torch.nn.functional.relu(x, 1)",
                                        "torch.nn.functional.elu(x, 1.0, 1)",
                                        "torch.nn.functional.silu(x, y)",
                                        "torch.relu(x, inplace = True)",
                                        "torch.ops.aten.copy_.default(x, y)",
                                        "torch.nn.functional.embedding(x, y, None, 2.0)"};
#define WRITES "        a: " T " = WRITE\n"
#define READS "        b: " T " = x.sin()\n"
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        static char first[2048], last[2048], none[2048];
        snprintf(first, sizeof first, "%s",
                 with(HEAD WRITES READS "        return (b,)\n", "WRITE", calls[i]));
        snprintf(last, sizeof last, "%s",
                 with(HEAD READS WRITES "        return (b,)\n", "WRITE", calls[i]));
        snprintf(none, sizeof none, "%s", HEAD READS "        return (b,)\n");
        differ(first, last);
        differ(first, none);
        differ(last, none);
    }
}

/* A name of Python's is kept, one of the graph's is numbered; none is taken for the other. */
Test(fx, what_is_no_name_of_the_graph_is_kept)
{
    differ(with(BASE, "mul.Tensor(sin, exp)", "mul.Tensor(sin, inf)"),
           with(BASE, "mul.Tensor(sin, exp)", "mul.Tensor(sin, nan)"));
    differ(with(BASE, "mul.Tensor(sin, exp)", "mul.Tensor(sin, other = exp)"),
           with(BASE, "mul.Tensor(sin, exp)", "mul.Tensor(sin, alpha = exp)"));
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

Test(fx, the_index_of_a_device_counts)
{
    differ(BASE, with(BASE, "cuda:0", "cuda:3"));
    differ(BASE, with(BASE, "y: \"f32[4, 8][8, 1]cuda:0\"", "y: \"f32[4, 8][8, 1]cuda:1\""));
#define FULL(i) "torch.ops.aten.full.default([4, 8], 1, device = device(type='cuda', index=" i "))"
    differ(with(BASE, "torch.ops.aten.exp.default(y)", FULL("0")),
           with(BASE, "torch.ops.aten.exp.default(y)", FULL("1")));
    differ(with(BASE, "exp.default(y)", "exp.default(y, 'cuda:0')"),
           with(BASE, "exp.default(y)", "exp.default(y, 'cuda:1')"));
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
    differ(two, with(two, "x.sin()", "x.cos()"));
    differ(two, with(two, "body_0", "body_1"));
}

/* `line` before BASE's first, and the reason why it is refused. */
static void refused(const char *line, const char *why)
{
    struct err e = {0};
    cr_expect_eq(error_of(with(BASE, "        sin:", line), &e), WARM_EREFUSED, "%s", line);
    cr_expect_not_null(strstr(e.text, why), "%s: %s", line, e.text);
}

Test(fx, what_the_text_does_not_hold_is_refused)
{
    refused("        c: \"f32[][]cpu\" = self._tensor_constant0\n        sin:", "only the name");
    refused("        c: " T " = self.act(x)\n        sin:", "only the name");
    refused("        c: " T " = getattr(self, \"0\")(x)\n        sin:", "only the name");
    refused("        c = self.weight\n        sin:", "only the name");
    refused("        c: " T " = helpers_scale(x)\n        sin:", "the code");
    refused("        c: " T " = torch_geometric_nn_f(x)\n        sin:", "the code");
    refused("        c: " T " = torch.f(x, settings)\n        sin:", "the code");
    refused("        c: " T " = math_tools_f(x)\n        sin:", "the code");
    key_of(with(BASE, "        sin:", "        c = math_sqrt(2)\n        sin:"));
    refused("        k = torch.ops.higher_order.triton_kernel_wrapper_mutation(kernel_idx = 0, "
            "grid = [(1, 1, 1)], kwargs = {'x': x})\n        sin:",
            "a kernel's number");
    refused("        k = torch.utils.f(x, <function g at 0x7f00>)\n        sin:", "the code");
    refused("        c: \"DTensor(f32[4, 8][8, 1]cuda:0, S(0))\" = x.cos()\n        sin:", "class");
    refused("        # Annotation: {'a': 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...'} File: "
            "m.py:7 in "
            "f, code: x\n        sin:",
            "cut short");
    struct err e = {0};
    cr_expect_eq(error_of("class G(torch.nn.Module):\n    def forward(\n        self,\n"
                          "        x: " T ",\n    ):\n        c: " T " = self._tensor_constant0\n"
                          "        with x:\n            return (c,)\n",
                          &e),
                 WARM_EREFUSED);
}

Test(fx, a_parameter_of_the_module_is_an_input)
{
    differ(with(BASE, "torch.ops.aten.exp.default(y)", "self.layer.weight"),
           with(BASE, "torch.ops.aten.exp.default(y)", "self.layer.bias"));
}

#define TAGGED(tag) with(BASE, "# File: /home/a/m.py:7", "# " tag "File: /home/a/m.py:7")
Test(fx, what_a_comment_says_of_its_nodes_counts)
{
    differ(BASE, TAGGED("recompute: MUST_SAVE "));
    differ(TAGGED("recompute: MUST_SAVE "), TAGGED("recompute: MUST_RECOMPUTE "));
    differ(TAGGED("ac_graph_id: 2 - MUST_SAVE "), TAGGED("ac_graph_id: 2 - PREFER_SAVE "));
    differ(TAGGED("ac_graph_id: 2 - MUST_SAVE "), TAGGED("ac_graph_id: 7 - MUST_SAVE "));
    differ(TAGGED("Annotation: {'stage': 1} "), TAGGED("Annotation: {'stage': 2} "));
    differ(TAGGED("Annotation: {'at': 'File: 1'} "), TAGGED("Annotation: {'at': 'File: 2'} "));
    same(TAGGED("Annotation: {'stage': 1} "),
         with(TAGGED("Annotation: {'stage': 1} "), "m.py:7", "n.py:9"));
    /* the comment holds for the nodes up to the next one */
    const char *both = TAGGED("recompute: MUST_SAVE ");
    differ(both, with(both, "        exp:", "        # File: m.py:8 in f, code: y\n        exp:"));
}

Test(fx, an_argument_a_line_is_the_same_signature)
{
    same(BASE, with(BASE, "(self, x: " T ", y: " T "):",
                    "(\n        self,\n        x: " T ",  # PlainAOTInput(idx=0)\n        y: " T
                    ",\n    ):"));
}

Test(fx, graphs_inside_the_same_graph_count_by_where_they_are)
{
#define INNER(indent, name, body)                                                                  \
    indent "class " name "(torch.nn.Module):\n" indent "    def forward(self, x: " T "):\n" indent \
           "        s: " T " = " body "\n" indent "        return (s,)\n"
#define OUTER                                                                                      \
    HEAD "        a = self.a\n        r = torch.ops.higher_order.wrap(a, x)\n        return "      \
         "(r,)\n"
    differ(OUTER INNER("    ", "a", "x.sin()") INNER("        ", "b", "x.cos()"),
           OUTER INNER("    ", "a", "x.sin()") INNER("    ", "b", "x.cos()"));
}

Test(fx, names_of_sizes_do_not_count)
{
#define SIZED(s, t)                                                                                \
    "class G(torch.nn.Module):\n    def forward(self, " s ": \"Sym(" s ")\", x: \"f32[" s          \
    ", 8][8, "                                                                                     \
    "1]cpu\", y: \"u8[" t "][1]cpu\"):\n        z: \"f32[" s ", 8][8, 1]cpu\" = x + " s            \
    "\n        return (z, y)\n"
    same(SIZED("s0", "s1"), SIZED("s77", "s16"));
    differ(SIZED("s0", "s1"), SIZED("s0", "s0"));
    differ(SIZED("s0", "s1"), SIZED("s0", "u1*2"));
    differ(SIZED("s0", "s1"), with(SIZED("s0", "s1"), "u8[", "u4["));
    same(SIZED("s0", "s1"), SIZED("s5", "s1"));
#define SUM(sum)                                                                                   \
    "class G(torch.nn.Module):\n    def forward(self, s3: \"Sym(s3)\", s8: \"Sym(s8)\", x: "       \
    "\"f32[" sum "][1]cpu\"):\n        z: \"f32[" sum "][1]cpu\" = x.sin()\n        return (z,)\n"
    same(SUM("s3*s8 + 2"), with(with(SUM("s3*s8 + 2"), "s3", "s50"), "s8", "s9"));
    differ(SUM("s3*s8 + 2"), SUM("2 + s8*s3"));
    differ(SUM("s3*s8"), with(SUM("s3*s8"), "s3", "u3"));
    /* one that stands in a call is the one in the types */
#define USED(type, size)                                                                           \
    "class G(torch.nn.Module):\n    def forward(self, x: \"f32[" type ", s7][s7, 1]cpu\"):\n"      \
    "        z: \"f32[" type ", 7][7, 1]cpu\" = x.view(" size ", 7)\n        return (z,)\n"
    same(USED("s0", "s0"), USED("s1", "s1"));
    differ(USED("s0", "s0"), USED("s1", "s0"));
    differ(USED("s0", "s0"), USED("s0", "s7"));
#define SUM(sum)                                                                                   \
    "class G(torch.nn.Module):\n    def forward(self, s3: \"Sym(s3)\", s8: \"Sym(s8)\", x: "       \
    "\"f32[" sum "][1]cpu\"):\n        z: \"f32[" sum "][1]cpu\" = x.sin()\n        return (z,)\n"
    same(SUM("s3*s8 + 2"), with(with(SUM("s3*s8 + 2"), "s3", "s50"), "s8", "s9"));
    differ(SUM("s3*s8 + 2"), SUM("2 + s8*s3"));
    differ(SUM("s3*s8"), with(SUM("s3*s8"), "s3", "u3"));
    differ(SUM("s3*s8 + 2"), SUM("s3 + s8*2"));
    differ(SUM("s3 - s8"), SUM("s8 - s3"));
    differ(SUM("(s3 + 1)**2"), SUM("(s3 + 2)**1"));
    differ(SUM("s3**s8"), SUM("s8**s3"));
    differ(SUM("s3//s8"), SUM("s8//s3"));
    differ(SUM("2 + Mod(s3, 4)"), SUM("Mod + 2(s3, 4)"));
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

Test(fx, what_is_not_understood_is_refused)
{
    static const char *const other[][2] = {
        {"        exp:", "        with torch.no_grad(): pass\n        exp:"},
        {"        exp:", "        import os\n        exp:"},
        {"exp.default(y)", "exp.default([a for a in y])"},
        {"exp.default(y)", "exp.default(lambda a: a)"},
        {"exp.default(y)", "exp.default(y, b'1')"},
        {"exp.default(y)", "exp.default(y, \"\"\"1\"\"\")"},
        {"torch.nn.Module", "Base"},
        {"(self, x:", "(self, *args, x:"},
        {"(self, x:", "(self, x, w:"},
        {"        exp:", "        a, torch = x, y\n        exp:"},
        {"exp: ", "torch: "},
        {"exp: ", "self: "},
        {"        exp:", "        \"\"\"text\"\"\"\n        exp:"},
        {"class GraphModule", "x = 1\nclass GraphModule"},
        {"x = None\n", "x = None # \r y = 1\n"},
    };
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        struct err e = {0};
        cr_expect_eq(error_of(with(BASE, other[i][0], other[i][1]), &e), WARM_EREFUSED, "%s",
                     other[i][1]);
        cr_expect_not_null(strstr(e.text, "FX: "), "%s", e.text);
    }
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

/* No byte behind the text is looked at: it is given in memory that ends with it. */
static void cut_and_flipped(const char *base, size_t len)
{
    for (size_t n = 0; n <= len; n++) {
        char *cut = malloc(n ? n : 1);
        memcpy(cut, base, n);
        struct canon_input input = {.data = cut, .len = n, .kind = CANON_FX};
        struct canon_result result;
        struct err e = {0};
        int code = canon_key(&input, &result, NULL, &e);
        cr_expect(code == 0 || e.text[0], "%zu bytes: %d without a text", n, code);
        cut[n / 2] = (char)(cut[n / 2] ^ (1 << n % 8));
        e = (struct err){0};
        code = n ? canon_key(&input, &result, NULL, &e) : 0;
        cr_expect(code == 0 || e.text[0], "byte %zu: %d without a text", n / 2, code);
        free(cut);
    }
}

Test(fx, any_cut_or_changed_text_is_a_key_or_an_error)
{
    static const char open[] = "class G(torch.nn.Module):\n    def forward(self, x: \"f3class G";
    cut_and_flipped(BASE, strlen(BASE));
    cut_and_flipped(open, sizeof open - 1);
}
