/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlir.c - any bytes as MLIR text: no crash, the same bytes have the same key, and spaces and a comment
 * in front do not change it.
 */
#include <stdlib.h>
#include <string.h>

#include "keygen/canon/canon.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char front[] = "  // a comment\n";
    struct canon_input input = {.data = data, .len = size, .kind = CANON_MLIR};
    struct canon_result first, second;
    struct err e;
    if (canon_key(&input, &first, NULL, &e))
        return 0;
    char *longer = malloc(size + sizeof front);
    if (!longer)
        return 0;
    memcpy(longer, front, sizeof front - 1);
    if (size)
        memcpy(longer + sizeof front - 1, data, size);
    input.data = longer;
    input.len = size + sizeof front - 1;
    if (canon_key(&input, &second, NULL, &e) ||
        (!first.exact && !key_equal(&first.key, &second.key)))
        abort();
    free(longer);
    return 0;
}
