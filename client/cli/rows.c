/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows.c - prints an entry of the store for people, as a line or as fields, and for programs, as
 * JSON. The commands ls, show, evict and others call it.
 *
 * Thread: main; no state.
 */
#include "client/cli/rows.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "client/cli/cli.h"
#include "client/cli/units.h"

#define HEX_MAX 65 /* 32 bytes and NUL */

uint64_t rows_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static bool is_zero(const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (bytes[i])
            return false;
    return true;
}

/* ---- JSON ---- */

static const char *const tier_words[] = {"", "waits", "came", "stays"};

static void json_digest(struct json *j, const char *name, const uint8_t *bytes, size_t len)
{
    char text[HEX_MAX];
    json_key(j, name);
    bytes_to_hex(bytes, len, text);
    if (is_zero(bytes, len))
        json_null(j);
    else
        json_text(j, text);
}

static void json_view(struct json *j, const char *name, struct view v)
{
    json_key(j, name), json_bytes(j, v.data, v.len);
}

void row_json(struct json *j, const struct wire_row *row)
{
    assert(j && row);
    json_open(j, '{');
    json_digest(j, "key", row->key.bytes, sizeof row->key.bytes);
    json_key(j, "kind"), json_text(j, wire_kind_name(row->kind));
    json_key(j, "bytes"), json_u64(j, row->len);
    json_key(j, "hits"), json_u64(j, row->hits);
    json_key(j, "cost_ms"), json_u64(j, row->cost_ms);
    json_view(j, "arch", row->hardware);
    json_view(j, "compiler", row->compiler_text);
    json_view(j, "name", row->name);
    json_view(j, "label", row->label);
    json_key(j, "made_here"), json_bool(j, row->owner == ROWS_MADE_HERE);
    json_key(j, "owner"), json_u64(j, row->owner);
    json_key(j, "maker"), json_u64(j, row->maker);
    json_key(j, "pinned"), json_bool(j, row->pinned);
    json_key(j, "tier"), json_text(j, tier_words[row->tier]);
    json_view(j, "signer", row->signer);
    json_key(j, "file"), json_bool(j, row->is_blob);
    json_key(j, "created_ms"), json_u64(j, row->created_ms);
    json_key(j, "accessed_ms"), json_u64(j, row->accessed_ms);
    json_key(j, "expires_ms");
    if (row->expires_ms)
        json_u64(j, row->expires_ms);
    else
        json_null(j);
    json_digest(j, "xxh3", row->check.bytes, sizeof row->check.bytes);
    json_digest(j, "sha256", row->content.bytes, sizeof row->content.bytes);
    json_digest(j, "compiler_key", row->compiler.bytes, sizeof row->compiler.bytes);
    json_digest(j, "graph_key", row->graph.bytes, sizeof row->graph.bytes);
    json_digest(j, "proof", row->proof.bytes, sizeof row->proof.bytes);
    json_digest(j, "group", row->group.bytes, sizeof row->group.bytes);
    json_close(j, '}');
}

/* ---- text ---- */

static void span_since(uint64_t then_ms, uint64_t now_ms, char out[UNITS_TEXT])
{
    units_age_text(now_ms > then_ms ? now_ms - then_ms : 0, out);
}

void rows_title(bool colour)
{
    printf("%s%-32s %-10s %8s %6s %5s %-10s %s%s\n", colour ? "\033[1m" : "", "KEY", "KIND", "SIZE",
           "HITS", "USED", "ARCH", "LABEL", colour ? "\033[0m" : "");
}

void row_line(const struct wire_row *row, uint64_t now_ms)
{
    assert(row);
    char key[WARM_KEY_TEXT], size[UNITS_TEXT], used[UNITS_TEXT];
    key_to_text(&row->key, key);
    units_size_text(row->len, size);
    span_since(row->accessed_ms, now_ms, used);
    printf("%s %-10s %8s %6u %5s ", key, wire_kind_name(row->kind), size, row->hits, used);
    struct view arch = row->hardware;
    cli_print(arch);
    printf("%*s ", arch.len < 10 ? (int)(10 - arch.len) : 0, "");
    cli_print(row->label.len ? row->label : row->name);
    puts(row->pinned ? "  (pinned)" : "");
}

#define BRIEF_KEY 12u  /* digits */
#define BRIEF_HEAD 56u /* columns before the label */

void rows_brief_title(bool colour)
{
    printf("%s%-12s %-10s %9s %6s %5s %-8s %s%s\n", colour ? "\033[1m" : "", "KEY", "KIND", "SIZE",
           "HITS", "USED", "ARCH", "LABEL", colour ? "\033[0m" : "");
}

/* Prints at most `columns` characters of UTF-8; an ellipsis stands for the rest. */
static void print_cut(struct view v, unsigned columns)
{
    const uint8_t *text = v.data;
    size_t end = 0, n = 0, before = 0;
    for (; end < v.len && n < columns; n++) {
        before = end;
        for (end++; end < v.len && (text[end] & 0xc0) == 0x80;)
            end++;
    }
    cli_print((struct view){v.data, end < v.len ? before : end});
    if (end < v.len)
        fputs("\xe2\x80\xa6", stdout);
}

void row_brief(const struct wire_row *row, uint64_t now_ms, size_t n_parts, uint64_t bytes,
               unsigned width)
{
    char key[WARM_KEY_TEXT], size[UNITS_TEXT], used[UNITS_TEXT], more[40] = "";
    key_to_text(&row->key, key);
    units_size_text(bytes, size);
    span_since(row->accessed_ms, now_ms, used);
    printf("%.*s %-10s %9s %6u %5s ", (int)BRIEF_KEY, key, wire_kind_name(row->kind), size,
           row->hits, used);
    struct view arch = row->hardware;
    print_cut(arch, 8);
    printf("%*s ", arch.len < 8 ? (int)(8 - arch.len) : 0, "");
    if (n_parts > 1)
        snprintf(more, sizeof more, " +%zu", n_parts - 1);
    if (row->pinned)
        strcat(more, " (pinned)");
    unsigned taken = BRIEF_HEAD + (unsigned)strlen(more);
    print_cut(row->label.len ? row->label : row->name, width > taken + 8 ? width - taken : 8);
    puts(more);
}

static void field_view(const char *name, struct view v)
{
    if (v.len == 0)
        return;
    printf("%-12s ", name);
    cli_print(v);
    putchar('\n');
}

static void field_digest(const char *name, const uint8_t *bytes, size_t len)
{
    char text[HEX_MAX];
    bytes_to_hex(bytes, len, text);
    if (!is_zero(bytes, len))
        printf("%-12s %s\n", name, text);
}

static void field_time(const char *name, uint64_t ms, uint64_t now_ms)
{
    char text[UNITS_TEXT], span[UNITS_TEXT];
    if (ms == 0)
        return;
    units_time_text(ms, text);
    units_span_text(ms > now_ms ? ms - now_ms : now_ms - ms, span);
    printf("%-12s %s (%s%s%s)\n", name, text, ms > now_ms ? "in " : "", span,
           ms > now_ms ? "" : " ago");
}

void row_fields(const struct wire_row *row, uint64_t now_ms)
{
    assert(row);
    char size[UNITS_TEXT];
    units_size_text(row->len, size);
    field_digest("key", row->key.bytes, sizeof row->key.bytes);
    printf("%-12s %s\n", "kind", wire_kind_name(row->kind));
    if (row->len < 1024)
        printf("%-12s %s, in the index\n", "size", size);
    else
        printf("%-12s %s (%" PRIu64 " bytes), %s\n", "size", size, row->len,
               row->is_blob ? "in a file" : "in the index");
    printf("%-12s %u\n", "hits", row->hits);
    printf("%-12s %u ms\n", "cost", row->cost_ms);
    if (row->owner == ROWS_MADE_HERE)
        printf("%-12s made here, for uid %u\n", "owner", row->maker);
    else
        printf("%-12s uid %u\n", "owner", row->owner);
    printf("%-12s %s\n", "pinned", row->pinned ? "yes" : "no");
    if (row->tier == 1)
        printf("%-12s waits to be sent there\n", "tier");
    if (row->tier == 3)
        printf("%-12s stays on this machine\n", "tier");
    if (row->tier == 2) {
        printf("%-12s came from there, signed by ", "tier");
        cli_print(row->signer);
        putchar('\n');
    }
    field_time("created", row->created_ms, now_ms);
    field_time("used", row->accessed_ms, now_ms);
    field_time("expires", row->expires_ms, now_ms);
    field_view("arch", row->hardware);
    field_view("compiler", row->compiler_text);
    field_view("name", row->name);
    field_view("label", row->label);
    field_digest("xxh3", row->check.bytes, sizeof row->check.bytes);
    field_digest("sha256", row->content.bytes, sizeof row->content.bytes);
    field_digest("compiler key", row->compiler.bytes, sizeof row->compiler.bytes);
    field_digest("graph key", row->graph.bytes, sizeof row->graph.bytes);
    field_digest("group", row->group.bytes, sizeof row->group.bytes);
}
