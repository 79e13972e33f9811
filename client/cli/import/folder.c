/* SPDX-License-Identifier: Apache-2.0 */
/* folder.c - the formats of cache folders, by name. Main thread only. */
#include "client/cli/import/folder.h"

#include <string.h>

#include "client/cli/import/walk.h"

static const struct folder_format *const formats[] = {&folder_jax, &folder_triton, &folder_inductor,
                                                      &folder_cupy, &folder_nv};

static const struct folder_format *format_find(const char *name)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i]->name, name) == 0)
            return formats[i];
    return NULL;
}

const char *folder_formats(void) { return "jax, triton, inductor, cupy, nv"; }
bool folder_is_format(const char *format) { return format_find(format) != NULL; }

int folder_read(const char *format, const char *path, const struct folder_sink *sink, struct err *e)
{
    struct folder_walk w = {sink, e};
    return format_find(format)->read(&w, path);
}

static int write_any(const char *path, const struct archive_entry *entry, struct err *e)
{
    char folder[PATH_MAX];
    int code = 0;
    for (size_t i = 0; !code && i < sizeof formats / sizeof *formats; i++)
        code = folder_join(folder, path, folder_view(formats[i]->name))
                   ? formats[i]->write(folder, entry, e)
                   : err_set(e, WARM_EINVALID, "%s: a path that is too long", path);
    return code;
}

int folder_write(const char *format, const char *path, const struct archive_entry *entry,
                 struct err *e)
{
    return format ? format_find(format)->write(path, entry, e) : write_any(path, entry, e);
}
