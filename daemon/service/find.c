/* SPDX-License-Identifier: Apache-2.0 */
/*
 * find.c - the sources of what this daemon made. A result lies under its key, or an alias or a manifest leads there;
 * a new one may still be on its way to the store, or in a flight.
 *
 * ask.c runs the sources. build_store.c asks for the manifest that it extends; damaged.c asks for the maker.
 *
 * Thread: loop thread.
 */
#include "daemon/service/find.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/service/bookkeeping.h"
#include "daemon/service/compile_request.h"
#include "daemon/service/internal.h"
#include "daemon/service/put.h"

const struct pending_put *find_put(const struct service *s, const struct store_id *id,
                                   const struct proof *proof)
{
    const struct pending_put *p = s->puts;
    while (p && !(store_id_equal(&p->id, id) && (!proof || proof_equal(&p->proof, proof))))
        p = p->next;
    return p;
}

/* Reads the bytes of a manifest entry: a manifest, or an alias. */
static enum found read_lead(const void *bytes, size_t len, struct find *out)
{
    if (manifest_decode(bytes, len, &out->manifest, NULL) == 0)
        return FOUND_MANIFEST;
    return alias_read(bytes, len, &out->alias) ? FOUND_ALIAS : FOUND_NONE;
}

static enum found read_lead_file(int fd, uint64_t len, struct find *out)
{
    void *bytes = len <= MANIFEST_MAX ? malloc(len) : NULL;
    enum found found = FOUND_NONE;
    if (bytes && file_read_start(fd, bytes, len, NULL) == 0)
        found = read_lead(bytes, len, out);
    free(bytes);
    return found;
}

/* Finds a pending put. One without its hash is skipped: its bytes may not be those that its client
 * announced. */
static enum found find_pending(const struct service *s, const struct store_id *id,
                               const struct proof *proof, struct find *out)
{
    const struct pending_put *p = find_put(s, id, proof);
    struct artifact *a = p ? p->artifact : NULL;
    if (!a)
        return FOUND_NONE;
    if (a->kind == STORE_MANIFEST)
        return a->data ? read_lead(a->data, a->len, out) : read_lead_file(a->fd, a->len, out);
    out->pending = a->hashed ? a : NULL;
    return a->hashed ? FOUND_RESULT : FOUND_NONE;
}

static enum found find_stored(struct service *s, const struct store_id *id,
                              const struct proof *proof, struct find *out)
{
    struct store_value *v = &out->stored;
    out->code = store_get(s->config.store, id, v, &out->err);
    if (out->code || !proof_equal(&v->row.proof, proof))
        return FOUND_NONE;
    if (v->row.kind == STORE_MANIFEST)
        return v->data ? read_lead(v->data, v->row.len, out)
                       : read_lead_file(v->fd, v->row.len, out);
    out->value = v;
    return FOUND_RESULT;
}

enum found find_made(struct service *s, const struct store_id *id, const struct proof *proof,
                     struct find *out)
{
    assert(id->owner == STORE_MADE_HERE);
    *out = (struct find){.code = WARM_ENOT_FOUND};
    enum found found = find_pending(s, id, proof, out);
    return found == FOUND_NONE ? find_stored(s, id, proof, out) : found;
}

bool find_maker(struct service *s, const struct store_id *id, const struct proof *proof,
                uint32_t *out_maker, struct key *out_check)
{
    struct store_row row;
    const struct pending_put *p = find_put(s, id, proof);
    if (p) {
        *out_maker = p->maker;
        *out_check = p->artifact->check;
        return true;
    }
    if (store_peek(s->config.store, id, &row, NULL) != 0 ||
        (proof && !proof_equal(&row.proof, proof)))
        return false;
    *out_maker = row.maker;
    *out_check = row.check;
    return true;
}

/* ---- the sources "made here" and "flight" ---- */

/* Asks the client about a stored manifest, which is taken. False if it has nothing for this client, or if the client
 * has answered, or has left. A client is asked again only if the manifest has changed: others may have made the
 * result meanwhile. */
static bool check_known(struct ask *ask, struct manifest *m)
{
    struct compile *c = ask->compile;
    assert(m->refs && !ask->checking);
    bool can = !key_equal(&c->checked, &m->digest) && c->n_checks < CHECKS_MAX &&
               (!ask->ops->is_child || ask->client);
    struct key digest = m->digest;
    m = manifest_for(m, c->bases);
    can &= m != NULL;
    if (can) {
        c->checked = digest;
        c->n_checks++;
        ask_check(ask, m, NULL);
    }
    manifest_unref(m);
    return can;
}

/* Goes on under the key that an alias names, whose bases are taken. No alias leads to another. */
static enum step follow_alias(struct ask *ask, const struct alias *alias)
{
    if (ask->is_chosen || ask->ops->is_child) {
        bases_unref(alias->bases);
        ask->no_tier = true;
        return STEP_NOT_HERE;
    }
    bases_unref(ask->compile->bases);
    ask->compile->bases = alias->bases;
    ask->chosen.id = (struct store_id){STORE_MADE_HERE, alias->key};
    ask->chosen.proof = alias->proof;
    ask->is_chosen = true;
    return STEP_AGAIN;
}

enum step try_made(struct ask *ask, struct look *look)
{
    struct find *f = &look->find;
    assert(ask->compile && ask->id.owner == STORE_MADE_HERE); /* no peer's own space */
    const struct store_id *id = ask->is_chosen ? &ask->chosen.id : &ask->id;
    enum found found =
        find_made(ask->service, id, ask->is_chosen ? &ask->chosen.proof : &ask->proof, f);
    look->answer.value = f->value;
    look->answer.artifact = f->pending;
    ask->was_corrupt |= f->code == WARM_ECORRUPT;
    ask->no_tier = found == FOUND_MANIFEST || f->code != WARM_ENOT_FOUND;
    switch (found) {
    case FOUND_RESULT: return STEP_FOUND;
    case FOUND_MANIFEST: return check_known(ask, f->manifest) ? STEP_LATER : STEP_NOT_HERE;
    case FOUND_ALIAS: return follow_alias(ask, &f->alias);
    case FOUND_NONE: break;
    }
    if (f->code == WARM_EBUSY && ask_prepare(ask, id))
        return STEP_LATER;
    return bookkeeping_is_failure(f->code) ? STEP_FAILED : STEP_NOT_HERE;
}

/* Returns what has come from the tier for an ask and is on its way to the disk, or NULL: the tier is asked once. */
static struct artifact *find_coming(const struct ask *ask)
{
    const struct service *s = ask->service;
    const struct pending_put *p = s->tier ? find_put(s, &ask->id, NULL) : NULL;
    struct artifact *a = p ? p->artifact : NULL;
    bool is_it =
        a && a->from_tier && a->kind != STORE_MANIFEST && proof_equal(&p->asked, &ask->proof);
    return is_it ? a : NULL;
}

enum step try_flight(struct ask *ask, struct look *look)
{
    const struct flight *f = flight_find(ask->service->flights, &ask->id, &ask->proof);
    struct artifact *a = f ? flight_result(f) : ask->compile ? NULL : find_coming(ask);
    look->answer.artifact = a;
    if (!a)
        return STEP_NOT_HERE;
    return a->manifest && !ask->compile ? STEP_MISS : STEP_FOUND; /* a GET shows no files */
}
