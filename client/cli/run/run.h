/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.h - the parts of `warm run`: a daemon that answers, the environment, waiting for the program.
 *
 *     commands/run.c ──▶ daemon.c   who listens at the socket? may we trust it? start one
 *                    ──▶ env.c      the table of variables
 *                    ──▶ exec, and nothing of `warm` is left
 *                    ──▶ wait.c     with --report: fork, pass everything through, report
 *
 * Thread: the main thread, the only one. Memory: paths are embedded.
 */
#ifndef WARM_CLI_RUN_RUN_H
#define WARM_CLI_RUN_RUN_H

#include <limits.h>
#include <stdbool.h>

#define RUN_SOCKET_MAX 108 /* of sockaddr_un */
#define RUN_SESSION_MAX 65 /* a session's id, NUL included */

struct run_places {
    char exe[PATH_MAX];    /* this program, absolute */
    char prefix[PATH_MAX]; /* the folder above its own: has lib/ and share/ */
    char socket[RUN_SOCKET_MAX];
    char session[RUN_SESSION_MAX];
};

/* ---- daemon.c ---- */

enum run_daemon {
    RUN_DAEMON_ANSWERS,
    RUN_DAEMON_NONE,    /* nobody listens */
    RUN_DAEMON_REFUSED, /* somebody does who is not to be trusted; it was said on stderr */
};
/* Who listens at the socket. Waits for nothing: a daemon that hangs answers, too. */
enum run_daemon run_daemon_look(const struct run_places *places);
/* Starts this user's daemon and waits until it listens. What went wrong was said on stderr. */
enum run_daemon run_daemon_start(const struct run_places *places);

/* ---- env.c ---- */

/* Sets everything that a program needs to start warm. False without memory. */
bool run_env_set(const struct run_places *places);

/* ---- wait.c ---- */

/*
 * Runs a program as a child and waits for it; returns its wait status. Whatever is sent to this
 * process reaches the program once: what the terminal, or somebody, sends to the whole process group
 * it has already. Stops when the program stops. Where there is no process to be had, becomes the
 * program instead.
 */
int run_wait(char **argv);
/* Ends as the program ended: by the same signal, or with the same status. */
_Noreturn void run_end_as(int status);

/* ---- report.c ---- */

/* What the session asked for, found and saved, in one line on stderr. */
void run_report(const struct run_places *places);

/* Replaces this process by the program, found as a shell finds it. Returns only where that fails,
 * with the exit status that says so: 127 not found, 126 not executable; it was said on stderr. */
int run_exec(char **argv);

#endif
