/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier_fetch.c - looks for one entry beyond the machine, for all who ask for it meanwhile. These are the
 * phases before a flight's (1):
 *
 *   (0)  asking    GET, or ASK if an asker can make the key: the object, the key's lease, or WAIT
 *   (0') waiting   another node makes it: ASK again, after 50 ms, then 1.5 times later, up to 1 s, each
 *                  by up to 25 % sooner or later
 *   (0") behind    nobody waits for it any more, since it took too long: the key is being made here, in
 *                  (2) to (4). What comes first wins: an object goes to the flight and ends its builds; a
 *                  result of the flight ends the fetch
 *
 * The happy path:
 *   1. the first asker: ASK "HH/e-ID"; later ones wait with it;
 *   2. the entry is signed by a trusted key, is the one that was asked for, and has not expired;
 *   3. a value that does not stand in it: GET "HH/b-SHA256", sealed; a pool thread compares the digests;
 *   4. the value goes to the store, and each asker looks again.
 * A user may have so many requests under way (BUDGET_tier_asks); some of the helper's are left for uploads and leases.
 * Further fetches are queued, and a slot that is free goes to the user who has the fewest.
 * What else ends an asker's wait, which then goes on as after a miss:
 *   - the lease is this daemon's, or the backend has no leases;
 *   - no such object: remembered for ABSENT_MS; an entry that does not count is remembered, too;
 *   - the helper or the backend fails, or is late: tier_note;
 *   - its budget in (0): half of what making it takes, at most ASK_BUDGET_MS;
 *   - in (0') RACE_MS, if making it takes less than RACE_BELOW_MS: racers do not wait for each other;
 *   - in (0') a slot beside the lease, when its holder is late: after a half of its patience, three quarters, …;
 *   - its patience with other nodes, for all keys together that it asks for: tier_hedge, or three times what making it
 *     took here if that is more. The tier has no say in it. From then on, and for tier_breaker, nobody waits for other
 *     nodes: all others may hold up each key in the same way.
 *
 * lookup.c, compile_request.c and build.c ask.
 *
 * Thread: loop thread, but for verify.
 */
#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/headers/manifest.h"
#include "daemon/nodes/tier_state.h"
#include "daemon/process/log.h"
#include "daemon/service/compile_request.h"
#include "daemon/service/internal.h"
#include "daemon/service/put.h"
#include "daemon/users/budget.h"
#include "keygen/list.h"
#include "store/clock.h"

#define ASK_BUDGET_MS 2000u
#define BUDGET_MIN_MS 50u
#define POLL_MIN_MS 50u
#define POLL_MAX_MS 1000u
#define RACE_BELOW_MS 100u /* tests/sim/nodes.py: with 200, 2.8 compiles a key in place of 1.0 */
#define RACE_MS 300u
#define SLOTS_MAX 8u

struct tier_wait {
    struct tier_wait *next;
    struct ask *ask;       /* NULL: it has left */
    uint64_t ends_ms;      /* in (0) */
    uint64_t waits_end_ms; /* in (0') */
};

struct tier_fetch {
    struct tier_fetch *prev, *next;
    struct tier *tier;
    struct store_id id;
    struct proof proof; /* of an entry that was made here; else its name's SHA-256 */
    struct {            /* in which it may be made meanwhile: that of the first question */
        struct store_id id;
        struct proof proof;
    } flight;
    struct view space;
    char space_text[ENTRY_TEXT_MAX];
    uint32_t uid;         /* the first asker */
    uint32_t cost_ms;     /* of making it; 0: unknown */
    uint64_t patience_ms; /* of the first asker with other nodes */
    struct tier_wait *waits;
    struct tier_errand errand;
    bool is_sent;   /* the errand has not ended */
    bool is_queued; /* it has not been asked for yet */
    bool is_verified_now;
    bool is_cancelled;           /* nobody wants it any more */
    char job[65];                /* whose ranks must have one answer; or empty */
    bool leases;                 /* ASK */
    bool waits_for_node, waited; /* (0') */
    bool knows;                  /* the answer was a certain one */
    bool followed;               /* an alias */
    uint64_t began_ms, poll_at_ms, poll_ms, random;
    unsigned slot; /* that is asked for next */
    struct service_work work;
    struct artifact *artifact;
    bool is_sound;
    struct tier_entry entry; /* views into */
    uint8_t *bytes;
    const char *signer;
    uint32_t signer_id;
    size_t name_len;
    char name[STORE_NAME_MAX];
};

static struct service *service_of(const struct tier *t) { return t->host.arg; }

/* ---- definite misses ---- */

static size_t absent_place(const struct key *key)
{
    uint32_t hash;
    memcpy(&hash, key->bytes, sizeof hash);
    return hash & (ABSENTS - 1);
}

static bool is_absent(const struct tier *t, const struct store_id *id)
{
    size_t i = absent_place(&id->key);
    return t->absent[i].until_ms > tier_now_ms(t) && store_id_equal(&t->absent[i].id, id);
}

static void note_absent(struct tier *t, const struct store_id *id)
{
    size_t i = absent_place(&id->key);
    t->absent[i].id = *id;
    t->absent[i].until_ms = tier_now_ms(t) + ABSENT_MS;
}

/* ---- the end of a fetch ---- */

/* Goes on with the askers' own look. A compile looks anew: what came is on its way to the store. */
static void wake_one(struct tier_wait *w, struct artifact *a)
{
    struct ask *ask = w->ask;
    assert(!ask || (ask->tier_wait == &w->ask && !ask->answered));
    free(w);
    if (!ask)
        return;
    ask->tier_wait = NULL;
    if (ask->compile) {
        ask->at = 0;
        ask_step(ask);
    } else if (a) {
        ask_found(ask, &(struct answer){.artifact = a, .outcome = WIRE_WAS_HIT});
    } else if (*ask->job && ask->tier_knows) {
        ask_make(ask); /* it is there for no rank */
    } else {
        ask_next(ask);
    }
}

/* Wakes all askers. `said` is what the tier said, for `warm why`. */
static void wake(struct tier_fetch *f, struct artifact *a, const char *said)
{
    while (f->waits) {
        struct tier_wait *w = f->waits;
        f->waits = w->next;
        if (w->ask) {
            w->ask->tier_knows = f->knows;
            snprintf(w->ask->tier_said, sizeof w->ask->tier_said, "%s", said);
            if (a && f->waited)
                w->ask->tier_ends_ms = 0; /* what it leads to is there, too */
        }
        wake_one(w, a);
    }
}

static void fetch_end(struct tier_fetch *f, struct artifact *a, const char *said)
{
    assert(!f->is_sent && !f->is_verified_now); /* nobody else has it */
    LIST_REMOVE(f->tier->fetches, f);
    f->tier->n_fetches--;
    budget_give(f->uid, BUDGET_tier_waits, 1);
    wake(f, a, said);
    artifact_unref(f->artifact);
    free(f->bytes);
    free(f);
}

/* Sends the errand, which counts for its user until the answer. False if the helper takes no more. */
static bool fetch_send(struct tier_fetch *f)
{
    f->is_sent = budget_charge(f->uid, BUDGET_tier_asks, 1);
    if (f->is_sent && !tier_link_send(f->tier->link, &f->errand)) {
        budget_give(f->uid, BUDGET_tier_asks, 1);
        f->is_sent = false;
    }
    return f->is_sent;
}

static void fetch_received(struct tier_fetch *f)
{
    assert(f->is_sent);
    f->is_sent = false;
    budget_give(f->uid, BUDGET_tier_asks, 1);
}

/* Ends a fetch whose entry does not count. */
static void fetch_refuse(struct tier_fetch *f, uint64_t *count, const char *why)
{
    struct tier *t = f->tier;
    stats_add(t->host.stats, STATS_tier_refused, STORE_OTHER, 1);
    ++*count;
    tier_log_once(t, t->refused, "an entry does not count", why);
    note_absent(t, &f->id);
    fetch_end(f, NULL, why);
}

/* Returns the flight in which the key is being made here; NULL if nothing that comes would be of use. */
static struct flight *flight_behind(const struct tier_fetch *f)
{
    struct flight *flight =
        flight_find(service_of(f->tier)->flights, &f->flight.id, &f->flight.proof);
    return flight && !flight_result(flight) ? flight : NULL;
}

/* Hands the entry that came to its makers here, and ends their compiles. */
static void fetch_overtakes(struct tier_fetch *f, struct artifact *a)
{
    struct service *s = service_of(f->tier);
    struct flight *flight = flight_behind(f);
    if (!flight || a->kind == STORE_MANIFEST)
        return;
    stats_add(&s->stats, STATS_tier_overtook, a->kind, 1);
    flight_overtake(flight, a, service_clock_ms(s));
}

static bool ask_for_entry(struct tier_fetch *f);

/* Asks for the key that an alias leads to, for its makers here. Only the daemon makes aliases: what a user put may
 * look like one. A manifest leads no further: only an asker knows its files. */
static bool fetch_follows(struct tier_fetch *f)
{
    struct artifact *a = f->artifact;
    struct alias alias;
    if (a->kind != STORE_MANIFEST || f->id.owner != STORE_MADE_HERE || f->waits || f->followed ||
        !flight_behind(f) || !a->data || !alias_read(a->data, (size_t)a->len, &alias))
        return false;
    bases_unref(alias.bases);
    f->id = (struct store_id){STORE_MADE_HERE, alias.key};
    f->proof = alias.proof;
    f->followed = true;
    artifact_unref(a);
    f->artifact = NULL;
    free(f->bytes);
    f->bytes = NULL;
    return ask_for_entry(f);
}

/* Stores what has arrived, so that the askers find it. */
static void fetch_arrived(struct tier_fetch *f)
{
    struct service *s = service_of(f->tier);
    const struct tier_entry *entry = &f->entry;
    struct artifact *a = f->artifact;
    assert(a && a->len == entry->len && entry_is(entry, f->space, &f->id.key, &f->proof));
    bool is_made = f->id.owner == STORE_MADE_HERE;
    a->kind = entry->kind;
    a->cost_ms = entry->cost_ms;
    a->key = f->id.key;
    a->check = entry->check;
    a->hashed = true;
    a->from_tier = true;
    a->signer = f->signer_id;
    struct store_row row = {.id = f->id,
                            .maker = f->uid,
                            .kind = entry->kind,
                            .cost_ms = entry->cost_ms,
                            .group = entry->group,
                            .expires_ms = entry->expires_ms,
                            .compiler = entry->compiler,
                            .graph = entry->graph,
                            .hardware = entry->hardware,
                            .compiler_text = entry->compiler_text,
                            .name = {f->name, f->name_len}};
    if (is_made)
        row.proof = f->proof;
    tier_cost_note(f->tier, &row, true);
    put_result(s, NULL, a, &row, true);
    tier_queue_forget(f->tier, &f->id);
    stats_add(&s->stats, STATS_tier_hits, a->kind, 1);
    stats_add(&s->stats, STATS_tier_hit_bytes, a->kind, a->len);
    fetch_overtakes(f, a);
    if (!fetch_follows(f))
        fetch_end(f, f->artifact, "");
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
    assert(f->is_verified_now && !f->is_cancelled);
    f->is_verified_now = false;
    if (f->is_sound)
        fetch_arrived(f);
    else
        fetch_refuse(f, &f->tier->n_damaged, "its value has other bytes");
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

/* Ends a fetch that brought nothing. */
static void fetch_failed(struct tier_fetch *f, const struct tier_answer *a, bool works)
{
    if (works) {
        stats_add(f->tier->host.stats, STATS_tier_misses, STORE_OTHER, 1);
        note_absent(f->tier, &f->id);
        f->knows = true;
    }
    fetch_end(f, NULL, a->outcome == TIER_ABSENT ? "404" : a->said);
}

static void on_value(struct tier_errand *errand, const struct tier_answer *a, int fd)
{
    struct tier_fetch *f = errand->user;
    assert(f->is_sent);
    struct err e = {0};
    fetch_received(f);
    bool is_there = a->outcome == TIER_OK && fd >= 0;
    if (f->is_cancelled || f->tier->closing || !is_there) {
        bool works = !f->is_cancelled && tier_note(f->tier, &f->tier->reads, a);
        if (fd >= 0)
            close(fd);
        if (works && !is_there)
            fetch_refuse(f, &f->tier->n_other, "its value is gone");
        else
            fetch_end(f, NULL, a->said);
        return;
    }
    tier_note(f->tier, &f->tier->reads, a);
    if (take_value(f, fd, a->length, &e) != 0)
        fetch_refuse(f, &f->tier->n_damaged, e.text);
    else if (service_work_start(service_of(f->tier), &f->work, verify, verified))
        f->is_verified_now = true;
    else
        fetch_end(f, NULL, "no memory for the value");
}

/* Asks for the value; false if that is impossible. */
static bool ask_for_value(struct tier_fetch *f)
{
    assert(!f->is_sent && !f->artifact && !f->entry.is_inline);
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
    return fetch_send(f);
}

/* ---- the entry ---- */

/* Reads what came, and checks that it is the entry. *out_count: where a refusal counts. */
static int read_entry(struct tier_fetch *f, struct view bytes, uint64_t **out_count, struct err *e)
{
    struct tier *t = f->tier;
    const struct trusted_key *signer;
    *out_count = &t->n_other;
    f->bytes = malloc(bytes.len);
    if (!f->bytes)
        return err_set(e, WARM_ENOMEM, "no memory for an entry");
    memcpy(f->bytes, bytes.data, bytes.len);
    const struct signers *signers = t->host.signers;
    int code = entry_read(f->bytes, bytes.len, &signers->trusted, &f->entry, &signer, e);
    *out_count = code == WARM_EDENIED ? &t->n_unsigned : &t->n_other;
    if (code)
        return code;
    f->signer_id = signers_number(signers, signer);
    if (!f->signer_id) {
        *out_count = &t->n_unsigned;
        return err_set(e, WARM_EDENIED, "signature of revoked key %s", signer->name);
    }
    if (!entry_is(&f->entry, f->space, &f->id.key, &f->proof))
        return err_set(e, WARM_ECORRUPT, "another entry has its name");
    if (f->entry.expires_ms && f->entry.expires_ms <= clock_wall_ms())
        return err_set(e, WARM_ENOT_FOUND, "it has expired");
    if (f->entry.len > t->host.config->tier_max_value)
        return err_set(e, WARM_ETOO_BIG, "its value is larger than tier_max_value");
    *out_count = &t->n_damaged;
    if (f->entry.is_inline && !entry_has_value(&f->entry, f->entry.value.data, f->entry.value.len))
        return err_set(e, WARM_ECORRUPT, "its value has other bytes");
    return 0;
}

static void take_entry(struct tier_fetch *f, struct view bytes)
{
    struct err e = {0};
    uint64_t *count;
    int code = read_entry(f, bytes, &count, &e);
    if (code) {
        fetch_refuse(f, count, e.text);
        return;
    }
    f->waits_for_node = false;
    if (f->entry.is_inline)
        f->artifact = artifact_from_known(f->entry.value.data, f->entry.value.len, &f->entry.check);
    if (f->artifact)
        fetch_arrived(f);
    else if (f->entry.is_inline || !ask_for_value(f))
        fetch_end(f, NULL, "the helper takes no more requests");
}

/* ---- other nodes ---- */

/* Tells how long it takes to make what an ask wants. */
static struct tier_cost cost_of(const struct tier *t, const struct ask *ask)
{
    return tier_cost_of(t, ask->compile ? &ask->compile->address.compiler : NULL, ask->name,
                        ask->peer->uid);
}

/* Returns for how long an ask may wait for other nodes, by what this machine knows. */
static uint64_t patience_ms(const struct tier *t, const struct ask *ask)
{
    uint64_t hedge = t->host.config->tier_hedge_ms;
    struct tier_cost made = cost_of(t, ask);
    uint64_t thrice = made.n_made ? 3ull * (uint32_t)(made.made_ms + 1) : 0;
    return hedge > thrice ? hedge : thrice;
}

/* Returns after how long the next slot is asked for: one node after the other, before all have waited for long enough. */
static uint64_t hedge_ms(const struct tier_fetch *f)
{
    return f->patience_ms - (f->patience_ms >> (f->slot + 1));
}

static bool waits_for_nobody(const struct tier *t) { return tier_now_ms(t) < t->no_waits_until_ms; }

/* Has nobody wait for other nodes for a while. */
static void lose_patience(struct tier *t, uint64_t waited_ms)
{
    uint64_t ms = t->host.config->tier_breaker_ms;
    if (waits_for_nobody(t))
        return;
    t->no_waits_until_ms = tier_now_ms(t) + ms;
    log_warning(
        "the tier: another node held a key up for %llu ms; nobody waits for others for %llu ms",
        (unsigned long long)waited_ms, (unsigned long long)ms);
}

static void tell_to_wait(struct ask *ask)
{
    assert(!ask->answered);
    if (!ask->waits)
        ask_answer(ask, &(struct answer){.kind = ANSWER_WAIT, .n_waiters = 1});
}

/* Begins phase (0'), or another round of it. */
static void wait_for_node(struct tier_fetch *f)
{
    assert(f->poll_ms >= POLL_MIN_MS && !f->is_sent);
    uint64_t now = tier_now_ms(f->tier);
    if (!f->waits_for_node) {
        stats_add(f->tier->host.stats, STATS_tier_waits, STORE_OTHER, 1);
        for (struct tier_wait *w = f->waits; w; w = w->next)
            if (w->ask)
                tell_to_wait(w->ask);
    }
    f->waits_for_node = f->waited = true;
    f->poll_at_ms = now + f->poll_ms * 3 / 4 + random_next(&f->random) % (f->poll_ms / 2);
    f->poll_ms = f->poll_ms * 3 / 2 < POLL_MAX_MS ? f->poll_ms * 3 / 2 : POLL_MAX_MS;
    if (waits_for_nobody(f->tier))
        wake(f, NULL, "another node makes it, and nobody waits for others now");
}

static void on_entry(struct tier_errand *errand, const struct tier_answer *a, int fd);

/* Asks for the entry; false if the helper takes no more. */
static bool ask_for_entry(struct tier_fetch *f)
{
    assert(!f->is_sent && !f->is_verified_now && !f->is_cancelled);
    struct tier *t = f->tier;
    bool asks = f->leases && !t->has_no_leases && (f->waits || !f->waits_for_node);
    bool hedges = asks && f->waits_for_node && f->slot < SLOTS_MAX &&
                  tier_now_ms(t) - f->began_ms >= hedge_ms(f);
    f->errand = (struct tier_errand){.fd = -1,
                                     .done = on_entry,
                                     .user = f,
                                     .ask = {.operation = asks ? TIER_ASK : TIER_GET,
                                             .limit = ENTRY_OBJECT_MAX,
                                             .wants_bytes = true,
                                             .timeout_ms = ASK_MS,
                                             .lease_ms = t->host.config->tier_lease_ms,
                                             .slot = hedges ? ++f->slot : 0}};
    if (asks)
        memcpy(f->errand.ask.job, f->job, sizeof f->job);
    if (asks)
        tier_lease_token(f->errand.ask.token);
    entry_name(f->space, &f->id.key, &f->proof, f->errand.ask.name);
    return fetch_send(f);
}

/* Takes a lease: an asker makes the key. A fetch with a slot beside it goes on behind. */
static void take_lease(struct tier_fetch *f)
{
    assert(f->waits && f->errand.ask.operation == TIER_ASK);
    struct tier *t = f->tier;
    tier_lease_add(t, &f->id, &f->errand.ask);
    f->knows = true;
    if (!f->waited)
        stats_add(t->host.stats, STATS_tier_misses, STORE_OTHER, 1);
    if (!f->errand.ask.slot) {
        fetch_end(f, NULL, "404; this node makes it");
        return;
    }
    stats_add(t->host.stats, STATS_tier_hedges, STORE_OTHER, 1);
    wait_for_node(f);
    wake(f, NULL, "another node makes it, and is late");
}

/* Asks again without leases. False if that is no remedy. */
static bool ask_without_leases(struct tier_fetch *f, const struct tier_answer *a)
{
    struct tier *t = f->tier;
    bool cannot = f->errand.ask.operation == TIER_ASK &&
                  (a->outcome == TIER_CANNOT || a->outcome == TIER_DENIED);
    if (!cannot)
        return false;
    if (!t->has_no_leases)
        log_info("the tier has no leases (%s): nodes may make the same key at once", a->said);
    t->has_no_leases = true;
    return ask_for_entry(f);
}

static void on_entry(struct tier_errand *errand, const struct tier_answer *a, int fd)
{
    struct tier_fetch *f = errand->user;
    assert(f->is_sent);
    struct tier *t = f->tier;
    fetch_received(f);
    if (fd >= 0)
        close(fd);
    if (f->is_cancelled || t->closing) {
        bool may_have = a->outcome == TIER_LEASE || a->outcome == TIER_FAILED;
        if (errand->ask.operation == TIER_ASK && may_have)
            tier_lease_decline(t, &f->id, &errand->ask);
        fetch_end(f, NULL, "");
        return;
    }
    if (ask_without_leases(f, a))
        return;
    bool works = tier_note(t, &t->reads, a);
    if (a->outcome == TIER_OK && errand->bytes.len)
        take_entry(f, errand->bytes);
    else if (a->outcome == TIER_LEASE && f->waits)
        take_lease(f);
    else if (a->outcome == TIER_LEASE) {
        tier_lease_add(t, &f->id, &f->errand.ask);
        fetch_end(f, NULL, "");
    } else if (a->outcome == TIER_WAIT || (works && f->waits_for_node && !f->waits))
        wait_for_node(f);
    else
        fetch_failed(f, a, works);
}

/* ---- the clock ---- */

/* Sends the askers on whose wait has ended. */
static void end_waits(struct tier_fetch *f, uint64_t now)
{
    bool races = f->waits_for_node && f->cost_ms && f->cost_ms < RACE_BELOW_MS &&
                 now - f->began_ms >= RACE_MS;
    struct tier_wait **at = &f->waits;
    while (*at) {
        struct tier_wait *w = *at;
        bool is_over = now >= w->waits_end_ms;
        bool runs_out = f->waits_for_node && (is_over || waits_for_nobody(f->tier));
        bool late = runs_out || (!f->waits_for_node && now >= w->ends_ms);
        if (w->ask && !races && !late) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        if (w->ask && runs_out && is_over && !races)
            lose_patience(f->tier, now - f->began_ms);
        if (w->ask) {
            snprintf(w->ask->tier_said, sizeof w->ask->tier_said,
                     races      ? "another node makes it"
                     : runs_out ? "another node makes it, and is late by %llu ms"
                                : "no answer in %llu ms",
                     (unsigned long long)(now - f->began_ms));
            stats_add(f->tier->host.stats, races ? STATS_tier_races : STATS_tier_late, STORE_OTHER,
                      1);
        }
        wake_one(w, NULL);
        at = &f->waits; /* the asker may have done anything, but for ending this fetch */
    }
}

static void fetch_tick(struct tier_fetch *f, uint64_t now)
{
    end_waits(f, now);
    if (f->is_cancelled || f->is_verified_now)
        return;
    if (!f->waits && !flight_behind(f)) {
        f->is_cancelled = true;
        if (f->is_sent)
            tier_link_cancel(f->tier->link, &f->errand);
        else
            fetch_end(f, NULL, "");
        return;
    }
    if (!f->is_sent && f->waits_for_node && now >= f->poll_at_ms &&
        budget_has(f->uid, BUDGET_tier_asks, 1) && !ask_for_entry(f))
        fetch_end(f, NULL, "the helper takes no more requests");
}

/* Returns the queued fetch whose turn it is: the oldest of the user who has the fewest requests under way. NULL if none
 * may be sent. */
static struct tier_fetch *queue_next(const struct tier *t)
{
    struct tier_fetch *best = NULL;
    uint64_t fewest = 0;
    for (struct tier_fetch *f = t->fetches; f; f = f->next) { /* the newest is first */
        uint64_t has = f->is_queued ? budget_used(f->uid, BUDGET_tier_asks) : 0;
        if (f->is_queued && budget_has(f->uid, BUDGET_tier_asks, 1) && (!best || has <= fewest)) {
            best = f;
            fewest = has;
        }
    }
    return best;
}

void tier_fetches_tick(struct tier *t)
{
    uint64_t now = tier_now_ms(t);
    for (struct tier_fetch *f; (f = queue_next(t));) {
        f->is_queued = false;
        if (tier_is_off(t, &t->reads) || !ask_for_entry(f))
            fetch_end(f, NULL, "the helper takes no more requests");
    }
    for (struct tier_fetch *f = t->fetches, *next; f; f = next) {
        next = f->next; /* only this fetch can end here */
        fetch_tick(f, now);
    }
}

/* ---- asking ---- */

/* What an ask is for now. */
struct wanted {
    const struct store_id *id;
    const struct proof *proof; /* the entry's; of a named entry, its name's SHA-256 */
    bool can_make; /* the ask makes it if it is not there: it may have the key's lease */
};

static struct wanted wanted_by(const struct ask *ask)
{
    if (ask->is_chosen)
        return (struct wanted){&ask->chosen.id, &ask->chosen.proof, false};
    return (struct wanted){&ask->id, &ask->proof,
                           ask->joins && ask->waiter.can_make && !ask->ops->is_child};
}

static struct tier_fetch *fetch_find(const struct tier *t, const struct wanted *q, const char *job)
{
    for (struct tier_fetch *f = t->fetches; f; f = f->next)
        if (!f->is_cancelled && store_id_equal(&f->id, q->id) && proof_equal(&f->proof, q->proof) &&
            strcmp(f->job, job) == 0)
            return f;
    return NULL;
}

static uint32_t cost_ms(const struct tier *t, const struct ask *ask)
{
    struct tier_cost cost = cost_of(t, ask);
    return cost.n ? (uint32_t)(cost.mean_ms + 1) : 0;
}

/* Begins a fetch; NULL if the helper cannot take it. */
static struct tier_fetch *fetch_begin(struct tier *t, const struct ask *ask, const struct wanted *q,
                                      struct view space)
{
    bool fits = ask->name.len <= STORE_NAME_MAX && space.len < ENTRY_TEXT_MAX;
    struct tier_fetch *f = fits ? calloc(1, sizeof *f) : NULL;
    if (!f)
        return NULL;
    f->tier = t;
    f->id = *q->id;
    f->proof = *q->proof;
    f->flight.id = f->id;
    f->flight.proof = f->proof;
    memcpy(f->space_text, space.data, space.len);
    f->space = (struct view){f->space_text, space.len};
    f->uid = ask->peer->uid;
    f->cost_ms = cost_ms(t, ask);
    f->patience_ms = patience_ms(t, ask);
    memcpy(f->job, ask->job, sizeof f->job);
    f->leases = *f->job || (q->can_make && t->has_key &&
                            (!f->cost_ms || f->cost_ms >= t->host.config->tier_min_cost_ms));
    f->began_ms = tier_now_ms(t);
    f->poll_ms = POLL_MIN_MS;
    memcpy(&f->random, q->id->key.bytes, sizeof f->random);
    f->random ^= clock_mono_ns(); /* nodes must not poll in step */
    f->name_len = ask->name.len;
    if (ask->name.len)
        memcpy(f->name, ask->name.data, ask->name.len);
    f->is_queued = !budget_has(f->uid, BUDGET_tier_asks, 1) || queue_next(t);
    if (!budget_take(f->uid, BUDGET_tier_waits, 1)) {
        free(f);
        return NULL;
    }
    if (!f->is_queued && !ask_for_entry(f)) {
        budget_give(f->uid, BUDGET_tier_waits, 1);
        free(f);
        return NULL;
    }
    LIST_ADD(t->fetches, f);
    t->n_fetches++;
    tier_tick_start(t);
    return f;
}

/* Returns for how long an ask may wait for an answer: half of what making it takes. */
static uint64_t budget_ms(const struct tier *t, const struct ask *ask)
{
    uint32_t cost = cost_ms(t, ask);
    if (!cost || cost / 2 >= ASK_BUDGET_MS)
        return ASK_BUDGET_MS;
    return cost / 2 > BUDGET_MIN_MS ? cost / 2 : BUDGET_MIN_MS;
}

/* True if it makes no sense to ask; ask->tier_said then says why, if there is anything to say. */
static bool is_no_use(const struct tier *t, struct ask *ask, const struct wanted *q)
{
    const struct flight *f = flight_find(service_of(t)->flights, q->id, q->proof);
    if (f && !flight_result(f) && !*ask->job) /* it is being made here */
        return true;
    if (tier_is_off(t, &t->reads)) {
        snprintf(ask->tier_said, sizeof ask->tier_said, "not asked: %.80s", t->reads.said);
        return true;
    }
    if (!*ask->job && is_absent(t, q->id)) {
        snprintf(ask->tier_said, sizeof ask->tier_said, "404, a moment ago");
        return true;
    }
    return false;
}

/* True if an ask may ask the tier for this; *space is then where. */
static bool may_ask(const struct tier *t, struct ask *ask, const struct wanted *q,
                    struct view *space)
{
    bool had_time = !ask->tier_ends_ms || ask->tier_ends_ms > tier_now_ms(t);
    bool is_named = q->id->owner == STORE_MADE_HERE || ask->name.len;
    if (!t || t->closing || !t->reads_it || ask->no_tier || ask->tier_wait || !had_time ||
        !is_named)
        return false;
    if ((*ask->job && t->has_no_leases) || ask->n_tier_asks == ASK_TIER_MAX ||
        key_equal(&ask->tier_asked, &q->id->key))
        return false;
    return tier_space(t, ask->peer->space, q->id->owner, space) && !is_no_use(t, ask, q);
}

enum step try_tier(struct ask *ask, struct look *look)
{
    struct tier *t = ask->service->tier;
    struct wanted q = wanted_by(ask);
    struct view space;
    (void)look;
    if (!may_ask(t, ask, &q, &space))
        return STEP_NOT_HERE;
    struct tier_wait *w = malloc(sizeof *w);
    struct tier_fetch *f = fetch_find(t, &q, ask->job);
    if (w && !f)
        f = fetch_begin(t, ask, &q, space);
    if (!w || !f || (f->waits_for_node && waits_for_nobody(t))) {
        free(w);
        return STEP_NOT_HERE;
    }
    if (!ask->tier_ends_ms)
        ask->tier_ends_ms = tier_now_ms(t) + budget_ms(t, ask);
    if (!ask->tier_waits_end_ms)
        ask->tier_waits_end_ms = tier_now_ms(t) + patience_ms(t, ask);
    *w = (struct tier_wait){f->waits, ask, ask->tier_ends_ms, ask->tier_waits_end_ms};
    f->waits = w;
    ask->tier_wait = &w->ask;
    ask->tier_asked = q.id->key;
    ask->n_tier_asks++;
    if (f->waits_for_node)
        tell_to_wait(ask);
    if (!ask->compile && !ask->waits)
        ask_answer(ask, &(struct answer){.kind = ANSWER_WAIT});
    return STEP_LATER;
}

void tier_fetches_stop(struct tier *t)
{
    for (struct tier_fetch *f = t->fetches, *next; f; f = next) {
        next = f->next;
        if (f->is_sent || f->is_verified_now) /* its end comes */
            wake(f, NULL, "the daemon is stopping");
        else
            fetch_end(f, NULL, "the daemon is stopping");
    }
}
