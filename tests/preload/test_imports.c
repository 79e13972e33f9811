/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_imports.c - which objects of this process refer to a symbol. Libraries are built here by the system's C
 * compiler.
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/preload/imports.h"
#include "tests/support/support.h"

TestSuite(imports, .timeout = 60);

static const char *const names[] = {"oddly_named_", "another_", NULL};
static _Atomic uint64_t seen;

static void load(const char *folder, const char *name, const char *text, const char *flags)
{
    char *out, *path = path_join(folder, name);
    int status =
        run_command(&out, "echo '%s' | cc -shared -fPIC -x c - -o %s %s 2>&1", text, path, flags);
    cr_assert_eq(status, 0, "%s", out);
    cr_assert_not_null(dlopen(path, RTLD_LAZY | RTLD_LOCAL), "%s", dlerror());
    free(out);
    free(path);
}

Test(imports, an_object_that_defines_a_name_does_not_import_it)
{
    char *folder = temp_dir_new();
    cr_expect(!imports_any(names, &seen));
    load(folder, "defines.so", "int oddly_named_one(void) { return 1; }", "");
    cr_expect(!imports_any(names, &seen));
    temp_dir_free(folder);
}

/* Builds a library that refers to one of defines.so, and loads it. */
static void *load_user(const char *folder, const char *text, const char *flags)
{
    char *out, *path = path_join(folder, "user.so");
    int status = run_command(&out,
                             "echo '%s' | cc -shared -fPIC -x c - -o %s %s -x none %s/defines.so "
                             "-Wl,-rpath,%s 2>&1",
                             text, path, flags, folder, folder);
    cr_assert_eq(status, 0, "%s", out);
    void *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    cr_assert_not_null(handle, "%s", dlerror());
    free(out);
    free(path);
    return handle;
}

Test(imports, calls_and_addresses_are_imports_until_the_object_is_gone)
{
    static const char *const texts[] = {
        "int oddly_named_one(void); int f(void) { return oddly_named_one(); }",
        "extern int another_one; int *f(void) { return &another_one; }",
        "extern int another_one; int *f = &another_one;"};
    static const char *const flags[] = {"", "-Wl,--hash-style=sysv", "-Wl,-z,now", "-fno-plt"};
    char *folder = temp_dir_new();
    load(folder, "defines.so", "int oddly_named_one(void) { return 1; } int another_one;", "");
    for (size_t i = 0; i < 12; i++) {
        void *user = load_user(folder, texts[i % 3], flags[i / 3]);
        cr_expect(imports_any(names, &seen), "%s %s", texts[i % 3], flags[i / 3]);
        dlclose(user);
        cr_expect(!imports_any(names, &seen), "it is gone");
    }
    temp_dir_free(folder);
}
