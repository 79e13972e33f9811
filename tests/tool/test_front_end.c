/* SPDX-License-Identifier: Apache-2.0 */
/* test_front_end.c - files of options, and the outputs of a command: which a hit may replace, and what it says of
 * the others. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/tool/tool.h"

static void expect_refused(struct tool_job *job, const char *path, const char *reason)
{
    struct err e = {0};
    cr_expect_eq(tool_add_output(job, path, &e), WARM_EREFUSED, "%s", path);
    cr_expect(strstr(e.text, reason), "%s: %s", path, e.text);
}

Test(front_end, an_output_that_a_hit_cannot_replace_is_named)
{
    struct tool_job job = {.argc = 0};
    char folder[] = "/tmp/warm-front-end-XXXXXX", link[64];
    cr_assert(mkdtemp(folder));
    snprintf(link, sizeof link, "%s/a.o", folder);
    cr_assert_eq(symlink("b.o", link), 0);
    expect_refused(&job, link, link);
    expect_refused(&job, "/dev/null", "/dev/null");
    expect_refused(&job, folder, folder);
    cr_expect_eq(job.n_outputs, 0);
    unlink(link);
    cr_expect_eq(tool_add_output(&job, link, NULL), 0);
    cr_expect_eq(job.n_outputs, 1);
    rmdir(folder);
}

Test(front_end, too_many_outputs_are_refused_with_their_limit)
{
    struct tool_job job = {.argc = 0};
    for (size_t i = 0; i < TOOL_OUTPUTS_MAX; i++)
        cr_assert_eq(tool_add_output(&job, "/tmp/warm-no-such-file.o", NULL), 0);
    expect_refused(&job, "/tmp/warm-no-such-file.o", "more than 8 files");
}

static void expect_expanded(const char *text, bool is_nvcc, const char *const *expected)
{
    char path[] = "/tmp/warm-front-end-XXXXXX", at[64];
    int fd = mkstemp(path), n = 0;
    cr_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    snprintf(at, sizeof at, "%s%s", is_nvcc ? "--options-file=" : "@", path);
    char *argv[] = {"cc", at, "-c", NULL};
    struct tool_job job = {.argv = argv, .argc = 3};
    tool_expand(&job, is_nvcc);
    for (; expected[n]; n++)
        cr_expect_str_eq(n + 1 < job.argc ? job.argv[n + 1] : "", expected[n], "%s", text);
    cr_expect_eq(job.argc, n + 2, "%s", text);
    cr_expect_str_eq(job.argv[job.argc - 1], "-c");
    cr_expect_null(job.argv[job.argc]);
    unlink(path);
    tool_job_close(&job);
}

Test(front_end, a_file_of_options_is_read_as_the_compiler_reads_it)
{
    expect_expanded("-O2 -DX=1\n", false, (const char *const[]){"-O2", "-DX=1", NULL});
    expect_expanded(" \n", false, (const char *const[]){NULL});
    expect_expanded("-DA=\"a b\"c '-I/x y'", false,
                    (const char *const[]){"-DA=a bc", "-I/x y", NULL});
    expect_expanded("-DQ=\\\"q\\\" a\\ b", false, (const char *const[]){"-DQ=\"q\"", "a b", NULL});
    expect_expanded("-I\"/x y\"\n-O3", true, (const char *const[]){"-I/x y", "-O3", NULL});
}

Test(front_end, a_file_of_options_that_compilers_read_differently_stays_a_name)
{
    static const struct {
        const char *name, *text;
    } rows[] = {{"@", "-O2 \\\n-c"}, {"--options-file=", "-DX='a'"}};
    for (size_t i = 0; i < 2; i++) {
        char path[] = "/tmp/warm-front-end-XXXXXX", at[64];
        int fd = mkstemp(path);
        cr_assert(fd >= 0 && write(fd, rows[i].text, strlen(rows[i].text)) > 0);
        close(fd);
        snprintf(at, sizeof at, "%s%s", rows[i].name, path);
        char *argv[] = {"cc", at, NULL};
        struct tool_job job = {.argv = argv, .argc = 2};
        tool_expand(&job, i);
        cr_expect_eq(job.argv, argv);
        unlink(path);
        tool_job_close(&job);
    }
}

static int refuse_plan(struct tool_job *job, struct warm *w, struct err *e)
{
    (void)w;
    return err_set(e, WARM_EREFUSED, "%s", job->label);
}

Test(front_end, a_command_that_is_refused_early_has_a_name)
{
    char program[] = "/usr/bin/g++", *argv[] = {program, NULL};
    struct tool_job job = {.argv = argv, .argc = 1, .plan = refuse_plan};
    struct err e = {0};
    cr_expect_eq(tool_plan(&job, NULL, &e), WARM_EREFUSED);
    cr_expect_str_eq(e.text, "g++");
    setenv("LD_AUDIT", "libno.so", 1);
    cr_expect_eq(tool_plan(&job, NULL, &e), WARM_EREFUSED);
    cr_expect_str_eq(job.label, "g++");
}

/* The front ends pass the name on as they made it: without memory there is none, and the compiler must run. */
Test(front_end, an_output_without_memory_for_its_name_ends_no_process)
{
    struct tool_job job = {.argc = 0};
    struct err e = {0};
    cr_expect_eq(tool_add_output(&job, NULL, &e), WARM_ENOMEM, "%s", e.text);
    cr_expect_eq(job.n_outputs, 0);
}
