/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox.h - takes rights from a worker before it reads a byte that a client sent.
 *
 *     fork server: sandbox_drop_user ──▶ sandbox_load_only ──▶ library loaded ──▶ sandbox_close_files
 *                                                                                   │ fork, for a job
 *     worker:                                       the job ◀── sandbox_close_calls ◀─┘
 *
 * A library's constructors run between sandbox_load_only and sandbox_close_files: with no privilege and,
 * if the kernel has Landlock, with no file to write and none to read but the system's libraries.
 *
 * After sandbox_close_calls the process can open no file by name: the system-call filter denies it and,
 * if the kernel has it, Landlock; each of the two suffices. It can make no socket, start no program or
 * process, signal or trace nobody, and map no memory as code. Its open descriptors stay: the socket to
 * the daemon, memfds, the channel to its client.
 *
 * Thread: main thread, before there are others. Memory: none.
 */
#ifndef WARM_DAEMON_WORKER_SANDBOX_H
#define WARM_DAEMON_WORKER_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "keygen/err.h"

/* Gives a process that was started as root another user and group, no further groups, and so no
 * capability. Does nothing, without an error, for any other user. Errors: DENIED. */
int sandbox_drop_user(uid_t uid, gid_t gid, struct err *e);

/* Gives up new privileges and, if the kernel has Landlock, almost all files. What stays
 * readable: the folders of the system's libraries, and the files behind `fds` (-1 is skipped).
 * Errors: DENIED. */
int sandbox_load_only(const int *fds, size_t n_fds, struct err *e);

/* Gives up new privileges and all files by name. *out_landlock is the version of the kernel's
 * interface in force, 0 if the kernel has none, which is no error. Errors: DENIED. */
int sandbox_close_files(int *out_landlock, struct err *e);

/* True if this kernel has system-call filters. */
bool sandbox_has_filter(void);
/* Gives up all system calls but those that a compile needs. Does nothing, without an error, if the
 * kernel has no filters. Errors: DENIED. */
int sandbox_close_calls(struct err *e);

#endif
