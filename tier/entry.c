/* SPDX-License-Identifier: Apache-2.0 */
/*
 * entry.c - decides which bytes from beyond the machine are an entry. warmd makes and reads them (daemon/service).
 *
 * The signature is compared before any other field is believed.
 *
 * Thread: any; no state.
 */
#include "tier/entry.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define ENTRY_VERSION 1u
#define ENTRY_INLINE 1u
#define ENTRY_KINDS 16u
static const char magic[4] = {'W', 'T', 'I', 'E'};
static const char domain[] = "warm-tier-1";

static struct proof hash_of_proof(const struct proof *proof)
{
    return proof_of_bytes(proof->bytes, sizeof proof->bytes);
}

void entry_name(struct view space, const struct key *key, const struct proof *proof,
                char out[ENTRY_NAME])
{
    struct proof hash = hash_of_proof(proof);
    uint8_t bytes[sizeof domain + ENTRY_TEXT_MAX + sizeof *key + sizeof hash];
    char hex[65];
    size_t at = sizeof domain - 1;
    assert(space.len < ENTRY_TEXT_MAX);
    memcpy(bytes, domain, at);
    memcpy(bytes + at, space.data, space.len);
    at += space.len;
    bytes[at++] = 0;
    memcpy(bytes + at, key->bytes, sizeof *key);
    memcpy(bytes + at + sizeof *key, hash.bytes, sizeof hash);
    struct proof id = proof_of_bytes(bytes, at + sizeof *key + sizeof hash);
    bytes_to_hex(id.bytes, sizeof id.bytes, hex);
    snprintf(out, ENTRY_NAME, "%.2s/e-%s", hex, hex);
}

static void write_text(struct writer *w, struct view text)
{
    size_t len = text.len < ENTRY_TEXT_MAX ? text.len : ENTRY_TEXT_MAX;
    writer_u16(w, (uint16_t)len);
    writer_bytes(w, text.data, len);
}

void entry_write(const struct tier_entry *entry, const struct signing_key *key, struct writer *out)
{
    size_t begin = out->len;
    uint8_t signature[SIGNATURE_SIZE];
    assert(entry->is_inline == (entry->len <= ENTRY_INLINE_MAX));
    writer_bytes(out, magic, sizeof magic);
    writer_u8(out, ENTRY_VERSION);
    writer_u8(out, entry->kind);
    writer_u16(out, entry->is_inline ? ENTRY_INLINE : 0);
    writer_bytes(out, entry->key.bytes, sizeof entry->key.bytes);
    writer_bytes(out, entry->proof_hash.bytes, sizeof entry->proof_hash.bytes);
    writer_u64(out, entry->len);
    writer_bytes(out, entry->check.bytes, sizeof entry->check.bytes);
    writer_bytes(out, entry->content.bytes, sizeof entry->content.bytes);
    writer_u32(out, entry->cost_ms);
    writer_u64(out, entry->created_ms);
    writer_u64(out, entry->expires_ms);
    writer_bytes(out, entry->group.bytes, sizeof entry->group.bytes);
    writer_bytes(out, entry->compiler.bytes, sizeof entry->compiler.bytes);
    writer_bytes(out, entry->graph.bytes, sizeof entry->graph.bytes);
    write_text(out, entry->space);
    write_text(out, entry->hardware);
    write_text(out, entry->compiler_text);
    write_text(out, entry->name);
    write_text(out, entry->label);
    write_text(out, view_of_text(key->name));
    if (out->failed)
        return;
    signing_sign(key, out->data + begin, out->len - begin, signature);
    writer_bytes(out, signature, sizeof signature);
    if (entry->is_inline)
        writer_bytes(out, entry->value.data, entry->value.len);
}

static struct view read_text(struct reader *r)
{
    size_t len = reader_u16(r);
    if (len > ENTRY_TEXT_MAX)
        r->failed = true;
    return reader_bytes(r, len);
}

static void read_fields(struct reader *r, struct tier_entry *out)
{
    reader_copy(r, out->key.bytes, sizeof out->key.bytes);
    reader_copy(r, out->proof_hash.bytes, sizeof out->proof_hash.bytes);
    out->len = reader_u64(r);
    reader_copy(r, out->check.bytes, sizeof out->check.bytes);
    reader_copy(r, out->content.bytes, sizeof out->content.bytes);
    out->cost_ms = reader_u32(r);
    out->created_ms = reader_u64(r);
    out->expires_ms = reader_u64(r);
    reader_copy(r, out->group.bytes, sizeof out->group.bytes);
    reader_copy(r, out->compiler.bytes, sizeof out->compiler.bytes);
    reader_copy(r, out->graph.bytes, sizeof out->graph.bytes);
    out->space = read_text(r);
    out->hardware = read_text(r);
    out->compiler_text = read_text(r);
    out->name = read_text(r);
    out->label = read_text(r);
    out->signer = read_text(r);
}

int entry_read(const void *data, size_t len, const struct trusted_keys *trusted,
               struct tier_entry *out, const struct trusted_key **out_key, struct err *e)
{
    struct reader r = reader_over(data, len);
    struct view found = reader_bytes(&r, sizeof magic);
    unsigned version = reader_u8(&r);
    if (r.failed || memcmp(found.data, magic, sizeof magic) != 0)
        return err_set(e, WARM_EMALFORMED, "no entry of warm");
    if (version != ENTRY_VERSION)
        return err_set(e, WARM_EVERSION, "version %u of an entry is not known", version);
    *out = (struct tier_entry){.kind = reader_u8(&r)};
    unsigned flags = reader_u16(&r);
    read_fields(&r, out);
    size_t signed_len = len - r.len;
    struct view signature = reader_bytes(&r, SIGNATURE_SIZE);
    if (r.failed)
        return err_set(e, WARM_EMALFORMED, "an entry that is cut off");
    struct view signed_part = {data, signed_len};
    const struct trusted_key *key = NULL;
    do
        key = signing_find(trusted, out->signer, key);
    while (key && !signing_verify(key, signed_part.data, signed_part.len, signature.data));
    *out_key = key; /* that signed */
    if (!key) {
        key = signing_find(trusted, out->signer, NULL);
        if (key)
            return err_set(e, WARM_EDENIED, "the signature of %s is wrong", key->name);
        if (!signing_is_name(out->signer)) /* these bytes may not be printed */
            return err_set(e, WARM_EDENIED, "signature of a key without a proper name");
        return err_set(e, WARM_EDENIED, "signature of unknown key %.*s", (int)out->signer.len,
                       (const char *)out->signer.data);
    }
    out->is_inline = flags & ENTRY_INLINE;
    out->value = out->is_inline ? reader_bytes(&r, r.len) : (struct view){"", 0};
    if (flags & ~ENTRY_INLINE || out->kind >= ENTRY_KINDS || !reader_done(&r) ||
        out->is_inline != (out->len <= ENTRY_INLINE_MAX) ||
        (out->is_inline && out->value.len != out->len))
        return err_set(e, WARM_EMALFORMED, "an entry whose parts do not fit together");
    return 0;
}

bool entry_is(const struct tier_entry *entry, struct view space, const struct key *key,
              const struct proof *proof)
{
    struct proof hash = hash_of_proof(proof);
    return entry->space.len == space.len && memcmp(entry->space.data, space.data, space.len) == 0 &&
           key_equal(&entry->key, key) && proof_equal(&entry->proof_hash, &hash);
}

bool entry_has_value(const struct tier_entry *entry, const void *value, uint64_t len)
{
    if (len != entry->len)
        return false;
    struct key check = key_of_bytes(value, (size_t)len);
    struct proof content = proof_of_bytes(value, (size_t)len);
    return key_equal(&check, &entry->check) && proof_equal(&content, &entry->content);
}
