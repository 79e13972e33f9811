/* SPDX-License-Identifier: Apache-2.0 */
/* test_spelling.c - the one spelling of a source below the working folder, and the note of a command. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "client/tool/tool.h"

static struct tool_job job_in(const char *cwd)
{
    struct tool_job job = {.family = "cc", .program = "/usr/bin/gcc", .in_top = !strcmp(cwd, "/")};
    strcpy(job.cwd, cwd);
    return job;
}

/* Expects the spelling of a path in /home/ada; NULL: it keeps its own. */
static void expect_spelling(const char *path, const char *want)
{
    struct tool_job job = job_in("/home/ada");
    char *got = spelling_of(&job, path);
    cr_expect(want ? got && strcmp(got, want) == 0 : !got, "%s: %s", path, got ? got : "none");
    free(got);
}

Test(spelling, one_file_has_one_spelling)
{
    static const char *const same[] = {
        "a/m.cc",          "./a/m.cc",         "a/./m.cc",          "a//m.cc",
        ".//./a///./m.cc", "/home/ada/a/m.cc", "/home/ada//a/m.cc", "/home/ada/./a/m.cc",
        "./././a/m.cc"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        expect_spelling(same[i], "a/m.cc");
    expect_spelling("...", "...");
    expect_spelling("..m.cc", "..m.cc");
    expect_spelling(".m.cc", ".m.cc");
}

Test(spelling, a_path_that_may_lead_elsewhere_keeps_its_own)
{
    expect_spelling("../m.cc", NULL);
    expect_spelling("a/../m.cc", NULL);
    expect_spelling("a/..", NULL);
    expect_spelling("/home/ada/../m.cc", NULL);
    expect_spelling("/tmp/m.cc", NULL);
    expect_spelling("/home/adam/m.cc", NULL);
    expect_spelling("/home/ada", NULL);
}

Test(spelling, a_name_that_reads_as_an_option_keeps_its_own)
{
    expect_spelling("./-c", NULL);
    expect_spelling("./@m.cc", NULL);
    expect_spelling("/home/ada/-c", NULL);
    expect_spelling("a/-c", "a/-c");
}

Test(spelling, nothing_is_below_the_top)
{
    struct tool_job job = job_in("/");
    cr_expect_null(spelling_of(&job, "m.cc"));
    cr_expect_null(spelling_of(&job, "/m.cc"));
}

/* A note must not be that of another command: its first run would be the user's own for nothing. */
Test(spelling, a_note_is_of_one_command_in_one_folder)
{
    char *one[] = {"gcc", "-c", "m.cc", NULL}, *other[] = {"gcc", "-cm.cc", NULL};
    char first[TOOL_NAME_TEXT], then[TOOL_NAME_TEXT];
    struct tool_job job = job_in("/home/ada");
    job.argv = one, job.argc = 3;
    spelling_note_name(&job, first);
    spelling_note_name(&job, then);
    cr_expect_str_eq(first, then);
    cr_expect(strncmp(first, "cc:2n:", 6) == 0, "%s", first);

    job.argv = other, job.argc = 2;
    spelling_note_name(&job, then);
    cr_expect_str_neq(first, then, "the arguments are joined otherwise");
    job = job_in("/home/adam");
    job.argv = one, job.argc = 3;
    spelling_note_name(&job, then);
    cr_expect_str_neq(first, then, "another folder");
    job = job_in("/home/ada");
    job.argv = one, job.argc = 3, job.program = "/usr/bin/g++";
    spelling_note_name(&job, then);
    cr_expect_str_neq(first, then, "another compiler");
}
