/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recording.c - reads and writes the file of `warm record`. commands/record.c and commands/replay.c call
 * it; recording.h has the format.
 *
 * Thread: main.
 */
#include "client/cli/import/recording.h"

#include <stdlib.h>
#include <string.h>

static const char magic[] = "warm record 2\n", magic_1[] = "warm record 1\n";

void recording_begin(struct writer *out) { writer_bytes(out, magic, sizeof magic - 1); }

void recording_add(struct writer *out, const struct wire_row *row)
{
    char key[WARM_KEY_TEXT];
    key_to_text(&row->key, key);
    writer_format(out, "%s %s %llu %lu %s", key, wire_kind_name(row->kind),
                  (unsigned long long)row->len, (unsigned long)row->cost_ms,
                  row->name.len ? "n:" : "p:");
    const uint8_t *how = row->name.len ? row->name.data : row->proof.bytes;
    for (size_t i = 0; i < (row->name.len ? row->name.len : sizeof row->proof.bytes); i++)
        writer_format(out, "%02x", how[i]);
    writer_u8(out, ' ');
    struct view label = row->label.len ? row->label : row->name;
    for (size_t i = 0; i < label.len; i++) {
        uint8_t c = ((const uint8_t *)label.data)[i];
        writer_u8(out, c < ' ' || c == 127 ? '?' : c);
    }
    writer_u8(out, '\n');
}

static size_t count_lines(const char *at, const char *end)
{
    size_t n = 1;
    for (; at < end; at++)
        n += *at == '\n';
    return n;
}

/* Finds the fifth word of a line of version 2, and reads the third. */
static void read_rest(const char *at, const char *eol, struct recorded *out)
{
    const char *word = at;
    for (unsigned i = 0; i < 4 && word; i++) {
        word = memchr(word, ' ', (size_t)(eol - word));
        word = word ? word + 1 : NULL;
        if (i == 1 && word)
            out->bytes = strtoull(word, NULL, 10);
    }
    if (!word || eol - word < 3 || word[1] != ':' || (word[0] != 'n' && word[0] != 'p'))
        return;
    const char *end = memchr(word, ' ', (size_t)(eol - word));
    out->how = word[0];
    out->hex = (struct view){word + 2, (size_t)((end ? end : eol) - word) - 2};
}

int recording_read(const void *data, size_t len, struct recorded **out, size_t *out_n,
                   struct err *e)
{
    const char *at = data, *end = at + len;
    size_t n = 0, line = 1;
    bool is_second = len >= sizeof magic - 1 && memcmp(data, magic, sizeof magic - 1) == 0;
    if (!is_second && (len < sizeof magic - 1 || memcmp(data, magic_1, sizeof magic - 1) != 0))
        return err_set(e, WARM_EMALFORMED, "no recording of `warm record`, version 1 or 2");
    struct recorded *list = calloc(count_lines(at, end), sizeof *list);
    if (!list)
        return err_set(e, WARM_ENOMEM, "no memory for the recording");
    for (at += sizeof magic - 1; at < end; at++) {
        const char *eol = memchr(at, '\n', (size_t)(end - at));
        eol = eol ? eol : end;
        line++;
        if (eol - at < WARM_KEY_TEXT - 1 || !key_from_text(at, WARM_KEY_TEXT - 1, &list[n].key)) {
            free(list);
            return err_set(e, WARM_EMALFORMED, "line %zu has no key", line);
        }
        if (is_second)
            read_rest(at, eol, &list[n]);
        n++;
        at = eol;
    }
    *out = list;
    *out_n = n;
    return 0;
}

struct key recording_key_of(const struct archive_entry *entry)
{
    struct address a = {.compiler = entry->made.compiler, .graph = entry->made.graph};
    if (!entry->is_made)
        return key_of_bytes(entry->name.data, entry->name.len);
    size_t len =
        entry->hardware.len < sizeof a.hardware - 1 ? entry->hardware.len : sizeof a.hardware - 1;
    memcpy(a.hardware, len ? entry->hardware.data : "", len);
    return address_key(&a);
}
