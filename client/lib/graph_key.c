/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph_key.c - libwarm's warm_graph_key: the canonical key of a graph, for clients that make the
 * artifact themselves. It checks the arguments and calls keygen/canon; warm.h has the contract.
 *
 * Thread: any; no state.
 */
#include "client/lib/warm.h"

#include "keygen/canon/canon.h"

_Static_assert(WARM_KEY_TEXT == 33, "what warm.h says of out_key");

int warm_graph_key(const char *kind, const void *data, size_t len, char out_key[33])
{
    struct canon_input input = {.data = data, .len = len, .kind = CANON_AUTO};
    struct canon_result result;
    if (!data || (kind && !canon_kind_from_name(kind, &input.kind)))
        return WARM_EINVALID;
    int code = canon_key(&input, &result, NULL, NULL);
    if (code)
        return code;
    key_to_text(&result.key, out_key);
    return result.exact ? WARM_EXACT : 0;
}
