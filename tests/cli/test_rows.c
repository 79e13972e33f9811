/* SPDX-License-Identifier: Apache-2.0 */
/* test_rows.c - an entry as a person and as a program sees it: columns, cut names, no control characters. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/rows.h"
#include "tests/support/support.h"

#define NOW 1700000100000u

static char *dir, *path;

/* Each test is a process of its own: its standard output becomes a file. */
static void up(void)
{
    dir = temp_dir_new();
    path = path_join(dir, "out");
    cr_assert_not_null(freopen(path, "w", stdout));
}

static void down(void)
{
    free(path);
    temp_dir_free(dir);
}
TestSuite(rows, .init = up, .fini = down);

/* Returns all that was printed (free() it). */
static char *printed(void)
{
    size_t len;
    fflush(stdout);
    return file_read(path, &len);
}

static struct wire_row row_of(const char *label)
{
    return (struct wire_row){.kind = WIRE_KIND_CUBIN,
                             .len = 4195,
                             .hits = 7,
                             .cost_ms = 55,
                             .accessed_ms = NOW - 40000,
                             .key = key_of_bytes("k", 1),
                             .hardware = view_of_text("sm_90"),
                             .label = view_of_text(label)};
}

Test(rows, a_line_has_the_whole_key_and_its_columns_stand_below_their_titles)
{
    struct wire_row row = row_of("k.cu");
    char key[WARM_KEY_TEXT];
    key_to_text(&row.key, key);
    rows_title(false);
    row_line(&row, NOW);
    char *text = printed(), *line = strchr(text, '\n') + 1;
    cr_expect_eq(strncmp(line, key, 32), 0);
    cr_expect_not_null(strstr(line, "4.1 KiB"));
    cr_expect_not_null(strstr(line, " 40s "));
    cr_expect_eq(strstr(line, "sm_90") - line, strstr(text, "ARCH") - text);
    cr_expect_eq(strstr(line, "k.cu") - line, strstr(text, "LABEL") - text);
    free(text);
}

Test(rows, a_name_of_another_program_cannot_move_the_cursor)
{
    struct wire_row row = row_of("a\033[2Jb\nc");
    row.hardware = view_of_text("sm\r90");
    row_line(&row, NOW);
    row_brief(&row, NOW, 1, row.len, 200);
    row_fields(&row, NOW);
    char *text = printed();
    for (const char *c = text; *c; c++)
        cr_assert(*c == '\n' || (unsigned char)*c >= 0x20, "%d at %zu", *c, (size_t)(c - text));
    cr_expect_not_null(strstr(text, "a?[2Jb?c"));
    free(text);
}

Test(rows, a_brief_line_fits_its_width_and_is_cut_between_characters)
{
    struct wire_row row =
        row_of("Grüße an alle Kernel, die hier liegen und einen langen Namen haben");
    for (unsigned width = 74; width < 120; width += 7)
        row_brief(&row, NOW, 3, 1 << 20, width);
    char *text = printed(), *rest = text;
    for (unsigned width = 74; width < 120; width += 7) {
        char *line = strsep(&rest, "\n");
        size_t columns = 0;
        for (const char *c = line; *c; c++)
            columns += ((unsigned char)*c & 0xc0) != 0x80;
        cr_expect_leq(columns, width, "%u: %s", width, line);
        cr_expect_not_null(strstr(line, " +2"), "two more parts: %s", line);
    }
    free(text);
}

Test(rows, json_has_each_field_and_escapes_the_label)
{
    struct wire_row row = row_of("a\"b\\c\x01");
    struct json j = {.out = stdout};
    row.owner = ROWS_MADE_HERE;
    row_json(&j, &row);
    char *text = printed();
    cr_expect_not_null(strstr(text, "\"bytes\":4195"), "%s", text);
    cr_expect_not_null(strstr(text, "\"made_here\":true"));
    cr_expect_not_null(strstr(text, "\"a\\\"b\\\\c\\u0001\""));
    free(text);
}
