/* SPDX-License-Identifier: Apache-2.0 */
/*
 * archive.c - writes and checks archives, entry by entry. commands/export.c writes them,
 * commands/import.c reads them; archive.h has the format.
 *
 * Thread: any; no state.
 */
#include "client/cli/import/archive.h"
#include "keygen/domains.h"

#include <assert.h>
#include <string.h>

#include "client/wire/wire.h"
#include "keygen/key.h"

#define MAGIC "warm archive 2\r\n"
#define MAGIC_LEN 16u
#define VERSION_AT 13u
#define ENTRY 0x45
#define END 0x5a
#define MADE_LEN 80u

_Static_assert(sizeof MAGIC - 1 == MAGIC_LEN, "a line of 16 bytes");
_Static_assert(ARCHIVE_TEXT_MAX == WIRE_NAME_MAX, "what a store's row can hold");

bool archive_claims(const void *data, size_t len)
{
    return len >= MAGIC_LEN && memcmp(data, MAGIC, VERSION_AT) == 0;
}

void archive_begin(struct writer *out) { writer_bytes(out, MAGIC, MAGIC_LEN); }

static void put_texts(struct writer *out, const struct archive_entry *e)
{
    writer_blob(out, e->name.data, e->name.len);
    writer_blob(out, e->hardware.data, e->hardware.len);
    writer_blob(out, e->compiler.data, e->compiler.len);
    writer_blob(out, e->label.data, e->label.len);
    writer_u32(out, e->is_made ? MADE_LEN : 0);
    if (e->is_made) {
        writer_bytes(out, e->made.compiler.bytes, sizeof e->made.compiler.bytes);
        writer_bytes(out, e->made.graph.bytes, sizeof e->made.graph.bytes);
        writer_bytes(out, e->made.group.bytes, sizeof e->made.group.bytes);
        writer_bytes(out, e->made.proof.bytes, sizeof e->made.proof.bytes);
    }
}

static void read_made(struct view made, struct archive_made *out)
{
    struct reader r = reader_over(made.data, made.len);
    reader_copy(&r, out->compiler.bytes, sizeof out->compiler.bytes);
    reader_copy(&r, out->graph.bytes, sizeof out->graph.bytes);
    reader_copy(&r, out->group.bytes, sizeof out->group.bytes);
    reader_copy(&r, out->proof.bytes, sizeof out->proof.bytes);
}

static struct key checksum(const struct archive_entry *e, const void *texts, size_t texts_len)
{
    struct key_builder b;
    struct key key;
    struct proof unused;
    key_begin(&b, DOMAIN_ARCHIVE);
    key_add_u64(&b, 0, e->kind);
    key_add_u64(&b, 1, e->cost_ms);
    key_add(&b, 2, texts, texts_len);
    key_add(&b, 3, e->value.data, e->value.len);
    key_end(&b, &key, &unused);
    return key;
}

void archive_put_head(struct writer *out, const struct archive_entry *entry)
{
    assert(entry->name.len <= ARCHIVE_TEXT_MAX && entry->label.len <= ARCHIVE_TEXT_MAX &&
           (!entry->is_made || entry->name.len == 0));
    writer_u8(out, ENTRY);
    writer_u8(out, entry->kind);
    writer_u32(out, entry->cost_ms);
    writer_u64(out, entry->value.len);
    size_t check_at = out->len;
    writer_bytes(out, (uint8_t[16]){0}, 16);
    size_t texts_at = out->len;
    put_texts(out, entry);
    if (out->failed)
        return;
    struct key check = checksum(entry, out->data + texts_at, out->len - texts_at);
    memcpy(out->data + check_at, check.bytes, sizeof check.bytes);
}

void archive_end(struct writer *out, uint64_t n_entries)
{
    writer_u8(out, END);
    writer_u64(out, n_entries);
}

int archive_open(const void *data, size_t len, struct reader *out, struct err *e)
{
    assert(out && (data || len == 0));
    if (!archive_claims(data, len))
        return err_set(e, WARM_EMALFORMED, "this is no archive of warm");
    if (memcmp(data, MAGIC, MAGIC_LEN) != 0)
        return err_set(e, WARM_EVERSION, "an archive of another version");
    *out = reader_over(data, len);
    reader_bytes(out, MAGIC_LEN);
    return 0;
}

static int at_end(struct reader *r, uint64_t n_before, struct err *e)
{
    uint64_t n = reader_u64(r);
    if (!reader_done(r))
        return err_set(e, WARM_EMALFORMED, "the archive does not end where it says");
    if (n != n_before)
        return err_set(e, WARM_EMALFORMED,
                       "the archive has another number of entries than it says");
    return WARM_ENOT_FOUND;
}

int archive_next(struct reader *r, uint64_t n_before, struct archive_entry *out, struct err *e)
{
    assert(r && out);
    struct key check;
    uint8_t mark = reader_u8(r);
    if (mark == END)
        return at_end(r, n_before, e);
    if (r->failed || mark != ENTRY)
        return r->failed ? err_set(e, WARM_ETRUNCATED, "the archive ends too early")
                         : err_set(e, WARM_EMALFORMED, "no entry begins where one should");
    *out = (struct archive_entry){.kind = reader_u8(r), .cost_ms = reader_u32(r)};
    uint64_t len = reader_u64(r);
    reader_copy(r, check.bytes, sizeof check.bytes);
    const uint8_t *texts = r->data;
    out->name = reader_blob(r, ARCHIVE_TEXT_MAX);
    out->hardware = reader_blob(r, ARCHIVE_TEXT_MAX);
    out->compiler = reader_blob(r, ARCHIVE_TEXT_MAX);
    out->label = reader_blob(r, ARCHIVE_TEXT_MAX);
    struct view made = reader_blob(r, ARCHIVE_TEXT_MAX);
    size_t texts_len = r->failed ? 0 : (size_t)(r->data - texts);
    out->value = len <= r->len ? reader_bytes(r, (size_t)len) : (struct view){0};
    if (r->failed || out->value.len != len)
        return err_set(e, WARM_ETRUNCATED, "the archive ends too early");
    struct key found = checksum(out, texts, texts_len);
    if (!key_equal(&check, &found))
        return WARM_ECORRUPT;
    out->is_made = made.len == MADE_LEN;
    if (out->is_made)
        read_made(made, &out->made);
    else if (made.len)
        return err_set(e, WARM_EMALFORMED, "an entry that is neither named nor made");
    return 0;
}
