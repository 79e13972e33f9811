/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lines.c - decides in which line a header has changed.
 *
 * At the miss of a compile the old content of a header is gone, and the new one has not been seen. So the
 * digests of its lines are kept for each header that a compile read (daemon/worker/line_digests.h). When the
 * compile of such a miss is done, those of both contents are known. The table is direct-mapped: a new header takes
 * its place from an old one.
 *
 * bookkeeping.c calls it, by history.h.
 *
 * Thread: loop thread.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/history/internal.h"

static struct known_lines *place_of(struct history *h, uint64_t digest)
{
    return &h->lines[digest % HISTORY_LINES];
}

/* Writes a digest as the first 16 digits of its text. */
static uint64_t start_of(const struct proof *sha256)
{
    uint64_t digest = 0;
    for (unsigned i = 0; i < sizeof digest; i++)
        digest = digest << 8 | sha256->bytes[i];
    return digest;
}

void history_lines(struct history *h, const struct proof *content, struct view lines)
{
    struct known_lines known = {.digest = start_of(content)};
    if (!line_digests_read(lines, &known.lines))
        return;
    *place_of(h, known.digest) = known;
    h->dirty = true;
}

/* Finds the lines of a content by 16 hexadecimal digits of its digest; NULL if they are not
 * known. */
static const struct line_digests *lines_find(struct history *h, struct view text)
{
    char digits[17] = "", *end;
    if (text.len != sizeof digits - 1)
        return NULL;
    memcpy(digits, text.data, text.len);
    uint64_t digest = strtoull(digits, &end, 16);
    const struct known_lines *known = place_of(h, digest);
    return !*end && known->digest == digest && known->lines.step ? &known->lines : NULL;
}

/* Turns "header h.h" into "header h.h line 7", or "lines 7-8". False if the lines are not known. */
static bool add_line(struct history *h, const struct recipe_change *change,
                     char out[RECIPE_TEXT_MAX + 1])
{
    const struct line_digests *old = lines_find(h, change->old), *now = lines_find(h, change->now);
    uint32_t first, last;
    if (!old || !now || !line_digests_differ(old, now, &first, &last))
        return false;
    int len = snprintf(out, RECIPE_TEXT_MAX + 1, "%.*s line%s %u", (int)change->part.len,
                       (const char *)change->part.data, first == last ? "" : "s", first);
    if (first != last && len <= (int)RECIPE_TEXT_MAX)
        len += snprintf(out + len, RECIPE_TEXT_MAX + 1 - (size_t)len, "-%u", last);
    return len <= (int)RECIPE_TEXT_MAX;
}

void history_locate(struct history *h, uint64_t miss)
{
    struct miss *m = history_miss_at(h, miss);
    struct writer changes;
    if (!m || !m->n_changes)
        return;
    assert(m->n_changes <= HISTORY_CHANGES_MAX && m->changes.len);
    writer_init(&changes, m->changes.max_len);
    struct reader r = reader_over(m->changes.data, m->changes.len);
    while (r.len && !r.failed) {
        char part[RECIPE_TEXT_MAX + 1];
        struct recipe_change c = {.part = reader_blob(&r, RECIPE_TEXT_MAX)};
        c.old = reader_blob(&r, RECIPE_TEXT_MAX);
        c.now = reader_blob(&r, RECIPE_TEXT_MAX);
        if (add_line(h, &c, part))
            c.part = view_of_text(part);
        writer_blob(&changes, c.part.data, c.part.len);
        writer_blob(&changes, c.old.data, c.old.len);
        writer_blob(&changes, c.now.data, c.now.len);
    }
    if (r.failed || changes.failed) {
        writer_close(&changes);
        return;
    }
    writer_close(&m->changes);
    m->changes = changes;
    h->dirty = true;
}
