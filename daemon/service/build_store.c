/* SPDX-License-Identifier: Apache-2.0 */
/*
 * build_store.c - decides which entries of the store lead to the result of a build:
 *
 *     exact key ──▶ result                                   a job without a shared key, no headers
 *     exact key ──▶ manifest ──▶ result                      with headers of the client
 *     exact key ──▶ alias ──▶ shared key ──▶ result          with a shared key
 *     exact key ──▶ alias ──▶ shared key ──▶ manifest ──▶ result
 *
 * All entries that lead to a result are in one group with it, so that they leave the store together.
 *
 * An entry belongs to its first maker, who may remove it. A result that others rely on is not replaced
 * by a compile of another user (WIRE_COMPILE_RECACHE). Administrators may replace it.
 *
 * build.c calls it when a build has its result.
 *
 * Thread: loop thread, but for build_manifest.
 */
#include "daemon/service/build.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/service/find.h"
#include "daemon/service/internal.h"
#include "daemon/service/put.h"

static struct store_row build_row(const struct build *b, const struct store_id *id)
{
    const struct toolchain *toolchain = b->compile.toolchain;
    bool shared = id == &b->child.id;
    return (struct store_row){
        .id = *id,
        .maker = b->maker,
        .proof = shared ? b->child.proof : b->proof,
        .compiler = b->compile.address.compiler,
        .graph = shared ? b->shared_graph : b->compile.address.graph,
        .hardware = {b->compile.address.hardware, strlen(b->compile.address.hardware)},
        .compiler_text = {toolchain->text, strlen(toolchain->text)},
        .label = {b->compile.label, strlen(b->compile.label)},
    };
}

/* True if another user made the entry of the row's id and proof. The row then names that maker, and
 * the value must not be replaced. */
static bool leave_to_maker(const struct build *b, struct store_row *row)
{
    struct key check;
    uint32_t maker;
    if (b->may_replace || !find_maker(b->service, &row->id, &row->proof, &maker, &check) ||
        maker == b->maker)
        return false;
    row->maker = maker;
    return true;
}

/* The forms of the paths in a manifest; forms_close frees them. */
struct forms {
    struct view *paths;
    struct manifest_state *states;
    uint32_t n;
    struct writer texts;
};

static bool forms_open(struct forms *f, const struct manifest_paths *of,
                       const struct pool_result *done, unsigned how)
{
    size_t most = done->n_paths * MANIFEST_PATHS_FORMS_MAX;
    *f = (struct forms){.paths = calloc(most, sizeof *f->paths),
                        .states = calloc(most, sizeof *f->states)};
    uint32_t *first_form = calloc(done->n_paths + 1, sizeof *first_form); /* of each path */
    writer_init(&f->texts, MANIFEST_MAX);
    for (size_t i = 0; f->states && first_form && !f->texts.failed && i < done->n_paths; i++) {
        const struct pool_path *p = &done->paths[i];
        uint32_t same = p->same < i ? first_form[p->same] : f->n;
        first_form[i] = f->n;
        for (unsigned k = manifest_paths_forms(of, p->path, how, &f->texts); k; k--, f->n++)
            f->states[f->n] =
                (struct manifest_state){0, p->absent, p->sha256, done->has_once ? same : f->n};
    }
    free(first_form);
    struct reader texts = reader_over(f->texts.data, f->texts.len);
    for (uint32_t i = 0; f->paths && i < f->n; i++)
        f->paths[i] = reader_blob(&texts, 2 * WIRE_PATH_MAX + 16);
    return f->n && f->paths && f->states && !f->texts.failed && !texts.failed;
}

/* True if clients with other -I folders may have the result: it shows none of the folders, and each
 * path below them is known. */
static bool may_move(const struct manifest_paths *of, const struct pool_result *done)
{
    bool may = done->movable && of->can_move;
    for (size_t i = 0; may && i < done->n_paths; i++)
        may = manifest_paths_know(of, done->paths[i].path);
    return may;
}

struct manifest *build_manifest(const struct build *b, const struct pool_result *done, bool shared,
                                struct address *address, struct proof *proof)
{
    struct forms f = {0};
    struct manifest *m = NULL;
    struct manifest_alternative a = {.maker = b->maker, .one_file = done->has_once};
    bool moved = shared && may_move(&b->paths, done);
    unsigned how = (shared ? MANIFEST_PATHS_SHARED : 0u) | (moved ? MANIFEST_PATHS_MOVED : 0u) |
                   (done->names_places ? MANIFEST_PATHS_NAMED : 0u) |
                   (done->names_inner ? MANIFEST_PATHS_INNER : 0u);
    if (shared && !moved)
        a.places = b->paths.bases->places_proof;
    if (done->n_paths <= MANIFEST_PATHS_MAX / MANIFEST_PATHS_FORMS_MAX &&
        forms_open(&f, &b->paths, done, how)) {
        struct key graph = address->graph;
        struct proof of_source = *proof;
        manifest_seal(&graph, &of_source, &a.places, f.paths, f.states, f.n, &address->graph,
                      proof);
        a.result = address_key(address);
        a.proof = *proof;
        m = manifest_new(f.paths, f.states, f.n, &a);
    }
    free(f.paths);
    free(f.states);
    writer_close(&f.texts);
    return m;
}

/* True if it came from the tier: what another node signed must not go on under our own signature, which would
 * outlive a revocation of that node's key. */
static bool is_of_the_tier(const struct find *f)
{
    return f->pending ? f->pending->from_tier : f->value && f->value->row.tier & STORE_TIER_CAME;
}

/* Finds the manifest that was last written here under a key (given); NULL if there is none. */
static struct manifest *known_manifest(struct service *s, const struct store_row *row)
{
    struct find f;
    enum found found = find_made(s, &row->id, &row->proof, &f);
    if (found == FOUND_ALIAS)
        bases_unref(f.alias.bases);
    if (found == FOUND_MANIFEST && !is_of_the_tier(&f))
        return f.manifest;
    if (found == FOUND_MANIFEST)
        manifest_unref(f.manifest);
    return NULL;
}

/* Queues the bytes of a manifest or an alias. */
static struct artifact *store_bytes(struct service *s, struct flight *flight,
                                    const struct writer *w, struct store_row *row)
{
    struct artifact *a = w->failed ? NULL : artifact_from_bytes(w->data, w->len);
    if (!a) { /* no memory: the result is not found, and is made again */
        if (flight)
            flight_stored(flight, service_clock_ms(s));
        return NULL;
    }
    a->kind = STORE_MANIFEST;
    a->key = row->id.key;
    put_result(s, flight, a, row, false);
    return a;
}

/* Queues a manifest of the result's alternative and of those known before, under the source's
 * key. */
static void store_manifest(const struct build *b, const struct artifact *result,
                           const struct store_id *id)
{
    struct service *s = b->service;
    struct store_row row = build_row(b, id);
    struct manifest *old = known_manifest(s, &row);
    struct writer w;
    writer_init(&w, 2 * MANIFEST_MAX);
    manifest_write(result->manifest, old, &w);
    manifest_unref(old);
    row.group = id->key;
    leave_to_maker(b, &row); /* this alternative is added all the same */
    artifact_unref(store_bytes(s, NULL, &w, &row));
    writer_close(&w);
}

void build_store_alias(const struct build *b)
{
    struct store_row row = build_row(b, &b->id);
    assert(b->shares && b->paths.bases);
    struct alias alias = {b->child.id.key, b->child.proof, b->paths.bases};
    struct writer w;
    writer_init(&w, 0);
    alias_write(&alias, &w);
    row.group = b->child.id.key;
    leave_to_maker(b, &row); /* both aliases lead to the same entry */
    artifact_unref(store_bytes(b->service, b->flight, &w, &row));
    writer_close(&w);
}

void build_store_result(const struct build *b, struct artifact *result, bool shared,
                        const struct address *address, const struct proof *proof)
{
    const struct store_id *id = shared ? &b->child.id : &b->id;
    struct store_row row = build_row(b, id);
    if (shared || result->manifest)
        row.group = id->key;
    if (result->manifest) {
        store_manifest(b, result, id);
        row.id.key = result->key;
        row.graph = address->graph;
        row.proof = *proof;
    }
    bool keep_existing = leave_to_maker(b, &row);
    assert(result->hashed && !result->failed);
    put_result(b->service, shared ? NULL : b->flight, result, &row, keep_existing);
    if (shared)
        build_store_alias(b);
}
