/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcuda.c - a stand-in for libcuda.so.1, for tests on machines without a GPU: one device, whose
 * memory is the host's. Its JIT compiler makes a "cubin" that lists the kernels of a PTX text. What
 * it does is noted, a line each, in the file $FAKECUDA_LOG: jit, load cubin, load ptx, launch NAME.
 * It can run the kernel `twice`, each thread of which doubles a float, and those of the library
 * $FAKECUDA_KERNELS (image.h). An address that is not of its memory is an error, as on a GPU; new memory is
 * full of numbers that are none. $FAKECUDA_MEMORY: how many bytes it has.
 *
 * $FAKECUDA_CC (90), $FAKECUDA_DRIVER (13000): what it says of itself. $FAKECUDA_STAMP is put into
 * cubins, and cubins with the stamp $FAKECUDA_REFUSE ("real": those made for a GPU) do not load. PTX
 * that holds the word $FAKECUDA_BREAKS ("broken") is not compiled. Built by the tests that use it,
 * with -Bsymbolic, so that no call of its own goes through a preloaded library.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/preload/driver/api.h"
#include "tests/fakecuda/image.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* the declarations are in cuda.h */

enum {
    TEXT_MAX = 4096,
    OUT_OF_MEMORY = 2,
    INVALID_DEVICE = 101,
    NO_CONTEXT = 201,
    NOT_FOUND = 500,
    ILLEGAL_ADDRESS = 700
};

struct module {
    char text[TEXT_MAX]; /* of its cubin */
    int is_real;         /* a cubin that was made for a GPU: has whatever is asked for */
    const struct image_kernel *kernel; /* what it does, if that is known */
    struct function *functions;        /* that were found in it */
};
struct function {
    char name[128];
    struct module *module;
    struct function *next;
};
struct cu_link {
    char text[TEXT_MAX], cubin[TEXT_MAX];
    char *info_log;
    void **info_size;
};

static int context;
static __thread void *current;

static const char *setting(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value && *value ? value : otherwise;
}

static void note(const char *what, const char *more)
{
    int fd =
        open(setting("FAKECUDA_LOG", "/dev/null"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    dprintf(fd, "%s%s\n", what, more);
    close(fd);
}

/* ---- devices and contexts ---- */

int cuInit(unsigned flags) { return flags ? CU_INVALID_VALUE : CU_SUCCESS; }

int cuDriverGetVersion(int *version)
{
    *version = atoi(setting("FAKECUDA_DRIVER", "13000"));
    return CU_SUCCESS;
}

int cuDeviceGetCount(int *n)
{
    *n = 1;
    return CU_SUCCESS;
}

int cuDeviceGet(int *device, int ordinal)
{
    *device = 0;
    return ordinal ? INVALID_DEVICE : CU_SUCCESS;
}

int cuDeviceGetName(char *name, int len, int device)
{
    (void)device;
    snprintf(name, (size_t)len, "Stand-in %s", setting("FAKECUDA_CC", "90"));
    return CU_SUCCESS;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    int cc = atoi(setting("FAKECUDA_CC", "90"));
    (void)device;
    *value = attribute == CU_CC_MAJOR ? cc / 10 : attribute == CU_CC_MINOR ? cc % 10 : 0;
    return CU_SUCCESS;
}

int cuDeviceGetUuid_v2(char uuid[16], int device)
{
    memcpy(uuid, "stand-in for one", 16);
    return device ? INVALID_DEVICE : CU_SUCCESS;
}

/* NVRTC asks for one, where it would find the driver's cache. */
int cuGetExportTable(const void **out, const void *id)
{
    (void)id;
    *out = NULL;
    return NOT_FOUND;
}

int cuDevicePrimaryCtxRetain(void **out, int device)
{
    *out = &context;
    return device ? INVALID_DEVICE : CU_SUCCESS;
}

int cuDevicePrimaryCtxRelease_v2(int device) { return device ? INVALID_DEVICE : CU_SUCCESS; }

int cuCtxSetCurrent(void *it)
{
    current = it;
    return CU_SUCCESS;
}

/* One context is all there is: what was current before is that, or none. */
int cuCtxPushCurrent_v2(void *it) { return cuCtxSetCurrent(it); }

int cuCtxPopCurrent_v2(void **out)
{
    *out = current;
    current = NULL;
    return *out ? CU_SUCCESS : NO_CONTEXT;
}

int cuCtxGetDevice(int *device)
{
    *device = 0;
    return current ? CU_SUCCESS : NO_CONTEXT;
}

int cuCtxGetCurrent(void **out)
{
    *out = current;
    return CU_SUCCESS;
}

int cuCtxSynchronize(void) { return current ? CU_SUCCESS : NO_CONTEXT; }

int cuGetErrorName(int code, const char **out)
{
    *out = code == CU_SUCCESS             ? "CUDA_SUCCESS"
           : code == CU_INVALID_VALUE     ? "CUDA_ERROR_INVALID_VALUE"
           : code == OUT_OF_MEMORY        ? "CUDA_ERROR_OUT_OF_MEMORY"
           : code == CU_NO_BINARY_FOR_GPU ? "CUDA_ERROR_NO_BINARY_FOR_GPU"
           : code == NOT_FOUND            ? "CUDA_ERROR_NOT_FOUND"
           : code == ILLEGAL_ADDRESS      ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                                          : "CUDA_ERROR_OF_THE_STAND_IN";
    return CU_SUCCESS;
}

int cuGetErrorString(int code, const char **out) { return cuGetErrorName(code, out); }

/* ---- the compiler ---- */

/* A cubin: "\x7f" "ELF", the target, the stamp, and the name of each kernel. */
static int compile(const char *ptx, size_t len, char out[TEXT_MAX])
{
    char *text = strndup(ptx, len);
    size_t at = (size_t)snprintf(out, TEXT_MAX,
                                 "\x7f"
                                 "ELF sm_%s %s:",
                                 setting("FAKECUDA_CC", "90"), setting("FAKECUDA_STAMP", "first"));
    note("jit", "");
    if (strstr(text, setting("FAKECUDA_BREAKS", "broken"))) {
        free(text);
        return CU_INVALID_PTX;
    }
    for (char *entry = strstr(text, ".entry "); entry; entry = strstr(entry + 1, ".entry ")) {
        char *name = entry + strlen(".entry ");
        at += (size_t)snprintf(out + at, TEXT_MAX - at, " %.*s;", (int)strcspn(name, " (\n"), name);
    }
    free(text);
    return CU_SUCCESS;
}

/* The text of a fat binary that holds nothing else, or the image itself. */
static const char *text_of(const char *image)
{
    enum { HEADERS = 16 + 80 };
    return memcmp(image, "\x50\xed\x55\xba", 4) == 0 ? image + HEADERS : image;
}

/* Returns what a cubin does, from the library of kernels, or NULL. */
static const struct image_kernel *kernel_of(const void *image)
{
    static void *library;
    char name[32];
    const char *path = setting("FAKECUDA_KERNELS", "");
    if (!library && *path)
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return NULL;
    snprintf(name, sizeof name, "image_%016llx", (unsigned long long)image_id(image));
    return dlsym(library, name);
}

static int load(void **out, const void *image)
{
    struct module *m = calloc(1, sizeof *m);
    char refused[128];
    int code = CU_SUCCESS;
    if (memcmp(image,
               "\x7f"
               "ELF",
               4) == 0) {
        note("load cubin", "");
        m->is_real = ((const char *)image)[4] == 2; /* the class of such files */
        if (m->is_real && strcmp(setting("FAKECUDA_REFUSE", "-"), "real") == 0)
            code = CU_INVALID_IMAGE;
        if (m->is_real)
            m->kernel = kernel_of(image);
        if (!m->is_real)
            strcpy(m->text, image);
        snprintf(refused, sizeof refused, " %s:", setting("FAKECUDA_REFUSE", "-"));
        if (strstr(m->text, refused))
            code = CU_NO_BINARY_FOR_GPU;
    } else {
        note("load ptx", "");
        code = compile(text_of(image), strlen(text_of(image)), m->text);
    }
    if (code == CU_SUCCESS)
        *out = m;
    else
        free(m);
    return code;
}

/* ---- modules and libraries ---- */

int cuModuleLoadData(void **module, const void *image)
{
    return current ? load(module, image) : NO_CONTEXT;
}

int cuModuleLoadDataEx(void **module, const void *image, unsigned n, int *options, void **values)
{
    for (unsigned i = 0; i < n; i++)
        if (options[i] == CU_JIT_INFO_LOG_SIZE || options[i] == CU_JIT_ERROR_LOG_SIZE)
            values[i] = NULL; /* nothing was written */
    return cuModuleLoadData(module, image);
}

int cuModuleLoadFatBinary(void **module, const void *image)
{
    return text_of(image) == image ? CU_INVALID_IMAGE : cuModuleLoadData(module, image);
}

int cuModuleUnload(void *module)
{
    struct module *m = module;
    for (struct function *next, *f = m->functions; f; f = next) {
        next = f->next;
        free(f);
    }
    free(m);
    return CU_SUCCESS;
}

int cuModuleGetFunction(void **out, void *module, const char *name)
{
    struct module *m = module;
    char wanted[160];
    snprintf(wanted, sizeof wanted, " %s;", name);
    struct function *f = m->is_real || strstr(m->text, wanted) ? calloc(1, sizeof *f) : NULL;
    if (!f)
        return NOT_FOUND;
    snprintf(f->name, sizeof f->name, "%s", name);
    f->module = m;
    f->next = m->functions;
    m->functions = f;
    *out = f;
    return CU_SUCCESS;
}

int cuLibraryLoadData(void **library, const void *image, int *options, void **values, unsigned n,
                      int *library_options, void **library_values, unsigned n_library)
{
    (void)options, (void)values, (void)n;
    (void)library_options, (void)library_values, (void)n_library;
    return load(library, image);
}

int cuLibraryUnload(void *library) { return cuModuleUnload(library); }

int cuLibraryGetKernel(void **kernel, void *library, const char *name)
{
    return cuModuleGetFunction(kernel, library, name);
}

int cuLibraryGetModule(void **module, void *library)
{
    *module = library;
    return CU_SUCCESS;
}

int cuKernelGetAttribute(int *value, int attribute, void *kernel, int device)
{
    (void)attribute, (void)kernel;
    *value = 32; /* registers, bytes, versions: nobody counts */
    return device ? INVALID_DEVICE : CU_SUCCESS;
}

/* ---- links ---- */

int cuLinkCreate_v2(unsigned n, int *options, void **values, struct cu_link **out)
{
    struct cu_link *l = calloc(1, sizeof *l);
    for (unsigned i = 0; i < n; i++) {
        if (options[i] == CU_JIT_INFO_LOG)
            l->info_log = values[i];
        if (options[i] == CU_JIT_INFO_LOG_SIZE)
            l->info_size = &values[i];
    }
    *out = l;
    return CU_SUCCESS;
}

int cuLinkAddData_v2(struct cu_link *l, int type, void *data, size_t len, const char *name,
                     unsigned n, int *options, void **values)
{
    char one[TEXT_MAX];
    int code = compile(data, len, one);
    (void)type, (void)name, (void)n, (void)options, (void)values;
    if (code == CU_SUCCESS)
        strncat(l->text, strchr(one, ':') + 1, sizeof l->text - strlen(l->text) - 1);
    return code;
}

int cuLinkAddFile_v2(struct cu_link *l, int type, const char *path, unsigned n, int *options,
                     void **values)
{
    char data[TEXT_MAX];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, data, sizeof data);
    if (fd >= 0)
        close(fd);
    return len < 0 ? 301 : cuLinkAddData_v2(l, type, data, (size_t)len, path, n, options, values);
}

int cuLinkComplete(struct cu_link *l, void **cubin, size_t *len)
{
    note("link", "");
    snprintf(l->cubin, sizeof l->cubin,
             "\x7f"
             "ELF sm_%s %s:%s",
             setting("FAKECUDA_CC", "90"), setting("FAKECUDA_STAMP", "first"), l->text);
    const char *said = setting("FAKECUDA_SAYS", "");
    if (l->info_log && *said) {
        strcpy(l->info_log, said);
        *l->info_size = (void *)strlen(said);
    } else if (l->info_size) {
        *l->info_size = NULL;
    }
    *cubin = l->cubin;
    *len = strlen(l->cubin) + 1;
    return CU_SUCCESS;
}

int cuLinkDestroy(struct cu_link *l)
{
    free(l);
    return CU_SUCCESS;
}

/* ---- memory ---- */

static struct block {
    struct block *next;
    uintptr_t at;
    size_t len;
} * blocks;
static size_t allocated;

static size_t memory(void) { return strtoul(setting("FAKECUDA_MEMORY", "1073741824"), NULL, 10); }

/* True if these bytes are within one allocation. */
static int is_ours(unsigned long long at, size_t len)
{
    for (const struct block *b = blocks; b; b = b->next)
        if (at >= b->at && at - b->at <= b->len && len <= b->len - (at - b->at))
            return 1;
    return 0;
}

int cuMemGetInfo_v2(size_t *free_bytes, size_t *all_bytes)
{
    *all_bytes = memory();
    *free_bytes = *all_bytes - allocated;
    return CU_SUCCESS;
}

int cuMemAlloc_v2(unsigned long long *out, size_t len)
{
    if (len == 0)
        return CU_INVALID_VALUE;
    if (len > memory() - allocated)
        return OUT_OF_MEMORY;
    void *at = NULL;
    struct block *b = malloc(sizeof *b);
    if (posix_memalign(&at, 256, len) != 0)
        return OUT_OF_MEMORY;
    memset(at, 0xFF, len);
    *b = (struct block){blocks, (uintptr_t)at, len};
    blocks = b;
    allocated += len;
    *out = b->at;
    return CU_SUCCESS;
}

int cuMemFree_v2(unsigned long long address)
{
    for (struct block **at = &blocks; *at; at = &(*at)->next) {
        struct block *b = *at;
        if (b->at != address)
            continue;
        *at = b->next;
        allocated -= b->len;
        free((void *)b->at);
        free(b);
        return CU_SUCCESS;
    }
    return CU_INVALID_VALUE;
}

int cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t len)
{
    if (!is_ours(to, len))
        return CU_INVALID_VALUE;
    memcpy((void *)(uintptr_t)to, from, len);
    return CU_SUCCESS;
}

int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t len)
{
    if (!is_ours(from, len))
        return CU_INVALID_VALUE;
    memcpy(to, (void *)(uintptr_t)from, len);
    return CU_SUCCESS;
}

int cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t len, void *stream)
{
    (void)stream;
    return cuMemcpyHtoD_v2(to, from, len);
}

int cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t len, void *stream)
{
    (void)stream;
    return cuMemcpyDtoH_v2(to, from, len);
}

/* ---- launches and copies: run at once, or are recorded by a stream that captures ---- */

enum { ARGS_MAX = 128 };

struct work {
    struct work *next;
    const struct image_kernel *kernel; /* NULL: a copy of args[2] bytes from args[1] to args[0] */
    unsigned blocks, threads;
    unsigned long long args[ARGS_MAX];
};
struct recording {
    struct work *first, **end;
    int references; /* by a CUgraph and by a CUgraphExec */
};
struct stream {
    struct recording *recording; /* NULL: it does not capture */
};

static int run_work(struct work *w)
{
    void *pointers[ARGS_MAX];
    if (!w->kernel) {
        if (!is_ours(w->args[0], w->args[2]) || !is_ours(w->args[1], w->args[2]))
            return CU_INVALID_VALUE;
        memmove((void *)(uintptr_t)w->args[0], (void *)(uintptr_t)w->args[1], w->args[2]);
        return CU_SUCCESS;
    }
    for (unsigned i = 0; i < w->kernel->n_args; i++) {
        pointers[i] = &w->args[i];
        if (!is_ours(w->args[i], 1))
            return ILLEGAL_ADDRESS;
    }
    w->kernel->run(w->blocks, w->threads, w->kernel->has_barriers, pointers);
    return CU_SUCCESS;
}

static int do_work(struct stream *s, struct work w)
{
    struct work *kept;
    if (!s || !s->recording)
        return run_work(&w);
    kept = malloc(sizeof *kept);
    *kept = w;
    *s->recording->end = kept;
    s->recording->end = &kept->next;
    return CU_SUCCESS;
}

int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t len, void *stream)
{
    return do_work(stream, (struct work){.args = {to, from, len}});
}

int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                   void *stream, void **parameters, void **extra)
{
    struct function *f = function;
    const struct image_kernel *kernel = f->module->kernel;
    (void)shared, (void)extra;
    note("launch ", f->name);
    if (strcmp(f->name, "twice") == 0)
        for (unsigned i = 0; i < block_x; i++)
            (*(float **)parameters[0])[i] *= 2;
    if (!kernel)
        return CU_SUCCESS;
    struct work w = {.kernel = kernel, .blocks = grid_x, .threads = block_x};
    if (!grid_x || grid_y != 1 || grid_z != 1 || !block_x || block_x > 1024 || block_y != 1 ||
        block_z != 1 || kernel->n_args > ARGS_MAX)
        return CU_INVALID_VALUE;
    for (unsigned i = 0; i < kernel->n_args; i++)
        memcpy(&w.args[i], parameters[i], sizeof w.args[i]);
    return do_work(stream, w);
}

int cuStreamBeginCapture_v2(struct stream *s, int mode)
{
    (void)mode;
    if (s->recording)
        return CU_INVALID_VALUE;
    s->recording = calloc(1, sizeof *s->recording);
    s->recording->end = &s->recording->first;
    return CU_SUCCESS;
}

int cuStreamEndCapture(struct stream *s, struct recording **out)
{
    *out = s->recording;
    if (!s->recording)
        return CU_INVALID_VALUE;
    s->recording->references = 1;
    s->recording = NULL;
    return CU_SUCCESS;
}

int cuGraphInstantiateWithFlags(struct recording **out, struct recording *r, uint64_t flags)
{
    (void)flags;
    r->references++;
    *out = r;
    return CU_SUCCESS;
}

int cuGraphLaunch(struct recording *r, void *stream)
{
    int code = CU_SUCCESS;
    (void)stream;
    note("graph", "");
    for (struct work *w = r->first; w && code == CU_SUCCESS; w = w->next)
        code = run_work(w);
    return code;
}

int cuGraphDestroy(struct recording *r)
{
    if (--r->references)
        return CU_SUCCESS;
    for (struct work *next, *w = r->first; w; w = next) {
        next = w->next;
        free(w);
    }
    free(r);
    return CU_SUCCESS;
}

int cuGraphExecDestroy(struct recording *r) { return cuGraphDestroy(r); }

/* A CUlaunchConfig begins with the grid's three numbers and the block's. */
int cuLaunchKernelEx(const unsigned *config, void *function, void **parameters, void **extra)
{
    return cuLaunchKernel(function, config[0], config[1], config[2], config[3], config[4],
                          config[5], 0, NULL, parameters, extra);
}

/* ---- streams: everything has happened by the time that a call returns ---- */

int cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    *least = *greatest = 0;
    return CU_SUCCESS;
}

int cuStreamCreate(void **out, unsigned flags)
{
    (void)flags;
    *out = calloc(1, sizeof(struct stream));
    return CU_SUCCESS;
}

int cuStreamCreateWithPriority(void **out, unsigned flags, int priority)
{
    (void)priority;
    return cuStreamCreate(out, flags);
}

int cuStreamGetCtx(void *stream, void **out)
{
    (void)stream;
    *out = &context;
    return CU_SUCCESS;
}

int cuStreamSynchronize(void *stream)
{
    (void)stream;
    return CU_SUCCESS;
}

int cuStreamDestroy_v2(void *stream)
{
    free(stream);
    return CU_SUCCESS;
}

/* ---- by name ---- */

int cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags, int *status);

int cuGetProcAddress(const char *name, void **out, int version, uint64_t flags)
{
    return cuGetProcAddress_v2(name, out, version, flags, NULL);
}

/* Not by dlsym, which may be a preloaded library's. */
int cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags, int *status)
{
#define NAMED(name, function)                                                                      \
    {                                                                                              \
        name, (void (*)(void))(function)                                                           \
    }
    static const struct {
        const char *name;
        void (*function)(void);
    } functions[] = {NAMED("cuInit", cuInit),
                     NAMED("cuDriverGetVersion", cuDriverGetVersion),
                     NAMED("cuDeviceGet", cuDeviceGet),
                     NAMED("cuDeviceGetCount", cuDeviceGetCount),
                     NAMED("cuDeviceGetAttribute", cuDeviceGetAttribute),
                     NAMED("cuDeviceGetName", cuDeviceGetName),
                     NAMED("cuDeviceGetUuid", cuDeviceGetUuid_v2),
                     NAMED("cuGetExportTable", cuGetExportTable),
                     NAMED("cuCtxGetCurrent", cuCtxGetCurrent),
                     NAMED("cuCtxGetDevice", cuCtxGetDevice),
                     NAMED("cuCtxPushCurrent", cuCtxPushCurrent_v2),
                     NAMED("cuCtxPopCurrent", cuCtxPopCurrent_v2),
                     NAMED("cuCtxSynchronize", cuCtxSynchronize),
                     NAMED("cuGetErrorName", cuGetErrorName),
                     NAMED("cuGetErrorString", cuGetErrorString),
                     NAMED("cuLibraryUnload", cuLibraryUnload),
                     NAMED("cuLibraryGetKernel", cuLibraryGetKernel),
                     NAMED("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain),
                     NAMED("cuDevicePrimaryCtxRelease", cuDevicePrimaryCtxRelease_v2),
                     NAMED("cuCtxSetCurrent", cuCtxSetCurrent),
                     NAMED("cuModuleLoadData", cuModuleLoadData),
                     NAMED("cuModuleLoadDataEx", cuModuleLoadDataEx),
                     NAMED("cuModuleLoadFatBinary", cuModuleLoadFatBinary),
                     NAMED("cuModuleGetFunction", cuModuleGetFunction),
                     NAMED("cuModuleUnload", cuModuleUnload),
                     NAMED("cuLibraryLoadData", cuLibraryLoadData),
                     NAMED("cuLibraryGetModule", cuLibraryGetModule),
                     NAMED("cuKernelGetAttribute", cuKernelGetAttribute),
                     NAMED("cuLinkCreate", cuLinkCreate_v2),
                     NAMED("cuLinkAddData", cuLinkAddData_v2),
                     NAMED("cuLinkAddFile", cuLinkAddFile_v2),
                     NAMED("cuLinkComplete", cuLinkComplete),
                     NAMED("cuLinkDestroy", cuLinkDestroy),
                     NAMED("cuMemGetInfo", cuMemGetInfo_v2),
                     NAMED("cuMemAlloc", cuMemAlloc_v2),
                     NAMED("cuMemcpyHtoD", cuMemcpyHtoD_v2),
                     NAMED("cuMemcpyDtoH", cuMemcpyDtoH_v2),
                     NAMED("cuMemcpyHtoDAsync", cuMemcpyHtoDAsync_v2),
                     NAMED("cuMemcpyDtoHAsync", cuMemcpyDtoHAsync_v2),
                     NAMED("cuMemFree", cuMemFree_v2),
                     NAMED("cuLaunchKernel", cuLaunchKernel),
                     NAMED("cuLaunchKernelEx", cuLaunchKernelEx),
                     NAMED("cuCtxGetStreamPriorityRange", cuCtxGetStreamPriorityRange),
                     NAMED("cuMemcpyDtoDAsync", cuMemcpyDtoDAsync_v2),
                     NAMED("cuStreamCreate", cuStreamCreate),
                     NAMED("cuStreamCreateWithPriority", cuStreamCreateWithPriority),
                     NAMED("cuStreamGetCtx", cuStreamGetCtx),
                     NAMED("cuStreamSynchronize", cuStreamSynchronize),
                     NAMED("cuStreamDestroy", cuStreamDestroy_v2),
                     NAMED("cuGetProcAddress", cuGetProcAddress_v2)};
    (void)version, (void)flags;
    *out = NULL;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(name, functions[i].name) == 0)
            memcpy(out, &functions[i].function, sizeof *out);
    if (status)
        *status = *out ? 0 : 1;
    return *out ? CU_SUCCESS : NOT_FOUND;
}
