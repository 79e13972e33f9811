/* SPDX-License-Identifier: Apache-2.0 */
/*
 * restart.h - replaces this process by a new one of the same program, arguments and environment, and the same
 * number: for its clients and the service manager the daemon goes on. A handler of fatal signals calls it, and
 * the watch (watch.h).
 *
 *     fatal signal, or a thread that never ends ─▶ restart_now ─▶ exec of /proc/self/exe ─▶ main, again
 *                                                      └▶ returns: it ends as ever
 *
 * It returns if this process is itself such a replacement and younger than RESTART_AGE_S: a fault that comes at
 * once again would go on for ever.
 *
 * Thread: restart_prepare: main, before all else. restart_now: any, also in a signal's handler. Memory: what
 * restart_prepare allocates stays.
 */
#ifndef WARM_DAEMON_PROCESS_RESTART_H
#define WARM_DAEMON_PROCESS_RESTART_H

#include <stdbool.h>

#define RESTART_AGE_S 10

/* Keeps the arguments and the environment for the replacement. */
void restart_prepare(char **argv);
/* True if this process replaces one that failed. */
bool restart_was(void);
/* Replaces the process, or returns. Standard streams and sockets that the service manager passed stay open. */
void restart_now(void);

#endif
