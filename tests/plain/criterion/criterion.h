/* SPDX-License-Identifier: Apache-2.0 */
/*
 * criterion.h - a stand-in for Criterion's header where Criterion itself cannot be: under ThreadSanitizer, which keeps the
 * addresses of Criterion's arena for itself, and in static programs for another architecture.
 *
 * Only what suites with threads use: Test and TestSuite with .init, .fini and .timeout, and the
 * cr_assert family, whose failures end the test. plain.c runs each test in a process of its own.
 *
 * Thread: assertions from any; registration before main. Memory: none.
 */
#ifndef WARM_TESTS_PLAIN_CRITERION_H
#define WARM_TESTS_PLAIN_CRITERION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct plain_settings {
    void (*init)(void), (*fini)(void);
    unsigned timeout; /* seconds; 0: none */
};

struct plain_suite {
    const char *name;
    struct plain_settings settings;
    struct plain_suite *next;
};

struct plain_test {
    const char *suite, *name;
    void (*run)(void);
    struct plain_settings settings;
    struct plain_test *next;
};

/* Keep what they are given, for ever. */
void plain_add_suite(struct plain_suite *suite);
void plain_add_test(struct plain_test *test);

/* Prints the place, the condition and the message, and ends the process with status 1. */
_Noreturn void plain_fail(const char *file, int line, const char *condition, const char *format,
                          ...);

#define TestSuite(suite_, ...)                                                                     \
    __attribute__((constructor)) static void plain_suite_##suite_(void)                            \
    {                                                                                              \
        static struct plain_suite suite = {.name = #suite_, .settings = {__VA_ARGS__}};            \
        plain_add_suite(&suite);                                                                   \
    }                                                                                              \
    _Static_assert(1, "takes the semicolon")

#define Test(suite_, name_, ...)                                                                   \
    static void plain_run_##suite_##_##name_(void);                                                \
    __attribute__((constructor)) static void plain_test_##suite_##_##name_(void)                   \
    {                                                                                              \
        static struct plain_test test = {.suite = #suite_,                                         \
                                         .name = #name_,                                           \
                                         .run = plain_run_##suite_##_##name_,                      \
                                         .settings = {__VA_ARGS__}};                               \
        plain_add_test(&test);                                                                     \
    }                                                                                              \
    static void plain_run_##suite_##_##name_(void)

#define plain_check(condition, text, ...)                                                          \
    do {                                                                                           \
        if (!(condition))                                                                          \
            plain_fail(__FILE__, __LINE__, text, "" __VA_ARGS__);                                  \
    } while (0)

#define cr_assert(condition, ...) plain_check(condition, #condition, __VA_ARGS__)
#define cr_assert_eq(a, b, ...) plain_check((a) == (b), #a " == " #b, __VA_ARGS__)
#define cr_assert_neq(a, b, ...) plain_check((a) != (b), #a " != " #b, __VA_ARGS__)
#define cr_assert_lt(a, b, ...) plain_check((a) < (b), #a " < " #b, __VA_ARGS__)
#define cr_assert_leq(a, b, ...) plain_check((a) <= (b), #a " <= " #b, __VA_ARGS__)
#define cr_assert_gt(a, b, ...) plain_check((a) > (b), #a " > " #b, __VA_ARGS__)
#define cr_assert_geq(a, b, ...) plain_check((a) >= (b), #a " >= " #b, __VA_ARGS__)
#define cr_assert_null(a, ...) plain_check((a) == NULL, #a " is NULL", __VA_ARGS__)
#define cr_assert_not_null(a, ...) plain_check((a) != NULL, #a " is not NULL", __VA_ARGS__)
#define cr_assert_str_eq(a, b, ...) plain_check(strcmp(a, b) == 0, #a " equals " #b, __VA_ARGS__)
#define cr_assert_str_neq(a, b, ...)                                                               \
    plain_check(strcmp(a, b) != 0, #a " differs from " #b, __VA_ARGS__)
#define cr_assert_arr_eq(a, b, size, ...)                                                          \
    plain_check(memcmp(a, b, size) == 0, #a " equals " #b, __VA_ARGS__)
#define cr_assert_arr_neq(a, b, size, ...)                                                         \
    plain_check(memcmp(a, b, size) != 0, #a " differs from " #b, __VA_ARGS__)
#define cr_assert_fail(...) plain_check(0, "fails", __VA_ARGS__)
#define cr_expect(condition, ...) plain_check(condition, #condition, __VA_ARGS__)
#define cr_assert_not(condition, ...) plain_check(!(condition), "not " #condition, __VA_ARGS__)
#define cr_expect_not cr_assert_not
#define cr_expect_eq cr_assert_eq
#define cr_expect_neq cr_assert_neq
#define cr_expect_leq cr_assert_leq
#define cr_expect_gt cr_assert_gt
#define cr_expect_null cr_assert_null
#define cr_expect_not_null cr_assert_not_null
#define cr_expect_str_eq cr_assert_str_eq
#define cr_expect_str_neq cr_assert_str_neq
#define cr_expect_arr_neq cr_assert_arr_neq

/* Counts as passing, with the line that says why. */
#define cr_skip_test(...)                                                                          \
    do {                                                                                           \
        cr_log_info(__VA_ARGS__);                                                                  \
        _exit(0);                                                                                  \
    } while (0)
#define cr_log_info(...) (fprintf(stderr, __VA_ARGS__), fputc('\n', stderr))

#endif
