/* SPDX-License-Identifier: Apache-2.0 */
/* Compilers by name. */
#include <criterion/criterion.h>
#include <string.h>

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
