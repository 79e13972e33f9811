/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_cuda.c - any bytes as CUDA C++: a key or an error, and the same key every time. */
#include <stdlib.h>
#include <string.h>

#include "keygen/canon.h"
#include "keygen/cuda.h"

static int form(const uint8_t *data, size_t size, struct canon_result *out, struct writer *text)
{
    struct canon_input input = {.data = data, .len = size, .kind = CANON_CUDA};
    struct err e = {0};
    return canon_key(&input, out, text, &e);
}

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
    struct cuda_scan scan = {0};
    cuda_scan(data, size, &scan);
    if (rc == 0 && !first.exact && !cuda_scan_uses_line(&scan) &&
        (form(text.data, text.len, &second, NULL) != 0 ||
         (!second.exact && !key_equal(&first.key, &second.key))))
        abort(); /* a form of its own text is that text, unless what came together is a trigraph; line
                    marks are white space to it */
    writer_close(&text);
    return 0;
}
