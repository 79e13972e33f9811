/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inflate.c - see inflate.h. Any thread; no state.
 *
 * Codes are decoded a bit at a time from counts of codes by length (RFC 1951, section 3.2.2):
 * slower than tables, and a tenth of the code. What comes out goes to a window of 32 KiB, from which
 * distances copy, and from there to the writer.
 */
#include "client/inflate.h"

#include <string.h>

#include "keygen/err.h"

#define WINDOW 32768u
#define CODE_BITS_MAX 15
#define LITERALS 288
#define DISTANCES 30
#define ADLER 65521u

struct inflate {
    const uint8_t *in;
    size_t len, at;
    uint32_t bits; /* read and not used yet, the next one lowest */
    unsigned n_bits;
    int code; /* the first failure */
    uint8_t window[WINDOW];
    size_t total, max_len; /* bytes that came out */
    uint32_t a, b;         /* Adler-32 */
    struct writer *out;
};

struct huffman {
    uint16_t count[CODE_BITS_MAX + 1]; /* codes of each length */
    uint16_t symbol[LITERALS];         /* in the order of their codes */
};

static int stop(struct inflate *s, int code)
{
    if (!s->code)
        s->code = code;
    return -1;
}

static uint32_t take(struct inflate *s, unsigned n)
{
    while (s->n_bits < n) {
        if (s->at == s->len) {
            stop(s, WARM_ETRUNCATED);
            return 0;
        }
        s->bits |= (uint32_t)s->in[s->at++] << s->n_bits;
        s->n_bits += 8;
    }
    uint32_t value = s->bits & ((1u << n) - 1);
    s->bits >>= n;
    s->n_bits -= n;
    return value;
}

/* ---- what comes out ---- */

static void flush(struct inflate *s, size_t n)
{
    if (s->out)
        writer_bytes(s->out, s->window, n);
}

static void put(struct inflate *s, uint8_t byte)
{
    if (s->total >= s->max_len) {
        stop(s, WARM_ETOO_BIG);
        return;
    }
    s->window[s->total++ % WINDOW] = byte;
    s->a = (s->a + byte) % ADLER;
    s->b = (s->b + s->a) % ADLER;
    if (s->total % WINDOW == 0)
        flush(s, WINDOW);
}

static void copy(struct inflate *s, size_t distance, size_t len)
{
    if (distance > s->total || distance > WINDOW) {
        stop(s, WARM_EMALFORMED);
        return;
    }
    while (len-- && !s->code)
        put(s, s->window[(s->total - distance) % WINDOW]);
}

/* ---- codes ---- */

/* From the length of each symbol's code. False if there are more codes than fit. */
static bool huffman_build(struct huffman *h, const uint8_t *lengths, unsigned n)
{
    uint16_t offsets[CODE_BITS_MAX + 1] = {0};
    int left = 1;
    memset(h->count, 0, sizeof h->count);
    for (unsigned i = 0; i < n; i++)
        h->count[lengths[i]]++;
    h->count[0] = 0;
    for (int bits = 1; bits <= CODE_BITS_MAX; bits++) {
        left = left * 2 - h->count[bits];
        if (left < 0)
            return false;
        if (bits < CODE_BITS_MAX)
            offsets[bits + 1] = (uint16_t)(offsets[bits] + h->count[bits]);
    }
    for (unsigned i = 0; i < n; i++)
        if (lengths[i])
            h->symbol[offsets[lengths[i]]++] = (uint16_t)i;
    return true;
}

static int huffman_read(struct inflate *s, const struct huffman *h)
{
    int code = 0, first = 0, index = 0;
    for (int bits = 1; bits <= CODE_BITS_MAX; bits++) {
        code |= (int)take(s, 1);
        if (s->code)
            return -1;
        int count = h->count[bits];
        if (code - count < first)
            return h->symbol[index + code - first];
        index += count;
        first = (first + count) * 2;
        code *= 2;
    }
    return stop(s, WARM_EMALFORMED);
}

/* ---- blocks ---- */

static void block_stored(struct inflate *s)
{
    s->bits = s->n_bits = 0; /* to the next whole byte */
    uint32_t len = take(s, 16), check = take(s, 16);
    if (!s->code && len != (~check & 0xffff))
        stop(s, WARM_EMALFORMED);
    while (len-- && !s->code)
        put(s, (uint8_t)take(s, 8));
}

static void block_coded(struct inflate *s, const struct huffman *literals,
                        const struct huffman *distances)
{
    static const uint16_t len_base[] = {3,  4,  5,  6,   7,   8,   9,   10,  11, 13,
                                        15, 17, 19, 23,  27,  31,  35,  43,  51, 59,
                                        67, 83, 99, 115, 131, 163, 195, 227, 258};
    static const uint8_t len_bits[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                       2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
    static const uint16_t far_base[] = {
        1,   2,   3,   4,   5,   7,    9,    13,   17,   25,   33,   49,   65,    97,    129,
        193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
    while (!s->code) {
        int symbol = huffman_read(s, literals);
        if (symbol < 0 || symbol == 256)
            return;
        if (symbol < 256) {
            put(s, (uint8_t)symbol);
            continue;
        }
        size_t n = (size_t)symbol - 257;
        if (n >= sizeof len_bits) {
            stop(s, WARM_EMALFORMED);
            return;
        }
        size_t len = len_base[n] + take(s, len_bits[n]);
        int far = huffman_read(s, distances);
        if (far >= DISTANCES)
            stop(s, WARM_EMALFORMED);
        if (s->code)
            return;
        unsigned far_bits = far < 4 ? 0 : (unsigned)far / 2 - 1;
        copy(s, far_base[far] + take(s, far_bits), len);
    }
}

static void block_fixed(struct inflate *s)
{
    uint8_t lengths[LITERALS], far[DISTANCES];
    struct huffman literals, distances;
    for (unsigned i = 0; i < LITERALS; i++)
        lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    memset(far, 5, sizeof far);
    huffman_build(&literals, lengths, LITERALS);
    huffman_build(&distances, far, DISTANCES);
    block_coded(s, &literals, &distances);
}

/* Lengths of codes, which are coded themselves, with repetitions. */
static void read_lengths(struct inflate *s, const struct huffman *h, uint8_t *lengths, unsigned n)
{
    for (unsigned i = 0; i < n && !s->code;) {
        int symbol = huffman_read(s, h);
        if (symbol < 0)
            return;
        if (symbol < 16) {
            lengths[i++] = (uint8_t)symbol;
            continue;
        }
        uint8_t value = 0;
        if (symbol == 16 && i == 0) {
            stop(s, WARM_EMALFORMED);
            return;
        }
        if (symbol == 16)
            value = lengths[i - 1];
        unsigned times = symbol == 16   ? 3 + take(s, 2)
                         : symbol == 17 ? 3 + take(s, 3)
                                        : 11 + take(s, 7);
        if (times > n - i)
            stop(s, WARM_EMALFORMED);
        while (times-- && !s->code)
            lengths[i++] = value;
    }
}

static void block_dynamic(struct inflate *s)
{
    static const uint8_t order[] = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                    11, 4,  12, 3, 13, 2, 14, 1, 15};
    uint8_t lengths[LITERALS + 32] = {0};
    struct huffman literals, distances;
    unsigned n_literals = 257 + take(s, 5), n_distances = 1 + take(s, 5), n_codes = 4 + take(s, 4);
    for (unsigned i = 0; i < n_codes; i++)
        lengths[order[i]] = (uint8_t)take(s, 3);
    if (!s->code && (n_literals > 286 || n_distances > DISTANCES ||
                     !huffman_build(&literals, lengths, sizeof order)))
        stop(s, WARM_EMALFORMED);
    if (s->code)
        return;
    memset(lengths, 0, sizeof lengths);
    read_lengths(s, &literals, lengths, n_literals + n_distances);
    if (!s->code && (lengths[256] == 0 || !huffman_build(&literals, lengths, n_literals) ||
                     !huffman_build(&distances, lengths + n_literals, n_distances)))
        stop(s, WARM_EMALFORMED);
    if (!s->code)
        block_coded(s, &literals, &distances);
}

static void read_blocks(struct inflate *s)
{
    for (bool last = false; !last && !s->code;) {
        last = take(s, 1);
        switch (take(s, 2)) {
        case 0: block_stored(s); break;
        case 1: block_fixed(s); break;
        case 2: block_dynamic(s); break;
        default: stop(s, WARM_EMALFORMED);
        }
    }
}

int inflate_zlib(const void *data, size_t len, size_t max_len, struct writer *out)
{
    const uint8_t *in = data;
    if (len < 2)
        return WARM_ETRUNCATED;
    /* deflate with a window of up to 32 KiB, no dictionary, the header's own check */
    if ((in[0] & 0x0f) != 8 || in[0] >> 4 > 7 || in[1] & 0x20 || (in[0] << 8 | in[1]) % 31)
        return WARM_EMALFORMED;
    struct inflate s = {.in = in, .len = len, .at = 2, .max_len = max_len, .a = 1, .out = out};
    read_blocks(&s);
    s.bits = s.n_bits = 0;
    uint32_t check = 0;
    for (unsigned i = 0; i < 4; i++)
        check = check << 8 | take(&s, 8);
    if (!s.code && (check != (s.b << 16 | s.a) || s.at != len))
        s.code = WARM_EMALFORMED;
    if (!s.code)
        flush(&s, s.total % WINDOW);
    return s.code ? s.code : out && out->failed ? WARM_ENOMEM : 0;
}

void inflate_store(struct writer *out, const void *data, size_t len)
{
    const uint8_t *at = data;
    uint32_t a = 1, b = 0;
    for (size_t i = 0; i < len; i++) {
        a = (a + at[i]) % ADLER;
        b = (b + a) % ADLER;
    }
    writer_bytes(out, "\x78\x01", 2);
    do {
        uint16_t n = len > 65535 ? 65535 : (uint16_t)len;
        len -= n;
        writer_u8(out, len == 0);
        writer_u16(out, n);
        writer_u16(out, (uint16_t)~n);
        writer_bytes(out, at, n);
        at += n;
    } while (len);
    const uint8_t check[] = {(uint8_t)(b >> 8), (uint8_t)b, (uint8_t)(a >> 8), (uint8_t)a};
    writer_bytes(out, check, sizeof check);
}

/* ---- zstd: the frame only ---- */

bool inflate_zstd_is_whole(const void *data, size_t len)
{
    struct reader r = reader_over(data, len);
    if (reader_u32(&r) != 0xfd2fb528)
        return false;
    uint8_t head = reader_u8(&r);
    static const uint8_t id_bytes[] = {0, 1, 2, 4}, size_bytes[] = {0, 2, 4, 8};
    bool single = head >> 5 & 1;
    size_t skipped = id_bytes[head & 3] + size_bytes[head >> 6];
    if (single && head >> 6 == 0)
        skipped++; /* the size of a frame of one segment has a byte at least */
    reader_bytes(&r, skipped + !single);
    for (bool last = false; !last && !r.failed;) {
        uint32_t block = reader_u8(&r);
        block |= (uint32_t)reader_u16(&r) << 8;
        last = block & 1;
        unsigned type = block >> 1 & 3; /* raw, repeated, compressed, reserved */
        if (type == 3)
            return false;
        reader_bytes(&r, type == 1 ? 1 : block >> 3);
    }
    reader_bytes(&r, head & 4 ? 4 : 0);
    return reader_done(&r);
}
