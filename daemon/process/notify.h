/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notify.h - tells the service manager how the daemon does: the datagrams of sd_notify(3).
 *
 * Thread: any; no state. Without $NOTIFY_SOCKET every call does nothing.
 */
#ifndef WARM_DAEMON_PROCESS_NOTIFY_H
#define WARM_DAEMON_PROCESS_NOTIFY_H

#include <stdint.h>

/* Sends lines such as "READY=1\nSTATUS=…". A manager that does not listen is no error. */
void notify_send(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* How often WATCHDOG=1 is to be sent: half of what the manager allows; 0: not at all. */
uint64_t notify_watchdog_ms(void);

#endif
