/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver.c - decides which functions of libcuda get stand-ins. Programs find them by dlsym with a handle (dl.c)
 * or by cuGetProcAddress, as the CUDA runtime does. None is exported: a program or plugin that is linked with the
 * driver calls the driver.
 *
 * Thread: any; no state.
 */
#include "client/preload/driver/driver.h"

#include <string.h>

#include "client/lib/environment.h"
#include "client/preload/connection_pool.h"
#include "client/preload/preload.h"

/* ---- loading ---- */

static int load_module(const struct load *l, const void *image)
{
    return driver_get()->module_load(l->out, image);
}
static int module_load(void **module, const void *image)
{
    struct load l = {.load = load_module, .out = module};
    return driver_load(driver_get(), &l, image);
}

static int load_module_ex(const struct load *l, const void *image)
{
    return driver_get()->module_load_ex(l->out, image, l->n, l->options, l->values);
}
static int module_load_ex(void **module, const void *image, unsigned n, int *options, void **values)
{
    struct load l = {load_module_ex, module, n, options, values, false};
    return driver_load(driver_get(), &l, image);
}

/* Loads an image with the function that fits: a cubin is no fat binary. */
static int load_module_fat(const struct load *l, const void *image)
{
    if (memcmp(image,
               "\x7f"
               "ELF",
               4) == 0)
        return driver_get()->module_load(l->out, image);
    return driver_get()->module_load_fat(l->out, image);
}
static int module_load_fat(void **module, const void *image)
{
    struct load l = {.load = load_module_fat, .out = module};
    struct view ptx;
    unsigned cc;
    if (image && driver_fat_ptx(image, &ptx, &cc))
        return driver_load(driver_get(), &l, image);
    if (image && driver_fat_has_ptx(image))
        driver_tell_unserved(UNSERVED_FAT);
    return driver_get()->module_load_fat(module, image);
}

static int load_library(const struct load *l, const void *image)
{
    return driver_get()->library_load(l->out, image, l->options, l->values, l->n, NULL, NULL, 0);
}
/* Loads a library, which is for every device: the driver compiles it when a device first needs it.
 * Libraries with options of their own (the program keeps the image, tables of functions) are passed
 * on.
 */
static int library_load(void **library, const void *image, int *options, void **values, unsigned n,
                        int *library_options, void **library_values, unsigned n_library)
{
    struct load l = {load_library, library, n, options, values, true};
    if (!n_library)
        return driver_load(driver_get(), &l, image);
    driver_tell_unserved(UNSERVED_OPTIONS);
    return driver_get()->library_load(library, image, options, values, n, library_options,
                                      library_values, n_library);
}

static int module_load_file(void **module, const char *path)
{
    driver_tell_unserved(UNSERVED_FILE);
    return driver_get()->module_load_file(module, path);
}

static int library_load_file(void **library, const char *path, int *options, void **values,
                             unsigned n, int *library_options, void **library_values,
                             unsigned n_library)
{
    driver_tell_unserved(UNSERVED_LIBRARY_FILE);
    return driver_get()->library_load_file(library, path, options, values, n, library_options,
                                           library_values, n_library);
}

/* ---- finding ---- */

static int proc_address(const char *name, void **function, int version, uint64_t flags);
static int proc_address_v2(const char *name, void **function, int version, uint64_t flags,
                           int *status);

/* Whether a part is on is decided when a program looks up a function. PART_LOAD waits for a run on a GPU: the
 * cubin of a link may be slower than what the driver makes of PTX that it loads. */
enum part { PART_LOAD, PART_LINK, PART_FIND };

struct function {
    const char *symbol, *name; /* exported; and the name for cuGetProcAddress */
    int version;               /* of the driver, for which that name means this symbol */
    enum part part;
    size_t real; /* offset in struct driver */
    void (*stand_in)(void);
};
#define FUNCTION(symbol, name, version, part, real, stand_in)                                      \
    {                                                                                              \
        symbol, name, version, part, offsetof(struct driver, real), (void (*)(void))(stand_in)     \
    }
static const struct function functions[] = {
    FUNCTION("cuModuleLoadData", "cuModuleLoadData", 2000, PART_LOAD, module_load, module_load),
    FUNCTION("cuModuleLoadDataEx", "cuModuleLoadDataEx", 2010, PART_LOAD, module_load_ex,
             module_load_ex),
    FUNCTION("cuModuleLoadFatBinary", "cuModuleLoadFatBinary", 2000, PART_LOAD, module_load_fat,
             module_load_fat),
    FUNCTION("cuLibraryLoadData", "cuLibraryLoadData", 12000, PART_LOAD, library_load,
             library_load),
    FUNCTION("cuModuleLoad", "cuModuleLoad", 2000, PART_LOAD, module_load_file, module_load_file),
    FUNCTION("cuLibraryLoadFromFile", "cuLibraryLoadFromFile", 12000, PART_LOAD, library_load_file,
             library_load_file),
    FUNCTION("cuLinkCreate_v2", "cuLinkCreate", 6050, PART_LINK, link_create, driver_link_create),
    FUNCTION("cuLinkAddData_v2", "cuLinkAddData", 6050, PART_LINK, link_add_data,
             driver_link_add_data),
    FUNCTION("cuLinkAddFile_v2", "cuLinkAddFile", 6050, PART_LINK, link_add_file,
             driver_link_add_file),
    FUNCTION("cuLinkComplete", "cuLinkComplete", 5050, PART_LINK, link_complete,
             driver_link_complete),
    FUNCTION("cuLinkDestroy", "cuLinkDestroy", 5050, PART_LINK, link_destroy, driver_link_destroy),
    FUNCTION("cuGetProcAddress_v2", "cuGetProcAddress", 12000, PART_FIND, proc_address_v2,
             proc_address_v2),
    FUNCTION("cuGetProcAddress", "cuGetProcAddress", 11030, PART_FIND, proc_address, proc_address),
};
enum { N_FUNCTIONS = sizeof functions / sizeof *functions };

static bool is_off(const struct function *f)
{
    return f->part == PART_LOAD && !environment_is_set("WARM_DRIVER_JIT");
}

/* Returns what the program gets for the driver's own function `real`. */
static void *stand_in_or(const struct function *f, void *real)
{
    struct warm *w =
        is_off(f) ? NULL : connection_pool_borrow(); /* a daemon answers, or just did */
    void *address;
    memcpy(&address, &f->stand_in, sizeof address);
    connection_pool_return(w);
    if (w)
        return address;
    driver_passes_on(f->symbol);
    return real;
}

/* Calls that we do not see may add inputs to a link. */
void driver_passes_on(const char *name)
{
    if (strncmp(name, "cuLink", 6) == 0 || strncmp(name, "cuGetProcAddress", 16) == 0)
        driver_leave_links();
}

/* Asks the driver for a function by name. */
static int ask(const char *name, void **out, int version, uint64_t flags)
{
    const struct driver *d = driver_get();
    return d->proc_address_v2 ? d->proc_address_v2(name, out, version, flags, NULL)
                              : d->proc_address(name, out, version, flags);
}

/* True if `found` is the function that we know: the one that is exported, or that the driver has for the version
 * that we know. A newer version of it may have other parameters. */
static bool is_known(const struct function *f, const void *found, uint64_t flags)
{
    void *other;
    memcpy(&other, (const char *)driver_get() + f->real, sizeof other);
    return other && (found == other ||
                     (ask(f->name, &other, f->version, flags) == CU_SUCCESS && found == other));
}

/* Returns the stand-in for a name, or the driver's answer. */
static void *by_name(const char *name, uint64_t flags, void *found)
{
    for (size_t i = 0; i < N_FUNCTIONS; i++)
        if (strcmp(name, functions[i].name) == 0 && !is_off(&functions[i]) &&
            is_known(&functions[i], found, flags))
            return stand_in_or(&functions[i], found);
    driver_passes_on(name);
    return found;
}

static int proc_address(const char *name, void **function, int version, uint64_t flags)
{
    int code = driver_get()->proc_address(name, function, version, flags);
    if (code == CU_SUCCESS && name && function && *function)
        *function = by_name(name, flags, *function);
    return code;
}

static int proc_address_v2(const char *name, void **function, int version, uint64_t flags,
                           int *status)
{
    int code = driver_get()->proc_address_v2(name, function, version, flags, status);
    if (code == CU_SUCCESS && name && function && *function)
        *function = by_name(name, flags, *function);
    return code;
}

void *driver_stand_in(const char *name, void *real)
{
    bool may = preload_may_stand_in(name, real);
    for (size_t i = 0; may && i < N_FUNCTIONS; i++)
        if (strcmp(name, functions[i].symbol) == 0 && driver_of(name, real))
            return stand_in_or(&functions[i], real);
    driver_passes_on(name);
    return real;
}
