/* SPDX-License-Identifier: Apache-2.0 */
/*
 * service_settings.h - what warm-tier reads by itself as a system's service: those settings of warmd.conf that
 * the network needs. warmd, which may not reach the network, cannot send its credentials elsewhere.
 *
 *     tier, tier_credentials, tier_ca        all other keys are warmd's
 *
 * Thread: any. Memory: nothing is owned.
 */
#ifndef WARM_TIER_SERVICE_SETTINGS_H
#define WARM_TIER_SERVICE_SETTINGS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct service_settings {
    char url[PATH_MAX], credentials[PATH_MAX], ca[PATH_MAX]; /* "" is none */
};

/* Reads them from warmd's configuration. False and one line in `why` if it cannot be read or names no tier. */
bool service_settings_read(const char *path, struct service_settings *out, char *why,
                           size_t why_size);

#endif
