/* SPDX-License-Identifier: Apache-2.0 */
/* cuda.c - form.h, and a form of its own text is that text. */
#define FORM CANON_CUDA
#define FORM_HAS_CHECK
#include "tests/fuzz/form.h"

#include "keygen/cuda/cuda.h"

/* Unless what came together is a trigraph; marks of lines are white space. */
static void check(const void *data, size_t size, const struct canon_result *result,
                  const struct writer *text)
{
    struct cuda_scan scan = {0};
    struct canon_result again;
    cuda_scan(data, size, &scan);
    if (result->exact || cuda_scan_uses_line(&scan))
        return;
    if (form(text->data, text->len, &again, NULL) != 0 ||
        (!again.exact && !key_equal(&result->key, &again.key)))
        abort();
}
