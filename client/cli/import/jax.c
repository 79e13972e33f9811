/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jax.c - a format of cache folders: JAX's persistent compilation cache. foreign_cache.c lists it.
 *
 * Thread: main.
 */
#include <stdio.h>
#include <string.h>

#include "client/cli/import/foreign_format.h"
#include "client/cli/json_reader.h"
#include "client/tool/unpack.h"

#define JAX_MAGIC "warm-jax/1 "

/* Unpacks an entry of JAX: 4 bytes of seconds that its compile took, big-endian, then the
 * executable. False if it is not whole. */
static bool unpack_entry(struct view packed, uint32_t *out_cost_ms)
{
    struct writer w;
    writer_init(&w, FOREIGN_VALUE_MAX);
    int code = (unpack_is_zstd(packed) ? unpack_zstd : unpack_zlib)(packed, FOREIGN_VALUE_MAX, &w);
    bool whole = !code && w.len > 4;
    if (whole) {
        const uint8_t *s = w.data;
        uint64_t seconds = (uint64_t)s[0] << 24 | s[1] << 16 | s[2] << 8 | s[3];
        *out_cost_ms = seconds < UINT32_MAX / 1000 ? (uint32_t)seconds * 1000 : UINT32_MAX;
    }
    writer_close(&w);
    return whole;
}

static int read_jax_file(const struct foreign_walk *w, const char *folder, const char *file)
{
    char path[PATH_MAX], name[PATH_MAX];
    struct cli_input in;
    size_t len = strlen(file);
    int code = 0;
    if (!foreign_join(path, folder, view_of_text(file)) ||
        (len > 6 && strcmp(file + len - 6, "-atime") == 0))
        return 0;
    if (len <= 6 || strcmp(file + len - 6, "-cache") != 0) {
        foreign_bad(w, path, "no entry of JAX");
        return 0;
    }
    if (!foreign_open(w, &in, path))
        return 0;
    snprintf(name, sizeof name, "jax:stock:%.*s", (int)(len - 6), file);
    uint32_t cost_ms;
    if (unpack_entry((struct view){in.data, in.len}, &cost_ms))
        code = foreign_emit(w, "executable", cost_ms, path, name, (struct view){in.data, in.len});
    else
        foreign_bad(w, path, "cut short or damaged");
    cli_input_close(&in);
    return code;
}

static int read_jax(const struct foreign_walk *w, const char *folder)
{
    return foreign_each(w, folder, false, read_jax_file);
}

/* Splits a value of our own: a line with JAX's name, then the bytes that JAX stores. */
static bool jax_unwrap(struct view value, char *stock, size_t cap, struct view *out)
{
    struct view json, found;
    const char *end = memchr(value.data, '\n', value.len);
    if (!foreign_after(value, JAX_MAGIC, &json) || !end)
        return false;
    json.len = (size_t)(end - (const char *)json.data);
    if (!json_reader_find(json, "stock", &found))
        return false;
    json_reader_text(found, stock, cap);
    *out = (struct view){end + 1, value.len - (size_t)(end + 1 - (const char *)value.data)};
    return true;
}

static int write_jax(const char *folder, const struct archive_entry *entry, struct err *e)
{
    char stock[ARCHIVE_TEXT_MAX + 1], file[ARCHIVE_TEXT_MAX + 8];
    struct view key, value = entry->value;
    if (foreign_after(entry->name, "jax:stock:", &key))
        snprintf(stock, sizeof stock, "%.*s", (int)key.len, (const char *)key.data);
    else if (!view_begins(entry->name, "jax:1:") ||
             !jax_unwrap(entry->value, stock, sizeof stock, &value))
        return 0;
    snprintf(file, sizeof file, "%s-cache", stock);
    return foreign_write_named(folder, view_of_text(file), value, e);
}

const struct foreign_format foreign_jax = {"jax", read_jax, write_jax};
