/* SPDX-License-Identifier: Apache-2.0 */
/* test_dependencies.c - a file of dependencies in another folder: as the compiler itself writes it there. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/tool/dependencies.h"
#include "client/trace/trace.h"
#include "tests/support/support.h"

/* The compiler of all jobs. */
static const char *program = "/usr/bin/gcc";

/* A job whose one root is `root`. */
static struct tool_job job_in(const char *root)
{
    struct tool_job job = {.family = "cc", .program = program};
    cr_assert(tool_add_root(&job, root, strlen(root)));
    return job;
}

/* The trace of a run that read these paths. */
static void log_reads(struct writer *log, const char *const *paths, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        writer_u8(log, TRACE_READ);
        writer_bytes(log, paths[i], strlen(paths[i]) + 1);
    }
}

static int pack(const char *root, const char *file, const char *const *paths, size_t n,
                struct writer *out)
{
    struct tool_job job = job_in(root);
    struct writer log;
    struct err e;
    writer_init(&log, 0);
    log_reads(&log, paths, n);
    int code =
        dependencies_pack(&job, view_of_text(file), (struct view){log.data, log.len}, out, &e);
    writer_close(&log);
    tool_job_close(&job);
    return code;
}

static void expect_unpacked(const char *root, const struct writer *packed, const char *want)
{
    struct tool_job job = job_in(root);
    struct writer out;
    writer_init(&out, 0);
    cr_assert(dependencies_unpack(&job, (struct view){packed->data, packed->len}, &out));
    writer_u8(&out, '\0');
    cr_expect_str_eq((const char *)out.data, want);
    writer_close(&out);
    tool_job_close(&job);
}

Test(dependencies, lines_break_where_gcc_breaks_them_for_the_other_name)
{
    static const char *const read[] = {"/tmp/a/m.cc", "/tmp/a/h.h", "/usr/include/stdio.h"};
    struct writer packed;
    writer_init(&packed, 0);
    cr_assert_eq(pack("/tmp/a", "/tmp/a/m.o: /tmp/a/m.cc /tmp/a/h.h /usr/include/stdio.h\n", read,
                      3, &packed),
                 0);
    expect_unpacked("/tmp/a", &packed, "/tmp/a/m.o: /tmp/a/m.cc /tmp/a/h.h /usr/include/stdio.h\n");
    expect_unpacked("/tmp/a-much-longer-name-of-a-folder", &packed,
                    "/tmp/a-much-longer-name-of-a-folder/m.o: \\\n"
                    " /tmp/a-much-longer-name-of-a-folder/m.cc \\\n"
                    " /tmp/a-much-longer-name-of-a-folder/h.h /usr/include/stdio.h\n");
    writer_close(&packed);
}

Test(dependencies, lines_break_where_clang_breaks_them_for_the_other_name)
{
    static const char *const read[] = {"/tmp/a/m.cc", "/tmp/a/h.h", "/usr/include/stdio.h"};
    struct writer packed;
    program = "/bin/sh"; /* any compiler but GCC */
    writer_init(&packed, 0);
    cr_assert_eq(pack("/tmp/a", "/tmp/a/m.o: /tmp/a/m.cc /tmp/a/h.h /usr/include/stdio.h\n", read,
                      3, &packed),
                 0);
    expect_unpacked("/tmp/a-much-longer-name-of-a-folder", &packed,
                    "/tmp/a-much-longer-name-of-a-folder/m.o: \\\n"
                    "  /tmp/a-much-longer-name-of-a-folder/m.cc \\\n"
                    "  /tmp/a-much-longer-name-of-a-folder/h.h /usr/include/stdio.h\n");
    writer_close(&packed);
}

/* A compiler's file of one folder, packed and unpacked for another folder, is what the compiler itself writes there. */
static void expect_as_elsewhere(const char *compiler, const char *options, const char *elsewhere)
{
    char *dir = temp_dir_new(), *one, *other, *out;
    cr_assert_eq(
        run_command(
            &out,
            "cd %s && mkdir short '%s' && for d in short '%s'; do "
            "echo '#include \"h.h\"' >\"$d/m.c\"; for i in 1 2 3 4; do echo \"#include "
            "\\\"h$i.h\\\"\"; "
            "echo >\"$d/h$i.h\"; done >\"$d/h.h\"; "
            "%s %s -MMD -MP -MF \"$d/m.d\" -c \"$PWD/$d/m.c\" -o \"$PWD/$d/m.o\" || exit 1; "
            "done",
            dir, elsewhere, elsewhere, compiler, options),
        0, "%s", out);
    free(out);
    const char *paths[6];
    char *memory[6];
    static const char *const names[] = {"m.c", "h.h", "h1.h", "h2.h", "h3.h", "h4.h"};
    char *root = path_join(dir, "short"), *root_other = path_join(dir, elsewhere);
    for (size_t i = 0; i < 6; i++)
        paths[i] = memory[i] = path_join(root, names[i]);
    char *file = path_join(root, "m.d"), *file_other = path_join(root_other, "m.d");
    size_t len;
    one = file_read(file, &len);
    other = file_read(file_other, &len);
    struct writer packed;
    writer_init(&packed, 0);
    cr_assert_eq(pack(root, one, paths, 6, &packed), 0, "%s: %s", compiler, one);
    expect_unpacked(root_other, &packed, other);
    writer_close(&packed);
    for (size_t i = 0; i < 6; i++)
        free(memory[i]);
    free(one), free(other), free(root), free(root_other), free(file), free(file_other);
    temp_dir_free(dir);
}

Test(dependencies, a_real_compilers_file_comes_out_as_it_writes_it_elsewhere)
{
    static const struct {
        const char *compiler, *program;
    } rows[] = {{"gcc", "/usr/bin/gcc"}, {"clang", "/usr/bin/clang"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (access(rows[i].program, X_OK) < 0)
            continue;
        program = rows[i].program;
        for (int len = 6; len < 70; len += 1) {
            char folder[80];
            snprintf(folder, sizeof folder, "%0*d", len, 0);
            expect_as_elsewhere(rows[i].compiler, len % 2 ? "-MT one.o -MT two/three.o" : "",
                                folder);
            folder[2] = folder[len / 2] = folder[len - 3] = ' ';
            if (i == 0)
                expect_as_elsewhere(rows[i].compiler, len % 2 ? "-MT one.o" : "", folder);
        }
    }
}

Test(dependencies, a_name_of_a_root_that_nobody_read_is_refused)
{
    static const char *const read[] = {"/tmp/a/m.cc"};
    struct writer packed;
    writer_init(&packed, 0);
    cr_expect_eq(pack("/tmp/a", "/tmp/a/m.o: /tmp/a/m.cc /tmp/a/h.h\n", read, 1, &packed),
                 WARM_EREFUSED, "it may be the target of a link");
    packed.len = 0;
    cr_expect_eq(pack("/tmp/a", "m.o: /tmp/a/m.cc", read, 1, &packed), WARM_EREFUSED,
                 "no line end");
    packed.len = 0;
    cr_expect_eq(pack("/tmp/a", "m.o: /tmp/a/m.cc /opt/tmp/a/x.h\n", read, 1, &packed),
                 WARM_EREFUSED, "another path has the root's name");
    writer_close(&packed);
}

Test(dependencies, a_root_with_a_blank_is_no_name_for_such_a_file)
{
    cr_expect(dependencies_can_name("/tmp/torchinductor_root/ab", false));
    cr_expect_not(dependencies_can_name("/tmp/my folder", false));
    cr_expect(dependencies_can_name("/tmp/my folder", true));
    cr_expect_not(dependencies_can_name("/tmp/a#b c", true));
    cr_expect_not(dependencies_can_name("/tmp/a\\b", true));
    cr_expect_not(dependencies_can_name("/tmp/a#b", false));
    cr_expect_not(dependencies_can_name("/tmp/a$b", false));
}

Test(dependencies, bytes_that_pack_cannot_have_written_are_refused)
{
    static const char *const bad[] = {"\1"
                                      "7/m.o: x\n",
                                      "\1", "a: b", "a: b\nc d\n"};
    struct tool_job job = job_in("/tmp/a");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct writer out;
        writer_init(&out, 0);
        cr_expect_not(dependencies_unpack(&job, view_of_text(bad[i]), &out), "%zu", i);
        writer_close(&out);
    }
    tool_job_close(&job);
}
