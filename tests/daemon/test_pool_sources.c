/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pool_sources.c - which results may be kept, and what hostile sources cannot do.
 *
 * Needs a toolchain, see tests/support/pool.h.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/worker/nvrtc.h"
#include "tests/support/pool.h"
#include "tests/support/support.h"

TestSuite(pool_sources, .timeout = 300);

/* ---- results that may be kept ---- */

static bool is_kept(struct rig *r, const char *version, const char *source, const char *option)
{
    struct header_server server = {.manner = SERVES, .root = r->dir};
    struct ask a = {.source = source,
                    .options = {{"-arch=sm_90", option}},
                    .server = &server,
                    .version = version};
    struct outcome o;
    ask_run(r, &a, &o);
    cr_assert_eq(o.status, 0, "%s", o.text);
    bool keep = o.keep;
    outcome_close(&o);
    return keep;
}

Test(pool_sources, keeps_what_depends_on_the_job_and_the_headers_alone)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    free(in_dir(&r, "plain.h", "#define PLAIN 1\n"));
    free(in_dir(&r, "clock.h", "#define WHEN __TIME__\n"));
    cr_expect(is_kept(&r, "", SAXPY, NULL));
    cr_expect(is_kept(&r, "", "#include \"plain.h\"\n" SAXPY, NULL));
    cr_expect(is_kept(&r, "", "this is an error\n", NULL), "the compiler's verdict stands");
    cr_expect(!is_kept(&r, "", "__device__ const char t[] = __DATE__;\n" SAXPY, NULL));
    cr_expect(!is_kept(&r, "", "#include \"clock.h\"\n" SAXPY, NULL));
    cr_expect(!is_kept(&r, "", "#include \"/etc/passwd\"\n" SAXPY, NULL), "a path was refused");
    cr_expect(is_kept(&r, "13.5", "#include \"plain.h\"\n" SAXPY, "-lineinfo"));
    cr_expect(!is_kept(&r, "12.9", "#include \"plain.h\"\n" SAXPY, "-lineinfo"),
              "its line tables hold the header's time");
    rig_stop(&r);
}

Test(pool_sources, keeps_what_has_its_source_in_a_folder_that_is_there)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    char *folder = path_join(r.dir, "there"), *absolute = path_join(folder, "k.cu");
    mkdir(folder, 0700);
    const char *const names[] = {absolute, "there/k.cu", "./there/k.cu",        "/tmp/k.cu",
                                 "k.cu",   "../k.cu",    "there/../there/k.cu", "//tmp//k.cu"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (size_t v = 0; v < 2; v++) {
            struct header_server server = {.manner = SERVES, .root = r.dir};
            struct ask a = {.source = SAXPY,
                            .name = names[i],
                            .options = {{"-arch=sm_90", "-lineinfo"}},
                            .server = &server,
                            .version = v ? "12.9" : "13.5"};
            struct outcome o;
            ask_run(&r, &a, &o);
            cr_assert_eq(o.status, 0, "%s", o.text);
            cr_expect(o.keep, "%s", names[i]);
            outcome_close(&o);
        }
    free(absolute);
    free(folder);
    rig_stop(&r);
}

/* ---- hostile sources ---- */

Test(pool_sources, shows_nothing_of_files_that_are_no_headers)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    static const char *const paths[] = {"/etc/passwd",     "/etc/shadow", "/proc/self/environ",
                                        "/proc/self/maps", "/dev/zero",   "//etc/passwd",
                                        "/etc/hostname"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        char source[256];
        snprintf(source, sizeof source, "#include \"%s\"\n" SAXPY, paths[i]);
        char *log = log_of(&r, source, NVRTC_COMPILATION);
        cr_expect(strstr(log, "cannot open source file"), "%s: %s", paths[i], log);
        cr_expect(!strstr(log, "root:") && !strstr(log, "LC_ALL"), "%s: %s", paths[i], log);
        free(log);
    }
    char *log = log_of(&r, "#if __has_include(\"/etc/passwd\")\n#error there\n#endif\n" SAXPY, 0);
    free(log);
    rig_stop(&r);
}

Test(pool_sources, asks_nobody_where_there_is_no_client)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    struct ask a = {.source = "#include \"some.h\"\n" SAXPY, .options = {{"-arch=sm_90"}}};
    struct outcome o;
    ask_run(&r, &a, &o);
    cr_assert_eq(o.status, 0);
    cr_assert_eq(o.nvrtc_status, NVRTC_COMPILATION);
    outcome_close(&o);
    rig_stop(&r);
}

Test(pool_sources, survives_deep_templates)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    free(
        log_of(&r,
               "template <unsigned long N> struct F { static const unsigned long v = F<N - 1>::v + "
               "F<N - 2>::v; };\ntemplate <> struct F<0> { static const unsigned long v = 0; };\n"
               "template <> struct F<1> { static const unsigned long v = 1; };\n"
               "__global__ void k(unsigned long *x) { x[0] = F<100000>::v; }\n",
               NVRTC_COMPILATION));
    free(log_of(&r,
                "template <class T> struct W { typename W<W<T>>::t v; typedef int t; };\n"
                "__global__ void k(int *x) { W<int> w; x[0] = sizeof(w); }\n",
                NVRTC_COMPILATION));
    rig_stop(&r);
}

Test(pool_sources, compiles_200000_nested_parentheses)
{
    NEEDS_TOOLCHAIN();
    enum { DEPTH = 200000 };
    struct rig r;
    rig_start(&r);
    char *source = malloc(2 * DEPTH + 256);
    size_t n = (size_t)sprintf(source, "extern \"C\" __global__ void k(int *x) { x[0] = ");
    memset(source + n, '(', DEPTH);
    n += DEPTH;
    source[n++] = '1';
    memset(source + n, ')', DEPTH);
    strcpy(source + n + DEPTH, "; }\n");
    free(log_of(&r, source, 0));
    free(source);
    rig_stop(&r);
}

Test(pool_sources, compiles_a_source_of_50_megabytes)
{
    NEEDS_TOOLCHAIN();
    enum { SIZE = 50 << 20 };
    struct rig r;
    rig_start(&r);
    char *source = malloc(SIZE + sizeof SAXPY);
    for (size_t i = 0; i < SIZE; i += 64)
        memcpy(source + i, "// a comment line of sixty-four characters, as machines write..\n", 64);
    strcpy(source + SIZE, SAXPY);
    free(log_of(&r, source, 0));
    free(source);
    rig_stop(&r);
}

Test(pool_sources, refuses_a_source_with_a_nul_in_one_line)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    static const char source[] = "// fine\n// not \0 fine\n" SAXPY;
    struct ask a = {.source = source, .source_len = sizeof source - 1};
    struct outcome o;
    ask_run(&r, &a, &o);
    cr_assert_eq(o.status, WARM_EINVALID);
    cr_assert_str_eq(o.text, "the source has a NUL byte in line 2");
    outcome_close(&o);
    rig_stop(&r);
}

Test(pool_sources, kills_a_compile_at_its_deadline_and_goes_on)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    struct ask a = {.source = BOMB, .options = {{"-arch=sm_90"}}, .timeout_ms = 1000};
    struct outcome o;
    ask_run(&r, &a, &o);
    cr_assert_eq(o.status, WARM_ETIMEOUT, "%s", o.text);
    struct pool_stats stats;
    pool_stats(r.pool, &stats);
    cr_assert_eq(stats.n_timeouts, 1u);
    cr_assert_eq(stats.n_crashes, 0u, "a deadline is not tried again");
    expect_saxpy(&r);
    rig_stop(&r);
}

Test(pool_sources, does_not_keep_an_error_for_want_of_memory)
{
    NEEDS_TOOLCHAIN();
#ifdef __SANITIZE_ADDRESS__
    cr_skip_test("the address sanitizer needs more address space than any limit leaves");
#endif
    struct rig r;
    rig_configure(&r);
    r.config.limits.worker_memory = 1500ull << 20;
    rig_open(&r);
    struct ask a = {.source = BOMB, .options = {{"-arch=sm_90"}}};
    struct outcome o;
    ask_run(&r, &a, &o);
    if (o.status == 0) {
        char *log = outcome_log(&o);
        cr_expect(strstr(log, "out of memory"), "%s", log);
        cr_expect(!o.keep);
        free(log);
    } else {
        cr_expect_eq(o.status, WARM_ECRASHED, "%s", o.text);
    }
    outcome_close(&o);
    expect_saxpy(&r);
    rig_stop(&r);
}
