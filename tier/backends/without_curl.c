/* SPDX-License-Identifier: Apache-2.0 */
/*
 * without_curl.c - stands in for the backends over HTTP if libcurl was not there when warm-tier was built. The Makefile
 * takes this file or those.
 *
 * Thread: any.
 */
#include <stdio.h>

#include "tier/backends/backends.h"

struct tier_backend *tier_web_new(uv_loop_t *loop, const struct tier_settings *settings, char *why,
                                  size_t why_size)
{
    return tier_s3_new(loop, settings, why, why_size);
}

struct tier_backend *tier_s3_new(uv_loop_t *loop, const struct tier_settings *settings, char *why,
                                 size_t why_size)
{
    (void)loop;
    (void)settings;
    snprintf(why, why_size,
             "this warm-tier was built without libcurl, so it has no s3://, http:// or https://");
    return NULL;
}
