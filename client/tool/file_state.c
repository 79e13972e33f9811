/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_state.c - decides if a file is the same as before, and what a folder holds. inputs.c,
 * trace_log.c and pch.c call it; file_state.h has the contract.
 *
 * Thread: main.
 */
#define XXH_INLINE_ALL
#include "client/tool/file_state.h"
#include "client/lib/digests.h"
#include "client/lib/identity.h"
#include "keygen/domains.h"
#include "keygen/vector.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LONG_FILE_BYTES (1u << 20) /* for a larger file the daemon is asked first */
#define SECOND_NS 1000000000ull
#define SETTLED_NS (2 * SECOND_NS) /* the coarsest clock of a file system that we know: FAT's */
#define FOLDER_NAMES_MAX 65536u

static uint64_t ns_of(struct timespec t)
{
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

struct stamp stamp_of(const struct stat *st)
{
    return (struct stamp){st->st_dev, st->st_ino, (uint64_t)st->st_size, ns_of(st->st_mtim),
                          ns_of(st->st_ctim)};
}

bool stamp_is_settled(const struct stamp *stamp)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return stamp->ctime_ns + SETTLED_NS < ns_of(now) && stamp->mtime_ns + SETTLED_NS < ns_of(now);
}

bool stamp_is_before(const struct stamp *stamp, uint64_t ns)
{
    uint64_t tick = stamp->ctime_ns % SECOND_NS == 0 ? SETTLED_NS : 0;
    return stamp->ctime_ns + tick < ns;
}

char file_type(const struct stat *st)
{
    return S_ISREG(st->st_mode) ? 'f' : S_ISDIR(st->st_mode) ? 'd' : 'o';
}

/* ---- digests ---- */

static bool is_as_stamped(const char *path, const struct stamp *stamp)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return false;
    struct stamp now = stamp_of(&st);
    return memcmp(&now, stamp, sizeof now) == 0;
}

bool file_is_binary(const char *path)
{
    char head[9] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    ssize_t n = fd >= 0 ? read(fd, head, sizeof head - 1) : -1;
    if (fd >= 0)
        close(fd);
    return n > 0 && text_begins_with_one(head, ONE_OF("\177ELF", "!<arch>", "!<thin>", "glibc-ld"));
}

static bool shows_mappings(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    bool shows = fd >= 0 && fstat(fd, &st) == 0 && stat_shows_mappings(fd, &st);
    if (fd >= 0)
        close(fd);
    return shows;
}

int file_digest(struct warm *w, const char *path, const struct stamp *stamp, struct proof *out,
                bool *out_may_change)
{
    assert(path && stamp && out);
    uint8_t *data;
    size_t len;
    int code;
    *out_may_change = !shows_mappings(path); /* before the content is read */
    if (stamp->size >= LONG_FILE_BYTES) {
        char identity[WARM_IDENTITY_TEXT];
        code = warm_file_identity(*out_may_change ? NULL : w, path, identity);
        code = code || identity_sha256(identity, out) ? code : WARM_EMALFORMED;
    } else {
        code = tool_read_file(path, LONG_FILE_BYTES, &data, &len, NULL);
        if (!code) {
            *out = proof_of_bytes(data, tool_hide_includes(path, data, len));
            free(data);
        }
    }
    if (!code && !is_as_stamped(path, stamp))
        code = WARM_EBUSY;
    return code;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int folder_digest(const char *path, struct proof *out)
{
    assert(path && out);
    DIR *d = opendir(path);
    VECTOR(char *) names = {.at = NULL};
    bool failed = false;
    if (!d)
        return WARM_ENOT_FOUND;
    for (struct dirent *entry; !failed && (entry = readdir(d));)
        if (names.n == FOLDER_NAMES_MAX ||
            (names.n == names.cap &&
             !vector_grow(&failed, &names.at, &names.cap, names.n, sizeof *names.at)) ||
            !(names.at[names.n] = strdup(entry->d_name)))
            failed = true;
        else
            names.n++;
    closedir(d);
    struct key_builder key;
    struct key unused;
    key_begin(&key, DOMAIN_FOLDER);
    if (names.n)
        qsort(names.at, names.n, sizeof *names.at, by_text);
    for (size_t i = 0; i < names.n; i++) {
        key_add_text(&key, 1, names.at[i]);
        free(names.at[i]);
    }
    free(names.at);
    key_end(&key, &unused, out);
    return failed ? WARM_ETOO_BIG : 0;
}
