/* SPDX-License-Identifier: Apache-2.0 */
/* folder.c - see folder.h. Main thread only. */
#include "client/cli/folder.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/cli.h"
#include "client/cli/json_scan.h"
#include "client/cli/output.h"
#include "client/cli/unpack.h"
#include "client/wire.h"
#include "keygen/key.h"

#define VALUE_MAX ((size_t)4 << 30) /* bytes of a file, unpacked */
#define GROUP_FILES_MAX 64u
#define DIGEST_TEXT 52 /* characters of a SHA-256 in base 32, NUL included; the last is left out */
#define TRITON_MAGIC "warm-triton 1\n"
#define TORCH_MAGIC "\0torch1\n"
#define TORCH_MAGIC_LEN 8u
#define JAX_MAGIC "warm-jax/1 "
#define GROUP_PREFIX "__grp__"

struct walk {
    const struct folder_sink *sink;
    struct err *e;
};

static void bad(const struct walk *w, const char *path, const char *why)
{
    w->sink->on_bad(w->sink->arg, path, why);
}

static struct view view_of(const char *text) { return (struct view){text, strlen(text)}; }

static bool starts(struct view v, const char *text)
{
    return v.len >= strlen(text) && memcmp(v.data, text, strlen(text)) == 0;
}

/* A file's name that stays in its folder. */
static bool is_plain(struct view name)
{
    return name.len && name.len <= NAME_MAX && !memchr(name.data, '/', name.len) &&
           !memchr(name.data, '\0', name.len) &&
           !(name.len <= 2 && memcmp(name.data, "..", name.len) == 0);
}

static bool join(char *out, const char *folder, struct view name)
{
    return snprintf(out, PATH_MAX, "%s/%.*s", folder, (int)name.len, (const char *)name.data) <
           PATH_MAX;
}

/* ---- reading: files ---- */

static int emit(const struct walk *w, const char *kind, const char *path, const char *name,
                struct view value)
{
    struct archive_entry entry = {.name = view_of(name), .label = view_of(name), .value = value};
    if (entry.name.len > ARCHIVE_TEXT_MAX) {
        bad(w, path, "its name is too long");
        return 0;
    }
    wire_kind_from_name(kind, &entry.kind);
    return w->sink->on_entry(w->sink->arg, &entry);
}

/* Opens what is a regular file; false where it is not, or is empty, which was told. */
static bool open_file(const struct walk *w, struct cli_input *in, const char *path)
{
    struct stat st;
    int error = lstat(path, &st) ? errno : !S_ISREG(st.st_mode) ? EINVAL : cli_input_open(in, path);
    if (error) {
        bad(w, path, error == EINVAL ? "no regular file" : strerror(error));
        return false;
    }
    if (in->len)
        return true;
    cli_input_close(in);
    bad(w, path, "it is empty");
    return false;
}

/* Calls `each` for the names in a folder, sorted; those with a dot in front are left out. */
static int each_name(const struct walk *w, const char *folder, bool folders,
                     int (*each)(const struct walk *w, const char *folder, const char *name))
{
    struct dirent **names;
    int n = scandir(folder, &names, NULL, alphasort), code = 0;
    if (n < 0)
        return err_sys(w->e, WARM_EIO, errno, "%s", folder);
    for (int i = 0; i < n; i++) {
        char path[PATH_MAX];
        struct stat st;
        if (!code && names[i]->d_name[0] != '.' && join(path, folder, view_of(names[i]->d_name)) &&
            lstat(path, &st) == 0 && (bool)S_ISDIR(st.st_mode) == folders)
            code = each(w, folder, names[i]->d_name);
        free(names[i]);
    }
    free(names);
    return code;
}

/* ---- jax ---- */

/* What JAX compressed is whole: 4 bytes of seconds, then the executable. */
static bool jax_is_whole(struct view v)
{
    return (unpack_is_zstd(v) ? unpack_zstd : unpack_zlib)(v, VALUE_MAX, NULL) == 0;
}

static int read_jax_file(const struct walk *w, const char *folder, const char *file)
{
    char path[PATH_MAX], name[PATH_MAX];
    struct cli_input in;
    size_t len = strlen(file);
    int code = 0;
    if (!join(path, folder, view_of(file)) || (len > 6 && strcmp(file + len - 6, "-atime") == 0))
        return 0;
    if (len <= 6 || strcmp(file + len - 6, "-cache") != 0) {
        bad(w, path, "no entry of JAX");
        return 0;
    }
    if (!open_file(w, &in, path))
        return 0;
    snprintf(name, sizeof name, "jax:stock:%.*s", (int)(len - 6), file);
    if (jax_is_whole((struct view){in.data, in.len}))
        code = emit(w, "executable", path, name, (struct view){in.data, in.len});
    else
        bad(w, path, "cut short or damaged");
    cli_input_close(&in);
    return code;
}

static int read_jax(const struct walk *w, const char *folder)
{
    return each_name(w, folder, false, read_jax_file);
}

/* ---- triton ---- */

/* The names of a group's files, as its JSON lists them: at most GROUP_FILES_MAX. */
static size_t group_names(struct view json, struct view *out)
{
    struct view children, unused;
    size_t n = 0;
    if (!json_scan_find(json, "child_paths", &children))
        return 0;
    while (n < GROUP_FILES_MAX && json_scan_member(children, n, &out[n], &unused))
        n++;
    return json_scan_member(children, n, &unused, &unused) ? 0 : n;
}

/* The group as the adapter has it (client/python/warm/triton.py, pack). False: something is missing,
 * which was told. */
static bool pack_group(const struct walk *w, const char *folder, const struct view *names, size_t n,
                       struct writer *out)
{
    struct writer list, files, body;
    bool whole = true;
    writer_init(&list, 0), writer_init(&files, VALUE_MAX), writer_init(&body, 0);
    for (size_t i = 0; i < n && whole; i++) {
        char path[PATH_MAX];
        struct cli_input in;
        whole = is_plain(names[i]) && !memchr(names[i].data, '\\', names[i].len) &&
                join(path, folder, names[i]) && open_file(w, &in, path);
        if (!whole)
            break;
        writer_format(&list, "%s[\"%.*s\", %zu]", i ? ", " : "[", (int)names[i].len,
                      (const char *)names[i].data, in.len);
        writer_bytes(&files, in.data, in.len);
        cli_input_close(&in);
    }
    writer_bytes(&list, "]", 1);
    writer_blob(&body, list.data, list.len);
    writer_bytes(&body, files.data, files.len);
    whole = whole && !list.failed && !files.failed && !body.failed;
    if (whole) {
        writer_bytes(out, TRITON_MAGIC, sizeof TRITON_MAGIC - 1);
        unpack_pack_zlib((struct view){body.data, body.len}, out);
    }
    writer_close(&list), writer_close(&files), writer_close(&body);
    return whole && !out->failed;
}

static int read_triton_group(const struct walk *w, const char *folder, const char *file,
                             struct view json)
{
    const char *key = strrchr(folder, '/') + 1;
    char path[PATH_MAX], name[PATH_MAX];
    struct view names[GROUP_FILES_MAX + 1];
    struct writer value;
    int code = 0;
    size_t n = group_names(json, names);
    join(path, folder, view_of(file));
    snprintf(name, sizeof name, "triton:%s:%s", key, file + sizeof GROUP_PREFIX - 1);
    writer_init(&value, 0);
    if (n && pack_group(w, folder, names, n, &value))
        code = emit(w, "triton", path, name, (struct view){value.data, value.len});
    else
        bad(w, path, n ? "files of this group are missing" : "no list of a group's files");
    writer_close(&value);
    return code;
}

/* True if some group of the folder lists the file. */
static bool is_in_a_group(const char *folder, const char *file)
{
    bool found = false;
    DIR *d = opendir(folder);
    for (struct dirent *at; d && !found && (at = readdir(d));) {
        char path[PATH_MAX];
        struct cli_input in;
        if (strncmp(at->d_name, GROUP_PREFIX, sizeof GROUP_PREFIX - 1) != 0 ||
            !join(path, folder, view_of(at->d_name)) || cli_input_open(&in, path))
            continue;
        struct view names[GROUP_FILES_MAX + 1];
        size_t n = group_names((struct view){in.data, in.len}, names);
        for (size_t i = 0; i < n && !found; i++)
            found = names[i].len == strlen(file) && memcmp(names[i].data, file, names[i].len) == 0;
        cli_input_close(&in);
    }
    if (d)
        closedir(d);
    return found;
}

static int read_triton_file(const struct walk *w, const char *folder, const char *file)
{
    char path[PATH_MAX], name[PATH_MAX];
    struct cli_input in;
    bool is_group = strncmp(file, GROUP_PREFIX, sizeof GROUP_PREFIX - 1) == 0;
    if (!join(path, folder, view_of(file)) || strncmp(file, "tmp.", 4) == 0 ||
        strcmp(file, "lock") == 0 || (!is_group && is_in_a_group(folder, file)))
        return 0;
    if (!open_file(w, &in, path))
        return 0;
    struct view bytes = {in.data, in.len};
    int code;
    if (is_group) {
        code = read_triton_group(w, folder, file, bytes);
    } else {
        snprintf(name, sizeof name, "triton:%s:%s", strrchr(folder, '/') + 1, file);
        code = emit(w, "triton", path, name, bytes);
    }
    cli_input_close(&in);
    return code;
}

static int read_triton_key(const struct walk *w, const char *folder, const char *key)
{
    char path[PATH_MAX];
    return join(path, folder, view_of(key)) ? each_name(w, path, false, read_triton_file) : 0;
}

static int read_triton(const struct walk *w, const char *folder)
{
    return each_name(w, folder, true, read_triton_key);
}

/* ---- inductor ---- */

/* What Inductor calls a file: the SHA-256 of its content in base 32, without the last digit. */
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
        return true; /* a version that calls its files otherwise */
    digest_name(v, digest);
    return strcmp(file, digest) == 0;
}

struct newest {
    char path[PATH_MAX];
    struct timespec time;
};

/* torch's remote cache has one value for a key, its folder several: the newest. */
static bool find_newest(const char *folder, struct newest *out)
{
    DIR *d = opendir(folder);
    out->path[0] = '\0';
    for (struct dirent *at; d && (at = readdir(d));) {
        char path[PATH_MAX];
        struct stat st;
        if (at->d_name[0] == '.' || !join(path, folder, view_of(at->d_name)) || lstat(path, &st) ||
            !S_ISREG(st.st_mode))
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

static int read_inductor_key(const struct walk *w, const char *folder, const char *key,
                             const char *kind, const char *format)
{
    char path[PATH_MAX], name[PATH_MAX + 64];
    struct newest newest;
    struct cli_input in;
    struct writer value;
    int code = 0;
    if (!join(path, folder, view_of(key)) || !find_newest(path, &newest) ||
        !open_file(w, &in, newest.path))
        return 0;
    snprintf(name, sizeof name, "pt2:%s::%s:c1", format, key);
    writer_init(&value, 0);
    writer_bytes(&value, TORCH_MAGIC, TORCH_MAGIC_LEN);
    writer_bytes(&value, in.data, in.len);
    if (!pickle_is_whole(strrchr(newest.path, '/') + 1, (struct view){in.data, in.len}))
        bad(w, newest.path, "cut short or damaged");
    else if (!value.failed)
        code = emit(w, kind, newest.path, name, (struct view){value.data, value.len});
    writer_close(&value);
    cli_input_close(&in);
    return code;
}

static int read_fx_key(const struct walk *w, const char *folder, const char *key)
{
    return read_inductor_key(w, folder, key, "fx-graph", "fx-graph-v1");
}

static int read_autograd_key(const struct walk *w, const char *folder, const char *key)
{
    return read_inductor_key(w, folder, key, "backward", "autograd-experimental");
}

static int read_fx_shelf(const struct walk *w, const char *folder, const char *shelf)
{
    char path[PATH_MAX];
    return join(path, folder, view_of(shelf)) ? each_name(w, path, true, read_fx_key) : 0;
}

static int read_inductor(const struct walk *w, const char *folder)
{
    char path[PATH_MAX];
    int code = 0;
    if (join(path, folder, view_of("fxgraph")) && access(path, F_OK) == 0)
        code = each_name(w, path, true, read_fx_shelf);
    if (!code && join(path, folder, view_of("aotautograd")) && access(path, F_OK) == 0)
        code = each_name(w, path, true, read_autograd_key);
    if (!code && access(folder, R_OK) != 0)
        code = err_sys(w->e, WARM_EIO, errno, "%s", folder);
    return code;
}

/* ---- cupy and nv: files as they are ---- */

/* CuPy writes the digest of what follows in hex, then the cubin. */
static bool cupy_is_whole(struct view v)
{
    static const char hex[] = "0123456789abcdef";
    const uint8_t *bytes = v.data;
    size_t at = 0;
    while (at < v.len && at < 64 && bytes[at] && strchr(hex, bytes[at]))
        at++;
    struct reader r = reader_over(bytes + at, v.len - at);
    if (at < 32 || reader_u32(&r) != 0x464c457f)
        return at >= 32 && v.len > at; /* PTX, or another kind of text */
    reader_bytes(&r, 36);
    uint64_t sections = reader_u64(&r);
    reader_bytes(&r, 10);
    uint64_t size = reader_u16(&r), n = reader_u16(&r);
    return !r.failed && sections <= v.len - at && size * n <= v.len - at - sections;
}

static int read_cupy_file(const struct walk *w, const char *folder, const char *file)
{
    char path[PATH_MAX], name[PATH_MAX];
    struct cli_input in;
    int code = 0;
    if (!join(path, folder, view_of(file)) || !open_file(w, &in, path))
        return 0;
    snprintf(name, sizeof name, "cupy:%s", file);
    if (cupy_is_whole((struct view){in.data, in.len}))
        code = emit(w, "other", path, name, (struct view){in.data, in.len});
    else
        bad(w, path, "cut short or damaged");
    cli_input_close(&in);
    return code;
}

static int read_cupy(const struct walk *w, const char *folder)
{
    return each_name(w, folder, false, read_cupy_file);
}

static int read_nv_below(const struct walk *w, const char *root, const char *below, int depth)
{
    char folder[PATH_MAX];
    struct dirent **names;
    if (!join(folder, root, view_of(below)))
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
                     join(path, folder, view_of(file)) && lstat(path, &st) == 0;
        if (taken && S_ISDIR(st.st_mode) && depth > 0) {
            code = read_nv_below(w, root, inner, depth - 1);
        } else if (taken && open_file(w, &in, path)) {
            snprintf(name, sizeof name, "nv:%s", inner);
            code = emit(w, "other", path, name, (struct view){in.data, in.len});
            cli_input_close(&in);
        }
        free(names[i]);
    }
    free(names);
    return code;
}

static int read_nv(const struct walk *w, const char *folder)
{
    return read_nv_below(w, folder, "", 4);
}

/* ---- writing ---- */

/* Makes the folders that a path stands in. */
static int make_parents(const char *path, struct err *e)
{
    char folder[PATH_MAX];
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
        if (mkdir(folder, 0777) && errno != EEXIST)
            return err_sys(e, WARM_EIO, errno, "%s", folder);
    }
    return 0;
}

static int write_file(const char *path, struct view value, struct err *e)
{
    int code = make_parents(path, e);
    if (code)
        return code;
    if (access(path, F_OK) == 0)
        return 1;
    return output_write(path, value.data, value.len)
               ? err_set(e, WARM_EIO, "%s was not written", path)
               : 1;
}

static int write_named(const char *folder, struct view file, struct view value, struct err *e)
{
    char path[PATH_MAX];
    if (!is_plain(file) || !join(path, folder, file))
        return err_set(e, WARM_EMALFORMED, "a name that is no file's");
    return write_file(path, value, e);
}

/* The name without what it begins with; false if it does not. */
static bool after(struct view name, const char *prefix, struct view *out)
{
    if (!starts(name, prefix))
        return false;
    size_t len = strlen(prefix);
    *out = (struct view){(const char *)name.data + len, name.len - len};
    return true;
}

/* Our own value: a line that says what JAX calls it, then what JAX stores. */
static bool jax_unwrap(struct view value, char *stock, size_t cap, struct view *out)
{
    struct view json, found;
    const char *end = memchr(value.data, '\n', value.len);
    if (!after(value, JAX_MAGIC, &json) || !end)
        return false;
    json.len = (size_t)(end - (const char *)json.data);
    if (!json_scan_find(json, "stock", &found))
        return false;
    json_scan_text(found, stock, cap);
    *out = (struct view){end + 1, value.len - (size_t)(end + 1 - (const char *)value.data)};
    return true;
}

static int write_jax(const char *folder, const struct archive_entry *entry, struct err *e)
{
    char stock[ARCHIVE_TEXT_MAX + 1], file[ARCHIVE_TEXT_MAX + 8];
    struct view key, value = entry->value;
    if (after(entry->name, "jax:stock:", &key))
        snprintf(stock, sizeof stock, "%.*s", (int)key.len, (const char *)key.data);
    else if (!starts(entry->name, "jax:1:") ||
             !jax_unwrap(entry->value, stock, sizeof stock, &value))
        return 0;
    snprintf(file, sizeof file, "%s-cache", stock);
    return write_named(folder, view_of(file), value, e);
}

/* "KEY:FILE" as KEY's folder and FILE. */
static bool triton_places(const char *root, struct view name, char *folder, struct view *out_file)
{
    const char *colon = memchr(name.data, ':', name.len);
    if (!colon)
        return false;
    struct view key = {name.data, (size_t)(colon - (const char *)name.data)};
    *out_file = (struct view){colon + 1, name.len - key.len - 1};
    return is_plain(key) && is_plain(*out_file) && join(folder, root, key);
}

static int write_triton_files(const char *folder, struct view list, struct reader files,
                              struct writer *json, struct err *e)
{
    struct view item, size_text, found;
    for (size_t i = 0; json_scan_item(list, i, &item); i++) {
        char name[NAME_MAX + 1];
        double size;
        if (!json_scan_item(item, 0, &found) || !json_scan_item(item, 1, &size_text) ||
            !json_scan_number(size_text, &size) || size < 0 || size > (double)files.len)
            return err_set(e, WARM_EMALFORMED, "a group without its files");
        json_scan_text(found, name, sizeof name);
        int code = write_named(folder, view_of(name), reader_bytes(&files, (size_t)size), e);
        if (code < 0)
            return code;
        writer_format(json, "%s\"%s\": \"%s/%s\"", i ? ", " : "", name, folder, name);
    }
    return reader_done(&files) ? 0 : err_set(e, WARM_EMALFORMED, "a group of another length");
}

static int write_triton_group(const char *folder, struct view file, struct view packed,
                              struct err *e)
{
    struct writer body, json;
    char name[NAME_MAX + 16];
    writer_init(&body, 0), writer_init(&json, 0);
    int code = unpack_zlib(packed, VALUE_MAX, &body);
    if (code)
        err_set(e, code, "a group that is damaged");
    struct reader r = reader_over(body.data, body.len);
    struct view list = reader_blob(&r, SIZE_MAX);
    writer_format(&json, "{\"child_paths\": {");
    if (!code)
        code = write_triton_files(folder, list, r, &json, e);
    writer_format(&json, "}}");
    snprintf(name, sizeof name, GROUP_PREFIX "%.*s", (int)file.len, (const char *)file.data);
    if (!code)
        code = json.failed
                   ? WARM_ENOMEM
                   : write_named(folder, view_of(name), (struct view){json.data, json.len}, e);
    writer_close(&body), writer_close(&json);
    return code;
}

static int write_triton(const char *root, const struct archive_entry *entry, struct err *e)
{
    char path[PATH_MAX], folder[PATH_MAX];
    struct view name, file, packed;
    if (!after(entry->name, "triton:", &name))
        return 0;
    if (!realpath(root, path) || !triton_places(path, name, folder, &file))
        return err_set(e, WARM_EMALFORMED, "a name that is no file's");
    if (after(entry->value, TRITON_MAGIC, &packed))
        return write_triton_group(folder, file, packed, e);
    return write_named(folder, file, entry->value, e);
}

static int write_inductor(const char *root, const struct archive_entry *entry, struct err *e)
{
    char folder[PATH_MAX], digest[DIGEST_TEXT];
    struct view key, value = entry->value;
    bool fx = after(entry->name, "pt2:fx-graph-v1::", &key);
    if ((!fx && !after(entry->name, "pt2:autograd-experimental::", &key)) || key.len < 6 ||
        memcmp((const char *)key.data + key.len - 3, ":c1", 3) != 0)
        return 0;
    key.len -= 3;
    if (value.len < TORCH_MAGIC_LEN || memcmp(value.data, TORCH_MAGIC, TORCH_MAGIC_LEN) != 0)
        return err_set(e, WARM_EMALFORMED, "no pickle of torch");
    value = (struct view){(const char *)value.data + TORCH_MAGIC_LEN, value.len - TORCH_MAGIC_LEN};
    const char *text = key.data;
    if (!is_plain(key))
        return err_set(e, WARM_EMALFORMED, "a name that is no file's");
    int len = fx ? snprintf(folder, sizeof folder, "%s/fxgraph/%.2s/%.*s", root, text + 1,
                            (int)key.len, text)
                 : snprintf(folder, sizeof folder, "%s/aotautograd/%.*s", root, (int)key.len, text);
    if (len >= PATH_MAX)
        return err_set(e, WARM_EMALFORMED, "a path that is too long");
    digest_name(value, digest);
    return write_named(folder, view_of(digest), value, e);
}

static int write_cupy(const char *root, const struct archive_entry *entry, struct err *e)
{
    struct view file;
    return after(entry->name, "cupy:", &file) ? write_named(root, file, entry->value, e) : 0;
}

static int write_nv(const char *root, const struct archive_entry *entry, struct err *e)
{
    char path[PATH_MAX];
    struct view below;
    if (!after(entry->name, "nv:", &below))
        return 0;
    for (struct view left = below; left.len;) { /* each part stays in its folder */
        const char *slash = memchr(left.data, '/', left.len);
        size_t len = slash ? (size_t)(slash - (const char *)left.data) : left.len;
        if (!is_plain((struct view){left.data, len}) || (slash && len + 1 == left.len))
            return err_set(e, WARM_EMALFORMED, "a name that is no file's");
        left = slash ? (struct view){slash + 1, left.len - len - 1} : (struct view){0};
    }
    if (!below.len || !join(path, root, below))
        return err_set(e, WARM_EMALFORMED, "a path that is too long");
    return write_file(path, entry->value, e);
}

/* ---- formats ---- */

static const struct format {
    const char *name;
    int (*read)(const struct walk *w, const char *folder);
    int (*write)(const char *folder, const struct archive_entry *entry, struct err *e);
} formats[] = {{"jax", read_jax, write_jax},
               {"triton", read_triton, write_triton},
               {"inductor", read_inductor, write_inductor},
               {"cupy", read_cupy, write_cupy},
               {"nv", read_nv, write_nv}};

static const struct format *format_find(const char *name)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i].name, name) == 0)
            return &formats[i];
    return NULL;
}

const char *folder_formats(void) { return "jax, triton, inductor, cupy, nv"; }
bool folder_is_format(const char *format) { return format_find(format) != NULL; }

int folder_read(const char *format, const char *path, const struct folder_sink *sink, struct err *e)
{
    struct walk w = {sink, e};
    return format_find(format)->read(&w, path);
}

int folder_write(const char *format, const char *path, const struct archive_entry *entry,
                 struct err *e)
{
    return format_find(format)->write(path, entry, e);
}
