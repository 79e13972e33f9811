/* SPDX-License-Identifier: Apache-2.0 */
/* test_log.c - lines of the daemon's log: nobody can forge one, and no user can drown the others'. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/process/log.h"
#include "tests/support/support.h"

/* Returns the log of `body`; free() it. */
static char *logged(void (*body)(void))
{
    char *dir = temp_dir_new(), *path = path_join(dir, "log");
    int kept = dup(STDERR_FILENO), fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    size_t len;
    cr_assert(kept >= 0 && fd >= 0);
    dup2(fd, STDERR_FILENO);
    body();
    dup2(kept, STDERR_FILENO);
    char *text = file_read(path, &len);
    close(fd);
    close(kept);
    free(path);
    temp_dir_free(dir);
    return text;
}

static unsigned n_lines(const char *text, const char *with)
{
    unsigned n = 0;
    for (const char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        const char *at = strstr(line, with);
        n += at && at < end;
    }
    return n;
}

static void log_what_a_client_chose(void)
{
    setenv("JOURNAL_STREAM", "1:2", 1);
    log_warning("%s is left out", "/a\n<2>warmd: forged\r\x1b[2J\x9b\x7f\xc3\xa4");
}

Test(log, what_is_not_printable_is_escaped)
{
    char *text = logged(log_what_a_client_chose);
    cr_expect_str_eq(text, "<4>warmd: /a\\x0a<2>warmd: forged\\x0d\\x1b[2J\\x9b\\x7f\\xc3\\xa4 is "
                           "left out\n");
    free(text);
}

static void log_long_and_unprintable(void)
{
    char text[5000];
    memset(text, '\n', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    log_error("%s", text);
}

Test(log, a_long_line_is_cut)
{
    char *text = logged(log_long_and_unprintable);
    cr_expect_eq(n_lines(text, "\\x0a"), 1);
    cr_expect(strlen(text) > 4000 && strlen(text) < 4200);
    free(text);
}

static void log_much_of_one_user(void)
{
    for (int i = 0; i < 1000; i++)
        log_user(7, LOG_LEVEL_WARNING, "of seven");
    log_user(8, LOG_LEVEL_WARNING, "of eight");
    for (uint32_t uid = 100; uid < 300; uid++)
        log_user(uid, LOG_LEVEL_WARNING, "of uid %u.", (unsigned)uid);
}

Test(log, a_user_who_causes_many_lines_loses_them)
{
    char *text = logged(log_much_of_one_user);
    cr_expect_eq(n_lines(text, "of seven"), LOG_USER_LINES - 1);
    cr_expect_eq(n_lines(text, "uid 7: further lines of this user are left out for 10 s"), 1);
    cr_expect_eq(n_lines(text, "of eight"), 1);
    cr_expect_eq(n_lines(text, "of uid 100."), 1);
    cr_expect_eq(n_lines(text, "of uid 299."), 1);
    free(text);
}
