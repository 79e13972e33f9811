/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier.c - decides whether there is a tier, and composes it: reads its settings, starts its helper and
 * its timers, finds out if it works again, ends it.
 *
 * service.c makes it; nothing else of the tier calls this file.
 *
 * Thread: loop thread.
 */
#include "daemon/nodes/tier.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/nodes/tier_state.h"
#include "daemon/process/log.h"
#include "keygen/list.h"
#include "tier/url.h"

/* ---- the helper ---- */

static void on_probed(struct tier_errand *errand, const struct tier_answer *a, int fd)
{
    struct tier *t = errand->user;
    assert(t->probes);
    t->probes = false;
    if (fd >= 0)
        close(fd);
    tier_note(t, &t->reads, a);
}

/* Finds out if reads work again, so that no asker has to. */
static void on_probe(void *arg)
{
    struct tier *t = arg;
    if (t->closing || t->probes || !t->reads.n_failures)
        return;
    t->probe = (struct tier_errand){
        .fd = -1,
        .done = on_probed,
        .user = t,
        .ask = {.operation = TIER_GET, .limit = ENTRY_OBJECT_MAX, .timeout_ms = ASK_MS}};
    snprintf(t->probe.ask.name, sizeof t->probe.ask.name, "00/e-%064d", 0); /* nobody's */
    t->probes = tier_link_send(t->link, &t->probe);
    if (!t->probes)
        tier_leave_alone(t, &t->reads, LATER_MS);
}

static void on_ready(void *arg)
{
    struct tier *t = arg;
    if (!t->was_ready)
        tier_queue_scan(t);
    t->was_ready = true;
    if (t->reads.n_failures)
        on_probe(t);
    tier_send_next(t);
}

/* Has a scan find the entries that wait now. */
static void on_marked(void *arg, int status, const struct store_report *r, const struct err *e)
{
    struct tier_push *p = arg;
    struct tier *t = p->tier;
    t->is_partial = true;
    tier_send_next(t);
    p->cb(p->arg, status, r, e);
    LIST_REMOVE(t->pushes, p);
    free(p);
}

int tier_push(struct tier *t, const struct store_id *ids, size_t n, store_report_cb cb, void *arg,
              struct err *e)
{
    if (!t || !t->has_key)
        return err_set(e, WARM_EUNSUPPORTED, "%s",
                       t ? "the tier is only read: tier_mode, or no tier_key"
                         : "there is no tier: see `man 5 warmd.conf`");
    struct tier_push *p = malloc(sizeof *p);
    if (!p)
        return err_set(e, WARM_ENOMEM, "no memory for a push");
    *p = (struct tier_push){.tier = t, .cb = cb, .arg = arg};
    int code = store_mark(t->host.store, ids, n, 0, STORE_TIER_WAITS, on_marked, p, e);
    if (code) {
        free(p);
        return code;
    }
    t->n_marked += n;
    LIST_ADD(t->pushes, p);
    return 0;
}

void tier_save(struct tier *t)
{
    if (!t)
        return;
    assert(t->n_unmark <= UNMARK_MAX);
    tier_queue_flush(t);
    tier_costs_save(t);
}

static void on_tick(void *arg)
{
    struct tier *t = arg;
    t->host.on_tick(t);
    tier_leases_tick(t);
    if (!t->fetches && !t->leases)
        loop_timer_stop(t->tick);
}

static void on_scan(void *arg)
{
    tier_queue_read(arg);
    tier_send_next(arg);
}

static void on_unmark(void *arg) { tier_queue_flush(arg); }
static void on_send(void *arg) { tier_send_next(arg); }

static bool make_timers(struct tier *t)
{
    uv_loop_t *loop = t->host.loop;
    t->tick = loop_timer_new(loop, on_tick, t);
    t->scan_timer = loop_timer_new(loop, on_scan, t);
    t->unmark_timer = loop_timer_new(loop, on_unmark, t);
    t->send_timer = loop_timer_new(loop, on_send, t);
    t->probe_timer = loop_timer_new(loop, on_probe, t);
    return t->tick && t->scan_timer && t->unmark_timer && t->send_timer && t->probe_timer;
}

static void free_timers(struct tier *t)
{
    loop_timer_free(t->tick);
    loop_timer_free(t->scan_timer);
    loop_timer_free(t->unmark_timer);
    loop_timer_free(t->send_timer);
    loop_timer_free(t->probe_timer);
}

static int start_link(struct tier *t, const struct config *c, struct err *e)
{
    char program[PATH_MAX], why[200];
    struct tier_url url;
    /* A URL with a secret must not show in the list of processes. A folder's has none. */
    bool is_folder = strncmp(c->tier, "file://", 7) == 0;
    if (!is_folder && !tier_url_parse(c->tier, &url, why, sizeof why))
        return err_set(e, WARM_EINVALID, "tier: %s", why);
    const char *slash = strrchr(c->worker, '/');
    snprintf(program, sizeof program, "%.*swarm-tier", slash ? (int)(slash - c->worker) + 1 : 0,
             c->worker);
    bool is_service = *c->tier_socket && !is_folder; /* a folder needs no network */
    if (!is_service && access(program, X_OK) != 0)
        return err_set(e, WARM_EIO, "there is no program %s for the tier", program);
    if (!make_timers(t))
        return err_set(e, WARM_ENOMEM, "no memory for the tier");
    struct tier_link_config config = {.loop = t->host.loop,
                                      .spawner = t->host.spawner,
                                      .program = program,
                                      .url = c->tier,
                                      .credentials = c->tier_credentials,
                                      .ca = c->tier_ca,
                                      .socket = is_service ? c->tier_socket : "",
                                      .on_ready = on_ready,
                                      .arg = t};
    return tier_link_new(&t->link, &config, e);
}

/* Reads tier_mode and tier_share. */
static int read_mode(struct tier *t, const struct config *c, struct err *e)
{
    const char *mode = c->tier_mode, *share = c->tier_share;
    bool both = strcmp(mode, "read-write") == 0;
    t->reads_it = both || strcmp(mode, "read-only") == 0;
    t->has_key &= both || strcmp(mode, "write-only") == 0;
    if (!t->reads_it && strcmp(mode, "write-only") != 0)
        return err_set(e, WARM_EINVALID,
                       "tier_mode: \"%s\" is none of read-write, read-only, write-only", mode);
    if (strcmp(share, "made") != 0 && strcmp(share, "group") != 0 && strcmp(share, "user") != 0)
        return err_set(e, WARM_EINVALID, "tier_share: \"%s\" is none of made, group, user", share);
    return 0;
}

int tier_new(struct tier **out, const struct tier_host *host, struct err *e)
{
    assert(host->config && host->spawner && host->signers);
    const struct config *c = host->config;
    *out = NULL;
    if (!*c->tier)
        return 0;
    struct tier *t = calloc(1, sizeof *t);
    if (!t)
        return err_set(e, WARM_ENOMEM, "no memory for the tier");
    t->host = *host;
    for (size_t i = 0; i < UPLOADS_MAX; i++) {
        struct tier_upload *u = &t->uploads[i];
        *u = (struct tier_upload){.tier = t, .entry_fd = -1, .errand = {.user = u}};
        writer_init(&u->entry, 2 * ENTRY_INLINE_MAX);
    }
    t->reads.what = "reads";
    t->writes.what = "writes";
    t->has_key = host->signers->has_key;
    int code =
        host->signers->trusted.n
            ? read_mode(t, c, e)
            : err_set(e, WARM_EINVALID,
                      "a tier needs tier_key or tier_trusted: unsigned entries do not count");
    if (code == 0)
        code = start_link(t, c, e);
    if (code) {
        free_timers(t);
        free(t);
        return code;
    }
    tier_costs_load(t);
    log_info("a tier at %s: %s, %zu trusted %s", c->tier,
             !t->reads_it ? "written only"
             : t->has_key ? "read and written"
                          : "read only",
             host->signers->trusted.n, host->signers->trusted.n == 1 ? "key" : "keys");
    *out = t;
    return 0;
}

void tier_stop(struct tier *t)
{
    if (!t)
        return;
    t->closing = true;
    t->host.on_stop(t);
    tier_leases_close(t);
}

bool tier_has_let_go(const struct tier *t) { return !t || (!t->leases && !t->fetches); }

void tier_close(struct tier *t)
{
    if (!t)
        return;
    tier_stop(t);
    tier_save(t);
    tier_link_close(t->link);
    tier_leases_free(t);
    assert(!t->fetches); /* the link ended what was asked, and no thread verifies */
    free_timers(t);
    for (struct tier_push *p;
         (p = t->pushes);) { /* the store is closed next, and reports no more */
        LIST_REMOVE(t->pushes, p);
        free(p);
    }
    for (size_t i = 0; i < UPLOADS_MAX; i++) {
        writer_close(&t->uploads[i].entry);
        if (t->uploads[i].entry_fd >= 0)
            close(t->uploads[i].entry_fd);
    }
    free(t);
}
