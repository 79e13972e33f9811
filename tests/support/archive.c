/* SPDX-License-Identifier: Apache-2.0 */
/*
 * archive.c - makes a small archive as `warm export` writes it. The suites of archives and of `warm import`
 * call it.
 *
 * Thread: the test's own.
 */
#include "tests/support/archive.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <zstd.h>

#include "client/cli/import/archive.h"
#include "tests/support/support.h"

void archive_write(const char *path, const void *archive, size_t len)
{
    size_t cap = ZSTD_compressBound(len);
    void *packed = malloc(cap);
    size_t n = ZSTD_compress(packed, cap, archive, len, 3);
    cr_assert_not(ZSTD_isError(n));
    file_write(path, packed, n);
    free(packed);
}

struct writer archive_of_two(void)
{
    struct archive_entry a = {.kind = 4, .cost_ms = 7, .name = {"one", 3}, .value = {"first", 5}},
                         b = {
                             .kind = 3, .name = {"two", 3}, .label = {"l", 1}, .value = {"2nd", 3}};
    struct writer w;
    writer_init(&w, 0);
    archive_begin(&w);
    archive_put_head(&w, &a, 1);
    writer_bytes(&w, "first", 5);
    archive_put_padding(&w, 5);
    archive_put_head(&w, &b, 2);
    writer_bytes(&w, "2nd", 3);
    archive_put_padding(&w, 3);
    archive_end(&w, 2);
    return w;
}
