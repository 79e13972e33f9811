/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign_cache.c - finds the format of another program's cache folder by name. commands/import.c
 * and commands/export.c call it; each format is a file beside this one.
 *
 * Thread: main.
 */
#include "client/cli/import/foreign_cache.h"

#include <assert.h>
#include <string.h>

#include "client/cli/import/foreign_format.h"

static const struct foreign_format *const formats[] = {&foreign_jax, &foreign_triton,
                                                       &foreign_inductor};

static const struct foreign_format *format_find(const char *name)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i]->name, name) == 0)
            return formats[i];
    return NULL;
}

bool foreign_cache_take_format(const char *value, void *to)
{
    *(const char **)to = value;
    return format_find(value);
}

int foreign_cache_read(const char *format, const char *path, const struct foreign_sink *sink,
                       struct err *e)
{
    assert(path && sink && sink->on_entry && sink->on_bad && format_find(format));
    struct foreign_walk w = {sink, e};
    return format_find(format)->read(&w, path);
}

static int write_any(const char *path, const struct archive_entry *entry, struct err *e)
{
    char folder[PATH_MAX];
    int code = 0;
    for (size_t i = 0; !code && i < sizeof formats / sizeof *formats; i++)
        code = foreign_join(folder, path, view_of_text(formats[i]->name))
                   ? formats[i]->write(folder, entry, e)
                   : err_set(e, WARM_EINVALID, "%s: a path that is too long", path);
    return code;
}

int foreign_cache_write(const char *format, const char *path, const struct archive_entry *entry,
                        struct err *e)
{
    assert(path && entry);
    return format ? format_find(format)->write(path, entry, e) : write_any(path, entry, e);
}
