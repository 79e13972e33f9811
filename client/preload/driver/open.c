/* SPDX-License-Identifier: Apache-2.0 */
/*
 * open.c - finds the functions of the driver that the process has loaded. driver.c calls it when a
 * program looks up a name; link.c asks for the result.
 *
 * Thread: any; the driver is found once, for ever.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "client/preload/driver/driver.h"
#include "client/preload/preload.h"

static _Atomic(struct driver *) known;

const struct driver *driver_get(void) { return atomic_load(&known); }

static struct driver *driver_open(const void *base, const char *path, const char *name,
                                  const void *function)
{
    struct driver *d = calloc(1, sizeof *d);
    void *library = d ? preload_open_library(path, name, function) : NULL;
    if (!library) {
        free(d);
        return NULL;
    }
    d->base = base;
    strcpy(d->path, path);
#define X(field, symbol, parameters)                                                               \
    *(void **)(void *)&d->field = preload_real_dlsym(library, #symbol);
    DRIVER_LIST(X)
#undef X
    return d;
}

/* True if the driver has the functions that every load needs. */
static bool is_whole(const struct driver *d)
{
    return d->driver_version && d->context_device && d->device_count && d->device_get &&
           d->device_name && d->device_attribute && d->module_load;
}

const struct driver *driver_of(const char *name, const void *function)
{
    char path[sizeof((struct driver *)0)->path];
    struct driver *d = atomic_load(&known), *made;
    const void *base = preload_library_of(function, path, sizeof path);
    if (!d && base && (made = driver_open(base, path, name, function)) != NULL) {
        if (is_whole(made) && atomic_compare_exchange_strong(&known, &d, made))
            return made;
        free(made);
    }
    return d && d->base == base ? d : NULL;
}
