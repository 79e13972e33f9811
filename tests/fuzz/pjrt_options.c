/* SPDX-License-Identifier: Apache-2.0 */
/* pjrt_options.c - compile options of PJRT from any bytes: the order of top-level fields of
 * different numbers never counts. */
#include <assert.h>

#include "client/preload/pjrt/compile_options.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int key_of(const uint8_t *data, size_t size, struct key *out)
{
    struct key_builder b;
    struct proof unused;
    key_begin(&b, "fuzz");
    int code = pjrt_options_add(&b, data, size);
    key_end(&b, out, &unused);
    return code;
}

/* Adds field 1000, varint 1, before or after the message. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t field[] = {0xc0, 0x3e, 1};
    struct key plain, before, after;
    uint8_t *more = malloc(size + sizeof field);
    int code = key_of(data, size, &plain);
    memcpy(more, field, sizeof field);
    if (size)
        memcpy(more + sizeof field, data, size);
    assert(key_of(more, size + sizeof field, &before) == code);
    if (size)
        memcpy(more, data, size);
    memcpy(more + size, field, sizeof field);
    if (code == 0) {
        assert(key_of(more, size + sizeof field, &after) == 0);
        assert(!key_equal(&plain, &after));
        struct field *fields;
        size_t n, of_that_number = 0;
        assert(split((struct view){data, size}, &compile_options, &fields, &n) == 0);
        for (size_t i = 0; i < n; i++)
            of_that_number += fields[i].number == 1000;
        free(fields);
        assert(of_that_number || key_equal(&before, &after));
    }
    free(more);
    return 0;
}
