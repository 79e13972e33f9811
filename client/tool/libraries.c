/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libraries.c - decides what the dynamic loader finds by a library's name: from LD_LIBRARY_PATH and
 * the loader's list of libraries. inputs.c and trace_log.c call it; libraries.h has the contract.
 *
 * The list (glibc: sysdeps/generic/dl-cache.h; the old part, without hwcap, is passed over):
 *
 *     OFFSET  SIZE  FIELD
 *          0    20  "glibc-ld.so.cache" "1.1"
 *         20     4  n, the number of entries
 *         24     4  size of the texts
 *         28    20  other parts
 *         48        n × (u32 flags, u32 name, u32 path, u32 oldest kernel, u64 hwcap), then the
 *                   texts: name and path are offsets from the beginning, and end in NUL
 *
 * A list of another form counts as a whole.
 *
 * Thread: main.
 */
#define XXH_INLINE_ALL
#include "client/tool/libraries.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "client/tool/file_state.h"
#include "keygen/domains.h"

#define LIST_MAX_BYTES (32u << 20)
#define LIST_HEAD 48u
#define ENTRY_BYTES 24u

enum field { FILE_FOUND = 1, WHOLE_LIST, ENTRY, PROCESSOR, SEMICOLON };

/* The loader's list, as long as its stamp is the same. */
static struct {
    struct stamp stamp; /* zero: there is none */
    uint8_t *data;
    size_t len;
    const uint8_t *form; /* in data: the form above; NULL: it has another */
    size_t form_len;     /* with its texts */
} list;

static uint32_t u32_at(const uint8_t *at)
{
    uint32_t n;
    memcpy(&n, at, sizeof n);
    return n;
}

/* Finds the form above: it begins at once, or behind the old one, "ld.so-1.7.0". */
static void find_form(void)
{
    static const char now[] = "glibc-ld.so.cache1.1", old[] = "ld.so-1.7.0";
    size_t at = 0;
    list.form = NULL;
    if (list.len >= 16 && memcmp(list.data, old, strlen(old)) == 0)
        at = (16 + 12 * (size_t)u32_at(list.data + 12) + 7) / 8 * 8;
    if (at + LIST_HEAD > list.len || memcmp(list.data + at, now, strlen(now)) != 0)
        return;
    const uint8_t *form = list.data + at;
    size_t end = LIST_HEAD + u32_at(form + 20) * (size_t)ENTRY_BYTES + u32_at(form + 24);
    if (end > list.len - at || form[end - 1] != '\0')
        return;
    list.form = form;
    list.form_len = end;
}

/* Brings `list` up to date. BUSY if it changed at or after `started_ns`, or just now. */
static int read_list(uint64_t started_ns)
{
    struct stat st;
    struct stamp now = {0}, after = {0};
    if (stat(LOADER_LIST, &st) == 0)
        now = stamp_of(&st);
    else if (errno != ENOENT)
        return WARM_EREFUSED;
    if (now.inode && !stamp_is_before(&now, started_ns))
        return WARM_EBUSY;
    if (memcmp(&now, &list.stamp, sizeof now) == 0)
        return 0;
    free(list.data);
    list.data = NULL;
    list.len = 0;
    list.form = NULL;
    list.stamp = (struct stamp){0};
    if (now.inode && tool_read_file(LOADER_LIST, LIST_MAX_BYTES, &list.data, &list.len, NULL))
        return WARM_EREFUSED;
    if (now.inode && stat(LOADER_LIST, &st) == 0)
        after = stamp_of(&st);
    if (list.data)
        find_form();
    list.stamp = now;
    return memcmp(&now, &after, sizeof now) == 0 ? 0 : WARM_EBUSY;
}

/* ---- names ---- */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* True if the loader takes both for one name: it compares numbers by value, so .01 is .1. */
static bool is_same_name(const char *a, const char *b)
{
    while (*a && *b) {
        if (is_digit(*a) && is_digit(*b)) {
            while (*a == '0' && is_digit(a[1]))
                a++;
            while (*b == '0' && is_digit(b[1]))
                b++;
        }
        if (*a++ != *b++)
            return false;
    }
    return *a == *b;
}

/* True for entries that this machine's loader passes over: of programs of another width. */
static bool is_foreign(uint32_t flags)
{
#ifdef __x86_64__
    return flags == 0x0003 || flags == 0x0803; /* i386, and x32 */
#else
    (void)flags;
    return false;
#endif
}

/* Returns the kernel's version as the list has it: a byte for each number. */
static uint32_t kernel_version(void)
{
    struct utsname name;
    unsigned a = 0, b = 0, c = 0;
    if (uname(&name) == 0)
        sscanf(name.release, "%u.%u.%u", &a, &b, &c);
    return (a & 255) << 16 | (b & 255) << 8 | (c & 255);
}

/* ---- files ---- */

/* Adds a file that the loader may take, if it is there: its path, and its content if `whole`. */
static int add_file(struct warm *w, struct key_builder *key, const char *path, bool whole,
                    uint64_t started_ns)
{
    struct stat st;
    struct proof digest;
    bool may_change;
    if (stat(path, &st) < 0)
        return errno == ENOENT || errno == ENOTDIR ? 0 : WARM_EREFUSED;
    struct stamp stamp = stamp_of(&st);
    if (!stamp_is_before(&stamp, started_ns))
        return WARM_EBUSY;
    key_add_text(key, FILE_FOUND, path);
    if (!whole)
        return 0;
    if (!S_ISREG(st.st_mode) || file_digest(w, path, &stamp, &digest, &may_change))
        return WARM_EREFUSED;
    key_add(key, FILE_FOUND, digest.bytes, sizeof digest.bytes);
    return 0;
}

/* True if a folder has folders for certain processors, into which the loader looks first: in their
 * present form, or of glibc before 2.37. */
static bool has_variants(const char *folder)
{
    static const char *const names[] = {"glibc-hwcaps", "tls",      "x86_64", "haswell",
                                        "avx512_1",     "xeon_phi", "sse2",   "aarch64"};
    char path[PATH_MAX];
    struct stat st;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int n = snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        if (n < 0 || n >= PATH_MAX || stat(path, &st) == 0 || (errno != ENOENT && errno != ENOTDIR))
            return true;
    }
    return false;
}

static int add_library_path(struct warm *w, struct key_builder *key, const char *name,
                            uint64_t started_ns)
{
    char folder[PATH_MAX], path[PATH_MAX];
    const char *at = getenv("LD_LIBRARY_PATH");
    struct stat st;
    int code = 0;
    if (at && strchr(at, ';')) /* ld takes it for a part of a folder's name */
        key_add_u64(key, SEMICOLON, 1);
    for (size_t len; !code && at && *at; at = at[len] ? at + len + 1 : NULL) {
        len = strcspn(at, ":;");
        int n = snprintf(folder, sizeof folder, "%.*s", len ? (int)len : 1, len ? at : ".");
        if (n < 0 || n >= PATH_MAX ||
            strchr(folder, '$')) /* the loader replaces $ORIGIN and $LIB */
            return WARM_EREFUSED;
        if (stat(folder, &st) < 0)
            continue;
        n = snprintf(path, sizeof path, "%s/%s", folder, name);
        if (n < 0 || n >= PATH_MAX || has_variants(folder))
            return WARM_EREFUSED;
        code = add_file(w, key, path, true, started_ns);
    }
    return code;
}

/* ---- the list ---- */

static int add_processor(struct key_builder *key)
{
    key_add_u64(key, PROCESSOR, 1);
    return cpu_add(key, PROCESSOR) ? 0 : WARM_EREFUSED;
}

/* Adds the list's entries for the name, and which of their files exist. */
static int add_entries(struct key_builder *key, const char *name, uint64_t started_ns)
{
    const uint8_t *from = list.form;
    size_t len = list.form_len;
    bool has_variants = false;
    int code = 0;
    for (uint32_t i = 0; !code && i < u32_at(from + 20); i++) {
        const uint8_t *entry = from + LIST_HEAD + i * (size_t)ENTRY_BYTES;
        uint32_t flags = u32_at(entry), text = u32_at(entry + 4), path = u32_at(entry + 8);
        uint32_t oldest = u32_at(entry + 12);
        if (text >= len || path >= len)
            return WARM_EREFUSED;
        if (is_foreign(flags) || !is_same_name(name, (const char *)from + text))
            continue;
        bool is_variant = u32_at(entry + 16) || u32_at(entry + 20);
        has_variants |= is_variant;
        key_add_u64(key, ENTRY,
                    (uint64_t)flags << 2 | (uint64_t)is_variant << 1 |
                        (oldest <= kernel_version()));
        key_add_text(key, ENTRY, (const char *)from + path);
        code = add_file(NULL, key, (const char *)from + path, false, started_ns);
    }
    return !code && has_variants ? add_processor(key) : code;
}

int library_digest(struct warm *w, const char *name, uint64_t started_ns, struct proof *out)
{
    assert(name && !strchr(name, '/') && out);
    struct key_builder key;
    struct key unused;
    key_begin(&key, DOMAIN_LIBRARY);
    int code;
    if (strcmp(name, LIBRARY_PROCESSOR) == 0) {
        code = add_processor(&key);
    } else {
        code = add_library_path(w, &key, name, started_ns);
        if (!code)
            code = read_list(started_ns);
        if (!code && list.data && !list.form)
            key_add(&key, WHOLE_LIST, list.data, list.len);
        else if (!code && list.data)
            code = add_entries(&key, name, started_ns);
    }
    key_end(&key, &unused, out);
    return code;
}
