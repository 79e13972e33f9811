/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file.c - writes the history to its file and reads it back: history.h has the format. A file that is
 * damaged, or of a version that history.h does not name, is read as if there were none.
 *
 * history.c loads the file when the history is first needed, and saves it now and then.
 *
 * Thread: loop thread.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/lib/whole_io.h"
#include "daemon/history/internal.h"

#define MAGIC "WHIS"
#define VERSION 5u
#define VERSION_WITHOUT_USAGE 4u
#define LINES_BYTES_MAX (6u + 2u * LINE_DIGESTS_MARKS) /* daemon/worker/line_digests.h */

static void write_id(struct writer *w, const struct store_id *id)
{
    writer_u32(w, id->owner);
    writer_bytes(w, id->key.bytes, sizeof id->key.bytes);
}

static void write_lines(const struct history *h, struct writer *w)
{
    for (size_t i = 0; i < HISTORY_LINES; i++) {
        const struct known_lines *known = &h->lines[i];
        struct writer lines;
        if (!known->lines.step)
            continue;
        writer_init(&lines, 0);
        line_digests_write(&known->lines, &lines);
        writer_u64(w, known->digest);
        writer_blob(w, lines.data, lines.len);
        if (lines.failed)
            w->failed = true;
        writer_close(&lines);
    }
}

static void encode(const struct history *h, struct writer *w)
{
    uint32_t n[4] = {0};
    writer_bytes(w, MAGIC, 4);
    writer_u32(w, VERSION);
    for (size_t i = 0; i < HISTORY_LEFT; i++)
        n[0] += h->left[i].cause != 0;
    for (size_t i = 0; i < HISTORY_KNOWN; i++)
        n[1] += h->known[i].at_ms != 0;
    for (size_t i = 0; i < HISTORY_MISSES; i++)
        n[2] += h->miss[i].number != 0;
    for (size_t i = 0; i < HISTORY_LINES; i++)
        n[3] += h->lines[i].lines.step != 0;
    for (size_t i = 0; i < 4; i++)
        writer_u32(w, n[i]);
    for (size_t i = 0; i < HISTORY_LEFT; i++) {
        const struct store_departure *gone = &h->left[i];
        if (!gone->cause)
            continue;
        write_id(w, &gone->id);
        writer_u32(w, gone->cause);
        writer_u64(w, gone->at_ms);
    }
    for (size_t i = 0; i < HISTORY_KNOWN; i++) {
        const struct known *k = &h->known[(h->next_known + i) % HISTORY_KNOWN];
        if (!k->at_ms)
            continue;
        writer_u32(w, k->uid);
        write_id(w, &k->id);
        writer_u64(w, k->at_ms);
        writer_u8(w, k->kept);
        writer_blob(w, k->recipe, k->len);
    }
    const struct miss *list[HISTORY_MISSES];
    size_t n_misses = history_misses(h, list);
    for (size_t i = 0; i < n_misses; i++) {
        const struct miss *m = list[i];
        writer_u64(w, m->at_ms);
        writer_u32(w, m->uid);
        write_id(w, &m->id);
        writer_u8(w, m->kind);
        writer_u8(w, m->reason);
        for (size_t t = 0; t < TEXTS; t++)
            writer_blob(w, m->text[t], m->text[t] ? strlen(m->text[t]) : 0);
        writer_blob(w, m->changes.data, m->changes.len);
    }
    write_lines(h, w);
    usage_encode(&h->usage, w);
}

static struct store_id read_id(struct reader *r)
{
    struct store_id id = {.owner = reader_u32(r)};
    reader_copy(r, id.key.bytes, sizeof id.key.bytes);
    return id;
}

static void read_miss(struct history *h, struct reader *r)
{
    struct miss head = {.at_ms = reader_u64(r)};
    struct view text[TEXTS];
    head.uid = reader_u32(r);
    head.id = read_id(r);
    head.kind = reader_u8(r);
    head.reason = reader_u8(r);
    for (size_t t = 0; t < TEXTS; t++)
        text[t] = reader_blob(r, HISTORY_TEXT_MAX);
    struct view changes = reader_blob(r, HISTORY_CHANGES_MAX * 3 * (RECIPE_TEXT_MAX + 4));
    if (r->failed)
        return;
    struct miss *m = history_miss_new(h, head.uid);
    m->at_ms = head.at_ms;
    m->uid = head.uid;
    m->id = head.id;
    h->miss_hash[m->number % HISTORY_MISSES] = history_hash(&m->id);
    m->kind = head.kind;
    m->reason = head.reason;
    m->settled = true;
    for (size_t t = 0; t < TEXTS; t++)
        history_set_text(m, t, text[t]);
    writer_bytes(&m->changes, changes.data, changes.len);
}

void history_read(struct history *h, const void *data, size_t len)
{
    struct reader r = reader_over(data, len);
    struct view magic = reader_bytes(&r, 4);
    uint32_t version = reader_u32(&r);
    if (r.failed || memcmp(magic.data, MAGIC, 4) != 0 ||
        (version != VERSION && version != VERSION_WITHOUT_USAGE))
        return;
    uint32_t n_left = reader_u32(&r), n_known = reader_u32(&r), n_misses = reader_u32(&r),
             n_lines = reader_u32(&r);
    for (uint32_t i = 0; i < n_left && !r.failed; i++) {
        struct store_departure gone = {.id = read_id(&r)};
        gone.cause = reader_u32(&r);
        gone.at_ms = reader_u64(&r);
        if (!r.failed && gone.cause)
            history_left_add(h, &gone);
    }
    for (uint32_t i = 0; i < n_known && !r.failed; i++) {
        struct known k = {.uid = reader_u32(&r)};
        k.id = read_id(&r);
        k.at_ms = reader_u64(&r);
        k.kept = reader_u8(&r);
        struct view recipe = reader_blob(&r, RECIPE_MAX);
        if (!r.failed && k.at_ms)
            history_known_add(h, &k, recipe);
    }
    for (uint32_t i = 0; i < n_misses && !r.failed; i++)
        read_miss(h, &r);
    for (uint32_t i = 0; i < n_lines && !r.failed; i++) {
        struct known_lines known = {.digest = reader_u64(&r)};
        struct view lines = reader_blob(&r, LINES_BYTES_MAX);
        if (!r.failed && line_digests_read(lines, &known.lines))
            h->lines[known.digest % HISTORY_LINES] = known;
    }
    if (version == VERSION && !r.failed)
        usage_decode(&h->usage, &r);
}

/* Removes the digest at the end. False if it is not that of the bytes before it. */
static bool unseal(struct writer *w)
{
    struct key seal;
    if (w->failed || w->len < sizeof seal)
        return false;
    w->len -= sizeof seal;
    struct key seen = key_of_bytes(w->data, w->len);
    memcpy(&seal, w->data + w->len, sizeof seal);
    return key_equal(&seal, &seen);
}

bool history_file_read(const char *path, struct writer *out)
{
    struct stat st;
    bool read = false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return false;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
        uint8_t *to = writer_reserve(out, (size_t)st.st_size);
        read = to && whole_read(fd, to, (size_t)st.st_size, 0) == st.st_size && unseal(out);
    }
    close(fd);
    return read;
}

void history_load(struct history *h)
{
    struct writer w;
    if (h->loaded)
        return;
    h->loaded = true;
    writer_init(&w, HISTORY_FILE_MAX);
    if (h->path && history_file_read(h->path, &w))
        history_read(h, w.data, w.len);
    writer_close(&w);
    h->dirty = false;
}

static bool write_file(const char *path, const struct writer *w)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return false;
    bool written = whole_write(fd, w->data, w->len) == 0;
    return close(fd) == 0 && written;
}

bool history_file_write(const char *path, struct writer *w)
{
    char *fresh = NULL;
    if (!w->failed) {
        struct key seal = key_of_bytes(w->data, w->len);
        writer_bytes(w, seal.bytes, sizeof seal.bytes);
    }
    if (w->failed || asprintf(&fresh, "%s.new", path) < 0)
        return false;
    bool written = write_file(fresh, w) && rename(fresh, path) == 0;
    if (!written)
        unlink(fresh);
    free(fresh);
    return written;
}

void history_file_save(struct history *h)
{
    struct writer w;
    if (!h->path || !h->dirty)
        return;
    writer_init(&w, HISTORY_FILE_MAX);
    encode(h, &w);
    h->dirty = !history_file_write(h->path, &w);
    writer_close(&w);
}
