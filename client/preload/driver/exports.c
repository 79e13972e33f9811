/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exports.c - the stand-ins of driver.c for programs that are linked with libcuda.so.1. The dynamic
 * linker finds these exports before the driver's functions.
 *
 * Thread: any; no state.
 */
#include <dlfcn.h>
#include <string.h>

#include "client/preload/driver/driver.h"
#include "client/preload/preload.h"

enum { CU_NOT_FOUND = 500 }; /* there is no driver */

/* Returns the answer of dlsym: the stand-in, or the real function of a driver that is not served. */
static void *look_up(const char *symbol)
{
    void *real = preload_real_dlsym(RTLD_NEXT, symbol);
    return real ? driver_stand_in(symbol, real) : NULL;
}

#define EXPORT(symbol, parameters, arguments)                                                      \
    PRELOAD_EXPORT int symbol parameters;                                                          \
    int symbol parameters                                                                          \
    {                                                                                              \
        int(*function) parameters;                                                                 \
        void *found = look_up(#symbol);                                                            \
        memcpy(&function, &found, sizeof function);                                                \
        return function ? function arguments : CU_NOT_FOUND;                                       \
    }

EXPORT(cuModuleLoadData, (void **module, const void *image), (module, image))
EXPORT(cuModuleLoadDataEx,
       (void **module, const void *image, unsigned n, int *options, void **values),
       (module, image, n, options, values))
EXPORT(cuModuleLoadFatBinary, (void **module, const void *image), (module, image))
EXPORT(cuLibraryLoadData,
       (void **library, const void *image, int *options, void **values, unsigned n,
        int *library_options, void **library_values, unsigned n_library),
       (library, image, options, values, n, library_options, library_values, n_library))
EXPORT(cuLinkCreate_v2, (unsigned n, int *options, void **values, struct cu_link **link),
       (n, options, values, link))
EXPORT(cuLinkAddData_v2,
       (struct cu_link * link, int type, void *data, size_t len, const char *name, unsigned n,
        int *options, void **values),
       (link, type, data, len, name, n, options, values))
EXPORT(cuLinkAddFile_v2,
       (struct cu_link * link, int type, const char *path, unsigned n, int *options, void **values),
       (link, type, path, n, options, values))
EXPORT(cuLinkComplete, (struct cu_link * link, void **cubin, size_t *len), (link, cubin, len))
EXPORT(cuLinkDestroy, (struct cu_link * link), (link))
EXPORT(cuGetProcAddress, (const char *name, void **function_out, int version, uint64_t flags),
       (name, function_out, version, flags))
EXPORT(cuGetProcAddress_v2,
       (const char *name, void **function_out, int version, uint64_t flags, int *status),
       (name, function_out, version, flags, status))
