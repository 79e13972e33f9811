/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inductor.c - a format of cache folders: TorchInductor's. foreign_cache.c lists it.
 *
 *     fxgraph/ XX/KEY/DIGEST     aotautograd/ KEY/DIGEST     pickles; several of one key differ in
 *                                                            their conditions on dynamic shapes
 *     XX/FILE.so                 kernels for CPUs, which took most of the time to compile
 *     triton/DEVICE/             a folder of Triton's
 *
 * Sources and wrappers are skipped: Inductor writes them from its pickles.
 *
 * Thread: main.
 */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/import/foreign_format.h"
#include "keygen/key.h"

#define DIGEST_TEXT 52 /* characters of a SHA-256 in base 32, NUL included; the last is left out */
#define OBJECT_PREFIX "inductor:"
#define TORCH_MAGIC "\0torch1\n"
#define TORCH_MAGIC_LEN 8u
#define VERSION ":c1"      /* ends the names that PyTorch gives to graphs */
#define CHECKED ":checked" /* stands behind it in those of client/python/warm/torch.py */

/* Writes Inductor's name of a file: the SHA-256 of its content in base 32, without the last
 * digit. */
static void digest_name(struct view content, char out[DIGEST_TEXT])
{
    static const char digits[] = "abcdefghijklmnopqrstuvwxyz234567";
    struct proof sha = proof_of_bytes(content.data, content.len);
    for (unsigned i = 0; i < DIGEST_TEXT - 1; i++) {
        unsigned at = i * 5 / 8, shift = i * 5 % 8;
        unsigned two = (unsigned)sha.bytes[at] << 8 | (at + 1 < 32 ? sha.bytes[at + 1] : 0);
        out[i] = digits[two >> (11 - shift) & 31];
    }
    out[DIGEST_TEXT - 1] = '\0';
}

static bool pickle_is_whole(const char *file, struct view v)
{
    const uint8_t *bytes = v.data;
    char digest[DIGEST_TEXT];
    if (v.len < 4 || bytes[0] != 0x80 || bytes[v.len - 1] != '.')
        return false;
    if (strlen(file) != DIGEST_TEXT - 1)
        return true; /* a version with other names of files */
    digest_name(v, digest);
    return strcmp(file, digest) == 0;
}

struct newest {
    char path[PATH_MAX];
    struct timespec time;
};

/* Finds the newest of the values of a key: torch's remote cache has one value for a key, its folder
 * several. */
static bool find_newest(const char *folder, struct newest *out)
{
    DIR *d = opendir(folder);
    out->path[0] = '\0';
    for (struct dirent *at; d && (at = readdir(d));) {
        char path[PATH_MAX];
        struct stat st;
        if (at->d_name[0] == '.' || !foreign_join(path, folder, view_of_text(at->d_name)) ||
            lstat(path, &st) || !S_ISREG(st.st_mode))
            continue;
        bool newer = st.st_mtim.tv_sec != out->time.tv_sec ? st.st_mtim.tv_sec > out->time.tv_sec
                                                           : st.st_mtim.tv_nsec > out->time.tv_nsec;
        if (!out->path[0] || newer) {
            strcpy(out->path, path);
            out->time = st.st_mtim;
        }
    }
    if (d)
        closedir(d);
    return out->path[0];
}

static int read_inductor_key(const struct foreign_walk *w, const char *folder, const char *key,
                             const char *kind, const char *format)
{
    char path[PATH_MAX], name[PATH_MAX + 64];
    struct newest newest;
    struct cli_input in;
    struct writer value;
    int code = 0;
    if (!foreign_join(path, folder, view_of_text(key)) || !find_newest(path, &newest) ||
        !foreign_open(w, &in, newest.path))
        return 0;
    snprintf(name, sizeof name, "pt2:%s::%s" VERSION, format, key);
    writer_init(&value, 0);
    writer_bytes(&value, TORCH_MAGIC, TORCH_MAGIC_LEN);
    writer_bytes(&value, in.data, in.len);
    if (!pickle_is_whole(strrchr(newest.path, '/') + 1, (struct view){in.data, in.len}))
        foreign_bad(w, newest.path, "cut short or damaged");
    else if (!value.failed)
        code = foreign_emit(w, kind, 0, newest.path, name, (struct view){value.data, value.len});
    writer_close(&value);
    cli_input_close(&in);
    return code;
}

static int read_fx_key(const struct foreign_walk *w, const char *folder, const char *key)
{
    return read_inductor_key(w, folder, key, "fx-graph", "fx-graph-v1");
}

static int read_autograd_key(const struct foreign_walk *w, const char *folder, const char *key)
{
    return read_inductor_key(w, folder, key, "backward", "autograd-experimental");
}

static int read_fx_shelf(const struct foreign_walk *w, const char *folder, const char *shelf)
{
    char path[PATH_MAX];
    return foreign_join(path, folder, view_of_text(shelf))
               ? foreign_each(w, path, true, read_fx_key)
               : 0;
}

static int read_object(const struct foreign_walk *w, const char *folder, const char *file)
{
    char path[PATH_MAX], name[PATH_MAX];
    struct cli_input in;
    size_t len = strlen(file);
    if (len < 4 || strcmp(file + len - 3, ".so") != 0 ||
        !foreign_join(path, folder, view_of_text(file)) || !foreign_open(w, &in, path))
        return 0;
    snprintf(name, sizeof name, OBJECT_PREFIX "%s/%s", strrchr(folder, '/') + 1, file);
    int code = foreign_emit(w, "object", 0, path, name, (struct view){in.data, in.len});
    cli_input_close(&in);
    return code;
}

/* Reads the objects of a shelf: shelf "ab" has "cabdef.main.so". */
static int read_objects(const struct foreign_walk *w, const char *folder, const char *shelf)
{
    char path[PATH_MAX];
    return strlen(shelf) == 2 && foreign_join(path, folder, view_of_text(shelf))
               ? foreign_each(w, path, false, read_object)
               : 0;
}

static int read_device(const struct foreign_walk *w, const char *folder, const char *device)
{
    char path[PATH_MAX];
    return foreign_join(path, folder, view_of_text(device)) ? foreign_triton.read(w, path) : 0;
}

static int read_inductor(const struct foreign_walk *w, const char *folder)
{
    static const struct {
        const char *name;
        int (*each)(const struct foreign_walk *w, const char *folder, const char *name);
    } parts[] = {
        {"fxgraph", read_fx_shelf}, {"aotautograd", read_autograd_key}, {"triton", read_device}};
    char path[PATH_MAX];
    int code = foreign_each(w, folder, true, read_objects);
    for (size_t i = 0; !code && i < sizeof parts / sizeof *parts; i++)
        if (foreign_join(path, folder, view_of_text(parts[i].name)) && access(path, F_OK) == 0)
            code = foreign_each(w, path, true, parts[i].each);
    return code;
}

/* Writes an object "XX/FILE.so". */
static int write_object(const char *root, struct view below, struct view value, struct err *e)
{
    char folder[PATH_MAX];
    struct view shelf = {below.data, 2};
    if (below.len < 4 || ((const char *)below.data)[2] != '/' || !foreign_is_plain(shelf) ||
        !foreign_join(folder, root, shelf))
        return err_set(e, WARM_EMALFORMED, "a name that is no file's");
    struct view file = {(const char *)below.data + 3, below.len - 3};
    return foreign_write_named(folder, file, value, e);
}

/* Takes `end` from the end of a name. False if the name has another end. */
static bool take_end(struct view *name, const char *end)
{
    size_t len = strlen(end);
    if (name->len <= len || memcmp((const char *)name->data + name->len - len, end, len) != 0)
        return false;
    name->len -= len;
    return true;
}

static int write_inductor(const char *root, const struct archive_entry *entry, struct err *e)
{
    char folder[PATH_MAX], digest[DIGEST_TEXT];
    struct view key, value = entry->value;
    if (foreign_after(entry->name, OBJECT_PREFIX, &key))
        return write_object(root, key, value, e);
    bool fx = foreign_after(entry->name, "pt2:fx-graph-v1::", &key);
    if (!fx && !foreign_after(entry->name, "pt2:autograd-experimental::", &key))
        return 0;
    take_end(&key, CHECKED);
    if (!take_end(&key, VERSION) || key.len < 3)
        return 0;
    if (value.len < TORCH_MAGIC_LEN || memcmp(value.data, TORCH_MAGIC, TORCH_MAGIC_LEN) != 0)
        return err_set(e, WARM_EMALFORMED, "no pickle of torch");
    value = (struct view){(const char *)value.data + TORCH_MAGIC_LEN, value.len - TORCH_MAGIC_LEN};
    const char *text = key.data;
    if (!foreign_is_plain(key))
        return err_set(e, WARM_EMALFORMED, "a name that is no file's");
    int len = fx ? snprintf(folder, sizeof folder, "%s/fxgraph/%.2s/%.*s", root, text + 1,
                            (int)key.len, text)
                 : snprintf(folder, sizeof folder, "%s/aotautograd/%.*s", root, (int)key.len, text);
    if (len >= PATH_MAX)
        return err_set(e, WARM_EMALFORMED, "a path that is too long");
    digest_name(value, digest);
    return foreign_write_named(folder, view_of_text(digest), value, e);
}

const struct foreign_format foreign_inductor = {"inductor", read_inductor, write_inductor};
