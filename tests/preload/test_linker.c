/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_linker.c - what the dynamic linker tells the shims: the real dlsym, which functions are ours, the library of
 * a function, and whether its file is still the one that was loaded.
 *
 * "Ours" is this test program, which linker.c is linked into here. The libraries are built here by the system's C
 * compiler. How the object that is loaded into programs finds other interposers of dlsym is in test_preload_nvrtc.c.
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/preload/preload.h"
#include "tests/support/support.h"

static char *folder, *path;
static void *library;

/* Builds DIR/part.so, which has the function `answer`. */
static void build(const char *answer)
{
    char *out;
    int status = run_command(&out,
                             "echo 'int answer(void) { return %s; }' | cc -shared -fPIC -x c - "
                             "-o %s 2>&1",
                             answer, path);
    cr_assert_eq(status, 0, "%s", out);
    free(out);
}

static void up(void)
{
    char *made = temp_dir_new();
    folder = realpath(made, NULL);
    free(made);
    path = path_join(folder, "part.so");
    build("41");
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    cr_assert_not_null(library, "%s", dlerror());
}

static void down(void)
{
    dlclose(library);
    free(path);
    temp_dir_free(folder);
}

TestSuite(linker, .init = up, .fini = down, .timeout = 60);

static const void *own(void)
{
    void (*function)(void) = up;
    void *address;
    memcpy(&address, &function, sizeof address);
    return address;
}

Test(linker, the_real_dlsym_finds_what_the_c_librarys_does)
{
    preload_dlsym_fn *real = preload_dlsym_address();
    void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    void *address;
    memcpy(&address, &real, sizeof address);
    cr_assert_not_null(libc);
    cr_expect_eq(address, dlvsym(libc, "dlsym", "GLIBC_2.34") ? dlvsym(libc, "dlsym", "GLIBC_2.34")
                                                              : dlsym(libc, "dlsym"));
    cr_expect_eq(preload_dlsym_address(), real, "the second time, too");
    cr_expect_eq(preload_real_dlsym(library, "answer"), dlsym(library, "answer"));
    cr_expect_not_null(preload_real_dlsym(library, "answer"));
    cr_expect_null(preload_real_dlsym(library, "no_answer"));
    dlclose(libc);
}

Test(linker, functions_and_data_of_this_object_are_ours_and_no_others)
{
    static char data;
    char on_the_stack, *on_the_heap = malloc(1);
    cr_expect(preload_is_ours(own()));
    cr_expect(preload_is_ours(&data));
    cr_expect(!preload_is_ours(dlsym(library, "answer")));
    cr_expect(!preload_is_ours(&on_the_stack));
    cr_expect(!preload_is_ours(on_the_heap));
    cr_expect(!preload_is_ours(NULL));
    free(on_the_heap);
}

Test(linker, the_library_of_a_function_is_known_by_its_path)
{
    char out[PATH_MAX] = "";
    const void *function = dlsym(library, "answer");
    const void *base = preload_library_of(function, out, sizeof out);
    Dl_info it;
    cr_assert(dladdr(function, &it));
    cr_assert_not_null(base);
    cr_expect_eq(base, it.dli_fbase);
    cr_expect_str_eq(out, path);
    memset(out, 'x', sizeof out);
    cr_expect_eq(preload_library_of(function, out, strlen(path) + 1), base, "it just fits");
    cr_expect_str_eq(out, path);
    cr_expect_null(preload_library_of(function, out, strlen(path)), "NUL does not fit");
}

Test(linker, a_function_of_no_library_has_none)
{
    char out[PATH_MAX], *on_the_heap = malloc(1);
    cr_expect_null(preload_library_of(NULL, out, sizeof out));
    cr_expect_null(preload_library_of(on_the_heap, out, sizeof out), "it is in no object");
    free(on_the_heap);
}

/* Its file cannot be found later: the program may go to another folder. */
Test(linker, a_library_that_was_loaded_by_a_relative_path_has_none)
{
    char out[PATH_MAX], *copy = path_join(folder, "other.so");
    size_t len;
    char *bytes = file_read(path, &len);
    file_write(copy, bytes, len);
    cr_assert_eq(chdir(folder), 0);
    void *other = dlopen("./other.so", RTLD_NOW | RTLD_LOCAL);
    cr_assert_not_null(other, "%s", dlerror());
    cr_expect_null(preload_library_of(dlsym(other, "answer"), out, sizeof out));
    dlclose(other);
    free(bytes);
    free(copy);
}

Test(linker, a_file_is_the_same_until_it_is_changed_or_gone)
{
    struct stat st;
    cr_assert_eq(stat(path, &st), 0);
    cr_expect(preload_file_is(path, &st));
    char *copy = path_join(folder, "copy.so");
    size_t len;
    char *bytes = file_read(path, &len);
    file_write(copy, bytes, len);
    cr_expect(!preload_file_is(copy, &st), "another file with the same bytes");
    cr_assert_eq(rename(copy, path), 0);
    cr_expect(!preload_file_is(path, &st), "another file in its place");
    cr_assert_eq(stat(path, &st), 0);
    file_write(path, bytes, len - 1);
    cr_expect(!preload_file_is(path, &st), "it is shorter");
    cr_assert_eq(stat(path, &st), 0);
    cr_assert_eq(unlink(path), 0);
    cr_expect(!preload_file_is(path, &st), "it is gone");
    free(bytes);
    free(copy);
}

Test(linker, a_library_is_opened_again_if_the_function_is_in_that_copy)
{
    void *function = dlsym(library, "answer"), *other = dlmopen(LM_ID_NEWLM, path, RTLD_NOW);
    cr_assert_not_null(other, "%s", dlerror());
    void *opened = preload_open_library(path, "answer", function);
    cr_assert_not_null(opened);
    cr_expect_eq(dlsym(opened, "answer"), function);
    cr_expect_null(preload_open_library(path, "answer", dlsym(other, "answer")));
    cr_expect_null(preload_open_library(path, "no_answer", function));
    cr_expect_null(preload_open_library("/nowhere/lib.so", "answer", function));
    dlclose(opened);
    dlclose(other);
}

Test(linker, the_library_of_an_address_is_opened)
{
    void *function = dlsym(library, "answer");
    void *opened = preload_open_library_of(function);
    cr_assert_not_null(opened);
    cr_expect_eq(dlsym(opened, "answer"), function);
    cr_expect_null(preload_open_library_of(own()), "ours");
    dlclose(opened);
}
