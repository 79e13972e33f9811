/* SPDX-License-Identifier: Apache-2.0 */
/*
 * filter.c - decides which entries `warm ls`, `evict`, `export` and others choose: reads their
 * options into a filter, which the daemon applies.
 *
 * Thread: main.
 */
#include "client/cli/filter.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/units.h"
#include "keygen/quantity.h"

struct wire_filter filter_all(void)
{
    return (struct wire_filter){.uid = -1, .kind = -1, .pinned = -1, .max_hits = UINT32_MAX};
}

static int wrong(const struct command *c, const char *what)
{
    cli_usage(c, "%s is not %s", optarg, what);
    return -1;
}

static int take_text(const struct command *c, struct view *out)
{
    *out = (struct view){optarg, strlen(optarg)};
    if (out->len == 0 || out->len > WIRE_NAME_MAX)
        return wrong(c, "a text of 1 to 512 bytes");
    return 1;
}

static int take_kind(const struct command *c, struct wire_filter *f)
{
    uint8_t kind;
    if (!wire_kind_from_name(optarg, &kind))
        return wrong(c, "a kind of entry: "
#define X(name, number, text) text " "
                     WIRE_KIND_LIST(X)
#undef X
        );
    f->kind = kind;
    return 1;
}

/* Finds the uid of a name in /etc/passwd, as getpwnam does, without the libraries that it loads. */
static bool find_user(const char *name, uint64_t *out_uid)
{
    FILE *file = fopen("/etc/passwd", "re");
    char line[1024];
    size_t len = strlen(name);
    bool found = false;
    while (file && !found && fgets(line, sizeof line, file)) {
        const char *uid =
            strncmp(line, name, len) == 0 && line[len] == ':' ? strchr(line + len + 1, ':') : NULL;
        char *end = uid ? strchr(uid + 1, ':') : NULL;
        if (end) {
            *end = '\0';
            found = quantity_count(uid + 1, UINT32_MAX, out_uid);
        }
    }
    if (file)
        fclose(file);
    return found;
}

bool filter_user(const char *text, int64_t *out)
{
    uint64_t uid;
    if (!quantity_count(text, UINT32_MAX, &uid) && !find_user(text, &uid))
        return false;
    *out = (int64_t)uid;
    return true;
}

static int take_hits(const struct command *c, uint32_t *out)
{
    uint64_t n;
    if (!quantity_count(optarg, UINT32_MAX, &n))
        return wrong(c, "a number of hits");
    *out = (uint32_t)n;
    return 1;
}

static int take_size(const struct command *c, uint64_t *out)
{
    return units_parse_size(optarg, out) ? 1 : wrong(c, "a size with a unit, like 64K or 10G");
}

static int take_span(const struct command *c, uint64_t *out)
{
    return quantity_span(optarg, out) ? 1 : wrong(c, "a span of time like 12h or 7d");
}

int filter_option(const struct command *c, struct wire_filter *f, int option)
{
    assert(c && f);
    switch (option) {
    case FILTER_KIND: return take_kind(c, f);
    case FILTER_ARCH: return take_text(c, &f->hardware);
    case FILTER_COMPILER: return take_text(c, &f->compiler);
    case FILTER_TEXT: return take_text(c, &f->text);
    case FILTER_OLDER_THAN: return take_span(c, &f->min_age_ms);
    case FILTER_IDLE: return take_span(c, &f->min_idle_ms);
    case FILTER_MIN_SIZE: return take_size(c, &f->min_bytes);
    case FILTER_MAX_SIZE: return take_size(c, &f->max_bytes);
    case FILTER_MIN_HITS: return take_hits(c, &f->min_hits);
    case FILTER_MAX_HITS: return take_hits(c, &f->max_hits);
    case FILTER_USER: return filter_user(optarg, &f->uid) ? 1 : wrong(c, "a user");
    case FILTER_PINNED:
    case FILTER_UNPINNED: f->pinned = option == FILTER_PINNED; return 1;
    default: return 0;
    }
}

bool filter_is_all(const struct wire_filter *f)
{
    assert(f);
    return f->uid < 0 && f->kind < 0 && f->pinned < 0 && !f->min_bytes && !f->max_bytes &&
           !f->min_age_ms && !f->min_idle_ms && !f->min_hits && f->max_hits == UINT32_MAX &&
           !f->hardware.len && !f->compiler.len && !f->text.len;
}
