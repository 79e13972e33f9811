/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.c - a manifest that can be read is written again as one that says the same. */
#include <assert.h>
#include <stdlib.h>

#include "daemon/headers/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct manifest *m, *again;
    struct err e;
    if (manifest_decode(data, size, &m, &e) != 0)
        return 0;
    struct wire_path_seen *states = calloc(m->n_paths + 1, sizeof *states);
    if (states)
        manifest_match(m, states);
    free(states);
    if (m->n_alternatives) {
        struct writer w;
        writer_init(&w, 0);
        manifest_write(m, m, &w);
        assert(!w.failed);
        assert(manifest_decode(w.data, w.len, &again, &e) == 0);
        assert(key_equal(&again->alternatives->result, &m->alternatives->result));
        manifest_unref(again);
        writer_close(&w);
    }
    manifest_unref(manifest_for(m, NULL));
    return 0;
}
