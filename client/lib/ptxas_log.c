/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ptxas_log.c - decides what kind of message a line of ptxas's log is. Everything that stores such a
 * log asks it: `warm tool`, the worker, the shims of nvJitLink and the driver.
 *
 * Thread: any; no state.
 */
#include "client/lib/ptxas_log.h"

#include <assert.h>
#include <string.h>

static bool skip_text(struct view *line, const char *text)
{
    size_t len = strlen(text);
    if (line->len < len || memcmp(line->data, text, len) != 0)
        return false;
    *line = (struct view){(const char *)line->data + len, line->len - len};
    return true;
}

/* Skips characters of the set, or all others. */
static size_t skip_set(struct view *line, const char *set, bool wanted)
{
    const char *text = line->data;
    size_t n = 0;
    while (n < line->len && text[n] && (strchr(set, text[n]) != NULL) == wanted)
        n++;
    *line = (struct view){text + n, line->len - n};
    return n;
}

static bool skip_info(struct view *line)
{
    return skip_set(line, " ", false) && skip_text(line, " info") &&
           (skip_set(line, " ", true), skip_text(line, ":"));
}

bool ptxas_log_is_info(struct view line) { return skip_info(&line); }

static bool is_time(struct view line)
{
    return skip_info(&line) && skip_text(&line, " Compile time = ") &&
           skip_set(&line, "0123456789.", true) && skip_text(&line, " ms") && line.len == 0;
}

size_t ptxas_log_drop_times(void *log, size_t len)
{
    assert(log || !len);
    if (!len)
        return 0;
    char *from = log, *to = log, *end = from + len;
    while (from < end) {
        char *feed = memchr(from, '\n', (size_t)(end - from));
        size_t n = (size_t)((feed ? feed : end) - from), whole = n + (feed != NULL);
        if (!is_time((struct view){from, n})) {
            memmove(to, from, whole);
            to += whole;
        }
        from += whole;
    }
    return (size_t)(to - (char *)log);
}
