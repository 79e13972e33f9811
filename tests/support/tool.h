/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tool.h - for suites that run `warm tool`: a daemon, a folder, and shell commands in it. The tool's
 * debug file tells what the tool did.
 *
 * Thread: the test's own. Memory: lab_up gives what lab_down frees.
 */
#ifndef WARM_TESTS_SUPPORT_TOOL_H
#define WARM_TESTS_SUPPORT_TOOL_H

#include "tests/support/warmd.h"

struct lab {
    struct warmd d;
    char *warm, *debug, *trace;
};

/* Commands through `warm tool`, for `sh`. */
#define GCC "$T gcc -- /usr/bin/gcc "
#define GXX "$T g++ -- /usr/bin/g++ "

/* Starts a daemon. False, with a line on stderr, if the library that traces compilers was not built. */
bool lab_up(struct lab *lab);
/* Does the same, with options for the daemon; NULL ends them. */
bool lab_up_with(struct lab *lab, char *const *options);
/* Ends the daemon and frees all. */
void lab_down(struct lab *lab);
/* Writes a file in the lab's folder. */
void write_text(struct lab *lab, const char *name, const char *text);

/* Runs a shell command, made with printf, in the lab's folder; $T is `warm tool --argv0`. Returns its
 * exit status, and the text of both outputs in *out (free() it; NULL: not wanted). */
int sh(struct lab *lab, char **out, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Returns how many lines of the debug file begin with this text. */
int told(struct lab *lab, const char *what);
/* Removes the debug file. */
void forget(struct lab *lab);
/* Expects `n` lines that begin with this text, and removes the debug file. */
void expect_told(struct lab *lab, const char *what, int n);
/* Runs a command twice, and expects a miss and then a hit. */
void expect_cached(struct lab *lab, const char *command);

#endif
