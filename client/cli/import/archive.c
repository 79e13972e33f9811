/* SPDX-License-Identifier: Apache-2.0 */
/*
 * archive.c - writes and checks archives, member by member. commands/export.c writes them, commands/import.c reads
 * them; archive.h has the format.
 *
 * Thread: any; no state.
 */
#include "client/cli/import/archive.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/wire/wire.h"
#include "keygen/domains.h"

#define FIRST "warm-archive-"
#define VERSION "3"
#define ABOUT "A cache of warm: `warm import` reads it.\n"
#define END "end"
#define MADE_LEN 64u
#define CHECK_AT 29u
#define TEXTS_AT 45u
#define ABOUT_MAX (TEXTS_AT + 5 * (4 + ARCHIVE_TEXT_MAX))
#define VALUE_MAX ((uint64_t)4 << 30) /* bytes: STORE_VALUE_MAX */
#define STEP ((size_t)1 << 20)        /* memory grows as bytes come */

_Static_assert(ARCHIVE_TEXT_MAX == WIRE_NAME_MAX, "what a store's row can hold");

/* ---- members: POSIX.1-2017, pax, "ustar Interchange Format" ---- */

#define BLOCK 512u
struct member {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type;
    char link[100], magic[6], version[2], owner[32], group[32], major[8], minor[8], prefix[155];
    char unused[12];
};
_Static_assert(sizeof(struct member) == BLOCK, "one block");

/* Returns the sum of a header's bytes, with blanks in place of the sum itself. */
static unsigned sum_of(const struct member *m)
{
    const unsigned char *bytes = (const unsigned char *)m;
    unsigned sum = 0;
    for (size_t i = 0; i < sizeof *m; i++) {
        bool is_sum = i >= offsetof(struct member, sum) && i < offsetof(struct member, type);
        sum += is_sum ? ' ' : bytes[i];
    }
    return sum;
}

static void put_sum(struct member *m)
{
    snprintf(m->sum, sizeof m->sum, "%06o", sum_of(m));
    m->sum[7] = ' ';
}

static void put_member(struct writer *out, const char *name, uint64_t size)
{
    struct member m = {.mode = "0000644",
                       .uid = "0000000",
                       .gid = "0000000",
                       .mtime = "00000000000",
                       .type = '0',
                       .magic = "ustar",
                       .version = {'0', '0'}};
    assert(strlen(name) < sizeof m.name && size <= VALUE_MAX);
    memcpy(m.name, name, strlen(name));
    snprintf(m.size, sizeof m.size, "%011" PRIo64, size);
    put_sum(&m);
    writer_bytes(out, &m, sizeof m);
}

void archive_put_padding(struct writer *out, uint64_t len)
{
    static const uint8_t zeros[BLOCK];
    writer_bytes(out, zeros, (size_t)(-len % BLOCK));
}

/* Appends a whole member. */
static void put_file(struct writer *out, const char *name, const void *data, size_t len)
{
    put_member(out, name, len);
    writer_bytes(out, data, len);
    archive_put_padding(out, len);
}

static int malformed(struct err *e, const char *what)
{
    return err_set(e, WARM_EMALFORMED, "the archive is damaged: %s", what);
}

static int read_bytes(struct archive_reader *r, void *out, size_t len, struct err *e)
{
    int code = len ? r->read(r->arg, out, len, e) : 0;
    bool early = code == WARM_ENOT_FOUND || code == WARM_ETRUNCATED;
    return early ? err_set(e, WARM_ETRUNCATED, "the archive ends too early") : code;
}

/* Reads the header of a member and its size. */
static int read_member(struct archive_reader *r, struct member *out, uint64_t *out_size,
                       struct err *e)
{
    struct member sealed;
    int code = read_bytes(r, out, sizeof *out, e), end = -1;
    if (code)
        return code;
    sealed = *out;
    put_sum(&sealed);
    bool sound = memcmp(&sealed, out, sizeof sealed) == 0 && out->type == '0' &&
                 memchr(out->name, '\0', sizeof out->name) &&
                 memchr(out->size, '\0', sizeof out->size) &&
                 sscanf(out->size, "%11" SCNo64 "%n", out_size, &end) == 1 && end == 11 &&
                 *out_size <= VALUE_MAX;
    return sound ? 0 : malformed(e, "no member begins where one should");
}

/* Reads the bytes of a member and its padding into `out`. */
static int read_content(struct archive_reader *r, uint64_t size, struct writer *out, struct err *e)
{
    uint8_t padding[BLOCK];
    int code = 0;
    out->len = 0;
    for (uint64_t left = size; left && !code;) {
        size_t step = left < STEP ? (size_t)left : STEP;
        void *to = writer_reserve(out, step);
        code = to ? read_bytes(r, to, step, e) : err_set(e, WARM_ENOMEM, "no memory for an entry");
        left -= step;
    }
    size_t n = (size_t)(-size % BLOCK);
    code = code ? code : read_bytes(r, padding, n, e);
    for (size_t i = 0; i < n && !code; i++)
        if (padding[i])
            code = malformed(e, "bytes behind a value");
    return code;
}

/* ---- an entry ---- */

static void read_made(struct view made, struct archive_made *out)
{
    struct reader r = reader_over(made.data, made.len);
    reader_copy(&r, out->compiler.bytes, sizeof out->compiler.bytes);
    reader_copy(&r, out->graph.bytes, sizeof out->graph.bytes);
    reader_copy(&r, out->proof.bytes, sizeof out->proof.bytes);
}

/* Computes the checksum of an entry, whose fields `about` has. */
static struct key checksum(const struct archive_entry *e, struct view about)
{
    struct key_builder b;
    struct key key;
    struct proof unused;
    const uint8_t *bytes = about.data;
    key_begin(&b, DOMAIN_ARCHIVE);
    key_add_u64(&b, 0, e->kind);
    key_add_u64(&b, 1, e->cost_ms);
    key_add_u64(&b, 2, e->expires_ms);
    key_add(&b, 3, e->group.bytes, sizeof e->group.bytes);
    key_add(&b, 3, bytes + TEXTS_AT, about.len - TEXTS_AT);
    key_add(&b, 4, e->value.data, e->value.len);
    key_end(&b, &key, &unused);
    return key;
}

/* Writes the name of a value's member: its label, in letters that any file system has. */
static void value_name(const struct archive_entry *e, char out[64])
{
    const unsigned char *label = e->label.data;
    size_t n = 0;
    for (size_t i = 0; i < e->label.len && n < 48; i++) {
        unsigned char c = label[i];
        bool plain = c > ' ' && c < 0x7f && !strchr("/\\:*?\"<>|'`$", c);
        out[n] = plain || (c == ' ' && n) ? (char)c : '_';
        n++;
    }
    out[n] = '\0';
    if (n == 0 || *out == '.' || *out == '-' || strcmp(out, "about") == 0)
        strcpy(out, "value");
}

void archive_put_head(struct writer *out, const struct archive_entry *entry, uint64_t number)
{
    struct writer about;
    char folder[48], label[64], name[120];
    assert(entry->name.len <= ARCHIVE_TEXT_MAX && entry->label.len <= ARCHIVE_TEXT_MAX &&
           (!entry->is_made || entry->name.len == 0));
    writer_init(&about, 0);
    writer_u8(&about, entry->kind);
    writer_u32(&about, entry->cost_ms);
    writer_u64(&about, entry->expires_ms);
    writer_bytes(&about, entry->group.bytes, sizeof entry->group.bytes);
    writer_bytes(&about, (uint8_t[16]){0}, 16); /* the checksum */
    writer_blob(&about, entry->name.data, entry->name.len);
    writer_blob(&about, entry->hardware.data, entry->hardware.len);
    writer_blob(&about, entry->compiler.data, entry->compiler.len);
    writer_blob(&about, entry->label.data, entry->label.len);
    writer_u32(&about, entry->is_made ? MADE_LEN : 0);
    if (entry->is_made) {
        writer_bytes(&about, entry->made.compiler.bytes, sizeof entry->made.compiler.bytes);
        writer_bytes(&about, entry->made.graph.bytes, sizeof entry->made.graph.bytes);
        writer_bytes(&about, entry->made.proof.bytes, sizeof entry->made.proof.bytes);
    }
    snprintf(folder, sizeof folder, "entries/%06" PRIu64 "-%s", number,
             wire_kind_name(entry->kind));
    if (about.failed) {
        out->failed = true;
    } else {
        struct key check = checksum(entry, (struct view){about.data, about.len});
        memcpy(about.data + CHECK_AT, check.bytes, sizeof check.bytes);
        snprintf(name, sizeof name, "%s/about", folder);
        put_file(out, name, about.data, about.len);
        value_name(entry, label);
        snprintf(name, sizeof name, "%s/%.40s", folder, label);
        put_member(out, name, entry->value.len);
    }
    writer_close(&about);
}

/* Reads the fields of an entry, whose value is there. CORRUPT: its checksum is wrong. */
static int read_about(struct view about, struct archive_entry *out, struct err *e)
{
    struct key check;
    struct reader r = reader_over(about.data, about.len);
    out->kind = reader_u8(&r);
    out->cost_ms = reader_u32(&r);
    out->expires_ms = reader_u64(&r);
    reader_copy(&r, out->group.bytes, sizeof out->group.bytes);
    reader_copy(&r, check.bytes, sizeof check.bytes);
    out->name = reader_blob(&r, ARCHIVE_TEXT_MAX);
    out->hardware = reader_blob(&r, ARCHIVE_TEXT_MAX);
    out->compiler = reader_blob(&r, ARCHIVE_TEXT_MAX);
    out->label = reader_blob(&r, ARCHIVE_TEXT_MAX);
    struct view made = reader_blob(&r, ARCHIVE_TEXT_MAX);
    if (!reader_done(&r))
        return malformed(e, "an entry without its fields");
    struct key found = checksum(out, about);
    if (!key_equal(&check, &found))
        return WARM_ECORRUPT;
    out->is_made = made.len == MADE_LEN;
    if (out->is_made)
        read_made(made, &out->made);
    else if (made.len)
        return malformed(e, "an entry that is neither named nor made");
    return 0;
}

/* ---- the whole ---- */

void archive_begin(struct writer *out) { put_file(out, FIRST VERSION, ABOUT, strlen(ABOUT)); }

void archive_end(struct writer *out, uint64_t n_entries)
{
    static const uint8_t zeros[2 * BLOCK];
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64 "\n", n_entries);
    put_file(out, END, text, strlen(text));
    writer_bytes(out, zeros, sizeof zeros);
}

int archive_open(struct archive_reader *r, struct err *e)
{
    struct member m;
    uint64_t size;
    assert(r->read);
    writer_init(&r->about, ABOUT_MAX + STEP);
    writer_init(&r->value, (size_t)VALUE_MAX + STEP);
    int code = read_member(r, &m, &size, e);
    if (code == WARM_ETRUNCATED || (!code && strncmp(m.name, FIRST, strlen(FIRST)) != 0))
        code = WARM_EMALFORMED;
    if (code == WARM_EMALFORMED)
        return err_set(e, code, "this is no archive of warm");
    if (!code && strcmp(m.name, FIRST VERSION) != 0)
        return err_set(e, WARM_EVERSION, "an archive of another version: export it with this one");
    if (!code && size != strlen(ABOUT))
        code = malformed(e, "another first member");
    code = code ? code : read_content(r, size, &r->about, e);
    if (!code && memcmp(r->about.data, ABOUT, strlen(ABOUT)) != 0)
        code = malformed(e, "another first member");
    return code;
}

/* Reads the bytes after the last entry. */
static int read_end(struct archive_reader *r, uint64_t size, uint64_t n_before, struct err *e)
{
    uint8_t zeros[2 * BLOCK], more;
    char want[32];
    snprintf(want, sizeof want, "%" PRIu64 "\n", n_before);
    int code = size < sizeof want ? read_content(r, size, &r->about, e)
                                  : malformed(e, "a long last member");
    code = code ? code : read_bytes(r, zeros, sizeof zeros, e);
    if (code)
        return code;
    for (size_t i = 0; i < sizeof zeros; i++)
        if (zeros[i])
            return malformed(e, "it does not end where it says");
    if (r->about.len != strlen(want) || memcmp(r->about.data, want, r->about.len) != 0)
        return malformed(e, "it has another number of entries than it says");
    code = r->read(r->arg, &more, 1, e);
    return code ? code : malformed(e, "it goes on behind its end");
}

int archive_next(struct archive_reader *r, uint64_t n_before, struct archive_entry *out,
                 struct err *e)
{
    struct member m;
    uint64_t size = 0;
    int code = read_member(r, &m, &size, e);
    *out = (struct archive_entry){.kind = 0};
    if (!code && strcmp(m.name, END) == 0)
        return read_end(r, size, n_before, e);
    if (!code && (size < TEXTS_AT || size > ABOUT_MAX))
        code = malformed(e, "an entry without its fields");
    code = code ? code : read_content(r, size, &r->about, e);
    code = code ? code : read_member(r, &m, &size, e);
    code = code ? code : read_content(r, size, &r->value, e);
    if (code)
        return code;
    out->value = (struct view){r->value.data, r->value.len};
    return read_about((struct view){r->about.data, r->about.len}, out, e);
}

void archive_close(struct archive_reader *r)
{
    writer_close(&r->about);
    writer_close(&r->value);
}
