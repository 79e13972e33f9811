/* SPDX-License-Identifier: Apache-2.0 */
/* test_torch_value.c - what PyTorch puts comes back byte for byte, or is left as it came. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/pytorch/torch_value.h"

/* Takes apart, puts together, compares. Returns the length of the stored form, 0: as it came. */
static size_t round_trip(struct view json, uint32_t *cost_ms)
{
    uint8_t *stored = malloc(json.len + TORCH_VALUE_MAGIC);
    size_t len = torch_value_take_apart(json, stored, cost_ms);
    if (len) {
        cr_assert(torch_value_is_stored(stored, len));
        cr_assert_eq(torch_value_json_len(len, *cost_ms), json.len);
        uint8_t *back = malloc(json.len);
        torch_value_put_together(stored, len, *cost_ms, back);
        cr_assert_arr_eq(back, json.data, json.len);
        free(back);
    }
    free(stored);
    return len;
}

static size_t round_trip_text(const char *s)
{
    uint32_t cost_ms;
    return round_trip(view_of_text(s), &cost_ms);
}

Test(torch_value, pickle_comes_back_with_its_time)
{
    uint32_t cost_ms = 0;
    cr_assert_eq(
        round_trip(view_of_text("{\"data\": \"gASVBQ==\", \"time_taken_ms\": 30499}"), &cost_ms),
        TORCH_VALUE_MAGIC + 4);
    cr_assert_eq(cost_ms, 30499);
    cr_assert(round_trip_text("{\"data\": \"gAQ=\", \"time_taken_ms\": 0}"));
    cr_assert(round_trip_text("{\"data\": \"gASV\", \"time_taken_ms\": 999999999}"));
}

Test(torch_value, every_length_comes_back)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char json[512];
    uint32_t seed = 7;
    for (size_t groups = 1; groups < 80; groups++) {
        size_t n = (size_t)sprintf(json, "{\"data\": \"g");
        for (size_t i = 1; i < 4 * groups; i++) {
            seed = seed * 1664525u + 1013904223u;
            json[n++] = digits[i == 1 ? 0 : seed >> 26];
        }
        sprintf(json + n, "\", \"time_taken_ms\": %zu}", groups);
        cr_assert_eq(round_trip_text(json), TORCH_VALUE_MAGIC + 3 * groups);
    }
}

Test(torch_value, what_would_not_come_back_is_left_alone)
{
    static const char *const others[] = {
        "",
        "{}",
        "garbage",
        "{\"data\": \"\", \"time_taken_ms\": 1}",
        "{\"data\": \"gAQ\", \"time_taken_ms\": 1}",      /* no padding */
        "{\"data\": \"gAR=\", \"time_taken_ms\": 1}",     /* bits that no byte gets */
        "{\"data\": \"gA==gASV\", \"time_taken_ms\": 1}", /* padding inside */
        "{\"data\": \"gA SV\\n\", \"time_taken_ms\": 1}",
        "{\"data\": \"gA-_\", \"time_taken_ms\": 1}",
        "{\"data\": \"aGVsbG8=\", \"time_taken_ms\": 1}", /* no pickle */
        "{\"data\": \"gASV\", \"time_taken_ms\": 01}",
        "{\"data\": \"gASV\", \"time_taken_ms\": -1}",
        "{\"data\": \"gASV\", \"time_taken_ms\": 1.5}",
        "{\"data\": \"gASV\", \"time_taken_ms\": 1000000000}",
        "{\"data\": \"gASV\", \"time_taken_ms\":1}",
        "{\"data\": \"gASV\", \"time_taken_ms\": 1} ",
        "{\"data\": \"gASV\", \"time_taken_ms\": }",
        "{\"data\": \"gASV\"}",
        "{\"time_taken_ms\": 1, \"data\": \"gASV\"}",
        "\", \"time_taken_ms\": 1}",
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        cr_expect_eq(round_trip_text(others[i]), 0, "%s", others[i]);
}

Test(torch_value, cut_values_are_left_alone)
{
    static const char json[] = "{\"data\": \"gASVBQ==\", \"time_taken_ms\": 12}";
    for (size_t len = 0; len < sizeof json - 1; len++) {
        uint32_t cost_ms;
        char *exact = malloc(len + 1); /* so that a sanitizer sees a look beyond */
        memcpy(exact, json, len);
        cr_expect_eq(round_trip((struct view){exact, len}, &cost_ms), 0, "%zu bytes", len);
        free(exact);
    }
}

Test(torch_value, references_of_an_entry_are_found)
{
    char key1[TORCH_VALUE_FX_KEY + 1] = "f", key2[TORCH_VALUE_FX_KEY + 1] = "f";
    memset(key1 + 1, 'a', TORCH_VALUE_FX_KEY - 1);
    memset(key2 + 1, '7', TORCH_VALUE_FX_KEY - 1);
    char entry[400];
    size_t at = 0;
    cr_assert_eq(strlen(key1), TORCH_VALUE_FX_KEY);
    sprintf(entry, "\x8c\x34%s\x94 %s \x8c\x34%.30s \x8c\x34%s", key1, key2, key1, key2);
    struct view found = torch_value_next_fx_key(view_of_text(entry), &at);
    cr_assert(found.len == TORCH_VALUE_FX_KEY && memcmp(found.data, key1, found.len) == 0);
    found = torch_value_next_fx_key(view_of_text(entry), &at);
    cr_assert(found.len == TORCH_VALUE_FX_KEY && memcmp(found.data, key2, found.len) == 0);
    cr_assert_eq(torch_value_next_fx_key(view_of_text(entry), &at).len, 0);
}
