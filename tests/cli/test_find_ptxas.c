/* SPDX-License-Identifier: Apache-2.0 */
/* test_find_ptxas.c - which ptxas is taken: each place in its order, and files that are no programs. */
#include <criterion/criterion.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/run/find_ptxas.h"
#include "tests/support/support.h"

#define NVIDIA "lib/python3.11/site-packages/nvidia/cu13/bin/ptxas"
#define TRITON "lib/python3.11/site-packages/triton/backends/nvidia/bin/ptxas"

static char *dir;

static void set(const char *variable, const char *folder)
{
    char *path = path_join(dir, folder);
    setenv(variable, path, 1);
    free(path);
}

static void up(void)
{
    dir = temp_dir_new();
    cr_assert_eq(chdir(dir), 0);
    unsetenv("CUDA_HOME"), unsetenv("CUDA_PATH"), unsetenv("VIRTUAL_ENV"), unsetenv("CONDA_PREFIX");
    set("PATH", "path");
}
static void down(void) { temp_dir_free(dir); }
TestSuite(find_ptxas, .init = up, .fini = down);

static void make(const char *name, mode_t mode)
{
    char *path = path_join(dir, name);
    for (char *slash = path + strlen(dir) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = '\0';
        mkdir(path, 0755);
    }
    file_write(path, "#!/bin/sh\n", 10);
    cr_assert_eq(chmod(path, mode), 0);
    free(path);
}

/* NULL: one of the machine's own in /usr/local, or none. */
static void expect(const char *name)
{
    char found[PATH_MAX] = "", want[PATH_MAX];
    bool is_found = ptxas_find(found);
    glob_t own;
    if (!name) {
        bool has_own = glob("/usr/local/cuda*/bin/ptxas", 0, NULL, &own) == 0;
        globfree(&own);
        cr_expect_eq(is_found, has_own, "%s", found);
        cr_expect(!is_found || strncmp(found, "/usr/local/cuda", 15) == 0, "%s", found);
        return;
    }
    snprintf(want, sizeof want, "%s%s%s", *name == '.' ? "" : dir, *name == '.' ? "" : "/", name);
    cr_assert(is_found, "no %s", name);
    cr_expect_str_eq(found, want);
}

Test(find_ptxas, each_place_comes_in_its_order)
{
    static const struct {
        const char *variable, *folder, *program;
    } places[] = {
        {"CUDA_HOME", "home", "home/bin/ptxas"},
        {"CUDA_PATH", "path of cuda", "path of cuda/bin/ptxas"},
        {"VIRTUAL_ENV", "venv", "venv/" NVIDIA},
        {NULL, NULL, "venv/" TRITON},
        {"CONDA_PREFIX", "conda", "conda/" NVIDIA},
        {NULL, NULL, "conda/" TRITON},
        {NULL, NULL, "path/ptxas"},
    };
    enum { N = sizeof places / sizeof *places };
    for (size_t i = 0; i < N; i++) {
        make(places[i].program, 0755);
        if (places[i].variable)
            set(places[i].variable, places[i].folder);
    }
    for (size_t i = 0; i < N; i++) {
        expect(places[i].program);
        cr_assert_eq(unlink(places[i].program), 0);
    }
    expect(NULL);
}

Test(find_ptxas, the_python_on_path_has_it_if_no_other_place_has)
{
    make("py/bin/python3", 0755);
    make("py/" TRITON, 0755);
    set("PATH", "py/bin");
    expect("py/bin/../" TRITON);
    make("py/" NVIDIA, 0755);
    expect("py/bin/../" NVIDIA);
}

Test(find_ptxas, an_empty_part_of_path_is_the_working_folder)
{
    make("bin/python3", 0755);
    make(NVIDIA, 0755);
    cr_assert_eq(chdir("bin"), 0);
    setenv("PATH", "/nonexistent:", 1);
    expect("../" NVIDIA);
}

Test(find_ptxas, a_file_that_may_not_be_executed_is_passed_over)
{
    make("home/bin/ptxas", 0644);
    make("venv/" NVIDIA, 0644);
    make("venv/lib/python3.12/site-packages/nvidia/cu13/bin/ptxas", 0755);
    set("CUDA_HOME", "home");
    set("VIRTUAL_ENV", "venv");
    expect("venv/lib/python3.12/site-packages/nvidia/cu13/bin/ptxas");
}

Test(find_ptxas, variables_that_are_empty_or_too_long_are_passed_over)
{
    static char path[PATH_MAX + 10];
    memset(path, 'x', sizeof path - 1);
    path[0] = '/';
    setenv("CUDA_HOME", "", 1);
    setenv("CUDA_PATH", path, 1);
    setenv("VIRTUAL_ENV", path, 1);
    expect(NULL);
}
