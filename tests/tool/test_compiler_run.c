/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_compiler_run.c - a real run of a program: its output is passed on and recorded, signals reach it,
 * its end is ours. The programs are shell scripts.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/tool/compiler_run.h"
#include "client/trace/trace.h"
#include "tests/support/support.h"

static char *dir, *out_path, *err_path;
static struct compiler_run run;
static struct err e;

static void open_as(int fd, const char *path)
{
    int file = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    cr_assert_geq(file, 0);
    cr_assert_eq(dup2(file, fd), fd);
    close(file);
}

static void up(void)
{
    dir = temp_dir_new();
    cr_assert_eq(chdir(dir), 0);
    out_path = path_join(dir, "out"), err_path = path_join(dir, "err");
    open_as(STDOUT_FILENO, out_path);
    open_as(STDERR_FILENO, err_path);
}

static void down(void)
{
    compiler_run_close(&run);
    free(out_path), free(err_path);
    temp_dir_free(dir);
}
TestSuite(compiler_run, .init = up, .fini = down, .timeout = 120);

static const struct compiler_watch nobody;

/* Runs a script; `given`: in place of the job's own arguments. */
static int run_script(const char *script, const char *given, bool traced)
{
    static char shell[] = "sh", option[] = "-c";
    char *argv[] = {shell, option, strdup(script), NULL},
         *others[] = {shell, option, strdup(given ? given : ""), NULL};
    struct tool_job job = {.program = "/bin/sh", .argv = argv, .argc = 3, .traced = traced};
    job.given = given ? others : NULL;
    int code = compiler_run_job(&job, &nobody, &run, &e);
    free(argv[2]), free(others[2]);
    return code;
}

static bool is_text(const struct writer *w, const char *want)
{
    return w->len == strlen(want) && memcmp(w->len ? (const char *)w->data : "", want, w->len) == 0;
}

static void expect_file(const char *path, const char *want)
{
    size_t len;
    char *text = file_read(path, &len);
    cr_expect_str_eq(text, want);
    free(text);
}

/* ---- output ---- */

Test(compiler_run, output_is_passed_on_and_recorded_each_by_itself)
{
    cr_assert_eq(run_script("echo out; echo err >&2; exit 3", NULL, false), 0, "%s", e.text);
    cr_expect(is_text(&run.out, "out\n") && is_text(&run.err, "err\n"));
    expect_file(out_path, "out\n");
    expect_file(err_path, "err\n");
    cr_expect_eq(compiler_run_end(&run), 3);
    cr_expect(!run.log && !run.log_len, "it was not traced");
}

Test(compiler_run, outputs_to_one_place_keep_their_order)
{
    dup2(STDOUT_FILENO, STDERR_FILENO);
    cr_assert_eq(run_script("echo a; echo b >&2; echo c", NULL, false), 0, "%s", e.text);
    cr_expect(is_text(&run.out, "a\nb\nc\n") && run.err.len == 0);
    expect_file(out_path, "a\nb\nc\n");
}

Test(compiler_run, output_of_other_arguments_is_held_until_it_is_shown)
{
    cr_assert_eq(run_script("echo never", "echo out; echo err >&2", false), 0, "%s", e.text);
    cr_expect(is_text(&run.out, "out\n") && is_text(&run.err, "err\n"));
    expect_file(out_path, "");
    expect_file(err_path, "");
    compiler_run_show(&run);
    expect_file(out_path, "out\n");
    expect_file(err_path, "err\n");
}

Test(compiler_run, output_above_the_limit_is_passed_on_and_not_kept)
{
    const unsigned n = (64u << 20) + 1;
    char script[64];
    struct stat st;
    snprintf(script, sizeof script, "head -c %u /dev/zero", n);
    cr_assert_eq(run_script(script, NULL, false), 0, "%s", e.text);
    cr_expect(run.out.failed && !run.err.failed);
    cr_assert_eq(stat(out_path, &st), 0);
    cr_expect_eq(st.st_size, n);
}

/* Opens a terminal of 100 columns as both outputs. Returns its other end. */
static int open_terminal(void)
{
    struct winsize size = {.ws_row = 24, .ws_col = 100};
    int ours = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    cr_assert(ours >= 0 && grantpt(ours) == 0 && unlockpt(ours) == 0);
    int theirs = open(ptsname(ours), O_RDWR | O_NOCTTY | O_CLOEXEC);
    cr_assert_geq(theirs, 0);
    cr_assert_eq(ioctl(theirs, TIOCSWINSZ, &size), 0);
    dup2(theirs, STDOUT_FILENO), dup2(theirs, STDERR_FILENO);
    close(theirs);
    return ours;
}

Test(compiler_run, on_a_terminal_the_compiler_has_one_of_the_same_width)
{
    int terminal = open_terminal();
    int code = run_script("test -t 1 && test -t 2 && stty size <&1 && exit 9", NULL, false);
    close(terminal);
    cr_assert_eq(code, 0, "%s", e.text);
    cr_expect(is_text(&run.out, "24 100\n"), "%.*s", (int)run.out.len, (char *)run.out.data);
    cr_expect_eq(compiler_run_end(&run), 9);
}

/* ---- its progress ---- */

static void count(void *arg) { ++*(unsigned *)arg; }

/* Returns how often a watcher hears of progress while a script runs. */
static unsigned progress_of(const char *script)
{
    static char shell[] = "sh", option[] = "-c";
    unsigned n = 0;
    char *argv[] = {shell, option, strdup(script), NULL};
    struct tool_job job = {.program = "/bin/sh", .argv = argv, .argc = 3};
    struct compiler_watch watch = {count, &n, 50};
    cr_assert_eq(compiler_run_job(&job, &watch, &run, &e), 0, "%s", e.text);
    cr_expect_eq(run.wait_status, 0);
    compiler_run_close(&run);
    free(argv[2]);
    return n;
}

Test(compiler_run, a_program_that_works_makes_progress_and_one_that_waits_makes_none)
{
    const char *busy = "timeout 1 sh -c 'while :; do :; done'; exit 0";
    cr_expect_geq(progress_of(busy), 4, "a process below the compiler works");
    cr_expect_leq(progress_of("sleep 1; exit 0"), 3, "only its start counts");
    cr_expect_leq(progress_of("timeout 2 sh -c 'kill -STOP $$; :'; exit 0"), 3, "it is stopped");
}

/* ---- its end ---- */

Test(compiler_run, a_program_that_cannot_be_executed_ends_as_in_a_shell)
{
    static char name[] = "x";
    char *argv[] = {name, NULL}, *file = path_join(dir, "file");
    struct tool_job job = {.argv = argv, .argc = 1};
    file_write(file, "", 0);
    job.program = file;
    cr_assert_eq(compiler_run_job(&job, &nobody, &run, &e), 0);
    cr_expect_eq(compiler_run_end(&run), 126);
    compiler_run_close(&run);
    job.program = "/nonexistent/cc";
    cr_assert_eq(compiler_run_job(&job, &nobody, &run, &e), 0);
    cr_expect_eq(compiler_run_end(&run), 127);
    free(file);
}

Test(compiler_run, if_the_compiler_dies_of_a_signal_so_do_we)
{
    int status;
    cr_assert_eq(run_script("kill -KILL $$", NULL, false), 0, "%s", e.text);
    pid_t pid = fork();
    if (pid == 0)
        _exit(compiler_run_end(&run));
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void wait_for_file(const char *path)
{
    for (int i = 0; i < 6000 && access(path, F_OK) != 0; i++)
        usleep(10000);
    cr_assert_eq(access(path, F_OK), 0, "%s", path);
}

Test(compiler_run, a_signal_to_us_goes_to_the_compiler_which_cleans_up)
{
    static const char script[] = "trap 'echo cleaned; exit 7' TERM; >ready\n"
                                 "while :; do sleep 0.01; done";
    char *ready = path_join(dir, "ready");
    int status;
    pid_t pid = fork();
    if (pid == 0)
        _exit(run_script(script, NULL, false) == 0 && run.got_signal ? compiler_run_end(&run) : 99);
    wait_for_file(ready);
    kill(pid, SIGTERM);
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 7, "%x", (unsigned)status);
    expect_file(out_path, "cleaned\n");
    free(ready);
}

Test(compiler_run, a_signal_that_we_ignore_stays_ignored)
{
    struct sigaction now;
    signal(SIGHUP, SIG_IGN);
    cr_assert_eq(run_script("kill -HUP $$; echo alive", NULL, false), 0, "%s", e.text);
    cr_expect(is_text(&run.out, "alive\n"), "as under nohup");
    sigaction(SIGHUP, NULL, &now);
    cr_expect_eq(now.sa_handler, SIG_IGN);
    sigaction(SIGTERM, NULL, &now);
    cr_expect_eq(now.sa_handler, SIG_DFL, "from now on a signal is ours again");
}

Test(compiler_run, the_compiler_knows_that_it_runs_under_the_tool)
{
    setenv("LD_PRELOAD", "", 1);
    cr_assert_eq(run_script("echo $WARM_TOOL_ACTIVE-$LD_PRELOAD-$WARM_TRACE", NULL, false), 0);
    cr_expect(is_text(&run.out, "1--\n"), "%.*s", (int)run.out.len, (char *)run.out.data);
}

/* ---- traced ---- */

static bool can_trace(void)
{
    char *library = bin_path("../libexec/warm/libwarm-trace.so");
    bool can = access(library, R_OK) == 0;
    free(library);
    return can;
}

Test(compiler_run, a_traced_run_tells_its_files)
{
    if (!can_trace())
        cr_skip_test("this build has no libwarm-trace.so");
    cr_assert_eq(run_script("read x <in && echo $x >made", NULL, true), 0, "%s", e.text);
    cr_expect_neq(compiler_run_end(&run), 0);
    cr_assert_not_null(run.log);
    cr_expect_eq(run.log[0], TRACE_BEGIN);
    cr_expect_not_null(memmem(run.log, run.log_len, "Ain", 4), "it looked for a file in vain");
    compiler_run_close(&run);
    cr_expect(!run.log && !run.log_len);
    char *in = path_join(dir, "in");
    file_write(in, "x\n", 2);
    cr_assert_eq(run_script("read x <in && echo $x >made", NULL, true), 0, "%s", e.text);
    cr_expect_eq(compiler_run_end(&run), 0);
    cr_expect_not_null(memmem(run.log, run.log_len, "Rin", 4));
    cr_expect_not_null(memmem(run.log, run.log_len, "Wmade", 6));
    free(in);
}

static bool is_before(struct timespec a, struct timespec b)
{
    return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

/* By that a file that changes during a run is told from one that was there. */
Test(compiler_run, files_before_a_traced_run_are_older_than_its_start)
{
    char *before = path_join(dir, "before"), *during = path_join(dir, "during");
    struct stat st;
    if (!can_trace())
        cr_skip_test("this build has no libwarm-trace.so");
    for (int i = 0; i < 20; i++) {
        file_write(before, "", 0);
        cr_assert_eq(run_script(">during", NULL, true), 0, "%s", e.text);
        cr_assert_eq(stat(before, &st), 0);
        cr_expect(is_before(st.st_mtim, run.started), "round %d", i);
        cr_assert_eq(stat(during, &st), 0);
        cr_expect_not(is_before(st.st_mtim, run.started), "round %d", i);
        compiler_run_close(&run);
        unlink(before), unlink(during);
    }
    free(before), free(during);
}

Test(compiler_run, the_users_preloaded_libraries_stay)
{
    if (!can_trace())
        cr_skip_test("this build has no libwarm-trace.so");
    setenv("LD_PRELOAD", "libm.so.6:/x/libwarm-preload.so", 1);
    cr_assert_eq(run_script("echo $LD_PRELOAD", NULL, true), 0, "%s", e.text);
    writer_u8(&run.out, 0);
    char *list = (char *)run.out.data, *name = strstr(list, "/libexec/warm/libwarm-trace.so");
    cr_assert_not_null(name, "%s", list);
    cr_expect_str_eq(name + strlen("/libexec/warm/libwarm-trace.so"), ":libm.so.6\n");
}

Test(compiler_run, without_the_library_a_traced_job_does_not_start)
{
    if (can_trace())
        cr_skip_test("this build has libwarm-trace.so");
    cr_expect_eq(run_script(">made", NULL, true), WARM_ENOT_FOUND, "%s", e.text);
    cr_expect_neq(access("made", F_OK), 0);
}
