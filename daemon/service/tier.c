/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier.c - decides whether there is a tier, which keys count, and when it is left alone.
 *
 * service.c makes it. tier_fetch.c asks it, tier_send.c writes to it.
 *
 * Thread: loop thread.
 */
#include "daemon/service/tier.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/process/log.h"
#include "daemon/service/tier_internal.h"
#include "tier/url.h"

struct view tier_space(uint32_t owner)
{
    return view_of_text(owner == STORE_MADE_HERE ? "made" : "user");
}

bool tier_note(struct tier *t, struct tier_breaker *b, const struct tier_answer *a)
{
    uint64_t now = service_clock_ms(t->service);
    bool is_set_up_wrong = a->outcome == TIER_DENIED || a->outcome == TIER_MISSET;
    if (a->outcome == TIER_OK || a->outcome == TIER_ABSENT || a->outcome == TIER_EXISTS ||
        a->outcome == TIER_TOO_LARGE) {
        if (*b->said)
            log_info("the tier: %s work again", b->what);
        b->n_failures = 0;
        *b->said = '\0';
        return true;
    }
    if (t->closing) /* warmd ends the helper itself */
        return false;
    if (++b->n_failures >= FAILURES_MAX || is_set_up_wrong)
        b->off_until_ms = now + OFF_MS;
    if (strcmp(b->said, a->said) != 0)
        log_warning("the tier: %s fail: %s", b->what, a->said);
    memcpy(b->said, a->said, sizeof b->said);
    return false;
}

static void on_ready(void *arg)
{
    struct tier *t = arg;
    tier_send_next(t);
}

static void on_retry(void *arg) { tier_send_next(arg); }

/* Reads the keys that sign and that count: the own key counts. */
static int read_keys(struct tier *t, const struct config *c, struct err *e)
{
    int code = signing_init() ? 0 : err_set(e, WARM_EIO, "libsodium cannot start");
    if (code == 0 && *c->tier_key) {
        code = signing_read_file(c->tier_key, &t->key, e);
        t->has_key = code == 0;
    }
    if (t->has_key) {
        t->trusted.key[0] = signing_public(&t->key);
        t->trusted.n = 1;
    }
    for (size_t i = 0; code == 0 && i < c->n_tier_trusted; i++)
        code = signing_trust(&t->trusted, c->tier_trusted[i], e);
    if (code == 0 && !t->trusted.n)
        code = err_set(e, WARM_EINVALID,
                       "a tier needs tier_key or tier_trusted: unsigned entries do not count");
    return code;
}

static int start_link(struct tier *t, const struct config *c, struct spawner *spawner,
                      struct err *e)
{
    char program[PATH_MAX], why[200];
    struct tier_url url;
    /* A URL with a secret must not show in the list of processes. A folder's has none. */
    if (strncmp(c->tier, "file://", 7) != 0 && !tier_url_parse(c->tier, &url, why, sizeof why))
        return err_set(e, WARM_EINVALID, "tier: %s", why);
    const char *slash = strrchr(c->worker, '/');
    snprintf(program, sizeof program, "%.*swarm-tier", slash ? (int)(slash - c->worker) + 1 : 0,
             c->worker);
    if (access(program, X_OK) != 0)
        return err_set(e, WARM_EIO, "there is no program %s for the tier", program);
    t->retry = loop_timer_new(t->service->config.loop, on_retry, t);
    if (!t->retry)
        return err_set(e, WARM_ENOMEM, "no memory for the tier");
    struct tier_link_config config = {.loop = t->service->config.loop,
                                      .spawner = spawner,
                                      .program = program,
                                      .url = c->tier,
                                      .credentials = c->tier_credentials,
                                      .ca = c->tier_ca,
                                      .on_ready = on_ready,
                                      .arg = t};
    return tier_link_new(&t->link, &config, e);
}

int tier_new(struct tier **out, struct service *s, struct spawner *spawner, struct err *e)
{
    const struct config *c = s->config.config;
    *out = NULL;
    if (!*c->tier)
        return 0;
    struct tier *t = calloc(1, sizeof *t);
    if (!t)
        return err_set(e, WARM_ENOMEM, "no memory for the tier");
    t->service = s;
    t->entry_fd = -1;
    writer_init(&t->entry, 2 * ENTRY_INLINE_MAX);
    t->reads.what = "reads";
    t->writes.what = "writes";
    int code = read_keys(t, c, e);
    if (code == 0)
        code = start_link(t, c, spawner, e);
    if (code) {
        loop_timer_free(t->retry);
        free(t);
        return code;
    }
    log_info("a tier at %s: %s, %zu trusted %s", c->tier,
             t->has_key ? "read and written" : "read only", t->trusted.n,
             t->trusted.n == 1 ? "key" : "keys");
    *out = t;
    return 0;
}

void tier_close(struct tier *t)
{
    if (!t)
        return;
    tier_stop(t);
    tier_link_close(t->link);
    loop_timer_free(t->retry);
    writer_close(&t->entry);
    if (t->entry_fd >= 0)
        close(t->entry_fd);
    free(t);
}
