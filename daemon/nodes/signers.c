/* SPDX-License-Identifier: Apache-2.0 */
/*
 * signers.c - decides which keys count, gives each a number, and removes the entries of all others.
 *
 * service.c makes it, before the tier; tier_fetch.c and inspect.c ask it.
 *
 * Failures: without memory for the sweep, or with a record that cannot be written, the entries that do not count stay
 * until they are evicted, or until the next start. They are refused all the same.
 *
 * Thread: loop thread.
 */
#include "daemon/nodes/signers.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "client/lib/owned_path.h"
#include "daemon/process/log.h"
#include "daemon/process/loop_timer.h"

_Static_assert(TRUSTED_MAX <= STORE_SIGNERS_MAX, "each trusted key may have entries");
_Static_assert(TRUSTED_MAX < SIGNERS_MAX, "each has a number");

#define RECORD "tier.signers"
#define RECORD_SIGNER (4 + 32)
#define SWEEP_ROWS 256u /* of a slice */
#define SWEEP_MS 10u    /* between two slices */

struct signers_sweep {
    struct loop_timer *timer;
    struct store_cursor cursor;
    struct store_id remove[SWEEP_ROWS]; /* of a slice */
    size_t n_remove;
    uint64_t n_removed;
};

/* ---- keys ---- */

static bool same_key(const uint8_t a[32], const uint8_t b[32]) { return memcmp(a, b, 32) == 0; }

/* Finds the trusted key with these bytes; NULL if there is none that counts. */
static const struct trusted_key *find_counting(const struct signers *s, const uint8_t public[32])
{
    for (size_t i = 0; i < s->trusted.n; i++)
        if (same_key(s->trusted.key[i].public, public))
            return s->is_revoked[i] ? NULL : &s->trusted.key[i];
    return NULL;
}

static int revoke_key(struct signers *s, const char *text, struct err *e)
{
    struct trusted_keys one = {.n = 0};
    int code = signing_trust(&one, text, e);
    for (size_t i = 0; code == 0 && i < s->trusted.n; i++)
        s->is_revoked[i] |= same_key(s->trusted.key[i].public, one.key[0].public);
    if (code == 0)
        log_info("what the key %s signed is refused: tier_revoked", one.key[0].name);
    return code;
}

static int read_keys(struct signers *s, const struct config *c, struct err *e)
{
    bool any = *c->tier_key || c->n_tier_trusted || c->n_tier_revoked;
    int code = !any || signing_init() ? 0 : err_set(e, WARM_EIO, "libsodium cannot start");
    if (code == 0 && *c->tier_key)
        code = owned_path_check(c->tier_key, "tier_key", e);
    if (code == 0 && *c->tier_key)
        code = signing_read_file(c->tier_key, &s->key, e);
    s->has_key = code == 0 && *c->tier_key;
    if (s->has_key)
        s->trusted.key[s->trusted.n++] = signing_public(&s->key);
    for (size_t i = 0; code == 0 && i < c->n_tier_trusted; i++)
        code = signing_trust(&s->trusted, c->tier_trusted[i], e);
    for (size_t i = 0; code == 0 && i < c->n_tier_revoked; i++)
        code = revoke_key(s, c->tier_revoked[i], e);
    return code;
}

/* ---- numbers ---- */

static const struct signer *find_signer(const struct signers *s, const uint8_t public[32])
{
    for (size_t i = 0; i < s->n; i++)
        if (same_key(s->table[i].public, public))
            return &s->table[i];
    return NULL;
}

static const struct signer *find_number(const struct signers *s, uint32_t number)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->table[i].number == number)
            return &s->table[i];
    return NULL;
}

uint32_t signers_number(const struct signers *s, const struct trusted_key *key)
{
    const struct signer *signer =
        find_counting(s, key->public) ? find_signer(s, key->public) : NULL;
    return signer ? signer->number : 0;
}

void signers_name(const struct signers *s, uint32_t number, char out[KEY_NAME_MAX])
{
    const struct signer *signer = find_number(s, number);
    const struct trusted_key *key = signer ? find_counting(s, signer->public) : NULL;
    if (key)
        snprintf(out, KEY_NAME_MAX, "%s", key->name);
    else if (signer)
        snprintf(out, KEY_NAME_MAX, "key %02x%02x%02x%02x, not trusted", signer->public[0],
                 signer -> public[1], signer -> public[2], signer -> public[3]);
    else
        snprintf(out, KEY_NAME_MAX, "an unknown key");
}

/* ---- the record ---- */

/* Reads the record. False if there is none that can be read. */
static bool read_record(struct signers *s)
{
    uint8_t bytes[SIGNERS_MAX * RECORD_SIGNER];
    size_t len;
    if (store_meta_get(s->store, RECORD, bytes, sizeof bytes, &len) != 0 || len % RECORD_SIGNER)
        return false;
    struct reader r = reader_over(bytes, len);
    while (r.len) {
        struct signer *signer = &s->table[s->n++];
        signer->number = reader_u32(&r);
        reader_copy(&r, signer->public, sizeof signer->public);
    }
    return true;
}

static void write_record(const struct signers *s)
{
    struct writer w;
    writer_init(&w, 0);
    for (size_t i = 0; i < s->n; i++) {
        writer_u32(&w, s->table[i].number);
        writer_bytes(&w, s->table[i].public, sizeof s->table[i].public);
    }
    if (!w.failed)
        store_meta_put(s->store, RECORD, w.data ? w.data : (void *)"", w.len);
    writer_close(&w);
}

/* Takes the keys out of the table that do not count, but for `most` of them. */
static void forget_others(struct signers *s, size_t most)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) {
        bool counts = find_counting(s, s->table[i].public) != NULL;
        if (counts || most)
            s->table[n++] = s->table[i];
        most -= !counts && most;
    }
    s->n = n;
}

/* Gives each key that counts a number, and tells the store. True if the record had others. */
static bool number_keys(struct signers *s)
{
    uint32_t numbers[TRUSTED_MAX];
    size_t n = 0;
    bool differs = !read_record(s);
    for (size_t i = 0; i < s->n; i++)
        differs |= !find_counting(s, s->table[i].public);
    forget_others(s, SIGNERS_MAX - TRUSTED_MAX);
    for (size_t i = 0; i < s->trusted.n; i++) {
        const struct trusted_key *key = &s->trusted.key[i];
        if (!find_counting(s, key->public))
            continue;
        if (!find_signer(s, key->public)) {
            struct signer new = {.number = 0};
            memcpy(new.public, key->public, sizeof new.public);
            while (!new.number || find_number(s, new.number))
                if (getrandom(&new.number, sizeof new.number, 0) != sizeof new.number)
                    abort(); /* it does not fail for 4 bytes: getrandom(2) */
            assert(s->n < SIGNERS_MAX);
            s->table[s->n++] = new;
        }
        numbers[n++] = find_signer(s, key->public)->number;
    }
    assert(s->n <= SIGNERS_MAX);
    store_trust(s->store, numbers, n);
    return differs;
}

/* ---- the sweep ---- */

static void on_row(void *arg, const struct store_row *row)
{
    struct signers *s = arg;
    struct signers_sweep *sweep = s->sweep;
    const struct signer *signer = find_number(s, row->signer);
    if (!(row->tier & STORE_TIER_CAME) || (signer && find_counting(s, signer->public)))
        return;
    assert(sweep->n_remove < SWEEP_ROWS);
    sweep->remove[sweep->n_remove++] = row->id;
}

static void sweep_over(struct signers *s)
{
    if (s->sweep->n_removed)
        log_info("%llu %s that came from the tier left the store: no trusted key signed them",
                 (unsigned long long)s->sweep->n_removed,
                 s->sweep->n_removed == 1 ? "entry" : "entries");
    forget_others(s, 0);
    write_record(s);
    signers_close(s);
}

static void on_sweep(void *arg)
{
    struct signers *s = arg;
    struct signers_sweep *sweep = s->sweep;
    struct store *store = s->store;
    int more = store_scan(store, &sweep->cursor, SWEEP_ROWS, on_row, s, NULL);
    store_turn_end(store);
    if (sweep->n_remove)
        store_remove(store, sweep->remove, sweep->n_remove, NULL, NULL, NULL);
    sweep->n_removed += sweep->n_remove;
    sweep->n_remove = 0;
    if (more > 0)
        loop_timer_start(sweep->timer, SWEEP_MS, 0);
    else if (more == 0)
        sweep_over(s);
    else
        signers_close(s); /* the next start tries again */
}

void signers_close(struct signers *s)
{
    if (!s || !s->sweep)
        return;
    loop_timer_free(s->sweep->timer);
    free(s->sweep);
    s->sweep = NULL;
}

/* ---- its life ---- */

int signers_new(struct signers **out, const struct config *c, struct store *store, uv_loop_t *loop,
                struct err *e)
{
    struct err why = {0};
    struct signers *s = calloc(1, sizeof *s);
    if (!s)
        return err_set(e, WARM_ENOMEM, "no memory for the tier's keys");
    s->store = store;
    s->loop = loop;
    int code = read_keys(s, c, &why);
    if (code && *c->tier) {
        free(s);
        return err_set(e, code, "%s", why.text);
    }
    if (code) {
        log_warning("%s: no entry that came from a tier counts", why.text);
        *s = (struct signers){.store = store, .loop = loop};
    }
    bool differs = number_keys(s);
    write_record(s);
    if (differs) {
        s->sweep = calloc(1, sizeof *s->sweep);
        if (s->sweep)
            s->sweep->timer = loop_timer_new(s->loop, on_sweep, s);
        if (s->sweep && s->sweep->timer)
            loop_timer_start(s->sweep->timer, SWEEP_MS, 0);
        else
            signers_close(s);
    }
    *out = s;
    return 0;
}

void signers_free(struct signers *s)
{
    signers_close(s);
    free(s);
}
