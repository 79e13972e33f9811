/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tool_compare.c - runs each command of a table twice, by the compiler itself and through `warm tool`,
 * and compares all that the two leave. Suites give the tables.
 *
 * Thread: the test's own.
 */
#include "tests/support/tool_compare.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/support.h"
#include "tests/support/tool.h"

/* Prints what a command left, as one text: status, both outputs, all files with modes and digests. */
#define SEEN                                                                                       \
    "{ (%s) >../out 2>../err; echo \"status $?\"; cat ../out; echo ---; cat ../err; echo ---; "    \
    "find . -name '*.warm*' -prune -o -printf '%%%%p %%%%y%%%%m %%%%l\\n' | sort; "                \
    "find . -type f ! -name '*.warm*' -print0 | sort -z | xargs -0r sha256sum; }"

static void run_step(struct lab *lab, const struct compared *c, size_t n, const struct step *step)
{
    static const char plain[] =
        "mv here kept && cp -a kept here && cd here && CC=gcc CXX=g++ CLANG=clang && " SEEN
        " >../plain; cd .. && rm -rf here && mv kept here";
    static const char ours[] =
        "cd here && CC=\"$T gcc -- /usr/bin/gcc\" "
        "CXX=\"$T g++ -- /usr/bin/g++\" "
        "CLANG=\"$T clang -- /usr/bin/clang\" && " SEEN " >../ours; cd .. && diff plain ours";
    char *out;
    cr_assert_eq(sh(lab, &out, "cd here && { %s; }", step->change ? step->change : ":"), 0,
                 "%s: %s", c->name, out);
    free(out);
    cr_assert_eq(sh(lab, &out, plain, step->command), 0, "%s: %s", c->name, out);
    free(out);
    forget(lab);
    int same = sh(lab, &out, ours, step->command);
    bool is_real = step->expected == REAL || step->expected == CLOCK;
    int hits = told(lab, "hit"), misses = told(lab, "miss");
    int unkept = told(lab, "not kept") + told(lab, "passed on");
    char *debug = NULL;
    sh(lab, &debug, "cat %s 2>&1", lab->debug);
    cr_expect(step->expected == CLOCK || same == 0, "%s, step %zu is not as by itself: %s", c->name,
              n, out);
    cr_expect_eq(hits, step->expected == TAKEN, "%s, step %zu: %d hits: %s", c->name, n, hits,
                 debug);
    cr_expect_eq(unkept > 0, is_real, "%s, step %zu: %s", c->name, n, debug);
    cr_expect(step->expected != MADE || misses == 1, "%s, step %zu: %s", c->name, n, debug);
    free(debug);
    free(out);
}

void compare(const struct compared *list, size_t n)
{
    struct lab lab;
    char *out;
    if (!lab_up(&lab))
        return;
    for (size_t i = 0; i < n; i++) {
        const struct compared *c = &list[i];
        struct step step = {0};
        cr_assert_eq(sh(&lab, &out, "rm -rf here && mkdir here && cd here && { %s; }", c->files), 0,
                     "%s: %s", c->name, out);
        free(out);
        for (size_t k = 0; k < STEPS_MAX && c->steps[k].expected; k++) {
            step.change = c->steps[k].change;
            step.command = c->steps[k].command ? c->steps[k].command : step.command;
            step.expected = c->steps[k].expected;
            run_step(&lab, c, k + 1, &step);
        }
    }
    lab_down(&lab);
}

bool has_compiler(const char *name)
{
    char *out;
    bool has = run_command(&out, "command -v %s", name) == 0;
    free(out);
    if (!has)
        fprintf(stderr, "skipped: no %s\n", name);
    return has;
}
