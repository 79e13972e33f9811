/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_result.c - the result of a compiler's run: what is kept of it, and what another folder gets. A result
 * that shows where it was made must not be kept.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/tool/result.h"
#include "tests/support/support.h"

/* One run in one folder, which is a root. */
struct place {
    struct tool_job job;
    struct compiler_run run;
    char *root, *object, *list;
};

static char *dir;
static struct place here, there;
static struct writer kept;
static struct err e;

static void open_place(struct place *p, const char *name)
{
    p->root = path_join(dir, name);
    cr_assert_eq(mkdir(p->root, 0700), 0);
    p->object = path_join(p->root, "m.o");
    p->list = path_join(p->root, "m.list");
    p->job = (struct tool_job){.family = "cc",
                               .program = "/usr/bin/gcc",
                               .cwd = "/nowhere",
                               .roots = {p->root},
                               .n_roots = 1,
                               .outputs = {p->object, p->list},
                               .n_outputs = 2};
    p->run = (struct compiler_run){.wait_status = 0};
    writer_init(&p->run.out, 0);
    writer_init(&p->run.err, 0);
}

static void close_place(struct place *p)
{
    compiler_run_close(&p->run);
    free(p->root), free(p->object), free(p->list);
}

static void up(void)
{
    dir = temp_dir_new();
    open_place(&here, "here");
    open_place(&there, "there-below");
    writer_init(&kept, 0);
}

static void down(void)
{
    writer_close(&kept);
    close_place(&here);
    close_place(&there);
    temp_dir_free(dir);
}
TestSuite(result, .init = up, .fini = down);

static void says(struct writer *to, const char *text) { writer_bytes(to, text, strlen(text)); }
static void leaves(const char *path, const char *text) { file_write(path, text, strlen(text)); }

/* Writes the result of the run here. */
static int keep(void)
{
    kept.len = 0;
    e.text[0] = '\0';
    return result_write(&here.job, &here.run, &kept, &e);
}

/* Replays the kept result for a job. Returns its status, and what it printed in *out. */
static int replay(const struct tool_job *job, char **out)
{
    struct result result;
    char *path = path_join(dir, "printed");
    size_t len;
    cr_assert_eq(result_read(kept.data, kept.len, &result, &e), 0, "%s", e.text);
    fflush(stdout);
    fflush(stderr);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600), old[2] = {dup(1), dup(2)};
    dup2(fd, 1), dup2(fd, 2);
    int status = result_replay(job, &result);
    dup2(old[0], 1), dup2(old[1], 2);
    close(fd), close(old[0]), close(old[1]);
    *out = file_read(path, &len);
    free(path);
    return status;
}

static void expect_file(const char *path, const char *want)
{
    size_t len;
    char *text = file_read(path, &len);
    cr_expect_str_eq(text, want);
    free(text);
}

/* ---- from one folder to another ---- */

Test(result, another_folder_gets_its_own_name)
{
    char text[2 * PATH_MAX], want[2 * PATH_MAX], *printed;
    snprintf(text, sizeof text, "%s/m.cc:1: error in %s\n%s2: no\n", here.root, here.root,
             here.root);
    snprintf(want, sizeof want, "noted\n%s/m.cc:1: error in %s\n%s2: no\n", there.root, there.root,
             here.root);
    says(&here.run.out, "noted\n");
    says(&here.run.err, text);
    here.run.wait_status = 3 << 8;
    leaves(here.object, "code");
    cr_assert_eq(chmod(here.object, 0700), 0);
    leaves(there.list, "an old one");
    here.run.before[1].is_there = true;
    cr_assert_eq(keep(), 0, "%s", e.text);
    cr_expect_eq(replay(&there.job, &printed), 3);
    cr_expect_str_eq(printed, want);
    expect_file(there.object, "code");
    cr_expect_eq(access(there.object, X_OK), 0);
    cr_expect_neq(access(there.list, F_OK), 0, "the run removed one");
    free(printed);
}

Test(result, a_signal_leaves_no_part_of_a_file)
{
    static char large[32 << 20];
    struct result result;
    file_write(here.object, large, sizeof large);
    cr_assert_eq(keep(), 0, "%s", e.text);
    cr_assert_eq(result_read(kept.data, kept.len, &result, &e), 0, "%s", e.text);
    for (int i = 0; i < 20; i++) {
        pid_t pid = fork();
        cr_assert_geq(pid, 0);
        if (pid == 0) {
            signal(SIGTERM, SIG_DFL);
            for (;;)
                result_replay(&there.job, &result);
        }
        usleep(5000 + 1000 * (useconds_t)i);
        kill(pid, SIGTERM);
        waitpid(pid, NULL, 0);
        char *part = NULL;
        cr_assert_gt(asprintf(&part, "%s.warm-%d", there.object, (int)pid), 0);
        cr_expect_neq(access(part, F_OK), 0);
        free(part);
    }
}

Test(result, what_a_failure_does_to_an_old_file_is_not_guessed)
{
    char *printed;
    here.run.wait_status = 1 << 8;
    cr_assert_eq(keep(), 0, "%s", e.text);
    leaves(there.object, "an old one");
    cr_expect_eq(replay(&there.job, &printed), -1);
    expect_file(there.object, "an old one");
    free(printed);
}

Test(result, an_old_file_that_a_failure_leaves_is_no_result)
{
    char *printed;
    leaves(here.object, "an old one");
    here.run.before[0] = output_state_of(here.object);
    here.run.wait_status = 1 << 8;
    cr_assert_eq(keep(), 0, "%s", e.text);
    cr_expect_eq(replay(&there.job, &printed), 1);
    cr_expect_neq(access(there.object, F_OK), 0);
    free(printed);
    leaves(there.object, "another old one");
    cr_expect_eq(replay(&there.job, &printed), 1);
    expect_file(there.object, "another old one");
    free(printed);
    here.run.wait_status = 0;
    cr_expect_eq(keep(), WARM_EREFUSED, "a success that wrote nothing");
}

Test(result, a_text_that_names_an_output_is_for_that_name)
{
    char *printed;
    here.job.n_roots = 0;
    here.job.outputs[0] = "m.o", here.job.n_outputs = 1;
    says(&here.run.err, "wrote m.o\n");
    cr_assert_eq(keep(), 0, "%s", e.text);
    here.job.outputs[0] = "n.o";
    cr_expect_eq(replay(&here.job, &printed), -1);
    cr_expect_str_eq(printed, "");
    free(printed);
    here.run.err.len = 0;
    says(&here.run.err, "wrote xm.o and m.obj\n");
    here.job.outputs[0] = "m.o";
    cr_assert_eq(keep(), 0, "%s", e.text);
    here.job.outputs[0] = "n.o";
    cr_expect_eq(replay(&here.job, &printed), 0, "those are other words");
    free(printed);
}

Test(result, a_file_that_cannot_be_replaced_leaves_all_as_it_was)
{
    char *printed, *names;
    says(&here.run.out, "hello\n");
    leaves(here.object, "code");
    cr_assert_eq(keep(), 0, "%s", e.text);
    leaves(there.object, "old");
    cr_assert_eq(chmod(there.object, 0700), 0); /* only the compiler knows if it stays so */
    cr_expect_eq(replay(&there.job, &printed), -1);
    cr_expect_str_eq(printed, "");
    expect_file(there.object, "old");
    free(printed);
    there.job.outputs[0] = "/dev/null/m.o";
    cr_expect_eq(replay(&there.job, &printed), -1);
    cr_expect_str_eq(printed, "");
    free(printed);
    cr_assert_eq(mkdir(there.list, 0600), 0); /* which no new file replaces */
    there.job.outputs[0] = there.list;
    cr_expect_eq(replay(&there.job, &printed), -1);
    free(printed);
    cr_assert_eq(run_command(&names, "ls -A %s", there.root), 0);
    cr_expect_str_eq(names, "m.list\nm.o\n");
    free(names);
}

/* ---- what must not be kept ---- */

Test(result, a_failure_that_may_pass_is_not_kept)
{
    static const struct {
        int wait_status;
        const char *text;
        int code;
    } rows[] = {
        {9, "", WARM_EREFUSED}, /* killed */
        {127 << 8, "", WARM_EREFUSED},
        {1 << 8, "cc1: out of memory allocating 8 bytes\n", WARM_EREFUSED},
        {1 << 8, "as: m.o: No space left on device\n", WARM_EREFUSED},
        {255 << 8, "ptxas fatal   : Failed to write to outp file 'k.cubin'\n", WARM_EREFUSED},
        {1 << 8, "collect2: fatal error: ld terminated with signal 9 [Killed]\n", WARM_EREFUSED},
        {254 << 8, "clang: error: unable to execute command: Killed\n", WARM_EREFUSED},
        {2 << 8, "nvcc error   : 'cicc' died due to signal 9 (Kill signal)\n", WARM_EREFUSED},
        {1 << 8, "m.cc:1: error: no\n", 0},
        {0, "m.cc:1: warning: out of memory\n", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        here.run.err.len = 0;
        says(&here.run.err, rows[i].text);
        here.run.wait_status = rows[i].wait_status;
        cr_expect_eq(keep(), rows[i].code, "%x %s: %s", rows[i].wait_status, rows[i].text, e.text);
    }
}

/* The reason of a failure is known by its English text. */
Test(result, a_failure_that_speaks_another_language_is_not_kept)
{
    static const struct {
        const char *all, *messages, *lang, *language;
        int code;
    } rows[] = {{NULL, NULL, NULL, NULL, 0},
                {NULL, NULL, "de_DE.UTF-8", NULL, WARM_EREFUSED},
                {NULL, "fr_FR", "C", NULL, WARM_EREFUSED},
                {"C", "fr_FR", "de_DE.UTF-8", "de", 0},
                {"", "", "en_US.UTF-8", NULL, 0},
                {NULL, NULL, "C.UTF-8", "en_GB:en", 0},
                {NULL, NULL, "en_US.UTF-8", "de:en", WARM_EREFUSED}};
    static const char *const names[] = {"LC_ALL", "LC_MESSAGES", "LANG", "LANGUAGE"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *values[] = {rows[i].all, rows[i].messages, rows[i].lang, rows[i].language};
        for (size_t k = 0; k < 4; k++)
            values[k] ? setenv(names[k], values[k], 1) : unsetenv(names[k]);
        here.run.wait_status = 1 << 8;
        cr_expect_eq(keep(), rows[i].code, "%zu: %s", i, e.text);
        here.run.wait_status = 0;
        cr_expect_eq(keep(), 0, "%zu: a success: %s", i, e.text);
    }
}

/* A compiler that catches the signal may end as if it had found an error. */
Test(result, a_run_that_got_a_signal_is_not_kept)
{
    here.run.got_signal = true;
    cr_expect_eq(keep(), WARM_EREFUSED);
    here.run.wait_status = 1 << 8;
    cr_expect_eq(keep(), WARM_EREFUSED);
}

Test(result, a_failure_without_the_folder_of_an_output_is_not_kept)
{
    char *object = path_join(dir, "none/m.o");
    here.job.outputs[0] = object;
    here.run.wait_status = 1 << 8;
    cr_expect_eq(keep(), WARM_EREFUSED);
    here.job.outputs[0] = "none-too/m.o";
    cr_expect_eq(keep(), WARM_EREFUSED);
    here.job.outputs[0] = "m.o";
    cr_expect_eq(keep(), 0, "%s", e.text);
    free(object);
}

Test(result, a_file_that_shows_its_folder_is_not_kept)
{
    char bytes[4 * PATH_MAX] = "xx";
    size_t len = strlen(here.root);
    for (size_t width = 1; width <= 4; width *= 2) {
        memset(bytes, 0, sizeof bytes);
        for (size_t i = 0; i < len; i++)
            bytes[2 + i * width] = here.root[i];
        file_write(here.object, bytes, 4 + len * width);
        cr_expect_eq(keep(), WARM_EREFUSED, "characters of %zu bytes", width);
    }
    leaves(here.object, here.root + 1);
    cr_expect_eq(keep(), 0, "a part of the name is no name");
}

/* The objects of a real compiler. */
Test(result, the_folder_may_show_in_debug_information_alone)
{
    static const char *const sources[] = {"int f(void) { return 1; }",
                                          "const char *f(void) { return __FILE__; }"};
    char *out;
    for (size_t i = 0; i < 3; i++) {
        char *source = path_join(here.root, "m.c");
        here.job.debug_shows = i < 2; /* of a generated source alone */
        leaves(source, sources[i % 2]);
        cr_assert_eq(run_command(&out, "gcc -g -c %s -o %s 2>&1", source, here.object), 0, "%s",
                     out);
        free(out);
        cr_assert_eq(run_command(&out, "grep -c %s %s", here.root, here.object), 0);
        free(out);
        cr_expect_eq(keep(), i ? WARM_EREFUSED : 0, "%s: %s", sources[i], e.text);
        free(source);
    }
}

Test(result, the_working_folder_shows_only_if_it_is_in_the_key)
{
    here.job.traced = true;
    leaves(here.object, "made in /nowhere");
    cr_expect_eq(keep(), WARM_EREFUSED);
    here.job.keys_cwd = true;
    cr_expect_eq(keep(), 0, "%s", e.text);
    here.job.keys_cwd = false;
    leaves(here.object, "code");
    says(&here.run.out, "/nowhere/m.cc\n");
    cr_expect_eq(keep(), WARM_EREFUSED, "in a text");
}

Test(result, a_text_with_the_mark_of_a_root_comes_back_as_it_is)
{
    char *printed;
    says(&here.run.out, "\1"
                        "0\1:\n");
    cr_assert_eq(keep(), 0, "%s", e.text);
    replay(&there.job, &printed);
    cr_expect_str_eq(printed, "\1"
                              "0\1:\n");
    free(printed);
}

/* ---- its bytes ---- */

Test(result, a_cut_or_longer_result_is_refused)
{
    struct result r;
    says(&here.run.out, "hello\n");
    leaves(here.object, "code");
    leaves(here.list, "");
    cr_assert_eq(keep(), 0, "%s", e.text);
    cr_assert_eq(result_read(kept.data, kept.len, &r, &e), 0);
    cr_expect_eq(r.n_files, 2);
    cr_expect(r.files[1].state == RESULT_FILE && r.files[1].data.len == 0);
    for (size_t len = 0; len < kept.len; len++) {
        uint8_t *cut = malloc(len ? len : 1); /* so that reading behind it shows */
        memcpy(cut, kept.data, len);
        cr_expect_neq(result_read(cut, len, &r, &e), 0, "%zu bytes", len);
        free(cut);
    }
    size_t state = (size_t)((const uint8_t *)r.files[1].data.data - kept.data) - 10;
    cr_assert_eq(kept.data[state], RESULT_FILE);
    kept.data[state] = RESULT_UNTOUCHED + 1;
    cr_expect_eq(result_read(kept.data, kept.len, &r, &e), WARM_EMALFORMED, "no such state");
    kept.data[state] = RESULT_FILE;
    writer_u8(&kept, 0);
    cr_expect_eq(result_read(kept.data, kept.len, &r, &e), WARM_EMALFORMED);
    kept.data[4] ^= 1;
    cr_expect_eq(result_read(kept.data, kept.len - 1, &r, &e), WARM_EVERSION);
}

Test(result, messages_of_ptxas_show_its_source_unless_they_are_infos)
{
    static const struct {
        const char *text;
        bool shows;
    } rows[] = {
        {"", false},
        {"ptxas info    : 0 bytes gmem\n", false},
        {"ptxas info    : Compiling entry function 'k' for 'sm_90'\n    0 bytes stack\n", false},
        {"ptxas warning : in k, line 7\n", true},
        {"ptxas info    : in k, line 7\n", true},
        {"other\n", true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        here.run.err.len = 0;
        says(&here.run.err, rows[i].text);
        cr_expect_eq(result_shows_source(&here.run), rows[i].shows, "%s", rows[i].text);
    }
    here.run.err.len = 0;
    here.run.wait_status = 1 << 8;
    cr_expect(result_shows_source(&here.run), "a failure");
}
