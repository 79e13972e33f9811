/* SPDX-License-Identifier: Apache-2.0 */
/* test_cc_options.c - the table of gcc's and clang's options: what is in it, and what must not be. */
#include <criterion/criterion.h>

#include "client/tool/cc_options.h"

static enum cc_rule rule_of(const char *arg)
{
    const struct cc_option *o = cc_option_find(arg);
    cr_assert_not_null(o, "%s", arg);
    return o->rule;
}

Test(cc_options, an_option_outside_of_the_table_is_not_known)
{
    cr_expect_null(cc_option_find("--nonesuch"));
    cr_expect_null(cc_option_find("-Z9"));
}

Test(cc_options, an_exception_comes_before_its_family)
{
    cr_expect_eq(rule_of("-fPIC"), KEEP);
    cr_expect_eq(rule_of("-frecord-command-line"), REFUSE);
    cr_expect_eq(rule_of("-g"), DEBUG);
    cr_expect_eq(rule_of("-g0"), NO_DEBUG);
}

Test(cc_options, refused_options_have_a_reason)
{
    static const char *const refused[] = {"-frecord-command-line", "-Xclang"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        cr_expect_eq(rule_of(refused[i]), REFUSE, "%s", refused[i]);
        cr_expect_not_null(cc_option_find(refused[i])->note, "%s", refused[i]);
    }
}

Test(cc_options, lists_for_linker_and_assembler_are_closed)
{
    cr_expect(cc_linker_knows("-rpath,/opt/lib,--no-demangle"));
    cr_expect_not(cc_linker_knows("-rpath,/opt/lib,--nonesuch"));
    cr_expect_not(cc_linker_knows("@options"));
    cr_expect(cc_assembler_knows("--noexecstack,-march=armv8"));
    cr_expect_not(cc_assembler_knows("-a=listing"));
    cr_expect(cc_preprocessor_knows("-DX=1"));
    cr_expect_not(cc_preprocessor_knows("-DX=1,-include,x.h"));
}
