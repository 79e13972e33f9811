/* SPDX-License-Identifier: Apache-2.0 */
/* test_preprocessed.c - a preprocessed text moves to another folder, or shows the folder and cannot. */
#include <criterion/criterion.h>
#include <string.h>

#include "client/tool/preprocessed.h"

static char tmp_a[] = "/tmp/a", tmp_a_sub[] = "/tmp/a/sub", home[] = "/home/ada/x", other[] = "/o";
static const struct tool_job here = {.roots = {tmp_a, tmp_a_sub}, .n_roots = 2};
static const struct tool_job there = {.roots = {home, other}, .n_roots = 2};
static struct err e;

static int pack(const char *text, struct writer *out)
{
    writer_init(out, 0);
    return preprocessed_pack(&here, view_of_text(text), out, &e);
}

/* Expects what a text of the one folder reads like in the other. */
static void expect_moved(const char *text, const char *want)
{
    struct writer packed, moved;
    cr_assert_eq(pack(text, &packed), 0, "%s: %s", text, e.text);
    writer_init(&moved, 0);
    cr_expect(preprocessed_unpack(&there, (struct view){packed.data, packed.len}, &moved));
    writer_u8(&moved, '\0');
    cr_expect_str_eq((char *)moved.data, want);
    writer_close(&packed);
    writer_close(&moved);
}

static void expect_refused(const char *text)
{
    struct writer packed;
    cr_expect_eq(pack(text, &packed), WARM_EREFUSED, "%s", text);
    writer_close(&packed);
}

Test(preprocessed, the_names_of_files_move_with_their_folder)
{
    expect_moved("# 1 \"/tmp/a/m.cc\"\nint x;\n", "# 1 \"/home/ada/x/m.cc\"\nint x;\n");
    expect_moved("f(\"/tmp/a/m.cc\", \"/tmp/a/h.h\")",
                 "f(\"/home/ada/x/m.cc\", \"/home/ada/x/h.h\")");
    expect_moved("# 1 \"/usr/include/a.h\"\n", "# 1 \"/usr/include/a.h\"\n");
    expect_moved("a / b /tmp/", "a / b /tmp/");
    expect_moved("", "");
}

Test(preprocessed, the_innermost_folder_counts)
{
    expect_moved("# 1 \"/tmp/a/sub/m.cc\"\n", "# 1 \"/o/m.cc\"\n");
    expect_moved("# 1 \"/tmp/a/su/m.cc\"\n", "# 1 \"/home/ada/x/su/m.cc\"\n");
}

Test(preprocessed, a_folder_that_shows_otherwise_keeps_the_text_out)
{
    expect_refused("s = \"/tmp/a\";");      /* the folder itself */
    expect_refused("s = \"/tmp/abc/x\";");  /* another one that begins so */
    expect_refused("s = \"in /tmp/a/x\";"); /* no name of a file alone */
    expect_refused("/tmp/a/x");
    expect_refused("x \"/tmp/a");
    expect_refused("s = \"/x/tmp/a/x\";");
}

Test(preprocessed, a_text_with_the_mark_itself_is_kept_out)
{
    expect_refused("int \1"
                   "0;");
}

Test(preprocessed, a_packed_text_of_other_folders_is_refused)
{
    static const char *const bad[] = {"\1"
                                      "2/m.cc",
                                      "\1", "x\1", "\1/m.cc", "\1:"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct writer out;
        writer_init(&out, 0);
        cr_expect(!preprocessed_unpack(&there, view_of_text(bad[i]), &out), "%zu", i);
        writer_close(&out);
    }
}
