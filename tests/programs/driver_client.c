/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver_client.c HOW: a client of the CUDA driver. It is linked with libcuda.so.1 unless it is built with -DUNLINKED.
 * It is a main program (-DMAIN) or a plugin, whose function `client` plugin_host.c calls.
 *
 * HOW it finds the driver's functions: linked, handle (dlsym), self (of the program), default (RTLD_DEFAULT), next (RTLD_NEXT), version
 * (dlvsym), address (cuGetProcAddress). On each device it loads files in each way that the driver has, and prints what
 * a user of it sees. CLIENT_ANY_CODE=1: it does not look at the registers of the code. CLIENT_THREADS=1: each device has
 * a thread.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUNCTIONS(X)                                                                               \
    X(cuInit, (unsigned))                                                                          \
    X(cuDeviceGetCount, (int *))                                                                   \
    X(cuDeviceGet, (int *, int))                                                                   \
    X(cuDeviceGetName, (char *, int, int))                                                         \
    X(cuDevicePrimaryCtxRetain, (void **, int))                                                    \
    X(cuDevicePrimaryCtxRelease_v2, (int))                                                         \
    X(cuCtxPushCurrent_v2, (void *))                                                               \
    X(cuCtxPopCurrent_v2, (void **))                                                               \
    X(cuModuleLoadData, (void **, const void *))                                                   \
    X(cuModuleLoadDataEx, (void **, const void *, unsigned, int *, void **))                       \
    X(cuModuleLoadFatBinary, (void **, const void *))                                              \
    X(cuModuleLoad, (void **, const char *))                                                       \
    X(cuModuleGetFunction, (void **, void *, const char *))                                        \
    X(cuModuleUnload, (void *))                                                                    \
    X(cuFuncGetAttribute, (int *, int, void *))                                                    \
    X(cuLibraryLoadData,                                                                           \
      (void **, const void *, int *, void **, unsigned, int *, void **, unsigned))                 \
    X(cuLibraryLoadFromFile,                                                                       \
      (void **, const char *, int *, void **, unsigned, int *, void **, unsigned))                 \
    X(cuLibraryGetModule, (void **, void *))                                                       \
    X(cuLibraryUnload, (void *))                                                                   \
    X(cuLinkCreate_v2, (unsigned, int *, void **, void **))                                        \
    X(cuLinkAddData_v2, (void *, int, void *, size_t, const char *, unsigned, int *, void **))     \
    X(cuLinkComplete, (void *, void **, size_t *))                                                 \
    X(cuLinkDestroy, (void *))                                                                     \
    X(cuMemAlloc_v2, (unsigned long long *, size_t))                                               \
    X(cuMemFree_v2, (unsigned long long))                                                          \
    X(cuMemcpyHtoD_v2, (unsigned long long, const void *, size_t))                                 \
    X(cuMemcpyDtoH_v2, (void *, unsigned long long, size_t))                                       \
    X(cuLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,         \
                       unsigned, void *, void **, void **))
#define DECLARE(name, parameters) int name parameters;
FUNCTIONS(DECLARE)
int cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags, int *status);
int client(const char *how);

static struct {
#define FIELD(name, parameters) int(*name) parameters;
    FUNCTIONS(FIELD)
} cu;

enum { INFO_LOG = 3, INFO_LOG_SIZE, ERROR_LOG, ERROR_LOG_SIZE, N = 4, DEVICES_MAX = 8 };

static __thread FILE *out;

/* ---- finding ---- */

static int is_how;

/* Returns a function of the driver as `how` says; `linked` is what the dynamic linker has found. */
static void *find(const char *how, const char *name, void *linked)
{
    static int (*address)(const char *, void **, int, uint64_t, int *);
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), *found = NULL;
    char base[64];
    if (strcmp(how, "linked") == 0)
        found = linked;
    else if (strcmp(how, "handle") == 0)
        found = dlsym(library, name);
    else if (strcmp(how, "self") == 0)
        found = dlsym(dlopen(NULL, RTLD_NOW), name);
    else if (strcmp(how, "default") == 0)
        found = dlsym(RTLD_DEFAULT, name);
    else if (strcmp(how, "next") == 0)
        found = dlsym(RTLD_NEXT, name);
    else if (strcmp(how, "version") == 0)
        found = dlvsym(library, name, "NONE");
    else if (strcmp(how, "address") == 0) {
        *(void **)&address = dlsym(library, "cuGetProcAddress_v2");
        address("cuGetProcAddress", (void **)&address, 12000, 0, NULL);
        snprintf(base, sizeof base, "%.*s",
                 (int)(strstr(name, "_v2") ? strlen(name) - 3 : strlen(name)), name);
        address(base, &found, 12000, 0, NULL);
    }
    is_how &= found != NULL;
    return found;
}

/* Prints what a look-up leaves behind: the error if there is no such function, errno. */
static void look_for_nothing(void)
{
    static const char *const names[] = {"cuLibraryLoadNothing", "cuModuleLoadNothing",
                                        "nvrtcNothing", "nothing"};
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *const handles[] = {library, RTLD_DEFAULT, RTLD_NEXT};
    errno = EXDEV;
    void *found = dlsym(library, "cuLinkCreate_v2");
    dprintf(1, "%s, errno %d\n", found ? "found" : "missing", errno);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (size_t j = 0; j < sizeof handles / sizeof *handles; j++) {
            found = dlsym(handles[j], names[i]);
            const char *error = dlerror();
            dprintf(1, "%s: %s %s\n", names[i], found ? "found" : "missing", error ? error : "-");
        }
}

/* ---- what it does ---- */

static char *read_file(const char *path)
{
    char *text = calloc(1, 65536);
    FILE *f = fopen(path, "rb");
    if (!f || !fread(text, 1, 65535, f))
        exit(3);
    fclose(f);
    return text;
}

/* Runs the kernel `twice` of a module, and prints what came of it. */
static void run(const char *what, int code, void *module)
{
    float data[N] = {1, 2, 3, 4};
    unsigned long long memory;
    void *function, *parameters[] = {&memory};
    int registers = 0;
    if (!code)
        code = cu.cuModuleGetFunction(&function, module, "twice");
    if (!code && !getenv("CLIENT_ANY_CODE"))
        code = cu.cuFuncGetAttribute(&registers, 4, function);
    if (!code && !(code = cu.cuMemAlloc_v2(&memory, sizeof data))) {
        cu.cuMemcpyHtoD_v2(memory, data, sizeof data);
        code = cu.cuLaunchKernel(function, 1, 1, 1, N, 1, 1, 0, NULL, parameters, NULL);
        cu.cuMemcpyDtoH_v2(data, memory, sizeof data);
        cu.cuMemFree_v2(memory);
    }
    fprintf(out, "%s: error %d, %g %g %g %g, %d registers\n", what, code, data[0], data[1], data[2],
            data[3], registers);
}

static void load_modules(void)
{
    static const char *const files[] = {"a.ptx", "b.ptx", "compressed.fatbin", "broken.ptx"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char *image = read_file(files[i]), info[64] = "", error[64] = "";
        int options[] = {INFO_LOG, INFO_LOG_SIZE, ERROR_LOG, ERROR_LOG_SIZE, 0};
        void *values[] = {info, (void *)sizeof info, error, (void *)sizeof error, (void *)24};
        void *module = NULL;
        int code = cu.cuModuleLoadData(&module, image);
        run(files[i], code, module);
        if (!code)
            cu.cuModuleUnload(module);
        code = cu.cuModuleLoadDataEx(&module, image, 5, options, values);
        run("with options", code, module);
        fprintf(out, "logs: %zu %s, %zu %s\n", (size_t)values[1], info, (size_t)values[3], error);
        code = cu.cuModuleLoadFatBinary(&module, image);
        run("as a fat binary", code, module);
        code = cu.cuModuleLoad(&module, files[i]);
        run("as a file", code, module);
        free(image);
    }
}

static void load_library(void)
{
    char *image = read_file("a.ptx");
    void *library, *module = NULL;
    int code = cu.cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0);
    free(image); /* the driver has a copy */
    if (!code)
        code = cu.cuLibraryGetModule(&module, library);
    run("library", code, module);
    cu.cuLibraryUnload(library);
    code = cu.cuLibraryLoadFromFile(&library, "a.ptx", NULL, NULL, 0, NULL, NULL, 0);
    if (!code)
        code = cu.cuLibraryGetModule(&module, library);
    run("library of a file", code, module);
    cu.cuLibraryUnload(library);
}

static void link_files(void)
{
    char info[256] = "";
    int options[] = {INFO_LOG, INFO_LOG_SIZE};
    void *values[] = {info, (void *)sizeof info}, *cubin, *module = NULL, *link;
    char *a = read_file("a.ptx"), *b = read_file("b.ptx");
    size_t len;
    int code = cu.cuLinkCreate_v2(2, options, values, &link);
    if (!code)
        code = cu.cuLinkAddData_v2(link, 1, a, strlen(a) + 1, "a", 0, NULL, NULL);
    if (!code)
        code = cu.cuLinkAddData_v2(link, 1, b, strlen(b) + 1, "b", 0, NULL, NULL);
    if (!code)
        code = cu.cuLinkComplete(link, &cubin, &len);
    if (!code)
        code = cu.cuModuleLoadData(&module, cubin);
    run("link", code, module);
    fprintf(out, "log of the link: %zu %s\n", (size_t)values[1], info);
    cu.cuLinkDestroy(link);
    free(a);
    free(b);
}

struct work {
    int device;
    char *text; /* what it prints */
    size_t len;
};

static void *run_device(void *arg)
{
    struct work *w = arg;
    char name[64] = "";
    void *context;
    int device;
    out = open_memstream(&w->text, &w->len);
    if (cu.cuDeviceGet(&device, w->device) || cu.cuDeviceGetName(name, sizeof name, device) ||
        cu.cuDevicePrimaryCtxRetain(&context, device) || cu.cuCtxPushCurrent_v2(context))
        exit(1);
    fprintf(out, "device %s\n", name);
    load_modules();
    load_library();
    link_files();
    int popped = cu.cuCtxPopCurrent_v2(&context);
    fprintf(out, "popped: %d, then %d\n", popped, cu.cuCtxPopCurrent_v2(&context));
    if (cu.cuDevicePrimaryCtxRelease_v2(device))
        exit(1);
    fclose(out);
    return NULL;
}

int client(const char *how)
{
    struct work work[DEVICES_MAX] = {0};
    pthread_t threads[DEVICES_MAX];
    int n = 0;
    is_how = 1;
#ifdef UNLINKED
#define FIND(function, parameters) *(void **)&cu.function = find(how, #function, NULL);
#else
#define FIND(function, parameters) *(void **)&cu.function = find(how, #function, (void *)function);
#endif
    FUNCTIONS(FIND)
    dprintf(1, "%s: %s\n", how, is_how ? "found" : "a function is missing");
    look_for_nothing();
    if (!is_how)
        return 0;
    if (cu.cuInit(0) || cu.cuDeviceGetCount(&n) || n > DEVICES_MAX)
        return 1;
    for (int i = 0; i < n; i++) {
        work[i].device = i;
        if (!getenv("CLIENT_THREADS"))
            run_device(&work[i]);
        else if (pthread_create(&threads[i], NULL, run_device, &work[i]))
            return 1;
    }
    for (int i = 0; i < n; i++) {
        if (getenv("CLIENT_THREADS"))
            pthread_join(threads[i], NULL);
        dprintf(1, "%s", work[i].text);
        free(work[i].text);
    }
    return 0;
}

#ifdef MAIN
int main(int argc, char **argv) { return argc == 2 ? client(argv[1]) : 2; }
#endif
