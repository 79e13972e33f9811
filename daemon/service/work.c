/* SPDX-License-Identifier: Apache-2.0 */
/*
 * work.c - runs work for a put on a pool thread; the service is not idle meanwhile.
 *
 * redis/set.c calls service_work_start for values that take some ms to rewrite.
 *
 * Thread: loop thread, but for on_work.
 */
#include <assert.h>

#include "daemon/service/internal.h"

static void on_work(uv_work_t *work)
{
    struct service_work *w = work->data;
    w->run(w);
}

static void on_worked(uv_work_t *work, int status)
{
    struct service_work *w = work->data;
    (void)status; /* it is never cancelled */
    assert(w->service->n_preparing);
    w->service->n_preparing--;
    w->done(w);
}

bool service_work_start(struct service *s, struct service_work *w,
                        void (*run)(struct service_work *w), void (*done)(struct service_work *w))
{
    *w = (struct service_work){.work = {.data = w}, .service = s, .run = run, .done = done};
    if (uv_queue_work(s->config.loop, &w->work, on_work, on_worked) != 0)
        return false;
    s->n_preparing++;
    return true;
}
