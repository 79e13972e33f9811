/* SPDX-License-Identifier: Apache-2.0 */
/*
 * filter.c - decides which entries `warm ls`, `evict`, `export` and others choose: reads their
 * options into a filter, which the daemon applies.
 *
 * Thread: main.
 */
#include "client/cli/filter.h"

#include <assert.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/rows.h"
#include "keygen/quantity.h"

struct wire_filter filter_all(void)
{
    return (struct wire_filter){.uid = -1, .kind = -1, .pinned = -1, .max_hits = UINT32_MAX};
}

bool filter_take_text(const char *value, void *to)
{
    struct view text = view_of_text(value);
    bool fits = text.len && text.len <= WIRE_NAME_MAX;
    if (fits)
        *(struct view *)to = text;
    return fits;
}

bool filter_take_kind(const char *value, void *to)
{
    uint8_t kind;
    bool known = wire_kind_from_name(value, &kind);
    if (known)
        *(int32_t *)to = kind;
    return known;
}

/* Finds the uid of a name in /etc/passwd, as getpwnam does, without the libraries that it loads. */
static bool find_user(const char *name, uint64_t *out_uid)
{
    FILE *file = fopen("/etc/passwd", "re");
    const struct passwd *user = NULL;
    while (file && (user = fgetpwent(file)) && strcmp(user->pw_name, name) != 0)
        ;
    if (user)
        *out_uid = user->pw_uid;
    if (file)
        fclose(file);
    return user;
}

bool filter_take_user(const char *value, void *to)
{
    uint64_t uid;
    if (!quantity_count(value, UINT32_MAX, &uid) && !find_user(value, &uid))
        return false;
    *(int64_t *)to = (int64_t)uid;
    return true;
}

bool filter_take_hits(const char *value, void *to)
{
    uint64_t n;
    if (!quantity_count(value, UINT32_MAX, &n))
        return false;
    *(uint32_t *)to = (uint32_t)n;
    return true;
}

bool filter_take_pinned(const char *value, void *to)
{
    (void)value;
    *(int32_t *)to = 1;
    return true;
}

bool filter_take_unpinned(const char *value, void *to)
{
    (void)value;
    *(int32_t *)to = 0;
    return true;
}

bool filter_take_since(const char *value, void *to)
{
    uint64_t span_ms, now_ms = rows_now_ms();
    if (!quantity_span(value, &span_ms))
        return false;
    *(uint64_t *)to = now_ms > span_ms ? now_ms - span_ms : 1;
    return true;
}

bool filter_is_all(const struct wire_filter *f)
{
    assert(f);
    return f->uid < 0 && f->kind < 0 && f->pinned < 0 && !f->min_bytes && !f->max_bytes &&
           !f->min_age_ms && !f->min_idle_ms && !f->min_hits && f->max_hits == UINT32_MAX &&
           !f->hardware.len && !f->compiler.len && !f->text.len;
}
