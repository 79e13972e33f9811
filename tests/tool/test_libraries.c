/* SPDX-License-Identifier: Apache-2.0 */
/* test_libraries.c - the loader's answer for a name: equal as long as what it finds is equal. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/tool/libraries.h"
#include "tests/support/support.h"

static char *dir;

static void up(void)
{
    dir = temp_dir_new();
    setenv("LD_LIBRARY_PATH", dir, 1);
}
static void down(void) { temp_dir_free(dir); }
TestSuite(libraries, .init = up, .fini = down);

static struct proof digest(const char *name)
{
    struct proof p;
    cr_assert_eq(library_digest(NULL, name, UINT64_MAX, &p), 0, "%s", name);
    return p;
}

Test(libraries, a_file_of_that_name_counts_and_one_of_another_does_not)
{
    char *lib = path_join(dir, "libx.so.1"), *other = path_join(dir, "liby.so.1");
    struct proof none = digest("libx.so.1");
    file_write(other, "y", 1);
    struct proof still = digest("libx.so.1");
    cr_expect(proof_equal(&none, &still));
    file_write(lib, "one", 3);
    struct proof one = digest("libx.so.1");
    cr_expect(!proof_equal(&none, &one));
    file_write(lib, "two", 3);
    struct proof two = digest("libx.so.1");
    cr_expect(!proof_equal(&one, &two), "its content counts");
    file_write(lib, "one", 3);
    struct proof again = digest("libx.so.1");
    cr_expect(proof_equal(&one, &again));
    unlink(lib);
    struct proof gone = digest("libx.so.1");
    cr_expect(proof_equal(&none, &gone));
    free(lib);
    free(other);
}

Test(libraries, the_loaders_list_counts_by_the_name)
{
    struct proof c = digest("libc.so.6"), m = digest("libm.so.6"),
                 none = digest("libnobodyhasthis.so.1");
    struct proof again = digest("libc.so.6");
    cr_expect(proof_equal(&c, &again));
    cr_expect(!proof_equal(&c, &m) && !proof_equal(&c, &none));
}

Test(libraries, a_folder_with_variants_for_processors_is_refused_or_counts)
{
    struct proof plain = digest("libx.so.1"), p;
    char *folder = path_join(dir, "glibc-hwcaps"), *out;
    cr_assert_eq(run_command(&out, "mkdir -p %s/x86-64-v2 && echo x >%s/x86-64-v2/libx.so.1",
                             folder, folder),
                 0);
    int code = library_digest(NULL, "libx.so.1", UINT64_MAX, &p);
    cr_expect(code == WARM_EREFUSED || (code == 0 && !proof_equal(&plain, &p)), "%d", code);
    free(out);
    free(folder);
}

Test(libraries, a_list_with_a_name_that_the_loader_replaces_is_refused)
{
    struct proof p;
    setenv("LD_LIBRARY_PATH", "$ORIGIN/lib", 1);
    cr_expect_eq(library_digest(NULL, "libx.so.1", UINT64_MAX, &p), WARM_EREFUSED);
}
