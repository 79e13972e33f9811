/* SPDX-License-Identifier: Apache-2.0 */
/*
 * put.h - values on their way through the store's queue.
 *
 * service_put (service.h), for clients, is this module's, too. find_put (find.h) finds one.
 *
 * Thread: loop thread. Memory: a pending put is freed when the store has done it.
 */
#ifndef WARM_DAEMON_SERVICE_PUT_H
#define WARM_DAEMON_SERVICE_PUT_H

#include "daemon/service/service.h"

struct pending_put {
    struct pending_put *prev, *next;
    struct store_id id;
    struct proof proof;
    struct service *service;
    struct flight *flight; /* in phase (5) until this is done; or NULL */
    struct artifact *artifact;
    bool travels;       /* it waits to be sent to the tier, too */
    bool is_ours;       /* its memfd is this process's memory */
    bool is_awaited;    /* a flight waits for its digest */
    struct proof asked; /* by which askers know it: the entry's proof, or the SHA-256 of its name */
    struct ask *lease;  /* whose lease it is under; NULL if that call has ended */
    uint32_t maker;     /* in whose budgets n_bytes and n_fds are */
    uint64_t n_bytes;
    unsigned n_fds;
    uint64_t queued_ns; /* when it came into the queue */
    void (*on_done)(void *arg, int status, bool existed, const struct key *key,
                    const struct err *e);
    void *arg;
};

/* Queues an artifact under the row's id; `flight` (may be NULL) is told when it is committed. An
 * artifact that cannot be queued is counted and logged. `row` has the fields that the artifact
 * lacks. `keep_existing`: an entry that is there stays. */
void put_result(struct service *s, struct flight *flight, struct artifact *a, struct store_row *row,
                bool keep_existing);

#endif
