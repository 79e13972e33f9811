/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace_log.c - from the records of a traced compiler to the inputs of its result. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "client/tool/inputs.h"
#include "client/trace/trace.h"
#include "tests/support/support.h"

static char *dir;
static struct writer trace;
static struct tool_job job;
static struct err e;

static void record(char what, const char *path)
{
    writer_u8(&trace, (uint8_t)what);
    writer_bytes(&trace, path, strlen(path) + 1);
}

/* Begins the trace of one process; a file of the test is `dir`/NAME. */
static void up(void)
{
    dir = temp_dir_new();
    writer_init(&trace, 0);
    record(TRACE_BEGIN, "/bin/sh");
    static char *argv[] = {"cc", NULL};
    job = (struct tool_job){.family = "cc",
                            .program = "/bin/sh",
                            .argv = argv,
                            .argc = 1,
                            .traced = true,
                            .keys_cwd = true};
    snprintf(job.cwd, sizeof job.cwd, "%s", dir);
    snprintf(job.names[0], sizeof job.names[0], "cc:test");
}

static void down(void)
{
    writer_close(&trace);
    temp_dir_free(dir);
}
TestSuite(trace_log, .init = up, .fini = down);

static char *file(const char *name, const char *text)
{
    char *path = path_join(dir, name);
    if (text)
        file_write(path, text, strlen(text));
    return path;
}

/* Reads the trace of a run that began after all files were written. */
static int read_trace(struct inputs *out)
{
    struct timespec started;
    clock_gettime(CLOCK_REALTIME, &started);
    started.tv_sec += 2;
    return inputs_from_trace(&job, NULL, trace.data, trace.len, started, out, &e);
}

static const struct input *input_of(const struct inputs *in, const char *path)
{
    for (size_t i = 0; i < in->n; i++)
        if (strcmp(in->list[i].path, path) == 0)
            return &in->list[i];
    return NULL;
}

static void name_now(struct inputs *in, char out[TOOL_NAME_TEXT], bool want)
{
    cr_assert_eq(inputs_now(&job, NULL, in, 0, out), want);
}

Test(trace_log, a_file_that_was_read_and_one_that_was_missing_are_inputs)
{
    char *header = file("a.h", "int a;\n"), *absent = file("b.h", NULL);
    struct inputs in;
    record(TRACE_READ, header);
    record(TRACE_ABSENT, absent);
    record(TRACE_READ, header);
    cr_assert_eq(read_trace(&in), 0, "%s", e.text);
    const struct input *read = input_of(&in, header), *missing = input_of(&in, absent);
    cr_assert(read && missing);
    struct proof want = proof_of_bytes("int a;\n", 7);
    cr_expect(read->kind == INPUT_FILE && proof_equal(&read->digest, &want));
    cr_expect_eq(missing->kind, INPUT_ABSENT);
    inputs_close(&in);
    free(header);
    free(absent);
}

Test(trace_log, the_results_name_changes_with_an_input_and_comes_back_with_it)
{
    char *header = file("a.h", "int a;\n"), *absent = file("b.h", NULL), *path;
    char first[TOOL_NAME_TEXT], then[TOOL_NAME_TEXT];
    struct inputs in;
    record(TRACE_READ, header);
    record(TRACE_ABSENT, absent);
    cr_assert_eq(read_trace(&in), 0, "%s", e.text);
    in.sets[0] = in.list, in.set_len[0] = in.n, in.n_sets = 1;
    name_now(&in, first, true);
    free(file("a.h", "int b;\n"));
    name_now(&in, then, true);
    cr_expect_str_neq(first, then, "a changed header");
    free(file("a.h", "int a;\n"));
    name_now(&in, then, true);
    cr_expect_str_eq(first, then);
    path = file("b.h", "");
    name_now(&in, then, false);
    unlink(path);
    name_now(&in, then, true);
    cr_expect_str_eq(first, then);
    inputs_close(&in);
    free(header), free(absent), free(path);
}

Test(trace_log, what_no_record_describes_keeps_the_result_out)
{
    char *written = file("notes.txt", "x");
    const struct {
        char what;
        const char *path;
    } bad[] = {{TRACE_UNKNOWN, "/somewhere"},
               {TRACE_UNWRITTEN, "/somewhere"},
               {TRACE_EXEC, "/bin/true"},  /* a process that did not begin: not traced */
               {TRACE_BEGIN, "/bin/true"}, /* one that nobody started */
               {TRACE_WRITE, written}};
    size_t len = trace.len;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct inputs in;
        trace.len = len;
        record(bad[i].what, bad[i].path);
        cr_expect_eq(read_trace(&in), WARM_EREFUSED, "%c", bad[i].what);
    }
    free(written);
}

/* Records that the run made a file, and which one it is, as the traced process does. */
static void record_made(const char *path)
{
    char text[PATH_MAX + 80];
    struct statx st;
    cr_assert_eq(statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_INO | STATX_BTIME, &st), 0);
    snprintf(text, sizeof text, "%x.%x:%llx:%llx:%x:%s", st.stx_dev_major, st.stx_dev_minor,
             (unsigned long long)st.stx_ino, (unsigned long long)st.stx_btime.tv_sec,
             st.stx_btime.tv_nsec, path);
    record(TRACE_WRITE, path);
    record(TRACE_MADE, text);
}

Test(trace_log, an_output_is_the_file_that_the_run_made_and_no_input)
{
    char *out = file("a.o", "code"), *other = file("b.o", "poison");
    struct inputs in;
    cr_assert_eq(tool_add_output(&job, out, &e), 0, "%s", e.text);
    record_made(out);
    cr_assert_eq(read_trace(&in), 0, "%s", e.text);
    cr_expect_null(input_of(&in, out));
    inputs_close(&in);
    cr_assert_eq(rename(other, out), 0);
    cr_expect_eq(read_trace(&in), WARM_EREFUSED, "another process put its file there");
    tool_job_close(&job);
    free(out);
    free(other);
}

Test(trace_log, an_old_output_that_a_failure_leaves_is_no_ones)
{
    char *out = file("a.o", "old");
    struct inputs in;
    cr_assert_eq(tool_add_output(&job, out, &e), 0, "%s", e.text);
    cr_assert_eq(read_trace(&in), 0, "%s", e.text);
    inputs_close(&in);
    cr_expect_eq(
        inputs_from_trace(&job, NULL, trace.data, trace.len, (struct timespec){1, 0}, &in, &e),
        WARM_EREFUSED, "somebody wrote it since");
    tool_job_close(&job);
    free(out);
}

Test(trace_log, a_file_below_the_folder_is_refused_if_the_key_does_not_have_the_folder)
{
    char *header = file("a.h", "int a;\n");
    struct inputs in;
    job.keys_cwd = false;
    record(TRACE_READ, header);
    cr_expect_eq(read_trace(&in), WARM_EREFUSED);
    free(header);
}

Test(trace_log, a_file_that_changed_during_the_run_is_refused)
{
    char *header = file("a.h", "int a;\n");
    struct inputs in;
    record(TRACE_READ, header);
    cr_expect_eq(
        inputs_from_trace(&job, NULL, trace.data, trace.len, (struct timespec){1, 0}, &in, &e),
        WARM_EREFUSED);
    free(header);
}

Test(trace_log, a_source_that_the_trace_lacks_is_refused)
{
    char *source = file("a.c", "int a;\n");
    struct inputs in;
    job.sources[0] = source;
    job.n_sources = 1;
    cr_expect_eq(read_trace(&in), WARM_EREFUSED);
    record(TRACE_READ, source);
    cr_assert_eq(read_trace(&in), 0, "%s", e.text);
    inputs_close(&in);
    free(source);
}

Test(trace_log, a_cut_log_is_refused)
{
    char *header = file("a.h", "int a;\n");
    struct inputs in;
    record(TRACE_READ, header);
    for (size_t cut = 1; cut < 4; cut++) {
        trace.len--;
        cr_expect_eq(read_trace(&in), WARM_EREFUSED);
    }
    trace.len = 0;
    cr_expect_eq(read_trace(&in), WARM_EREFUSED, "an empty log: the first process did not begin");
    free(header);
}
