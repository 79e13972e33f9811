/* SPDX-License-Identifier: Apache-2.0 */
/* test_recording.c - the file of `warm record`: what is written is read, and nothing else is. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/import/recording.h"

static void add(struct writer *w, const char *name, const char *label)
{
    struct wire_row row = {.kind = WIRE_KIND_CUBIN,
                           .len = 4195,
                           .cost_ms = 55,
                           .key = key_of_bytes(name, strlen(name)),
                           .name = view_of_text(name),
                           .label = view_of_text(label)};
    recording_add(w, &row);
}

static int read_text(const char *text, struct recorded **keys, size_t *n, struct err *e)
{
    return recording_read(text, strlen(text), keys, n, e);
}

Test(recording, keys_come_back_in_their_order)
{
    struct writer w;
    struct recorded *keys;
    struct key one = key_of_bytes("one", 3), two = key_of_bytes("two", 3);
    struct err e = {0};
    size_t n;
    writer_init(&w, 0);
    recording_begin(&w);
    add(&w, "two", "k.cu");
    add(&w, "one", "");
    add(&w, "two", "k.cu");
    cr_assert(!w.failed);
    cr_assert_eq(recording_read(w.data, w.len, &keys, &n, &e), 0, "%s", e.text);
    cr_assert_eq(n, 3);
    cr_expect(key_equal(&keys[0].key, &two) && key_equal(&keys[1].key, &one) &&
              key_equal(&keys[2].key, &two));
    cr_expect(keys[1].how == 'n' && keys[1].hex.len == 6 &&
                  memcmp(keys[1].hex.data, "6f6e65", 6) == 0,
              "how to ask for it: its name");
    cr_expect_eq(keys[1].bytes, 4195);
    free(keys);
    writer_close(&w);
}

Test(recording, a_label_with_a_line_break_is_one_line)
{
    struct writer w;
    struct recorded *keys;
    size_t n;
    writer_init(&w, 0);
    recording_begin(&w);
    add(&w, "one", "a\nb\033c");
    cr_assert_eq(recording_read(w.data, w.len, &keys, &n, NULL), 0);
    cr_expect_eq(n, 1);
    cr_expect_not_null(memmem(w.data, w.len, " a?b?c\n", 7));
    free(keys);
    writer_close(&w);
}

Test(recording, a_line_without_a_key_is_named)
{
    struct recorded *keys;
    struct err e = {0};
    size_t n;
    cr_expect_eq(
        read_text("warm record 1\n44a1d0e79c18a9560cd344f1095e8acc\nno key\n", &keys, &n, &e),
        WARM_EMALFORMED);
    cr_expect_not_null(strstr(e.text, "line 3"), "%s", e.text);
    cr_expect_eq(read_text("warm record 3\n", &keys, &n, &e), WARM_EMALFORMED);
    cr_expect_eq(read_text("", &keys, &n, &e), WARM_EMALFORMED);
    cr_expect_eq(read_text("warm record 1\n44a1d0e79c18a9560cd344f1095e8ac", &keys, &n, &e),
                 WARM_EMALFORMED, "a digit is missing");
}

Test(recording, an_entry_of_an_archive_has_the_key_of_its_name_or_its_address)
{
    struct archive_entry named = {.name = view_of_text("pt2:x"), .hardware = view_of_text("sm_90")};
    struct key want = key_of_bytes("pt2:x", 5), got = recording_key_of(&named);
    cr_expect(key_equal(&got, &want));
    struct archive_entry made = {.is_made = true, .hardware = view_of_text("sm_90")};
    struct archive_entry other = made;
    other.hardware = view_of_text("sm_80");
    struct key a = recording_key_of(&made), b = recording_key_of(&other);
    cr_expect(!key_equal(&a, &b), "the hardware is a part of an address");
}
