/* SPDX-License-Identifier: Apache-2.0 */
/* test_tool_why.c - what `warm why` says of runs of `warm tool`: why one was not kept, what made one miss. */
#include "tests/support/tool.h"

/* Prints what `warm why` says as soon as it has a reason: the daemon reads the tool's note after the tool has ended. */
#define WHY                                                                                        \
    "for i in $(seq 100); do %s why --session %s >told; grep -q uncacheable told && break; "       \
    "sleep 0.1; done; cat told"

Test(tool_why, it_says_what_kept_a_run_out)
{
    struct lab lab;
    char *out;
    if (!lab_up(&lab))
        return;
    write_text(&lab, "a.c", "const char *t = __TIME__;\n");
    cr_assert_eq(sh(&lab, NULL, "export WARM_SESSION=odd; " GCC "-specs=x.specs -c a.c; :"), 0);
    cr_assert_eq(sh(&lab, NULL, "export WARM_SESSION=clock; " GCC "-c a.c"), 0);
    cr_assert_eq(sh(&lab, &out, WHY, lab.warm, "odd"), 0);
    cr_assert(strstr(out, "uncacheable: -specs=x.specs: it reads options"), "%s", out);
    free(out);
    cr_assert_eq(sh(&lab, &out, WHY, lab.warm, "clock"), 0);
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
        {"echo 'int more;' >>a.c", "in source a.c, which has changed\n"},
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

Test(tool_why, a_command_of_many_sources_is_found_by_each_and_names_the_one_that_changed)
{
    struct lab lab;
    char *out;
    if (!lab_up(&lab))
        return;
    cr_assert_eq(sh(&lab, NULL,
                    "for i in a b c; do echo \"int $i;\" >$i.c; done; " GCC "-c a.c b.c c.c; "
                    "echo 'int more;' >>c.c; " GCC "-c a.c b.c c.c"),
                 0);
    cr_assert_eq(sh(&lab, &out, "%s why ./b.c", lab.warm), 0);
    cr_expect(strstr(out, "gcc a.c b.c c.c") && strstr(out, "source c.c, which has changed"), "%s",
              out);
    free(out);
    cr_expect_eq(sh(&lab, &out, "%s show --json c.c", lab.warm), 1);
    cr_expect_null(strstr(out, "SIZE"), "no table: %s", out);
    cr_expect(strstr(out, "c.c: 2 entries match"), "%s", out);
    free(out);
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

/* Makes a folder that is no temporary one: in those, places do not count. free() its path. */
static char *folder_beside(const char *program)
{
    char *path;
    cr_assert_geq(asprintf(&path, "%s-why-XXXXXX", program), 0);
    cr_assert_not_null(mkdtemp(path), "%s", path);
    return path;
}

/* A result that may hold its place is kept for that place alone. */
Test(tool_why, it_names_the_place_in_which_an_equal_command_ran)
{
    static const struct {
        const char *here, *command, *there, *then;
        const char *reason; /* H is the folder */
        bool text;          /* the sources differ as well */
    } rows[] = {
        {"a", "-g -c k.c", "b", "-g -c k.c", "working folder: H/a \xe2\x86\x92 H/b\n", false},
        {"a", "-g -c $H/a/k.c", "b", "-g -c $H/a/k.c", "working folder: H/a \xe2\x86\x92 H/b\n",
         false},
        {".", "-g -c $H/a/k.c", ".", "-g -c $H/b/k.c",
         "source file: H/a/k.c \xe2\x86\x92 H/b/k.c\n", false},
        {".", "-c $H/a/k.c", ".", "-c b/k.c", "source file: a/k.c \xe2\x86\x92 b/k.c\n", false},
        {"a", "-g -c k.c", "c", "-g -c k.c", "working folder: H/a \xe2\x86\x92 H/c\n", true},
        /* the nearest is the same command, not another one in this folder */
        {"a", "-g -O1 -DX -c k.c && cd $H/b && WARM_SESSION=one " GCC "-g -c k.c", "b",
         "-g -O1 -DX -c k.c", "working folder: H/a \xe2\x86\x92 H/b\n", false},
        {"a", "-g -O1 -c k.c", "a", "-g -O2 -c k.c", "option -O1 \xe2\x86\x92 -O2\n", false},
    };
    struct lab lab;
    char *out;
    if (!lab_up(&lab))
        return;
    char *home = folder_beside(lab.warm);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cr_assert_eq(sh(&lab, &out,
                        "%s clear --yes; export H=%s; mkdir -p $H/a $H/b $H/c && "
                        "echo 'int k;' | tee $H/a/k.c >$H/b/k.c && echo 'int other;' >$H/c/k.c && "
                        "cd $H/%s && WARM_SESSION=one%zu " GCC "%s && "
                        "cd $H/%s && WARM_SESSION=two%zu " GCC "%s",
                        lab.warm, home, rows[i].here, i, rows[i].command, rows[i].there, i,
                        rows[i].then),
                     0, "%s", out);
        free(out);
        cr_assert_eq(sh(&lab, &out, "%s why --session two%zu | sed 's,%s,H,g'", lab.warm, i, home),
                     0);
        cr_expect(strstr(out, rows[i].reason), "%zu: %s", i, out);
        cr_expect_eq(strstr(out, "source k.c, which has changed") != NULL, rows[i].text, "%zu: %s",
                     i, out);
        cr_expect_null(strstr(out, "its folder"), "%zu: %s", i, out);
        free(out);
    }
    sh(&lab, NULL, "rm -rf %s", home);
    free(home);
    lab_down(&lab);
}
