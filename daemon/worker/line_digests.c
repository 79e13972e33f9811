/* SPDX-License-Identifier: Apache-2.0 */
/*
 * line_digests.c - makes the marks of a text, and finds the first mark that differs between two
 * texts. line_digests.h has a drawing. The worker makes the marks of headers, and the history
 * compares them.
 *
 * Thread: any; no state.
 */
#define XXH_INLINE_ALL
#include "daemon/worker/line_digests.h"

#include <assert.h>
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

bool line_digests_of(struct view text, struct line_digests *out)
{
    uint32_t n = text.len ? count(text) : 0, step = 1;
    while (step < STEP_MAX && n / step > LINE_DIGESTS_MARKS)
        step *= 2;
    if (n / step > LINE_DIGESTS_MARKS)
        return false;
    *out = (struct line_digests){.n = n, .step = (uint16_t)step, .n_marks = (uint16_t)(n / step)};
    const char *at = text.data, *end = at + text.len;
    uint64_t digest = 0; /* line by line, so that marks of different steps compare */
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

/* Returns the mark after `line` lines. Both texts have a mark there. */
static uint16_t mark_at(const struct line_digests *l, uint32_t line)
{
    assert(line && line % l->step == 0 && line / l->step <= l->n_marks);
    return l->marks[line / l->step - 1];
}

bool line_digests_differ(const struct line_digests *a, const struct line_digests *b,
                         uint32_t *out_first, uint32_t *out_last)
{
    assert(a->step && b->step);
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

void line_digests_write(const struct line_digests *lines, struct writer *out)
{
    writer_u32(out, lines->n);
    writer_u16(out, lines->step);
    for (unsigned i = 0; i < lines->n_marks; i++)
        writer_u16(out, lines->marks[i]);
}

bool line_digests_read(struct view bytes, struct line_digests *out)
{
    struct reader r = reader_over(bytes.data, bytes.len);
    struct line_digests l = {.n = reader_u32(&r), .step = reader_u16(&r)};
    bool is_power = l.step && !(l.step & (l.step - 1));
    if (r.failed || !is_power || l.n / l.step > LINE_DIGESTS_MARKS ||
        bytes.len != HEAD_LEN + 2 * (size_t)(l.n / l.step))
        return false;
    l.n_marks = (uint16_t)(l.n / l.step);
    for (unsigned i = 0; i < l.n_marks; i++)
        l.marks[i] = reader_u16(&r);
    *out = l;
    return true;
}
