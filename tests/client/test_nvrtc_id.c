/* SPDX-License-Identifier: Apache-2.0 */
/* test_nvrtc_id.c - the builtins that belong to a libnvrtc, and the identity of the two. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/nvrtc_id.h"
#include "tests/support/support.h"

static char *dir;

static void up(void) { dir = temp_dir_new(); }
static void down(void) { temp_dir_free(dir); }
TestSuite(nvrtc_id, .init = up, .fini = down);

static void make(const char *name)
{
    char *path = path_join(dir, name);
    file_write(path, name, strlen(name));
    free(path);
}

/* Expects the builtins of a library in the folder; NULL: none. */
static void expect_builtins(const char *library, const char *want)
{
    char *path = path_join(dir, library), *got = nvrtc_builtins_of(path);
    cr_assert_not_null(got);
    const char *base = strrchr(got, '/');
    cr_expect_str_eq(base ? base + 1 : got, want ? want : "", "%s: %s", library, got);
    free(got);
    free(path);
}

Test(nvrtc_id, versions_are_compared_as_numbers)
{
    char name[NAME_MAX + 1];
    make("libnvrtc.so.9.2");
    make("libnvrtc.so.12.9");
    make("libnvrtc.so.12.10");
    make("libnvrtc.so.99.alt.1");
    cr_assert(nvrtc_newest_entry(dir, "libnvrtc.so.", name));
    cr_expect_str_eq(name, "libnvrtc.so.12.10");
    cr_expect_not(nvrtc_newest_entry(dir, "libcudart", name));
    cr_expect_not(nvrtc_newest_entry("/nowhere", "libnvrtc", name));
}

Test(nvrtc_id, a_library_gets_the_builtins_of_its_own_version)
{
    make("libnvrtc.so.12.9");
    make("libnvrtc.so.13");
    make("libnvrtc.so.11.2");
    make("libnvrtc-builtins.so.11.8.89");
    make("libnvrtc-builtins.so.12.8.61");
    make("libnvrtc-builtins.so.12.9.86");
    make("libnvrtc-builtins.so.13.0.48");
    make("libnvrtc-builtins.so.13.5.37");
    expect_builtins("libnvrtc.so.12.9", "libnvrtc-builtins.so.12.9.86");
    expect_builtins("libnvrtc.so.13", "libnvrtc-builtins.so.13.5.37");
    expect_builtins("libnvrtc.so.11.2", "libnvrtc-builtins.so.11.8.89");
}

Test(nvrtc_id, a_link_counts_as_the_file_that_it_leads_to)
{
    char *link = path_join(dir, "libnvrtc.so");
    make("libnvrtc.so.12.8");
    make("libnvrtc-builtins.so.12.8.61");
    make("libnvrtc-builtins.so.12.9.86");
    cr_assert_eq(symlink("libnvrtc.so.12.8", link), 0);
    expect_builtins("libnvrtc.so", "libnvrtc-builtins.so.12.8.61");
    free(link);
}

Test(nvrtc_id, a_library_alone_has_none)
{
    make("libnvrtc.so.12.8");
    expect_builtins("libnvrtc.so.12.8", NULL);
    expect_builtins("libnvrtc.so.1", NULL);
}

Test(nvrtc_id, either_file_changes_the_identity)
{
    struct nvrtc_file library = {.len = 3, .sha256 = proof_of_bytes("lib", 3)};
    struct nvrtc_file builtins = {.len = 3, .sha256 = proof_of_bytes("blt", 3)};
    struct key both = nvrtc_id(&library, &builtins), again = nvrtc_id(&library, &builtins);
    struct key alone = nvrtc_id(&library, NULL), swapped = nvrtc_id(&builtins, &library);
    cr_expect(key_equal(&both, &again));
    cr_expect(!key_equal(&both, &alone) && !key_equal(&both, &swapped));
    builtins.len++;
    struct key longer = nvrtc_id(&library, &builtins);
    cr_expect(!key_equal(&both, &longer));
}
