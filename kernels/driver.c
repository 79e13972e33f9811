/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver.c - opens libcuda.so.1 at run time, looks up the functions of cuda_driver.fn, and makes a struct
 * device of the first GPU. main.c and the tests call it.
 *
 * Thread: the thread that opened the driver.
 */
#include "kernels/driver.h"

#include <cuda.h>
#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct driver {
    struct device device; /* first, so that its functions find the driver */
    void *lib;
    CUdevice gpu;
    CUcontext context;
    CUmodule module;
    char name[256];
    char arch[32];
#define X(function) __typeof__(function) *function;
#include "kernels/cuda_driver.fn"
#undef X
};

/* cuda.h renames functions to their current version (cuMemAlloc to cuMemAlloc_v2): the string must
 * be that of the renamed one. */
#define SYMBOL(function) SYMBOL_TEXT(function)
#define SYMBOL_TEXT(function) #function

static int resolve(struct driver *d, struct err *err)
{
    static const struct {
        const char *name;
        size_t offset;
    } table[] = {
#define X(function) {SYMBOL(function), offsetof(struct driver, function)},
#include "kernels/cuda_driver.fn"
#undef X
    };

    d->lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!d->lib)
        return err_set(err, WARM_EUNSUPPORTED, "%s", dlerror());
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        void *symbol = dlsym(d->lib, table[i].name);
        if (!symbol)
            return err_set(err, WARM_EUNSUPPORTED, "libcuda.so.1 is too old: it has no %s",
                           table[i].name);
        *(void **)((char *)d + table[i].offset) = symbol;
    }
    return 0;
}

/* Returns 0, or `code` with the failed action and the driver's own words. */
static int checked(struct driver *d, CUresult result, int code, const char *what, struct err *err)
{
    const char *name = NULL, *text = NULL;
    if (result == CUDA_SUCCESS)
        return 0;
    d->cuGetErrorName(result, &name);
    d->cuGetErrorString(result, &text);
    return err_set(err, code, "%s: %s (%s)", what, text ? text : "unknown error",
                   name ? name : "no name");
}

static int gpu_alloc(struct device *device, size_t len, uint64_t *out_address, struct err *err)
{
    struct driver *d = (struct driver *)device;
    CUdeviceptr address;
    int rc = checked(d, d->cuMemAlloc(&address, len), WARM_ENOMEM, "cuMemAlloc", err);
    if (rc == 0)
        *out_address = address;
    return rc;
}

static void gpu_release(struct device *device, uint64_t address)
{
    struct driver *d = (struct driver *)device;
    if (address)
        d->cuMemFree(address);
}

static int gpu_write(struct device *device, uint64_t to, const void *from, size_t len,
                     struct err *err)
{
    struct driver *d = (struct driver *)device;
    return checked(d, d->cuMemcpyHtoD(to, from, len), WARM_EIO, "cuMemcpyHtoD", err);
}

static int gpu_read(struct device *device, void *to, uint64_t from, size_t len, struct err *err)
{
    struct driver *d = (struct driver *)device;
    return checked(d, d->cuMemcpyDtoH(to, from, len), WARM_EIO, "cuMemcpyDtoH", err);
}

static int gpu_launch(struct device *device, const char *kernel, struct dims grid,
                      struct dims block, void **args, struct err *err)
{
    struct driver *d = (struct driver *)device;
    CUfunction function;
    int rc = checked(d, d->cuModuleGetFunction(&function, d->module, kernel), WARM_ENOT_FOUND,
                     kernel, err);
    if (rc == 0)
        rc = checked(d,
                     d->cuLaunchKernel(function, grid.x, grid.y, 1, block.x, block.y, 1, 0, NULL,
                                       args, NULL),
                     WARM_EIO, kernel, err);
    if (rc == 0)
        rc = checked(d, d->cuCtxSynchronize(), WARM_EIO, kernel, err);
    return rc;
}

static int open_gpu(struct driver *d, struct err *err)
{
    int count = 0, major = 0, minor = 0, rc;

    if ((rc = checked(d, d->cuInit(0), WARM_EUNSUPPORTED, "cuInit", err)) ||
        (rc = checked(d, d->cuDeviceGetCount(&count), WARM_EIO, "cuDeviceGetCount", err)))
        return rc;
    if (count == 0)
        return err_set(err, WARM_EUNSUPPORTED, "the driver knows of no GPU");
    if ((rc = checked(d, d->cuDeviceGet(&d->gpu, 0), WARM_EIO, "cuDeviceGet", err)) ||
        (rc = checked(d, d->cuDeviceGetName(d->name, sizeof d->name, d->gpu), WARM_EIO,
                      "cuDeviceGetName", err)) ||
        (rc = checked(
             d,
             d->cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, d->gpu),
             WARM_EIO, "cuDeviceGetAttribute", err)) ||
        (rc = checked(
             d,
             d->cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, d->gpu),
             WARM_EIO, "cuDeviceGetAttribute", err)) ||
        (rc = checked(d, d->cuDevicePrimaryCtxRetain(&d->context, d->gpu), WARM_EIO,
                      "cuDevicePrimaryCtxRetain", err)))
        return rc;
    snprintf(d->arch, sizeof d->arch, "sm_%d%d", major, minor);
    return checked(d, d->cuCtxSetCurrent(d->context), WARM_EIO, "cuCtxSetCurrent", err);
}

int driver_open(struct driver **out, struct err *err)
{
    struct driver *d = calloc(1, sizeof *d);
    if (!d)
        return err_set(err, WARM_ENOMEM, "the CUDA driver's table");
    d->device = (struct device){gpu_alloc, gpu_release, gpu_write, gpu_read, gpu_launch};
    int rc = resolve(d, err);
    if (rc == 0)
        rc = open_gpu(d, err);
    if (rc != 0) {
        driver_close(d);
        return rc;
    }
    *out = d;
    return 0;
}

void driver_close(struct driver *d)
{
    if (!d)
        return;
    if (d->module)
        d->cuModuleUnload(d->module);
    if (d->context)
        d->cuDevicePrimaryCtxRelease(d->gpu);
    if (d->lib)
        dlclose(d->lib);
    free(d);
}

const char *driver_name(const struct driver *d) { return d->name; }

const char *driver_arch(const struct driver *d) { return d->arch; }

/* True if the bytes are a whole ELF file. The driver is not told the length, so a cubin that was
 * cut off must not reach it. */
static int is_whole_elf(const void *bytes, size_t len)
{
    Elf64_Ehdr header;
    if (len < sizeof header)
        return 0;
    memcpy(&header, bytes, sizeof header);
    size_t tables = (size_t)header.e_shnum * header.e_shentsize;
    return memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_shoff <= len &&
           tables <= len - header.e_shoff;
}

int driver_load(struct driver *d, const void *cubin, size_t len, struct err *err)
{
    CUmodule module;
    if (!is_whole_elf(cubin, len))
        return err_set(err, WARM_EMALFORMED, "not a whole cubin");
    CUresult result = d->cuModuleLoadData(&module, cubin);
    int code = result == CUDA_ERROR_NO_BINARY_FOR_GPU ? WARM_EUNSUPPORTED : WARM_EMALFORMED;
    int rc = checked(d, result, code, "cuModuleLoadData", err);
    if (rc != 0)
        return rc;
    if (d->module)
        d->cuModuleUnload(d->module);
    d->module = module;
    return 0;
}

struct device *driver_device(struct driver *d) { return &d->device; }
