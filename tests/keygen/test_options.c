/* SPDX-License-Identifier: Apache-2.0 */
/* test_options.c - command lines of NVRTC, ptxas and nvcc: which are alike, which are refused. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "keygen/cuda/options.h"

#define MAX 32

/* The arguments of a command line, written with blanks between them. */
static size_t split(const char *line, struct view args[MAX])
{
    size_t n = 0;
    for (const char *at = line; *at != '\0';) {
        size_t len = strcspn(at, " ");
        args[n++] = (struct view){at, len};
        at += len + (at[len] == ' ');
    }
    return n;
}

static int parse_as(enum options_tool tool, unsigned version, const char *line, struct options *out,
                    struct err *e)
{
    static struct view args[4][MAX]; /* must outlive what is parsed */
    static unsigned turn;
    struct view *mine = args[turn++ % 4];
    return options_parse(tool, version, mine, split(line, mine), out, e);
}

static struct key key_of_tool(enum options_tool tool, unsigned version, const char *line)
{
    struct options o;
    struct err e = {0};
    struct key_builder b;
    struct key key;
    struct proof proof;
    cr_assert_eq(parse_as(tool, version, line, &o, &e), 0, "%s: %s", line, e.text);
    key_begin(&b, "test");
    key_add_text(&b, 1, o.hardware);
    options_add(&o, &b, 2);
    key_end(&b, &key, &proof);
    options_close(&o);
    return key;
}

static void same(const char *a, const char *b)
{
    struct key x = key_of_tool(OPTIONS_NVRTC, 1305, a), y = key_of_tool(OPTIONS_NVRTC, 1305, b);
    cr_expect(key_equal(&x, &y), "%s / %s", a, b);
}

static void differ_for(enum options_tool tool, unsigned version, const char *a, const char *b)
{
    struct key x = key_of_tool(tool, version, a), y = key_of_tool(tool, version, b);
    cr_expect(!key_equal(&x, &y), "%s / %s", a, b);
}

static void differ(const char *a, const char *b) { differ_for(OPTIONS_NVRTC, 1305, a, b); }

static int error_of(enum options_tool tool, const char *line, struct err *e)
{
    struct options o;
    int rc = parse_as(tool, 1305, line, &o, e);
    if (rc == 0)
        options_close(&o);
    return rc;
}

Test(options, spelling_does_not_count)
{
    same("-arch=sm_90", "--gpu-architecture=sm_90");
    same("-arch=sm_90", "--gpu-architecture sm_90");
    same("-arch=sm_90 -G", "-arch sm_90 --device-debug");
    same("-DX", "--define-macro=X=1");
    same("-D X=2", "-DX=2");
    same("-I/a", "--include-path /a");
    same("-I=/a", "-I/a");
    same("-include=x.h", "--pre-include x.h");
    same("-Xptxas=-O2", "--ptxas-options -O2");
}

Test(options, order_does_not_count_between_subjects)
{
    same("-arch=sm_90 -ftz=true -DX=1 -I/a", "-I/a -DX=1 -ftz=true -arch=sm_90");
    same("-prec-div=false -ftz=true", "-ftz=true -prec-div=false");
}

Test(options, order_counts_within_a_subject)
{
    differ("-DX=1 -DX=2", "-DX=2 -DX=1");
    differ("-DX -UX", "-UX -DX");
    differ("-I/a -I/b", "-I/b -I/a");
    differ("-include=a -include=b", "-include=b -include=a");
    differ("-Xptxas=-O1 -Xptxas=-O2", "-Xptxas=-O2 -Xptxas=-O1");
    differ("-w -diag-error=1", "-diag-error=1 -w");
}

Test(options, what_means_something_counts)
{
    differ("-arch=sm_90", "-arch=sm_90a");
    differ("-arch=sm_90", "-arch=compute_90");
    differ("-arch=sm_90", "");
    differ("-ftz=true", "-ftz=false");
    differ("-DX=1", "-DX=");
    differ("-DX=1", "-UX");
    differ("-w", "");
    differ("-lineinfo", "");
    differ("-split-compile=1", "");
    differ("--minimal", "");
    differ("-maxrregcount=32", "-maxrregcount=64");
    differ("-std=c++17", "-std=c++20");
    differ("-I/a", "-I/a/");
    differ("-DX=1 -DX=1", "-DX=1");
    differ("-arch=sm_80 -arch=sm_90", "-arch=sm_90");
    differ("-dc", "-rdc=true");
}

Test(options, explicit_defaults_go_only_where_they_were_measured)
{
    same("-ftz=false -prec-div=true -prec-sqrt=true -fmad=true -std=c++17 -rdc=false -dopt=on", "");
    differ("-use_fast_math -ftz=false", "-use_fast_math");
    differ("-ftz=false -ftz=false", "-ftz=false");
    differ("-dc -rdc=false", "-dc");
    differ_for(OPTIONS_NVRTC, 1409, "-std=c++17", "");
    differ_for(OPTIONS_NVRTC, 0, "-ftz=false", "");
}

Test(options, what_cannot_change_the_result_goes)
{
    same("-arch=sm_90 --no-cache --pch --pch-dir=/x --pch-messages=false -pch-verbose true",
         "-arch=sm_90");
    same("-modify-stack-limit=false", "");
    struct options o;
    cr_assert_eq(parse_as(OPTIONS_NVRTC, 1305, "--pch -DX --no-cache -I /a", &o, NULL), 0);
    cr_assert_eq(o.n_pass, 3u);
    cr_assert_eq(memcmp(o.pass[2].data, "/a", 2), 0);
    options_close(&o);
}

Test(options, what_writes_files_or_reads_the_clock_is_refused)
{
    static const char *const lines[] = {
        "--time=-",
        "-time=/tmp/x",
        "--fdevice-time-trace=x",
        "--create-pch=x",
        "--use-pch=x",
        "--use-bundled-headers=/tmp",
        "-Xptxas=--options-file=/etc/passwd",
        "-Xptxas -o -Xptxas x",
        "-Xptxas=x.ptx",
        "-Xopt=-pass-remarks-output=x",
        "-Xnvvm=-x",
        "-Xcudafe=--x",
        "--enable-cache-trace",
        "-DNOW=__TIME__",
        "--unknown",
        "k.cu",
        "-arch=native",
        "-arch=sm_90,sm_80",
        "-diag_error=1",
        "-pch-verbose=true -pch-verbose=false",
        "-use_fast_math_x",
        "-prec_div=true",
        "-I=",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct err e = {0};
        cr_expect_eq(error_of(OPTIONS_NVRTC, lines[i], &e), WARM_EREFUSED, "%s", lines[i]);
        cr_expect_neq(e.text[0], '\0');
    }
    struct view blank = {"-I /etc", 7};
    struct options o;
    cr_expect_eq(options_parse(OPTIONS_NVRTC, 1305, &blank, 1, &o, NULL), WARM_EREFUSED);
}

Test(options, nvcc_and_ptxas_that_measure_or_trace_are_refused)
{
    static const char *const nvcc[] = {"--time=-",
                                       "-time x",
                                       "-v",
                                       "--verbose",
                                       "-dryrun",
                                       "--dryrun",
                                       "--keep",
                                       "-fdevice-time-trace x",
                                       "-o a -o b",
                                       "-t 2 -t 4",
                                       "-Xptxas=--time",
                                       "-Xptxas=--compiler-stats"};
    static const char *const ptxas[] = {"--time", "-time", "--stats", "--compiler-stats",
                                        "-o a -o b"};
    for (size_t i = 0; i < sizeof nvcc / sizeof *nvcc; i++)
        cr_expect_eq(error_of(OPTIONS_NVCC, nvcc[i], NULL), WARM_EREFUSED, "%s", nvcc[i]);
    for (size_t i = 0; i < sizeof ptxas / sizeof *ptxas; i++)
        cr_expect_eq(error_of(OPTIONS_PTXAS, ptxas[i], NULL), WARM_EREFUSED, "%s", ptxas[i]);
}

static struct options nvcc(const char *line)
{
    struct options o;
    struct err e;
    cr_assert_eq(parse_as(OPTIONS_NVCC, 0, line, &o, &e), 0, "%s: %s", line, e.text);
    return o;
}

Test(options, nvcc_hands_options_of_other_tools_to_the_caller_in_order)
{
    struct options o = nvcc("-c k.cu -Xcompiler -fPIC,-O3 -Xfatbin=-compress-all "
                            "-forward-unknown-to-host-compiler -fvisibility=hidden -Xcudafe --x");
    static const struct {
        enum inner_tool tool;
        const char *value;
    } expected[] = {{INNER_HOST, "-fPIC,-O3"},
                    {INNER_FATBINARY, "-compress-all"},
                    {INNER_HOST, "-fvisibility=hidden"},
                    {INNER_CUDAFE, "--x"}};
    cr_assert_eq(o.n_inner, 4);
    for (size_t i = 0; i < 4; i++) {
        cr_expect_eq(o.inner[i].tool, expected[i].tool);
        cr_expect_eq(strncmp(o.inner[i].value.data, expected[i].value, o.inner[i].value.len), 0);
    }
    options_close(&o);
    differ_for(OPTIONS_NVCC, 0, "-c k.cu -Xcompiler -fPIC", "-c k.cu");
    differ_for(OPTIONS_NVCC, 0, "-forward-unknown-opts -c k.cu -Xcompiler -fPIC",
               "-forward-unknown-opts -c k.cu -fPIC");
    differ_for(OPTIONS_NVCC, 0, "-c k.cu -Xcompiler -O1 -Xcompiler -O2",
               "-c k.cu -Xcompiler -O2 -Xcompiler -O1");
}

Test(options, an_option_that_no_row_has_is_the_host_compilers_only_if_nvcc_is_told_so)
{
    struct err e;
    cr_expect_eq(error_of(OPTIONS_NVCC, "-c k.cu -fvisibility=hidden", &e), WARM_EREFUSED);
    cr_expect_str_eq(e.text, "nvcc: argument 3 is an unknown option: -fvisibility=hidden");
    cr_expect_eq(error_of(OPTIONS_PTXAS, "-forward-unknown-to-host-compiler k.ptx", &e),
                 WARM_EREFUSED);
}

Test(options, nvcc_names_its_file_of_dependencies)
{
    struct options o = nvcc("-MD -MF k.d -MT k.o -c k.cu");
    cr_expect(o.dependencies);
    cr_expect_eq(o.dependency_file, 2);
    options_close(&o);
    o = nvcc("-MMD -c k.cu");
    cr_expect(o.dependencies);
    cr_expect_eq(o.dependency_file, -1);
    options_close(&o);
    differ_for(OPTIONS_NVCC, 0, "-MD -MT a -c k.cu", "-MD -MT b -c k.cu");
    differ_for(OPTIONS_NVCC, 0, "-MD -c k.cu", "-MMD -c k.cu");
}

Test(options, the_options_of_ptxas_are_split_at_commas_for_nvcc_alone)
{
    struct err e;
    struct options o = nvcc("-Xptxas -v,-warn-lmem-usage -c k.cu");
    cr_expect(o.verbose_log);
    options_close(&o);
    cr_expect_eq(error_of(OPTIONS_NVCC, "-Xptxas -O3,--nonesuch k.cu", &e), WARM_EREFUSED);
    cr_expect_eq(error_of(OPTIONS_NVRTC, "-Xptxas=-v,-warn-lmem-usage", &e), WARM_EREFUSED);
}

Test(options, missing_and_needless_values_are_invalid)
{
    struct err e;
    cr_expect_eq(error_of(OPTIONS_NVRTC, "-arch", &e), WARM_EINVALID);
    cr_expect_eq(error_of(OPTIONS_NVRTC, "-std c++17", &e), WARM_EINVALID);
    cr_expect_eq(error_of(OPTIONS_NVRTC, "-w=true", &e), WARM_EINVALID);
    cr_expect_eq(error_of(OPTIONS_NVRTC, "-G -D", &e), WARM_EINVALID);
    cr_expect_eq(options_parse(OPTIONS_NVRTC, 0, &(struct view){"-D\0X", 4}, 1, NULL, &e),
                 WARM_EINVALID);
}

Test(options, say_what_the_caller_asks)
{
    struct options o;
    cr_assert_eq(parse_as(OPTIONS_NVRTC, 1305,
                          "-arch=sm_90a -G -rdc=true -I/a -I /b -include=x.h -restrict "
                          "-no-source-include",
                          &o, NULL),
                 0);
    cr_expect_str_eq(o.hardware, "sm_90a");
    cr_expect(o.debug && o.relocatable && o.no_source_include);
    cr_expect(!o.line_info && !o.lto && !o.allows_canonical);
    cr_expect_eq(o.n_include_dirs, 2u);
    cr_expect_eq(memcmp(o.include_dirs[1].data, "/b", 2), 0);
    cr_expect_eq(o.n_pre_includes, 1u);
    options_close(&o);

    cr_assert_eq(parse_as(OPTIONS_NVRTC, 1305, "", &o, NULL), 0);
    cr_expect_str_eq(o.hardware, "default");
    cr_expect(o.allows_canonical);
    options_close(&o);

    cr_assert_eq(parse_as(OPTIONS_NVRTC, 1305, "-rdc=false -Xptxas=-g -dlto", &o, NULL), 0);
    cr_expect(!o.relocatable && o.debug && o.lto);
    options_close(&o);
}

/* The output holds the working folder: with debug information, and in LTO IR, whichever option asks for it. */
Test(options, working_folder_shows_in_debug_information_and_lto_ir)
{
    static const struct {
        enum options_tool tool;
        const char *line;
        bool shows;
    } rows[] = {{OPTIONS_NVRTC, "-G", true},
                {OPTIONS_NVRTC, "-lineinfo", true},
                {OPTIONS_NVRTC, "-dlto", true},
                {OPTIONS_NVRTC, "-arch=sm_90", false},
                {OPTIONS_NVCC, "-fatbin -dlto k.cu", true},
                {OPTIONS_NVCC, "-fatbin -gencode arch=compute_90,code=lto_90 k.cu", true},
                {OPTIONS_NVCC, "-fatbin -arch=compute_90 -code=lto_90,sm_90 k.cu", true},
                {OPTIONS_NVCC, "-fatbin -gencode arch=compute_90,code=sm_90 k.cu", false}};
    struct options o;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cr_assert_eq(parse_as(rows[i].tool, 1305, rows[i].line, &o, NULL), 0, "%s", rows[i].line);
        cr_expect_eq(o.shows_cwd, rows[i].shows, "%s", rows[i].line);
        options_close(&o);
    }
}

Test(options, macros_that_show_text_or_lines_forbid_the_shared_key)
{
    static const char *const lines[] = {"-DS(x)=#x",    "-DL=__LINE__",     "-DA=assert(0)",
                                        "-include=x.h", "-opt-info=inline", "-lineinfo"};
    struct options o;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        cr_assert_eq(parse_as(OPTIONS_NVRTC, 1305, lines[i], &o, NULL), 0, "%s", lines[i]);
        cr_expect(!o.allows_canonical, "%s", lines[i]);
        options_close(&o);
    }
}

Test(options, ptxas_lines_count_as_written_without_their_files)
{
    struct options o;
    const char *line = "-lineinfo -v --regAllocOptLevel=2 --gpu-name=sm_90a /tmp/a.ptx -o /tmp/a.o";
    cr_assert_eq(parse_as(OPTIONS_PTXAS, 0, line, &o, NULL), 0);
    cr_expect_str_eq(o.hardware, "sm_90a");
    cr_expect_eq(o.input, 4);
    cr_expect_eq(o.output, 6);
    cr_expect(o.line_info && o.verbose_log);
    options_close(&o);
    struct key a = key_of_tool(OPTIONS_PTXAS, 0, line);
    struct key b = key_of_tool(OPTIONS_PTXAS, 0,
                               "-lineinfo -v --regAllocOptLevel=2 "
                               "--gpu-name=sm_90a /x/b.ptx -o /y/b.o");
    cr_expect(key_equal(&a, &b));
    differ_for(OPTIONS_PTXAS, 0, "-O3 -arch=sm_90 a", "-O2 -arch=sm_90 a");
    differ_for(OPTIONS_PTXAS, 0, "-v -w a", "-w -v a"); /* recorded in the cubin */
    differ_for(OPTIONS_PTXAS, 0, "--enable-extended-smem=true a", "--enable-extended-smem=false a");
    struct err e;
    cr_expect_eq(error_of(OPTIONS_PTXAS, "-arch=sm_90 a.ptx b.ptx", &e), WARM_EREFUSED);
    cr_expect_eq(error_of(OPTIONS_PTXAS, "--version", &e), WARM_EREFUSED);
}

Test(options, nvcc_targets_are_listed)
{
    struct options o;
    cr_assert_eq(parse_as(OPTIONS_NVCC, 0,
                          "-cubin -gencode arch=compute_80,code=sm_80 k.cu -o k.cubin", &o, NULL),
                 0);
    cr_expect_str_eq(o.hardware, "arch=compute_80,code=sm_80");
    options_close(&o);
    differ_for(OPTIONS_NVCC, 0, "-cubin -gencode arch=compute_80,code=sm_80 k.cu",
               "-cubin -gencode arch=compute_80,code=sm_86 k.cu");
    differ_for(
        OPTIONS_NVCC, 0,
        "-cubin -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 k.cu",
        "-cubin -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90a k.cu");
    struct err e;
    cr_expect_eq(error_of(OPTIONS_NVCC, "-cubin --keep k.cu", &e), WARM_EREFUSED);
    cr_expect_eq(error_of(OPTIONS_NVCC, "-cubin -arch=all-major k.cu", &e), 0);
    cr_expect_eq(error_of(OPTIONS_NVCC, "-arch=native k.cu", &e), WARM_EREFUSED);
}

Test(options, too_many_and_too_long_are_refused_by_size)
{
    static struct view many[OPTIONS_MAX_ARGS + 1];
    struct options o;
    struct err e;
    for (size_t i = 0; i < OPTIONS_MAX_ARGS + 1; i++)
        many[i] = (struct view){"-w", 2};
    cr_expect_eq(options_parse(OPTIONS_NVRTC, 0, many, OPTIONS_MAX_ARGS + 1, &o, &e),
                 WARM_ETOO_BIG);
    char *huge = calloc(1, OPTIONS_MAX_BYTES + 1);
    memset(huge, 'x', OPTIONS_MAX_BYTES + 1);
    cr_expect_eq(
        options_parse(OPTIONS_NVRTC, 0, &(struct view){huge, OPTIONS_MAX_BYTES + 1}, 1, &o, &e),
        WARM_ETOO_BIG);
    free(huge);
}
