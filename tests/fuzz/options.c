/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - parses any lines as a command line of each tool. The result is fields or an error. The options that
 * are passed on to the tool must parse to the same fields. */
#include <stdlib.h>
#include <string.h>

#include "keygen/cuda/options.h"

#define MAX_ARGS 64

static struct key digest(const struct options *o)
{
    struct key_builder b;
    struct key key;
    struct proof proof;
    key_begin(&b, "fuzz");
    key_add_text(&b, 1, o->hardware);
    options_add(o, &b, 2);
    key_end(&b, &key, &proof);
    return key;
}

static void try_tool(enum options_tool tool, const struct view *args, size_t n)
{
    struct options first, again;
    struct err e;

    if (options_parse(tool, 1205, args, n, &first, &e) != 0)
        return;
    if (options_parse(tool, 1205, first.pass, first.n_pass, &again, &e) != 0)
        abort();
    struct key a = digest(&first), b = digest(&again);
    if (!key_equal(&a, &b))
        abort();
    options_close(&again);
    options_close(&first);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct view args[MAX_ARGS];
    size_t n = 0;
    for (size_t at = 0; at < size && n < MAX_ARGS;) {
        const uint8_t *nl = memchr(data + at, '\n', size - at);
        size_t len = nl != NULL ? (size_t)(nl - data) - at : size - at;
        args[n++] = (struct view){data + at, len};
        at += len + 1;
    }
    for (int tool = OPTIONS_NVRTC; tool <= OPTIONS_NVCC; tool++)
        try_tool((enum options_tool)tool, args, n);
    return 0;
}
