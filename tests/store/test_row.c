/* SPDX-License-Identifier: Apache-2.0 */
/* test_row.c - the record of an entry: its bytes, damaged ones, and filters on it. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/row.h"

/* FILTER names fields that its defaults have set. */
#pragma GCC diagnostic ignored "-Woverride-init"

/* The example of FORMAT.md. */
static struct store_row example(void)
{
    struct store_row row = {
        .id.owner = 1000,
        .kind = STORE_CUBIN,
        .pinned = true,
        .maker = 1000,
        .len = 5,
        .created_ms = 1700000000000,
        .accessed_ms = 1700000000001,
        .cost_ms = 250,
        .hits = 3,
        .heat = 1.5f,
        .hardware = view_of_text("sm_90"),
        .label = view_of_text("k.cu"),
    };
    memset(row.id.key.bytes, 0x11, sizeof row.id.key.bytes);
    memset(row.graph.bytes, 0x22, sizeof row.graph.bytes);
    row.check = key_of_bytes("hello", 5);
    return row;
}

static size_t encode(const struct store_row *row, uint8_t out[ROW_MAX])
{
    struct writer w;
    writer_init(&w, 0);
    row_encode(row, &w);
    cr_assert(!w.failed && w.len <= ROW_MAX);
    cr_assert_eq(w.len, row_encoded_len(row));
    size_t len = w.len;
    memcpy(out, w.data, len);
    writer_close(&w);
    return len;
}

static const char golden[] = "0101" /* version, kind */
                             "2100" /* flags: pinned, graph */
                             "e8030000"
                             "11111111111111111111111111111111"
                             "e8030000"
                             "fa000000"
                             "0500000000000000"
                             "b5e9c1ad071b3e7fc779cfaa5e523818"
                             "0068e5cf8b010000"
                             "0168e5cf8b010000"
                             "0000000000000000"
                             "03000000"
                             "0000c03f"
                             "0000000000000000"
                             "22222222222222222222222222222222"
                             "0500736d5f3930"
                             "0000"
                             "0000"
                             "04006b2e6375"
                             "13a32f3f5034139a";

Test(row, bytes_are_those_of_the_specification)
{
    uint8_t bytes[ROW_MAX];
    char hex[2 * ROW_MAX + 1];
    struct store_row row = example();
    size_t len = encode(&row, bytes);
    for (size_t i = 0; i < len; i++)
        snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
    cr_assert_str_eq(hex, golden);
}

Test(row, each_flipped_bit_and_each_cut_is_noticed)
{
    uint8_t bytes[ROW_MAX];
    struct store_row row = example(), out;
    size_t len = encode(&row, bytes);
    cr_assert_eq(row_decode(bytes, len, &out), 0);
    for (size_t bit = 0; bit < 8 * len; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        cr_assert_eq(row_decode(bytes, len, &out), WARM_ECORRUPT, "bit %zu", bit);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t cut = 0; cut < len; cut++) {
        uint8_t *exact = malloc(cut + 1); /* a read behind it is seen by the sanitizer */
        memcpy(exact, bytes, cut);
        cr_assert_eq(row_decode(exact, cut, &out), WARM_ECORRUPT, "cut at %zu", cut);
        free(exact);
    }
    bytes[len] = 0;
    cr_assert_eq(row_decode(bytes, len + 1, &out), WARM_ECORRUPT);
}

static void seal(uint8_t *bytes, size_t len)
{
    uint64_t sum = row_checksum(bytes, len - 8);
    for (size_t i = 0; i < 8; i++)
        bytes[len - 8 + i] = (uint8_t)(sum >> (8 * i));
}

static int decode_with(size_t at, uint8_t value)
{
    uint8_t bytes[ROW_MAX];
    struct store_row row = example(), out;
    size_t len = encode(&row, bytes);
    bytes[at] = value;
    seal(bytes, len);
    return row_decode(bytes, len, &out);
}

Test(row, what_row_encode_cannot_have_written_is_corrupt_even_with_a_right_checksum)
{
    cr_assert_eq(decode_with(0, 2), WARM_EVERSION);
    cr_assert_eq(decode_with(1, 16), WARM_ECORRUPT, "no such kind");
    cr_assert_eq(decode_with(3, 0x80), WARM_ECORRUPT, "no such flag");
    cr_assert_eq(decode_with(2, 0x23), WARM_ECORRUPT, "a blob of 5 bytes, and without a digest");
    cr_assert_eq(decode_with(34, 1), WARM_ECORRUPT, "65541 bytes and no blob");
    cr_assert_eq(decode_with(39, 1), WARM_ECORRUPT, "longer than a value may be");
    cr_assert_eq(decode_with(87, 0xff), WARM_ECORRUPT, "heat below zero");
    cr_assert_eq(decode_with(113, 3), WARM_ECORRUPT, "a text longer than a text may be");
    cr_assert_eq(decode_with(112, 4), WARM_ECORRUPT, "bytes that belong to no field");
}

Test(row, texts_at_their_limit_are_kept_and_longer_ones_cut)
{
    char long_text[STORE_NAME_MAX + 100];
    uint8_t bytes[ROW_MAX];
    struct store_row row = example(), out;
    memset(long_text, 'x', sizeof long_text);
    row.is_blob = true;
    row.len = STORE_VALUE_MAX;
    row.content = row.proof = proof_of_bytes("x", 1);
    row.group = row.compiler = row.graph;
    row.hardware = row.compiler_text = row.name = row.label =
        (struct view){long_text, sizeof long_text};
    size_t len = encode(&row, bytes);
    cr_assert_eq(len, ROW_MAX);
    cr_assert_eq(row_decode(bytes, len, &out), 0);
    cr_assert_eq(out.name.len, STORE_NAME_MAX);
    cr_assert_eq(out.len, STORE_VALUE_MAX);
}

Test(row, heat_is_halved_at_each_half_life)
{
    struct store_row row = {.heat = 8, .accessed_ms = 1000};
    cr_assert_float_eq(row_heat(&row, 0), 8, 1e-9, "time may run backwards");
    cr_assert_float_eq(row_heat(&row, 1000), 8, 1e-9);
    cr_assert_float_eq(row_heat(&row, 1000 + STORE_HEAT_HALF_LIFE_MS), 4, 1e-9);
    cr_assert_float_eq(row_heat(&row, 1000 + 3 * STORE_HEAT_HALF_LIFE_MS), 1, 1e-9);
    cr_assert_float_eq(row_heat(&row, UINT64_MAX), 0, 1e-9);
    double last = 9;
    for (uint64_t t = 1000; t < 4 * STORE_HEAT_HALF_LIFE_MS; t += STORE_HEAT_HALF_LIFE_MS / 7) {
        cr_assert(row_heat(&row, t) < last);
        last = row_heat(&row, t);
    }
}

Test(row, hits_do_not_wrap_around)
{
    struct store_row row = {.hits = UINT32_MAX - 2, .heat = 1};
    row_touch(&row, 5, 77);
    cr_assert_eq(row.hits, UINT32_MAX);
    cr_assert_eq(row.accessed_ms, 77);
}

Test(row, small_records_are_checked_too)
{
    uint64_t numbers[3] = {1, 2, UINT64_MAX}, out[3];
    uint8_t bytes[NUMBERS_SIZE(3)];
    numbers_encode(bytes, numbers, 3);
    cr_assert(numbers_decode(bytes, sizeof bytes, out, 3));
    cr_assert_eq(memcmp(numbers, out, sizeof out), 0);
    cr_assert(!numbers_decode(bytes, sizeof bytes - 1, out, 3));
    for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        cr_assert(!numbers_decode(bytes, sizeof bytes, out, 3));
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static bool matches(struct store_filter f)
{
    struct store_row row = example();
    row.compiler = key_of_bytes("compiler", 8);
    row.compiler_text = view_of_text("NVRTC 13.0");
    return store_filter_match(&f, &row, row.accessed_ms + 1000);
}

#define FILTER(...)                                                                                \
    ((struct store_filter){                                                                        \
        .owner = -1, .maker = -1, .kind = -1, .pinned = -1, .max_hits = UINT32_MAX, __VA_ARGS__})

Test(row, a_target_finds_what_names_its_device_too)
{
    struct store_row row = example();
    struct store_filter target = FILTER(.hardware = view_of_text("sm_90")),
                        device = FILTER(.hardware = view_of_text("sm_90 NVIDIA H100")),
                        part = FILTER(.hardware = view_of_text("sm_90 NVIDIA H1"));
    row.hardware = view_of_text("sm_90 NVIDIA H100");
    cr_assert(store_filter_match(&target, &row, 0) && store_filter_match(&device, &row, 0));
    cr_assert(!store_filter_match(&part, &row, 0));
    row.hardware = view_of_text("sm_90a");
    cr_assert(!store_filter_match(&target, &row, 0));
}

Test(row, filters_restrict_by_each_field)
{
    char hex[WARM_KEY_TEXT];
    struct key compiler = key_of_bytes("compiler", 8);
    key_to_text(&compiler, hex);
    cr_assert(matches(store_filter_all()));
    cr_assert(matches(FILTER(.owner = 1000)) && !matches(FILTER(.owner = 1001)));
    cr_assert(matches(FILTER(.owner = 1, .maker = 1000)), "either of the two does");
    cr_assert(!matches(FILTER(.owner = 1, .maker = 1)));
    cr_assert(matches(FILTER(.kind = STORE_CUBIN)) && !matches(FILTER(.kind = STORE_OTHER)));
    cr_assert(matches(FILTER(.pinned = 1)) && !matches(FILTER(.pinned = 0)));
    cr_assert(matches(FILTER(.hardware = view_of_text("sm_90"))));
    cr_assert(!matches(FILTER(.hardware = view_of_text("sm_9"))), "exact");
    cr_assert(!matches(FILTER(.hardware = view_of_text("sm_90 N"))), "longer");
    cr_assert(matches(FILTER(.compiler = view_of_text("13.0"))));
    cr_assert(matches(FILTER(.compiler = {hex, 7})), "a digest's first digits");
    cr_assert(!matches(FILTER(.compiler = view_of_text("12.9"))));
    cr_assert(matches(FILTER(.text = view_of_text(".cu"))) &&
              !matches(FILTER(.text = view_of_text(".ptx"))));
    cr_assert(matches(FILTER(.min_bytes = 5)) && !matches(FILTER(.min_bytes = 6)));
    cr_assert(matches(FILTER(.max_bytes = 5)) && !matches(FILTER(.max_bytes = 4)));
    cr_assert(matches(FILTER(.min_age_ms = 1001)) && !matches(FILTER(.min_age_ms = 1002)));
    cr_assert(matches(FILTER(.min_idle_ms = 1000)) && !matches(FILTER(.min_idle_ms = 1001)));
    cr_assert(matches(FILTER(.min_hits = 3)) && !matches(FILTER(.min_hits = 4)));
    cr_assert(matches(FILTER(.max_hits = 3)) && !matches(FILTER(.max_hits = 2)));
}
