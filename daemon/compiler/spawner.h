/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spawner.h - the small process that starts, kills and reaps the fork servers.
 *
 *     warmd                                     spawner                        fork server
 *     spawner_run(id, argv, fd) ── packet ─────▶ fork, limits, exec ─────────▶ fd is WORKER_FD
 *     spawner_kill(id)          ── packet ─────▶ SIGKILL, if not yet reaped
 *     spawner_read(event)       ◀─ packet ────── {id, pid, exit status}
 *
 * The daemon never forks once it has grown: a fork then copies its page tables. Only the spawner
 * reaps, and only it kills, so a signal never reaches a process that got a dead one's pid. It
 * ends, with all that it started, when the daemon's end of the socket closes, for whatever reason.
 *
 * Thread: spawner_run, spawner_kill and spawner_next_id: any (one packet each). spawner_read: one.
 * Memory: spawner_stop frees it.
 */
#ifndef WARM_DAEMON_COMPILER_SPAWNER_H
#define WARM_DAEMON_COMPILER_SPAWNER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "keygen/err.h"

#define SPAWN_ARGS_MAX 16u

struct spawn {
    uint64_t id;       /* names the process from now on; from spawner_next_id */
    char *const *argv; /* argv[0] is the program's path; ends with NULL */
    int fd;            /* borrowed: becomes WORKER_FD in the process */
    bool
        has_network; /* warm-tier: keeps what names credentials and proxies in the environment, and has
                          no limits of a compile */
};

struct spawner_event {
    uint64_t id;
    pid_t pid;
    int status; /* as waitpid returns it; -1: it could not be started, `error` says why */
    int error;  /* errno */
};

struct spawner;
/* Forks the spawner. main calls this first, before the store or the loop exist: the child must be
 * small. *out keeps the socket that talks to it. Errors: IO, NOMEM. */
int spawner_start(struct spawner **out, struct err *e);
/* Forks another one in place of a spawner that is gone, which costs a copy of the grown daemon's page tables.
 * The descriptor stays the same number; who watches it begins anew. Errors: IO. */
int spawner_restart(struct spawner *s, struct err *e);
/* Ends the spawner, and with it all that it started. NULL is fine. */
void spawner_stop(struct spawner *s);

/* Returns a number that no process of this spawner has yet. */
uint64_t spawner_next_id(struct spawner *s);
/* Asks for a process. Its end is reported, its start is not. Errors: IO, TOO_BIG. */
int spawner_run(struct spawner *s, const struct spawn *spawn, struct err *e);
/* Kills a process with SIGKILL; does nothing if it has ended. */
void spawner_kill(struct spawner *s, uint64_t id);

/* Returns a descriptor that is readable if there are events, or the spawner is gone. */
int spawner_fd(const struct spawner *s);
/* Reads an event and returns 1; 0 if there is none now; CLOSED if the spawner is gone, and all that
 * it had started. */
int spawner_read(struct spawner *s, struct spawner_event *out);

#endif
