/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backends.h - the constructors of the backends, one for each scheme, for backends.c alone.
 *
 * Thread: loop thread. Memory: the backend is freed by its own `close`.
 */
#ifndef WARM_TIER_BACKENDS_BACKENDS_H
#define WARM_TIER_BACKENDS_BACKENDS_H

#include "tier/backend.h"

/* Makes a backend of the URL in the settings; NULL and one line in `why` if it cannot be one. */
typedef struct tier_backend *tier_backend_make(uv_loop_t *loop,
                                               const struct tier_settings *settings, char *why,
                                               size_t why_size);

tier_backend_make tier_file_new;
tier_backend_make tier_redis_new;
tier_backend_make tier_s3_new; /* this and the next need libcurl at run time */
tier_backend_make tier_web_new;

#endif
