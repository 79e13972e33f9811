/* SPDX-License-Identifier: Apache-2.0 */
/* fini.c - what must be true after a test: nothing leaked, no promise was broken, no assertion of its .fini
 * failed. Only programs that run under Criterion link it: tests/plain has no need of it. */
#include <criterion/criterion.h>
#include <criterion/hooks.h>
#include <dlfcn.h>
#include <stdio.h>

#include "keygen/expect.h"
#include "tests/support/support.h"

/* Of LeakSanitizer, if the program is built with it. */
__attribute__((weak)) int __lsan_do_recoverable_leak_check(void);
const char *__lsan_default_options(void);

/* Returns that no leak is looked for at exit: a forked child ends in the middle of a test. */
const char *__lsan_default_options(void) { return "leak_check_at_exit=0"; }

/* Stands in for the last function of Criterion in each test's process: calls it, and then checks what the
 * test leaves. A test that ends its process by itself is not checked. One that failed may leak. */
void criterion_internal_test_teardown(void)
{
    ((void (*)(void))dlsym(RTLD_NEXT, __func__))();
    cr_expect_eq(expect_is_off(), promise_may_break, "a promise: see stderr");
    if (__lsan_do_recoverable_leak_check)
        cr_expect_eq(__lsan_do_recoverable_leak_check(), 0, "a leak: see stderr");
}

/* Counts a test as failed if an assertion failed after its body: Criterion alone prints it and goes on. */
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
