/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lookup.c - decides which entry a GET may have, and answers it at once or when it is made.
 *
 * The wires ask first with service_get, which answers at once and needs no call. If the value is not
 * there, service_ask joins the key's flight: the client waits for the value, or makes it under a
 * lease. If a large value has to be verified first, service_get_later waits for that.
 *
 * Thread: loop thread.
 */
#include <assert.h>
#include <string.h>

#include "daemon/service/bookkeeping.h"
#include "daemon/service/find.h"
#include "daemon/service/internal.h"
#include "daemon/service/tier.h"
#include "store/clock.h"

#define WAIT_DEFAULT_MS 30000u /* of a native GET that names no deadline */
#define OWNERS_MAX 1024u       /* users whose entries an administrator reaches by key */

/* ---- which entry ---- */

static bool row_has_name(const struct store_row *row, struct view name)
{
    return row->name.len == name.len && memcmp(row->name.data, name.data, name.len) == 0;
}

static struct store_id key_id(uint32_t owner, struct view key)
{
    struct store_id id = {.owner = owner};
    assert(key.len == sizeof id.key);
    memcpy(&id.key, key.data, sizeof id.key);
    return id;
}

/* True if the peer may have an entry. A proof is compared for everybody, because even one author's
 * inputs may have equal keys. A peer without a proof must be allowed to see the entry by its key
 * alone. */
static bool may_have(const struct peer *peer, const struct store_row *row,
                     const struct proof *proof)
{
    if (proof)
        return proof_equal(&row->proof, proof);
    return peer_may_see(peer, row);
}

/* Finds the entry that a key names for this peer: one that was made here, else one of its own. */
static int find_id(struct service *s, const struct peer *peer, enum wire_space space,
                   struct view key, const struct proof *proof, struct store_id *out,
                   struct store_row *out_row, struct err *e)
{
    if (space == WIRE_SPACE_NAME) {
        *out = service_name_id(peer, key);
        int code = store_peek(s->config.store, out, out_row, e);
        return code == 0 && !row_has_name(out_row, key) ? WARM_ENOT_FOUND : code;
    }
    *out = key_id(STORE_MADE_HERE, key);
    if (store_peek(s->config.store, out, out_row, e) == 0 && may_have(peer, out_row, proof))
        return 0;
    *out = key_id(peer->space, key);
    int code = store_peek(s->config.store, out, out_row, e);
    return code == 0 && !may_have(peer, out_row, proof) ? WARM_ENOT_FOUND : code;
}

/* Returns what proves that an entry is the one that was asked for, after its key found it: the SHA-256 of its
 * name, which is borrowed until the first answer alone, or the proof of its form. */
static struct proof proof_of_row(const struct store_row *row)
{
    return row->name.len ? proof_of_bytes(row->name.data, row->name.len) : row->proof;
}

size_t service_resolve(struct service *s, const struct peer *peer, enum wire_space space,
                       struct view key, struct store_id *out, size_t cap)
{
    struct store_row row;
    uint32_t owners[OWNERS_MAX] = {STORE_MADE_HERE, peer->space};
    size_t n = 0, n_owners = 2;
    if (space == WIRE_SPACE_NAME) {
        if (cap && find_id(s, peer, space, key, NULL, &out[0], &row, NULL) == 0)
            n = 1;
        return n;
    }
    if (peer->is_admin)
        n_owners = store_owners(s->config.store, owners, OWNERS_MAX);
    for (size_t i = 0; i < n_owners && n < cap; i++) {
        struct store_id id = {.owner = owners[i]};
        memcpy(&id.key, key.data, sizeof id.key);
        if (store_peek(s->config.store, &id, &row, NULL) == 0 && peer_may_see(peer, &row))
            out[n++] = id;
    }
    return n;
}

int service_peek(struct service *s, const struct peer *peer, enum wire_space space, struct view key,
                 struct store_row *out, struct err *e)
{
    struct store_id id;
    int code = find_id(s, peer, space, key, NULL, &id, out, e);
    if (code == WARM_ENOT_FOUND && space == WIRE_SPACE_KEY && peer->is_admin &&
        service_resolve(s, peer, space, key, &id, 1))
        code = store_peek(s->config.store, &id, out, e);
    return code;
}

/* ---- answers at once ---- */

/* Finds a value; to administer it is no hit. */
static int get_value(struct service *s, const struct peer *peer, const struct store_id *id,
                     struct store_value *out, struct err *e)
{
    return peer->administers ? store_look(s->config.store, id, out, e)
                             : store_get(s->config.store, id, out, e);
}

/* Finds the entry that a call waited for. Its key may be gone by now, so id and proof decide. */
static int find_for_call(const struct call *call, struct store_value *out, struct err *e)
{
    int code = get_value(call->service, call->peer, &call->id, out, e);
    if (code)
        return code;
    struct proof of = proof_of_row(&out->row);
    return proof_equal(&of, &call->proof) ? 0 : err_set(e, WARM_ENOT_FOUND, "not found");
}

int service_get(struct service *s, const struct peer *peer, enum wire_space space, struct view key,
                const struct proof *proof, struct store_value *out, struct err *e)
{
    struct store_id id;
    struct store_row row;
    if (space == WIRE_SPACE_NAME) {
        id = service_name_id(peer, key);
    } else {
        int code = find_id(s, peer, space, key, proof, &id, &row, e);
        if (code)
            return code;
    }
    int code = get_value(s, peer, &id, out, e);
    if (code)
        return code;
    if (id.owner == STORE_MADE_HERE && damaged_is_refused(s, peer->uid, &id.key, &out->row.check))
        return err_set(e, WARM_ENOT_FOUND, "refused before");
    if (space == WIRE_SPACE_NAME && !row_has_name(&out->row, key))
        return err_set(e, WARM_ENOT_FOUND, "not found");
    return 0;
}

void service_count_hit(struct service *s, const struct peer *peer, enum wire_space space,
                       struct view key, const struct store_row *row)
{
    bookkeeping_hit(s, peer, bookkeeping_is_note(space, key), row);
}

void service_count_miss(struct service *s, const struct peer *peer, struct view name,
                        const struct err *failure)
{
    struct call call = {.service = s,
                        .peer = peer,
                        .name = name,
                        .began_us = clock_wall_us(),
                        .id = service_name_id(peer, name),
                        .is_unlisted = bookkeeping_is_unlisted(WIRE_SPACE_NAME, name)};
    if (failure && bookkeeping_is_failure(failure->code))
        bookkeeping_failure(&call, failure);
    if (!call.is_unlisted)
        bookkeeping_asked(s, peer);
    bookkeeping_get_miss(&call, false);
}

/* ---- a GET that waits ---- */

static void on_lease(struct call *call)
{
    call_answer(call, &(struct answer){.kind = ANSWER_LEASE,
                                       .token = call->ask.token,
                                       .deadline_ms = (uint32_t)call->ask.lease_ms});
}

static void on_result(struct call *call, struct artifact *result)
{
    if (call->ask.token) /* it had been told to make it */
        call_answer(call, &(struct answer){.kind = ANSWER_OVER});
    else
        call_answer_artifact(call, result, WIRE_WAS_COALESCED);
}

static void on_error(struct call *call, const struct err *e)
{
    if (call->ask.token)
        call_answer(call, &(struct answer){.kind = ANSWER_OVER});
    else if (e->code == WARM_ENOT_FOUND)
        call_answer(call, &(struct answer){.kind = ANSWER_MISS});
    else
        call_fail(call, e);
}

static const struct call_ops get_ops = {STORE_OTHER, on_lease, on_result, on_error, NULL};

/* Joins the key's flight if this GET may wait or make the value. */
static void get_join(struct call *call)
{
    if (call->joins)
        call_join(call);
    else
        call_answer(call, &(struct answer){.kind = ANSWER_MISS});
}

static void get_from_tier(struct call *call)
{
    if (call->from_tier)
        call_answer_artifact(call, call->from_tier, WIRE_WAS_HIT);
    else
        get_join(call);
}

static void get_begin(struct call *call, enum wire_space space, struct view key)
{
    assert(!call->ops && !call->answered);
    call->ops = &get_ops;
    call->began_us = clock_wall_us();
    call->is_unlisted = bookkeeping_is_unlisted(space, key);
    if (!call->is_unlisted)
        bookkeeping_asked(call->service, call->peer);
}

/* Returns what has come from the tier for a call and is on its way to the disk, or NULL: the tier is asked once. */
static struct artifact *find_coming(const struct call *call)
{
    const struct service *s = call->service;
    const struct pending_put *p = s->tier ? find_put(s, &call->id, NULL) : NULL;
    struct artifact *a = p ? p->artifact : NULL;
    bool is_it =
        a && a->from_tier && a->kind != STORE_MANIFEST && proof_equal(&p->asked, &call->proof);
    return is_it ? a : NULL;
}

void service_fail(struct call *call, enum wire_space space, struct view key, const struct err *e)
{
    get_begin(call, space, key);
    if (space == WIRE_SPACE_NAME) {
        call->name = key;
        call->id = service_name_id(call->peer, key);
    } else {
        call->id = key_id(STORE_MADE_HERE, key);
    }
    bookkeeping_failure(call, e);
    call_fail(call, e);
}

void service_ask(struct call *call, enum ask_mode mode, enum wire_space space, struct view key,
                 const struct proof *proof, uint64_t wait_ms)
{
    struct service *s = call->service;
    struct flight *f = NULL;
    get_begin(call, space, key);
    if (space == WIRE_SPACE_KEY) {
        call->id = key_id(STORE_MADE_HERE, key);
        if (proof)
            call->proof = *proof;
        f = proof ? flight_find(s->flights, &call->id, proof) : NULL;
        mode = ASK_KNOWN; /* only a COMPILE makes those */
    } else {
        call->name = key;
        call->id = service_name_id(call->peer, key);
        if (mode == ASK_LEASE)
            bookkeeping_look_is_over(call);
        if (mode != ASK_LEASE && flights_count(s->flights) == 0)
            mode = ASK_KNOWN;
        /* Two names of one key are two flights: the name's SHA-256 stands in for a proof. */
        if (mode != ASK_KNOWN || flights_count(s->flights) || s->tier)
            call->proof = proof_of_bytes(key.data, key.len);
        f = flight_find(s->flights, &call->id, &call->proof);
    }
    struct artifact *known = f ? flight_result(f) : find_coming(call);
    if (known && !known->manifest) {
        call_answer_artifact(call, known, WIRE_WAS_HIT);
        return;
    }
    call->joins = mode != ASK_KNOWN;
    call->ask.can_make = mode == ASK_LEASE;
    call->ask.uid = call->peer->uid;
    call->ask.lease_ms = s->config.config->lease_timeout_ms;
    call->ask.expires_ms = service_clock_ms(s) + (wait_ms ? wait_ms : WAIT_DEFAULT_MS);
    bool asks =
        (space == WIRE_SPACE_NAME || proof) && !call->is_unlisted && !known &&
        tier_ask(call,
                 &(struct tier_question){&call->id, &call->proof,
                                         space == WIRE_SPACE_NAME ? key : (struct view){"", 0},
                                         mode == ASK_LEASE},
                 get_from_tier);
    if (asks && !call->waits)
        call_answer(call, &(struct answer){.kind = ANSWER_WAIT});
    if (!asks)
        get_join(call);
}

/* ---- ranks on several machines ---- */

/* Answers as the tier decided; from this machine's store if it did not. */
static void job_answered(struct call *call)
{
    struct store_value v;
    struct err e = {0};
    if (call->from_tier)
        call_answer_artifact(call, call->from_tier, WIRE_WAS_HIT);
    else if (!call->tier_knows && find_for_call(call, &v, &e) == 0)
        call_answer(call, &(struct answer){.kind = ANSWER_VALUE, .value = &v});
    else
        get_join(call);
}

bool service_ask_for_job(struct call *call, struct view key, bool lease, uint64_t wait_ms)
{
    struct service *s = call->service;
    assert(*call->job);
    if (!s->tier || bookkeeping_is_unlisted(WIRE_SPACE_NAME, key))
        return false;
    call->id = service_name_id(call->peer, key);
    call->proof = proof_of_bytes(key.data, key.len);
    call->ops = &get_ops;
    call->name = key;
    call->began_us = clock_wall_us();
    call->joins = call->ask.can_make = lease;
    call->ask.uid = call->peer->uid;
    call->ask.lease_ms = s->config.config->lease_timeout_ms;
    call->ask.expires_ms = service_clock_ms(s) + (wait_ms ? wait_ms : WAIT_DEFAULT_MS);
    struct tier_question q = {&call->id, &call->proof, key, lease};
    if (!tier_ask(call, &q, job_answered)) {
        call->ops = NULL;
        call->name = (struct view){0};
        return false;
    }
    bookkeeping_asked(s, call->peer);
    if (!call->waits)
        call_answer(call, &(struct answer){.kind = ANSWER_WAIT});
    return true;
}

/* ---- a GET of a large value that has to be verified first ---- */

static void get_again(struct call *call)
{
    struct store_value v;
    struct err e = {0};
    int code = find_for_call(call, &v, &e);
    if (code == 0) {
        call_answer(call, &(struct answer){.kind = ANSWER_VALUE, .value = &v});
    } else if (bookkeeping_is_failure(code)) {
        bookkeeping_failure(call, &e);
        call_fail(call, &e);
    } else {
        call->was_corrupt = true; /* it was there a moment ago */
        call_answer(call, &(struct answer){.kind = ANSWER_MISS});
    }
}

void service_get_later(struct call *call, enum wire_space space, struct view key,
                       const struct proof *proof)
{
    struct store_row row;
    get_begin(call, space, key);
    int code = find_id(call->service, call->peer, space, key, proof, &call->id, &row, NULL);
    call->proof = code == 0 ? proof_of_row(&row) : (struct proof){{0}};
    if (code == 0 && call_prepare(call, &call->id, get_again))
        call_answer(call, &(struct answer){.kind = ANSWER_WAIT});
    else
        call_answer(call, &(struct answer){.kind = ANSWER_MISS});
}
