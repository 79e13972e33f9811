/* SPDX-License-Identifier: Apache-2.0 */
/* tier_url.c - the parser of a tier's URL over any text: each part that it accepts is bounded. */
#include <assert.h>
#include <string.h>

#include "tier/url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[2048], why[200] = "";
    static struct tier_url url;
    if (size >= sizeof text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    if (!tier_url_parse(text, &url, why, sizeof why)) {
        assert(*why);
        return 0;
    }
    assert(url.host[0]);
    assert(!strchr(text, '@') || url.user[0]);
    assert(!strstr(url.path, "//") && url.path[0] != '/');
    return 0;
}
