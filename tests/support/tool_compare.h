/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tool_compare.h - tables of commands, each run by the compiler itself and through `warm tool`, at the
 * same moment and on equal files. Both must leave the same status, messages, files and modes.
 *
 *     case: a folder of its own, its first files, and steps
 *     step: a change of the files ──▶ the command by itself, in a copy at the same place
 *                                 ──▶ the command through `warm tool` ──▶ compared, and counted
 *
 * In commands $CC, $CXX and $CLANG stand for gcc, g++ and clang. A step that shows the clock is not
 * compared: each run has its own.
 *
 * Thread: the test's own. Memory: none.
 */
#ifndef WARM_TESTS_SUPPORT_TOOL_COMPARE_H
#define WARM_TESTS_SUPPORT_TOOL_COMPARE_H

#include <stdbool.h>
#include <stddef.h>

enum expected {
    MADE = 1, /* the compiler runs, and the result is stored */
    TAKEN,    /* the result comes from the cache */
    REAL,     /* the compiler runs, and nothing is stored */
    CLOCK,    /* the same, and the two results differ by the clock */
};

#define STEPS_MAX 6

struct step {
    const char *change, *command; /* command NULL: that of the step before */
    enum expected expected;
};

struct compared {
    const char *name, *files; /* a shell command that makes them */
    struct step steps[STEPS_MAX];
};

/* Runs all steps of `n` cases, and compares each. */
void compare(const struct compared *list, size_t n);
/* Does so for the cases in its parentheses. */
#define COMPARE(...)                                                                               \
    do {                                                                                           \
        static const struct compared list_[] = {__VA_ARGS__};                                      \
        compare(list_, sizeof list_ / sizeof list_[0]);                                            \
    } while (0)
/* False, with a line on stderr, if a compiler is not installed. */
bool has_compiler(const char *name);

#endif
