/* SPDX-License-Identifier: Apache-2.0 */
/* test_json_writer.c - JSON of any bytes: commas, escapes, and UTF-8 that always parses. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/json_writer.h"

/* Writes one string of these bytes; the text is the caller's. */
static char *string_of(const char *bytes, size_t len)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    struct json j = {.out = out};
    json_open(&j, '[');
    json_bytes(&j, bytes, len);
    json_close(&j, ']');
    fclose(out);
    return text;
}

static void expect(const char *bytes, const char *json)
{
    char *text = string_of(bytes, strlen(bytes));
    cr_expect_str_eq(text, json);
    free(text);
}

Test(json_writer, commas_and_colons_are_added)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    struct json j = {.out = out};
    json_open(&j, '{');
    json_key(&j, "a");
    json_open(&j, '[');
    json_u64(&j, UINT64_MAX);
    json_f64(&j, NAN);
    json_bool(&j, true);
    json_close(&j, ']');
    json_key(&j, "b");
    json_null(&j);
    json_close(&j, '}');
    fclose(out);
    cr_expect_str_eq(text, "{\"schema\":1,\"a\":[18446744073709551615,null,true],\"b\":null}\n");
    free(text);
}

Test(json_writer, control_characters_and_quotes_are_escaped)
{
    expect("a\"b\\c\n\x01", "[\"a\\\"b\\\\c\\n\\u0001\"]\n");
}

Test(json_writer, one_replacement_for_each_part_that_is_ill_formed)
{
    expect("\xc3\xa4", "[\"\xc3\xa4\"]\n");
    expect("\xff", "[\"\\ufffd\"]\n");
    expect("\xe2\x82", "[\"\\ufffd\"]\n");                   /* cut short */
    expect("\xed\xa0\x80", "[\"\\ufffd\\ufffd\\ufffd\"]\n"); /* a surrogate */
    expect("\xf4\x90\x80\x80x", "[\"\\ufffd\\ufffd\\ufffd\\ufffdx\"]\n");
}
