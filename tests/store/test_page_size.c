/* SPDX-License-Identifier: Apache-2.0 */
/* test_page_size.c - the store on kernels with large pages, as those of Arm servers are. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/page_size.h"
#include "tests/support/store_kit.h"

#define OWNER 1000u

static unsigned pages[] = {16384, 32768};

ParameterizedTestParameters(page_size, suites_of_the_store_pass)
{
    return cr_make_param_array(unsigned, pages, sizeof pages / sizeof *pages);
}

/* Runs a sample of the store's suites in this program again. `make test-pages` runs all of them. */
ParameterizedTest(unsigned *page, page_size, suites_of_the_store_pass)
{
    char self[4096], text[16];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    cr_assert_gt(n, 0);
    self[n] = 0;
    if (!strstr(self, "/all"))
        cr_skip_test("runs in the program of all suites");
    snprintf(text, sizeof text, "%u", *page);
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        unsetenv("BXFI_MAP"); /* else Criterion takes the child for a test of ours */
        setenv("WARM_TEST_PAGE", text, 1);
        execl(self, self, "--quiet", "-j1", "--filter", "@(change|store|store_upgrade)/*",
              (char *)NULL);
        _exit(127);
    }
    int status;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "pages of %s: status %x", text,
              status);
}

static void put_some(struct store_kit *k)
{
    for (uint64_t n = 0; n < 200; n++)
        cr_assert_eq(kit_put(k, OWNER, n, 71 * n), 0);
}

static void expect_some(struct store_kit *k, const char *where)
{
    for (uint64_t n = 0; n < 200; n++)
        cr_expect_eq(kit_get(k, OWNER, n), 0, "%s: entry %u", where, (unsigned)n);
}

/* A store in a home folder that machines with other kernels see, too. */
Test(page_size, store_goes_from_one_kernel_to_another)
{
    static const char *const made_by[] = {"4096", "65536"};
    for (size_t i = 0; i < 2; i++) {
        struct store_kit k;
        setenv("WARM_TEST_PAGE", made_by[i], 1);
        kit_begin(&k, 64 * KIT_MIB);
        put_some(&k);
        setenv("WARM_TEST_PAGE", made_by[1 - i], 1);
        kit_reopen(&k);
        expect_some(&k, made_by[1 - i]);
        struct store_stats stats;
        store_stats(k.store, &stats);
        cr_expect(!stats.rebuilt, "the index of pages of %s was set aside", made_by[i]);
        kit_end(&k);
    }
}
