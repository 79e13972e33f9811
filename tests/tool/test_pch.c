/* SPDX-License-Identifier: Apache-2.0 */
/* test_pch.c - stubs of precompiled headers: a stub is whole, and is known from any other file. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/tool/pch.h"
#include "tests/support/support.h"

static char *dir, *header;

static void up(void)
{
    dir = temp_dir_new();
    header = path_join(dir, "x.h.gch");
}
static void down(void)
{
    free(header);
    temp_dir_free(dir);
}
TestSuite(pch, .init = up, .fini = down);

static void write_stub(void)
{
    static char *argv[] = {"g++", "-x", "c++-header", "x.h", NULL};
    struct err e = {0};
    struct tool_job job = {
        .program = "/usr/bin/g++", .argv = argv, .argc = 4, .outputs = {header}, .n_outputs = 1};
    snprintf(job.cwd, sizeof job.cwd, "%s", dir);
    cr_assert_eq(pch_write_stub(&job, &e), 0, "%s", e.text);
}

Test(pch, nothing_is_absent_and_no_stub)
{
    cr_expect(pch_is_absent_or_stub(header));
    cr_expect_not(pch_is_stub(header));
}

Test(pch, a_stub_tells_the_command_and_replaces_what_was_there)
{
    size_t len;
    file_write(header, "old", 3);
    write_stub();
    cr_expect(pch_is_stub(header) && pch_is_absent_or_stub(header));
    char *text = file_read(header, &len);
    cr_expect_not_null(memmem(text, len, "/usr/bin/g++", 13));
    cr_expect_not_null(memmem(text, len, "-x\0c++-header\0x.h", 18));
    free(text);
}

Test(pch, a_real_header_and_a_cut_stub_are_no_stubs)
{
    size_t len;
    file_write(header, "gpch.013", 8);
    cr_expect_not(pch_is_stub(header));
    cr_expect_not(pch_is_absent_or_stub(header));
    write_stub();
    char *text = file_read(header, &len);
    file_write(header, text, 5);
    cr_expect_not(pch_is_stub(header));
    free(text);
}

Test(pch, a_header_of_others_has_no_inputs_that_we_know)
{
    struct inputs in;
    struct err e;
    file_write(header, "gpch.013", 8);
    cr_expect_eq(pch_read_inputs(header, &in, &e), WARM_ENOT_FOUND);
    char *made = path_join(dir, "x.h.gch.warm");
    file_write(made, "warm-pch-made 1", 16);
    cr_expect_neq(pch_read_inputs(header, &in, &e), 0, "a description that is cut off");
    free(made);
}
