/* SPDX-License-Identifier: Apache-2.0 */
/*
 * service.c - starts and ends a service without a daemon around it. The suites of the service and of
 * connections call it.
 *
 * Thread: the test's own; the store's threads wake the loop.
 */
#include "tests/support/service.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/support.h"

#define TICK_MS 5
#define TICKS_MAX 12000 /* a minute, for anything that must happen */

static void on_store_wake(void *arg) { uv_async_send(arg); }

static void on_wake(uv_async_t *wake)
{
    struct service_rig *r = wake->data;
    if (r->service)
        service_poll(r->service);
}

static void rig_up(struct service_rig *r, char *nvrtc, const char *const *settings)
{
    struct err e = {0};
    memset(r, 0, sizeof *r);
    r->dir = temp_dir_new();
    cr_assert_eq(spawner_start(&r->spawner, &e), 0, "%s", e.text);
    cr_assert_eq(config_init(&r->config, &e), 0);
    cr_assert_eq(config_set(&r->config, "store", r->dir, &e), 0, "%s", e.text);
    for (; settings && *settings; settings += 2)
        cr_assert_eq(config_set(&r->config, settings[0], settings[1], &e), 0, "%s", e.text);
    cr_assert_eq(config_resolve(&r->config, &e), 0, "%s", e.text);
    cr_assert_eq(uv_loop_init(&r->loop), 0);
    cr_assert_eq(uv_async_init(&r->loop, &r->wake, on_wake), 0);
    r->wake.data = r;
    struct store_config store = {.dir = r->dir,
                                 .max_bytes = 64u << 20,
                                 .async_check_bytes = SERVICE_CHECK_MAX,
                                 .on_wake = on_store_wake,
                                 .on_wake_arg = &r->wake};
    cr_assert_eq(store_open(&r->store, &store, &e), 0, "%s", e.text);
    struct pool_config pool = {.spawner = r->spawner,
                               .loop = &r->loop,
                               .worker_path = r->config.worker,
                               .nvrtc = &nvrtc,
                               .n_nvrtc = nvrtc ? 1 : 0,
                               .limits = {.jobs = nvrtc ? 2 : 1,
                                          .worker_memory = 8ull << 30,
                                          .timeout_ms = 60000,
                                          .idle_ms = 60000}};
    cr_assert_eq(pool_open(&r->pool, &pool, &e), 0, "%s", e.text);
    struct service_config service = {.loop = &r->loop,
                                     .config = &r->config,
                                     .store = r->store,
                                     .pool = r->pool,
                                     .spawner = *r->config.tier ? r->spawner : NULL};
    cr_assert_eq(service_new(&r->service, &service, &e), 0, "%s", e.text);
}

void service_rig_up(struct service_rig *r) { rig_up(r, NULL, NULL); }

void service_rig_up_with(struct service_rig *r, const char *const *settings)
{
    rig_up(r, NULL, settings);
}

bool service_rig_up_with_nvrtc(struct service_rig *r)
{
    char *nvrtc = toolchain_lib("13.5.37");
    if (nvrtc)
        rig_up(r, nvrtc, NULL);
    free(nvrtc);
    return nvrtc != NULL;
}

static void on_tick(uv_timer_t *timer) { ++*(int *)timer->data; }

void service_rig_until(struct service_rig *r, const bool *flag)
{
    uv_timer_t timer;
    int ticks = 0;
    uv_timer_init(&r->loop, &timer);
    timer.data = &ticks;
    uv_timer_start(&timer, on_tick, TICK_MS, TICK_MS);
    while (!*flag && ticks < TICKS_MAX)
        uv_run(&r->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&r->loop, UV_RUN_NOWAIT);
    cr_assert(*flag, "nothing happened");
}

struct service_put service_rig_text(const char *name, const char *value)
{
    return (struct service_put){.name = view_of_text(name),
                                .kind = STORE_OTHER,
                                .data = value,
                                .len = strlen(value),
                                .fd = -1};
}

static void on_stored(void *arg, int status, bool existed, const struct key *key,
                      const struct err *e)
{
    struct service_rig_put *put = arg;
    (void)key, (void)e;
    cr_assert(!put->done, "told twice");
    *put = (struct service_rig_put){true, existed, status};
}

int service_rig_put_begin(struct service_rig *r, const struct peer *peer, struct service_put put,
                          struct service_rig_put *out)
{
    struct err e;
    *out = (struct service_rig_put){.done = false};
    put.on_done = on_stored;
    put.arg = out;
    return service_put(r->service, peer, &put, &e);
}

int service_rig_put_end(struct service_rig *r, const struct service_rig_put *put)
{
    service_rig_until(r, &put->done);
    return put->status;
}

int service_rig_put(struct service_rig *r, const struct peer *peer, struct service_put put)
{
    struct service_rig_put end;
    int code = service_rig_put_begin(r, peer, put, &end);
    return code ? code : service_rig_put_end(r, &end);
}

bool service_rig_note(char *seen, size_t size, enum answer_kind kind)
{
    static const char letters[] = {[ANSWER_VALUE] = '=', [ANSWER_MISS] = 'M', [ANSWER_FAILED] = 'F',
                                   [ANSWER_ERROR] = 'E', [ANSWER_OVER] = 'O', [ANSWER_LEASE] = 'L',
                                   [ANSWER_WAIT] = 'W',  [ANSWER_NEED] = 'N', [ANSWER_CHECK] = 'C'};
    size_t n = strlen(seen);
    cr_assert_not(n && strchr("=MFEO", seen[n - 1]), "answered after the last answer: %s", seen);
    cr_assert(kind < sizeof letters && letters[kind], "answer %d", (int)kind);
    cr_assert_lt(n + 1, size);
    seen[n] = letters[kind];
    seen[n + 1] = '\0';
    return answer_is_last(kind);
}

static void on_closed(void *arg) { *(bool *)arg = true; }

void service_rig_down(struct service_rig *r)
{
    bool closed = false;
    service_drain(r->service);
    service_shutdown(r->service);
    for (int i = 0; i < TICKS_MAX && !service_is_idle(r->service); i++) {
        uv_run(&r->loop, UV_RUN_NOWAIT);
        service_poll(r->service);
        uv_sleep(TICK_MS);
    }
    cr_assert(service_is_idle(r->service));
    service_close(r->service);
    pool_close(r->pool, on_closed, &closed);
    service_rig_until(r, &closed);
    uv_close((uv_handle_t *)&r->wake, NULL);
    uv_run(&r->loop, UV_RUN_DEFAULT);
    service_free(r->service);
    store_close(r->store);
    spawner_stop(r->spawner);
    cr_assert_eq(uv_loop_close(&r->loop), 0, "a handle was left open");
    config_close(&r->config);
    temp_dir_free(r->dir);
}
