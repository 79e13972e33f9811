/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connection_pool.h - connections to the daemon for all threads of a process, and pauses after
 * failures.
 *
 *     slot:  EMPTY ──▶ BUSY (one thread's) ──return──▶ IDLE ──borrow──▶ BUSY │ EMPTY after a failure
 *
 *     working ── a failure that took t ms ──▶ pause of max(250, 100 t) ms, twice as long each time
 *        ▲                                       │ over: one thread tries, the others go on without
 *        └──────────── it works ─────────────────┘
 *
 * So a daemon that hangs costs WARM_TIMEOUT_MS once, and then at most one hundredth of the time. A
 * daemon that is started again is found.
 *
 * Thread: any, no lock. Memory: static; a borrowed connection belongs to its borrower alone.
 * Across fork: the child closes all connections that it inherited, busy ones too. A child that was
 * made without fork handlers learns from libwarm that its connections belong to another process.
 */
#ifndef WARM_PRELOAD_CONNECTION_POOL_H
#define WARM_PRELOAD_CONNECTION_POOL_H

#include "client/lib/warm.h"

#pragma GCC visibility push(hidden)

/* Lends a connection, the caller's alone until connection_pool_return. Returns NULL if the caller
 * must go on without: WARM_DISABLE=1, no daemon, a pause after a failure, or another user than at the first call.
 * Waits at most WARM_TIMEOUT_MS. */
struct warm *connection_pool_borrow(void);
/* Takes a borrowed connection back; NULL is fine. */
void connection_pool_return(struct warm *w);

#pragma GCC visibility pop

#endif
