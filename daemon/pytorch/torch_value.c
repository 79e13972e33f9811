/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch_value.c - decides which JSON of PyTorch's caches can be taken apart and put together again byte for
 * byte, and does both.
 *
 * torch_store.c and redis/answer.c call it. Base64 is that of RFC 4648, section 4. Only its canonical form
 * is decoded: a text that decodes is encoded to the same text.
 *
 * Thread: any; no state.
 */
#include "daemon/pytorch/torch_value.h"

#include <stdio.h>
#include <string.h>

static const uint8_t magic[TORCH_VALUE_MAGIC] = {0, 't', 'o', 'r', 'c', 'h', '1', '\n'};
static const char head[] = TORCH_VALUE_HEAD;
static const char tail[] = "\", \"time_taken_ms\": ";
#define HEAD (sizeof head - 1)
#define TAIL (sizeof tail - 1)
#define PICKLE 0x80 /* the first byte of every pickle since protocol 2 */
#define COST_DIGITS 9u

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

bool torch_value_is_name(struct view name)
{
    return name.len > 4 && memcmp(name.data, "pt2:", 4) == 0;
}

bool torch_value_is_stored(const void *data, size_t len)
{
    return len > TORCH_VALUE_MAGIC && memcmp(data, magic, TORCH_VALUE_MAGIC) == 0;
}

/* ---- base64 ---- */

uint64_t torch_value_encoded_len(uint64_t len) { return (len + 2) / 3 * 4; }

void torch_value_encode(const uint8_t *in, size_t len, uint8_t *out)
{
    for (; len >= 3; len -= 3, in += 3, out += 4) {
        uint32_t bits = (uint32_t)in[0] << 16 | (uint32_t)in[1] << 8 | in[2];
        for (unsigned i = 0; i < 4; i++)
            out[i] = (uint8_t)digits[bits >> (18 - 6 * i) & 63];
    }
    if (len == 0)
        return;
    uint32_t bits = (uint32_t)in[0] << 16 | (len > 1 ? (uint32_t)in[1] << 8 : 0);
    out[0] = (uint8_t)digits[bits >> 18];
    out[1] = (uint8_t)digits[bits >> 12 & 63];
    out[2] = (uint8_t)(len > 1 ? digits[bits >> 6 & 63] : '=');
    out[3] = '=';
}

/* The value of a digit, plus one; 0: it is none. A table, because branches are slow on random
 * text. */
#define RUN_4(c, v) [c] = (v) + 1, [(c) + 1] = (v) + 2, [(c) + 2] = (v) + 3, [(c) + 3] = (v) + 4
#define RUN_26(c, v)                                                                               \
    RUN_4(c, v), RUN_4((c) + 4, (v) + 4), RUN_4((c) + 8, (v) + 8), RUN_4((c) + 12, (v) + 12),      \
        RUN_4((c) + 16, (v) + 16), RUN_4((c) + 20, (v) + 20), [(c) + 24] = (v) + 25,               \
                                                                     [(c) + 25] = (v) + 26
static const uint8_t values[256] = {RUN_26('A', 0), RUN_26('a', 26), RUN_4('0', 52), RUN_4('4', 56),
                                    ['8'] = 61,     ['9'] = 62,      ['+'] = 63,     ['/'] = 64};

/* Adds the bits of four digits to *bits. False if one of the four is no digit. */
static bool decode_four(const uint8_t *in, uint32_t *bits)
{
    uint32_t seen = 0;
    *bits = 0;
    for (unsigned i = 0; i < 4; i++) {
        uint32_t d = values[in[i]] - 1u;
        seen |= d;
        *bits = *bits << 6 | (d & 63);
    }
    return seen < 64;
}

/* Decodes the last four, with up to two '='. Bits that belong to no byte must be zero. */
static size_t decode_end(const uint8_t *in, uint8_t *out)
{
    uint8_t four[4] = {in[0], in[1], in[2], in[3]};
    size_t n = in[3] != '=' ? 3 : in[2] != '=' ? 2 : 1;
    uint32_t bits;
    for (size_t i = n + 1; i < 4; i++)
        four[i] = 'A';
    if (!decode_four(four, &bits) || (bits & (0xffffffu >> 8 * n)) != 0)
        return 0;
    for (size_t i = 0; i < n; i++)
        out[i] = (uint8_t)(bits >> (16 - 8 * i));
    return n;
}

/* Decodes a text. Returns its length; 0 if it is empty or not canonical base64. */
static size_t decode(const uint8_t *in, size_t len, uint8_t *out)
{
    const uint8_t *start = out;
    uint32_t bits;
    if (len == 0 || len % 4 != 0)
        return 0;
    for (; len > 4; len -= 4, in += 4, out += 3) {
        if (!decode_four(in, &bits))
            return 0;
        out[0] = (uint8_t)(bits >> 16);
        out[1] = (uint8_t)(bits >> 8);
        out[2] = (uint8_t)bits;
    }
    size_t n = decode_end(in, out);
    return n ? (size_t)(out - start) + n : 0;
}

/* ---- the JSON around it ---- */

static unsigned count_digits(uint32_t n)
{
    unsigned count = 1;
    while (n >= 10) {
        n /= 10;
        count++;
    }
    return count;
}

/* Reads `", "time_taken_ms": N}` from the end; returns where it begins, or 0 if it is not there. N
 * is a printed number: no sign, no leading zero. */
static size_t read_tail(const uint8_t *json, size_t len, uint32_t *out_cost_ms)
{
    if (len < HEAD + TAIL + 2 || json[len - 1] != '}')
        return 0;
    size_t at = len - 1, end = len - 1;
    uint32_t cost = 0;
    while (at > 0 && end - at < COST_DIGITS && json[at - 1] >= '0' && json[at - 1] <= '9')
        at--;
    for (size_t i = at; i < end; i++)
        cost = cost * 10 + (json[i] - '0');
    if (at == end || count_digits(cost) != end - at || at < HEAD + TAIL ||
        memcmp(json + at - TAIL, tail, TAIL) != 0)
        return 0;
    *out_cost_ms = cost;
    return at - TAIL;
}

size_t torch_value_take_apart(struct view json, uint8_t *out, uint32_t *out_cost_ms)
{
    const uint8_t *bytes = json.data;
    uint32_t cost_ms = 0;
    size_t end = read_tail(bytes, json.len, &cost_ms);
    if (end < HEAD || memcmp(bytes, head, HEAD) != 0)
        return 0;
    size_t len = decode(bytes + HEAD, end - HEAD, out + TORCH_VALUE_MAGIC);
    if (len == 0 || out[TORCH_VALUE_MAGIC] != PICKLE)
        return 0;
    memcpy(out, magic, TORCH_VALUE_MAGIC);
    *out_cost_ms = cost_ms;
    return TORCH_VALUE_MAGIC + len;
}

size_t torch_value_json_len(size_t len, uint32_t cost_ms)
{
    return HEAD + torch_value_encoded_len(len - TORCH_VALUE_MAGIC) + TAIL + count_digits(cost_ms) +
           1;
}

size_t torch_value_end(uint32_t cost_ms, char out[static TORCH_VALUE_WRAPPING_MAX])
{
    return (size_t)snprintf(out, TORCH_VALUE_WRAPPING_MAX, "%s%u}", tail, (unsigned)cost_ms);
}

void torch_value_put_together(const uint8_t *stored, size_t len, uint32_t cost_ms, uint8_t *out)
{
    char end[TORCH_VALUE_WRAPPING_MAX];
    size_t n = torch_value_encoded_len(len - TORCH_VALUE_MAGIC);
    memcpy(out, head, HEAD);
    torch_value_encode(stored + TORCH_VALUE_MAGIC, len - TORCH_VALUE_MAGIC, out + HEAD);
    size_t end_len = torch_value_end(cost_ms, end);
    memcpy(out + HEAD + n, end, end_len);
}

/* ---- what an AOTAutograd entry refers to ---- */

static bool is_base32(uint8_t c) { return (c >= 'a' && c <= 'z') || (c >= '2' && c <= '7'); }

struct view torch_value_next_fx_key(struct view entry, size_t *at)
{
    /* A short string of a pickle: its opcode, its length, then itself. A plain loop: memmem is ten times
     * as slow on bytes that are made of nothing but marks. */
    static const uint8_t mark[] = {0x8c, TORCH_VALUE_FX_KEY, 'f'};
    const uint8_t *bytes = entry.data;
    size_t i = *at;
    while (i + 2 + TORCH_VALUE_FX_KEY <= entry.len) {
        if (bytes[i] != mark[0] || bytes[i + 1] != mark[1] || bytes[i + 2] != mark[2]) {
            i++;
            continue;
        }
        size_t start = i + 2, n = 0;
        while (n < TORCH_VALUE_FX_KEY && is_base32(bytes[start + n]))
            n++;
        i = start + n;
        if (n == TORCH_VALUE_FX_KEY) {
            *at = i;
            return (struct view){bytes + start, n};
        }
    }
    *at = entry.len;
    return (struct view){NULL, 0};
}
