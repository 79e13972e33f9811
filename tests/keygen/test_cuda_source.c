/* SPDX-License-Identifier: Apache-2.0 */
/* test_cuda_source.c - the scan of CUDA sources, and their keys. */
#include <criterion/criterion.h>
#include <string.h>

#include "keygen/cuda/cuda.h"
#include "tests/support/canon_kit.h"

#define KERNEL                                                                                     \
    "__global__ void k(float *a, int n)\n{\n    int i = threadIdx.x;\n    a[i] = n + 1.5f;\n}\n"

static bool exact;

static struct key key_of(const char *text)
{
    struct canon_result result = canon_of(CANON_CUDA, text);
    exact = result.exact;
    return result.key;
}

static void same(const char *a, const char *b) { canon_expect_same(CANON_CUDA, a, b); }

static void differ(const char *a, const char *b) { canon_expect_other(CANON_CUDA, a, b); }

static struct cuda_scan scan_of(const char *text)
{
    struct cuda_scan scan = {0};
    cuda_scan(text, strlen(text), &scan);
    return scan;
}

static bool uses_clock(const char *text)
{
    struct cuda_scan scan = scan_of(text);
    return cuda_scan_uses_clock(&scan);
}

static bool uses_line(const char *text)
{
    struct cuda_scan scan = scan_of(text);
    return cuda_scan_uses_line(&scan);
}

Test(cuda_source, golden_keys)
{
    static const char with_header[] = "#include <x.h>\n" KERNEL;
    canon_expect_golden("cuda", CANON_CUDA, KERNEL, strlen(KERNEL));
    canon_expect_golden("cuda_header", CANON_CUDA, with_header, strlen(with_header));
}

Test(cuda_source, comments_and_blanks_do_not_count)
{
    same(KERNEL, "// what it is\n" KERNEL "/* the end */");
    same(KERNEL, "__global__ void k(float*a,int n){int i=threadIdx.x;a[i]=n+1.5f;}");
    same(KERNEL, "__global__ void\r\nk(float *a, int n)\r\n{ int i = threadIdx /* .y */ .x;\r\n"
                 "a[i] = n + 1.5f; }");
    same("int a = 1;\\\n int b;", "int a = 1; int b;");
    same("#define A 1 // one\nint a = A;", "#  define A  1\n\n\nint a = A;");
}

Test(cuda_source, tokens_count)
{
    differ("int a = b + +c;", "int a = b ++ c;");
    differ("int a = 1;", "int a = 2;");
    differ("int ab;", "int a b;");
    differ("x = 1 .y;", "x = 1.y;");
    differ("a = 1e +5;", "a = 1e+5;");
    differ("auto s = \"a b\";", "auto s = \"a  b\";");
    differ("auto s = \"/* c */\";", "auto s = \"\";");
    differ("auto s = R\"(a\n//b)\";", "auto s = R\"(a\n)\";");
    differ("auto s = \"a\"_x;", "auto s = \"a\" _x;");
    differ("#pragma unroll 4\nfor(;;);", "#pragma unroll 8\nfor(;;);");
    differ("#define F (x)\n", "#define F(x)\n");
    differ("#include \"a.h\"\n", "#include <a.h>\n");
    differ("#include \"a  b.h\"\n", "#include \"a b.h\"\n");
    differ("#define A\nB", "#define A B");
    differ("auto c = 'a';", "auto c = 'b';");
    differ("int i; #x", "int i;\n#x");
}

Test(cuda_source, white_space_that_a_macro_can_see_counts)
{
    same("f(a+b);", "f(a + b);");
    differ("#define S(x) #x\nS(a+b);", "#define S(x) #x\nS(a + b);");
    same("#define S(x) #x\nS(a  +\n b);", "#define S(x) #x\nS(a /* c */ + b);");
    differ("#include <s.h>\nS(a+b);", "#include <s.h>\nS(a + b);");
    /* ## makes no string, on two lines neither */
    same("#define P(x, y) x#\\\n#y\nP(a+b, c)", "#define P(x, y) x##y\nP(a + b, c)");
}

Test(cuda_source, lines_count_where_they_can_be_seen)
{
    same("int a;\n\nint b;", "int a;\nint b;");
    differ("int a;\n\nint b = __LINE__;", "int a;\nint b = __LINE__;");
    differ("\nvoid f() { assert(1); }", "void f() { assert(1); }");
    same("int a; // x\nint b = __LINE__;", "int   a;\nint b = __LINE__;");
    differ("#define X a /*\n*/ b\nint i = __LINE__;", "#define X a\nb\nint i = __LINE__;");
}

Test(cuda_source, what_compilers_may_read_differently_is_exact)
{
    key_of(KERNEL);
    cr_expect(!(exact));
    static const char *const odd[] = {
        "int a = ab\\\ncd;",
        "// what?\?/\nint a;",
        "auto s = \"open;\n",
        "%:define A 1\n",
        "int \\u00e9;",
        "x \\ \nint a;",
        "/* never closed",
        "int a = 1'x;",
        "a = __builtin_COLUMN();",
        "using std::source_location;",
        "a ?\?( b",
        "R\"(never closed",
    };
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        key_of(odd[i]);
        cr_expect(exact, "%s", odd[i]);
    }
}

Test(cuda_source, names_of_headers_are_no_tokens)
{
#define ASKS(test) "#if " test "\n#define A 1\n#endif\n" KERNEL
    differ(ASKS("__has_include(<.//a.h>)"), ASKS("__has_include(<.//b.h>)"));
    differ(ASKS("__has_include ( <a /*x.h>*/ >)"), ASKS("__has_include ( <a /*y.h>*/ >)"));
    differ(ASKS("__has_include(<a  b.h>)"), ASKS("__has_include(<a b.h>)"));
    differ(ASKS("__has_include/**/(<.//a.h>)"), ASKS("__has_include/**/(<.//b.h>)"));
    differ("#include /**/ <.//a.h>\n" KERNEL, "#include /**/ <.//b.h>\n" KERNEL);
    same(ASKS("__has_include(<a.h>)"), ASKS("__has_include(<a.h>) // or not"));
    cr_expect(!exact);
}

Test(cuda_source, a_directive_behind_a_lone_return_is_one)
{
    struct cuda_scan scan = scan_of("\f#include \"a.h\"\n");
    cr_expect(scan.includes_quote && !scan.unclear);
    scan = scan_of("\r #include <a.h>\n");
    cr_expect(scan.includes_angle && scan.unclear);
}

Test(cuda_source, debug_output_takes_the_exact_text)
{
    struct canon_input input = {
        .data = KERNEL, .len = strlen(KERNEL), .kind = CANON_CUDA, .debug_info = true};
    struct canon_result result;
    cr_assert_eq(canon_key(&input, &result, NULL, NULL), 0);
    cr_assert(result.exact);
}

Test(cuda_source, clock_is_seen)
{
    static const char *const texts[] = {
        "const char *t = __TIME__;",
        "__DATE__",
        "a(__TIMESTAMP__)",
        "#define NOW __TIME__",
        "#if 0\n__TIME__\n#endif",
        "#define CAT(a, b) a##b\nCAT(__TI, ME__)",
        "#define CAT(a, b) a # /* */ # b\n#define P a##b\nCAT(_, _DATE__)",
        "CAT(__D, ATE, __) x ## y",
        "CAT(__D, ATE, __) x #\\\n#\\\ny",
        "const char *s = \"x\"; __TIME__",
        "auto r = R\"(\")\"; __TIME__",
        "int a = 1'000; char c = '\"'; __TIME__",
        "#include <a/*b.h>\n__TIME__ /* */",
        "// a comment ?\?/\n__TIME__",
        "__TI\\\nME__",
        "/\\\n* __TIME__",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        cr_expect(uses_clock(texts[i]), "%s", texts[i]);
}

Test(cuda_source, clock_is_not_seen_where_it_is_none)
{
    static const char *const texts[] = {
        "// __TIME__\nint a;",    "/* __DATE__ */",
        "auto s = \"__TIME__\";", "auto s = R\"(__TIME__)\";",
        "int __TIME__x;",         "int x__TIME__;",
        "CAT(__TI, ME__)",        "#define CAT(a, b) a##b\nCAT(__TI, MEE__)",
        "int T, E, M; x##y",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        cr_expect(!(uses_clock(texts[i])), "%s", texts[i]);
}

Test(cuda_source, pieces_of_several_texts_are_put_together)
{
    struct cuda_scan a = scan_of("#define A __TI\n"), b = scan_of("#define CAT(x) A##x\nCAT(ME__)");
    cr_expect(!(cuda_scan_uses_clock(&a)));
    cr_expect(!(cuda_scan_uses_clock(&b)));
    cuda_scan_merge(&a, &b);
    cr_expect(cuda_scan_uses_clock(&a));
}

Test(cuda_source, lines_files_and_columns_are_seen)
{
    cr_expect(uses_line("int l = __LINE__;"));
    cr_expect(uses_line("void f() { assert(0); }"));
    cr_expect(uses_line("x(__LI, NE__) a##b"));
    cr_expect(uses_line("__builtin_LINE()"));
    cr_expect(!(uses_line("int line; // __LINE__")));
    struct cuda_scan scan = scan_of("#line 7 \"x\"\n#pragma once\n__COUNTER__ __FILE__");
    cr_expect(scan.has_line_directive && scan.has_pragma && scan.uses_counter);
    cr_expect(cuda_scan_uses_file(&scan));
    cr_expect(!(cuda_scan_allows_canonical(&scan)));
}

Test(cuda_source, includes_are_told_apart)
{
    struct cuda_scan scan = scan_of("#include <a.h>");
    cr_expect(scan.includes_angle && !scan.includes_quote && !scan.includes_computed);
    scan = scan_of(" # /**/ include \"a.h\"");
    cr_expect(scan.includes_quote && !scan.includes_angle);
    scan = scan_of("#include HEADER");
    cr_expect(scan.includes_computed);
    scan = scan_of("#if __has_include(<a.h>)");
    cr_expect(scan.includes_computed);
    scan = scan_of("// #include <a.h>\nauto s = \"\\\n#include <b.h>\";");
    cr_expect(!(cuda_scan_has_includes(&scan)));
}
