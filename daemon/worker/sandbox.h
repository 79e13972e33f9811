/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox.h - what a worker gives up before it reads a byte that a client sent.
 *
 *     fork server: sandbox_drop_user ──▶ sandbox_load_only ──▶ library loaded ──▶ sandbox_close_files
 *                                                                                   │ fork, for a job
 *     worker:                                       the job ◀── sandbox_close_calls ◀─┘
 *
 * A library's constructors run between sandbox_load_only and sandbox_close_files: with no privilege,
 * and where the kernel has Landlock, with no file to write and none to read but the system's libraries.
 *
 * After sandbox_close_calls the process can open no file by name, neither through the system-call
 * filter nor, where the kernel has it, through Landlock; each of the two suffices. It can make no
 * socket, start no program or process, signal or trace nobody, and map no memory as code. What it
 * holds stays: the socket to the daemon, memfds, the channel to its client.
 *
 * Thread: the only one, before there are others. Memory: none.
 */
#ifndef WARM_DAEMON_WORKER_SANDBOX_H
#define WARM_DAEMON_WORKER_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "keygen/err.h"

/* For a process that was started as root: another user and group, no further groups, and so no
 * capability. Nothing to do, and no error, for anybody else. Errors: DENIED. */
int sandbox_drop_user(uid_t uid, gid_t gid, struct err *e);

/* No new privileges; where the kernel has Landlock, no file but for reading what lies where the
 * system's libraries do, and the files behind `fds` (-1 is passed over). Errors: DENIED. */
int sandbox_load_only(const int *fds, size_t n_fds, struct err *e);

/* No new privileges; no file by name. *out_landlock is the version of the kernel's interface that is
 * in force, 0 if the kernel has none, which is no error. Errors: DENIED. */
int sandbox_close_files(int *out_landlock, struct err *e);

/* True if this kernel has system-call filters. */
bool sandbox_has_filter(void);
/* No system call but those that a compile needs. Nothing, and no error, if the kernel has no filters.
 * Errors: DENIED. */
int sandbox_close_calls(struct err *e);

#endif
