/* SPDX-License-Identifier: Apache-2.0 */
/*
 * triton.c - a format of cache folders: Triton's, with files in groups and single files.
 * foreign_cache.c lists it, and inductor.c reads the folders of Triton inside its own.
 *
 * Thread: main.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "client/cli/import/foreign_format.h"
#include "client/cli/json_reader.h"
#include "client/tool/unpack.h"

#define GROUP_FILES_MAX 64u
#define TRITON_MAGIC "warm-triton 1\n"
#define GROUP_PREFIX "__grp__"
#define NAME_PREFIX "triton:2:" /* client/python/warm/triton.py, name_of */

/* Finds the names of a group's files in its JSON, at most GROUP_FILES_MAX. Returns their number. */
static size_t group_names(struct view json, struct view *out)
{
    struct view children, unused;
    size_t n = 0;
    if (!json_reader_find(json, "child_paths", &children))
        return 0;
    while (n < GROUP_FILES_MAX && json_reader_member(children, n, &out[n], &unused))
        n++;
    return json_reader_member(children, n, &unused, &unused) ? 0 : n;
}

/* Packs a group as the adapter does (client/python/warm/triton.py, pack). False if a file is
 * missing, which it reports. */
static bool pack_group(const struct foreign_walk *w, const char *folder, const struct view *names,
                       size_t n, struct writer *out)
{
    struct writer list, files, body;
    bool whole = true;
    writer_init(&list, 0), writer_init(&files, FOREIGN_VALUE_MAX), writer_init(&body, 0);
    for (size_t i = 0; i < n && whole; i++) {
        char path[PATH_MAX];
        struct cli_input in;
        whole = foreign_is_plain(names[i]) && !memchr(names[i].data, '\\', names[i].len) &&
                foreign_join(path, folder, names[i]) && foreign_open(w, &in, path);
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

static int read_triton_group(const struct foreign_walk *w, const char *folder, const char *file,
                             struct view json)
{
    const char *key = strrchr(folder, '/') + 1;
    char path[PATH_MAX], name[PATH_MAX];
    struct view names[GROUP_FILES_MAX + 1];
    struct writer value;
    int code = 0;
    size_t n = group_names(json, names);
    foreign_join(path, folder, view_of_text(file));
    snprintf(name, sizeof name, NAME_PREFIX "%s:%s", key, file + sizeof GROUP_PREFIX - 1);
    writer_init(&value, 0);
    if (n && pack_group(w, folder, names, n, &value))
        code = foreign_emit(w, "triton", 0, path, name, (struct view){value.data, value.len});
    else
        foreign_bad(w, path, n ? "files of this group are missing" : "no list of a group's files");
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
            !foreign_join(path, folder, view_of_text(at->d_name)) || cli_input_open(&in, path))
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

static int read_triton_file(const struct foreign_walk *w, const char *folder, const char *file)
{
    char path[PATH_MAX], name[PATH_MAX];
    struct cli_input in;
    bool is_group = strncmp(file, GROUP_PREFIX, sizeof GROUP_PREFIX - 1) == 0;
    if (!foreign_join(path, folder, view_of_text(file)) || strncmp(file, "tmp.", 4) == 0 ||
        strcmp(file, "lock") == 0 || (!is_group && is_in_a_group(folder, file)))
        return 0;
    if (!foreign_open(w, &in, path))
        return 0;
    struct view bytes = {in.data, in.len};
    int code;
    if (is_group) {
        code = read_triton_group(w, folder, file, bytes);
    } else {
        snprintf(name, sizeof name, NAME_PREFIX "%s:%s", strrchr(folder, '/') + 1, file);
        code = foreign_emit(w, "triton", 0, path, name, bytes);
    }
    cli_input_close(&in);
    return code;
}

static int read_triton_key(const struct foreign_walk *w, const char *folder, const char *key)
{
    char path[PATH_MAX];
    return foreign_join(path, folder, view_of_text(key))
               ? foreign_each(w, path, false, read_triton_file)
               : 0;
}

static int read_triton(const struct foreign_walk *w, const char *folder)
{
    return foreign_each(w, folder, true, read_triton_key);
}

/* Splits "KEY:FILE" into KEY's folder and FILE. */
static bool triton_places(const char *root, struct view name, char *folder, struct view *out_file)
{
    const char *colon = memchr(name.data, ':', name.len);
    if (!colon)
        return false;
    struct view key = {name.data, (size_t)(colon - (const char *)name.data)};
    *out_file = (struct view){colon + 1, name.len - key.len - 1};
    return foreign_is_plain(key) && foreign_is_plain(*out_file) && foreign_join(folder, root, key);
}

static int write_triton_files(const char *folder, struct view list, struct reader files,
                              struct writer *json, struct err *e)
{
    struct view item, size_text, found;
    for (size_t i = 0; json_reader_item(list, i, &item); i++) {
        char name[NAME_MAX + 1];
        double size;
        if (!json_reader_item(item, 0, &found) || !json_reader_item(item, 1, &size_text) ||
            !json_reader_number(size_text, &size) || size < 0 || size > (double)files.len)
            return err_set(e, WARM_EMALFORMED, "a group without its files");
        json_reader_text(found, name, sizeof name);
        int code =
            foreign_write_named(folder, view_of_text(name), reader_bytes(&files, (size_t)size), e);
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
    int code = unpack_zlib(packed, FOREIGN_VALUE_MAX, &body);
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
        code = json.failed ? WARM_ENOMEM
                           : foreign_write_named(folder, view_of_text(name),
                                                 (struct view){json.data, json.len}, e);
    writer_close(&body), writer_close(&json);
    return code;
}

static int write_triton(const char *root, const struct archive_entry *entry, struct err *e)
{
    char path[PATH_MAX], folder[PATH_MAX];
    struct view name, file, packed;
    if (!foreign_after(entry->name, NAME_PREFIX, &name))
        return 0;
    if (mkdir(root, 0777) && errno != EEXIST)
        return err_sys(e, WARM_EIO, errno, "%s", root);
    if (!realpath(root, path) || !triton_places(path, name, folder, &file))
        return err_set(e, WARM_EMALFORMED, "a name that is no file's");
    if (foreign_after(entry->value, TRITON_MAGIC, &packed))
        return write_triton_group(folder, file, packed, e);
    return foreign_write_named(folder, file, entry->value, e);
}

const struct foreign_format foreign_triton = {"triton", read_triton, write_triton};
