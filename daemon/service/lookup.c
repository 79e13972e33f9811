/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lookup.c - decides which entry a GET may have, and what kind of ask it is.
 *
 * Most are hits: the wires run the first source with service_get, which needs no ask. After that, service_ask goes on
 * with the others. What a GET found once is found again by its id and proof: its name is borrowed until the first
 * answer.
 *
 * Thread: loop thread.
 */
#include <assert.h>
#include <string.h>

#include "daemon/nodes/tier.h"
#include "daemon/service/bookkeeping.h"
#include "daemon/service/find.h"
#include "daemon/service/internal.h"
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

int service_get(struct service *s, const struct peer *peer, const struct question *q,
                struct store_value *out, struct err *e)
{
    struct store_id id;
    struct store_row row;
    int code = 0;
    e->code = 0;
    if (q->space == WIRE_SPACE_NAME)
        id = service_name_id(peer, q->key);
    else
        code = find_id(s, peer, q->space, q->key, q->proof, &id, &row, e);
    if (!code)
        code = get_value(s, peer, &id, out, e);
    if (!code && id.owner == STORE_MADE_HERE &&
        refused_by_user(s, peer->uid, &id.key, &out->row.check))
        code = WARM_ENOT_FOUND;
    if (!code && q->space == WIRE_SPACE_NAME && !row_has_name(&out->row, q->key))
        code = WARM_ENOT_FOUND;
    return e->code = code;
}

void service_count_hit(struct service *s, const struct peer *peer, const struct question *q,
                       const struct store_row *row)
{
    bookkeeping_hit(s, peer, bookkeeping_is_note(q->space, q->key), row);
}

void service_count_miss(struct service *s, const struct peer *peer, struct view name,
                        const struct err *failure)
{
    struct ask ask = {.service = s,
                      .peer = peer,
                      .name = name,
                      .began_us = clock_wall_us(),
                      .id = service_name_id(peer, name),
                      .is_unlisted = bookkeeping_is_unlisted(WIRE_SPACE_NAME, name)};
    if (failure && bookkeeping_is_failure(failure->code))
        bookkeeping_failure(&ask, failure);
    if (!ask.is_unlisted)
        bookkeeping_asked(s, peer);
    bookkeeping_get_miss(&ask, false);
}

/* ---- asks ---- */

enum step try_own(struct ask *ask, struct look *look)
{
    struct store_value *v = &look->find.stored;
    struct err *e = &look->find.err;
    assert(!ask->compile);
    int code = get_value(ask->service, ask->peer, &ask->id, v, e);
    look->answer.value = v;
    if (code == 0) {
        struct proof proof = proof_of_row(&v->row);
        code = proof_equal(&proof, &ask->proof) ? 0 : WARM_ENOT_FOUND;
    }
    if (code == WARM_EBUSY && ask_prepare(ask, &ask->id)) {
        if (!ask->waits)
            ask_answer(ask, &(struct answer){.kind = ANSWER_WAIT});
        return STEP_LATER;
    }
    if (code == 0 || bookkeeping_is_failure(code))
        return code ? STEP_FAILED : STEP_FOUND;
    ask->was_corrupt |= ask->prepared || code == WARM_ECORRUPT; /* it was there a moment ago */
    return ask->prepared || code == WARM_EBUSY ? STEP_MISS : STEP_NOT_HERE;
}

static void on_lease(struct ask *ask)
{
    ask_answer(ask, &(struct answer){.kind = ANSWER_LEASE,
                                     .token = ask->waiter.token,
                                     .deadline_ms = (uint32_t)ask->waiter.lease_ms});
}

/* Takes the flight's result, or its error if there is none. An asker that had been told to make it is told nothing. */
static void on_result(struct ask *ask, struct artifact *result)
{
    if (ask->waiter.token)
        ask_answer(ask, &(struct answer){.kind = ANSWER_OVER});
    else
        ask_found(ask, &(struct answer){.artifact = result, .outcome = WIRE_WAS_COALESCED});
}

static void on_error(struct ask *ask, const struct err *e)
{
    if (ask->waiter.token)
        ask_answer(ask, &(struct answer){.kind = ANSWER_OVER});
    else if (e->code == WARM_ENOT_FOUND)
        ask_answer(ask, &(struct answer){.kind = ANSWER_MISS});
    else
        ask_fail(ask, e);
}

#define OF_A_GET                                                                                   \
    .kind = STORE_OTHER, .on_lease = on_lease, .on_result = on_result, .on_error = on_error
const struct ask_ops ask_for_name = {OF_A_GET,
                                     .sources = {try_own, try_flight, try_tier, try_maker}};
const struct ask_ops ask_for_key = {OF_A_GET, .sources = {try_own, try_flight, try_tier}};
const struct ask_ops ask_of_rank = {OF_A_GET, .sources = {try_own, try_flight, try_maker}};
const struct ask_ops ask_of_ranks = {OF_A_GET,
                                     .sources = {try_tier, try_own, try_flight, try_maker}};

/* Names what an ask is for. A name's SHA-256 stands in for a proof, since two names of one key are two flights; it is
 * left out if nothing will ask for it. */
static void take_question(struct ask *ask, const struct question *q, int code)
{
    struct service *s = ask->service;
    struct store_row row;
    if (q->space == WIRE_SPACE_NAME) {
        ask->name = q->key;
        ask->id = service_name_id(ask->peer, q->key);
        ask->joins = q->mode == ASK_LEASE || (q->mode == ASK_WAIT && flights_count(s->flights));
        if (ask->joins || flights_count(s->flights) || s->tier || *ask->job || code == WARM_EBUSY)
            ask->proof = proof_of_bytes(q->key.data, q->key.len);
        return;
    }
    ask->id = key_id(STORE_MADE_HERE, q->key);
    if (q->proof)
        ask->proof = *q->proof;
    if (code == WARM_EBUSY &&
        find_id(s, ask->peer, q->space, q->key, q->proof, &ask->id, &row, NULL) == 0)
        ask->proof = proof_of_row(&row);
}

void service_ask(struct ask *ask, const struct question *q)
{
    struct service *s = ask->service;
    int code = q->why ? q->why->code : WARM_ENOT_FOUND;
    assert(!ask->ops && !ask->answered && q->key.len);
    ask->ops = q->space == WIRE_SPACE_KEY ? &ask_for_key
               : *ask->job                ? &ask_of_ranks
               : ask->is_rank             ? &ask_of_rank
                                          : &ask_for_name;
    ask->began_us = clock_wall_us();
    ask->is_unlisted = bookkeeping_is_unlisted(q->space, q->key);
    ask->no_tier = (ask->is_unlisted && !wire_name_is_catalogue(q->key)) ||
                   (q->space == WIRE_SPACE_KEY && !q->proof);
    if (!ask->is_unlisted)
        bookkeeping_asked(s, ask->peer);
    take_question(ask, q, code);
    ask->waiter.can_make = q->mode == ASK_LEASE && ask->joins;
    if (ask->waiter.can_make)
        bookkeeping_look_is_over(ask);
    ask->waiter.uid = ask->peer->uid;
    ask->waiter.lease_ms = s->config.config->lease_timeout_ms;
    ask->waiter.expires_ms = service_clock_ms(s) + (q->wait_ms ? q->wait_ms : WAIT_DEFAULT_MS);
    ask->was_corrupt = code == WARM_ECORRUPT;
    bool failed = bookkeeping_is_failure(code);
    if (failed)
        bookkeeping_failure(ask, q->why);
    if (failed && ask->tells_errors && !ask->waiter.can_make) {
        ask_fail(ask, q->why);
        return;
    }
    if (ask->ops != &ask_of_ranks && code != WARM_EBUSY)
        ask->at = 1; /* service_get has looked */
    ask_step(ask);
}
