/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier_fetch.c - looks for one entry beyond the machine, for all who ask for it meanwhile.
 *
 * The happy path:
 *   1. the first asker: GET "HH/e-ID"; later ones wait with it;
 *   2. the entry is signed by a trusted key, is the one that was asked for, and has not expired;
 *   3. a value that does not stand in it: GET "HH/b-SHA256", sealed; a pool thread compares the digests;
 *   4. the value goes to the store, and each asker looks again.
 * Failures, after which each asker goes on as after a miss:
 *   - no such object: remembered for ABSENT_MS; an entry that does not count is remembered, too;
 *   - the helper or the backend fails, or is late: tier_note;
 *   - the asker leaves: the fetch goes on for the others, and for the store.
 *
 * lookup.c and compile_request.c ask.
 *
 * Thread: loop thread, but for verify.
 */
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/process/list.h"
#include "daemon/process/log.h"
#include "daemon/service/put.h"
#include "daemon/service/tier_internal.h"
#include "store/clock.h"

#define FETCHES_MAX (TIER_ASKS_MAX - 4u) /* some are left for uploads */

struct tier_wait {
    struct tier_wait *next;
    struct call *call; /* NULL: it has left */
    void (*again)(struct call *call);
};

struct tier_fetch {
    struct tier_fetch *prev, *next;
    struct tier *tier;
    struct store_id id;
    struct proof proof; /* tier_proof */
    uint32_t uid;       /* the first asker */
    struct tier_wait *waits;
    struct tier_errand errand;
    struct service_work work;
    struct artifact *artifact;
    bool is_sound;
    struct tier_entry entry; /* views into */
    uint8_t *bytes;
    size_t name_len;
    char name[STORE_NAME_MAX];
};

/* ---- definite misses ---- */

static size_t absent_place(const struct key *key)
{
    uint32_t hash;
    memcpy(&hash, key->bytes, sizeof hash);
    return hash & (ABSENTS - 1);
}

static bool is_absent(const struct tier *t, const struct key *key)
{
    size_t i = absent_place(key);
    return t->absent[i].until_ms > service_clock_ms(t->service) &&
           key_equal(&t->absent[i].key, key);
}

static void note_absent(struct tier *t, const struct key *key)
{
    size_t i = absent_place(key);
    t->absent[i].key = *key;
    t->absent[i].until_ms = service_clock_ms(t->service) + ABSENT_MS;
}

/* ---- the end of a fetch ---- */

static void wake(struct tier_fetch *f, struct artifact *a)
{
    while (f->waits) {
        struct tier_wait *w = f->waits;
        f->waits = w->next;
        struct call *call = w->call;
        void (*again)(struct call *) = w->again;
        free(w);
        if (call) {
            call->tier_wait = NULL;
            call->from_tier = a;
            again(call);
        }
    }
}

static void fetch_end(struct tier_fetch *f, struct artifact *a)
{
    LIST_REMOVE(f->tier->fetches, f);
    wake(f, a);
    artifact_unref(f->artifact);
    free(f->bytes);
    free(f);
}

/* Ends a fetch whose entry does not count. */
static void fetch_refuse(struct tier_fetch *f, const char *why)
{
    struct tier *t = f->tier;
    stats_add(&t->service->stats, STATS_tier_refused, STORE_OTHER, 1);
    if (strcmp(t->refused, why) != 0)
        log_warning("the tier: an entry does not count: %s", why);
    snprintf(t->refused, sizeof t->refused, "%s", why);
    note_absent(t, &f->id.key);
    fetch_end(f, NULL);
}

/* Stores what has arrived, so that the askers find it. */
static void fetch_arrived(struct tier_fetch *f)
{
    struct service *s = f->tier->service;
    const struct tier_entry *entry = &f->entry;
    struct artifact *a = f->artifact;
    bool is_made = f->id.owner == STORE_MADE_HERE;
    a->kind = entry->kind;
    a->cost_ms = entry->cost_ms;
    a->key = f->id.key;
    a->check = entry->check;
    a->hashed = true;
    a->from_tier = true;
    struct store_row row = {.id = f->id,
                            .maker = f->uid,
                            .group = entry->group,
                            .expires_ms = entry->expires_ms,
                            .compiler = entry->compiler,
                            .graph = entry->graph,
                            .hardware = entry->hardware,
                            .compiler_text = entry->compiler_text,
                            .name = {f->name, f->name_len}};
    if (is_made)
        row.proof = f->proof;
    put_result(s, NULL, a, &row, true);
    stats_add(&s->stats, STATS_tier_hits, a->kind, 1);
    fetch_end(f, a);
}

/* ---- a value of its own ---- */

static void verify(struct service_work *work)
{
    struct tier_fetch *f =
        (struct tier_fetch *)(void *)((char *)work - offsetof(struct tier_fetch, work));
    struct artifact *a = f->artifact;
    size_t len = (size_t)a->len;
    void *bytes = a->data ? a->data : mmap(NULL, len, PROT_READ, MAP_PRIVATE, a->fd, 0);
    f->is_sound = bytes != MAP_FAILED && entry_has_value(&f->entry, bytes, len);
    if (!a->data && bytes != MAP_FAILED)
        munmap(bytes, len);
}

static void verified(struct service_work *work)
{
    struct tier_fetch *f =
        (struct tier_fetch *)(void *)((char *)work - offsetof(struct tier_fetch, work));
    if (f->is_sound)
        fetch_arrived(f);
    else
        fetch_refuse(f, "its value has other bytes");
}

/* Makes an artifact of a sealed memfd, which is taken. */
static int take_value(struct tier_fetch *f, int fd, uint64_t len, struct err *e)
{
    int code = len == f->entry.len ? memfd_check(fd, len, e)
                                   : err_set(e, WARM_ECORRUPT, "its value has another length");
    int own = code ? -1 : fd_reopen(fd);
    close(fd);
    if (code == 0 && own < 0)
        code = err_set(e, WARM_EIO, "no descriptor left");
    return code ? code : artifact_from_fd(own, len, &f->entry.check, &f->artifact, e);
}

static void on_value(struct tier_errand *errand, const struct tier_answer *a, int fd)
{
    struct tier_fetch *f = errand->user;
    struct err e = {0};
    bool works = tier_note(f->tier, &f->tier->reads, a);
    if (a->outcome != TIER_OK || fd < 0) {
        if (works)
            fetch_refuse(f, "its value is gone");
        else
            fetch_end(f, NULL);
    } else if (take_value(f, fd, a->length, &e) != 0) {
        fetch_refuse(f, e.text);
    } else if (!service_work_start(f->tier->service, &f->work, verify, verified)) {
        fetch_end(f, NULL);
    }
}

static bool ask_for_value(struct tier_fetch *f)
{
    char hex[65];
    bytes_to_hex(f->entry.content.bytes, sizeof f->entry.content.bytes, hex);
    f->errand =
        (struct tier_errand){.fd = -1,
                             .done = on_value,
                             .user = f,
                             .ask = {.operation = TIER_GET,
                                     .limit = f->entry.len,
                                     .timeout_ms = ASK_MS + (uint32_t)(f->entry.len / RATE_MIN)}};
    snprintf(f->errand.ask.name, sizeof f->errand.ask.name, "%.2s/b-%s", hex, hex);
    return tier_link_send(f->tier->link, &f->errand);
}

/* ---- the entry ---- */

/* Reads what came, and checks that it is the entry. */
static int read_entry(struct tier_fetch *f, int fd, uint64_t len, struct err *e)
{
    const struct trusted_key *signer;
    if (len > ENTRY_OBJECT_MAX)
        return err_set(e, WARM_ETOO_BIG, "it is too large");
    f->bytes = malloc(len ? (size_t)len : 1);
    if (!f->bytes)
        return err_set(e, WARM_ENOMEM, "no memory for an entry");
    int code = file_read_start(fd, f->bytes, (size_t)len, e);
    if (code == 0)
        code = entry_read(f->bytes, (size_t)len, &f->tier->trusted, &f->entry, &signer, e);
    if (code)
        return code;
    if (!entry_is(&f->entry, tier_space(f->id.owner), &f->id.key, &f->proof))
        return err_set(e, WARM_ECORRUPT, "another entry has its name");
    if (f->entry.expires_ms && f->entry.expires_ms <= clock_wall_ms())
        return err_set(e, WARM_ENOT_FOUND, "it has expired");
    if (f->entry.len > f->tier->service->config.config->tier_max_value)
        return err_set(e, WARM_ETOO_BIG, "its value is larger than tier_max_value");
    if (f->entry.is_inline && !entry_has_value(&f->entry, f->entry.value.data, f->entry.value.len))
        return err_set(e, WARM_ECORRUPT, "its value has other bytes");
    return 0;
}

static void on_entry(struct tier_errand *errand, const struct tier_answer *a, int fd)
{
    struct tier_fetch *f = errand->user;
    struct err e = {0};
    bool works = tier_note(f->tier, &f->tier->reads, a);
    if (a->outcome == TIER_OK && fd >= 0) {
        int code = read_entry(f, fd, a->length, &e);
        close(fd);
        if (code) {
            fetch_refuse(f, e.text);
            return;
        }
        if (f->entry.is_inline)
            f->artifact = artifact_from_bytes(f->entry.value.data, f->entry.value.len);
        if (f->artifact)
            fetch_arrived(f);
        else if (f->entry.is_inline || !ask_for_value(f))
            fetch_end(f, NULL);
        return;
    }
    if (works) {
        stats_add(&f->tier->service->stats, STATS_tier_misses, STORE_OTHER, 1);
        note_absent(f->tier, &f->id.key);
    }
    fetch_end(f, NULL);
}

static struct tier_fetch *fetch_find(const struct tier *t, const struct store_id *id,
                                     const struct proof *proof, size_t *out_n)
{
    struct tier_fetch *f = t->fetches;
    for (*out_n = 0; f; f = f->next, ++*out_n)
        if (store_id_equal(&f->id, id) && proof_equal(&f->proof, proof))
            return f;
    return NULL;
}

/* Begins a fetch; NULL if the helper cannot take it. */
static struct tier_fetch *fetch_begin(struct tier *t, const struct call *call,
                                      const struct store_id *id, const struct proof *proof,
                                      struct view name)
{
    struct tier_fetch *f = name.len <= STORE_NAME_MAX ? calloc(1, sizeof *f) : NULL;
    if (!f)
        return NULL;
    f->tier = t;
    f->id = *id;
    f->proof = *proof;
    f->uid = call->peer->uid;
    f->name_len = name.len;
    if (name.len)
        memcpy(f->name, name.data, name.len);
    f->errand = (struct tier_errand){
        .fd = -1,
        .done = on_entry,
        .user = f,
        .ask = {.operation = TIER_GET, .limit = ENTRY_OBJECT_MAX, .timeout_ms = ASK_MS}};
    entry_name(tier_space(id->owner), &id->key, proof, f->errand.ask.name);
    if (!tier_link_send(t->link, &f->errand)) {
        free(f);
        return NULL;
    }
    LIST_ADD(t->fetches, f);
    return f;
}

bool tier_ask(struct call *call, const struct store_id *id, const struct proof *proof,
              struct view name, void (*again)(struct call *call))
{
    struct service *s = call->service;
    struct tier *t = s->tier;
    size_t n;
    if (!t || t->closing || call->tier_wait || call->no_tier || call->peer->uid != geteuid() ||
        call->n_tier_asks == CALL_TIER_ASKS || key_equal(&call->tier_asked, &id->key) ||
        service_clock_ms(s) < t->reads.off_until_ms || is_absent(t, &id->key))
        return false;
    struct tier_wait *w = malloc(sizeof *w);
    struct tier_fetch *f = fetch_find(t, id, proof, &n);
    if (w && !f && n < FETCHES_MAX)
        f = fetch_begin(t, call, id, proof, name);
    if (!w || !f) {
        free(w);
        return false;
    }
    *w = (struct tier_wait){f->waits, call, again};
    f->waits = w;
    call->tier_wait = w;
    call->tier_asked = id->key;
    call->n_tier_asks++;
    return true;
}

void tier_leave(struct call *call)
{
    if (call->tier_wait)
        call->tier_wait->call = NULL;
    call->tier_wait = NULL;
}

void tier_stop(struct tier *t)
{
    if (!t)
        return;
    t->closing = true;
    for (struct tier_fetch *f = t->fetches; f; f = f->next)
        wake(f, NULL);
}
