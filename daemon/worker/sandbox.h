/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox.h - what a worker gives up before it reads a byte that a client sent.
 *
 *     scratch files open ──▶ sandbox_drop_user ──▶ sandbox_load_only ──▶ libraries loaded
 *                        ──▶ sandbox_enter ──▶ jobs
 *
 * A library's constructors run between the two: with no privilege, and where the kernel has Landlock,
 * with no file to write and none to read but the system's libraries.
 *
 * After sandbox_enter the process can open no file by name, neither through the system-call filter
 * nor, where the kernel has it, through Landlock; each of the two suffices. It can make no socket,
 * start no program or process, signal or trace nobody, and map no memory as code. What it holds
 * stays: the socket to the daemon, memfds, unnamed scratch files.
 *
 * Thread: the only one, before there are others. Memory: none.
 */
#ifndef WARM_DAEMON_WORKER_SANDBOX_H
#define WARM_DAEMON_WORKER_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "keygen/err.h"

struct sandbox {
    int landlock; /* version of the interface in force; 0: the kernel has none */
    bool seccomp; /* false: the kernel has none */
};

/* For a worker that was started as root: another user and group, no further groups, and so no
 * capability. Nothing to do, and no error, for anybody else. Errors: DENIED. */
int sandbox_drop_user(uid_t uid, gid_t gid, struct err *e);

/* No new privileges; where the kernel has Landlock, no file but for reading what lies where the
 * system's libraries do, and the files behind `fds` (-1 is passed over). Errors: DENIED. */
int sandbox_load_only(const int *fds, size_t n_fds, struct err *e);

/* No new privileges, Landlock, system-call filter. A kernel without one of the last two is not an
 * error: *out says so. Errors: DENIED, if what the kernel has cannot be put in force. */
int sandbox_enter(struct sandbox *out, struct err *e);

#endif
