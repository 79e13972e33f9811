/* SPDX-License-Identifier: Apache-2.0 */
/* fini.c - makes a failed assertion of a .fini fail its test. Criterion calls it after the last test. Only
 * programs that run under Criterion link it: tests/plain ends a test at its first failed assertion. */
#include <criterion/criterion.h>
#include <criterion/hooks.h>
#include <stdio.h>

/* Counts a test whose .fini has a failed assertion as failed: Criterion alone prints it and goes on. */
ReportHook(POST_ALL)(struct criterion_global_stats *all)
{
    for (const struct criterion_suite_stats *suite = all->suites; suite; suite = suite->next)
        for (const struct criterion_test_stats *t = suite->tests; t; t = t->next) {
            if (!t->failed_asserts || t->test_status != CR_STATUS_PASSED)
                continue;
            fprintf(stderr, "[FAIL] %s::%s: after its end\n", t->test->category, t->test->name);
            all->tests_passed--;
            all->tests_failed++;
        }
}
