/* SPDX-License-Identifier: Apache-2.0 */
/*
 * row.c - decides which bytes are a row, and computes what depends on a row alone: heat, expiry, the
 * match of a filter. All of store/ calls it, and so does its fuzz target: it knows neither files nor
 * LMDB.
 *
 * Thread: any; no state.
 */
#define XXH_INLINE_ALL
#include "store/row.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#include <strings.h>

enum row_flag {
    ROW_PINNED = 1 << 0,
    ROW_BLOB = 1 << 1, /* `content` is there */
    ROW_PROOF = 1 << 2,
    ROW_GROUP = 1 << 3,
    ROW_COMPILER = 1 << 4,
    ROW_GRAPH = 1 << 5,
    ROW_FLAGS_KNOWN = (1 << 6) - 1,
};

uint64_t row_checksum(const void *data, size_t len) { return XXH3_64bits(data, len); }

static bool key_is_zero(const struct key *key)
{
    static const struct key zero;
    return key_equal(key, &zero);
}

static bool proof_is_zero(const struct proof *proof)
{
    static const struct proof zero;
    return memcmp(proof, &zero, sizeof zero) == 0;
}

static uint16_t row_flags(const struct store_row *row)
{
    unsigned flags = 0;
    flags |= row->pinned ? ROW_PINNED : 0;
    flags |= row->is_blob ? ROW_BLOB : 0;
    flags |= proof_is_zero(&row->proof) ? 0 : ROW_PROOF;
    flags |= key_is_zero(&row->group) ? 0 : ROW_GROUP;
    flags |= key_is_zero(&row->compiler) ? 0 : ROW_COMPILER;
    flags |= key_is_zero(&row->graph) ? 0 : ROW_GRAPH;
    return (uint16_t)flags;
}

static size_t short_len(struct view text)
{
    return text.len < STORE_NAME_MAX ? text.len : STORE_NAME_MAX;
}

size_t row_encoded_len(const struct store_row *row)
{
    unsigned flags = row_flags(row);
    size_t len = ROW_FIXED + 4 * 2 + 8;
    len += (flags & ROW_BLOB ? 32 : 0) + (flags & ROW_PROOF ? 32 : 0);
    len += (flags & ROW_GROUP ? 16 : 0) + (flags & ROW_COMPILER ? 16 : 0);
    len += flags & ROW_GRAPH ? 16 : 0;
    return len + short_len(row->hardware) + short_len(row->compiler_text) + short_len(row->name) +
           short_len(row->label);
}

static void write_short_text(struct writer *w, struct view text)
{
    size_t len = short_len(text);
    writer_u16(w, (uint16_t)len);
    writer_bytes(w, text.data, len);
}

void row_encode(const struct store_row *row, struct writer *w)
{
    assert((unsigned)row->kind < 16);
    size_t begin = w->len;
    uint16_t flags = row_flags(row);
    uint32_t heat;
    memcpy(&heat, &row->heat, sizeof heat);
    writer_u8(w, ROW_VERSION);
    writer_u8(w, (uint8_t)row->kind);
    writer_u16(w, flags);
    writer_u32(w, row->id.owner);
    writer_bytes(w, row->id.key.bytes, sizeof row->id.key.bytes);
    writer_u32(w, row->maker);
    writer_u32(w, row->cost_ms);
    writer_u64(w, row->len);
    writer_bytes(w, row->check.bytes, sizeof row->check.bytes);
    writer_u64(w, row->created_ms);
    writer_u64(w, row->accessed_ms);
    writer_u64(w, row->expires_ms);
    writer_u32(w, row->hits);
    writer_u32(w, heat);
    writer_u32(w, row->tier);
    writer_u32(w, row->signer);
    if (flags & ROW_BLOB)
        writer_bytes(w, row->content.bytes, sizeof row->content.bytes);
    if (flags & ROW_PROOF)
        writer_bytes(w, row->proof.bytes, sizeof row->proof.bytes);
    if (flags & ROW_GROUP)
        writer_bytes(w, row->group.bytes, sizeof row->group.bytes);
    if (flags & ROW_COMPILER)
        writer_bytes(w, row->compiler.bytes, sizeof row->compiler.bytes);
    if (flags & ROW_GRAPH)
        writer_bytes(w, row->graph.bytes, sizeof row->graph.bytes);
    write_short_text(w, row->hardware);
    write_short_text(w, row->compiler_text);
    write_short_text(w, row->name);
    write_short_text(w, row->label);
    if (!w->failed)
        writer_u64(w, row_checksum(w->data + begin, w->len - begin));
}

static struct view read_short_text(struct reader *r)
{
    size_t len = reader_u16(r);
    if (len > STORE_NAME_MAX)
        r->failed = true;
    return reader_bytes(r, len);
}

/* Reads a digest, or sets it to zero if it is absent. */
static inline void read_digest(struct reader *r, bool is_there, uint8_t *out, size_t len)
{
    if (is_there)
        reader_copy(r, out, len);
    else
        memset(out, 0, len);
}

/* Reads all but the checksum. Each hit runs this: it sets each field once and copies none again. */
static bool read_row(struct reader r, struct store_row *row)
{
    bool known_version = reader_u8(&r) == ROW_VERSION;
    row->kind = (enum store_kind)reader_u8(&r);
    unsigned flags = reader_u16(&r);
    row->pinned = flags & ROW_PINNED;
    row->is_blob = flags & ROW_BLOB;
    row->id.owner = reader_u32(&r);
    reader_copy(&r, row->id.key.bytes, sizeof row->id.key.bytes);
    row->maker = reader_u32(&r);
    row->cost_ms = reader_u32(&r);
    row->len = reader_u64(&r);
    reader_copy(&r, row->check.bytes, sizeof row->check.bytes);
    row->created_ms = reader_u64(&r);
    row->accessed_ms = reader_u64(&r);
    row->expires_ms = reader_u64(&r);
    row->hits = reader_u32(&r);
    uint32_t bits = reader_u32(&r);
    memcpy(&row->heat, &bits, sizeof row->heat);
    if (!isfinite(row->heat) || row->heat < 0)
        r.failed = true;
    row->tier = reader_u32(&r);
    row->signer = reader_u32(&r);
    read_digest(&r, flags & ROW_BLOB, row->content.bytes, sizeof row->content.bytes);
    read_digest(&r, flags & ROW_PROOF, row->proof.bytes, sizeof row->proof.bytes);
    read_digest(&r, flags & ROW_GROUP, row->group.bytes, sizeof row->group.bytes);
    read_digest(&r, flags & ROW_COMPILER, row->compiler.bytes, sizeof row->compiler.bytes);
    read_digest(&r, flags & ROW_GRAPH, row->graph.bytes, sizeof row->graph.bytes);
    row->hardware = read_short_text(&r);
    row->compiler_text = read_short_text(&r);
    row->name = read_short_text(&r);
    row->label = read_short_text(&r);
    return known_version && reader_done(&r) && !(flags & ~(unsigned)ROW_FLAGS_KNOWN) &&
           row->kind < 16 && row->len <= STORE_VALUE_MAX &&
           row->is_blob == (row->len > STORE_INLINE_MAX);
}

static bool is_row_size(size_t len) { return len >= ROW_FIXED + 8 && len <= ROW_MAX; }

int row_decode(const void *data, size_t len, struct store_row *out)
{
    if (!is_row_size(len))
        return WARM_ECORRUPT;
    struct reader tail = reader_over((const uint8_t *)data + len - 8, 8);
    if (reader_u64(&tail) != row_checksum(data, len - 8))
        return WARM_ECORRUPT;
    if (*(const uint8_t *)data != ROW_VERSION)
        return WARM_EVERSION;
    return read_row(reader_over(data, len - 8), out) ? 0 : WARM_ECORRUPT;
}

bool row_salvage(const void *data, size_t len, struct store_row *out)
{
    return is_row_size(len) && read_row(reader_over(data, len - 8), out);
}

void numbers_encode(uint8_t *out, const uint64_t *numbers, size_t n)
{
    for (size_t i = 0; i < 8 * n; i++)
        out[i] = (uint8_t)(numbers[i / 8] >> (8 * (i % 8)));
    uint64_t sum = row_checksum(out, 8 * n);
    for (size_t i = 0; i < 8; i++)
        out[8 * n + i] = (uint8_t)(sum >> (8 * i));
}

bool numbers_decode(const void *data, size_t len, uint64_t *out, size_t n)
{
    if (len != NUMBERS_SIZE(n))
        return false;
    struct reader r = reader_over(data, len);
    uint64_t sum = row_checksum(data, 8 * n);
    for (size_t i = 0; i < n; i++)
        out[i] = reader_u64(&r);
    return reader_u64(&r) == sum;
}

double row_heat(const struct store_row *row, uint64_t now_ms)
{
    if (now_ms <= row->accessed_ms)
        return row->heat;
    /* Halved at each half-life, linear between: monotone, and needs no libm. */
    uint64_t idle_ms = now_ms - row->accessed_ms;
    uint64_t halvings = idle_ms / STORE_HEAT_HALF_LIFE_MS;
    double fraction = (double)(idle_ms % STORE_HEAT_HALF_LIFE_MS) / STORE_HEAT_HALF_LIFE_MS;
    if (halvings > 63)
        return 0;
    return row->heat / (double)(1ull << halvings) * (1 - fraction / 2);
}

void row_touch(struct store_row *row, uint32_t n, uint64_t last_ms)
{
    row->heat = (float)(row_heat(row, last_ms) + n);
    row->hits = row->hits > UINT32_MAX - n ? UINT32_MAX : row->hits + n;
    if (last_ms > row->accessed_ms)
        row->accessed_ms = last_ms;
}

bool row_expired(const struct store_row *row, uint64_t now_ms)
{
    return row->expires_ms != 0 && row->expires_ms <= now_ms;
}

struct store_filter store_filter_all(void)
{
    return (struct store_filter){
        .owner = -1, .maker = -1, .kind = -1, .pinned = -1, .max_hits = UINT32_MAX};
}

static bool view_contains(struct view haystack, struct view needle)
{
    return haystack.len && memmem(haystack.data, haystack.len, needle.data, needle.len);
}

static bool compiler_matches(const struct store_row *row, struct view wanted)
{
    char hex[WARM_KEY_TEXT];
    key_to_text(&row->compiler, hex);
    if (view_contains(row->compiler_text, wanted))
        return true;
    return !key_is_zero(&row->compiler) && wanted.len < sizeof hex &&
           strncasecmp(hex, wanted.data, wanted.len) == 0;
}

static bool user_matches(const struct store_filter *f, const struct store_row *row)
{
    bool by_owner = f->owner >= 0 && row->id.owner == f->owner;
    bool by_maker = f->maker >= 0 && row->maker == f->maker;
    return (f->owner < 0 && f->maker < 0) || by_owner || by_maker;
}

static uint64_t age(uint64_t then_ms, uint64_t now_ms)
{
    return now_ms > then_ms ? now_ms - then_ms : 0;
}

/* True if the text is what was asked for, or begins with it and names the device behind a space. */
static bool hardware_matches(struct view wanted, struct view text)
{
    return wanted.len <= text.len &&
           (!wanted.len || memcmp(wanted.data, text.data, wanted.len) == 0) &&
           (!wanted.len || wanted.len == text.len || ((const char *)text.data)[wanted.len] == ' ');
}

bool store_filter_match(const struct store_filter *f, const struct store_row *row, uint64_t now_ms)
{
    if (!user_matches(f, row))
        return false;
    if (f->kind >= 0 && f->kind != (int)row->kind)
        return false;
    if (f->pinned >= 0 && (f->pinned != 0) != row->pinned)
        return false;
    if (!hardware_matches(f->hardware, row->hardware))
        return false;
    if (f->compiler.len && !compiler_matches(row, f->compiler))
        return false;
    if (f->text.len && !view_contains(row->name, f->text) && !view_contains(row->label, f->text))
        return false;
    if (row->len < f->min_bytes || (f->max_bytes && row->len > f->max_bytes))
        return false;
    if (age(row->created_ms, now_ms) < f->min_age_ms ||
        age(row->accessed_ms, now_ms) < f->min_idle_ms)
        return false;
    return row->hits >= f->min_hits && row->hits <= f->max_hits;
}
