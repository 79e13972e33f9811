/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_run.c - `warm run` with real processes: what a shell, a terminal and a program see of it,
 * and the daemon that it starts. Each test has a socket and a store of its own, and stops what
 * listens there.
 */
#include "tests/support/warmd.h"

#include <pty.h>
#include <sys/syscall.h>

#define NOBODY 65534

/* ---- a place of its own ---- */

struct place {
    struct warmd k;
    char *warm, *preload;
};

static struct place place_new(void)
{
    struct place p = {.k = warmd_new(), .warm = bin_path("warm")};
    cr_assert_geq(asprintf(&p.preload, "%.*slib/libwarm-preload.so",
                           (int)(strlen(p.warm) - strlen("bin/warm")), p.warm),
                  0);
    setenv("WARM_SOCKET", p.k.socket, 1);
    setenv("WARM_STORE", p.k.store, 1);
    unsetenv("WARM_SESSION");
    unsetenv("WARM_DISABLE");
    unsetenv("LD_PRELOAD");
    return p;
}

/* Who listens at the socket; 0: nobody. */
static pid_t daemon_pid(const struct place *p)
{
    struct ucred who = {0};
    socklen_t len = sizeof who;
    int fd = warmd_try_connect(p->k.socket);
    if (fd < 0)
        return 0;
    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len);
    close(fd);
    return who.pid;
}

static void end_daemon(pid_t pid, int signum)
{
    struct pollfd ended = {(int)syscall(SYS_pidfd_open, pid, 0), POLLIN, 0};
    cr_assert_geq(ended.fd, 0);
    kill(pid, signum);
    int n = poll(&ended, 1, WARMD_WAIT_MS);
    kill(pid, SIGKILL);
    close(ended.fd);
    cr_assert_eq(n, 1, "the daemon does not end");
}

static void place_free(struct place *p)
{
    pid_t pid = p->k.pid ? 0 : daemon_pid(p);
    if (pid)
        end_daemon(pid, SIGTERM);
    free(p->warm);
    free(p->preload);
    if (p->k.pid)
        warmd_down(&p->k);
    else
        warmd_free(&p->k);
}

static bool has_preload(const struct place *p)
{
    if (access(p->preload, R_OK) == 0)
        return true;
    fprintf(stderr, "skipped: %s is not built with sanitizers\n", p->preload);
    return false;
}

/* After a test that failed half-way its daemon still runs. */
static void sweep(void)
{
    struct ucred who;
    socklen_t len = sizeof who;
    const char *socket = getenv("WARM_SOCKET");
    int fd = socket ? warmd_try_connect(socket) : -1;
    if (fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0)
        kill(who.pid, SIGKILL);
}

TestSuite(run, .fini = sweep);

/* `warm run ARGUMENTS` through a shell: *out has what came out, errors too. The exit status. */
static int run(const struct place *p, char **out, const char *arguments)
{
    return run_command(out, "exec 2>&1; %s run %s", p->warm, arguments);
}

static void expect(const struct place *p, const char *arguments, int status, const char *output)
{
    char *out;
    int got = run(p, &out, arguments);
    cr_assert_eq(got, status, "warm run %s: %d, not %d: %s", arguments, got, status, out);
    cr_assert_str_eq(out, output, "warm run %s", arguments);
    free(out);
}

/* A process with its standard output in a pipe. */
struct child {
    pid_t pid;
    int out;
};

static struct child spawn(char *const *argv)
{
    int ends[2];
    cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setpgid(0, 0);
        dup2(ends[1], 1);
        execv(argv[0], argv);
        _exit(99);
    }
    setpgid(pid, pid);
    close(ends[1]);
    return (struct child){pid, ends[0]};
}

/* Reads until a line feed. False at the end. */
static bool read_line(int fd, char out[256])
{
    size_t n = 0;
    char c = 0;
    while (n < 255 && c != '\n') {
        struct pollfd p = {fd, POLLIN, 0};
        cr_assert_eq(poll(&p, 1, WARMD_WAIT_MS), 1, "nothing comes");
        if (read(fd, &c, 1) != 1)
            break;
        if (c != '\n' && c != '\r')
            out[n++] = c;
    }
    out[n] = '\0';
    return n > 0 || c == '\n';
}

static void expect_line(int fd, const char *line)
{
    char got[256];
    read_line(fd, got);
    cr_assert_str_eq(got, line);
}

/* With and without --report. */
#define MODES for (int report = 0; report < 2; report++)

static char **program_of(const struct place *p, bool report, const char *file, const char *code)
{
    static char *argv[8];
    size_t n = 0;
    argv[n++] = p->warm;
    argv[n++] = (char *)(uintptr_t) "run";
    if (report)
        argv[n++] = (char *)(uintptr_t) "--report";
    argv[n++] = (char *)(uintptr_t)file;
    argv[n++] = (char *)(uintptr_t) "-c";
    argv[n++] = (char *)(uintptr_t)code;
    argv[n] = NULL;
    return argv;
}

/* ---- status and streams ---- */

Test(run, exit_status_is_the_programs)
{
    struct place p = place_new();
    expect(&p, "sh -c 'exit 7'", 7, "");
    expect(&p, "-- sh -c 'echo out; echo err >&2'", 0, "out\nerr\n");
    expect(&p, "--report sh -c 'exit 7' 2>/dev/null", 7, "");
    place_free(&p);
}

Test(run, program_that_is_not_there_is_127_and_one_that_cannot_run_126)
{
    struct place p = place_new();
    expect(&p, "no-such-program", 127, "warm: no-such-program: No such file or directory\n");
    expect(&p, "/etc/passwd", 126, "warm: /etc/passwd: Permission denied\n");
    expect(&p, "--report no-such-program 2>/dev/null", 127, "");
    expect(&p, "2>/dev/null", 2, "");
    place_free(&p);
}

Test(run, death_by_a_signal_is_the_programs)
{
    struct place p = place_new();
    MODES
    {
        struct child c = spawn(program_of(&p, report, "/bin/sh", "kill -USR2 $$"));
        int status = warmd_reap(c.pid);
        cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR2, "%x", status);
        close(c.out);
    }
    place_free(&p);
}

Test(run, leaves_no_process_in_between)
{
    struct place p = place_new();
    struct child c = spawn(program_of(&p, false, "/bin/sh", "echo $$"));
    char pid[256], want[32];
    read_line(c.out, pid);
    snprintf(want, sizeof want, "%d", (int)c.pid);
    cr_assert_str_eq(pid, want);
    cr_assert_eq(warmd_reap(c.pid), 0);
    close(c.out);
    place_free(&p);
}

Test(run, input_and_output_are_untouched)
{
    struct place p = place_new();
    char *out;
    MODES
    {
        int status = run_command(&out,
                                 "head -c 300000 /dev/urandom >'%s/in' && %s run %s cat <'%s/in' "
                                 "2>/dev/null | cmp - '%s/in'",
                                 p.k.dir, p.warm, report ? "--report" : "", p.k.dir, p.k.dir);
        cr_assert_eq(status, 0, "%s", out);
        free(out);
    }
    place_free(&p);
}

/* ---- signals ---- */

/* Counts a queueing signal until none comes any more. */
static const char counter[] = "import signal, os\n"
                              "S = {signal.SIGRTMIN + 1}\n"
                              "signal.pthread_sigmask(signal.SIG_BLOCK, S)\n"
                              "print('ready', flush=True)\n"
                              "n, wait = 0, 20\n"
                              "while signal.sigtimedwait(S, wait):\n"
                              "    n, wait = n + 1, 0.3\n"
                              "print(n, flush=True)\n";

Test(run, signal_to_the_process_reaches_the_program_once)
{
    struct place p = place_new();
    MODES
    {
        struct child c = spawn(program_of(&p, report, "/usr/bin/python3", counter));
        expect_line(c.out, "ready");
        kill(c.pid, SIGRTMIN + 1);
        expect_line(c.out, "1");
        cr_assert_eq(warmd_reap(c.pid), 0);
        close(c.out);
    }
    place_free(&p);
}

Test(run, signal_to_the_group_reaches_the_program_once)
{
    struct place p = place_new();
    MODES
    {
        struct child c = spawn(program_of(&p, report, "/usr/bin/python3", counter));
        expect_line(c.out, "ready");
        kill(-c.pid, SIGRTMIN + 1);
        expect_line(c.out, "1");
        cr_assert_eq(warmd_reap(c.pid), 0);
        close(c.out);
    }
    place_free(&p);
}

/* ---- a terminal ---- */

/* A shell of sorts: has a terminal, runs one job in its foreground, tells of each change of the
 * job, and continues it when it is told to. */
struct terminal {
    pid_t shell;
    int tty;     /* our end */
    int control; /* the statuses of the job come; a byte continues it */
};

static _Noreturn void be_shell(int control, char *const *argv)
{
    int status = 0;
    char byte;
    signal(SIGTTOU, SIG_IGN);
    pid_t job = fork();
    if (job == 0) {
        setpgid(0, 0);
        tcsetpgrp(0, getpid());
        signal(SIGTTOU, SIG_DFL);
        execv(argv[0], argv);
        _exit(99);
    }
    setpgid(job, job);
    tcsetpgrp(0, job);
    while (waitpid(job, &status, WUNTRACED) == job) {
        tcsetpgrp(0, getpid());
        if (write(control, &status, sizeof status) != sizeof status || !WIFSTOPPED(status))
            break;
        if (read(control, &byte, 1) != 1)
            break;
        tcsetpgrp(0, job);
        kill(-job, SIGCONT);
    }
    kill(-job, SIGKILL);
    _exit(0);
}

static struct terminal terminal_new(char *const *argv)
{
    struct terminal t;
    int ends[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    t.shell = forkpty(&t.tty, NULL, NULL, NULL);
    cr_assert_geq(t.shell, 0);
    if (t.shell == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        signal(SIGINT, SIG_DFL); /* tests in the background of a script ignore it */
        be_shell(ends[1], argv);
    }
    close(ends[1]);
    t.control = ends[0];
    return t;
}

static int terminal_status(const struct terminal *t)
{
    int status;
    cr_assert(warmd_recv(t->control, &status, sizeof status), "the shell is gone");
    return status;
}

static void terminal_free(struct terminal *t)
{
    close(t->control);
    close(t->tty);
    warmd_reap(t->shell);
}

static void type(const struct terminal *t, char key) { cr_assert_eq(write(t->tty, &key, 1), 1); }

/* Skips the terminal's echo. */
static void await_line(const struct terminal *t, const char *line)
{
    char got[256];
    do
        cr_assert(read_line(t->tty, got), "the terminal ended before \"%s\"", line);
    while (!strstr(got, line));
}

Test(run, ctrl_c_interrupts_the_program)
{
    struct place p = place_new();
    MODES
    {
        struct terminal t = terminal_new(program_of(
            &p, report, "/bin/sh", "trap 'echo caught; exit 5' INT; echo ready; sleep 30 & wait"));
        await_line(&t, "ready");
        type(&t, 3);
        await_line(&t, "caught");
        int status = terminal_status(&t);
        cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 5, "%x", status);
        terminal_free(&t);
    }
    place_free(&p);
}

Test(run, ctrl_c_kills_a_program_that_does_not_mind_it)
{
    struct place p = place_new();
    MODES
    {
        struct terminal t =
            terminal_new(program_of(&p, report, "/bin/sh", "echo ready; exec sleep 30"));
        await_line(&t, "ready");
        type(&t, 3);
        int status = terminal_status(&t);
        cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT, "%x", status);
        terminal_free(&t);
    }
    place_free(&p);
}

Test(run, ctrl_z_stops_the_job_and_it_goes_on_in_the_foreground)
{
    struct place p = place_new();
    MODES
    {
        struct terminal t = terminal_new(
            program_of(&p, report, "/bin/sh", "echo ready; read line; echo got $line; exit 6"));
        await_line(&t, "ready");
        type(&t, 26);
        int status = terminal_status(&t);
        cr_assert(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTSTP, "%x", status);
        type(&t, 'x');
        cr_assert_eq(write(t.control, "c", 1), 1);
        type(&t, 'y');
        type(&t, '\n');
        await_line(&t, "got xy");
        status = terminal_status(&t);
        cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 6, "%x", status);
        terminal_free(&t);
    }
    place_free(&p);
}

/* ---- the environment ---- */

Test(run, program_has_what_it_needs)
{
    struct place p = place_new();
    char *out, *want;
    cr_assert_eq(run(&p, &out, "sh -c 'echo $WARM_SOCKET $WARM_EXE ${#WARM_SESSION}'"), 0);
    cr_assert_geq(asprintf(&want, "%s %s 16\n", p.k.socket, p.warm), 0);
    cr_assert_str_eq(out, want);
    free(out);
    free(want);
    place_free(&p);
}

Test(run, library_that_programs_cannot_load_is_left_out)
{
    struct place p = place_new();
    char *out, *want;
    const char *dir = p.k.dir;
    if (has_preload(&p)) {
        cr_assert_eq(
            run_command(&out,
                        "exec 2>&1; cd %s && mkdir -p other/bin other/lib && cp %s other/bin/ && "
                        "echo 'no library' >other/lib/libwarm-preload.so && "
                        "%s run true && other/bin/warm run sh -c 'echo \"[$LD_PRELOAD]\"'",
                        dir, p.warm, p.warm),
            0, "%s", out);
        cr_assert_geq(asprintf(&want,
                               "warm: programs here cannot load %s/other/lib/libwarm-preload.so: "
                               "running without it: ERROR: ld.so: ",
                               dir),
                      0);
        cr_assert_eq(strncmp(out, want, strlen(want)), 0, "%s", out);
        cr_assert_str_eq(strchr(out, '\n'), "\n[]\n", "one line, and the program runs: %s", out);
        free(out);
        free(want);
    }
    place_free(&p);
}

Test(run, what_the_user_loads_before_is_kept)
{
    struct place p = place_new();
    char *out, *want;
    if (has_preload(&p)) {
        setenv("LD_PRELOAD", "libm.so.6", 1);
        cr_assert_eq(run(&p, &out, "sh -c 'echo $LD_PRELOAD'"), 0);
        cr_assert_geq(asprintf(&want, "%s:libm.so.6\n", p.preload), 0);
        cr_assert_str_eq(out, want);
        free(out);
        free(want);
        cr_assert_eq(run_command(&out, "%s run %s run sh -c 'echo $LD_PRELOAD'", p.warm, p.warm),
                     0);
        cr_assert_geq(asprintf(&want, "%s:libm.so.6\n", p.preload), 0);
        cr_assert_str_eq(out, want, "one in the other is one");
        free(out);
        free(want);
        unsetenv("LD_PRELOAD");
    }
    place_free(&p);
}

/* A variable that is not ours changes the keys of somebody's cache: CXX, XLA_FLAGS, a folder. */
Test(run, no_other_variable_is_touched)
{
    struct place p = place_new();
    char *with, *without;
    static const char others[] = "grep -vE '^(_|WARM_[A-Z]*|LD_PRELOAD|PYTHONPATH|TRITON_CACHE_"
                                 "MANAGER|TORCHINDUCTOR_REDIS_URL|TORCH[A-Z_]*_REMOTE_(CACHE|PGO))="
                                 "' | sort";
    cr_assert_eq(run_command(&without, "env | %s", others), 0);
    cr_assert_eq(run_command(&with, "%s run env | %s", p.warm, others), 0);
    cr_assert_str_eq(with, without);
    free(with);
    free(without);
    place_free(&p);
}

Test(run, static_and_setuid_programs_run_as_they_do_without)
{
    struct place p = place_new();
    char *out;
    cr_assert_eq(run_command(&out,
                             "exec 2>&1; cd %s && printf 'int main(void) { return 9; }' >s.c && cc "
                             "-static -o s s.c && %s run ./s",
                             p.k.dir, p.warm),
                 9, "%s", out);
    cr_assert_str_eq(out, "");
    free(out);
    if (two_users_can_be()) { /* a program that changes its user by itself */
        cr_assert_eq(
            run_command(&out,
                        "exec 2>&1; cd %s && cp /usr/bin/id u && chown %d u && chmod u+s u "
                        "&& chmod 755 . && %s run ./u -u",
                        p.k.dir, NOBODY, p.warm),
            0, "%s", out);
        cr_assert_str_eq(out, "65534\n");
        free(out);
    }
    place_free(&p);
}

Test(run, children_inherit_it_however_they_are_made)
{
    static const char script[] =
        "import multiprocessing as m, os, subprocess as s, sys\n"
        "def show(q): q.put((os.environ['WARM_SESSION'], os.environ.get('LD_PRELOAD')))\n"
        "if __name__ == '__main__':\n"
        "    have = (os.environ['WARM_SESSION'], os.environ.get('LD_PRELOAD'))\n"
        "    for how in ('spawn', 'fork'):\n"
        "        c = m.get_context(how)\n"
        "        q = c.SimpleQueue()\n"
        "        p = c.Process(target=show, args=(q,))\n"
        "        p.start()\n"
        "        assert q.get() == have, how\n"
        "        p.join()\n"
        "    for shell, what in ((False, ['sh', '-c', 'echo $WARM_SESSION']),\n"
        "                        (True, 'echo $WARM_SESSION')):\n"
        "        assert s.check_output(what, shell=shell, text=True).strip() == have[0]\n"
        "    print('all')\n";
    struct place p = place_new();
    char *path = path_join(p.k.dir, "children.py"), *out;
    file_write(path, script, strlen(script));
    cr_assert_eq(run_command(&out, "%s run python3 %s 2>&1", p.warm, path), 0, "%s", out);
    cr_assert_str_eq(out, "all\n");
    free(out);
    free(path);
    place_free(&p);
}

Test(run, disabled_changes_nothing)
{
    struct place p = place_new();
    char *with, *without;
    setenv("WARM_DISABLE", "1", 1);
    cr_assert_eq(run_command(&without, "env | grep -v ^_= | sort"), 0);
    cr_assert_eq(run_command(&with, "%s run env 2>&1 | grep -v ^_= | sort", p.warm), 0);
    cr_assert_str_eq(with, without);
    cr_assert_eq(daemon_pid(&p), 0, "and starts nothing");
    free(with);
    free(without);
    unsetenv("WARM_DISABLE");
    place_free(&p);
}

/* ---- the daemon ---- */

Test(run, starts_a_daemon_that_is_no_part_of_the_job)
{
    struct place p = place_new();
    char name[64], target[512], *kept = path_join(p.k.dir, "kept-open");
    file_write(kept, "x", 1);
    int inherited = open(kept, O_RDONLY); /* not close-on-exec */
    expect(&p, "true", 0, "");
    pid_t pid = daemon_pid(&p);
    cr_assert_gt(pid, 0);
    cr_assert_neq(getsid(pid), getsid(0));
    cr_assert_neq(getpgid(pid), getpgid(0));
    for (int fd = 0; fd < 64; fd++) {
        snprintf(name, sizeof name, "/proc/%d/fd/%d", (int)pid, fd);
        ssize_t len = readlink(name, target, sizeof target - 1);
        target[len > 0 ? len : 0] = '\0';
        cr_assert_str_neq(target, kept, "descriptor %d is the job's", fd);
        if (fd < 2)
            cr_assert_str_eq(target, "/dev/null");
    }
    close(inherited);
    free(kept);
    place_free(&p);
}

Test(run, does_not_start_one_if_told_so)
{
    struct place p = place_new();
    char *out;
    cr_assert_eq(run(&p, &out, "--no-start sh -c 'echo $WARM_EXE; exit 3'"), 3);
    cr_assert_not_null(strstr(out, "no daemon answers at "), "%s", out);
    cr_assert_not_null(strstr(out, "\n\n"), "nothing is set: %s", out);
    free(out);
    cr_assert_eq(daemon_pid(&p), 0);
    place_free(&p);
}

Test(run, starts_at_once_give_one_daemon)
{
    enum { N = 8 };
    struct place p = place_new();
    char *argv[] = {p.warm, (char *)(uintptr_t) "run", (char *)(uintptr_t) "true", NULL};
    struct child c[N];
    for (size_t i = 0; i < N; i++)
        c[i] = spawn(argv);
    for (size_t i = 0; i < N; i++) {
        cr_assert_eq(warmd_reap(c[i].pid), 0);
        close(c[i].out);
    }
    char *log = path_join(p.k.dir, "warmd.sock.log");
    size_t len, n_ready = 0;
    char *text = file_read(log, &len);
    for (uint64_t end = clock_now_ms() + WARMD_WAIT_MS; !strstr(text, "ready on");) {
        cr_assert_lt(clock_now_ms(), end, "%s", text); /* it listens, and then says so */
        poll(NULL, 0, 1);
        free(text);
        text = file_read(log, &len);
    }
    for (const char *at = text; (at = strstr(at, "ready on")); at++)
        n_ready++;
    cr_assert_eq(n_ready, 1, "%s", text);
    cr_assert_null(strstr(text, "another"), "%s", text);
    free(text);
    free(log);
    place_free(&p);
}

Test(run, daemon_that_cannot_start_leaves_the_program_alone)
{
    struct place p = place_new();
    char *out;
    file_write(p.k.store, "no folder", 9);
    cr_assert_eq(run(&p, &out, "sh -c 'echo [$WARM_EXE]; exit 3'"), 3, "%s", out);
    cr_assert_not_null(strstr(out, "no daemon could be started at "), "%s", out);
    cr_assert_not_null(strstr(out, "store: "), "it says why: %s", out);
    cr_assert_not_null(strstr(out, "[]"), "%s", out);
    free(out);
    place_free(&p);
}

Test(run, daemon_that_hangs_holds_nobody_up)
{
    struct place p = place_new();
    warmd_start(&p.k, NULL);
    kill(p.k.pid, SIGSTOP);
    char *out;
    expect(&p, "sh -c 'exit 3'", 3, "");
    cr_assert_eq(run_command(&out, "exec 2>&1; WARM_TIMEOUT_MS=50 %s run %s get name -o /dev/null",
                             p.warm, p.warm),
                 3, "%s", out);
    free(out);
    kill(p.k.pid, SIGCONT);
    place_free(&p);
}

Test(run, daemon_that_is_killed_in_the_middle_changes_no_status)
{
    struct place p = place_new();
    char *out;
    expect(&p, "true", 0, "");
    pid_t pid = daemon_pid(&p);
    cr_assert_gt(pid, 0);
    cr_assert_eq(run_command(&out, "exec 2>&1; %s run --report sh -c 'kill -9 %d; exit 4'", p.warm,
                             (int)pid),
                 4);
    cr_assert_not_null(strstr(out, "warm: "), "it says that there is nothing to report: %s", out);
    free(out);
    for (int i = 0; i < 5000 && kill(pid, 0) == 0; i++)
        usleep(1000); /* a process that was killed may still listen for a moment */
    expect(&p, "sh -c 'exit 5'", 5, "");
    cr_assert_neq(daemon_pid(&p), pid, "the next run starts another");
    place_free(&p);
}

/* Listens at the place's socket as another user, until it is killed. */
static pid_t strange_listener(const struct place *p)
{
    int ready[2];
    char byte = 0;
    cr_assert_eq(chown(p->k.dir, NOBODY, NOBODY), 0);
    cr_assert_eq(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        snprintf(a.sun_path, sizeof a.sun_path, "%s", p->k.socket);
        if (setgid(NOBODY) == 0 && setuid(NOBODY) == 0 &&
            bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(fd, 8) == 0)
            byte = 1;
        if (write(ready[1], &byte, 1) == 1)
            pause();
        _exit(0);
    }
    close(ready[1]);
    cr_assert(read(ready[0], &byte, 1) == 1 && byte == 1, "the other user cannot listen");
    close(ready[0]);
    return pid;
}

Test(run, socket_of_another_user_is_refused)
{
    NEEDS_TWO_USERS();
    struct place p = place_new();
    char *out;
    pid_t stranger = strange_listener(&p);
    cr_assert_eq(run(&p, &out, "sh -c 'echo [$WARM_EXE]; exit 3'"), 3);
    cr_assert_not_null(strstr(out, "belongs to another user (uid 65534): not used\n"), "%s", out);
    cr_assert_not_null(strstr(out, "[]"), "nothing is set: %s", out);
    free(out);
    kill(stranger, SIGKILL);
    warmd_reap(stranger);
    unlink(p.k.socket);
    place_free(&p);
}

/* The daemon is ours, but another user could put a socket of theirs in its place at any time. */
Test(run, daemon_in_a_folder_that_others_may_write_is_refused)
{
    struct place p = place_new();
    char *out;
    cr_assert_eq(run(&p, &out, "sh -c 'echo [$WARM_EXE]'"), 0);
    cr_assert_null(strstr(out, "[]"), "it is used: %s", out);
    free(out);
    cr_assert_eq(chmod(p.k.dir, 0777), 0);
    cr_assert_eq(run(&p, &out, "sh -c 'echo [$WARM_EXE]; exit 3'"), 3);
    cr_assert_not_null(strstr(out, "can be written by other users"), "%s", out);
    cr_assert_not_null(strstr(out, "[]"), "nothing is set: %s", out);
    free(out);
    cr_assert_eq(chmod(p.k.dir, 0700), 0);
    place_free(&p);
}

/* ---- the report ---- */

Test(run, report_has_what_all_children_asked)
{
    struct place p = place_new();
    char *out, *value = path_join(p.k.dir, "value");
    file_write(value, "value", 5);
    cr_assert_eq(run_command(&out,
                             "exec 2>&1; %s run --report sh -c '%s put one %s --cost-ms 2500; "
                             "%s get one -o /dev/null; (%s get one -o /dev/null); "
                             "%s get two -o /dev/null'",
                             p.warm, p.warm, value, p.warm, p.warm, p.warm),
                 1);
    cr_assert_not_null(
        strstr(out, "warm: asked 3: 2 hits, 0 coalesced, 1 miss; saved at least 2.50 s (session "),
        "%s", out);
    free(out);
    cr_assert_eq(run_command(&out, "exec 2>&1; WARM_SESSION=mine %s run --report true", p.warm), 0);
    cr_assert_str_eq(out, "warm: nothing was asked (session mine)\n");
    free(out);
    free(value);
    place_free(&p);
}

/* Runs a command on a pseudo-terminal; returns what it wrote. */
static char *on_terminal(const char *command)
{
    int fd;
    pid_t pid = forkpty(&fd, NULL, NULL, NULL);
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    return warmd_read_terminal(fd, pid);
}

Test(run, terminal_gets_the_line_without_being_asked)
{
    struct place p = place_new();
    char *command;
    cr_assert_geq(asprintf(&command, "%s run %s get one -o /dev/null", p.warm, p.warm), 0);
    cr_assert_not_null(strstr(on_terminal(command), "warm: asked 1: 0 hits"), "%s", command);
    free(command);
    cr_assert_geq(
        asprintf(&command, "%s run %s run %s get one -o /dev/null", p.warm, p.warm, p.warm), 0);
    char *line = strstr(on_terminal(command), "warm: asked 1");
    cr_assert(line && !strstr(line + 1, "warm: asked"), "one of two `warm run` prints it");
    free(command);
    cr_assert_geq(asprintf(&command, "%s run true; %s run --no-report %s get one -o /dev/null",
                           p.warm, p.warm, p.warm),
                  0);
    cr_assert_null(strstr(on_terminal(command), "asked"), "%s", command);
    free(command);
    place_free(&p);
}
