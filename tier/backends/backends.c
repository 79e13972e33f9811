/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backends.c - chooses the backend by the scheme of the URL. warm-tier's main.c calls it at its start.
 *
 * Thread: loop thread.
 */
#include "tier/backends/backends.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *scheme;
    tier_backend_make *make;
} backends[] = {
    {"file", tier_file_new}, {"redis", tier_redis_new}, {"rediss", tier_redis_new},
    {"s3", tier_s3_new},     {"https", tier_web_new},   {"http", tier_web_new},
};

struct tier_backend *tier_backend_new(uv_loop_t *loop, const struct tier_settings *settings,
                                      char *why, size_t why_size)
{
    const char *end = strstr(settings->url, "://");
    size_t len = end ? (size_t)(end - settings->url) : 0;
    char known[300];
    for (size_t i = 0; len && i < sizeof backends / sizeof *backends; i++)
        if (strlen(backends[i].scheme) == len &&
            strncasecmp(backends[i].scheme, settings->url, len) == 0)
            return backends[i].make(loop, settings, why, why_size);
    *known = '\0'; /* the list of schemes, for a person */
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++) {
        size_t at = strlen(known);
        snprintf(known + at, sizeof known - at, "%s%s://", i ? ", " : "", backends[i].scheme);
    }
    if (len && len <= 16)
        snprintf(why, why_size, "no backend serves %.*s://: use one of %s", (int)len, settings->url,
                 known);
    else
        snprintf(why, why_size, "the URL does not begin with one of %s", known);
    return NULL;
}
