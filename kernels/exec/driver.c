/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver.c - opens libcuda.so.1 at run time, looks up the functions of driver.fn, and turns CUDA's errors
 * into ours. exec.c, libwarm and the demo's gpu.c call it.
 *
 * Thread: one at a time for each driver.
 */
#include "kernels/exec/driver.h"

#include <assert.h>
#include <dlfcn.h>
#include <elf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of CUDA's own enumerations. */
enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
    ATTRIBUTE_CC_MAJOR = 75,
    ATTRIBUTE_CC_MINOR = 76,
    STREAM_NON_BLOCKING = 1,
    CAPTURE_THREAD_LOCAL = 1,
};

struct driver {
    void *lib, *context, *own, *stream; /* streams: its own, and the one that work goes on */
    int gpu;
    bool is_entered;
    char name[256];
    char arch[32];
#define X(function, symbol, parameters) int(*function) parameters;
#include "kernels/exec/driver.fn"
#undef X
};

/* ---- opening ---- */

static int resolve(struct driver *d, struct err *e)
{
    static const struct {
        const char *symbol;
        size_t offset;
    } table[] = {
#define X(function, symbol, parameters) {symbol, offsetof(struct driver, function)},
#include "kernels/exec/driver.fn"
#undef X
    };

    /* its threads may outlive the context, so it stays */
    d->lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!d->lib)
        return err_set(e, WARM_EUNSUPPORTED, "%s", dlerror());
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        void *function = dlsym(d->lib, table[i].symbol);
        if (!function)
            return err_set(e, WARM_EUNSUPPORTED, "libcuda.so.1 is too old: it has no %s",
                           table[i].symbol);
        memcpy((char *)d + table[i].offset, &function, sizeof function);
    }
    return 0;
}

/* Returns 0, or `code` with the failed call and the driver's own words. */
static int checked(struct driver *d, int result, int code, const char *what, struct err *e)
{
    const char *name = NULL, *text = NULL;
    if (result == CUDA_SUCCESS)
        return 0;
    d->cuGetErrorName(result, &name);
    d->cuGetErrorString(result, &text);
    return err_set(e, code, "%s: %s (%s)", what, text ? text : "unknown error",
                   name ? name : "no name");
}

#define CHECKED(d, code, e, function, ...)                                                         \
    checked(d, (d)->function(__VA_ARGS__), code, #function, e)

static int open_gpu(struct driver *d, int gpu, struct err *e)
{
    int count = 0, major = 0, minor = 0, rc;

    if ((rc = CHECKED(d, WARM_EUNSUPPORTED, e, cuInit, 0)) ||
        (rc = CHECKED(d, WARM_EIO, e, cuDeviceGetCount, &count)))
        return rc;
    if (count == 0)
        return err_set(e, WARM_EUNSUPPORTED, "the driver knows of no GPU");
    if (gpu < 0 || gpu >= count)
        return err_set(e, WARM_EINVALID, "there is no GPU %d: the driver knows of %d", gpu, count);
    if ((rc = CHECKED(d, WARM_EIO, e, cuDeviceGet, &d->gpu, gpu)) ||
        (rc = CHECKED(d, WARM_EIO, e, cuDeviceGetName, d->name, sizeof d->name, d->gpu)) ||
        (rc = CHECKED(d, WARM_EIO, e, cuDeviceGetAttribute, &major, ATTRIBUTE_CC_MAJOR, d->gpu)) ||
        (rc = CHECKED(d, WARM_EIO, e, cuDeviceGetAttribute, &minor, ATTRIBUTE_CC_MINOR, d->gpu)) ||
        (rc = CHECKED(d, WARM_EIO, e, cuDevicePrimaryCtxRetain, &d->context, d->gpu)) ||
        (rc = driver_enter(d, NULL, e)))
        return rc;
    snprintf(d->arch, sizeof d->arch, "sm_%d%d", major, minor);
    rc = CHECKED(d, WARM_EIO, e, cuStreamCreate, &d->own, STREAM_NON_BLOCKING);
    d->stream = d->own;
    return rc;
}

int driver_open(int gpu, struct driver **out, struct err *e)
{
    struct driver *d = calloc(1, sizeof *d);
    if (!d)
        return err_set(e, WARM_ENOMEM, "the CUDA driver's table");
    int rc = resolve(d, e);
    if (rc == 0)
        rc = open_gpu(d, gpu, e);
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
    if (d->own && (d->is_entered || driver_enter(d, NULL, NULL) == 0))
        d->cuStreamDestroy(d->own);
    driver_leave(d);
    if (d->context)
        d->cuDevicePrimaryCtxRelease(d->gpu);
    if (d->lib)
        dlclose(d->lib);
    free(d);
}

int driver_enter(struct driver *d, void *stream, struct err *e)
{
    assert(!d->is_entered);
    int rc = CHECKED(d, WARM_EIO, e, cuCtxPushCurrent, d->context);
    d->is_entered = rc == 0;
    d->stream = stream;
    return rc;
}

void driver_leave(struct driver *d)
{
    void *ours;
    if (d->is_entered)
        d->cuCtxPopCurrent(&ours);
    d->is_entered = false;
    d->stream = d->own;
}

bool driver_can_run(const char *arch, struct view target)
{
    char text[16], *end;
    if (target.len >= sizeof text || strncmp(arch, "sm_", 3) != 0)
        return false;
    memcpy(text, target.data, target.len);
    text[target.len] = '\0';
    if (strncmp(text, "sm_", 3) != 0 || text[3] < '1' || text[3] > '9')
        return false;
    unsigned long made_for = strtoul(text + 3, &end, 10), is = strtoul(arch + 3, NULL, 10);
    if (strcmp(end, "a") == 0)
        return made_for == is;
    return (*end == '\0' || strcmp(end, "f") == 0) && made_for / 10 == is / 10 && made_for <= is;
}

const char *driver_name(const struct driver *d) { return d->name; }

const char *driver_arch(const struct driver *d) { return d->arch; }

/* ---- modules ---- */

/* True if n bytes at an offset are within len. */
static bool is_within(uint64_t offset, uint64_t n, size_t len)
{
    return offset <= len && n <= len - offset;
}

/* True if the bytes are a whole ELF file: its tables and sections are within. The driver is not told the length,
 * so a cubin that was cut off must not reach it. */
static bool is_whole_elf(const void *bytes, size_t len)
{
    Elf64_Ehdr header;
    Elf64_Shdr section;
    Elf64_Phdr segment;
    if (len < sizeof header)
        return false;
    memcpy(&header, bytes, sizeof header);
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        !is_within(header.e_shoff, (uint64_t)header.e_shnum * sizeof section, len) ||
        !is_within(header.e_phoff, (uint64_t)header.e_phnum * sizeof segment, len) ||
        (header.e_shnum && header.e_shentsize != sizeof section) ||
        (header.e_phnum && header.e_phentsize != sizeof segment))
        return false;
    for (size_t i = 0; i < header.e_shnum; i++) {
        memcpy(&section, (const char *)bytes + header.e_shoff + i * sizeof section, sizeof section);
        if (section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL &&
            !is_within(section.sh_offset, section.sh_size, len))
            return false;
    }
    for (size_t i = 0; i < header.e_phnum; i++) {
        memcpy(&segment, (const char *)bytes + header.e_phoff + i * sizeof segment, sizeof segment);
        if (!is_within(segment.p_offset, segment.p_filesz, len))
            return false;
    }
    return true;
}

int driver_load(struct driver *d, const void *cubin, size_t len, void **out_module, struct err *e)
{
    assert(cubin && out_module);
    void *module = NULL;
    if (!is_whole_elf(cubin, len))
        return err_set(e, WARM_EMALFORMED, "not a whole cubin");
    void *aligned = malloc(len); /* in a bundle a cubin begins at any byte */
    if (!aligned)
        return err_set(e, WARM_ENOMEM, "a cubin");
    memcpy(aligned, cubin, len);
    int result = d->cuModuleLoadData(&module, aligned);
    free(aligned);
    int code = result == CUDA_ERROR_NO_BINARY_FOR_GPU ? WARM_EUNSUPPORTED : WARM_EMALFORMED;
    int rc = checked(d, result, code, "cuModuleLoadData", e);
    if (rc == 0)
        *out_module = module;
    return rc;
}

void driver_unload(struct driver *d, void *module)
{
    if (module)
        d->cuModuleUnload(module);
}

int driver_function(struct driver *d, void *module, const char *name, void **out, struct err *e)
{
    assert(module && name);
    return checked(d, d->cuModuleGetFunction(out, module, name), WARM_ENOT_FOUND, name, e);
}

/* ---- memory ---- */

int driver_alloc(struct driver *d, size_t bytes, uint64_t *out, struct err *e)
{
    assert(bytes); /* CUDA has no empty memory */
    uint64_t address = 0;
    int result = d->cuMemAlloc(&address, bytes);
    int rc = checked(d, result, result == CUDA_ERROR_OUT_OF_MEMORY ? WARM_ENOMEM : WARM_EIO,
                     "cuMemAlloc", e);
    if (rc == 0)
        *out = address;
    return rc;
}

void driver_free(struct driver *d, uint64_t address)
{
    if (address)
        d->cuMemFree(address);
}

int driver_copy(struct driver *d, uint64_t to, uint64_t from, size_t bytes, struct err *e)
{
    assert(to && from);
    return CHECKED(d, WARM_EIO, e, cuMemcpyAsync, to, from, bytes, d->stream);
}

int driver_write(struct driver *d, uint64_t to, const void *from, size_t bytes, struct err *e)
{
    int rc = driver_copy(d, to, (uint64_t)(uintptr_t)from, bytes, e);
    return rc ? rc : driver_wait(d, e);
}

int driver_read(struct driver *d, void *to, uint64_t from, size_t bytes, struct err *e)
{
    int rc = driver_copy(d, (uint64_t)(uintptr_t)to, from, bytes, e);
    return rc ? rc : driver_wait(d, e);
}

/* ---- work ---- */

int driver_launch(struct driver *d, void *function, struct driver_dims grid,
                  struct driver_dims block, void **args, struct err *e)
{
    assert(function && grid.x && grid.y && block.x && block.y);
    return CHECKED(d, WARM_EIO, e, cuLaunchKernel, function, grid.x, grid.y, 1, block.x, block.y, 1,
                   0, d->stream, args, NULL);
}

int driver_wait(struct driver *d, struct err *e)
{
    return CHECKED(d, WARM_EIO, e, cuStreamSynchronize, d->stream);
}

int driver_wait_for_all(struct driver *d, struct err *e)
{
    return checked(d, d->cuCtxSynchronize(), WARM_EIO, "cuCtxSynchronize", e);
}

int driver_capture_begin(struct driver *d, struct err *e)
{
    return CHECKED(d, WARM_EIO, e, cuStreamBeginCapture, d->stream, CAPTURE_THREAD_LOCAL);
}

int driver_capture_end(struct driver *d, void **out, struct err *e)
{
    void *graph = NULL;
    int rc = CHECKED(d, WARM_EIO, e, cuStreamEndCapture, d->stream, &graph);
    if (rc == 0)
        rc = CHECKED(d, WARM_EIO, e, cuGraphInstantiate, out, graph, 0);
    if (graph)
        d->cuGraphDestroy(graph);
    return rc;
}

int driver_replay(struct driver *d, void *recording, struct err *e)
{
    assert(recording);
    return CHECKED(d, WARM_EIO, e, cuGraphLaunch, recording, d->stream);
}

void driver_recording_free(struct driver *d, void *recording)
{
    if (recording)
        d->cuGraphExecDestroy(recording);
}
