/* SPDX-License-Identifier: Apache-2.0 */
/* test_log.c - lines of the daemon's log: nobody can forge one, and no user can drown the others'. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
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

/* Makes stderr the stream that systemd names for the journal. */
static void name_stderr(void)
{
    char stream[64];
    struct stat st;
    cr_assert_eq(fstat(STDERR_FILENO, &st), 0);
    snprintf(stream, sizeof stream, "%llu:%llu", (unsigned long long)st.st_dev,
             (unsigned long long)st.st_ino);
    setenv("JOURNAL_STREAM", stream, 1);
}

static void log_what_a_client_chose(void)
{
    name_stderr();
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

static void log_requests(void)
{
    log_set_format(LOG_FORMAT_TEXT);
    log_asked(7, 42, "evicted %u entries", 3);
    log_set_format(LOG_FORMAT_LOGFMT);
    log_asked(7, 42, "evicted %u entries", 3);
    log_warning("a \"b\" uid=0\n\\");
    log_set_format(LOG_FORMAT_JSON);
    log_asked(7, 42, "evicted %u entries", 3);
    log_warning("a \"b\" uid=0\n\\");
}

#define TIME_LEN 29 /* 2026-03-01T09:30:00.123+01:00 */

/* True if an RFC 3339 time with milliseconds and an offset stands there. */
static bool is_time(const char *text)
{
    const char *form = "dddd-dd-ddTdd:dd:dd.dddsdd:dd";
    for (size_t i = 0; i < TIME_LEN; i++) {
        bool fits = form[i] == 'd'   ? text[i] >= '0' && text[i] <= '9'
                    : form[i] == 's' ? text[i] == '+' || text[i] == '-'
                                     : text[i] == form[i];
        if (!fits)
            return false;
    }
    return true;
}

/* Expects the next line: `before`, a time, `after`. */
static void expect_line(const char **text, const char *before, const char *after)
{
    size_t b = strlen(before), a = strlen(after);
    cr_assert(strncmp(*text, before, b) == 0, "%s", *text);
    cr_assert(is_time(*text + b), "%s", *text);
    cr_assert(strncmp(*text + b + TIME_LEN, after, a) == 0, "%s", *text);
    *text += b + TIME_LEN + a;
}

Test(log, each_format_has_time_level_and_asker)
{
    unsetenv("JOURNAL_STREAM");
    setenv("TZ", "XST-5:30", 1);
    char *text = logged(log_requests);
    const char *at = text;
    cr_expect(strncmp(text + TIME_LEN - 6, "+05:30", 6) == 0, "%s", text);
    expect_line(&at, "", " info warmd: uid 7 (pid 42) evicted 3 entries\n");
    expect_line(&at,
                "time=", " level=info msg=\"uid 7 (pid 42) evicted 3 entries\" uid=7 pid=42\n");
    expect_line(&at, "time=", " level=warning msg=\"a \\\"b\\\" uid=0\\\\x0a\\\\\"\n");
    expect_line(&at, "{\"time\": \"",
                "\", \"level\": \"info\", \"msg\": \"uid 7 (pid 42) evicted 3 entries\", "
                "\"uid\": 7, \"pid\": 42}\n");
    expect_line(&at, "{\"time\": \"",
                "\", \"level\": \"warning\", \"msg\": \"a \\\"b\\\" uid=0\\\\x0a\\\\\"}\n");
    cr_expect_eq(*at, '\0');
    free(text);
}

/* Programs of a desktop have $JOURNAL_STREAM from a parent whose stderr is another one. */
Test(log, a_file_is_not_the_journal)
{
    setenv("JOURNAL_STREAM", "1:2", 1);
    char *text = logged(log_requests);
    const char *at = text;
    expect_line(&at, "", " info warmd: uid 7 (pid 42) evicted 3 entries\n");
    free(text);
}

static void log_requests_to_the_journal(void)
{
    name_stderr();
    log_requests();
}

Test(log, the_journal_gets_a_level_and_no_time)
{
    char *text = logged(log_requests_to_the_journal);
    cr_expect(strncmp(text, "<6>warmd: uid 7 ", 16) == 0, "%s", text);
    cr_expect_not_null(strstr(text, "\n<6>level=info msg=\"uid 7 "), "%s", text);
    cr_expect_not_null(strstr(text, "\n<6>{\"level\": \"info\", "), "%s", text);
    free(text);
}

static char *journal_path;

static void log_to_the_journal(void)
{
    name_stderr();
    log_open_journal(journal_path);
    log_asked(7, 42, "evicted %d entries", 3);
    log_warning("a\nPRIORITY=0");
    unlink(journal_path);
    log_set_format(LOG_FORMAT_JSON);
    log_warning("as JSON");
    log_set_format(LOG_FORMAT_TEXT);
}

/* The receiver's end is a socket of the test's own; the protocol is systemd's. */
Test(log, the_journal_gets_fields)
{
    char *dir = temp_dir_new(), got[512];
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    journal_path = path_join(dir, "socket");
    strcpy(at.sun_path, journal_path);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    char *text = logged(log_to_the_journal);
    ssize_t n = recv(fd, got, sizeof got - 1, MSG_DONTWAIT);
    cr_assert_gt(n, 0);
    got[n] = '\0';
    cr_expect_str_eq(got, "MESSAGE=uid 7 (pid 42) evicted 3 entries\nPRIORITY=6\n"
                          "SYSLOG_IDENTIFIER=warmd\nWARM_UID=7\nWARM_PID=42\n");
    n = recv(fd, got, sizeof got - 1, MSG_DONTWAIT);
    cr_assert_gt(n, 0);
    got[n] = '\0';
    cr_expect_str_eq(got, "MESSAGE=a\\x0aPRIORITY=0\nPRIORITY=4\nSYSLOG_IDENTIFIER=warmd\n");
    cr_expect_str_eq(text, "<4>{\"level\": \"warning\", \"msg\": \"as JSON\"}\n");
    close(fd);
    free(text);
    free(journal_path);
    temp_dir_free(dir);
}

static void log_much_of_root(void)
{
    for (int i = 0; i < 100; i++) {
        log_asked(0, 1, "asked of root");
        log_asked(77777, 1, "asked of a user");
    }
}

Test(log, requests_of_the_administrator_are_never_left_out)
{
    char *text = logged(log_much_of_root);
    cr_expect_eq(n_lines(text, "asked of root"), 100);
    cr_expect_eq(n_lines(text, "asked of a user"), LOG_USER_LINES - 1);
    free(text);
}
