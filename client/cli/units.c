/* SPDX-License-Identifier: Apache-2.0 */
/*
 * units.c - prints sizes and times for people, and reads the sizes of options. The commands call it.
 *
 * Thread: any; no state.
 */
#include "client/cli/units.h"

#include <assert.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "keygen/quantity.h"

struct unit {
    char letter;
    uint64_t factor;
};

static const struct unit sizes[] = {
    {'K', 1ull << 10}, {'M', 1ull << 20}, {'G', 1ull << 30}, {'T', 1ull << 40}};
static const struct unit spans[] = {
    {'s', 1000}, {'m', 60 * 1000}, {'h', 3600 * 1000}, {'d', 24 * 3600 * 1000ull}};
#define N_UNITS 4

bool units_parse_size(const char *text, uint64_t *out_bytes)
{
    assert(text && out_bytes);
    bool is_bare;
    uint64_t bytes;
    if (!quantity_size(text, &bytes, &is_bare) || is_bare)
        return false;
    *out_bytes = bytes;
    return true;
}

void units_size_text(uint64_t bytes, char out[UNITS_TEXT])
{
    size_t i = N_UNITS;
    while (i > 0 && bytes < sizes[i - 1].factor)
        i--;
    if (i == 0)
        snprintf(out, UNITS_TEXT, "%" PRIu64 " B", bytes);
    else
        snprintf(out, UNITS_TEXT, "%.*f %ciB",
                 bytes < 10 * sizes[i - 1].factor && bytes % sizes[i - 1].factor,
                 (double)bytes / (double)sizes[i - 1].factor, sizes[i - 1].letter);
}

void units_age_text(uint64_t ms, char out[UNITS_TEXT])
{
    size_t i = N_UNITS - 1;
    while (i > 0 && ms < spans[i].factor)
        i--;
    snprintf(out, UNITS_TEXT, "%" PRIu64 "%c", ms / spans[i].factor, spans[i].letter);
}

void units_span_text(uint64_t ms, char out[UNITS_TEXT])
{
    static const char *const names[] = {"s", "min", "h", "d"};
    size_t i = N_UNITS - 1;
    while (i > 0 && ms < spans[i].factor)
        i--;
    uint64_t whole = ms / spans[i].factor;
    uint64_t rest = i ? ms % spans[i].factor / spans[i - 1].factor : 0;
    if (i == 0 && ms < 10000)
        snprintf(out, UNITS_TEXT, "%.2f s", (double)ms / 1e3);
    else if (rest)
        snprintf(out, UNITS_TEXT, "%" PRIu64 " %s %" PRIu64 " %s", whole, names[i], rest,
                 names[i - 1]);
    else
        snprintf(out, UNITS_TEXT, "%" PRIu64 " %s", whole, names[i]);
}

void units_time_text(uint64_t ms, char out[UNITS_TEXT])
{
    time_t s = (time_t)(ms / 1000);
    struct tm tm;
    localtime_r(&s, &tm);
    strftime(out, UNITS_TEXT, "%Y-%m-%d %H:%M:%S %z", &tm);
}
