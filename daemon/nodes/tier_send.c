/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier_send.c - carries entries from the store to the tier, a few at once, after their puts.
 *
 * The happy path:
 *   1. tier_queue.c says which entry is next;
 *   2. the entry is read from the store, and signed; a large one that is not verified, on another thread;
 *   3. PUT of a large value, "HH/b-SHA256"; then PUT of the entry, "HH/e-ID", or FINISH if this daemon has
 *      its lease;
 *   4. the entry waits no longer.
 * Failures:
 *   - the tier fails: the entry waits, and is sent after a pause that grows;
 *   - the backend takes no such value: the entry is not sent;
 *   - the entry has left the store, or is damaged: it is not sent.
 *
 * Thread: loop thread.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/wire/memfd.h"
#include "daemon/nodes/tier_state.h"

_Static_assert(ENTRY_INLINE_MAX <= STORE_INLINE_MAX, "the bytes of an inline entry are at hand");

#define PAUSE_MS 20u /* before the next try, if nothing says longer */

/* ---- the end of an upload ---- */

/* Sends later: after a pause, or when the breaker and tier_bandwidth allow it. */
static void send_soon(struct tier *t)
{
    assert(t->has_key || t->closing);
    uint64_t now = tier_now_ms(t), at = now + PAUSE_MS;
    if (at < t->writes.off_until_ms)
        at = t->writes.off_until_ms;
    if (at < t->send_at_ms)
        at = t->send_at_ms;
    if (!t->closing && !loop_timer_runs(t->send_timer))
        loop_timer_start(t->send_timer, at - now, 0);
}

static void upload_close(struct tier_upload *u)
{
    assert(u->runs && u->tier->n_uploads);
    if (u->entry_fd >= 0)
        close(u->entry_fd);
    u->entry_fd = -1;
    u->runs = false;
    u->tier->n_uploads--;
}

/* Sends the entry again, later. */
static void upload_later(struct tier_upload *u)
{
    upload_close(u);
    tier_queue_return(u->tier, &u->item);
    send_soon(u->tier);
}

/* Takes the mark off an entry, unless a newer value of it came: that one waits now. */
static void upload_done(struct tier_upload *u)
{
    if (u->is_outdated)
        tier_queue_return(u->tier, &u->item);
    else
        tier_queue_done(u->tier, &u->item.id);
}

/* Ends the upload of an entry that waits no longer. */
static void upload_over(struct tier_upload *u)
{
    upload_close(u);
    tier_lease_end(u->tier, &u->item.id);
    upload_done(u);
}

/* Ends the upload of an entry that is not sent. */
static void upload_drop(struct tier_upload *u)
{
    stats_add(u->tier->host.stats, STATS_tier_dropped, u->kind, 1);
    upload_over(u);
}

/* True if the answer is a success; else the upload has ended. */
static bool upload_goes_on(struct tier_upload *u, const struct tier_answer *a)
{
    assert(u->runs);
    if (a->outcome == TIER_CANNOT || a->outcome == TIER_TOO_LARGE) {
        tier_log_once(u->tier, u->tier->kept, "an entry stays here", a->said);
        upload_drop(u);
        send_soon(u->tier);
        return false;
    }
    struct tier_answer sent = *a;
    if (sent.outcome == TIER_ABSENT) /* what was sent and is not there was not sent */
        sent.outcome = TIER_FAILED;
    if (tier_note(u->tier, &u->tier->writes, &sent))
        return true;
    upload_later(u);
    return false;
}

static void on_entry_sent(struct tier_errand *errand, const struct tier_answer *a, int fd)
{
    struct tier_upload *u = errand->user;
    struct tier *t = u->tier;
    if (fd >= 0)
        close(fd);
    if (!upload_goes_on(u, a))
        return;
    stats_add(t->host.stats, STATS_tier_sent, u->kind, 1);
    stats_add(t->host.stats, STATS_tier_sent_bytes, u->kind, u->n_bytes);
    upload_close(u);
    tier_lease_sent(t, &u->item.id);
    upload_done(u);
    tier_send_next(t);
}

/* ---- the two objects ---- */

static bool send_entry(struct tier_upload *u)
{
    assert(u->runs && u->entry_fd >= 0 && u->entry.len && !u->entry.failed);
    struct proof sum = proof_of_bytes(u->entry.data, u->entry.len);
    const struct tier_lease *lease = tier_lease_find(u->tier, &u->item.id);
    u->errand.ask.operation = TIER_PUT;
    if (lease && !lease->is_lost) {
        u->errand.ask.operation = TIER_FINISH;
        memcpy(u->errand.ask.token, lease->token, sizeof lease->token);
        u->errand.ask.slot = lease->slot;
    }
    memcpy(u->errand.ask.name, u->name, sizeof u->name);
    u->errand.ask.timeout_ms = SEND_MS;
    u->errand.ask.length = u->entry.len;
    u->errand.ask.expire_ms = u->tier->host.config->tier_expire_ms;
    memcpy(u->errand.ask.sha256, sum.bytes, sizeof sum.bytes);
    u->errand.fd = u->entry_fd;
    u->errand.done = on_entry_sent;
    return tier_link_send(u->tier->link, &u->errand);
}

static void on_value_sent(struct tier_errand *errand, const struct tier_answer *a, int fd)
{
    struct tier_upload *u = errand->user;
    if (fd >= 0)
        close(fd);
    if (upload_goes_on(u, a) && !send_entry(u))
        upload_later(u);
}

/* Sends the value; its entry follows. */
static bool send_value(struct tier_upload *u, const struct store_value *v,
                       const struct proof *content)
{
    assert((v->data != NULL) != (v->fd >= 0));
    char hex[65];
    int fd = v->fd;
    if (v->data && (fd = memfd_of_bytes("warm", v->data, (size_t)v->row.len, NULL)) < 0)
        return false;
    bytes_to_hex(content->bytes, sizeof content->bytes, hex);
    snprintf(u->errand.ask.name, sizeof u->errand.ask.name, "%.2s/b-%s", hex, hex);
    u->errand.ask.operation = TIER_PUT;
    u->errand.ask.timeout_ms = SEND_MS + (uint32_t)(v->row.len / RATE_MIN);
    u->errand.ask.length = v->row.len;
    u->errand.ask.expire_ms = u->tier->host.config->tier_expire_ms;
    memcpy(u->errand.ask.sha256, content->bytes, sizeof content->bytes);
    u->errand.fd = fd;
    u->errand.done = on_value_sent;
    bool sent = tier_link_send(u->tier->link, &u->errand);
    if (v->data)
        close(fd);
    return sent;
}

/* Writes the signed object of an entry. Names and labels stay here. */
static bool write_entry(struct tier_upload *u, const struct store_value *v, struct view space,
                        struct tier_entry *out)
{
    const struct store_row *row = &v->row;
    struct proof proof = row->id.owner == STORE_MADE_HERE
                             ? row->proof
                             : proof_of_bytes(row->name.data, row->name.len);
    *out = (struct tier_entry){.kind = (uint8_t)row->kind,
                               .key = row->id.key,
                               .proof_hash = proof_of_bytes(proof.bytes, sizeof proof.bytes),
                               .len = row->len,
                               .check = row->check,
                               .content = v->data ? proof_of_bytes(v->data, (size_t)row->len)
                                                  : row->content,
                               .cost_ms = row->cost_ms,
                               .created_ms = row->created_ms,
                               .expires_ms = row->expires_ms,
                               .group = row->group,
                               .compiler = row->compiler,
                               .graph = row->graph,
                               .space = space,
                               .hardware = row->hardware,
                               .compiler_text = row->compiler_text,
                               .is_inline = row->len <= ENTRY_INLINE_MAX};
    if (out->is_inline)
        out->value = (struct view){v->data, (size_t)row->len};
    u->entry.len = 0;
    u->entry.failed = false;
    entry_write(out, &u->tier->host.signers->key, &u->entry);
    entry_name(out->space, &row->id.key, &proof, u->name);
    u->entry_fd = u->entry.failed ? -1 : memfd_of_bytes("warm", u->entry.data, u->entry.len, NULL);
    return u->entry_fd >= 0;
}

/* ---- the next one ---- */

static bool upload_start(struct tier_upload *u);

static void on_verified(void *arg, int status)
{
    struct tier_upload *u = arg;
    assert(u->runs && !u->is_prepared);
    (void)status; /* store_look repeats the verdict */
    u->is_prepared = true;
    if (u->tier->closing)
        upload_close(u);
    else if (!upload_start(u))
        upload_later(u);
}

/* Counts what an upload takes of tier_bandwidth: the next one begins when that has passed. */
static void take_bandwidth(struct tier *t, uint64_t n)
{
    uint64_t rate = t->host.config->tier_bandwidth, now = tier_now_ms(t);
    if (!rate)
        return;
    if (t->send_at_ms < now)
        t->send_at_ms = now;
    t->send_at_ms += n * 1000 / rate;
}

/* Sends the item of an upload. False if that must wait. */
static bool upload_start(struct tier_upload *u)
{
    assert(u->runs && u->entry_fd < 0);
    struct tier *t = u->tier;
    struct store *store = t->host.store;
    struct store_value v;
    struct tier_entry entry;
    struct view space;
    int code = store_look(store, &u->item.id, &v, NULL);
    if (code == WARM_EBUSY && !u->is_prepared)
        return store_prepare(store, &u->item.id, on_verified, u, NULL) == 0;
    if (code || !(v.row.tier & STORE_TIER_WAITS) || v.row.tier & STORE_TIER_CAME ||
        !tier_travels(t, &v.row, &space)) {
        upload_over(u);
        return true;
    }
    if (tier_is_too_old(t, &v.row)) {
        upload_drop(u);
        return true;
    }
    u->kind = v.row.kind;
    u->n_bytes = v.row.len;
    u->check = v.row.check;
    u->is_outdated = false;
    if (!write_entry(u, &v, space, &entry))
        return false;
    take_bandwidth(t, v.row.len);
    return entry.is_inline ? send_entry(u) : send_value(u, &v, &entry.content);
}

static struct tier_upload *free_upload(struct tier *t)
{
    uint64_t most = t->host.config->tier_uploads;
    if (t->n_uploads >= most)
        return NULL;
    for (size_t i = 0; i < UPLOADS_MAX; i++)
        if (!t->uploads[i].runs)
            return &t->uploads[i];
    return NULL;
}

/* True if an upload may begin now. While writes fail, one at a time finds out if they work again. */
static bool may_send(struct tier *t)
{
    uint64_t now = tier_now_ms(t);
    if (t->closing || !tier_link_is_ready(t->link) || !t->has_key)
        return false;
    if (now < t->writes.off_until_ms || now < t->send_at_ms) {
        send_soon(t);
        return false;
    }
    return !t->writes.n_failures || !t->n_uploads;
}

void tier_send_next(struct tier *t)
{
    struct tier_upload *u;
    struct tier_item item;
    bool early = false;
    while (may_send(t) && (u = free_upload(t)) && tier_queue_take(t, &item, &early)) {
        u->item = item;
        u->runs = true;
        u->is_prepared = u->is_outdated = false;
        u->n_bytes = 0;
        u->entry_fd = -1;
        u->errand.ask = (struct tier_ask){0};
        t->n_uploads++;
        if (!upload_start(u)) {
            upload_later(u);
            return;
        }
    }
    if (early)
        send_soon(t);
    if (t->is_partial && t->n_items < QUEUE_MAX / 2 && !t->closing)
        tier_queue_scan(t);
}

void tier_offer(struct tier *t, const struct store_row *row)
{
    if (!t || t->closing)
        return;
    tier_queue_add(t, row, tier_lease_offered(t, &row->id));
    tier_send_next(t);
}

bool tier_has_sent_all(const struct tier *t)
{
    if (!t || !t->has_key || !tier_link_is_ready(t->link) || t->writes.n_failures)
        return true;
    return !t->n_items && !t->n_uploads;
}
