/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_root_names.c - which texts keep a result for its own folder: those that may compute with the name of a
 * file, or that spell the folder. Others must not: each refusal costs a hit.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/tool/trace_log.h"
#include "tests/support/support.h"

#define TEXTS_MAX 8

static char *dir, *root, *paths[TEXTS_MAX], *argv[8];
static struct input list[TEXTS_MAX];
static struct inputs in;
static struct tool_job job;

/* Begins a run of GCC without texts, in which one folder is a root. */
static void begin(void)
{
    argv[0] = (char[]){"gcc"};
    in = (struct inputs){.list = list};
    job = (struct tool_job){.family = "cc",
                            .program = "/usr/bin/gcc",
                            .argv = argv,
                            .argc = 1,
                            .expands_macros = true,
                            .roots = {root},
                            .n_roots = 1};
}

static void forget(void)
{
    for (size_t i = 0; i < in.n; i++)
        free(paths[i]);
    in.n = 0;
}

static void forget_last(void) { free(paths[--in.n]); }

static void up(void)
{
    dir = temp_dir_new();
    root = path_join(dir, "root");
    cr_assert_eq(mkdir(root, 0700), 0);
    begin();
}

static void down(void)
{
    forget();
    free(root);
    temp_dir_free(dir);
}
TestSuite(root_names, .init = up, .fini = down);

/* Makes the folders above a path. */
static void make_folders(const char *path)
{
    char folder[PATH_MAX];
    for (const char *slash = path; (slash = strchr(slash + 1, '/'));) {
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
        mkdir(folder, 0700);
    }
}

/* Adds a text that the compiler read: in the root, or outside of it. */
static void add(bool in_root, const char *name, const char *text)
{
    char *path = path_join(in_root ? root : dir, name);
    make_folders(path);
    if (text)
        file_write(path, text, strlen(text));
    cr_assert_lt(in.n, TEXTS_MAX);
    list[in.n] = (struct input){
        .kind = INPUT_FILE, .root = in_root, .path = in_root ? path + strlen(root) : path};
    paths[in.n++] = path;
}

static bool is_refused(void)
{
    struct err e = {.text = ""};
    int code = root_names_check(&job, &in, &e);
    cr_assert(code == 0 || code == WARM_EREFUSED, "%d", code);
    return code != 0;
}

/* ---- texts ---- */

Test(root_names, a_source_that_may_compute_with_its_name_is_refused)
{
    static const struct {
        const char *source, *header; /* in the root, and outside of it */
        bool refused;
    } rows[] = {
        {"int x;\n", "int y;\n", false},
        {"int n = sizeof __FILE__;\n", NULL, true},
        {"// not __FILE__\nint x;\n", NULL, false},
        {"int n = sizeof HERE;\n", "#define HERE __FILE__\n", true},
        {"int n = sizeof THERE;\n", "#define HERE __FILE__\n#define THERE HERE\n", true},
        {"int x;\n", "#define HERE __FILE__\n", false}, /* nobody uses it */
        {"#define HERE __FILE__\nint x;\n", NULL, false},
        {"#define HERE __FILE__\nint n = sizeof HERE;\n", NULL, true},
        {"#define HERE __FILE__\n#define THERE HERE\n#include THERE\n", NULL, true},
        {"int x;\n", "int n = sizeof __FILE__;\n", false}, /* the header's own place stays */
        {"int x;\n", "int n = sizeof __BASE_FILE__;\n", true},
        {"int x;\n", "void f(const char * = __builtin_FILE());\n", true},
        {"int x;\n", "void f(std::source_location = {});\n", true},
        {"int n = sizeof J(__FI, LE__);\n", "#define J(a, b) a##b\n", true},
        {"int n = sizeof K(_FI, LE__);\n", "#define K(a, b) _##a##b\n", true},
        {"int n_, _E;\n", "#define J(a, b) a##b\n", false},   /* no name begins with them */
        {"FILE *f;\n", "#define J(a, b) a##b\n", false},      /* such pieces have no '_' */
        {"int _builtin;\n", "#define J(a, b) a##b\n", false}, /* no text has the rest */
        {"FILE *f; int _builtin, _;\n", "#define J(a, b) a##b\n", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        add(true, "m.cc", rows[i].source);
        if (rows[i].header)
            add(false, "h.h", rows[i].header);
        cr_expect_eq(is_refused(), rows[i].refused, "%s%s", rows[i].source,
                     rows[i].header ? rows[i].header : "");
        forget();
    }
}

Test(root_names, macros_of_the_command_line_count)
{
    static const struct {
        const char *args[2], *source;
        bool refused;
    } rows[] = {
        {{"-DHERE=__FILE__"}, "int n = sizeof HERE;\n", true},
        {{"-D", "HERE=__FILE__"}, "int n = sizeof HERE;\n", true},
        {{"-Wp,-DHERE=__FILE__"}, "int n = sizeof HERE;\n", true},
        {{"-DHERE=__FILE__"}, "int x;\n", false},
        {{"-DBASE=__BASE_FILE__"}, "int x;\n", true},
        {{"-DN=1", "-D"}, "int n = N;\n", false}, /* the compiler will complain of -D */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        add(true, "m.cc", rows[i].source);
        job.argc = 1;
        for (size_t k = 0; k < 2 && rows[i].args[k]; k++)
            argv[job.argc++] = (char *)(uintptr_t)rows[i].args[k];
        cr_expect_eq(is_refused(), rows[i].refused, "%s", rows[i].args[0]);
        forget();
    }
}

Test(root_names, an_assert_that_ndebug_removes_names_nothing)
{
#define OWN_CHECK                                                                                  \
    "#ifdef NDEBUG\n#define CHECK(x) ((void)0)\n#else\n#define CHECK(x) ((x) ? 0 : "               \
    "fail(__FILE__))\n#endif\n"
    static const struct {
        const char *args[2], *source, *header; /* the header: in the root */
        bool refused;
    } rows[] = {
        {{NULL}, "void f() { assert(0); }\n", NULL, true},
        {{"-DNDEBUG"}, "void f() { assert(0); }\n", NULL, false},
        {{"-D", "NDEBUG=1"}, "void f() { assert(0); }\n", NULL, false},
        {{"-DNDEBUG", "-UNDEBUG"}, "void f() { assert(0); }\n", NULL, true},
        {{"-DNDEBUGGER"}, "void f() { assert(0); }\n", NULL, true},
        {{"-DNDEBUG"},
         "#ifndef NDEBUG\n#define NDEBUG\n#endif\nvoid f() { assert(0); }\n",
         NULL,
         false},
        {{"-DNDEBUG"}, "#undef NDEBUG\nvoid f() { assert(0); }\n", NULL, true},
        {{"-DNDEBUG"}, "void f() { assert(0); }\n", "#  undef /* */ \\\n NDEBUG\n", true},
        {{"-DNDEBUG"}, "void f() { assert(0); }\n", "#pragma pop_macro(\"NDEBUG\")\n", true},
        {{"-DNDEBUG"}, "UNSET(NDEBUG)\nvoid f() { assert(0); }\n", NULL, true},
        {{"-DNDEBUG"}, "void f() { assert(0); }\n", "#define assert(x) fail(__FILE__)\n", true},
        {{"-DNDEBUG"}, "void f() { assert(__FILE__[0]); }\n", NULL, true},
        {{"-DNDEBUG"}, "void f() { CHECK(0); }\n", OWN_CHECK, false},
        {{"-DNDEBUG"}, OWN_CHECK "void f() { CHECK(0); }\n", NULL, false},
        {{NULL}, "void f() { CHECK(0); }\n", OWN_CHECK, true},
        {{"-DNDEBUG"}, "#undef NDEBUG\nvoid f() { CHECK(0); }\n", OWN_CHECK, true},
        {{"-DNDEBUG"}, "void f() { CHECK(0); }\n", "#define X __FILE__\n" OWN_CHECK, false},
        {{"-DNDEBUG"}, "void f() { CHECK(X); }\n", "#define X __FILE__\n" OWN_CHECK, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        add(true, "m.cc", rows[i].source);
        if (rows[i].header)
            add(true, "h.h", rows[i].header);
        list[in.n] = (struct input){.kind = INPUT_FILE, .path = "/usr/include/assert.h"};
        paths[in.n++] = NULL;
        job.argc = 1;
        for (size_t k = 0; k < 2 && rows[i].args[k]; k++)
            argv[job.argc++] = (char *)(uintptr_t)rows[i].args[k];
        cr_expect_eq(is_refused(), rows[i].refused, "%zu: %s", i, rows[i].source);
        forget();
    }
    add(true, "m.cc", "void f() { assert(0); }\n");
    argv[1] = (char[]){"-DNDEBUG"};
    job.argc = 2;
    add(false, "mine/assert.h", "#define assert(x) fail(__FILE__)\n");
    cr_expect(is_refused(), "it is not the system's");
    setenv("NVCC_APPEND_FLAGS", "-UNDEBUG", 1);
    static const char source[] = "void f() { assert(0); }\n";
    cr_expect(root_names_may_show(&job, "m.cu", source, strlen(source)));
    unsetenv("NVCC_APPEND_FLAGS");
    cr_expect(!root_names_may_show(&job, "m.cu", source, strlen(source)));
    static const char own[] = OWN_CHECK "void f() { CHECK(0); }\n";
    cr_expect(!root_names_may_show(&job, "m.cu", own, strlen(own)));
    argv[1] = (char[]){"-O2"};
    cr_expect(root_names_may_show(&job, "m.cu", own, strlen(own)));
}

Test(root_names, a_count_of_references_names_a_file_in_a_debugging_build_alone)
{
    static const char object[] = "#if defined(Py_DEBUG) && !defined(Py_REF_DEBUG)\n"
                                 "#define Py_REF_DEBUG\n#endif\n#ifdef Py_REF_DEBUG\n"
                                 "#define Py_DECREF(op) Py_DECREF(__FILE__, op)\n#endif\n";
    static const struct {
        const char *arg, *header; /* the header: in the root */
        bool refused;
    } rows[] = {
        {"-O2", NULL, false},
        {"-DPy_DEBUG", NULL, true},
        {"-DPy_REF_DEBUG=1", NULL, true},
        {"-O2", "#define Py_DEBUG 1\n", true},
        {"-O2", "#define Py_DECREF(op) mine(__FILE__)\n", true},
    };
    job.argc = 2;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        add(true, "m.c", "void f(void *o) { Py_DECREF(o); }\n");
        add(false, "include/python3.11/object.h", object);
        if (rows[i].header)
            add(true, "h.h", rows[i].header);
        argv[1] = (char *)(uintptr_t)rows[i].arg;
        cr_expect_eq(is_refused(), rows[i].refused, "%zu", i);
        forget();
    }
}

Test(root_names, headers_of_python_and_numpy_in_an_environment_may_spell_names)
{
    static const char text[] = "#define LOC __FILE__\n#pragma message(LOC)\n";
    add(true, "m.c", "int x;\n");
    add(true, "include/python3.11/object.h", text);
    add(true, "lib/python3.11/site-packages/numpy/_core/include/numpy/numpyconfig.h", text);
    cr_expect(!is_refused());
    add(true, "mine/include/python3.11/object.h", text);
    cr_expect(is_refused());
}

Test(root_names, a_system_header_may_ask_for_names)
{
    add(true, "m.cc", "int x;\n");
    add(false, "lib/gcc/h.h", "#define J(a) a##__FI\nint n = sizeof __BASE_FILE__;\n");
    add(false, "conda/include/python3.11/Python.h", "#define ASSERT(x) fail(x, __FILE__)\n");
    job.spelled[job.n_spelled++] = "m.cc";
    cr_expect(!is_refused());
    add(true, "n.cc", "int n = sizeof ASSERT(0);\n");
    cr_expect(is_refused(), "the text that uses its macro");
    forget_last();
    add(false, "mine/h.h", "int n = sizeof __BASE_FILE__;\n");
    cr_expect(is_refused());
}

Test(root_names, clang_names_types_by_their_file)
{
    add(true, "m.cc", "int x;\n");
    add(false, "lib/gcc/h.h", "const char *f() { return __PRETTY_FUNCTION__; }\n");
    cr_expect(!is_refused(), "GCC does not");
    job.program = "/bin/sh"; /* any compiler but GCC */
    cr_expect(is_refused(), "even in a system's header");
    forget_last();
    add(false, "include/c++/vector",
        "#define CHECK(x) (x ? 0 : fail(__PRETTY_FUNCTION__))\n"
        "int f(int x) { return CHECK(x); }\n");
    cr_expect(!is_refused(), "the standard library only prints it");
    add(true, "n.h", "int n = sizeof CHECK(0);\n");
    cr_expect(is_refused(), "a text that leads to it may compute");
    job.family = "ptxas";
    cr_expect(!is_refused());
}

Test(root_names, only_headers_of_the_toolkit_that_ran_may_spell_pieces)
{
    add(true, "m.cu", "int LE__;\n");
    add(false, "cuda/include/h.h", "#define J(a) __FI##a\n");
    cr_expect(is_refused(), "no toolkit is known");
    add(false, "cuda/bin/nvcc.profile", "TOP = $(_HERE_)/..\n");
    cr_expect(!is_refused());
    add(false, "cudb/include/h.h", "#define J(a) __FI##a\n");
    cr_expect(is_refused(), "the folder of another toolkit");
}

/* As /usr/local/cuda, which leads to /usr/local/cuda-13.0: GCC opens headers by the shortest name. */
Test(root_names, a_toolkit_that_ran_by_a_link_is_the_one_that_the_link_leads_to)
{
    char *link = path_join(dir, "link");
    add(true, "m.cu", "int LE__;\n");
    add(false, "cuda/include/h.h", "#define J(a) __FI##a\n");
    cr_assert_eq(symlink("cuda", link), 0);
    add(false, "cuda/bin/nvcc.profile", "TOP = $(_HERE_)/..\n");
    forget_last();
    add(false, "link/bin/nvcc.profile", NULL);
    cr_expect(!is_refused());
    free(link);
}

Test(root_names, a_known_header_may_hand_names_on_if_no_other_text_can_compute_with_them)
{
    static const uint8_t known[] = {0xa0, 0x13, 0xb3, 0xb0, 0x6b, 0x1f, 0x1f, 0x69,
                                    0x1c, 0x21, 0xdb, 0xd3, 0x0f, 0x25, 0x55, 0xf4,
                                    0x9f, 0xab, 0xba, 0xdc, 0xaa, 0x9a, 0x6c, 0x45,
                                    0x7f, 0xe7, 0xc7, 0x96, 0x37, 0xd9, 0x19, 0x15};
    static const char text[] = "struct SourceLocation { static SourceLocation current("
                               "const char *file = __builtin_FILE()); };\n";
    add(true, "m.cc", "FILE *f;\n");
    add(false, "release/c10/util/StringUtil.h", text);
    cr_expect(is_refused(), "a header of another digest");
    memcpy(list[1].digest.bytes, known, sizeof known);
    cr_expect(!is_refused());
    add(false, "release/torch/enum.h", "#define E(name) _ ## name\n");
    cr_expect(!is_refused(), "a header of the same release");
    add(false, "other/h.h", "#define E(name) _ ## name\n");
    cr_expect(is_refused(), "another's");
    forget_last();
    add(true, "n.h", "constexpr auto here = c10::SourceLocation::current();\n");
    cr_expect(is_refused());
}

Test(root_names, a_release_without_names_counts_beside_another)
{
    static const uint8_t cccl[] = {0xbe, 0x14, 0x1a, 0x1d, 0x23, 0x9d, 0x70, 0xe8, 0x50, 0xe6, 0xc9,
                                   0x97, 0x57, 0x68, 0x5c, 0xfb, 0x55, 0xf1, 0x81, 0x6c, 0xca, 0x98,
                                   0x8a, 0xab, 0x7a, 0x0f, 0xed, 0x86, 0x7e, 0xbc, 0x46, 0x9b};
    add(true, "m.cc", "FILE *f;\n");
    add(false, "cccl/nv/detail/__preprocessor", "#define T(...) J(_, __VA_ARGS__)\n");
    add(false, "cccl/cuda/std/os.h", "#define O(a) _##a\n");
    cr_expect(is_refused(), "a header of another digest");
    memcpy(list[1].digest.bytes, cccl, sizeof cccl);
    cr_expect(!is_refused());
    add(true, "n.h", "int n = sizeof T(_FILE__);\n");
    cr_expect(is_refused(), "the other piece is here");
}

Test(root_names, pybind11_has_a_function_whose_name_is_a_piece)
{
    static const uint8_t descr[] = {0x8b, 0x22, 0x5a, 0xc3, 0x0d, 0xca, 0xea, 0x05,
                                    0x40, 0xfe, 0x5c, 0x5e, 0x83, 0xaf, 0x6f, 0x35,
                                    0x9c, 0x8d, 0xe3, 0x75, 0xeb, 0x3d, 0x5b, 0x72,
                                    0x51, 0xb8, 0x66, 0x5c, 0xc0, 0x62, 0x54, 0x59};
    add(true, "m.cc", "FILE *f;\n#define J(a, b) a##b\n");
    add(false, "inc/pybind11/detail/descr.h", "constexpr int _(char const (&text)[1]);\n");
    cr_expect(is_refused(), "a header of another digest");
    memcpy(list[1].digest.bytes, descr, sizeof descr);
    cr_expect(!is_refused());
    add(false, "inc/pybind11/numpy.h", "#define T(_) typenum_##_\n");
    cr_expect(!is_refused(), "a header of the same release");
    add(false, "inc/other/j.h", "#define J(a) _##a\n");
    cr_expect(is_refused(), "another's");
    forget_last();
    add(true, "n.h", "int n = sizeof PYBIND11_CONCAT(_, _FILE__);\n");
    cr_expect(is_refused());
}

Test(root_names, a_name_with_an_underscore_between_is_no_name_of_a_file)
{
    add(true, "m.cc", "#define SLOT(type, name) type##_##name\nint SLOT(a, b);\n");
    cr_expect(!is_refused());
    list[in.n] = (struct input){.kind = INPUT_FILE, .path = "/usr/include/stdio.h"};
    paths[in.n++] = NULL;
    cr_expect(!is_refused(), "FILE is a word of the system's alone");
    add(true, "n.h", "FILE *f;\n");
    cr_expect(is_refused());
}

Test(root_names, pybind11_hands_its_file_to_a_function_that_throws_it)
{
    static const uint8_t cast[] = {0x54, 0xcf, 0xdb, 0x09, 0x53, 0x55, 0x29, 0xc4, 0xb3, 0x3f, 0x5c,
                                   0xb0, 0x63, 0x12, 0xea, 0x00, 0x82, 0x60, 0xd4, 0x3e, 0x71, 0x28,
                                   0x9b, 0x52, 0x21, 0x89, 0x7c, 0x9c, 0x8d, 0xc8, 0xef, 0xed};
    add(true, "m.cc", "int x;\n");
    add(true, "inc/pybind11/cast.h", "void f() { pybind11_fail(\"at \" __FILE__); }\n");
    cr_expect(is_refused(), "a header of another digest");
    memcpy(list[1].digest.bytes, cast, sizeof cast);
    cr_expect(!is_refused());
    add(true, "inc/pybind11/pytypes.h", "void g() { pybind11_fail(\"no list\"); }\n");
    cr_expect(!is_refused(), "a header of the same release");
    add(true, "n.h", "#define pybind11_fail(text) fail(sizeof text)\n");
    cr_expect(is_refused(), "another's");
    forget_last();
    add(true, "n.h", "constexpr auto *here = __FILE__;\n");
    cr_expect(is_refused());
}

Test(root_names, headers_of_cuda_count_for_a_hosts_compiler_as_they_do_for_nvcc)
{
    static const uint8_t cuda[] = {0x26, 0x3c, 0x17, 0xb5, 0xd4, 0x84, 0x76, 0x92, 0x24, 0x6c, 0x70,
                                   0x02, 0x23, 0x2a, 0x02, 0x69, 0xc9, 0xa1, 0x11, 0xc9, 0xd5, 0x0a,
                                   0xd2, 0xcd, 0x34, 0x49, 0xba, 0xef, 0x58, 0xa6, 0x00, 0x4b};
    add(true, "m.cc", "FILE *f;\n");
    add(false, "cuda/include/crt/host_defines.h",
        "#define __location__(a) __annotate__(__##a##__)\n");
    cr_expect(is_refused(), "a header of another digest");
    memcpy(list[1].digest.bytes, cuda, sizeof cuda);
    cr_expect(!is_refused());
    add(false, "elsewhere/j.h", "#define J(a) __##a\n");
    cr_expect(is_refused(), "another's");
    forget_last();
    add(true, "n.h", "int n = sizeof __FILE__;\n");
    cr_expect(is_refused());
}

Test(root_names, what_the_hosts_compiler_maps_is_no_obstacle_and_the_rest_is)
{
    job.family = "nvcc";
    job.maps_roots = true;
    add(true, "m.cu", "int n = sizeof __FILE__;\n");
    cr_expect(!is_refused());
    add(true, "h.cuh", "const char *f(const char *n = __builtin_FILE());\n");
    cr_expect(is_refused(), "cudafe++ expands it");
    forget();
    job.family = "cc";
    job.maps_roots = true;
    add(true, "m.cc", "const char *f(const char *n = __builtin_FILE());\n");
    cr_expect(!is_refused());
}

Test(root_names, where_no_text_lies_in_a_root_no_name_has_it)
{
    add(false, "m.cc", "int n = sizeof __FILE__; int l(const char *f = __builtin_FILE());\n");
    cr_expect(!is_refused());
    add(true, "h.h", "int x;\n");
    cr_expect(is_refused(), "the caller may be there");
}

/* ---- the folder ---- */

Test(root_names, a_text_that_spells_the_folder_is_refused_whoever_expands_it)
{
    char text[PATH_MAX + 32];
    snprintf(text, sizeof text, "#include \"%s/a.h\"\n", root);
    add(true, "m.cc", text);
    cr_expect(is_refused());
    job.maps_roots = true;
    cr_expect(is_refused());
    job.maps_roots = false, job.preprocesses = true;
    cr_expect(is_refused());
    job.expands_macros = false;
    cr_expect(is_refused());
    job.reads_marks = true;
    cr_expect(!is_refused(), "line markers name it");
}

Test(root_names, who_computes_with_no_text_may_see_names)
{
    add(true, "m.cc", "int n = sizeof __FILE__;\n");
    cr_assert(is_refused());
    job.maps_roots = true;
    cr_expect(!is_refused(), "the compiler replaces them");
    job.maps_roots = false, job.preprocesses = true;
    cr_expect(!is_refused(), "a preprocessor writes them as they are,");
    forget();
    free(root);
    root = path_join(dir, "a\"b");
    job.roots[0] = root;
    add(true, "m.cc", "int n = sizeof __FILE__;\n");
    cr_expect(is_refused(), "unless it has to escape them");
}

Test(root_names, the_spelling_of_a_source_counts_without_a_root)
{
    job.n_roots = 0;
    add(false, "m.cc", "int n = sizeof __FILE__;\n");
    in.list[0].path = "m.cc"; /* as the compiler opened it */
    cr_assert_eq(chdir(dir), 0);
    cr_expect(!is_refused(), "it has one spelling");
    job.spelled[job.n_spelled++] = "m.cc";
    cr_expect(is_refused());
}

Test(root_names, a_header_by_a_whole_name_has_it_however_the_source_is_spelled)
{
    job.n_roots = 0;
    job.spelled[job.n_spelled++] = "m.cc";
    add(false, "h.h", "#define HERE __FILE__\nint n = sizeof __FILE__;\n");
    cr_expect(!is_refused());
    in.list[0].path = "h.h";
    cr_assert_eq(chdir(dir), 0);
    cr_expect(is_refused(), "a source beside it may have named it");
    in.list[0].path = paths[0];
    add(false, "m.cc", "int n = sizeof HERE;\n");
    in.list[1].path = "m.cc";
    cr_expect(is_refused(), "its macro names the source");
}

/* ---- what is no text ---- */

Test(root_names, a_text_that_cannot_be_read_is_refused)
{
    add(true, "m.cc", "int x;\n");
    add(true, "gone.h", NULL);
    cr_expect(is_refused());
    add(true, "long.h", "int y;\n");
    cr_expect_eq(truncate(paths[2], (off_t)1 << 30), 0);
    cr_expect(is_refused());
}

Test(root_names, a_binary_is_no_text)
{
    add(true, "m.cc", "int x;\n");
    add(true, "cc1plus", "\177ELF\2\1\1__FILE__ __BASE_FILE__");
    list[1].kind = INPUT_FILE;
    cr_expect(!is_refused());
    add(true, "cc1plus.h", " \177ELF\2\1\1__BASE_FILE__");
    cr_expect(is_refused());
}
