/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_graph_job.c - a graph on the command line: what is printed and written, and with which exit status.
 * test_command.c has the commands.
 */
#include <limits.h>

#include "client/cli/graph_job.h"
#include "kernels/bundle/graph_bundle.h"
#include "tests/support/printed.h"
#include "tests/support/warmd.h"

static const char graph[] =
    "func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
    "%0 = stablehlo.tanh %x : tensor<4xf32>\nreturn %0 : tensor<4xf32>\n}\n";

static void up(void)
{
    printed_setup();
    cr_assert_eq(chdir(printed_folder), 0);
}
TestSuite(graph_job, .init = up, .fini = printed_teardown, .timeout = 120);

/* ---- show ---- */

/* Writes a bundle without kernels into the file, but for its last `cut` bytes. */
static void write_bundle(const char *file, size_t cut)
{
    struct graph_bundle b = {.target = view_of_text("sm_90"), .compiler = view_of_text("NVRTC 13")};
    struct writer w;
    writer_init(&w, 0);
    writer_init(&b.constants, 0);
    graph_bundle_write(&b, &w);
    cr_assert(!w.failed && w.len > cut);
    file_write(file, w.data, w.len - cut);
    writer_close(&w);
    graph_bundle_close(&b);
}

Test(graph_job, a_file_that_is_no_bundle_is_left_to_others)
{
    file_write("empty", "", 0);
    file_write("text", graph, strlen(graph));
    file_write("short", "WARMGRP", 7);
    cr_expect_eq(graph_job_show("empty", false), -1);
    cr_expect_eq(graph_job_show("text", false), -1);
    cr_expect_eq(graph_job_show("short", true), -1);
    cr_expect_eq(graph_job_show("absent", false), -1);
    cr_expect_eq(graph_job_show(".", false), -1, "a folder");
    cr_expect_eq(graph_job_show("-", false), -1, "a name of an entry, perhaps");
    char *text = printed_take();
    cr_expect_str_eq(text, "");
    free(text);
}

Test(graph_job, a_damaged_bundle_is_told)
{
    write_bundle("b", 1);
    cr_expect_eq(graph_job_show("b", false), CLI_USAGE);
    printed_has("warm: b: ");
    file_write("magic", "WARMGRPH", 8);
    cr_expect_eq(graph_job_show("magic", true), CLI_USAGE);
    printed_has("warm: magic: ");
}

Test(graph_job, an_empty_bundle_is_shown)
{
    write_bundle("b", 0);
    cr_expect_eq(graph_job_show("b", false), CLI_OK);
    printed_has("target     sm_90\ncompiler   NVRTC 13\narguments  0\nresults    0\n");
    cr_expect_eq(graph_job_show("b", true), CLI_OK);
    printed_has("\"target\":\"sm_90\",\"compiler\":\"NVRTC 13\",\"arguments\":0,\"results\":0,"
                "\"launches\":0,\"forward\":0,\"loops\":0,\"arena\":0,\"constants\":0,"
                "\"kernels\":[]}\n");
}

/* ---- compile ---- */

static int compile(struct graph_job *g, const char *text)
{
    struct cli_input in = {.data = (const uint8_t *)text, .len = strlen(text)};
    return graph_job_compile(g, &in);
}

Test(graph_job, a_target_without_a_cubin_is_wrong_usage)
{
    struct warmd k = warmd_up(NULL);
    struct graph_job g = {.w = warmd_libwarm(&k), .file = "g.mlir", .target = "compute_90"};
    cr_expect_eq(compile(&g, graph), CLI_USAGE);
    printed_has("warm: g.mlir: --arch compute_90 makes no cubin of StableHLO");
    warm_close(g.w);
    warmd_down(&k);
}

Test(graph_job, text_that_is_no_graph_is_unusable_input)
{
    struct warmd k = warmd_up(NULL);
    struct graph_job g = {.w = warmd_libwarm(&k), .file = "g.mlir", .target = "sm_90"};
    cr_expect_eq(compile(&g, "func.func public @main(%x"), CLI_USAGE);
    printed_has("warm: g.mlir: ");
    cr_expect_eq(compile(&g, ""), CLI_USAGE);
    cr_expect_neq(access("g.bundle", F_OK), 0, "nothing is written");
    warm_close(g.w);
    warmd_down(&k);
}

Test(graph_job, a_daemon_without_a_compiler_cannot)
{
    char *none[] = {"--nvrtc", "/nonexistent", NULL};
    struct warmd k = warmd_up(none);
    struct graph_job g = {.w = warmd_libwarm(&k), .file = "g.mlir", .target = "sm_90"};
    cr_expect_eq(compile(&g, graph), CLI_USAGE);
    printed_has("warm: g.mlir: ");
    warm_close(g.w);
    kill(k.pid, SIGKILL);
    warmd_reap(k.pid);
    warmd_free(&k);
}

/* Writes a name of an output that is too long. */
static const char *long_name(void)
{
    static char name[PATH_MAX + 10];
    memset(name, 'x', sizeof name - 1);
    return name;
}

Test(graph_job, a_compiled_graph_is_written_and_can_be_shown)
{
    char *lib = toolchain_lib("13.5.37");
    if (!lib)
        cr_skip_test("no CUDA toolchain: set WARM_TOOLCHAIN or run `make toolchain`");
    char *options[] = {"--nvrtc", lib, NULL};
    struct warmd k = warmd_up(options);
    /* all of these name a target, which is libwarm's to set */
    const char *given[] = {"-arch=sm_80", "--gpu-architecture",      "sm_80", "-DX=1", "-arch",
                           "sm_80",       "--gpu-architecture=sm_80"};
    struct graph_job g = {.w = warmd_libwarm(&k), .file = "folder/g.mlir", .target = "sm_90"};
    cr_expect_eq(compile(&g, graph), CLI_OK);
    cr_expect_eq(access("g.bundle", R_OK), 0, "in the working folder");
    char *text = printed_take();
    cr_expect_str_eq(text, "", "a success says nothing");
    free(text);
    g.as_json = true;
    g.output = "again";
    cr_expect_eq(compile(&g, graph), CLI_OK);
    printed_has("\"output\":\"again\",\"arch\":\"sm_90\",\"kernels\":1,\"hits\":1,\"launches\":1");
    g.options = given;
    g.n_options = sizeof given / sizeof *given;
    cr_expect_eq(compile(&g, graph), CLI_OK);
    printed_has("\"kernels\":1,\"hits\":");
    cr_expect_str_eq(given[0], "-DX=1", "the only one that is left");
    g.n_options = 0;
    cr_expect_eq(graph_job_show("again", false), CLI_OK);
    printed_has("  launches 1  cubin ");
    cr_expect_eq(graph_job_show("again", true), CLI_OK);
    printed_has("\"launches\":1,\"bytes\":");
    g.output = NULL;
    g.file = long_name();
    cr_expect_eq(compile(&g, graph), CLI_USAGE);
    printed_has("the output's name would be too long; give -o");
    g.file = "g.mlir";
    g.output = "/nonexistent/out";
    cr_expect_neq(compile(&g, graph), CLI_OK);
    printed_has("warm: cannot write /nonexistent/out");
    warm_close(g.w);
    warmd_down(&k);
    free(lib);
}
