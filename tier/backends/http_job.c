/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_job.c - the life of a backend behind HTTP, and of its jobs. web.c and s3*.c call it.
 *
 * Thread: loop thread.
 */
#include "tier/backends/http_job.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "keygen/list.h"
#include "tier/backends/credentials.h"

/* Frees the backend if it is closing and nothing of it runs. */
static void settle(struct http_backend *b)
{
    if (!b->closing || !b->pool_closed || b->n_timers)
        return;
    void (*closed)(void *user) = b->closed;
    void *user = b->closed_user;
    b->dispose(b);
    free(b);
    closed(user);
}

/* ---- jobs ---- */

static void on_timer_closed(uv_handle_t *timer)
{
    struct http_job *j = timer->data;
    struct http_backend *b = j->backend;
    assert(b->n_timers);
    explicit_bzero(j, j->size); /* it may have signed */
    free(j);
    b->n_timers--;
    settle(b);
}

struct http_job *http_job_new(struct http_backend *b, struct tier_request *r, size_t size)
{
    assert(!b->closing && r->done && *r->name && size >= sizeof(struct http_job));
    struct http_job *j = calloc(1, size);
    if (!j)
        abort(); /* warmd starts the helper again */
    j->backend = b;
    j->request = r;
    j->size = size;
    LIST_ADD(b->jobs, j);
    r->backend_data = j;
    r->result_fd = j->held_fd = j->transfer.result_fd = -1;
    uv_update_time(b->loop);
    j->ends_ms = uv_now(b->loop) + r->timeout_ms;
    uv_timer_init(b->loop, &j->timer);
    j->timer.data = j;
    b->n_timers++;
    return j;
}

void http_job_end(struct http_job *j, enum tier_outcome outcome, const char *said)
{
    struct tier_request *r = j->request;
    assert(r->backend_data == j); /* it ends once */
    LIST_REMOVE(j->backend->jobs, j);
    if (j->held_fd >= 0)
        close(j->held_fd);
    uv_close((uv_handle_t *)&j->timer, on_timer_closed);
    r->backend_data = NULL;
    r->outcome = outcome;
    snprintf(r->said, sizeof r->said, "%s", outcome == TIER_OK ? "" : said);
    r->done(r);
}

static void on_timer(uv_timer_t *timer)
{
    struct http_job *j = timer->data;
    http_job_end(j, j->given_up, j->why);
}

void http_job_give_up(struct http_job *j, uint64_t delay_ms, enum tier_outcome outcome,
                      const char *why)
{
    j->given_up = outcome;
    snprintf(j->why, sizeof j->why, "%s", why);
    j->waits = false;
    uv_timer_start(&j->timer, on_timer, delay_ms, 0);
}

void http_job_end_probe(struct http_job *j, const char *more)
{
    struct tier_capabilities *c = &j->request->capabilities;
    if (!c->reads && !c->writes) {
        http_job_end(j, j->given_up, j->why);
        return;
    }
    if (c->reads && c->writes)
        snprintf(c->said, sizeof c->said, "reads and writes work; %s", more);
    else
        snprintf(c->said, sizeof c->said, "%s work; no %s: %s", c->reads ? "reads" : "writes",
                 c->reads ? "writes" : "reads", j->why);
    http_job_end(j, TIER_OK, "");
}

/* ---- backends ---- */

bool http_backend_init(struct http_backend *b, const struct tier_backend_functions *functions,
                       uv_loop_t *loop, const struct tier_settings *settings, char *why,
                       size_t why_size)
{
    struct credentials c;
    if (!credentials_read_file(settings->credentials, &c, why, why_size))
        return false;
    struct transfer_settings t = {.ca = settings->ca,
                                  .certificate = c.certificate,
                                  .key = c.key,
                                  .proxy = c.proxy,
                                  .connections = settings->connections,
                                  .min_rate = settings->min_rate};
    b->base.functions = functions;
    b->loop = loop;
    if (settings->credentials)
        snprintf(b->credentials, sizeof b->credentials, "%s", settings->credentials);
    b->pool = transfer_pool_new(loop, &t, why, why_size);
    credentials_wipe(&c);
    return b->pool != NULL;
}

void http_backend_cancel(struct tier_backend *backend, struct tier_request *r)
{
    struct http_job *j = r->backend_data;
    (void)backend;
    if (!j)
        return;
    if (j->transfer.exchange)
        transfer_cancel(&j->transfer);
    else
        http_job_give_up(j, 0, TIER_FAILED, "cancelled");
}

static void on_pool_closed(void *user)
{
    struct http_backend *b = user;
    b->pool_closed = true;
    settle(b);
}

void http_backend_close(struct tier_backend *backend, void (*closed)(void *user), void *user)
{
    struct http_backend *b = (struct http_backend *)backend;
    b->closing = true;
    b->closed = closed;
    b->closed_user = user;
    transfer_pool_close(b->pool, on_pool_closed, b);
    while (b->jobs)
        http_job_end(b->jobs, TIER_FAILED, "closed");
}
