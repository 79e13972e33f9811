/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manifest.c - reads and writes manifests and aliases, and decides which alternative agrees with a client's
 * files.
 *
 * find.c reads stored ones; build_store.c writes them; compile_request.c and build.c compare.
 *
 * Thread: any; no state of its own. Memory: see manifest.h.
 */
#include "daemon/headers/manifest.h"
#include "keygen/canon/names.h"
#include "keygen/domains.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define MANIFEST_MAGIC 0x4e414d57u /* "WMAN" */
#define ALIAS_MAGIC 0x534c4157u    /* "WALS" */
#define STATE_MIN 5u               /* bytes of the shortest state: an absent path */
#define NO_STATE UINT32_MAX        /* manifest_other_file */

enum seal { SEAL_GRAPH = 1, SEAL_PROOF, SEAL_PATH, SEAL_FILE, SEAL_ABSENT, SEAL_SAME, SEAL_PLACES };

/* ---- reading ---- */

static int manifest_read_paths(struct manifest *m, struct reader *r, struct err *e)
{
    m->n_paths = reader_u32(r);
    if (r->failed || m->n_paths > MANIFEST_PATHS_MAX || m->n_paths > r->len / 4)
        return err_set(e, WARM_EMALFORMED, "manifest: its paths are cut short");
    m->paths = calloc(m->n_paths + 1, sizeof *m->paths);
    if (!m->paths)
        return err_set(e, WARM_ENOMEM, "no memory for a manifest");
    for (uint32_t i = 0; i < m->n_paths; i++) {
        m->paths[i] = reader_blob(r, WIRE_PATH_MAX);
        if (r->failed || m->paths[i].len == 0 || memchr(m->paths[i].data, '\0', m->paths[i].len))
            return err_set(e, WARM_EMALFORMED, "manifest: path %u is damaged", i);
    }
    return 0;
}

/* True if each state of a file names itself, or a file before it, as the first of the same file. */
static bool same_is_sound(const struct manifest_state *states, uint32_t i)
{
    const struct manifest_state *s = &states[i];
    return s->absent || s->same == i ||
           (s->same < i && !states[s->same].absent && states[s->same].same == s->same);
}

static int manifest_read_alternative(struct manifest *m, struct manifest_alternative *a,
                                     struct reader *r, struct err *e)
{
    a->maker = reader_u32(r);
    reader_copy(r, &a->result, sizeof a->result);
    reader_copy(r, &a->proof, sizeof a->proof);
    reader_copy(r, &a->places, sizeof a->places);
    uint8_t one_file = reader_u8(r);
    a->one_file = one_file;
    r->failed |= one_file > 1;
    uint32_t n = reader_u32(r);
    if (r->failed || n > m->n_paths || n > r->len / STATE_MIN)
        return err_set(e, WARM_EMALFORMED, "manifest: an alternative is cut short");
    a->states = calloc(n + 1, sizeof *a->states);
    if (!a->states)
        return err_set(e, WARM_ENOMEM, "no memory for a manifest");
    a->n_states = n;
    for (uint32_t i = 0; i < n; i++) {
        a->states[i].path = reader_u32(r);
        uint8_t state = reader_u8(r);
        a->states[i].absent = state == WIRE_PATH_ABSENT;
        if (state > WIRE_PATH_FILE)
            r->failed = true;
        if (state == WIRE_PATH_FILE) {
            reader_copy(r, &a->states[i].sha256, sizeof a->states[i].sha256);
            a->states[i].same = reader_u32(r);
        }
        if (r->failed || a->states[i].path >= m->n_paths || !same_is_sound(a->states, i))
            return err_set(e, WARM_EMALFORMED, "manifest: a state is damaged");
    }
    return 0;
}

static int manifest_read(struct manifest *m, struct reader *r, struct err *e)
{
    if (reader_u32(r) != MANIFEST_MAGIC)
        return err_set(e, WARM_EMALFORMED, "manifest: wrong magic");
    if (reader_u16(r) != MANIFEST_VERSION)
        return err_set(e, WARM_EVERSION, "manifest: unknown version");
    uint16_t n = reader_u16(r);
    if (r->failed || n > MANIFEST_ALTERNATIVES_MAX)
        return err_set(e, WARM_EMALFORMED, "manifest: %u alternatives", n);
    int code = manifest_read_paths(m, r, e);
    if (code)
        return code;
    m->alternatives = calloc((size_t)n + 1, sizeof *m->alternatives);
    if (!m->alternatives)
        return err_set(e, WARM_ENOMEM, "no memory for a manifest");
    m->n_alternatives = n;
    for (uint16_t i = 0; i < n; i++) {
        code = manifest_read_alternative(m, &m->alternatives[i], r, e);
        if (code)
            return code;
    }
    return reader_done(r) ? 0 : err_set(e, WARM_EMALFORMED, "manifest: bytes after its end");
}

int manifest_decode(const void *data, size_t len, struct manifest **out, struct err *e)
{
    if (len > MANIFEST_MAX)
        return err_set(e, WARM_ETOO_BIG, "manifest of %zu bytes", len);
    struct manifest *m = calloc(1, sizeof *m);
    uint8_t *bytes = malloc(len + 1);
    if (!m || !bytes) {
        free(m);
        free(bytes);
        return err_set(e, WARM_ENOMEM, "no memory for a manifest");
    }
    memcpy(bytes, data, len);
    m->refs = 1;
    m->bytes = bytes;
    m->digest = key_of_bytes(bytes, len);
    struct reader r = reader_over(bytes, len);
    int code = manifest_read(m, &r, e);
    if (code)
        manifest_unref(m);
    else
        *out = m;
    return code;
}

struct manifest *manifest_ref(struct manifest *m)
{
    assert(m->refs);
    m->refs++;
    return m;
}

void manifest_unref(struct manifest *m)
{
    assert(!m || m->refs);
    if (!m || --m->refs)
        return;
    for (uint32_t i = 0; m->alternatives && i < m->n_alternatives; i++)
        free(m->alternatives[i].states);
    free(m->alternatives);
    free(m->paths);
    free(m->bytes);
    bases_unref(m->bases);
    free(m);
}

/* ---- writing ---- */

/* Returns the number of a path among those that are written, each once; NULL: no memory. */
static const uint32_t *path_number(struct names *t, struct view path)
{
    bool is_new;
    uint32_t *number = names_add(t, path.data, path.len, &is_new);
    if (number && is_new)
        *number = t->n - 1;
    return number;
}

/* Returns the bytes that an alternative takes, with all of its paths. */
static size_t alternative_size(const struct manifest *m, const struct manifest_alternative *a)
{
    size_t size = 4 + sizeof a->result + sizeof a->proof + sizeof a->places + 1 + 4;
    for (uint32_t i = 0; i < a->n_states; i++) {
        const struct manifest_state *s = &a->states[i];
        size += STATE_MIN + (s->absent ? 0 : sizeof s->sha256 + sizeof s->same);
        size += 4 + m->paths[s->path].len;
    }
    return size;
}

static void alternative_write(const struct manifest *m, const struct manifest_alternative *a,
                              struct names *t, struct writer *out)
{
    writer_u32(out, a->maker);
    writer_bytes(out, &a->result, sizeof a->result);
    writer_bytes(out, &a->proof, sizeof a->proof);
    writer_bytes(out, &a->places, sizeof a->places);
    writer_u8(out, a->one_file);
    writer_u32(out, a->n_states);
    for (uint32_t i = 0; i < a->n_states; i++) {
        const struct manifest_state *s = &a->states[i];
        assert(s->path < m->n_paths);
        const uint32_t *number = path_number(t, m->paths[s->path]);
        out->failed |= !number;
        writer_u32(out, number ? *number : 0);
        writer_u8(out, s->absent ? WIRE_PATH_ABSENT : WIRE_PATH_FILE);
        if (!s->absent) {
            writer_bytes(out, &s->sha256, sizeof s->sha256);
            writer_u32(out, s->same);
        }
    }
}

/* An alternative to keep, and its manifest. */
struct kept {
    const struct manifest *in;
    const struct manifest_alternative *alternative;
};

/* Chooses the alternatives to keep, and returns their number. Alternatives of other makers come first, so
 * that a user with many headers pushes out its own. */
static size_t manifest_choose(const struct manifest *fresh, const struct manifest *old,
                              struct kept kept[MANIFEST_ALTERNATIVES_MAX])
{
    size_t n = 0, size = 12 + alternative_size(fresh, fresh->alternatives);
    kept[n++] = (struct kept){fresh, fresh->alternatives};
    for (uint32_t k = 0; old && k < 2 * old->n_alternatives; k++) {
        const struct manifest_alternative *a = &old->alternatives[k % old->n_alternatives];
        bool of_others = a->maker != fresh->alternatives->maker;
        if (of_others != (k < old->n_alternatives) || n == MANIFEST_ALTERNATIVES_MAX ||
            key_equal(&a->result, &fresh->alternatives->result))
            continue;
        size += alternative_size(old, a);
        if (size > MANIFEST_MAX)
            break;
        kept[n++] = (struct kept){old, a};
    }
    return n;
}

/* Appends a manifest of these alternatives. */
static void write_kept(const struct kept *kept, size_t n, struct writer *out)
{
    struct names paths = {0};
    struct writer body;
    writer_init(&body, 0);
    for (size_t i = 0; i < n; i++)
        alternative_write(kept[i].in, kept[i].alternative, &paths, &body);
    writer_u32(out, MANIFEST_MAGIC);
    writer_u16(out, MANIFEST_VERSION);
    writer_u16(out, (uint16_t)n);
    writer_u32(out, paths.n);
    for (uint32_t i = 0; i < paths.n; i++)
        writer_blob(out, paths.entries[i].name, paths.entries[i].len);
    writer_bytes(out, body.data, body.len);
    out->failed |= body.failed || paths.n > MANIFEST_PATHS_MAX;
    writer_close(&body);
    names_close(&paths);
}

void manifest_write(const struct manifest *fresh, const struct manifest *old, struct writer *out)
{
    struct kept kept[MANIFEST_ALTERNATIVES_MAX];
    size_t n = manifest_choose(fresh, old, kept);
    write_kept(kept, n, out);
}

/* Makes a manifest of these alternatives alone. NULL: no memory. */
static struct manifest *manifest_of(const struct kept *kept, size_t n)
{
    struct manifest *out = NULL;
    struct writer w;
    writer_init(&w, MANIFEST_MAX);
    write_kept(kept, n, &w);
    if (!w.failed && manifest_decode(w.data, w.len, &out, NULL) != 0)
        out = NULL;
    writer_close(&w);
    return out;
}

/* Appends the state of paths[i] to `a`, if the path is new; kept[i] is the number of its state. False without
 * memory. */
static bool take_state(struct manifest_alternative *a, struct names *t, uint32_t *kept,
                       const struct view *paths, const struct manifest_state *states, uint32_t i)
{
    const uint32_t *number = path_number(t, paths[i]);
    if (!number)
        return false;
    kept[i] = *number;
    if (kept[i] < a->n_states)
        return true;
    assert(kept[i] == a->n_states);
    struct manifest_state *s = &a->states[a->n_states++];
    *s = states[i];
    s->path = i;
    s->same = states[i].same < i ? a->states[kept[states[i].same]].same : kept[i];
    return true;
}

struct manifest *manifest_new(const struct view *paths, const struct manifest_state *states,
                              uint32_t n, const struct manifest_alternative *alternative)
{
    struct manifest_alternative a = *alternative;
    struct names t = {0};
    uint32_t *kept = malloc((n + 1) * sizeof *kept);
    a.states = malloc((n + 1) * sizeof *a.states);
    a.n_states = 0;
    bool ok = a.states && kept;
    for (uint32_t i = 0; i < n && ok; i++)
        ok = take_state(&a, &t, kept, paths, states, i);
    struct manifest whole = {.n_paths = n, .paths = (struct view *)(uintptr_t)paths};
    struct manifest *m = ok ? manifest_of(&(struct kept){&whole, &a}, 1) : NULL;
    free(a.states);
    free(kept);
    names_close(&t);
    return m;
}

struct manifest *manifest_of_one(const struct manifest *m, const struct manifest_alternative *a,
                                 struct bases *bases)
{
    struct manifest *one = NULL;
    struct view *paths = malloc((a->n_states + 1) * sizeof *paths);
    for (uint32_t i = 0; paths && i < a->n_states; i++)
        paths[i] = m->paths[a->states[i].path];
    if (paths)
        one = manifest_new(paths, a->states, a->n_states, a);
    free(paths);
    if (!one || manifest_set_bases(one, bases))
        return one;
    manifest_unref(one);
    return NULL;
}

bool manifest_set_bases(struct manifest *m, struct bases *bases)
{
    bases_ref(bases);
    bases_unref(m->bases);
    m->bases = bases;
    for (uint32_t i = 0; i < m->n_paths; i++) {
        struct view folder, rest;
        if (!bases_find(bases, m->paths[i], &folder, &rest) || folder.len + rest.len == 0 ||
            folder.len + rest.len >= WIRE_PATH_MAX)
            return false;
    }
    return true;
}

/* ---- for an asker ---- */

/* True if the client has the -I folders that the result shows, if it shows any. */
static bool has_places(const struct bases *b, const struct manifest_alternative *a)
{
    static const struct proof any;
    return memcmp(&a->places, &any, sizeof any) == 0 ||
           (b && memcmp(&a->places, &b->places_proof, sizeof any) == 0);
}

/* Copies the alternatives of a manifest that are for these bases. NULL: no memory. */
static struct manifest *part_for(const struct manifest *m, const struct bases *bases)
{
    struct kept kept[MANIFEST_ALTERNATIVES_MAX];
    size_t n = 0;
    for (uint32_t i = 0; i < m->n_alternatives; i++)
        if (has_places(bases, &m->alternatives[i]))
            kept[n++] = (struct kept){m, &m->alternatives[i]};
    struct manifest *part = manifest_of(kept, n);
    if (part)
        part->digest = m->digest;
    return part;
}

struct manifest *manifest_for(struct manifest *m, struct bases *bases)
{
    struct manifest *out = NULL;
    bool all = true;
    for (uint32_t i = 0; i < m->n_alternatives; i++)
        all &= has_places(bases, &m->alternatives[i]);
    out = all ? manifest_ref(m) : part_for(m, bases);
    manifest_unref(m);
    if (out && out->n_alternatives && manifest_set_bases(out, bases))
        return out;
    manifest_unref(out);
    return NULL;
}

/* ---- meaning ---- */

void manifest_seal(const struct key *graph, const struct proof *proof, const struct proof *places,
                   const struct view *paths, const struct manifest_state *states, uint32_t n,
                   struct key *out_graph, struct proof *out_proof)
{
    struct key_builder b;
    key_begin(&b, DOMAIN_CLIENT_FILES);
    key_add(&b, SEAL_GRAPH, graph, sizeof *graph);
    key_add(&b, SEAL_PROOF, proof, sizeof *proof);
    key_add(&b, SEAL_PLACES, places, sizeof *places);
    for (uint32_t i = 0; i < n; i++) {
        key_add(&b, SEAL_PATH, paths[i].data, paths[i].len);
        if (states[i].absent)
            key_add(&b, SEAL_ABSENT, NULL, 0);
        else
            key_add(&b, SEAL_FILE, &states[i].sha256, sizeof states[i].sha256);
        if (!states[i].absent && states[i].same != i)
            key_add_u64(&b, SEAL_SAME, states[i].same);
    }
    key_end(&b, out_graph, out_proof);
}

bool manifest_differs(const struct manifest_state *was, const struct wire_path_seen *is)
{
    if (was->absent || is->state != WIRE_PATH_FILE)
        return was->absent != (is->state != WIRE_PATH_FILE);
    return memcmp(&was->sha256, &is->sha256, sizeof was->sha256) != 0;
}

uint32_t manifest_other_file(const struct manifest *m, const struct manifest_alternative *a,
                             const struct wire_path_seen *states)
{
    if (!a->one_file)
        return a->n_states;
    uint32_t *first =
        malloc((m->n_paths + 1) * sizeof *first); /* the state of each file of the client */
    uint32_t i = 0;
    for (uint32_t k = 0; first && k < m->n_paths; k++)
        first[k] = NO_STATE;
    for (; first && i < a->n_states; i++) {
        const struct manifest_state *s = &a->states[i];
        const struct wire_path_seen *seen = &states[s->path];
        if (s->absent || seen->state != WIRE_PATH_FILE)
            continue;
        if (first[seen->same] == NO_STATE)
            first[seen->same] = i;
        if (first[seen->same] != s->same)
            break;
    }
    free(first);
    return i;
}

static bool alternative_matches(const struct manifest *m, const struct manifest_alternative *a,
                                const struct wire_path_seen *states)
{
    if (!has_places(m->bases, a))
        return false;
    for (uint32_t i = 0; i < a->n_states; i++)
        if (manifest_differs(&a->states[i], &states[a->states[i].path]))
            return false;
    return manifest_other_file(m, a, states) == a->n_states;
}

const struct manifest_alternative *manifest_match(const struct manifest *m,
                                                  const struct wire_path_seen *states)
{
    for (uint32_t i = 0; i < m->n_alternatives; i++)
        if (alternative_matches(m, &m->alternatives[i], states))
            return &m->alternatives[i];
    return NULL;
}

/* ---- aliases ---- */

void alias_write(const struct alias *alias, struct writer *out)
{
    writer_u32(out, ALIAS_MAGIC);
    writer_u16(out, ALIAS_VERSION);
    writer_bytes(out, &alias->key, sizeof alias->key);
    writer_bytes(out, &alias->proof, sizeof alias->proof);
    writer_blob(out, alias->bases->folder.data, (uint32_t)alias->bases->folder.len);
    writer_u32(out, alias->bases->n_places);
    for (uint32_t i = 0; i < alias->bases->n_places; i++)
        writer_blob(out, alias->bases->places[i].data, (uint32_t)alias->bases->places[i].len);
}

bool alias_read(const void *data, size_t len, struct alias *out)
{
    struct reader r = reader_over(data, len);
    if (reader_u32(&r) != ALIAS_MAGIC || reader_u16(&r) != ALIAS_VERSION)
        return false;
    reader_copy(&r, &out->key, sizeof out->key);
    reader_copy(&r, &out->proof, sizeof out->proof);
    struct view places[MANIFEST_PATHS_PLACES_MAX], folder = reader_blob(&r, WIRE_PATH_MAX + 1u);
    uint32_t n = reader_u32(&r);
    for (uint32_t i = 0; i < n && n <= MANIFEST_PATHS_PLACES_MAX; i++)
        places[i] = reader_blob(&r, WIRE_PATH_MAX + 1u);
    out->bases =
        n <= MANIFEST_PATHS_PLACES_MAX && reader_done(&r) ? bases_new(folder, places, n) : NULL;
    return out->bases != NULL;
}
