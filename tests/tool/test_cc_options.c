/* SPDX-License-Identifier: Apache-2.0 */
/* test_cc_options.c - the tables of gcc's, clang's and NVIDIA's options: what is in them, and what must
 * not be. */
#include <criterion/criterion.h>

#include "client/tool/cc_options.h"
#include "client/tool/nvidia_options.h"

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
    cr_expect_eq(rule_of("-fno-plt"), KEEP);
    cr_expect_eq(rule_of("-fsanitize=undefined"), SHOWS);
    cr_expect_eq(rule_of("-fverbose-asm"), SHOWS);
    cr_expect_eq(rule_of("-frecord-command-line"), REFUSE);
    cr_expect_eq(rule_of("-g"), DEBUG);
    cr_expect_eq(rule_of("-g0"), NO_DEBUG);
}

Test(cc_options, refused_options_have_a_reason)
{
    static const char *const refused[] = {"-frecord-command-line", "-Xclang", "-Wl,-t",
                                          "-Wl,-Map=m"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        cr_expect_eq(rule_of(refused[i]), REFUSE, "%s", refused[i]);
        cr_expect_not_null(cc_option_find(refused[i])->note, "%s", refused[i]);
    }
}

Test(cc_options, what_measures_is_refused)
{
    static const char *const refused[] = {
        "-time",
        "-time=log",
        "-ftime-report",
        "-ftime-report-details",
        "-ftime-trace",
        "-Q",
        "-fproc-stat-report",
        "-fmem-report",
        "-fstats",
        "-fmem-report-wpa",
        "-fprofile-report",
        "-save-stats",
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        cr_expect_eq(rule_of(refused[i]), REFUSE, "%s", refused[i]);
    cr_expect_eq(rule_of("-v"), VERBOSE);
    cr_expect_eq(rule_of("--verbose"), VERBOSE);
    cr_expect_eq(rule_of("-###"), VERBOSE);
    cr_expect_not(cc_linker_knows("--stats"));
    cr_expect_not(cc_linker_knows("-v"));
    cr_expect_not(cc_linker_knows("--verbose"));
    cr_expect_not(cc_assembler_knows("--statistics"));
    cr_expect_not(cc_assembler_knows("-v"));
    cr_expect_not(cc_preprocessor_knows("-v"));
}

Test(cc_options, what_measures_or_traces_is_in_no_table_of_nvidias_tools)
{
    static const char *const tools[] = {"cicc", "nvlink", "fatbinary"};
    static const char *const options[] = {"-v",        "--verbose",  "-time",         "--time",
                                          "-time=log", "--time=log", "-ftime-report", "--trace",
                                          "-dryrun"};
    for (size_t t = 0; t < sizeof tools / sizeof *tools; t++)
        for (size_t i = 0; i < sizeof options / sizeof *options; i++)
            cr_expect_neq(nvidia_option_rule(tools[t], options[i]), NVIDIA_KEPT, "%s %s", tools[t],
                          options[i]);
}

Test(cc_options, options_of_nvidias_tools_are_found_by_name_and_by_family)
{
    cr_expect_eq(nvidia_option_rule("cicc", "--c++17"), NVIDIA_KEPT);
    cr_expect_eq(nvidia_option_rule("cicc", "--host-stub-linkage-explicit"), NVIDIA_KEPT);
    cr_expect_eq(nvidia_option_rule("cicc", "--diag_suppress=20012"), NVIDIA_KEPT);
    cr_expect_eq(nvidia_option_rule("cicc", "--diag"), NVIDIA_UNKNOWN);
    cr_expect_eq(nvidia_option_rule("fatbinary", "-compress-all"), NVIDIA_KEPT);
    cr_expect_eq(nvidia_option_rule("fatbinary", "--options-file"), NVIDIA_REFUSED);
    cr_expect_eq(nvidia_option_rule("nvlink", "--arch=sm_90"), NVIDIA_KEPT);
    cr_expect_eq(nvidia_option_rule("nvlink", "--nonesuch"), NVIDIA_UNKNOWN);
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
