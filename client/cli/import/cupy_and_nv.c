/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cupy_and_nv.c - two formats of cache folders whose files stay as they are: CuPy's, and the CUDA
 * driver's. foreign_cache.c lists them.
 *
 * A file of CuPy is a digest in hex, then a cubin, PTX or LTO-IR with that digest: CuPy checks it,
 * and so do we. The format of the driver's files is not known.
 *
 * Thread: main.
 */
#define OPENSSL_API_COMPAT                                                                         \
    0x10100000L /* digests without a context to allocate, as in keygen/key.c */
#define OPENSSL_SUPPRESS_DEPRECATED

#include <dirent.h>
#include <errno.h>
#include <openssl/md5.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "client/cli/import/foreign_format.h"

/* ---- cupy ---- */

static bool begins_with_hex(struct view v, const uint8_t *digest, size_t len)
{
    char text[2 * SHA_DIGEST_LENGTH + 1];
    bytes_to_hex(digest, len, text);
    return memcmp(v.data, text, 2 * len) == 0;
}

static bool begins_with_sha1(struct view v)
{
    uint8_t digest[SHA_DIGEST_LENGTH];
    size_t len = 2 * sizeof digest;
    SHA_CTX sha;
    if (v.len <= len)
        return false;
    SHA1_Init(&sha);
    SHA1_Update(&sha, (const char *)v.data + len, v.len - len);
    SHA1_Final(digest, &sha);
    return begins_with_hex(v, digest, sizeof digest);
}

/* True for files of CuPy up to version 12. */
static bool begins_with_md5(struct view v)
{
    uint8_t digest[MD5_DIGEST_LENGTH];
    size_t len = 2 * sizeof digest;
    MD5_CTX md5;
    if (v.len <= len)
        return false;
    MD5_Init(&md5);
    MD5_Update(&md5, (const char *)v.data + len, v.len - len);
    MD5_Final(digest, &md5);
    return begins_with_hex(v, digest, sizeof digest);
}

static int read_cupy_file(const struct foreign_walk *w, const char *folder, const char *file)
{
    char path[PATH_MAX], name[PATH_MAX];
    struct cli_input in;
    int code = 0;
    if (text_ends(file, ".cu")) /* a source, for people */
        return 0;
    if (!foreign_join(path, folder, view_of_text(file)) || !foreign_open(w, &in, path))
        return 0;
    struct view v = {in.data, in.len};
    snprintf(name, sizeof name, "cupy:%s", file);
    if (begins_with_sha1(v) || begins_with_md5(v))
        code = foreign_emit(w, "cubin", 0, path, name, v);
    else
        foreign_bad(w, path, "cut short or damaged");
    cli_input_close(&in);
    return code;
}

static int read_cupy(const struct foreign_walk *w, const char *folder)
{
    return foreign_each(w, folder, false, read_cupy_file);
}

static int write_cupy(const char *root, const struct archive_entry *entry, struct err *e)
{
    struct view file;
    return foreign_after(entry->name, "cupy:", &file)
               ? foreign_write_named(root, file, entry->value, e)
               : 0;
}

/* ---- nv ---- */

static int read_nv_below(const struct foreign_walk *w, const char *root, const char *below,
                         int depth)
{
    char folder[PATH_MAX];
    struct dirent **names;
    if (!foreign_join(folder, root, view_of_text(below)))
        return 0;
    int n = scandir(folder, &names, NULL, alphasort), code = 0;
    if (n < 0)
        return err_sys(w->e, WARM_EIO, errno, "%s", folder);
    for (int i = 0; i < n; i++) {
        char path[PATH_MAX], inner[PATH_MAX], name[PATH_MAX + 4];
        const char *file = names[i]->d_name;
        struct stat st;
        struct cli_input in;
        int len = snprintf(inner, sizeof inner, "%s%s%s", below, *below ? "/" : "", file);
        bool taken = !code && file[0] != '.' && len < PATH_MAX &&
                     foreign_join(path, folder, view_of_text(file)) && lstat(path, &st) == 0;
        if (taken && S_ISDIR(st.st_mode) && depth > 0) {
            code = read_nv_below(w, root, inner, depth - 1);
        } else if (taken && foreign_open(w, &in, path)) {
            snprintf(name, sizeof name, "nv:%s", inner);
            code = foreign_emit(w, "other", 0, path, name, (struct view){in.data, in.len});
            cli_input_close(&in);
        }
        free(names[i]);
    }
    free(names);
    return code;
}

static int read_nv(const struct foreign_walk *w, const char *folder)
{
    return read_nv_below(w, folder, "", 4);
}

static int write_nv(const char *root, const struct archive_entry *entry, struct err *e)
{
    char path[PATH_MAX];
    struct view below;
    if (!foreign_after(entry->name, "nv:", &below))
        return 0;
    for (struct view left = below; left.len;) { /* each part stays in its folder */
        const char *slash = memchr(left.data, '/', left.len);
        size_t len = slash ? (size_t)(slash - (const char *)left.data) : left.len;
        if (!foreign_is_plain((struct view){left.data, len}) || (slash && len + 1 == left.len))
            return err_set(e, WARM_EMALFORMED, "a name that is no file's");
        left = slash ? (struct view){slash + 1, left.len - len - 1} : (struct view){0};
    }
    if (!below.len || !foreign_join(path, root, below))
        return err_set(e, WARM_EMALFORMED, "a path that is too long");
    return foreign_write_file(path, entry->value, e);
}

const struct foreign_format foreign_cupy = {"cupy", read_cupy, write_cupy};

const struct foreign_format foreign_nv = {"nv", read_nv, write_nv};
