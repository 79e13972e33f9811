/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lines.c - makes the marks of a text and finds the first that differs between two texts: lines.h has a
 * drawing. The worker makes the marks of headers, and the history compares them.
 *
 * Thread: any; no state.
 */
#define XXH_INLINE_ALL
#include "keygen/lines.h"

#include <string.h>
#include <xxhash.h>

#define STEP_MAX 32768u
#define HEAD_LEN 6u /* bytes before the marks */

static uint32_t count(struct view text)
{
    const char *at = text.data, *end = at + text.len;
    uint32_t n = 0;
    while (at < end && n < UINT32_MAX) {
        const char *feed = memchr(at, '\n', (size_t)(end - at));
        at = feed ? feed + 1 : end;
        n++;
    }
    return n;
}

bool lines_of(struct view text, struct lines *out)
{
    uint32_t n = text.len ? count(text) : 0, step = 1;
    while (step < STEP_MAX && n / step > LINES_MARKS)
        step *= 2;
    if (n / step > LINES_MARKS)
        return false;
    *out = (struct lines){.n = n, .step = (uint16_t)step, .n_marks = (uint16_t)(n / step)};
    const char *at = text.data, *end = at + text.len;
    uint64_t digest = 0; /* line by line, so that marks at other steps can be compared */
    for (uint32_t line = 1; line <= n; line++) {
        const char *feed = memchr(at, '\n', (size_t)(end - at));
        const char *next = feed ? feed + 1 : end;
        digest = XXH3_64bits_withSeed(at, (size_t)(next - at), digest);
        if (line % step == 0)
            out->marks[line / step - 1] = (uint16_t)digest;
        at = next;
    }
    return true;
}

/* The mark behind so many lines, which both have. */
static uint16_t mark_at(const struct lines *l, uint32_t line)
{
    return l->marks[line / l->step - 1];
}

bool lines_differ(const struct lines *a, const struct lines *b, uint32_t *out_first,
                  uint32_t *out_last)
{
    uint32_t step = a->step > b->step ? a->step : b->step, equal = 0;
    uint32_t most = a->n < b->n ? a->n : b->n, longest = a->n > b->n ? a->n : b->n;
    while (equal + step <= most && mark_at(a, equal + step) == mark_at(b, equal + step))
        equal += step;
    if (equal == longest)
        return false;
    *out_first = equal + 1;
    *out_last = equal + step < longest ? equal + step : longest;
    return true;
}

void lines_write(const struct lines *lines, struct writer *out)
{
    writer_u32(out, lines->n);
    writer_u16(out, lines->step);
    for (unsigned i = 0; i < lines->n_marks; i++)
        writer_u16(out, lines->marks[i]);
}

bool lines_read(struct view bytes, struct lines *out)
{
    struct reader r = reader_over(bytes.data, bytes.len);
    struct lines l = {.n = reader_u32(&r), .step = reader_u16(&r)};
    bool is_power = l.step && !(l.step & (l.step - 1));
    if (r.failed || !is_power || l.n / l.step > LINES_MARKS ||
        bytes.len != HEAD_LEN + 2 * (size_t)(l.n / l.step))
        return false;
    l.n_marks = (uint16_t)(l.n / l.step);
    for (unsigned i = 0; i < l.n_marks; i++)
        l.marks[i] = reader_u16(&r);
    *out = l;
    return true;
}
