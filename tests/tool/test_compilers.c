/* SPDX-License-Identifier: Apache-2.0 */
/* Compilers by name. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/exec/compilers.h"

Test(compilers, are_known_by_the_last_component_with_target_and_version)
{
    static const char *const cases[][2] = {
        {"g++", "g++"},
        {"/usr/bin/g++-12", "g++"},
        {"/usr/bin/x86_64-linux-gnu-gcc-12.2", "gcc"},
        {"clang++-14", "clang++"},
        {"./cc", "cc"},
        {"x86_64-conda-linux-gnu-c++", "c++"},
        {"/opt/triton/bin/ptxas", "ptxas"},
        {"/opt/triton/bin/ptxas-blackwell", "ptxas-blackwell"},
        {"/g++/run", NULL},
        {"gcc-ar", NULL},
        {"ccg++", NULL},
        {"gcc-12x", NULL},
        {"ccache", NULL},
        {"python3", NULL},
        {"/usr/bin/", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *name = compiler_name(cases[i][0]);
        if (cases[i][1])
            cr_expect(name && strcmp(name, cases[i][1]) == 0, "%s", cases[i][0]);
        else
            cr_expect_null(name, "%s", cases[i][0]);
    }
}

Test(compilers, a_link_of_another_name_is_known_by_what_it_leads_to)
{
    static const struct {
        const char *target, *name;
    } rows[] = {
        {"/usr/bin/g++", "g++"}, {"gcc-12", "gcc"}, {"clang", NULL}, {"opal_wrapper", NULL}};
    char path[] = "/tmp/warm-link-XXXXXX";
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    close(fd);
    cr_expect_null(compiler_at(path), "no link");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        unlink(path);
        cr_assert_eq(symlink(rows[i].target, path), 0);
        const char *name = compiler_at(path);
        cr_expect(rows[i].name ? name && strcmp(name, rows[i].name) == 0 : !name, "%s",
                  rows[i].target);
    }
    unlink(path);
    cr_expect_str_eq(compiler_at("/no/such/g++"), "g++");
}

/* As /usr/lib/ccache/g++, which comes first on PATH if a distribution has ccache. */
Test(compilers, a_link_of_a_compilers_name_to_another_cache_is_no_compiler)
{
    char dir[] = "/tmp/warm-link-XXXXXX", path[sizeof dir + sizeof "/g++"];
    cr_assert(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/g++", dir);
    cr_assert_eq(symlink("../../bin/ccache", path), 0);
    cr_expect_null(compiler_at(path));
    unlink(path);
    cr_assert_eq(symlink("../../bin/g++-12", path), 0);
    cr_expect_str_eq(compiler_at(path), "g++");
    unlink(path);
    rmdir(dir);
}
