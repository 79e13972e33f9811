/* SPDX-License-Identifier: Apache-2.0 */
/* bundle.c - reads any bytes as a bundle. A bundle that can be read must be written as the same bytes. */
#include <stdlib.h>
#include <string.h>

#include "client/wire/bundle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bundle_section sections[BUNDLE_SECTIONS_MAX];
    struct err e;
    size_t n;
    if (bundle_read(data, size, sections, &n, &e))
        return 0;
    struct writer again;
    writer_init(&again, 0);
    bundle_write(&again, sections, n);
    if (again.failed || again.len != size || memcmp(again.data, data, size) != 0)
        abort();
    writer_close(&again);
    struct view lowered = bundle_find(sections, n, BUNDLE_LOWERED), expression, name;
    struct reader list = reader_over(lowered.data, lowered.len);
    while (bundle_lowered_next(&list, &expression, &name))
        ;
    return 0;
}
