/* SPDX-License-Identifier: Apache-2.0 */
/* test_tool_why.c - what `warm why` says of runs of `warm tool`: why one was not kept, what made one miss. */
#include "tests/support/tool.h"

Test(tool_why, it_says_what_kept_a_run_out)
{
    struct lab lab;
    char *out;
    if (!lab_up(&lab))
        return;
    write_text(&lab, "a.c", "const char *t = __TIME__;\n");
    cr_assert_eq(sh(&lab, NULL, "export WARM_SESSION=odd; " GCC "-specs=x.specs -c a.c; :"), 0);
    cr_assert_eq(sh(&lab, NULL, "export WARM_SESSION=clock; " GCC "-c a.c"), 0);
    cr_assert_eq(sh(&lab, &out, "%s why --session odd", lab.warm), 0);
    cr_assert(strstr(out, "uncacheable: -specs=x.specs: it reads options"), "%s", out);
    free(out);
    cr_assert_eq(sh(&lab, &out, "%s why --session clock", lab.warm), 0);
    cr_assert(strstr(out, "uncacheable: it uses the time (__DATE__"), "%s", out);
    free(out);
    lab_down(&lab);
}

Test(tool_why, it_names_what_changed_since_the_last_run)
{
    static const struct {
        const char *change, *reason;
    } rows[] = {
        {"echo '#define H 2' >h.h", "differs: ./h.h has changed\n"},
        {"cp h.h sub", "differs: sub/h.h was absent\n"},
        {"export BINUTILS_ROOT=$PWD", "differs: the variable BINUTILS_ROOT has changed\n"},
        {"echo 'int more;' >>a.c", "in its sources, options, folder or environment\n"},
    };
    struct lab lab;
    char *out;
    if (!lab_up(&lab))
        return;
    write_text(&lab, "a.c", "#include <h.h>\nint n = H;\n");
    write_text(&lab, "h.h", "#define H 1\n");
    cr_assert_eq(sh(&lab, NULL, "mkdir sub; " GCC "-Isub -I. -c a.c"), 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cr_assert_eq(sh(&lab, NULL, "%s; export WARM_SESSION=s%zu; " GCC "-Isub -I. -c a.c",
                        rows[i].change, i),
                     0);
        cr_assert_eq(sh(&lab, &out, "%s why --session s%zu", lab.warm, i), 0);
        cr_expect(strstr(out, rows[i].reason), "%s: %s", rows[i].change, out);
        free(out);
    }
    lab_down(&lab);
}

/* Neither what became of the mark of the run before, nor the mark itself, hides the reason. */
Test(tool_why, it_says_of_each_run_what_kept_it_out)
{
    static const char *const befores[] = {":", ":", "%s clear --yes"};
    struct lab lab;
    char *out;
    if (!lab_up(&lab))
        return;
    write_text(&lab, "a.c", "const char *t = __TIME__;\n");
    for (size_t i = 0; i < sizeof befores / sizeof befores[0]; i++) {
        sh(&lab, NULL, befores[i], lab.warm);
        cr_assert_eq(sh(&lab, NULL, "export WARM_SESSION=s%zu; " GCC "-c a.c", i), 0);
        cr_assert_eq(sh(&lab, &out, "%s why --session s%zu", lab.warm, i), 0);
        const char *reason =
            strstr(out, "    uncacheable: it uses the time (__DATE__, __TIME__ or __TIMESTAMP__): "
                        "SOURCE_DATE_EPOCH sets the first two\n");
        cr_assert(reason && strstr(out, "gcc a.c"), "%s", out);
        cr_expect_null(strstr(out, "cold"), "%s", out);
        cr_expect_null(strstr(out, "evicted"), "%s", out);
        free(out);
    }
    lab_down(&lab);
}
