/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_graph_short.c - any bytes as a graph of each kind: what is hashed stands for the canonical text,
 * and of the bytes with one of them changed, which the first two say, keys are equal if and only if
 * texts are.
 */
#include "tests/proof/short_text.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_kind(enum canon_kind kind, uint8_t *data, size_t size, size_t at, uint8_t change)
{
    struct canon_input input = {.data = data, .len = size, .kind = kind};
    struct short_text form, other;
    struct err e;
    int rc = short_text_of(&input, &form, &e);
    if (rc == 0 && form.wrong)
        abort();
    data[at] ^= change;
    int changed_rc = short_text_of(&input, &other, &e);
    data[at] ^= change;
    if (changed_rc == 0 && other.wrong)
        abort();
    if (rc == 0 && changed_rc == 0 && !short_text_agree(&form, &other))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum canon_kind kinds[] = {CANON_MLIR, CANON_HLO, CANON_MLIR_BYTECODE};
    if (size < 4)
        return 0;
    size_t len = size - 3;
    uint8_t *copy = malloc(len);
    if (!copy)
        return 0;
    memcpy(copy, data + 3, len);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        try_kind(kinds[i], copy, len, (data[0] | (size_t)data[1] << 8) % len, data[2] & 15);
    free(copy);
    return 0;
}
