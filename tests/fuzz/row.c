/* SPDX-License-Identifier: Apache-2.0 */
/*
 * row.c - a row that can be read is written again as the same bytes, but for the reserved ones.
 * The checksum would keep nearly all input from the parser, so it is also put right first.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "store/row.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_row(const uint8_t *data, size_t size)
{
    struct store_row row, again;
    if (row_decode(data, size, &row) != 0)
        return;
    assert(row.len <= STORE_VALUE_MAX && row.is_blob == (row.len > STORE_INLINE_MAX));
    assert(row_encoded_len(&row) <= ROW_MAX);
    struct writer w;
    writer_init(&w, 0);
    row_encode(&row, &w);
    assert(!w.failed && w.len == row_encoded_len(&row));
    assert(row_decode(w.data, w.len, &again) == 0);
    assert(again.len == row.len && again.hits == row.hits && again.label.len == row.label.len);
    writer_close(&w);

    struct store_filter f = store_filter_all();
    assert(store_filter_match(&f, &row, row.accessed_ms));
    f.text = row.name.len ? row.name : row.label;
    assert(store_filter_match(&f, &row, row.accessed_ms));
    row_touch(&row, 3, row.accessed_ms + STORE_HEAT_HALF_LIFE_MS);
    assert(row.heat >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct store_row row;
    uint64_t numbers[3];
    row_salvage(data, size, &row);
    numbers_decode(data, size, numbers, 3);
    check_row(data, size);
    if (size < 8)
        return 0;
    uint8_t *fixed = malloc(size);
    if (!fixed)
        return 0;
    memcpy(fixed, data, size);
    uint64_t sum = row_checksum(fixed, size - 8);
    for (size_t i = 0; i < 8; i++)
        fixed[size - 8 + i] = (uint8_t)(sum >> (8 * i));
    check_row(fixed, size);
    free(fixed);
    return 0;
}
