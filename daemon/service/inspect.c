/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inspect.c - decides which entries a filter of a peer may reach, and writes the JSON of STATS and INFO.
 *
 * The native wire calls it for LIST, EVICT, STATS and INFO.
 *
 * Thread: loop thread.
 */
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "client/exec/elf.h"
#include "client/wire/version.h"
#include "daemon/nodes/signers.h"
#include "daemon/nodes/tier.h"
#include "daemon/process/log.h"
#include "daemon/service/internal.h"
#include "daemon/users/budget.h"
#include "keygen/json.h"

#define TOOLCHAINS_SHOWN 64u
#define MAKING_SHOWN 64u
#define USERS_SHOWN 64u /* users with requests under way, and as many with stored entries */

bool service_filter(const struct peer *peer, const struct wire_filter *in, struct store_filter *out)
{
    struct store_filter f = store_filter_all();
    if (in->uid >= 0)
        f.owner = f.maker = in->uid;
    if (!peer->is_admin) {
        if (in->uid >= 0 && in->uid != peer->uid)
            return false;
        f.owner = peer->space;
        f.maker = peer->uid;
    }
    f.kind = in->kind;
    f.pinned = in->pinned;
    f.hardware = in->hardware;
    f.compiler = in->compiler;
    f.text = in->text;
    f.min_bytes = in->min_bytes;
    f.max_bytes = in->max_bytes;
    f.min_age_ms = in->min_age_ms;
    f.min_idle_ms = in->min_idle_ms;
    f.min_hits = in->min_hits;
    f.max_hits = in->max_hits;
    *out = f;
    return true;
}

/* Writes the holdings of a user, budget by budget. */
static void write_user(struct service *s, uint32_t uid, struct writer *out)
{
    struct store_share share = {0};
    store_share(s->config.store, uid, &share);
    writer_format(out, "\"%u\": {", (unsigned)uid);
    for (unsigned i = 0; i < BUDGETS; i++) {
        uint64_t used = budget_used(uid, i), limit = budget_limit(i);
        if (i == BUDGET_space) {
            used = share.disk_bytes;
            limit = s->config.config->quota;
        } else if (i == BUDGET_pins) {
            used = share.pinned_bytes;
            limit = store_pins_max(s->config.store);
        }
        writer_format(out, "%s\"%s\": {\"used\": %llu, \"limit\": %llu, \"unit\": \"%s\"}",
                      i ? ", " : "", budget_name(i), (unsigned long long)used,
                      (unsigned long long)limit, budget_unit(i));
    }
    writer_u8(out, '}');
}

static void write_users(struct service *s, const struct peer *peer, struct writer *out)
{
    uint32_t uids[2 * USERS_SHOWN] = {peer->uid};
    size_t n = 1;
    if (peer->is_admin) {
        n = budget_users(uids, USERS_SHOWN);
        n += store_users(s->config.store, uids + n, USERS_SHOWN);
    }
    writer_format(out, ", \"users\": {");
    for (size_t i = 0, shown = 0; i < n; i++) {
        size_t first = 0;
        while (uids[first] != uids[i])
            first++;
        if (first < i)
            continue;
        writer_bytes(out, ", ", shown++ ? 2 : 0);
        write_user(s, uids[i], out);
    }
    writer_u8(out, '}');
}

/* Writes what is being made now, by whom, and how many wait for it. A user sees those of their own; the
 * number of another user is null. */
static void write_making(struct service *s, const struct peer *peer, struct writer *out)
{
    struct flight_brief list[MAKING_SHOWN];
    int64_t uid = peer->is_admin ? -1 : (int64_t)peer->uid;
    size_t n = flights_list(s->flights, uid, list, MAKING_SHOWN, service_clock_ms(s));
    writer_format(out, ", \"making\": [");
    for (size_t i = 0; i < n; i++) {
        char key[WARM_KEY_TEXT];
        struct view label = history_label(s->history, &list[i].id, uid);
        key_to_text(&list[i].id.key, key);
        writer_format(out, "%s{\"key\": \"%s\", \"label\": ", i ? ", " : "", key);
        json_write_text(out, label.data, label.len);
        if (uid < 0 || list[i].maker == peer->uid)
            writer_format(out, ", \"uid\": %u", (unsigned)list[i].maker);
        else
            writer_format(out, ", \"uid\": null");
        writer_format(out, ", \"by\": \"%s\", \"waiters\": %u, \"ms\": %llu}",
                      list[i].is_built ? "warmd" : "client", list[i].n_waiters,
                      (unsigned long long)list[i].age_ms);
    }
    writer_u8(out, ']');
}

int service_push(struct service *s, const struct store_id *ids, size_t n, store_report_cb cb,
                 void *arg, struct err *e)
{
    return tier_push(s->tier, ids, n, cb, arg, e);
}

bool service_keeps(struct service *s, const struct store_row *row)
{
    return s->tier && tier_keeps(s->tier, row, row->len, row->cost_ms);
}

void service_signer_name(struct service *s, uint32_t signer, char out[64])
{
    signers_name(s->signers, signer, out);
}

void service_write_stats(struct service *s, const struct peer *peer, struct writer *out)
{
    struct store_stats store;
    store_stats(s->config.store, &store);
    writer_u8(out, '{');
    stats_write_members(&s->stats, &store, service_clock_ms(s), out);
    tier_write_json(s->tier, out);
    write_users(s, peer, out);
    write_making(s, peer, out);
    writer_u8(out, '}');
}

static void write_field(struct writer *out, const char *name, const char *text)
{
    writer_format(out, "\"%s\": ", name);
    json_write_text(out, text, strlen(text));
}

static void write_toolchain(struct writer *out, const struct toolchain *t)
{
    char id[WARM_KEY_TEXT];
    key_to_text(&t->id, id);
    writer_format(out, "{\"id\": \"%s\", \"version\": \"%d.%d\", ", id, t->major, t->minor);
    write_field(out, "text", t->text);
    writer_bytes(out, ", ", 2);
    write_field(out, "path", t->path);
    writer_bytes(out, ", ", 2);
    write_field(out, "archs", t->archs);
    writer_u8(out, '}');
}

static void write_refused(struct service *s, const struct peer *peer, struct writer *out)
{
    struct toolchain_refusal list[TOOLCHAINS_SHOWN];
    size_t n = pool_refused(s->config.pool, peer->is_admin ? -1 : (int64_t)peer->uid, list,
                            TOOLCHAINS_SHOWN);
    writer_format(out, ", \"refused\": [");
    for (size_t i = 0; i < n; i++) {
        writer_format(out, "%s{", i ? ", " : "");
        write_field(out, "path", list[i].path);
        writer_bytes(out, ", ", 2);
        write_field(out, "why", list[i].why);
        writer_u8(out, '}');
    }
    writer_u8(out, ']');
}

static void write_store(struct service *s, struct writer *out)
{
    struct store_stats store;
    store_stats(s->config.store, &store);
    writer_format(out,
                  ", \"store\": {\"read_only\": %s, \"rebuilt\": %s, \"entries\": %llu, "
                  "\"bytes\": %llu, \"max_bytes\": %llu, \"disk_bytes\": %llu, \"corrupt\": %llu, "
                  "\"old\": %llu}",
                  store.read_only ? "true" : "false", store.rebuilt ? "true" : "false",
                  (unsigned long long)store.n_entries, (unsigned long long)store.n_bytes,
                  (unsigned long long)store.max_bytes, (unsigned long long)store.disk_bytes,
                  (unsigned long long)store.n_corrupt, (unsigned long long)store.n_old);
}

static void write_workers(struct service *s, struct writer *out)
{
    struct pool_stats c;
    pool_stats(s->config.pool, &c);
    bool known = c.landlock >= 0; /* known since the first compiler process ran */
    char landlock[16] = "null";
    if (known)
        snprintf(landlock, sizeof landlock, "%d", c.landlock);
    writer_format(out,
                  ", \"audits\": {\"done\": %llu, \"differences\": %llu}, \"workers\": "
                  "{\"running\": %u, \"busy\": %u, \"queued\": %u, \"compiles\": "
                  "%llu, \"crashes\": %llu, \"timeouts\": %llu, "
                  "\"landlock\": %s, \"seccomp\": %s, \"spawner\": %s}",
                  (unsigned long long)stats_lifetime(&s->stats, STATS_audits),
                  (unsigned long long)stats_lifetime(&s->stats, STATS_audit_differences),
                  c.n_workers, c.n_busy, c.n_queued, (unsigned long long)c.n_compiles,
                  (unsigned long long)c.n_crashes, (unsigned long long)c.n_timeouts, landlock,
                  !known      ? "null"
                  : c.seccomp ? "true"
                              : "false",
                  c.spawner_gone ? "false" : "true");
}

void service_write_info(struct service *s, const struct peer *peer, struct writer *out)
{
    char build[ELF_BUILD_TEXT], log[PATH_MAX];
    writer_u8(out, '{');
    write_field(out, "version", WARM_VERSION);
    writer_format(out,
                  ", \"protocol\": %u, \"key_format\": %u, \"pid\": %ld, \"uid\": %u, "
                  "\"in_flight\": %u, \"uptime_s\": %llu, \"dropped\": %llu, ",
                  WIRE_VERSION, WARM_KEY_FORMAT, (long)getpid(), (unsigned)geteuid(),
                  flights_count(s->flights),
                  (unsigned long long)((service_now_ms(s) - s->stats.started_ms) / 1000),
                  (unsigned long long)stats_total(&s->stats, STATS_dropped));
    write_field(out, "config_file", s->config.config->file ? s->config.config->file : "");
    writer_bytes(out, ", ", 2);
    ssize_t len =
        readlink("/proc/self/fd/2", log, sizeof log - 1); /* a path, or what the kernel calls it */
    log[len > 0 ? len : 0] = '\0';
    write_field(out, "log", log_is_journal() ? "journal" : log);
    elf_build_id("/proc/self/exe", build);
    writer_bytes(out, ", ", 2);
    write_field(out, "build", build);
    writer_format(out, ", \"settings\": ");
    config_write_json(s->config.config, out);
    const struct toolchain *list[TOOLCHAINS_SHOWN];
    size_t n = pool_toolchains(s->config.pool, list, TOOLCHAINS_SHOWN);
    writer_format(out, ", \"toolchains\": [");
    for (size_t i = 0; i < n && i < TOOLCHAINS_SHOWN; i++) {
        writer_bytes(out, ", ", i ? 2 : 0);
        write_toolchain(out, list[i]);
    }
    writer_u8(out, ']');
    write_refused(s, peer, out);
    write_store(s, out);
    write_workers(s, out);
    writer_u8(out, '}');
}
