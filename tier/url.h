/* SPDX-License-Identifier: Apache-2.0 */
/*
 * url.h - the URL of a tier, in parts.
 *
 *     SCHEME://[USER@]HOST[:PORT][/PATH][?name=value&...]
 *
 * Nothing is escaped in it: each part has an alphabet of its own, and another byte is an error. A URL stands in
 * configurations and logs, so a secret in it is refused; the line that says so does not repeat it.
 *
 * Thread: any. Memory: a tier_url borrows nothing.
 */
#ifndef WARM_TIER_URL_H
#define WARM_TIER_URL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TIER_URL_OPTIONS_MAX = 8 };

struct tier_url {
    char scheme[16]; /* lower case */
    char user[64];   /* or "" */
    char host[256];  /* without the brackets of an IPv6 address */
    uint16_t port;   /* 0: not given */
    char path[512];  /* without slashes at its ends; "": none */
    struct {
        char name[32], value[256];
    } options[TIER_URL_OPTIONS_MAX];
    unsigned n_options;
};

/* Parses `text`. False with one line in `why` if it is malformed or has a secret; `out` is undefined then. */
bool tier_url_parse(const char *text, struct tier_url *out, char *why, size_t why_size);

/* Returns the value of an option, or NULL if it is not given. */
const char *tier_url_option(const struct tier_url *url, const char *name);

/* True if each option is in `known`, a list that NULL ends; else false with one line in `why`. */
bool tier_url_check_options(const struct tier_url *url, const char *const *known, char *why,
                            size_t why_size);

#endif
