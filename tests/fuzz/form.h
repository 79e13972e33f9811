/* SPDX-License-Identifier: Apache-2.0 */
/* form.h - the fuzz target of one canonical form: any bytes give a key or an error, and the same key
 * every time. The including file says which: #define FORM, #include this; and, with FORM_HAS_CHECK,
 * what else must hold of a key that was given. */
#include <stdlib.h>

#include "keygen/canon/canon.h"

static int form(const void *data, size_t size, struct canon_result *out, struct writer *text)
{
    struct canon_input input = {.data = data, .len = size, .kind = FORM, .drops_debug_info = true};
    struct err e = {0};
    return canon_key(&input, out, text, &e);
}

#ifdef FORM_HAS_CHECK
/* Aborts if it does not hold. `text` is the canonical text. */
static void check(const void *data, size_t size, const struct canon_result *result,
                  const struct writer *text);
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct canon_result first, second;
    struct writer text;

    writer_init(&text, 0);
    int rc = form(data, size, &first, &text);
    if (form(data, size, &second, NULL) != rc)
        abort();
    if (rc == 0 && !key_equal(&first.key, &second.key))
        abort();
#ifdef FORM_HAS_CHECK
    if (rc == 0)
        check(data, size, &first, &text);
#endif
    writer_close(&text);
    return 0;
}
