/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph_short.c - takes any bytes as a graph of each kind. The hashed records must stand for the
 * canonical text. Then it changes one byte, chosen by their sum: keys must be equal exactly if texts are.
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
    static const enum canon_kind kinds[] = {CANON_MLIR, CANON_MLIR_BYTECODE};
    uint32_t sum = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < size; i++)
        sum = (sum ^ data[i]) * 16777619u;
    uint8_t *copy = size ? malloc(size) : NULL;
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        try_kind(kinds[i], copy, size, sum % size, (uint8_t)(sum >> 28));
    free(copy);
    return 0;
}
