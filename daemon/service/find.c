/* SPDX-License-Identifier: Apache-2.0 */
/*
 * find.c - looks an id and a proof up in the store: finds a result, or a manifest or alias that leads to one.
 *
 * compile_request.c asks under a job's exact key, and under the key that this leads to; build.c asks under the
 * shared key; build_store.c asks for the manifest that it extends; damaged.c asks for the maker.
 *
 * Thread: loop thread.
 */
#include "daemon/service/find.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/service/bookkeeping.h"
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
                     struct call *call, void (*again)(struct call *call), struct find *out)
{
    assert(id->owner == STORE_MADE_HERE);
    assert(!call || !call->answered);
    *out = (struct find){.code = WARM_ENOT_FOUND};
    enum found found = find_pending(s, id, proof, out);
    if (found == FOUND_NONE)
        found = find_stored(s, id, proof, out);
    if (call && found == FOUND_NONE && bookkeeping_is_failure(out->code))
        bookkeeping_failure(call, &out->err);
    if (out->code == WARM_EBUSY && call && call_prepare(call, id, again))
        return FOUND_SOON;
    return found;
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
