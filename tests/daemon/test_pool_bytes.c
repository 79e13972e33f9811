/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pool_bytes.c - a worker yields the bytes that the same library yields in process, with headers
 * from memory, from files, and with headers that change.
 *
 * A forked child loads the library and makes the reference.
 *
 * Needs a toolchain, see tests/support/pool.h.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/collision.h"
#include "tests/support/pool.h"
#include "tests/support/pool_reference.h"
#include "tests/support/support.h"

TestSuite(pool_bytes, .timeout = 300);

/* ---- equality ---- */

Test(pool_bytes, yields_the_bytes_of_the_library_in_process)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    char *there = path_join(r.dir, "there");
    mkdir(there, 0700);
    free(there);
    static const char *const options[] = {"-DN=3",     "-lineinfo",      "-G",          "-dlto",
                                          "-rdc=true", "-use_fast_math", "--std=c++20", "-w"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        expect_same(&r, &(struct ask){.source = SAXPY,
                                      .name = i % 2 ? "there/saxpy.cu" : "not_there/saxpy.cu",
                                      .options = {{"--gpu-architecture=sm_90", options[i]}}});
    expect_same(&r, &(struct ask){.source = SAXPY, .options = {{"-arch=compute_90"}}});
    expect_same(&r, &(struct ask){.source = SAXPY, .options = {{"-arch=sm_80", "-optix-ir"}}});
    rig_stop(&r);
}

/* NVRTC takes later compiles of its process as if -restrict had been given again. */
Test(pool_bytes, yields_the_same_after_options_that_stay_on_in_the_process)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_configure(&r);
    r.config.limits.jobs = 2; /* one for each toolchain, kept between compiles */
    rig_open(&r);
    static const char aliasing[] = "__global__ void k(float *x, const float *y, float *z)\n"
                                   "{ x[0] = y[0]; z[0] = y[0] + x[1]; x[2] = y[0] * z[1]; }\n";
    struct ask plain = {.source = aliasing, .options = {{"-arch=sm_90"}}};
    expect_same(&r, &plain);
    expect_same(&r, &(struct ask){.source = aliasing, .options = {{"-arch=sm_90", "-restrict"}}});
    expect_same(&r, &plain);
    rig_stop(&r);
}

Test(pool_bytes, yields_the_same_errors_warnings_and_names)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    static const char sm_90[] = "-arch=sm_90";
    expect_same(&r, &(struct ask){.source = "__global__ void k( { }\n", .options = {{sm_90}}});
    expect_same(&r, &(struct ask){.source = "static __device__ int f() { int unused; return 1; }\n",
                                  .options = {{sm_90}}});
    expect_same(&r, &(struct ask){.source = "", .options = {{sm_90}}});
    expect_same(&r, &(struct ask){.source = SAXPY, .options = {{sm_90, "--no-such-option"}}});
    expect_same(&r, &(struct ask){.source = SAXPY, .options = {{"-arch=sm_12345"}}});
    expect_same(&r, &(struct ask){.source = SAXPY, .options = {{"-arch=sm_90", "-I"}}});
    expect_same(&r, &(struct ask){.source = "#include \"no_such_header.h\"\n" SAXPY});
    expect_same(&r,
                &(struct ask){.source = "template <class T, int N> __global__ void add(T *x)\n"
                                        "{ x[threadIdx.x] += N; }\n"
                                        "namespace n { __device__ int counter; }\n",
                              .options = {{sm_90}},
                              .expressions = {{"add<float, 3>", "&n::counter", "add<int, 7>"}}});
    expect_same(&r, &(struct ask){.source = SAXPY,
                                  .options = {{sm_90}},
                                  .expressions = {{"no_such_kernel<int>"}}});
    rig_stop(&r);
}

Test(pool_bytes, yields_the_same_with_headers_from_memory_and_from_files)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    char *sub = path_join(r.dir, "inc");
    mkdir(sub, 0700);
    free(in_dir(&r, "inc/outer.h",
                "#pragma once\n#include \"inner.h\"\n#define TWICE(x) inner(x) * 2\n"));
    free(in_dir(&r, "inc/inner.h",
                "#pragma once\n__device__ inline float inner(float x) { return x + 1; }\n"));
    free(in_dir(&r, "beside.h", "#define BESIDE 5\n"));
    static const char source[] = "#include <outer.h>\n#include \"beside.h\"\n#include <inner.h>\n"
                                 "#include \"memory.h\"\n__global__ void k(float *x)\n"
                                 "{ x[0] = TWICE(x[1]) + BESIDE + MEMORY; }\n";
    static const char *const debug[] = {NULL, "-lineinfo", "-G"};
    char include[4096];
    snprintf(include, sizeof include, "-I%s", sub);
    for (size_t i = 0; i < 3; i++)
        expect_same(&r, &(struct ask){.source = source,
                                      .options = {{"-arch=sm_90", include, debug[i]}},
                                      .header_names = {{"memory.h", "unused.h"}},
                                      .headers = {{"#define MEMORY 3\n", "#error unused\n"}}});
    expect_same(&r, &(struct ask){.source = source,
                                  .options = {{"-arch=sm_90", "-Iinc", "-include=beside.h"}},
                                  .header_names = {{"memory.h"}},
                                  .headers = {{"#define MEMORY 3\n"}}});
    free(sub);
    rig_stop(&r);
}

/* Returns the number of questions that compiles of all versions ask their client. */
static int questions(struct rig *r, const struct ask *given)
{
    int sum = 0;
    for (size_t v = 0; v < 2; v++) {
        struct outcome o;
        int n = ask_serving(r, given, v, &o);
        cr_assert_eq((size_t)n, o.n_paths);
        sum += n;
        outcome_close(&o);
    }
    return sum;
}

Test(pool_bytes, what_includes_no_file_depends_on_no_file)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    struct ask plain = {.source = SAXPY, .options = {{"-arch=sm_90"}}};
    cr_expect_eq(questions(&r, &plain), 0);
    struct ask more = {.source = "template <class T> __global__ "
                                 "void k(T *x) { *x = 3; }\n",
                       .name = "/some/where/name.cu",
                       .options = {{"-arch=compute_80", "-I.", "-I/nowhere", "-rdc=true"}},
                       .expressions = {{"k<float>", "&k<int>"}}};
    cr_expect_eq(questions(&r, &more), 0);
    rig_stop(&r);
}

/* NVRTC looks for these three in every compile; this is the measurement that it may find nothing. */
Test(pool_bytes, yields_the_same_whether_the_program_is_a_file_or_not)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    static const char source[] = "static __device__ int a[3];\n__global__ void k(int *x)\n"
                                 "{ int unused; x[0] = a[x[1]] + __LINE__ + __FILE__[2]; }\n";
    static const char *const options[][2] = {
        {NULL}, {"-rdc=true", "-dlto"}, {"-std=c++20", "-w"}, {"-lineinfo"}, {"-G"}};
    char *program = in_dir(&r, "f.cu", "#error this is not read\n");
    for (int present = 0; present < 2; present++) {
        for (size_t i = 0; i < sizeof options / sizeof *options; i++)
            expect_same(&r,
                        &(struct ask){.source = source,
                                      .name = "f.cu",
                                      .options = {{"-arch=sm_90", options[i][0], options[i][1]}}});
        free(in_dir(&r, "__nv_nvrtc_builtin_header.h", "#error\n"));
        free(in_dir(&r, "__nv_name_map", "#error\n"));
    }
    unlink(program);
    free(program);
    rig_stop(&r);
}

Test(pool_bytes, a_program_that_includes_itself_gets_the_file)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    static const char *const sources[] = {
        "#ifndef A\n#define A 1\n#include \"f.cu\"\n#endif\n" SAXPY,
        "#pragma once\n#include \"f.cu\"\n" SAXPY,
        "#include \"by.h\"\n" SAXPY,
        "#include \"__nv_name_map\"\n" SAXPY,
        "#if __has_include(\"__nv_nvrtc_builtin_header.h\")\n__device__ int there;\n#endif\n" SAXPY,
    };
    char *program = in_dir(&r, "f.cu", "#pragma once\n__device__ int other;\n");
    free(in_dir(&r, "by.h", "#pragma once\n#include \"f.cu\"\n"));
    free(in_dir(&r, "__nv_name_map", "__device__ int named;\n"));
    free(in_dir(&r, "__nv_nvrtc_builtin_header.h", "__device__ int built;\n"));
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        expect_same(
            &r, &(struct ask){.source = sources[i], .name = "f.cu", .options = {{"-arch=sm_90"}}});
    free(program);
    rig_stop(&r);
}

Test(pool_bytes, lists_each_path_once_in_order_with_what_was_absent)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    char *first = path_join(r.dir, "first"), *second = path_join(r.dir, "second");
    mkdir(first, 0700);
    mkdir(second, 0700);
    static const char content[] = "#define H 1\n";
    free(in_dir(&r, "second/h.h", content));
    char i1[4096], i2[4096], absent[4096], present[4096];
    snprintf(i1, sizeof i1, "-I%s", first);
    snprintf(i2, sizeof i2, "-I%s", second);
    snprintf(absent, sizeof absent, "%s/h.h", first);
    snprintf(present, sizeof present, "%s/h.h", second);
    struct header_server server = {.manner = SERVES, .root = r.dir};
    struct ask a = {.source = "#include <h.h>\n#include <h.h>\n" SAXPY,
                    .options = {{"-arch=sm_90", i1, i2}},
                    .server = &server};
    struct outcome o;
    ask_run(&r, &a, &o);
    cr_assert_eq(o.status, 0);
    size_t at_absent = SIZE_MAX, at_present = SIZE_MAX;
    for (size_t i = 0; i < o.n_paths; i++) {
        for (size_t k = 0; k < i; k++)
            cr_assert_str_neq(o.paths[i], o.paths[k], "listed twice");
        if (strcmp(o.paths[i], absent) == 0)
            at_absent = i;
        if (strcmp(o.paths[i], present) == 0)
            at_present = i;
    }
    cr_assert(at_absent < at_present && at_present < o.n_paths);
    cr_assert(o.absent[at_absent] && !o.absent[at_present]);
    struct proof want = proof_of_bytes(content, strlen(content));
    cr_assert_eq(memcmp(&o.digests[at_present], &want, sizeof want), 0);
    cr_assert_eq((size_t)server.n_asked, o.n_paths, "one question a path");
    outcome_close(&o);
    free(first);
    free(second);
    rig_stop(&r);
}

/* ---- headers that change ---- */

/* A header of some length, as libraries have. */
static void write_big_header(const struct rig *r)
{
    char *path = path_join(r->dir, "big.h");
    FILE *f = fopen(path, "w");
    for (int i = 0; i < 500; i++)
        fprintf(
            f,
            "template <class T> struct S%d { T x; __device__ T f(T a) { return a * x + %d; } };\n",
            i, i);
    fclose(f);
    free(path);
}

/* Replaces a header by another of the same size; its time stays. */
static void replace_header(const struct rig *r, const char *name, const char *text, size_t len)
{
    struct stat st;
    char *path = path_join(r->dir, name);
    bool there = stat(path, &st) == 0;
    file_write(path, text, len);
    struct timespec times[] = {st.st_atim, st.st_mtim};
    if (there)
        utimensat(AT_FDCWD, path, times, 0);
    free(path);
}

/* A kernel that nobody has compiled before, with VALUE of a header. */
static void expect_value_of(struct rig *r, const char *header, const char *option, int k)
{
    char source[512];
    snprintf(source, sizeof source,
             "#include \"%s\"\n#include \"big.h\"\nextern \"C\" __global__ void k%d(int *x)\n"
             "{ S3<int> s; s.x = VALUE; x[%d] = s.f(x[1]); }\n",
             header, k, k);
    expect_same(r, &(struct ask){.source = source, .options = {{"-arch=sm_90", "-I.", option}}});
}

/* Four kernels with one text, two with the other: each is compiled with what is there now, however
 * often the compiler saw the first. */
static void expect_each_text(const char *header, const char *one, const char *two, size_t len)
{
    static const char *const options[] = {NULL, "-lineinfo"};
    struct rig r;
    rig_start(&r);
    write_big_header(&r);
    for (size_t i = 0; i < 2; i++)
        for (int k = 0; k < 6; k++) {
            if (k % 4 == 0)
                replace_header(&r, header, k ? two : one, len);
            expect_value_of(&r, header, options[i], k);
        }
    rig_stop(&r);
}

Test(pool_bytes, headers_of_equal_size_and_XXH3_are_told_apart)
{
    NEEDS_TOOLCHAIN();
    static char one[COLLISION_LEN], two[COLLISION_LEN];
    collision_make(one, two);
    struct key a = key_of_bytes(one, sizeof one), b = key_of_bytes(two, sizeof two);
    cr_assert(key_equal(&a, &b) && memcmp(one, two, sizeof one) != 0, "this is no collision");
    expect_each_text("collision.h", one, two, sizeof one);
}

Test(pool_bytes, headers_named_like_the_compilers_own_are_seen_to_change)
{
    NEEDS_TOOLCHAIN();
    static const char one[] = "#define VALUE 111\n", two[] = "#define VALUE 222\n";
    expect_each_text("__nv_k.h", one, two, sizeof one - 1);
}
