/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blob.c - decides where a store's files lie and which bytes are in them. The copier makes drafts, the
 * writer changes blobs/, all threads open and check. Names are relative to descriptors of the store's
 * folders, so that a store can be moved while it is open.
 *
 * A put of a large value:
 *   draft_begin, draft_copy (copy, hash), draft_seal (trailer), draft_place (rename), then the caller's
 *   index transaction
 *
 * Failure modes: a crash before the rename leaves a file in tmp/, which the next start removes. A crash
 * after it leaves a blob without a row, which the idle work removes.
 *
 * Thread: any; draft_place, blob_append, blob_doom and quarantine on the writer.
 */
#define OPENSSL_API_COMPAT 0x10100000L
#define OPENSSL_SUPPRESS_DEPRECATED
#define XXH_INLINE_ALL
#include "store/blob.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "store/fault.h"

#define BLOB_PATH 96          /* OWNER/ab/ and 64 hex digits */
#define RESYNC_MAX (8u << 10) /* bytes of a torn trailer that a reader skips */
static const char footer_magic[8] = "WARMROW1";

/* Returns FULL if free space would help, else the code of the failure. */
static int io_code(int errnum)
{
    switch (errnum) {
    case ENOSPC:
    case EDQUOT: return WARM_EFULL;
    case ENOMEM: return WARM_ENOMEM;
    case ENOENT: return WARM_ENOT_FOUND;
    default: return WARM_EIO;
    }
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* True if root or this user owns a file: nobody else has anything in a store. */
static bool is_ours(const struct stat *st) { return st->st_uid == 0 || st->st_uid == geteuid(); }

static int open_folder(int at, const char *name, int *out, struct err *e)
{
    if (fault_mkdirat(at, name, 0700) != 0 && errno != EEXIST)
        return err_sys(e, WARM_EIO, errno, "store: cannot make folder %s", name);
    *out = fault_openat(at, name, O_RDONLY | O_DIRECTORY, 0);
    if (*out < 0)
        return err_sys(e, WARM_EIO, errno, "store: cannot open folder %s", name);
    struct stat st;
    if (fstat(*out, &st) != 0 || !is_ours(&st))
        return err_set(e, WARM_EDENIED, "store: folder %s belongs to another user", name);
    return 0;
}

int files_open(struct files *f, const char *dir, struct err *e)
{
    struct timespec now;
    *f = (struct files){.dir = -1, .blobs = -1, .tmp = -1, .quarantine = -1};
    clock_gettime(CLOCK_REALTIME, &now);
    f->session = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
    int rc = open_folder(AT_FDCWD, dir, &f->dir, e);
    if (rc == 0)
        rc = open_folder(f->dir, "blobs", &f->blobs, e);
    if (rc == 0)
        rc = open_folder(f->dir, "tmp", &f->tmp, e);
    if (rc == 0)
        rc = open_folder(f->dir, "quarantine", &f->quarantine, e);
    if (rc != 0)
        files_close(f);
    return rc;
}

void files_close(struct files *f)
{
    close_fd(&f->quarantine);
    close_fd(&f->tmp);
    close_fd(&f->blobs);
    close_fd(&f->dir);
}

static DIR *open_listing(int at, const char *name)
{
    int fd = fault_openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (fd < 0)
        return NULL;
    DIR *listing = fdopendir(fd);
    if (!listing)
        close(fd);
    return listing;
}

/* Returns the next name that is not hidden; NULL at the end. */
static const char *next_name(DIR *listing)
{
    struct dirent *entry;
    while ((entry = readdir(listing)))
        if (entry->d_name[0] != '.')
            return entry->d_name;
    return NULL;
}

void files_sweep_tmp(struct files *f)
{
    char mine[32];
    int mine_len = snprintf(mine, sizeof mine, "%016" PRIx64, f->session);
    DIR *listing = open_listing(f->tmp, ".");
    const char *name;
    while (listing && (name = next_name(listing)))
        if (strncmp(name, mine, (size_t)mine_len) != 0)
            fault_unlinkat(f->tmp, name, 0);
    if (listing)
        closedir(listing);
}

bool files_space(const struct files *f, uint64_t *out_bytes)
{
    struct statvfs vfs;
    if (fstatvfs(f->dir, &vfs) != 0)
        return false;
    *out_bytes = (uint64_t)vfs.f_bavail * vfs.f_frsize;
    return true;
}

/* Makes a name in tmp/ that no other file has, of this or an earlier process. */
static void tmp_name(struct files *f, const char *what, char out[DOOMED_NAME])
{
    unsigned long serial = atomic_fetch_add(&f->serial, 1);
    snprintf(out, DOOMED_NAME, "%016" PRIx64 "-%s-%lu", f->session, what, serial);
}

bool blob_id_equal(const struct blob_id *a, const struct blob_id *b)
{
    return a->owner == b->owner && memcmp(&a->content, &b->content, sizeof a->content) == 0;
}

bool blob_state_equal(const struct blob_state *a, const struct blob_state *b)
{
    return a->ino == b->ino && a->size == b->size && a->mtime_ns == b->mtime_ns &&
           a->ctime_ns == b->ctime_ns;
}

static void blob_path(const struct blob_id *id, char out[BLOB_PATH])
{
    char hex[65];
    bytes_to_hex(id->content.bytes, sizeof id->content.bytes, hex);
    snprintf(out, BLOB_PATH, "%" PRIu32 "/%.2s/%s", id->owner, hex, hex);
}

/* ---- drafts ---- */

static int write_all(int fd, const void *data, size_t len)
{
    for (const uint8_t *at = data; len;) {
        ssize_t n = fault_write(fd, at, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

/* Reads exactly `len` bytes at `offset`: 0, an errno, or -1 at the end of the file. */
static int read_exactly(int fd, void *out, size_t len, uint64_t offset)
{
    for (uint8_t *at = out; len;) {
        ssize_t n = fault_pread(fd, at, len, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        if (n == 0)
            return -1;
        at += n;
        offset += (uint64_t)n;
        len -= (size_t)n;
    }
    return 0;
}

static int read_failed(int rc, struct err *e)
{
    if (rc < 0)
        return err_set(e, WARM_ETRUNCATED, "the file is shorter than was said");
    return err_sys(e, WARM_EIO, rc, "cannot read the value");
}

int value_read(int fd, void *out, size_t len, struct err *e)
{
    int rc = read_exactly(fd, out, len, 0);
    return rc == 0 ? 0 : read_failed(rc, e);
}

static struct key key_from_xxh(XXH3_state_t *xxh)
{
    struct key key;
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(xxh));
    memcpy(key.bytes, canonical.digest, sizeof key.bytes);
    return key;
}

struct hashing {
    XXH3_state_t xxh; /* aligned to 64 bytes */
    SHA256_CTX sha;
    uint64_t done;
    uint8_t piece[BLOB_PIECE];
};

struct hashing *hashing_new(void)
{
    struct hashing *h = fault_malloc_aligned(_Alignof(struct hashing), sizeof *h);
    if (!h)
        return NULL;
    XXH3_128bits_reset(&h->xxh);
    SHA256_Init(&h->sha);
    h->done = 0;
    return h;
}

void hashing_free(struct hashing *h) { free(h); }

static size_t next_piece(const struct hashing *h, uint64_t len)
{
    return len - h->done < BLOB_PIECE ? (size_t)(len - h->done) : BLOB_PIECE;
}

int draft_begin(struct files *f, struct draft *d, uint64_t len, struct err *e)
{
    *d = DRAFT_NONE;
    d->len = len;
    uint64_t space;
    if (files_space(f, &space) && space < len)
        return err_set(e, WARM_EFULL, "no space for a value of %" PRIu64 " bytes", len);
    tmp_name(f, "put", d->name);
    d->fd = fault_openat(f->tmp, d->name, O_WRONLY | O_CREAT | O_EXCL, 0400);
    d->made = d->fd >= 0;
    return d->made ? 0 : err_sys(e, io_code(errno), errno, "cannot make a file in the store");
}

static int copy_piece(struct draft *d, struct hashing *h, const uint8_t *data, int fd,
                      struct err *e)
{
    size_t n = next_piece(h, d->len);
    assert(d->made && h->done < d->len);
    int rc = data ? 0 : read_exactly(fd, h->piece, n, h->done);
    if (rc != 0)
        return read_failed(rc, e);
    const uint8_t *at = data ? data + h->done : h->piece;
    XXH3_128bits_update(&h->xxh, at, n);
    SHA256_Update(&h->sha, at, n);
    rc = write_all(d->fd, at, n);
    if (rc != 0)
        return err_sys(e, io_code(rc), rc, "cannot write a value of %" PRIu64 " bytes", d->len);
    h->done += n;
    return 0;
}

int draft_copy(struct files *f, struct draft *d, struct hashing *h, const void *data, int fd,
               uint64_t max, struct err *e)
{
    uint64_t end = d->len - h->done > max ? h->done + max : d->len;
    int rc = 0;
    while (rc == 0 && h->done < end)
        rc = copy_piece(d, h, data, fd, e);
    if (rc != 0)
        draft_drop(f, d);
    if (rc != 0 || h->done < d->len)
        return rc ? rc : 1;
    d->check = key_from_xxh(&h->xxh);
    SHA256_Final(d->content.bytes, &h->sha);
    return 0;
}

/* Writes a row and its footer. */
static void trailer_encode(const struct store_row *row, struct writer *w)
{
    row_encode(row, w);
    uint32_t len = (uint32_t)w->len;
    writer_u32(w, len);
    writer_u32(w, ~len);
    writer_bytes(w, footer_magic, sizeof footer_magic);
}

int draft_seal(struct files *f, struct draft *d, const struct store_row *row, struct err *e)
{
    struct writer w;
    assert(d->made && d->fd >= 0 && row->is_blob && row->len == d->len);
    writer_init(&w, 0);
    trailer_encode(row, &w);
    int rc = w.failed ? ENOMEM : write_all(d->fd, w.data, w.len);
    writer_close(&w);
    close_fd(&d->fd);
    if (rc == 0) {
        d->fd = fault_openat(f->tmp, d->name, O_RDONLY, 0);
        rc = d->fd < 0 ? errno : 0;
    }
    if (rc != 0)
        return err_sys(e, io_code(rc), rc, "cannot finish a file in the store");
    return 0;
}

/* Makes the folders OWNER and OWNER/ab of a blob's path. */
static int make_folders(struct files *f, const char *path)
{
    char folder[BLOB_PATH];
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
        if (fault_mkdirat(f->blobs, folder, 0700) != 0 && errno != EEXIST)
            return errno;
    }
    return 0;
}

int draft_place(struct files *f, struct draft *d, uint32_t owner, struct err *e)
{
    if (d->placed)
        return 0;
    assert(d->made);
    char path[BLOB_PATH];
    blob_path(&(struct blob_id){owner, d->content}, path);
    int rc = fault_renameat(f->tmp, d->name, f->blobs, path) == 0 ? 0 : errno;
    if (rc == ENOENT) {
        rc = make_folders(f, path);
        if (rc == 0)
            rc = fault_renameat(f->tmp, d->name, f->blobs, path) == 0 ? 0 : errno;
    }
    if (rc != 0)
        return err_sys(e, rc == ENOENT ? WARM_EIO : io_code(rc), rc,
                       "cannot move a file within the store");
    d->placed = true;
    d->made = false;
    return 0;
}

void draft_drop(struct files *f, struct draft *d)
{
    close_fd(&d->fd);
    if (d->made)
        fault_unlinkat(f->tmp, d->name, 0);
    d->made = false;
}

/* ---- blobs ---- */

static int64_t to_ns(struct timespec t) { return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec; }

int blob_fstat(int fd, struct blob_state *out)
{
    struct stat st;
    if (fault_fstat(fd, &st) != 0)
        return WARM_EIO;
    *out =
        (struct blob_state){st.st_ino, (uint64_t)st.st_size, to_ns(st.st_mtim), to_ns(st.st_ctim)};
    return S_ISREG(st.st_mode) && is_ours(&st) ? 0 : WARM_ECORRUPT;
}

int blob_open(struct files *f, const struct blob_id *id, uint64_t len, int *out_fd,
              struct blob_state *out_state, struct err *e)
{
    char path[BLOB_PATH];
    blob_path(id, path);
    int fd = fault_openat(f->blobs, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
    if (fd < 0)
        return err_sys(e, errno == ELOOP ? WARM_ECORRUPT : io_code(errno), errno,
                       "cannot open a value's file");
    int rc = blob_fstat(fd, out_state);
    if (rc == 0 && out_state->size < len)
        rc = WARM_ECORRUPT;
    if (rc != 0) {
        close(fd);
        return err_set(e, rc, "a value's file is not what it was");
    }
    *out_fd = fd;
    return 0;
}

int blob_check(int fd, uint64_t len, const struct key *check, void *piece, const atomic_bool *stop,
               struct err *e)
{
    XXH3_state_t xxh;
    XXH3_128bits_reset(&xxh);
    for (uint64_t done = 0; done < len;) {
        size_t n = len - done < BLOB_PIECE ? (size_t)(len - done) : BLOB_PIECE;
        int rc = read_exactly(fd, piece, n, done);
        if (rc < 0)
            return err_set(e, WARM_ECORRUPT, "a value's file is too short");
        if (rc > 0)
            return err_sys(e, WARM_EIO, rc, "cannot read a value's file");
        if (stop && atomic_load(stop))
            return err_set(e, WARM_ECANCELLED, "cancelled");
        XXH3_128bits_update(&xxh, piece, n);
        done += n;
    }
    struct key found = key_from_xxh(&xxh);
    return key_equal(&found, check) ? 0 : err_set(e, WARM_ECORRUPT, "a value's bytes changed");
}

int blob_check_some(int fd, uint64_t len, const struct key *check, struct hashing *h, uint64_t max,
                    struct err *e)
{
    for (uint64_t end = len - h->done > max ? h->done + max : len; h->done < end;) {
        size_t n = next_piece(h, len);
        int rc = read_exactly(fd, h->piece, n, h->done);
        if (rc < 0)
            return err_set(e, WARM_ECORRUPT, "a value's file is too short");
        if (rc > 0)
            return err_sys(e, WARM_EIO, rc, "cannot read a value's file");
        XXH3_128bits_update(&h->xxh, h->piece, n);
        h->done += n;
    }
    if (h->done < len)
        return 1;
    struct key found = key_from_xxh(&h->xxh);
    return key_equal(&found, check) ? 0 : err_set(e, WARM_ECORRUPT, "a value's bytes changed");
}

/* Opens for appending a file whose mode is 0400. */
static int open_to_append(struct files *f, const char *path, int reader)
{
    if (fault_fchmod(reader, 0600) != 0)
        return -1;
    int fd = fault_openat(f->blobs, path, O_WRONLY | O_APPEND | O_NOFOLLOW, 0);
    int errnum = errno;
    if (fault_fchmod(reader, 0400) != 0 && fd >= 0) {
        errnum = errno;
        close_fd(&fd);
    }
    errno = errnum;
    return fd;
}

static int append_trailer(int fd, const struct store_row *row, uint64_t size)
{
    struct writer w;
    writer_init(&w, 0);
    trailer_encode(row, &w);
    int rc = w.failed ? ENOMEM : write_all(fd, w.data, w.len);
    writer_close(&w);
    if (rc != 0 && ftruncate(fd, (off_t)size) != 0)
        return EIO; /* the torn trailer stays; readers step over it */
    return rc;
}

int blob_append(struct files *f, const struct blob_id *id, const struct store_row *row,
                struct blob_state *out_before, struct blob_state *out_after, struct err *e)
{
    char path[BLOB_PATH];
    int reader = -1, fd = -1;
    blob_path(id, path);
    int rc = blob_open(f, id, row->len, &reader, out_before, e);
    if (rc == WARM_ECORRUPT)
        rc = WARM_ENOT_FOUND; /* shorter than the value: the caller replaces it */
    if (rc != 0)
        return rc;
    if (out_before->size - row->len > BLOB_TRAILERS_MAX) {
        close(reader);
        return err_set(e, WARM_EFULL, "no room for more trailers");
    }
    fd = open_to_append(f, path, reader);
    rc = fd < 0 ? errno : append_trailer(fd, row, out_before->size);
    int code = rc == 0 ? blob_fstat(reader, out_after) : io_code(rc);
    close_fd(&fd);
    close_fd(&reader);
    return code == 0 ? 0 : err_sys(e, code, rc, "cannot append to a value's file");
}

int blob_doom(struct files *f, const struct blob_id *id, char out_name[DOOMED_NAME])
{
    char path[BLOB_PATH];
    blob_path(id, path);
    tmp_name(f, "del", out_name);
    return fault_renameat(f->blobs, path, f->tmp, out_name) == 0 ? 0 : io_code(errno);
}

void blob_bury(struct files *f, const char *name) { fault_unlinkat(f->tmp, name, 0); }

/* ---- quarantine ---- */

/* Removes the oldest files until there is room for one more. */
static void quarantine_trim(struct files *f)
{
    for (size_t round = 0; round < 4; round++) {
        char oldest[256] = "";
        struct timespec oldest_time = {0};
        size_t n = 0;
        DIR *listing = open_listing(f->quarantine, ".");
        const char *name;
        while (listing && (name = next_name(listing))) {
            struct stat st;
            if (fstatat(f->quarantine, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
                continue;
            if (n++ == 0 || to_ns(st.st_ctim) < to_ns(oldest_time)) {
                snprintf(oldest, sizeof oldest, "%s", name);
                oldest_time = st.st_ctim;
            }
        }
        if (listing)
            closedir(listing);
        if (n < QUARANTINE_MAX)
            return;
        fault_unlinkat(f->quarantine, oldest, 0);
    }
}

int blob_quarantine(struct files *f, const struct blob_id *id)
{
    char path[BLOB_PATH], name[DOOMED_NAME + 80];
    char unique[DOOMED_NAME];
    quarantine_trim(f);
    blob_path(id, path);
    tmp_name(f, "blob", unique);
    snprintf(name, sizeof name, "%s-%s", unique, strrchr(path, '/') + 1);
    return fault_renameat(f->blobs, path, f->quarantine, name) == 0 ? 0 : io_code(errno);
}

int value_quarantine(struct files *f, const struct store_id *id, const void *data, size_t len)
{
    char hex[WARM_KEY_TEXT], unique[DOOMED_NAME], name[DOOMED_NAME + 80];
    quarantine_trim(f);
    key_to_text(&id->key, hex);
    tmp_name(f, "value", unique);
    snprintf(name, sizeof name, "%s-%" PRIu32 "-%s", unique, id->owner, hex);
    int fd = fault_openat(f->quarantine, name, O_WRONLY | O_CREAT | O_EXCL, 0400);
    if (fd < 0)
        return io_code(errno);
    int rc = write_all(fd, data, len);
    close(fd);
    return rc == 0 ? 0 : io_code(rc);
}

/* ---- trailers, backwards ---- */

/* Reads the row whose trailer ends at window[end]. False if there is none. */
static bool trailer_at(const uint8_t *window, size_t end, struct store_row *out, size_t *out_begin)
{
    if (end < BLOB_FOOTER)
        return false;
    struct reader r = reader_over(window + end - BLOB_FOOTER, BLOB_FOOTER);
    uint32_t len = reader_u32(&r), inverse = reader_u32(&r);
    struct view magic = reader_bytes(&r, sizeof footer_magic);
    if (r.failed || inverse != ~len || memcmp(magic.data, footer_magic, sizeof footer_magic) != 0)
        return false;
    if (len > ROW_MAX || len > end - BLOB_FOOTER)
        return false;
    *out_begin = end - BLOB_FOOTER - len;
    return row_decode(window + *out_begin, len, out) == 0;
}

int blob_rows(int fd, uint64_t size, blob_row_cb cb, void *arg, size_t *out_n)
{
    /* The window holds all trailers and the torn one that may follow them. */
    size_t want = BLOB_TRAILERS_MAX + ROW_MAX + BLOB_FOOTER + RESYNC_MAX;
    size_t len = size < want ? (size_t)size : want;
    uint64_t base = size - len, value_len = 0;
    size_t n = 0, end = len, torn = 0;
    uint8_t *window = fault_malloc(len ? len : 1);
    int rc = window ? read_exactly(fd, window, len, base) : ENOMEM;
    if (rc != 0) {
        free(window);
        return io_code(rc);
    }
    while (end > 0 && torn <= RESYNC_MAX && base + end > value_len) {
        struct store_row row;
        size_t begin;
        bool found = trailer_at(window, end, &row, &begin);
        if (!found || row.len > base + begin || (n && row.len != value_len)) {
            end--;
            torn++;
            continue;
        }
        value_len = row.len; /* all below is the value, whatever it looks like */
        end = begin;
        torn = 0;
        n++;
        if (!cb(arg, &row))
            break;
    }
    free(window);
    *out_n = n;
    return 0;
}

/* ---- the walk ---- */

int blob_walk_begin(struct files *f, struct blob_walk *w, struct err *e)
{
    *w = (struct blob_walk){.owners = open_listing(f->blobs, ".")};
    if (!w->owners)
        return err_sys(e, WARM_EIO, errno, "store: cannot list blobs");
    return 0;
}

static void close_listing(DIR **listing)
{
    if (*listing)
        closedir(*listing);
    *listing = NULL;
}

void blob_walk_end(struct blob_walk *w)
{
    close_listing(&w->names);
    close_listing(&w->prefixes);
    close_listing(&w->owners);
}

static bool parse_owner(const char *text, uint32_t *out)
{
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (*end || end == text || v > UINT32_MAX || errno || text[0] < '0' || text[0] > '9')
        return false;
    *out = (uint32_t)v;
    return true;
}

static bool parse_content(const char *text, struct proof *out)
{
    struct key half[2];
    if (strlen(text) != 64)
        return false;
    if (!key_from_text(text, 32, &half[0]) || !key_from_text(text + 32, 32, &half[1]))
        return false;
    memcpy(out->bytes, half[0].bytes, 16);
    memcpy(out->bytes + 16, half[1].bytes, 16);
    return true;
}

/* Opens a folder of the walk. A file, or a folder that has gone, counts as empty. */
static DIR *walk_into(struct blob_walk *w, DIR *parent, const char *name)
{
    DIR *listing = open_listing(dirfd(parent), name);
    w->incomplete |= !listing && errno != ENOENT && errno != ENOTDIR && errno != ELOOP;
    return listing;
}

static const char *walk_name(struct blob_walk *w, DIR *listing)
{
    errno = 0;
    const char *name = next_name(listing);
    w->incomplete |= !name && errno;
    return name;
}

int blob_walk_next(struct blob_walk *w, struct blob_id *out)
{
    const char *name;
    for (;;) {
        if (w->names && (name = walk_name(w, w->names))) {
            out->owner = w->owner;
            if (parse_content(name, &out->content))
                return 1;
        } else if (close_listing(&w->names), w->prefixes && (name = walk_name(w, w->prefixes))) {
            w->names = walk_into(w, w->prefixes, name);
        } else if (close_listing(&w->prefixes), w->owners && (name = walk_name(w, w->owners))) {
            if (parse_owner(name, &w->owner))
                w->prefixes = walk_into(w, w->owners, name);
        } else {
            return 0;
        }
    }
}
