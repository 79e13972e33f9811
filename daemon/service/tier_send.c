/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier_send.c - carries entries from the store to the tier, one at a time, after their puts.
 *
 * The happy path:
 *   1. a put is on disk and worth it: its id goes into the queue;
 *   2. the helper has nothing to send: the entry is read, and signed;
 *   3. PUT of a large value, "HH/b-SHA256"; then PUT of the entry, "HH/e-ID".
 * Failures:
 *   - the tier fails: the entry stays the first of the queue, and is tried again later;
 *   - the queue is full: the oldest entry is not sent;
 *   - the entry has left the store, or is damaged: it is not sent.
 * The queue is in memory: what a daemon has not sent when it ends is not sent.
 *
 * put.c calls tier_offer.
 *
 * Thread: loop thread.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/service/bookkeeping.h"
#include "daemon/service/tier_internal.h"

#define RETRY_MS 1000u

static void queue_pop(struct tier *t)
{
    t->queue_at = (t->queue_at + 1) % QUEUE_MAX;
    t->n_queue--;
    t->is_prepared = false;
}

void tier_offer(struct tier *t, const struct store_id *id, const struct artifact *a)
{
    const struct config *c = t ? t->service->config.config : NULL;
    if (!t || t->closing || !t->has_key || a->from_tier || a->len > c->tier_max_value ||
        (a->cost_ms && a->cost_ms < c->tier_min_cost_ms))
        return;
    if (t->n_queue == QUEUE_MAX && !t->is_sending)
        queue_pop(t);
    if (t->n_queue == QUEUE_MAX)
        return;
    t->queue[(t->queue_at + t->n_queue++) % QUEUE_MAX] = *id;
    tier_send_next(t);
}

static void send_over(struct tier *t)
{
    if (t->entry_fd >= 0)
        close(t->entry_fd);
    t->entry_fd = -1;
    t->is_sending = false;
}

/* Tries the first of the queue again, later. */
static void send_later(struct tier *t)
{
    uint64_t now = service_clock_ms(t->service);
    send_over(t);
    loop_timer_start(t->retry,
                     now < t->writes.off_until_ms ? t->writes.off_until_ms - now : RETRY_MS, 0);
}

static void on_entry_sent(struct tier_errand *errand, const struct tier_answer *a, int fd)
{
    struct tier *t = errand->user;
    if (fd >= 0)
        close(fd);
    if (!tier_note(t, &t->writes, a)) {
        send_later(t);
        return;
    }
    stats_add(&t->service->stats, STATS_tier_sent, STORE_OTHER, a->outcome == TIER_OK);
    queue_pop(t);
    send_over(t);
    tier_send_next(t);
}

static bool send_entry(struct tier *t)
{
    struct proof sum = proof_of_bytes(t->entry.data, t->entry.len);
    t->sending.ask.operation = TIER_PUT;
    t->sending.ask.timeout_ms = SEND_MS;
    t->sending.ask.length = t->entry.len;
    memcpy(t->sending.ask.sha256, sum.bytes, sizeof sum.bytes);
    t->sending.fd = t->entry_fd;
    t->sending.done = on_entry_sent;
    t->sending.user = t;
    return tier_link_send(t->link, &t->sending);
}

static void on_value_sent(struct tier_errand *errand, const struct tier_answer *a, int fd)
{
    struct tier *t = errand->user;
    if (fd >= 0)
        close(fd);
    memcpy(t->sending.ask.name, t->next_name, sizeof t->next_name);
    if (!tier_note(t, &t->writes, a) || !send_entry(t))
        send_later(t);
}

/* Sends the value; its entry follows. */
static bool send_value(struct tier *t, const struct store_value *v, const struct proof *content)
{
    char hex[65];
    int fd = v->fd;
    if (v->data && memfd_from_bytes(v->data, (size_t)v->row.len, &fd, NULL) != 0)
        return false;
    bytes_to_hex(content->bytes, sizeof content->bytes, hex);
    snprintf(t->sending.ask.name, sizeof t->sending.ask.name, "%.2s/b-%s", hex, hex);
    t->sending.ask.operation = TIER_PUT;
    t->sending.ask.timeout_ms = SEND_MS + (uint32_t)(v->row.len / RATE_MIN);
    t->sending.ask.length = v->row.len;
    memcpy(t->sending.ask.sha256, content->bytes, sizeof content->bytes);
    t->sending.fd = fd;
    t->sending.done = on_value_sent;
    t->sending.user = t;
    bool sent = tier_link_send(t->link, &t->sending);
    if (v->data)
        close(fd);
    return sent;
}

/* Writes the signed object of an entry. Names and labels stay here. */
static bool write_entry(struct tier *t, const struct store_value *v, struct tier_entry *out)
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
                               .space = tier_space(row->id.owner),
                               .hardware = row->hardware,
                               .compiler_text = row->compiler_text,
                               .is_inline = row->len <= ENTRY_INLINE_MAX};
    if (out->is_inline)
        out->value = (struct view){v->data, (size_t)row->len};
    t->entry.len = 0;
    t->entry.failed = false;
    entry_write(out, &t->key, &t->entry);
    entry_name(out->space, &row->id.key, &proof, t->next_name);
    return !t->entry.failed &&
           memfd_from_bytes(t->entry.data, t->entry.len, &t->entry_fd, NULL) == 0;
}

/* True if the entry is another user's, or tells only about files of this machine. */
static bool stays_here(const struct store_row *row)
{
    if (row->id.owner == STORE_MADE_HERE)
        return row->maker != geteuid();
    return row->id.owner != geteuid() || bookkeeping_is_note(WIRE_SPACE_NAME, row->name);
}

static void on_verified(void *arg, int status)
{
    struct tier *t = arg;
    (void)status; /* store_look repeats the verdict */
    send_over(t);
    tier_send_next(t);
}

/* Sends the first of the queue. False if that must wait. */
static bool send_first(struct tier *t)
{
    struct store *store = t->service->config.store;
    struct store_id id = t->queue[t->queue_at];
    struct store_value v;
    struct tier_entry entry;
    int code = store_look(store, &id, &v, NULL);
    if (code == WARM_EBUSY && !t->is_prepared) {
        t->is_prepared = t->is_sending = store_prepare(store, &id, on_verified, t, NULL) == 0;
        return t->is_sending;
    }
    if (code || stays_here(&v.row)) {
        queue_pop(t);
        return true;
    }
    t->is_sending = write_entry(t, &v, &entry);
    if (t->is_sending && entry.is_inline) {
        memcpy(t->sending.ask.name, t->next_name, sizeof t->next_name);
        t->is_sending = send_entry(t);
    } else if (t->is_sending) {
        t->is_sending = send_value(t, &v, &entry.content);
    }
    return t->is_sending;
}

void tier_send_next(struct tier *t)
{
    if (t->closing || !tier_link_is_ready(t->link) ||
        service_clock_ms(t->service) < t->writes.off_until_ms)
        return;
    while (!t->is_sending && t->n_queue)
        if (!send_first(t)) {
            send_later(t);
            return;
        }
}
