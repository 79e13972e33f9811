/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver.c - decides which functions of libcuda get stand-ins. Programs find them by dlsym (dl.c)
 * or by cuGetProcAddress, as the CUDA runtime does; exports.c has them for linked programs.
 *
 * Thread: any; no state.
 */
#include "client/preload/driver/driver.h"

#include <string.h>

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
    if (!image || !driver_fat_ptx(image, &ptx, &cc))
        return driver_get()->module_load_fat(module, image);
    return driver_load(driver_get(), &l, image);
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
    if (n_library)
        return driver_get()->library_load(library, image, options, values, n, library_options,
                                          library_values, n_library);
    return driver_load(driver_get(), &l, image);
}

/* ---- finding ---- */

static int proc_address(const char *name, void **function, int version, uint64_t flags);
static int proc_address_v2(const char *name, void **function, int version, uint64_t flags,
                           int *status);

struct function {
    const char *symbol, *name; /* exported; and the name for cuGetProcAddress */
    int since;                 /* version from which that name means this symbol */
    void (*stand_in)(void);
};
#define FUNCTION(symbol, name, since, stand_in)                                                    \
    {                                                                                              \
        symbol, name, since, (void (*)(void))(stand_in)                                            \
    }
static const struct function functions[] = {
    FUNCTION("cuModuleLoadData", "cuModuleLoadData", 0, module_load),
    FUNCTION("cuModuleLoadDataEx", "cuModuleLoadDataEx", 0, module_load_ex),
    FUNCTION("cuModuleLoadFatBinary", "cuModuleLoadFatBinary", 0, module_load_fat),
    FUNCTION("cuLibraryLoadData", "cuLibraryLoadData", 0, library_load),
    FUNCTION("cuLinkCreate_v2", "cuLinkCreate", 6050, driver_link_create),
    FUNCTION("cuLinkAddData_v2", "cuLinkAddData", 6050, driver_link_add_data),
    FUNCTION("cuLinkAddFile_v2", "cuLinkAddFile", 6050, driver_link_add_file),
    FUNCTION("cuLinkComplete", "cuLinkComplete", 0, driver_link_complete),
    FUNCTION("cuLinkDestroy", "cuLinkDestroy", 0, driver_link_destroy),
    FUNCTION("cuGetProcAddress_v2", "cuGetProcAddress", 12000, proc_address_v2),
    FUNCTION("cuGetProcAddress", "cuGetProcAddress", 0, proc_address),
};
enum { N_FUNCTIONS = sizeof functions / sizeof *functions };

static void *address_of(const struct function *f)
{
    void *address;
    memcpy(&address, &f->stand_in, sizeof address);
    return address;
}

/* Returns the stand-in for a name in a version of the interface, or the function that was found. */
static void *by_name(const char *name, int version, void *found)
{
    for (size_t i = 0; i < N_FUNCTIONS; i++)
        if (strcmp(name, functions[i].name) == 0 && version >= functions[i].since)
            return address_of(&functions[i]);
    return found;
}

static int proc_address(const char *name, void **function, int version, uint64_t flags)
{
    int code = driver_get()->proc_address(name, function, version, flags);
    if (code == CU_SUCCESS && function && *function)
        *function = by_name(name, version, *function);
    return code;
}

static int proc_address_v2(const char *name, void **function, int version, uint64_t flags,
                           int *status)
{
    int code = driver_get()->proc_address_v2(name, function, version, flags, status);
    if (code == CU_SUCCESS && function && *function)
        *function = by_name(name, version, *function);
    return code;
}

void *driver_stand_in(const char *name, void *real)
{
    if (!preload_may_stand_in(name, real))
        return real;
    for (size_t i = 0; i < N_FUNCTIONS; i++)
        if (strcmp(name, functions[i].symbol) == 0)
            return driver_of(real) ? address_of(&functions[i]) : real;
    return real;
}
