/* SPDX-License-Identifier: Apache-2.0 */
/*
 * service.c - composes the service: makes its tables, runs its timers, ends what is in flight.
 *
 * main.c calls it. Nothing in this folder calls it: service.h has the order of the files.
 *
 * Thread: loop thread.
 */
#include "daemon/service/service.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/nodes/signers.h"
#include "daemon/nodes/tier.h"
#include "daemon/process/log.h"
#include "daemon/service/bookkeeping.h"
#include "daemon/service/build.h"
#include "daemon/service/internal.h"
#include "daemon/service/put.h"

#define SAVE_MS 60000u /* between writes of the lifetime counters */

struct store *service_store(struct service *s) { return s->config.store; }
struct stats *service_stats(struct service *s) { return &s->stats; }
uint64_t service_now_ms(const struct service *s) { return service_clock_ms(s); }

uint64_t service_max_value(const struct service *s) { return s->config.config->max_value; }
uint64_t service_wait_ms(const struct service *s) { return s->config.config->wait_timeout_ms; }

static void on_hedge(void *arg)
{
    struct service *s = arg;
    stats_add(&s->stats, STATS_hedges, STORE_OTHER, 1);
}

static void on_child_hedge(void *arg)
{
    struct service *s = arg;
    stats_add(&s->stats, STATS_hedges, STORE_CUBIN, 1);
}

static void on_tick(void *arg)
{
    struct service *s = arg;
    uint64_t now = service_clock_ms(s);
    builds_tick(s);
    bool flies = flights_tick(s->flights, now);
    if (!flights_tick(s->children, now) && !flies && !s->builds)
        loop_timer_stop(s->tick);
}

/* Logs the evictions since the last call, for each reason that is no request of a client. */
static void log_evictions(struct service *s)
{
    static const char *const reasons[STORE_LEFT_CAUSES] = {
        [STORE_LEFT_FOR_ROOM] = "the store was full",
        [STORE_LEFT_FOR_QUOTA] = "a user's share was full",
    };
    struct store_stats now;
    store_stats(s->config.store, &now);
    for (unsigned i = 0; i < STORE_LEFT_CAUSES; i++) {
        uint64_t n = now.left_entries[i] - s->logged_entries[i];
        uint64_t bytes = now.left_bytes[i] - s->logged_bytes[i];
        if (n && reasons[i])
            log_info("evicted %llu %s, %llu bytes: %s", (unsigned long long)n,
                     n == 1 ? "entry" : "entries", (unsigned long long)bytes, reasons[i]);
        s->logged_entries[i] = now.left_entries[i];
        s->logged_bytes[i] = now.left_bytes[i];
    }
}

static void on_save(void *arg)
{
    struct service *s = arg;
    log_evictions(s);
    stats_save(&s->stats, s->config.store);
    tier_save(s->tier);
    bookkeeping_departures(s);
    history_save(s->history);
}

static bool is_made(void *arg, const struct store_id *id)
{
    const struct service *s = arg;
    return flight_find(s->flights, id, NULL) || find_put(s, id, NULL);
}

static uint64_t first_put_ns(void *arg)
{
    const struct service *s = arg;
    uint64_t first = UINT64_MAX;
    for (const struct pending_put *p = s->puts; p; p = p->next)
        first = p->queued_ns < first ? p->queued_ns : first;
    return first;
}

int service_new(struct service **out, const struct service_config *config, struct err *e)
{
    struct service *s = calloc(1, sizeof *s);
    if (!s)
        return err_set(e, WARM_ENOMEM, "no memory for the service");
    s->config = *config;
    audit_init(s);
    char path[4096];
    snprintf(path, sizeof path, "%s/history", config->config->store);
    s->history = history_new(path);
    s->flights = flights_new(on_hedge, s);
    s->children = flights_new(on_child_hedge, s);
    s->tick = loop_timer_new(config->loop, on_tick, s);
    s->save_tick = loop_timer_new(config->loop, on_save, s);
    if (!s->flights || !s->children || !s->history || !s->tick || !s->save_tick) {
        loop_timer_free(s->tick);
        loop_timer_free(s->save_tick);
        flights_free(s->flights);
        flights_free(s->children);
        history_free(s->history);
        free(s);
        return err_set(e, WARM_ENOMEM, "no memory for flights");
    }
    stats_init(&s->stats, service_clock_ms(s));
    stats_load(&s->stats, config->store);
    loop_timer_start(s->save_tick, SAVE_MS, SAVE_MS);
    *out = s;
    int code = signers_new(&s->signers, config->config, config->store, config->loop, e);
    struct tier_host host = {.loop = config->loop,
                             .config = config->config,
                             .store = config->store,
                             .stats = &s->stats,
                             .signers = s->signers,
                             .spawner = config->spawner,
                             .is_made = is_made,
                             .first_put_ns = first_put_ns,
                             .on_tick = tier_fetches_tick,
                             .on_stop = tier_fetches_stop,
                             .arg = s};
    return code || !config->spawner ? code : tier_new(&s->tier, &host, e);
}

void service_drain(struct service *s) { s->stopping = true; }

bool service_is_drained(const struct service *s)
{
    return service_is_idle(s) && flights_count(s->flights) == 0 && s->n_awaiting == 0 &&
           tier_has_sent_all(s->tier);
}

void service_shutdown(struct service *s)
{
    struct err e;
    s->stopping = true;
    err_set(&e, WARM_ESHUTDOWN, "the daemon is stopping");
    flights_fail_all(s->flights, &e, service_clock_ms(s));
    flights_fail_all(s->children, &e, service_clock_ms(s));
    pool_stop_identifying(s->config.pool);
    tier_stop(s->tier);
    builds_shutdown(s);
    audit_shutdown(s);
}

bool service_is_idle(const struct service *s)
{
    return !s->n_puts && !s->n_preparing && !s->builds && !s->audit;
}

bool service_owes_nothing(const struct service *s) { return tier_has_let_go(s->tier); }

void service_close(struct service *s)
{
    assert(service_is_idle(s));
    log_evictions(s);
    stats_save(&s->stats, s->config.store);
    bookkeeping_departures(s);
    history_save(s->history);
    tier_close(s->tier);
    s->tier = NULL;
    signers_close(s->signers);
    loop_timer_free(s->tick);
    loop_timer_free(s->save_tick);
    s->tick = s->save_tick = NULL;
}

void service_free(struct service *s)
{
    if (!s)
        return;
    negatives_clear(s);
    flights_free(s->flights);
    flights_free(s->children);
    history_free(s->history);
    signers_free(s->signers);
    free(s);
}

/* Reads see new commits only after this turn's reads have ended. */
void service_poll(struct service *s)
{
    store_turn_end(s->config.store);
    store_poll(s->config.store);
}
