/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_debug.c - lines of $WARM_LOG: which are written, where, and in which form; in any process, whatever its
 * other threads did at a fork.
 */
#include "client/lib/debug.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/support.h"

enum { CHILDREN = 20 };

/* Asks for the local time without end: most of the time it holds the C library's lock for that. */
static void *ask_for_the_time(void *unused)
{
    time_t t = 0;
    struct tm tm;
    (void)unused;
    for (;;)
        localtime_r(&t, &tm);
    return NULL;
}

Test(debug, children_of_a_fork_write_lines, .timeout = 60)
{
    char *dir = temp_dir_new(), *path = path_join(dir, "log"), setting[4200], year[8];
    pthread_t other;
    size_t len, lines = 0;
    time_t now = time(NULL);
    snprintf(setting, sizeof setting, "debug:%s", path);
    setenv("WARM_LOG", setting, 1);
    cr_assert_eq(pthread_create(&other, NULL, ask_for_the_time, NULL), 0);
    for (int i = 0; i < CHILDREN; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            alarm(10);
            debug_say(DEBUG_INFO, "a line");
            _exit(0);
        }
        int status;
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        cr_assert_eq(status, 0, "the child hung");
    }
    char *text = file_read(path, &len);
    for (const char *at = text; (at = strstr(at, "Z info warm[")); at++)
        lines++;
    cr_expect_eq(lines, (size_t)CHILDREN, "%s", text);
    strftime(year, sizeof year, "%Y-", gmtime(&now));
    cr_expect_eq(strncmp(text, year, strlen(year)), 0, "%s", text);
    free(text);
    free(path);
    temp_dir_free(dir);
}

Test(debug, a_fifo_that_nobody_reads_stops_nobody)
{
    char *dir = temp_dir_new(), *path = path_join(dir, "fifo"), setting[4200];
    cr_assert_eq(mkfifo(path, 0600), 0);
    snprintf(setting, sizeof setting, "debug:%s", path);
    setenv("WARM_LOG", setting, 1);
    alarm(10);
    debug_say(DEBUG_INFO, "a line");
    alarm(0);
    free(path);
    temp_dir_free(dir);
}

/* Expects the time that stands in front of a line. */
static void expect_date(long long unix_s, const char *date)
{
    char got[32];
    debug_time((struct timespec){.tv_sec = unix_s, .tv_nsec = 7000000}, got, sizeof got);
    cr_expect_str_eq(got, date);
}

Test(debug, dates_are_those_of_the_calendar)
{
    expect_date(0, "1970-01-01T00:00:00.007Z");
    expect_date(951782399, "2000-02-28T23:59:59.007Z");
    expect_date(951782400, "2000-02-29T00:00:00.007Z");
    expect_date(1772323200, "2026-03-01T00:00:00.007Z");
    expect_date(1798761599, "2026-12-31T23:59:59.007Z");
    expect_date(4107542400, "2100-03-01T00:00:00.007Z");
}

/* ---- which lines, and where ---- */

static char *folder, *log_file;

static void up(void)
{
    folder = temp_dir_new();
    log_file = path_join(folder, "log");
    unsetenv("WARM_LOG");
}
static void down(void)
{
    free(log_file);
    temp_dir_free(folder);
}
TestSuite(debug, .init = up, .fini = down);

static void log_to_file(const char *level)
{
    char *setting;
    cr_assert_geq(asprintf(&setting, "%s:%s", level, log_file), 0);
    setenv("WARM_LOG", setting, 1);
    free(setting);
}

/* Expects that the file has one line of this level and with this text. */
static void expect_line(const char *level, const char *text)
{
    char want[64];
    size_t len;
    char *line = file_read(log_file, &len);
    unsigned year, month, day, hour, minute, second, ms;
    int n = 0;
    cr_expect_eq(sscanf(line, "%4u-%2u-%2uT%2u:%2u:%2u.%3uZ %n", &year, &month, &day, &hour,
                        &minute, &second, &ms, &n),
                 7, "%s", line);
    int head = snprintf(want, sizeof want, "%s warm[%d]: ", level, (int)getpid());
    cr_expect_eq(strncmp(line + n, want, (size_t)head), 0, "%s", line);
    cr_expect_str_eq(line + n + head, text);
    cr_expect_eq(unlink(log_file), 0);
    free(line);
}

Test(debug, a_setting_is_a_level_and_perhaps_an_absolute_path)
{
    static const struct {
        const char *text;
        enum debug_level level;
        const char *path;
    } good[] = {{"off", DEBUG_OFF, NULL},         {"error", DEBUG_ERROR, NULL},
                {"warning", DEBUG_WARNING, NULL}, {"info", DEBUG_INFO, NULL},
                {"debug", DEBUG_ALL, NULL},       {"info:/tmp/x:y", DEBUG_INFO, "/tmp/x:y"},
                {"debug:/", DEBUG_ALL, "/"}};
    static const char *const bad[] = {"",    "1",      "Debug", "debug ",  "debugs",
                                      "deb", "debug:", ":/tmp", "debug:x", "debug:./x"};
    enum debug_level level = DEBUG_WARNING;
    const char *file = "kept";
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_expect_not(debug_setting(bad[i], &level, &file), "%s", bad[i]);
    cr_expect(level == DEBUG_WARNING && strcmp(file, "kept") == 0);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        cr_assert(debug_setting(good[i].text, &level, &file), "%s", good[i].text);
        cr_expect_eq(level, good[i].level, "%s", good[i].text);
        cr_expect(good[i].path ? file && strcmp(file, good[i].path) == 0 : !file, "%s",
                  good[i].text);
    }
}

Test(debug, without_the_variable_nothing_is_written)
{
    cr_expect(!debug_wants(DEBUG_ERROR) && !debug_wants(DEBUG_ALL) && debug_now_us() == 0);
    log_to_file("debug"); /* the environment is read once */
    debug_say(DEBUG_ERROR, "text");
    cr_expect_neq(access(log_file, F_OK), 0);
}

Test(debug, a_wrong_setting_writes_nothing)
{
    setenv("WARM_LOG", "debug:relative", 1);
    cr_expect_not(debug_wants(DEBUG_ERROR));
}

Test(debug, lines_up_to_the_level_are_written)
{
    log_to_file("warning");
    cr_expect(debug_wants(DEBUG_ERROR) && debug_wants(DEBUG_WARNING));
    cr_expect(!debug_wants(DEBUG_INFO) && !debug_wants(DEBUG_ALL) && !debug_wants(DEBUG_OFF));
    debug_say(DEBUG_INFO, "text");
    cr_expect_neq(access(log_file, F_OK), 0);
    debug_say(DEBUG_WARNING, "text %d", 5);
    expect_line("warning", "text 5\n");
    debug_say(DEBUG_ERROR, "%s", "");
    expect_line("error", "\n");
}

Test(debug, a_file_is_appended_to_and_its_owners_alone)
{
    struct stat st;
    size_t len;
    log_to_file("debug");
    debug_say(DEBUG_ALL, "one");
    cr_assert_eq(stat(log_file, &st), 0);
    cr_expect_eq(st.st_mode & 0777, 0600);
    debug_say(DEBUG_ALL, "two");
    char *text = file_read(log_file, &len), *one = strstr(text, ": one\n");
    cr_expect(one && strstr(one, ": two\n"), "%s", text);
    free(text);
}

/* A name comes from other programs: it must not make lines of its own, or move a terminal's cursor. */
Test(debug, bytes_that_are_not_printable_are_escaped)
{
    log_to_file("debug");
    debug_say(DEBUG_ALL, "%s", "a\nb\t\x1b[2J\x7f\xc3\xa9~ ");
    expect_line("debug", "a\\x0ab\\x09\\x1b[2J\\x7f\\xc3\\xa9~ \n");
}

Test(debug, a_long_text_is_cut)
{
    enum { MOST = 1023 };
    char text[3000], want[4 * MOST + 2] = "";
    memset(text, '\n', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    log_to_file("debug");
    debug_say(DEBUG_ALL, "%s", text);
    for (size_t i = 0; i < MOST; i++)
        memcpy(want + 4 * i, "\\x0a", 4);
    strcpy(want + 4 * MOST, "\n");
    expect_line("debug", want);
}

Test(debug, errno_stays_also_if_the_file_cannot_be_written)
{
    setenv("WARM_LOG", "debug:/nonexistent/log", 1);
    errno = EBUSY;
    debug_say(DEBUG_ALL, "text");
    cr_expect_eq(errno, EBUSY);
    log_to_file("debug");
    errno = EBUSY;
    debug_say(DEBUG_ALL, "text");
    cr_expect_eq(errno, EBUSY);
    expect_line("debug", "text\n");
}

Test(debug, a_request_is_told_with_its_name_and_its_time)
{
    char name[300];
    size_t len;
    memset(name, 'n', sizeof name);
    log_to_file("debug");
    debug_request("get", "name", 4, "hit", 5, 0); /* began before lines were wanted */
    cr_expect_neq(access(log_file, F_OK), 0);
    unsigned long long began_us = debug_now_us();
    cr_expect_gt(began_us, 0);
    debug_request("get", name, sizeof name, "hit", 5, began_us);
    char *line = file_read(log_file, &len), *at = strstr(line, "get nnn");
    cr_assert_not_null(at, "%s", line);
    cr_expect_eq(strspn(at + 4, "n"), 200, "a long name is cut");
    cr_expect_eq(strncmp(at + 204, ": hit, 5 bytes, ", 16), 0, "%s", line);
    cr_expect_not_null(strstr(at, " us\n"));
    free(line);
}
