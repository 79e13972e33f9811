/* SPDX-License-Identifier: Apache-2.0 */
/*
 * identity.c - libwarm's warm_file_identity: digests of a file's content, which the daemon
 * remembers under the file's stat. Adapters, the preload library and `warm tool` call it; warm.h
 * has the contract.
 *
 *     stat ──▶ "file:DEV:INO:SIZE:MTIME:CTIME" ──GET──▶ known: 96 hex digits
 *                                               └─────▶ not: hash, stat again, PUT
 *
 * A file that was changed a moment ago is hashed but not remembered: it could change again within
 * one tick of the file system's clock, and its times would not show that.
 *
 * Thread: one at a time for each connection.
 */
#define OPENSSL_API_COMPAT                                                                         \
    0x10100000L /* the SHA256_* calls: no context to allocate, nothing to fail */
#define OPENSSL_SUPPRESS_DEPRECATED
#define XXH_INLINE_ALL
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/lib/digests.h"
#include "client/lib/identity.h"
#include "keygen/bytes.h"
#include "keygen/err.h"
#include "keygen/expect.h"
#include "keygen/key.h"

#define NAME_MAX_BYTES 160
#define CHUNK_BYTES ((size_t)64 << 10)
#define TRIES 3               /* for a file that is written while it is read */
#define DEAR_BYTES (16 << 20) /* of a larger file one process makes the digests, and others wait */

static long long ns_of(struct timespec t) { return t.tv_sec * 1000000000ll + t.tv_nsec; }

static size_t name_of(const struct stat *st, char name[NAME_MAX_BYTES])
{
    return (size_t)snprintf(name, NAME_MAX_BYTES, "file:%llx:%llx:%lld:%lld:%lld",
                            (unsigned long long)st->st_dev, (unsigned long long)st->st_ino,
                            (long long)st->st_size, ns_of(st->st_mtim), ns_of(st->st_ctim));
}

/* Computes the digests of all bytes that can be read from `fd`. */
static int hash(int fd, char out[WARM_IDENTITY_TEXT])
{
    XXH3_state_t xxh;
    SHA256_CTX sha;
    XXH128_canonical_t check;
    uint8_t proof[32];
    ssize_t n = 0;
    if (!WARM_EXPECT(fd >= 0))
        return WARM_EINVALID;
    uint8_t *chunk = malloc(CHUNK_BYTES);
    if (!chunk)
        return WARM_ENOMEM;
    XXH3_128bits_reset(&xxh);
    SHA256_Init(&sha);
    while ((n = read(fd, chunk, CHUNK_BYTES)) > 0 || (n < 0 && errno == EINTR)) {
        if (n < 0)
            continue;
        XXH3_128bits_update(&xxh, chunk, (size_t)n);
        SHA256_Update(&sha, chunk, (size_t)n);
    }
    free(chunk);
    XXH128_canonicalFromHash(&check, XXH3_128bits_digest(&xxh));
    SHA256_Final(proof, &sha);
    bytes_to_hex(check.digest, sizeof check.digest, out);
    bytes_to_hex(proof, sizeof proof, out + 2 * sizeof check.digest);
    return n < 0 ? WARM_EIO : 0;
}

bool identity_sha256(const char identity[WARM_IDENTITY_TEXT], struct proof *out)
{
    const char *hex = identity + 2 * sizeof(XXH128_canonical_t);
    if (!WARM_EXPECT(strlen(identity) == WARM_IDENTITY_TEXT - 1))
        return false;
    for (size_t i = 0; i < sizeof out->bytes; i++)
        if (sscanf(hex + 2 * i, "%2hhx", &out->bytes[i]) != 1)
            return false;
    return true;
}

static bool is_identity(const void *data, size_t len)
{
    const char *text = data;
    if (len != WARM_IDENTITY_TEXT - 1)
        return false;
    for (size_t i = 0; i < len; i++)
        if (!strchr("0123456789abcdef", text[i]) || !text[i])
            return false;
    return true;
}

/* Asks the daemon. True if it knew the identity; otherwise *token may be a lease. */
static bool recall(struct warm *w, const struct stat *st, char out[WARM_IDENTITY_TEXT],
                   uint64_t *token)
{
    char name[NAME_MAX_BYTES];
    struct warm_value value;
    size_t len = name_of(st, name);
    int code = warm_get(w, name, len, st->st_size >= DEAR_BYTES ? WARM_WANT_LEASE : 0, &value);
    if (code == WARM_LEASE)
        *token = value.token;
    if (code)
        return false;
    bool known = is_identity(value.data, value.len);
    if (known) {
        memcpy(out, value.data, value.len);
        out[value.len] = '\0';
    }
    warm_value_free(&value);
    return known;
}

static void remember(struct warm *w, const struct stat *st, const char *identity, uint64_t token)
{
    char name[NAME_MAX_BYTES];
    struct warm_put_options options = {.token = token, .label = "identity of a file"};
    size_t len = name_of(st, name);
    warm_put(w, name, len, identity, WARM_IDENTITY_TEXT - 1, &options);
}

/* Hashes until the file is the same before and after. BUSY if it keeps changing. */
static int read_settled(int fd, struct stat *st, char out[WARM_IDENTITY_TEXT])
{
    for (int i = 0; i < TRIES; i++) {
        struct stat after;
        int code = lseek(fd, 0, SEEK_SET) < 0 ? WARM_EIO : hash(fd, out);
        if (code)
            return code;
        if (fstat(fd, &after) < 0)
            return WARM_EIO;
        if (stat_is_same(st, &after))
            return 0;
        *st = after;
    }
    return WARM_EBUSY;
}

static int identify(struct warm *w, int fd, char out[WARM_IDENTITY_TEXT])
{
    struct stat st;
    uint64_t token = 0;
    if (fstat(fd, &st) < 0)
        return WARM_EIO;
    if (!S_ISREG(st.st_mode))
        return WARM_EINVALID;
    bool remembered = w && stat_is_settled(&st);
    if (remembered && recall(w, &st, out, &token))
        return 0;
    struct stat asked = st;
    int code = read_settled(fd, &st, out);
    if (!code && remembered && stat_is_same(&asked, &st))
        remember(w, &st, out, token);
    else if (token)
        warm_release(w, token);
    return code;
}

int warm_file_identity(struct warm *w, const char *path, char out[WARM_IDENTITY_TEXT])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? WARM_ENOT_FOUND
               : errno == EACCES                   ? WARM_EDENIED
                                                   : WARM_EIO;
    char identity[WARM_IDENTITY_TEXT];
    int code = identify(w, fd, identity);
    close(fd);
    if (!code)
        memcpy(out, identity, sizeof identity);
    return code;
}
