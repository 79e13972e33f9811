/* SPDX-License-Identifier: Apache-2.0 */
/*
 * put.c - decides whether a value is stored, and who gets it before it is on disk.
 *
 * A put under a lease:
 *   1. all waiters of the key's flight get the value, if its digest is known. A value in a memfd is
 *      hashed while a thread of the store copies it: then they get it after (2), unless the client
 *      said the digest;
 *   2. the store compares the digest, and makes the value durable; a client that asks meanwhile gets
 *      it from the flight;
 *   3. the client that brought it is told.
 * Failures:
 *   - the holder leaves (its socket ends, or it gives the lease back): the next waiter has the lease;
 *   - the holder is late: one more waiter has the lease; the second of the two gets LEASE_LOST;
 *   - the disk is full: the waiters got the value all the same; the put's client is told.
 *
 * The wires call service_put; build_store.c queues compiled results.
 *
 * Thread: loop thread.
 */
#include "daemon/service/put.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/nodes/tier.h"
#include "daemon/process/closer.h"
#include "daemon/process/log.h"
#include "daemon/service/bookkeeping.h"
#include "daemon/service/forms.h"
#include "daemon/service/internal.h"
#include "daemon/users/budget.h"
#include "keygen/list.h"
#include "store/clock.h"

/* A longer time that a client claims for making its value counts as this. So no claim makes an entry worth
 * more than all others together. */
#define CLAIM_MAX_MS 600000u

/* ---- through the queue ---- */

/* Ends the lease of a put whose digest is known now. If the bytes are good, all waiters get the
 * value; else the next holder gets the lease. */
static void put_is_hashed(struct pending_put *p, bool good)
{
    struct service *s = p->service;
    struct ask *lease = p->lease;
    struct flight *f = good ? flight_find(s->flights, &p->id, &p->asked) : NULL;
    if (lease) {
        lease->putting = NULL;
        p->lease = NULL;
    }
    if (f)
        flight_finish(f, p->artifact, NULL, FLIGHT_TO_ALL, false, service_clock_ms(s));
    else if (lease)
        flight_leave(&lease->waiter, service_clock_ms(s));
}

static void on_stored(void *arg, int status, bool existed, const struct err *e)
{
    struct pending_put *p = arg;
    struct service *s = p->service;
    assert(s->n_puts);
    struct key key = p->artifact->key;
    enum store_kind kind = p->artifact->kind;
    LIST_REMOVE(s->puts, p);
    s->n_puts--;
    budget_give(p->maker, BUDGET_puts, p->n_bytes);
    budget_give(p->maker, BUDGET_descriptors, p->n_fds);
    p->artifact->hashed |= status == 0;
    if (p->is_awaited)
        put_is_hashed(p, status == 0);
    if (!status && !existed && p->travels)
        tier_offer(s->tier, &(struct store_row){.id = p->id,
                                                .len = p->artifact->len,
                                                .cost_ms = p->artifact->cost_ms,
                                                .check = p->artifact->check});
    if (!status && !existed)
        stats_add_time(&s->stats.put_times, kind, clock_mono_ns() - p->queued_ns);
    if (status) {
        stats_add(&s->stats, STATS_dropped, kind, 1);
        log_user(p->id.owner, LOG_LEVEL_WARNING, "a value of %llu bytes is not stored: %s",
                 (unsigned long long)p->artifact->len, e && *e->text ? e->text : err_text(status));
    }
    if (p->flight)
        flight_stored(p->flight, service_clock_ms(s));
    if (p->on_done)
        p->on_done(p->arg, status, existed, &key, e);
    artifact_unref(p->artifact);
    free(p);
}

/* Queues the artifact for the store; `p` is copied. */
static int queue_put(const struct pending_put *p, struct store_put *put, struct err *e)
{
    struct artifact *a = p->artifact;
    struct pending_put *copy = malloc(sizeof *copy);
    if (!copy)
        return err_set(e, WARM_ENOMEM, "no memory for a put");
    *copy = *p;
    copy->queued_ns = clock_mono_ns();
    put->row.len = a->len;
    put->row.kind = a->kind;
    put->row.cost_ms = a->cost_ms;
    put->row.tier = tier_marks(p->service->tier, &put->row, a->from_tier);
    put->row.signer = a->signer;
    copy->travels = put->row.tier & STORE_TIER_WAITS;
    put->data = a->data;
    put->fd = a->data ? -1 : fcntl(a->fd, F_DUPFD_CLOEXEC, 3);
    put->check = a->hashed && !a->data ? &a->check : NULL;
    put->out_check = a->hashed ? NULL : &a->check;
    put->on_done = on_stored;
    put->arg = copy;
    int code = !a->data && put->fd < 0 ? err_set(e, WARM_EIO, "no descriptor left for a put")
                                       : store_put(p->service->config.store, put, e);
    if (code) {
        if (put->fd >= 0)
            close(put->fd);
        free(copy);
        return code;
    }
    artifact_ref(a);
    copy->maker = put->row.maker;
    copy->n_bytes = a->data || p->is_ours ? a->len : 0;
    copy->n_fds = a->data ? 0 : 2;
    if (!budget_charge(copy->maker, BUDGET_puts, copy->n_bytes))
        copy->n_bytes = 0;
    if (!budget_charge(copy->maker, BUDGET_descriptors, copy->n_fds))
        copy->n_fds = 0;
    if (copy->lease) {
        if (copy->lease->putting) /* a put before this one */
            *copy->lease->putting = NULL;
        copy->lease->putting = &copy->lease;
    }
    copy->id = put->row.id;
    copy->proof = put->row.proof;
    LIST_ADD(p->service->puts, copy);
    p->service->n_puts++;
    bookkeeping_stored(p->service, &put->row.id);
    return 0;
}

void put_result(struct service *s, struct flight *flight, struct artifact *a, struct store_row *row,
                bool keep_existing)
{
    struct err e = {0};
    struct store_put put = {.row = *row, .keep_existing = keep_existing};
    struct pending_put p = {.service = s, .flight = flight, .artifact = a, .asked = row->proof};
    if (row->name.len)
        p.asked = proof_of_bytes(row->name.data, row->name.len);
    if (queue_put(&p, &put, &e) == 0)
        return;
    stats_add(&s->stats, STATS_dropped, a->kind, 1);
    log_user(row->maker, LOG_LEVEL_WARNING, "a result is not stored: %s", e.text);
    if (flight)
        flight_stored(flight, service_clock_ms(s));
}

/* ---- puts of clients ---- */

static int put_check(struct service *s, const struct peer *peer, const struct service_put *put,
                     const struct store_id *id, struct err *e)
{
    struct store_row row;
    if (!put->made && (put->name.len == 0 || put->name.len > STORE_NAME_MAX))
        return err_set(e, WARM_EINVALID, "a name has 1 to %u bytes", STORE_NAME_MAX);
    uint64_t max = put->made ? STORE_VALUE_MAX : s->config.config->max_value;
    if (put->len > max || put->len > STORE_VALUE_MAX)
        return err_set(e, WARM_ETOO_BIG, "a value of %llu bytes; the limit is %llu",
                       (unsigned long long)put->len, (unsigned long long)max);
    if (put->kind == STORE_FORM) {
        int code = forms_admit(s, peer->uid, put->len, e);
        if (code)
            return code;
    }
    if (put->lease_lost && store_peek(s->config.store, id, &row, NULL) == 0)
        return err_set(e, WARM_ELEASE_LOST, "somebody else brought it");
    return 0;
}

/* Opens a value's memfd again, as a description that its client does not share. A memfd of this
 * process is made read-only first: it is handed on, and nobody may open it for writing. */
static int put_own_fd(int fd, uint64_t len, bool is_ours, int *out, struct err *e)
{
    int code = is_ours ? 0 : memfd_check(fd, len, e);
    if (is_ours && fchmod(fd, 0400) != 0)
        code = err_sys(e, WARM_EIO, errno, "cannot keep a value");
    int own = code ? -1 : fd_reopen(fd);
    if (code == 0 && own < 0)
        code = err_sys(e, WARM_EIO, errno, "cannot open a value");
    fd_close_later(fd);
    *out = own;
    return code;
}

static int put_artifact(const struct service_put *put, struct artifact **out, struct err *e)
{
    int fd;
    if (put->fd >= 0) {
        int code = put_own_fd(put->fd, put->len, put->is_ours, &fd, e);
        if (code == 0)
            code = artifact_from_fd(fd, put->len, put->check, out, e);
        if (code)
            return code;
    } else if (!(*out = artifact_from_bytes(put->data, put->len))) {
        return err_set(e, WARM_ENOMEM, "no memory for a value");
    }
    if (put->check && !key_equal(&(*out)->check, put->check)) {
        artifact_unref(*out);
        return err_set(e, WARM_ECORRUPT, "the value is not what its checksum says");
    }
    return 0;
}

/* Finds the flight that waits for this put; NULL if an existing entry stays. */
static struct flight *put_flight(struct service *s, const struct service_put *put,
                                 const struct store_id *id, struct proof *out_asked)
{
    struct store_row row;
    if (flights_count(s->flights) == 0 ||
        (put->keep_existing && store_peek(s->config.store, id, &row, NULL) == 0))
        return NULL;
    *out_asked = put->made ? put->made->proof : proof_of_bytes(put->name.data, put->name.len);
    return flight_find(s->flights, id, out_asked);
}

/* Fills the row of a put's entry, without the fields that the artifact has. */
static struct store_row put_row(struct service *s, const struct peer *peer,
                                const struct service_put *put, const struct store_id *id,
                                const struct artifact *a)
{
    static const struct key none;
    struct key group = s->config.group_of ? s->config.group_of(s, peer, put->name, a) : none;
    struct store_row row = {
        .id = *id,
        .maker = peer->uid,
        .group = key_equal(&group, &none) ? put->group : group,
        .expires_ms = put->ttl_ms ? clock_wall_ms() + put->ttl_ms : 0,
        .hardware = put->hardware,
        .compiler_text = put->compiler,
        .name = put->name,
        .label = put->label,
    };
    if (put->made) {
        row.proof = put->made->proof;
        row.compiler = put->made->address.compiler;
        row.graph = put->made->address.graph;
    }
    return row;
}

/* Checks a put and makes an artifact of its value; takes put->fd. */
static int put_take(struct service *s, const struct peer *peer, const struct service_put *put,
                    const struct store_id *id, struct artifact **out, struct err *e)
{
    int code = put->made && !peer->is_admin
                   ? err_set(e, WARM_EDENIED, "only the daemon makes entries under an address key")
                   : put_check(s, peer, put, id, e);
    if (code) {
        if (put->fd >= 0)
            fd_close_later(put->fd);
        return code;
    }
    code = put_artifact(put, out, e);
    if (code)
        return code;
    (*out)->kind = put->kind;
    (*out)->cost_ms = put->made || put->cost_ms < CLAIM_MAX_MS ? put->cost_ms : CLAIM_MAX_MS;
    (*out)->key = id->key;
    return 0;
}

int service_put(struct service *s, const struct peer *peer, const struct service_put *put,
                struct err *e)
{
    assert(put->fd >= 0 || put->data || put->len == 0);
    assert(!put->lease || !put->lease->answered);
    struct store_id id = put->made
                             ? (struct store_id){STORE_MADE_HERE, address_key(&put->made->address)}
                             : service_name_id(peer, put->name);
    struct artifact *a;
    int code = put_take(s, peer, put, &id, &a, e);
    if (code)
        return code;
    struct proof asked = {{0}};
    struct flight *f = put_flight(s, put, &id, &asked);
    bool later = f && !a->hashed;
    struct store_put request = {.row = put_row(s, peer, put, &id, a),
                                .keep_existing = put->keep_existing};
    struct pending_put pending = {.service = s,
                                  .flight = later ? NULL : f,
                                  .is_ours = put->is_ours,
                                  .is_awaited = later,
                                  .asked = asked,
                                  .lease = later ? put->lease : NULL,
                                  .artifact = a,
                                  .on_done = put->on_done,
                                  .arg = put->arg};
    code = queue_put(&pending, &request, e);
    if (code == 0)
        bookkeeping_put(s, peer, put, &id);
    if (f && !later) /* even if it could not be stored, the waiters are served */
        flight_finish(f, a, NULL, FLIGHT_TO_ALL, code == 0, service_clock_ms(s));
    else if (put->lease && (!later || code))
        flight_leave(&put->lease->waiter, service_clock_ms(s));
    artifact_unref(a);
    return code;
}
