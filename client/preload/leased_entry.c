/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leased_entry.c - decides if a stored artifact may be used, and stores new ones. The stand-ins for
 * NVRTC, nvJitLink, libNVVM, the driver, PJRT and MLIR call it; leased_entry.h draws the cases.
 *
 * Thread: any, each with a connection of its own; no state.
 */
#include "client/preload/leased_entry.h"

#include <stdio.h>
#include <string.h>

#include "client/lib/deadlines.h"
#include "client/lib/environment.h"
#include "client/lib/request.h"
#include "client/preload/preload.h"
#include "keygen/expect.h"

#define MAGIC "warmkept"
#define MAGIC_MARK "warmmark"

bool leased_entry_may_put(void) { return !environment_is_set("WARM_READONLY"); }

void leased_entry_begin(struct leased_entry *e, struct warm *w, const char *prefix,
                        const struct proof *proof)
{
    size_t at = strlen(prefix);
    *e = (struct leased_entry){.w = w, .proof = *proof};
    if (!WARM_EXPECT(w && at + 2 * sizeof *proof < sizeof e->name))
        return; /* no name: no entry is found, and none can be stored */
    memcpy(e->name, prefix, at);
    bytes_to_hex(proof, sizeof *proof, e->name + at);
}

/* Reads what a value with this magic holds. False if it is damaged, or of another artifact. */
static bool unwrap(const struct leased_entry *e, const char *as, struct view *out)
{
    struct reader r = reader_over(e->value.data, e->value.len);
    struct view magic = reader_bytes(&r, sizeof MAGIC - 1);
    struct view check = reader_bytes(&r, sizeof(struct key));
    struct view proof = reader_bytes(&r, sizeof e->proof);
    if (r.failed || r.len == 0 || memcmp(magic.data, as, magic.len) != 0 ||
        memcmp(proof.data, &e->proof, proof.len) != 0)
        return false;
    struct key seen = key_of_bytes(r.data, r.len);
    *out = reader_bytes(&r, r.len);
    return memcmp(check.data, &seen, sizeof seen) == 0;
}

/* Tells `warm why` that the artifact is not kept, and why. */
static void note(const struct leased_entry *e, struct view reason)
{
    char text[200];
    snprintf(text, sizeof text, "%.*s", (int)reason.len, (const char *)reason.data);
    warm_note(e->w, "uncacheable", e->name, text);
}

/* Asks again after each TIMEOUT: the daemon answers so while another process makes the artifact. */
int leased_entry_get(struct leased_entry *e, struct view *out)
{
    if (!WARM_EXPECT(e->w && e->name[0] && !e->token))
        return WARM_EINVALID;
    unsigned flags = leased_entry_may_put() ? WARM_WANT_LEASE : 0;
    uint64_t give_up_ms = conn_now_ms() + DEADLINE_ENTRY_MS;
    struct view reason;
    int code;
    do
        code = warm_get(e->w, e->name, strlen(e->name), flags, &e->value);
    while (code == WARM_ETIMEOUT && e->w->connected && conn_now_ms() < give_up_ms);
    if (code == WARM_LEASE)
        e->token = e->value.token;
    if (code || unwrap(e, MAGIC, out))
        return code;
    if (!unwrap(e, MAGIC_MARK, &reason))
        return WARM_ENOT_FOUND;
    note(e, reason);
    return WARM_EREFUSED;
}

bool leased_entry_is_ours(int code)
{
    return (code == 0 || code == WARM_LEASE || code == WARM_ENOT_FOUND) && leased_entry_may_put();
}

static int put(struct leased_entry *e, const char *as, struct view data,
               struct warm_put_options *options)
{
    struct key check = key_of_bytes(data.data, data.len);
    struct writer whole;
    options->token = e->token;
    writer_init(&whole, 0);
    writer_bytes(&whole, as, sizeof MAGIC - 1);
    writer_bytes(&whole, &check, sizeof check);
    writer_bytes(&whole, &e->proof, sizeof e->proof);
    writer_bytes(&whole, data.data, data.len);
    int code = whole.failed
                   ? WARM_ENOMEM
                   : warm_put(e->w, e->name, strlen(e->name), whole.data, whole.len, options);
    if (code == 0)
        e->token = 0;
    writer_close(&whole);
    return code;
}

int leased_entry_put(struct leased_entry *e, const void *data, size_t len,
                     struct warm_put_options options)
{
    return put(e, MAGIC, (struct view){data, len}, &options);
}

void leased_entry_mark(struct leased_entry *e, const char *reason, uint64_t ttl_ms)
{
    /* A hit of a manifest is no hit for people. */
    struct warm_put_options options = {.kind = "manifest", .ttl_ms = ttl_ms};
    struct view text = view_of_text(reason);
    if (!WARM_EXPECT(text.len))
        return;
    if (leased_entry_may_put())
        put(e, MAGIC_MARK, text, &options);
    note(e, text);
}

void leased_entry_end(struct leased_entry *e)
{
    if (e->token)
        warm_release(e->w, e->token);
    warm_value_free(&e->value);
}
