/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quantity.c - reads sizes, spans and counts. The options of `warm` and the settings of warmd call it, so that a
 * size means the same wherever it is read.
 *
 * Thread: any; no state.
 */
#include "keygen/quantity.h"

#include <assert.h>
#include <string.h>
#include <strings.h>

struct unit {
    const char *name;
    uint64_t factor;
};

/* Reads digits at the start of *text, and moves *text behind them. */
static bool take_digits(const char **text, uint64_t *out)
{
    uint64_t n = 0;
    const char *at = *text;
    if (*at < '0' || *at > '9')
        return false;
    for (; *at >= '0' && *at <= '9'; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (n > (UINT64_MAX - digit) / 10)
            return false;
        n = n * 10 + digit;
    }
    *text = at;
    *out = n;
    return true;
}

bool quantity_count(const char *text, uint64_t max, uint64_t *out)
{
    assert(text && out);
    uint64_t n;
    if (!take_digits(&text, &n) || *text || n > max)
        return false;
    *out = n;
    return true;
}

/* Reads digits and one of `units`, whose list ends with a NULL. */
static bool read_with(const char *text, const struct unit *units, uint64_t *out)
{
    uint64_t n;
    if (!take_digits(&text, &n))
        return false;
    for (; units->name; units++)
        if (strcasecmp(text, units->name) == 0 && n <= UINT64_MAX / units->factor) {
            *out = n * units->factor;
            return true;
        }
    return false;
}

bool quantity_size(const char *text, uint64_t *out_bytes, bool *out_is_bare)
{
    static const struct unit units[] = {{"", 1},
                                        {"B", 1},
                                        {"K", 1ull << 10},
                                        {"KB", 1ull << 10},
                                        {"KiB", 1ull << 10},
                                        {"M", 1ull << 20},
                                        {"MB", 1ull << 20},
                                        {"MiB", 1ull << 20},
                                        {"G", 1ull << 30},
                                        {"GB", 1ull << 30},
                                        {"GiB", 1ull << 30},
                                        {"T", 1ull << 40},
                                        {"TB", 1ull << 40},
                                        {"TiB", 1ull << 40},
                                        {NULL, 0}};
    assert(text && out_bytes && out_is_bare);
    if (!read_with(text, units, out_bytes))
        return false;
    *out_is_bare = *out_bytes && strspn(text, "0123456789") == strlen(text);
    return true;
}

bool quantity_span(const char *text, uint64_t *out_ms)
{
    static const struct unit units[] = {{"ms", 1},      {"s", 1000},     {"", 1000}, {"m", 60000},
                                        {"h", 3600000}, {"d", 86400000}, {NULL, 0}};
    assert(text && out_ms);
    return read_with(text, units, out_ms);
}
