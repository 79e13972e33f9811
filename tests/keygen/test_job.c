/* SPDX-License-Identifier: Apache-2.0 */
/* test_job.c - compile jobs: their bytes, and which parts are in the key. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keygen/cuda/job.h"

static struct view options[] = {{"--gpu-architecture=sm_90", 24}, {"-Iinclude", 9}};
static struct job_header headers[] = {{{"a.h", 3}, {"int a;\0b", 8}}};
static struct view expressions[] = {{"f<int>", 6}};

static struct job sample(void)
{
    return (struct job){.language = JOB_CUDA,
                        .name = view_of_text("k.cu"),
                        .cwd = view_of_text("/home/u"),
                        .source = view_of_text("__global__ void k() {}\n"),
                        .options = options,
                        .n_options = 2,
                        .headers = headers,
                        .n_headers = 1,
                        .expressions = expressions,
                        .n_expressions = 1};
}

static struct writer encoded(const struct job *job)
{
    struct writer w;
    writer_init(&w, 0);
    job_encode(job, &w);
    cr_assert(!w.failed);
    return w;
}

static struct key graph_of(const struct job *job)
{
    char hardware[WARM_HARDWARE_MAX];
    struct key graph;
    struct proof proof;
    struct err e = {0};
    cr_assert_eq(job_key(job, hardware, &graph, &proof, &e), 0, "%s", e.text);
    return graph;
}

Test(job, smallest_is_the_golden_bytes)
{
    struct job job = {.language = JOB_PTX,
                      .name = view_of_text("n"),
                      .cwd = view_of_text("/"),
                      .source = view_of_text("s")};
    struct writer w = encoded(&job);
    static const char golden[] = "WJOB\1\0\2\0"
                                 "\1\0\0\0n"
                                 "\1\0\0\0/"
                                 "\1\0\0\0s"
                                 "\0\0\0\0"
                                 "\0\0\0\0"
                                 "\0\0\0\0";
    cr_assert_eq(w.len, sizeof golden - 1);
    cr_assert_eq(memcmp(w.data, golden, w.len), 0);
    writer_close(&w);
}

Test(job, comes_back_as_it_went)
{
    struct job job = sample(), back;
    struct writer w = encoded(&job), again;
    struct err e;
    cr_assert_eq(job_decode(w.data, w.len, &back, &e), 0, "%s", e.text);
    cr_assert_eq(back.n_headers, 1);
    cr_assert(back.headers[0].bytes.len == 8 &&
                  memcmp(back.headers[0].bytes.data, "int a;\0b", 8) == 0,
              "headers may hold NUL");
    again = encoded(&back);
    cr_assert(again.len == w.len && memcmp(again.data, w.data, w.len) == 0);
    job_close(&back);
    writer_close(&again);
    writer_close(&w);
}

static int decode_copy(const uint8_t *data, size_t len, struct err *e)
{
    uint8_t *copy = malloc(len ? len : 1);
    if (len)
        memcpy(copy, data, len);
    struct job job;
    int code = job_decode(copy, len, &job, e);
    if (!code) {
        struct writer again = encoded(&job);
        cr_assert(again.len == len && memcmp(again.data, data, len) == 0);
        writer_close(&again);
        job_close(&job);
    }
    free(copy);
    return code;
}

Test(job, every_cut_is_refused)
{
    struct job job = sample();
    struct writer w = encoded(&job);
    struct err e;
    for (size_t cut = 0; cut < w.len; cut++)
        cr_assert_eq(decode_copy(w.data, cut, &e), WARM_ETRUNCATED, "cut at %zu", cut);
    writer_u8(&w, 0);
    cr_assert_eq(decode_copy(w.data, w.len, &e), WARM_EMALFORMED);
    writer_close(&w);
}

Test(job, every_changed_bit_is_refused_or_read_exactly)
{
    struct job job = sample();
    struct writer w = encoded(&job);
    struct err e;
    for (size_t i = 0; i < w.len * 8; i++) {
        w.data[i / 8] ^= (uint8_t)(1u << i % 8);
        decode_copy(w.data, w.len, &e);
        w.data[i / 8] ^= (uint8_t)(1u << i % 8);
    }
    writer_close(&w);
}

Test(job, refusals_name_the_field)
{
    struct job job = sample();
    struct view with_nul = {"-D\0X", 4};
    struct err e;
    job.options = &with_nul;
    job.n_options = 1;
    struct writer w = encoded(&job);
    cr_assert_eq(decode_copy(w.data, w.len, &e), WARM_EMALFORMED);
    cr_assert_str_eq(e.text, "job: options holds a NUL");
    w.data[4] = 9;
    cr_assert_eq(decode_copy(w.data, w.len, &e), WARM_EVERSION);
    w.data[0] = 'X';
    cr_assert_eq(decode_copy(w.data, w.len, &e), WARM_EMALFORMED);
    writer_close(&w);
}

/* A count of 2^32-1 options in a job of some bytes must not allocate for them. */
Test(job, a_count_beyond_the_job_is_refused)
{
    struct job job = {.language = JOB_CUDA};
    struct writer w = encoded(&job);
    struct err e;
    memset(w.data + 20, 0xff, 4);
    cr_assert_eq(decode_copy(w.data, w.len, &e), WARM_ETRUNCATED);
    cr_assert_str_eq(e.text, "job: options is cut short");
    writer_close(&w);
}

/* These change only with WARM_KEY_FORMAT or the domain's version: entries of users hang on them. */
Test(job, key_is_the_golden_key)
{
    struct job job = sample();
    char hardware[WARM_HARDWARE_MAX], hex[WARM_KEY_TEXT];
    struct key graph;
    struct proof proof;
    cr_assert_eq(job_key(&job, hardware, &graph, &proof, NULL), 0);
    key_to_text(&graph, hex);
    cr_assert_str_eq(hex, "7627b9f5dc504209d87f07d1fcc0761f");
    cr_assert_str_eq(hardware, "sm_90");
    cr_assert(proof.bytes[0] == 0x40 && proof.bytes[31] == 0xf8, "%02x %02x", proof.bytes[0],
              proof.bytes[31]);
}

static void expect_other_key(const struct job *job, const char *what)
{
    struct job before = sample();
    struct key a = graph_of(&before), b = graph_of(job);
    cr_assert(!key_equal(&a, &b), "%s must be in the key", what);
}

static void expect_same_key(const struct job *job, const char *what)
{
    struct job before = sample();
    struct key a = graph_of(&before), b = graph_of(job);
    cr_assert(key_equal(&a, &b), "%s must not be in the key", what);
}

Test(job, what_decides_is_in_the_key)
{
    struct job job = sample();
    job.name = view_of_text("other.cu");
    expect_other_key(&job, "the name");
    job = sample();
    job.source = view_of_text("__global__ void k() { }\n");
    expect_other_key(&job, "each byte of the source");
    job = sample();
    job.n_headers = 0;
    expect_other_key(&job, "headers");
    job = sample();
    job.headers = &(struct job_header){view_of_text("b.h"), {"int a;\0b", 8}};
    expect_other_key(&job, "a header's name");
    job = sample();
    job.headers = &(struct job_header){view_of_text("a.h"), {"int a;\0c", 8}};
    expect_other_key(&job, "a header's bytes");
    job = sample();
    job.n_expressions = 0;
    expect_other_key(&job, "name expressions");
    job = sample();
    struct view more[] = {options[0], options[1], view_of_text("-DX=1")};
    job.options = more, job.n_options = 3;
    expect_other_key(&job, "options");
}

Test(job, the_working_folder_counts_only_where_it_shows)
{
    struct job job = sample();
    job.cwd = view_of_text("/elsewhere");
    expect_same_key(&job, "the working folder");
    static const char *const showing[] = {"-lineinfo", "-G", "-dlto"};
    for (size_t i = 0; i < sizeof showing / sizeof *showing; i++) {
        struct view more[] = {options[0], options[1], view_of_text(showing[i])};
        struct job here = sample(), there = sample();
        here.options = there.options = more;
        here.n_options = there.n_options = 3;
        there.cwd = view_of_text("/elsewhere");
        struct key a = graph_of(&here), b = graph_of(&there);
        cr_assert(!key_equal(&a, &b), "%s shows it", showing[i]);
    }
}

/* The shared key of a kernel compiled with these options (NULL behind the last). */
static struct key shared_key_of(unsigned version, const char *one, const char *two)
{
    struct view args[3] = {view_of_text("-arch=sm_90"), view_of_text(one ? one : ""),
                           view_of_text(two ? two : "")};
    struct job job = sample();
    struct key graph;
    struct proof proof;
    struct err e = {0};
    job.options = args;
    job.n_options = 1u + (one != NULL) + (two != NULL);
    cr_assert_eq(job_shared_key(&job, version, &graph, &proof, &e), 0, "%s", e.text);
    return graph;
}

static void expect_shared(bool same, struct key a, struct key b)
{
    cr_expect_eq(key_equal(&a, &b), same);
}

Test(job, shared_key_has_no_place_of_an_include_folder)
{
    struct key a = shared_key_of(0, "-I/a", NULL);
    expect_shared(true, a, shared_key_of(0, "-I/b/c", NULL));
    expect_shared(true, a, shared_key_of(0, "--include-path=/b", NULL));
    expect_shared(false, a, shared_key_of(0, NULL, NULL));
    expect_shared(false, a, shared_key_of(0, "-I/a", "-I/b"));
    expect_shared(false, a, shared_key_of(0, "-Ia", NULL));
    expect_shared(false, shared_key_of(0, "-Ib", NULL), shared_key_of(0, "-Ia", NULL));
    expect_shared(false, shared_key_of(0, "-Ia", "-I/b"), shared_key_of(0, "-I/b", "-Ia"));
}

Test(job, shared_key_has_no_defaults_that_are_known)
{
    struct key none = shared_key_of(1305, NULL, NULL);
    expect_shared(true, none, shared_key_of(1305, "-ftz=false", NULL));
    expect_shared(true, none, shared_key_of(1305, "--fmad=true", "-prec-sqrt=true"));
    expect_shared(false, none, shared_key_of(1305, "-ftz=true", NULL));
    expect_shared(false, none, shared_key_of(1305, "-ftz=false", "-ftz=true"));
    expect_shared(false, none, shared_key_of(1305, "-use_fast_math", "-ftz=false"));
    expect_shared(false, none, shared_key_of(9999, "-ftz=false", NULL));
    expect_shared(false, none, shared_key_of(0, "-ftz=false", NULL));
}

Test(job, the_target_is_the_hardware_part_and_not_the_graph_part)
{
    struct job job = sample();
    struct view other[] = {view_of_text("-arch=sm_80"), options[1]};
    job.options = other;
    expect_same_key(&job, "the target");
    char hardware[WARM_HARDWARE_MAX];
    struct key graph;
    struct proof proof;
    cr_assert_eq(job_key(&job, hardware, &graph, &proof, NULL), 0);
    cr_assert_str_eq(hardware, "sm_80");
}

Test(job, a_target_is_never_a_neighbour_of_it)
{
    static const char *const targets[] = {"sm_90",   "sm_90a",     "sm_100",     "sm_100a",
                                          "sm_100f", "compute_90", "compute_90a"};
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        char option[64], hardware[WARM_HARDWARE_MAX];
        struct key graph;
        struct proof proof;
        struct job job = sample();
        snprintf(option, sizeof option, "-arch=%s", targets[i]);
        struct view one = view_of_text(option);
        job.options = &one, job.n_options = 1;
        cr_assert_eq(job_key(&job, hardware, &graph, &proof, NULL), 0);
        cr_expect_str_eq(hardware, targets[i]);
    }
}

Test(job, the_language_and_the_kind_of_output_count)
{
    struct job cuda = sample();
    cuda.n_headers = cuda.n_expressions = 0;
    cuda.options = NULL, cuda.n_options = 0;
    cuda.source = view_of_text(".version 8.0\n.target sm_90\n.address_size 64\n");
    struct job ptx = cuda;
    ptx.language = JOB_PTX;
    struct key a = graph_of(&cuda), b = graph_of(&ptx);
    cr_expect(!key_equal(&a, &b), "CUDA and PTX");
    struct job plain = sample(), lto = sample();
    struct view more[] = {options[0], options[1], view_of_text("-dlto")};
    lto.options = more, lto.n_options = 3;
    a = graph_of(&plain), b = graph_of(&lto);
    cr_expect(!key_equal(&a, &b), "a cubin and LTO IR");
}

static void expect_refused(const struct job *job)
{
    char hardware[WARM_HARDWARE_MAX];
    struct key graph;
    struct proof proof;
    struct err e = {0};
    cr_assert_eq(job_key(job, hardware, &graph, &proof, &e), WARM_EREFUSED);
    cr_assert_gt(strlen(e.text), 10, "a line for the user");
}

Test(job, what_writes_files_or_reads_the_clock_is_refused)
{
    struct job job = sample();
    static const char *const bad[] = {"--time=/tmp/x", "--create-pch=/tmp/x",
                                      "-fdevice-time-trace=x", "--use-bundled-headers=/tmp",
                                      "--no-such-option"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct view option = view_of_text(bad[i]);
        job.options = &option, job.n_options = 1;
        expect_refused(&job);
    }
    job = sample();
    job.source = view_of_text("const char *t = __TIME__;\n");
    expect_refused(&job);
    job = sample();
    job.headers = &(struct job_header){view_of_text("a.h"), view_of_text("#define NOW __DATE__\n")};
    expect_refused(&job);
    job = sample();
    job.source = view_of_text("// __TIME__ in a comment is no clock\n");
    graph_of(&job);
}
