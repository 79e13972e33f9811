/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wait.c - waits for a program as a parent that stays unnoticed, and decides which signals to pass
 * on. commands/run.c calls it for --report.
 *
 *     warm run ─┬─ program    the same process group, so the terminal sees one job
 *               └─ witness    blocks every signal, and reports those that it got
 *
 * A signal to this process alone must be passed on. The program has a signal to the whole group
 * already. Those of the kernel (Ctrl-C, Ctrl-Z, a lost terminal) go to the group. For other signals
 * only a process that got them too can know: the witness.
 *
 * SIGKILL and SIGSTOP to this process alone cannot be passed on.
 *
 * Thread: main.
 */
#include <assert.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cli/cli.h"
#include "client/cli/run/run.h"

struct watch {
    pid_t program;
    int witness; /* our end of its socket; -1: there is none */
    sigset_t before;
    void (*chld)(int signum); /* the program's own treatment of SIGCHLD */
};

/* ---- the witness ---- */

/* Reads a signal's number; writes back 1 if it was pending here, else 0. Lives as long as we do. */
static _Noreturn void be_witness(int fd)
{
    static const struct timespec at_once;
    unsigned char signum;
    prctl(PR_SET_NAME, "warm-witness");
    while (read(fd, &signum, 1) == 1) {
        sigset_t one;
        sigemptyset(&one);
        sigaddset(&one, signum);
        unsigned char seen = sigtimedwait(&one, NULL, &at_once) == signum;
        if (write(fd, &seen, 1) != 1)
            break;
    }
    _exit(0);
}

static int start_witness(void)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        if (dup2(ends[1], STDIN_FILENO) == STDIN_FILENO)
            closefrom(STDIN_FILENO + 1); /* a reader of our output must not wait for the witness */
        be_witness(STDIN_FILENO);
    }
    close(ends[1]);
    if (pid > 0)
        return ends[0];
    close(ends[0]);
    return -1;
}

static bool group_got_it(const struct watch *w, int signum)
{
    unsigned char byte = (unsigned char)signum;
    return write(w->witness, &byte, 1) == 1 && read(w->witness, &byte, 1) == 1 && byte;
}

/* ---- signals ---- */

static void pass_on(const struct watch *w, const siginfo_t *info)
{
    if (info->si_code > 0 || group_got_it(w, info->si_signo))
        return;
    if (info->si_code == SI_QUEUE)
        sigqueue(w->program, info->si_signo, info->si_value);
    else
        kill(w->program, info->si_signo);
}

/* Lets the signal's default action happen to this process. */
static void suffer(int signum)
{
    sigset_t one;
    signal(signum, SIG_DFL);
    sigemptyset(&one);
    sigaddset(&one, signum);
    raise(signum);
    sigprocmask(SIG_UNBLOCK, &one, NULL);
    sigprocmask(SIG_BLOCK, &one, NULL);
}

/* True if the program has ended, with *status. */
static bool look_at_program(const struct watch *w, int *status)
{
    while (waitpid(w->program, status, WNOHANG | WUNTRACED) == w->program) {
        if (!WIFSTOPPED(*status))
            return true;
        if (WSTOPSIG(*status) != SIGSTOP) /* its sender knows the program, and will continue it */
            suffer(WSTOPSIG(*status));    /* until we are continued */
    }
    return false;
}

static int watch_program(const struct watch *w)
{
    sigset_t all;
    siginfo_t info;
    int status;
    sigfillset(&all);
    for (;;) {
        int signum = sigwaitinfo(&all, &info);
        if (signum == SIGCHLD) {
            if (look_at_program(w, &status))
                return status;
        } else if (signum > 0) {
            pass_on(w, &info);
        }
    }
}

/* ---- the program ---- */

int run_wait(char **argv)
{
    assert(argv && argv[0]);
    struct watch w;
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &w.before);
    w.chld = signal(SIGCHLD, SIG_DFL); /* ignored, children would end unseen */
    w.witness = start_witness();
    w.program = w.witness < 0 ? -1 : fork();
    if (w.program <= 0) { /* the program's process; or none is to be had, and this one will do */
        signal(SIGCHLD, w.chld);
        sigprocmask(SIG_SETMASK, &w.before, NULL);
        _exit(run_exec(argv));
    }
    int status = watch_program(&w);
    close(w.witness);
    return status;
}

_Noreturn void run_end_as(int status)
{
    if (WIFSIGNALED(status)) {
        struct rlimit none = {0, 0}; /* the program has written its core */
        setrlimit(RLIMIT_CORE, &none);
        suffer(WTERMSIG(status));
    }
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}
