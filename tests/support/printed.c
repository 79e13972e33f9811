/* SPDX-License-Identifier: Apache-2.0 */
/*
 * printed.c - collects stdout and stderr of a test. The suites of client/cli call it.
 *
 * Thread: the test's own.
 */
#include "tests/support/printed.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/support.h"

char *printed_folder;
static char *path;

void printed_setup(void)
{
    printed_folder = temp_dir_new();
    path = path_join(printed_folder, "printed");
    int file = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    cr_assert(file >= 0 && dup2(file, STDOUT_FILENO) >= 0 && dup2(file, STDERR_FILENO) >= 0);
    close(file);
}

void printed_teardown(void)
{
    free(path);
    temp_dir_free(printed_folder);
}

char *printed_take(void)
{
    size_t len;
    fflush(stdout);
    char *text = file_read(path, &len);
    cr_assert_eq(truncate(path, 0), 0);
    return text;
}

void printed_expect(const char *text)
{
    char *printed = printed_take();
    cr_expect_str_eq(printed, text);
    free(printed);
}

void printed_has(const char *text)
{
    char *printed = printed_take();
    cr_expect_not_null(strstr(printed, text), "no `%s` in: %s", text, printed);
    free(printed);
}
