/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph_key.c - libwarm's warm_graph_key and warm_graph_form: the canonical key of a graph, and its text,
 * for clients that make the artifact themselves. It checks the arguments and calls keygen/canon; warm.h has the contract.
 *
 * Thread: any; no state.
 */
#include "client/lib/warm.h"

#include <string.h>

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

long warm_graph_form(const char *kind, const void *data, size_t len, char *out, size_t cap)
{
    struct canon_input input = {.data = data, .len = len, .kind = CANON_AUTO};
    struct canon_result result;
    struct writer text;
    if (!data || (kind && !canon_kind_from_name(kind, &input.kind)))
        return WARM_EINVALID;
    writer_init(&text, 0);
    long code = canon_key(&input, &result, &text, NULL);
    if (!code && text.failed)
        code = WARM_ENOMEM;
    if (!code && text.len && text.len <= cap)
        memcpy(out, text.data, text.len);
    if (!code)
        code = (long)text.len;
    writer_close(&text);
    return code;
}
