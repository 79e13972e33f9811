/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notify.h - reports the daemon's state to the service manager: the datagrams of sd_notify(3).
 *
 * Without $NOTIFY_SOCKET every call does nothing.
 *
 * Thread: any; no state. Memory: none.
 */
#ifndef WARM_DAEMON_PROCESS_NOTIFY_H
#define WARM_DAEMON_PROCESS_NOTIFY_H

#include <stdint.h>

/* Sends lines such as "READY=1\nSTATUS=…". A manager that does not listen is no error. */
void notify_send(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Returns the interval at which WATCHDOG=1 must be sent: half of the time that the manager allows.
 * 0: never. */
uint64_t notify_watchdog_ms(void);

#endif
