/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.h - the parts of `warm run`: a daemon that answers, the environment, waiting for the program.
 *
 *     commands/run.c ──▶ places.c        where our files, the socket and the session are
 *                    ──▶ start_daemon.c  is the listener at the socket trusted? else start a daemon
 *                    ──▶ env.c           the table of variables; loader.c: may the program load our library?
 *                    ──▶ exec.c          becomes the program: nothing of `warm` is left
 *                    ──▶ wait.c          with a report at the end: fork, pass everything through, and
 *                    ──▶ summary.c       the line at the end
 *     commands/daemon.c ▶ user_units.c    hands the user's daemon to systemd
 *
 * Thread: main. Memory: paths are embedded.
 */
#ifndef WARM_CLI_RUN_RUN_H
#define WARM_CLI_RUN_RUN_H

#include <limits.h>
#include <stdbool.h>

#define RUN_SOCKET_MAX 108 /* of sockaddr_un */
#define RUN_SESSION_MAX 65 /* a session's id, NUL included */

/* ---- places.c ---- */

struct run_places {
    char exe[PATH_MAX];    /* this program, absolute */
    char prefix[PATH_MAX]; /* the folder above its own: has lib/ and share/ */
    char socket[RUN_SOCKET_MAX];
    char session[RUN_SESSION_MAX];
};

/* Finds this program's own files, the socket (`socket`, or the default if NULL) and the session.
 * False if one of them is unknown. */
bool run_places_fill(struct run_places *out, const char *socket);

/* ---- start_daemon.c ---- */

enum run_daemon {
    RUN_DAEMON_ANSWERS,
    RUN_DAEMON_NONE,    /* no process listens */
    RUN_DAEMON_REFUSED, /* the listener is not trusted; the reason is printed */
};
/* Finds out if a trusted daemon listens at the socket. Waits for nothing; a hung daemon counts. */
enum run_daemon run_daemon_look(const struct run_places *places);
/* Starts this user's daemon and waits until it listens. Prints the reason of a failure. */
enum run_daemon run_daemon_start(const struct run_places *places);
/* Commands that show the store call this first. Starts this user's daemon if none answers and the user has a store. Does
 * nothing if `socket` is not NULL: the user asked for that daemon. */
void run_daemon_wake(const char *socket);
/* Writes the program of the daemon: warmd beside this program, else the one on PATH. */
void run_find_warmd(const struct run_places *places, char out[PATH_MAX]);

/* ---- env.c ---- */

/* Sets everything that `program` needs to start warm. False without memory. */
bool run_env_set(const struct run_places *places, const char *program);

/* ---- exec.c ---- */

/* Replaces this process by the program, found as a shell finds it. Returns only if that fails,
 * after printing the reason: the exit status, 127 not found, 126 not executable. */
int run_exec(char **argv);

/* ---- wait.c ---- */

/*
 * Runs a program as a child and waits for it; returns its wait status. Each signal to this process
 * reaches the program once: the program has those to the whole process group already. Stops when
 * the program stops. If no process can be made, becomes the program instead.
 */
int run_wait(char **argv);
/* Ends as the program ended: by the same signal, or with the same status. */
_Noreturn void run_end_as(int status);

/* ---- summary.c ---- */

/* Prints the requests, hits and saved time of the session in one line on stderr. `if_asked`: prints
 * nothing if nothing was asked. */
void run_summary(const struct run_places *places, bool if_asked);

/* ---- user_units.c ---- */

/* Makes systemd start this user's daemon at the first connection. Prints what it did, or the reason
 * of a failure; returns an exit status. */
int run_units_install(const struct run_places *places);
/* Takes run_units_install back: stops that daemon and removes the copies of its units. */
int run_units_uninstall(void);

#endif
