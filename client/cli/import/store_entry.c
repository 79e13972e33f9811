/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_entry.c - decides how an entry of an archive is put: under its name, or, if a daemon made it, under
 * its address. commands/import.c calls it.
 *
 * Thread: main.
 */
#include "client/cli/import/store_entry.h"

#include <string.h>
#include <time.h>

#include "client/lib/warm.h"

const char *store_entry_text(struct view v, char out[ARCHIVE_TEXT_MAX + 1])
{
    memcpy(out, v.len ? v.data : "", v.len);
    out[v.len] = '\0';
    return out;
}

int store_entry(struct warm *w, const struct archive_entry *entry, unsigned flags)
{
    char hardware[ARCHIVE_TEXT_MAX + 1], compiler[ARCHIVE_TEXT_MAX + 1],
        label[ARCHIVE_TEXT_MAX + 1];
    uint64_t now_ms = (uint64_t)time(NULL) * 1000;
    if (entry->expires_ms && entry->expires_ms <= now_ms)
        return STORE_ENTRY_EXPIRED;
    struct warm_put_options options = {
        .flags = flags,
        .kind = wire_kind_name(entry->kind),
        .cost_ms = entry->cost_ms,
        .ttl_ms = entry->expires_ms ? entry->expires_ms - now_ms : 0,
        .hardware = store_entry_text(entry->hardware, hardware),
        .compiler = store_entry_text(entry->compiler, compiler),
        .label = store_entry_text(entry->label, label),
    };
    struct view v = entry->value;
    uint8_t place[WIRE_MADE_LEN];
    memcpy(place, entry->made.compiler.bytes, 16);
    memcpy(place + 16, entry->made.graph.bytes, 16);
    memcpy(place + 32, entry->made.proof.bytes, 32);
    int code = entry->is_made
                   ? client_put_made(w, place, &entry->group, v.data, v.len, &options)
                   : client_put_named(w, entry->name, &entry->group, v.data, v.len, &options);
    return code ? code : w->existed ? STORE_ENTRY_KEPT : STORE_ENTRY_STORED;
}

bool store_entry_failed_alone(int code)
{
    return code == WARM_EINVALID || code == WARM_ETOO_BIG || code == WARM_EDENIED;
}
