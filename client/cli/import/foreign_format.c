/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign_format.c - shared by the formats of cache folders: names, reading files, writing files.
 * The files of the formats call it; foreign_format.h has the contract.
 *
 * Thread: main.
 */
#include "client/cli/import/foreign_format.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/output.h"
#include "client/wire/wire.h"

bool foreign_after(struct view name, const char *prefix, struct view *out)
{
    if (!view_begins(name, prefix))
        return false;
    size_t len = strlen(prefix);
    *out = (struct view){(const char *)name.data + len, name.len - len};
    return true;
}

bool foreign_is_plain(struct view name)
{
    return name.len && name.len <= NAME_MAX && !memchr(name.data, '/', name.len) &&
           !memchr(name.data, '\0', name.len) &&
           !(name.len <= 2 && memcmp(name.data, "..", name.len) == 0);
}

bool foreign_join(char *out, const char *folder, struct view name)
{
    assert(out && folder);
    return snprintf(out, PATH_MAX, "%s/%.*s", folder, (int)name.len, (const char *)name.data) <
           PATH_MAX;
}

/* ---- reading ---- */

void foreign_bad(const struct foreign_walk *w, const char *path, const char *why)
{
    w->sink->on_bad(w->sink->arg, path, why);
}

int foreign_emit(const struct foreign_walk *w, const char *kind, uint32_t cost_ms, const char *path,
                 const char *name, struct view value)
{
    assert(w && kind && name);
    struct archive_entry entry = {.cost_ms = cost_ms,
                                  .name = view_of_text(name),
                                  .label = view_of_text(name),
                                  .value = value};
    if (entry.name.len > ARCHIVE_TEXT_MAX) {
        foreign_bad(w, path, "its name is too long");
        return 0;
    }
    wire_kind_from_name(kind, &entry.kind);
    return w->sink->on_entry(w->sink->arg, &entry);
}

bool foreign_open(const struct foreign_walk *w, struct cli_input *in, const char *path)
{
    struct stat st;
    int error = lstat(path, &st) ? errno : !S_ISREG(st.st_mode) ? EINVAL : cli_input_open(in, path);
    if (error) {
        foreign_bad(w, path, error == EINVAL ? "no regular file" : cli_input_text(error));
        return false;
    }
    if (in->len)
        return true;
    cli_input_close(in);
    foreign_bad(w, path, "it is empty");
    return false;
}

int foreign_each(const struct foreign_walk *w, const char *folder, bool folders,
                 int (*each)(const struct foreign_walk *w, const char *folder, const char *name))
{
    assert(w && folder && each);
    struct dirent **names;
    int n = scandir(folder, &names, NULL, alphasort), code = 0;
    if (n < 0)
        return err_sys(w->e, WARM_EIO, errno, "%s", folder);
    for (int i = 0; i < n; i++) {
        char path[PATH_MAX];
        struct stat st;
        if (!code && names[i]->d_name[0] != '.' &&
            foreign_join(path, folder, view_of_text(names[i]->d_name)) && lstat(path, &st) == 0 &&
            (bool)S_ISDIR(st.st_mode) == folders)
            code = each(w, folder, names[i]->d_name);
        free(names[i]);
    }
    free(names);
    return code;
}

/* ---- writing ---- */

int foreign_write_named(const char *folder, struct view file, struct view value, struct err *e)
{
    char path[PATH_MAX], failed[PATH_MAX];
    if (!foreign_is_plain(file) || !foreign_join(path, folder, file))
        return err_set(e, WARM_EMALFORMED, "a name that is no file's");
    int errnum = output_make_folders(path, 0777, failed);
    if (errnum)
        return err_sys(e, WARM_EIO, errnum, "%s", failed);
    if (access(path, F_OK) == 0)
        return 1;
    return output_write(path, value.data, value.len)
               ? err_set(e, WARM_EIO, "%s was not written", path)
               : 1;
}
