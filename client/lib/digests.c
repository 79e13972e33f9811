/* SPDX-License-Identifier: Apache-2.0 */
/*
 * digests.c - decides from a stat if a file must be read again: a hash table by path. headers.c
 * asks it for each path that a compile may include, identity.c for the two functions on stats.
 *
 * Thread: one at a time.
 */
#define XXH_INLINE_ALL
#include "client/lib/digests.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "keygen/expect.h"

enum { SLOTS = 2 * DIGESTS_MAX }; /* a power of two */
#define SETTLED_NS 2000000000ll   /* the coarsest clock of a file system that we know: FAT's */

#define CLEAN_NS 60000000000ll /* twice the age at which the kernel writes a page */

enum what { NOTHING_YET, FILE_READ, ABSENT, FOLDER };

struct path_record {
    char *path;
    enum what what;
    struct stat st; /* FILE_READ: when it was read; ABSENT: its folder's of then; FOLDER: now */
    struct proof sha256;
    struct path_record *folder; /* ABSENT: the nearest that is there */
    uint64_t pass;              /* FOLDER: in which `st` was asked */
};

/* Invariant (1): n <= DIGESTS_MAX, half of the slots, so that a search always ends at a free
 * one. */
struct digests {
    size_t n;
    uint64_t pass;
    struct path_record *slots[SLOTS];
};

/* ---- times ---- */

static long long ns_of(struct timespec t) { return t.tv_sec * 1000000000ll + t.tv_nsec; }

bool stat_is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           ns_of(a->st_mtim) == ns_of(b->st_mtim) && ns_of(a->st_ctim) == ns_of(b->st_ctim);
}

bool stat_is_settled(const struct stat *st)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return ns_of(now) - ns_of(st->st_ctim) > SETTLED_NS &&
           ns_of(now) - ns_of(st->st_mtim) > SETTLED_NS;
}

bool stat_shows_mappings(int fd, const struct stat *st)
{
    struct timespec now;
    struct statfs fs;
    if (fstatfs(fd, &fs) || fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC ||
        fs.f_type == HUGETLBFS_MAGIC)
        return false;
    clock_gettime(CLOCK_REALTIME, &now);
    return ns_of(now) - ns_of(st->st_ctim) > CLEAN_NS ||
           (stat_is_settled(st) && fdatasync(fd) == 0);
}

/* ---- the table ---- */

struct digests *digests_new(void) { return calloc(1, sizeof(struct digests)); }

static void forget_all(struct digests *d)
{
    for (size_t i = 0; i < SLOTS; i++) {
        if (d->slots[i])
            free(d->slots[i]->path);
        free(d->slots[i]);
        d->slots[i] = NULL;
    }
    d->n = 0;
}

void digests_free(struct digests *d)
{
    if (d)
        forget_all(d);
    free(d);
}

/* Returns the slot of `path`, or the free one that it would get. */
static size_t slot_of(const struct digests *d, const char *path)
{
    size_t at = (size_t)XXH3_64bits(path, strlen(path)) % SLOTS;
    while (d->slots[at] && strcmp(d->slots[at]->path, path) != 0)
        at = (at + 1) % SLOTS;
    return at;
}

/* Returns the record of a path, a new one if there is none; NULL if memory ran out. */
static struct path_record *known_at(struct digests *d, const char *path)
{
    size_t at = slot_of(d, path);
    if (d->slots[at])
        return d->slots[at];
    if (!WARM_EXPECT(d->n < DIGESTS_MAX)) /* (1) */
        return NULL;
    struct path_record *k = calloc(1, sizeof *k);
    if (k)
        k->path = strdup(path);
    if (!k || !k->path) {
        free(k);
        return NULL;
    }
    d->n++;
    return d->slots[at] = k;
}

/* Makes room for a path and its folder. Pointers to records are invalid after it. */
static void make_room(struct digests *d)
{
    if (d->n + 2 > DIGESTS_MAX)
        forget_all(d);
}

void digests_begin(struct digests *d)
{
    if (d)
        d->pass++;
}

/* ---- files ---- */

bool digests_recall(const struct digests *d, const char *path, const struct stat *st,
                    struct proof *out)
{
    const struct path_record *k = d ? d->slots[slot_of(d, path)] : NULL;
    if (!k || k->what != FILE_READ || !stat_is_same(&k->st, st))
        return false;
    *out = k->sha256;
    return true;
}

void digests_keep(struct digests *d, const char *path, const struct stat *st,
                  const struct proof *sha256)
{
    if (!d)
        return;
    make_room(d);
    struct path_record *k = known_at(d, path);
    if (!k)
        return;
    k->what = FILE_READ;
    k->st = *st;
    k->sha256 = *sha256;
}

/* ---- absent files ---- */

bool digests_is_absent(struct digests *d, const char *path)
{
    const struct path_record *k = d ? d->slots[slot_of(d, path)] : NULL;
    if (!k || k->what != ABSENT || k->folder->what != FOLDER)
        return false;
    struct path_record *folder = k->folder;
    if (folder->pass != d->pass && stat(folder->path, &folder->st) < 0)
        return false;
    folder->pass = d->pass;
    return stat_is_same(&k->st, &folder->st);
}

/* Cuts the absent `path` to the nearest existing folder above it. False if there is none, or if it
 * is a dangling link: its target can appear without a change of this folder's times. */
static bool cut_to_folder(char *path, struct stat *out_st)
{
    do {
        char *slash = strrchr(path, '/');
        if (lstat(path, out_st) == 0 || (errno != ENOENT && errno != ENOTDIR))
            return false;
        if (!slash || slash == path)
            return false;
        *slash = '\0';
    } while (stat(path, out_st) < 0);
    return S_ISDIR(out_st->st_mode);
}

/* Looks at the folder first, then at the path again: a file that comes later changes the folder. */
void digests_keep_absent(struct digests *d, const char *path)
{
    struct stat st, unused;
    char *above = d ? strdup(path) : NULL;
    if (above && cut_to_folder(above, &st) && stat_is_settled(&st) && stat(path, &unused) < 0 &&
        (errno == ENOENT || errno == ENOTDIR)) {
        make_room(d);
        struct path_record *folder = known_at(d, above), *k = known_at(d, path);
        if (folder && k) {
            folder->what = FOLDER;
            folder->st = st;
            folder->pass = d->pass;
            k->what = ABSENT;
            k->st = st;
            k->folder = folder;
        }
    }
    free(above);
}
