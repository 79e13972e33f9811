/* SPDX-License-Identifier: Apache-2.0 */
/* plain.c - runs tests without Criterion, see criterion.h beside it. Arguments are parts of the
 * names to run; without any, all run. */
#include "tests/plain/criterion/criterion.h"

#include <stdarg.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static struct plain_suite *suites;
static struct plain_test *tests;

void plain_add_suite(struct plain_suite *suite)
{
    suite->next = suites;
    suites = suite;
}

/* At the end, so that tests run in the order of the file. */
void plain_add_test(struct plain_test *test)
{
    struct plain_test **end = &tests;
    while (*end)
        end = &(*end)->next;
    *end = test;
}

void plain_fail(const char *file, int line, const char *condition, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s:%d: %s ", file, line, condition);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    _exit(1);
}

static const struct plain_settings *suite_settings(const char *name)
{
    static const struct plain_settings none;
    for (const struct plain_suite *s = suites; s; s = s->next)
        if (strcmp(s->name, name) == 0)
            return &s->settings;
    return &none;
}

static void run_here(const struct plain_test *test)
{
    const struct plain_settings *suite = suite_settings(test->suite);
    alarm(test->settings.timeout ? test->settings.timeout : suite->timeout);
    if (suite->init)
        suite->init();
    if (test->settings.init)
        test->settings.init();
    test->run();
    if (test->settings.fini)
        test->settings.fini();
    if (suite->fini)
        suite->fini();
}

/* In a process of its own; exit, unlike _exit, lets the sanitizer say what it found. */
static bool passes(const struct plain_test *test)
{
    int status = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        run_here(test);
        exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return false;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool wanted(const struct plain_test *test, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strstr(test->name, argv[i]))
            return true;
    return argc < 2;
}

int main(int argc, char **argv)
{
    unsigned n = 0, failed = 0;
    for (const struct plain_test *t = tests; t; t = t->next) {
        if (!wanted(t, argc, argv))
            continue;
        n++;
        if (!passes(t)) {
            failed++;
            printf("[FAIL] %s::%s\n", t->suite, t->name);
        }
    }
    printf("[====] Tested: %u | Passing: %u | Failing: %u\n", n, n - failed, failed);
    return failed || n == 0;
}
