/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link.h - warmd's end of warm-tier: starts the helper, sends it requests, and starts it again if it ends
 * or hangs.
 *
 * The helper is a child of the spawner, or a service of its own with a socket: a connection starts the service, and
 * it ends with the connection. Nobody but root or the daemon's own user may listen there.
 *
 *     tier_link_new ─▶ ready ─┬─ its socket ends, or it does not answer: killed ─┐
 *                        ▲     └─ tier_link_close                                │
 *                        └──────── after a pause, longer each time ◀─────────────┘
 *
 * It is ready as soon as it is started: its socket holds the first requests until it reads them.
 *
 * Each request ends once, with its answer or with TIER_FAILED. A helper that has not answered by the
 * request's time hangs, since it has a timer of its own.
 *
 * Thread: loop thread. Memory: the caller embeds a request and keeps it until `done`.
 */
#ifndef WARM_DAEMON_TIER_LINK_H
#define WARM_DAEMON_TIER_LINK_H

#include <uv.h>

#include "daemon/compiler/spawner.h"
#include "tier/message.h"

struct tier_link;

struct tier_link_config {
    uv_loop_t *loop;
    struct spawner *spawner;
    const char *program;                /* warm-tier's path; this and the next texts are copied */
    const char *url, *credentials, *ca; /* its arguments; "" is none */
    const char *socket;                 /* the service's; "": the spawner starts the program */
    void (*on_ready)(void *arg);        /* the helper has a backend */
    void *arg;
};

/* A request to the helper. */
struct tier_errand {
    struct tier_errand *prev, *next; /* the link's, until `done` */
    uint64_t ends_ms;

    struct tier_ask ask; /* the caller fills all but the id */
    int fd;              /* PUT: borrowed until tier_link_send returns; else -1 */
    struct view bytes; /* with ask.wants_bytes: the object, borrowed until `done` ends, or empty */
    /* Called once, never from within tier_link_send. `fd` is the object of another GET, or -1; it is given. */
    void (*done)(struct tier_errand *errand, const struct tier_answer *answer, int fd);
    void *user;
};

/* Makes a link and starts the helper. NOMEM. */
int tier_link_new(struct tier_link **out, const struct tier_link_config *config, struct err *e);
/* Ends the helper and all requests with TIER_FAILED. The loop must run once more. NULL is fine. */
void tier_link_close(struct tier_link *link);

/* Sends a request. False, and `done` does not run, if the helper is not ready or takes no more now. */
bool tier_link_send(struct tier_link *link, struct tier_errand *errand);

/* Has the helper give a request up that was sent: `done` runs all the same, soon. */
void tier_link_cancel(struct tier_link *link, const struct tier_errand *errand);

/* True if the helper is ready for requests. */
bool tier_link_is_ready(const struct tier_link *link);

#endif
