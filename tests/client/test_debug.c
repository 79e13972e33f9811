/* SPDX-License-Identifier: Apache-2.0 */
/* test_debug.c - lines of $WARM_LOG: written in any process, whatever its other threads did at a fork. */
#include "client/lib/debug.h"

#include <criterion/criterion.h>
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
