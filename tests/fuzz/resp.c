/* SPDX-License-Identifier: Apache-2.0 */
/* resp.c - the RESP decoder over any bytes, with any number of arguments spilled before. */
#include <assert.h>

#include "daemon/net/resp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct resp_command c;
    struct err e;
    if (size == 0)
        return 0;
    unsigned n_spilled = data[0] % (RESP_SPILLS_MAX + 1);
    data++, size--;
    long took = resp_parse(data, size, n_spilled, &c, &e);
    assert(took <= (long)size && c.n_args <= RESP_ARGS_MAX);
    if (took == 0 && c.spill_len)
        assert(c.spill_at <= size && c.spill_len >= RESP_SPILL_MIN);
    if (took <= 0)
        return 0;
    for (size_t i = 0; i < c.n_args; i++) {
        const struct resp_arg *a = &c.args[i];
        int64_t n;
        assert(!a->data || (a->data >= data && a->data + a->len <= data + size));
        resp_arg_number(a, &n);
        if (i && a->data && a->len < 64 && c.args[0].data && c.args[0].len < 256)
            resp_glob((struct view){a->data, a->len}, (struct view){c.args[0].data, c.args[0].len});
    }
    return 0;
}
