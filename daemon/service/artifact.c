/* SPDX-License-Identifier: Apache-2.0 */
/*
 * artifact.c - holds a value while the store, answers and flights use it, and checks the memfds that carry
 * values.
 *
 * put.c, build.c and the wires make artifacts; the last reference frees one. Bytes that a client sent are
 * read, never mapped: the client may shorten an unsealed file.
 *
 * Thread: loop thread; artifact_hash and the memfd_, fd_ and file_ functions: any.
 */
#define XXH_INLINE_ALL
#include "daemon/service/artifact.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "client/lib/whole_io.h"
#include "client/wire/memfd.h"
#include "daemon/headers/manifest.h"
#include "daemon/process/closer.h"

#define HOLES_MAX (1u << 20) /* bytes: a memfd up to this may be all holes */
#define HASH_PIECE (64u << 10)
#define MEMFD_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

int memfd_check(int fd, uint64_t len, struct err *e)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0)
        return err_set(e, WARM_EINVALID, "the descriptor that came along is no memfd");
    if ((seals & MEMFD_SEALS) != MEMFD_SEALS)
        return err_set(e, WARM_EINVALID, "the memfd that came along is not sealed");
    if (fstat(fd, &st) != 0)
        return err_sys(e, WARM_EIO, errno, "cannot look at a memfd");
    uint64_t written = (uint64_t)st.st_blocks * 512;
    if (len > HOLES_MAX && written < len - len / 2)
        return err_set(e, WARM_EINVALID, "the memfd has %llu bytes, of which %llu were written",
                       (unsigned long long)st.st_size, (unsigned long long)written);
    if ((uint64_t)st.st_size < len)
        return err_set(e, WARM_ETRUNCATED, "the memfd has %llu bytes, %llu were announced",
                       (unsigned long long)st.st_size, (unsigned long long)len);
    return 0;
}

int memfd_from_bytes(const void *data, size_t len, int *out, struct err *e)
{
    int fd = memfd_of_bytes("warm", data, len, e);
    if (fd < 0)
        return fd;
    *out = fd;
    return 0;
}

/* Opens by a name below a descriptor of the folder, which costs less than the whole path. */
int fd_reopen(int fd)
{
    static _Atomic int folder = -1;
    char name[16], *at = name + sizeof name;
    int own = folder;
    if (own < 0) {
        own = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (own < 0)
            return -1;
        folder = own;
    }
    *--at = '\0';
    for (unsigned n = (unsigned)fd; n || !*at; n /= 10)
        *--at = (char)('0' + n % 10);
    return openat(own, at, O_RDONLY | O_CLOEXEC);
}

int file_read_at(int fd, void *out, size_t len, uint64_t from, struct err *e)
{
    ssize_t n = whole_read(fd, out, len, (off_t)from);
    if (n < 0)
        return err_sys(e, WARM_EIO, errno, "cannot read a value");
    if ((size_t)n < len)
        return err_set(e, WARM_ETRUNCATED, "a value ends after %zd of %zu bytes", n, len);
    return 0;
}

int file_read_start(int fd, void *out, size_t len, struct err *e)
{
    return file_read_at(fd, out, len, 0, e);
}

struct artifact *artifact_from_known(const void *data, size_t len, const struct key *check)
{
    struct artifact *a = malloc(sizeof *a);
    uint8_t *copy = malloc(len ? len : 1);
    if (!a || !copy) {
        free(a);
        free(copy);
        return NULL;
    }
    memcpy(copy, data, len);
    *a = (struct artifact){
        .refs = 1, .check = *check, .hashed = true, .len = len, .data = copy, .fd = -1};
    return a;
}

struct artifact *artifact_from_bytes(const void *data, size_t len)
{
    struct key check = key_of_bytes(data, len);
    return artifact_from_known(data, len, &check);
}

/* Reads, since a mapping of somebody else's file may fault. */
int artifact_hash(struct artifact *a, struct err *e)
{
    assert((a->data == NULL) == (a->fd >= 0));
    uint8_t piece[HASH_PIECE];
    XXH3_state_t *xxh = a->hashed ? NULL : XXH3_createState();
    XXH128_canonical_t canonical;
    if (a->hashed)
        return 0;
    if (!xxh)
        return err_set(e, WARM_ENOMEM, "no memory for a value");
    int code = 0;
    XXH3_128bits_reset(xxh);
    for (uint64_t at = 0; code == 0 && at < a->len; at += sizeof piece) {
        size_t n = a->len - at < sizeof piece ? (size_t)(a->len - at) : sizeof piece;
        code = file_read_at(a->fd, piece, n, at, e);
        XXH3_128bits_update(xxh, piece, code ? 0 : n);
    }
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(xxh));
    memcpy(a->check.bytes, canonical.digest, sizeof a->check.bytes);
    a->hashed = code == 0;
    XXH3_freeState(xxh);
    return code;
}

int artifact_from_fd(int fd, uint64_t len, const struct key *check, struct artifact **out,
                     struct err *e)
{
    if (len <= ARTIFACT_INLINE_MAX) {
        uint8_t bytes[ARTIFACT_INLINE_MAX];
        int code = file_read_start(fd, bytes, len, e);
        if (code == 0 && !(*out = artifact_from_bytes(bytes, len)))
            code = err_set(e, WARM_ENOMEM, "no memory for a value");
        fd_close_later(fd);
        return code;
    }
    struct artifact *a = malloc(sizeof *a);
    if (!a) {
        fd_close_later(fd);
        return err_set(e, WARM_ENOMEM, "no memory for a value");
    }
    *a = (struct artifact){.refs = 1, .hashed = check != NULL, .len = len, .fd = fd};
    if (check)
        a->check = *check;
    *out = a;
    return 0;
}

struct artifact *artifact_from_stored(const struct store_value *v)
{
    struct artifact *a = NULL;
    int fd = v->data ? -1 : fcntl(v->fd, F_DUPFD_CLOEXEC, 3);
    if (v->data)
        a = artifact_from_known(v->data, v->row.len, &v->row.check);
    else if (fd < 0 || artifact_from_fd(fd, v->row.len, &v->row.check, &a, NULL) != 0)
        return NULL;
    if (!a)
        return NULL;
    a->kind = v->row.kind;
    a->cost_ms = v->row.cost_ms;
    a->key = v->row.id.key;
    return a;
}

struct store_value artifact_as_stored(const struct artifact *a)
{
    return (struct store_value){.data = a->data,
                                .fd = a->fd,
                                .row = {.id.key = a->key,
                                        .kind = a->kind,
                                        .len = a->len,
                                        .check = a->check,
                                        .cost_ms = a->cost_ms}};
}

struct artifact *artifact_ref(struct artifact *a)
{
    assert(a->refs);
    a->refs++;
    return a;
}

void artifact_unref(struct artifact *a)
{
    assert(!a || a->refs);
    if (!a || --a->refs)
        return;
    if (a->fd >= 0)
        fd_close_later(a->fd);
    manifest_unref(a->manifest);
    free(a->data);
    free(a);
}
