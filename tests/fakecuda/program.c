/* SPDX-License-Identifier: Apache-2.0 */
/*
 * program.c LIBCUDA HOW COMMAND…: a program on the CUDA driver, for tests; runs on a real driver as
 * on the stand-in. HOW is how it finds functions: "dlsym" or "versioned" (dlvsym) in LIBCUDA; "default" or "next"
 * without a handle, or "default,dlsym" one after the other; "namespace" (dlsym) in a second LIBCUDA, which dlmopen loads; "address" or "address:VERSION" (cuGetProcAddress_v2). As a plugin (-Dmain=plugin_main,
 * plugin_host.c) it may be linked with the driver (-DLINKED), as a program may.
 * Each command loads PTX files in one way, runs the kernel `twice` of what was loaded, and prints
 * what came of it: "2 4 6 8", or "error N":
 *     whose ANYTHING: prints which of the functions that were found are not the driver's own, or "the driver's"
 *     module FILE · ex FILE · registers FILE (a limit of 32) · target FILE (for sm_90)
 *     logs FILE (with a buffer for them) · library FILE · ownlibrary FILE (with an option of its own) · file FILE · filelibrary FILE (by path) ·
 *     fat FILE (a fat binary) · link FILES,SEPARATED,SO · paths FILES,SEPARATED,SO ·
 *     mixed FILES,SEPARATED,SO (the first by its path)
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/preload/driver/api.h"

enum { N = 4, FILE_MAX_BYTES = 65536 };

static struct {
    int (*init)(unsigned flags);
    int (*device)(int *device, int ordinal);
    int (*retain)(void **context, int device);
    int (*set_current)(void *context);
    int (*module_load)(void **module, const void *image);
    int (*module_load_ex)(void **module, const void *image, unsigned n, int *options,
                          void **values);
    int (*module_load_fat)(void **module, const void *image);
    int (*function)(void **function, void *module, const char *name);
    int (*library_load)(void **library, const void *image, int *options, void **values, unsigned n,
                        int *library_options, void **library_values, unsigned n_library);
    int (*module_load_file)(void **module, const char *path);
    int (*library_load_file)(void **library, const char *path, int *options, void **values,
                             unsigned n, int *library_options, void **library_values,
                             unsigned n_library);
    int (*library_module)(void **module, void *library);
    int (*link_create)(unsigned n, int *options, void **values, struct cu_link **link);
    int (*link_add)(struct cu_link *link, int type, void *data, size_t len, const char *name,
                    unsigned n, int *options, void **values);
    int (*link_add_file)(struct cu_link *link, int type, const char *path, unsigned n, int *options,
                         void **values);
    int (*link_complete)(struct cu_link *link, void **cubin, size_t *len);
    int (*link_destroy)(struct cu_link *link);
    int (*allocate)(unsigned long long *out, size_t len);
    int (*to_device)(unsigned long long to, const void *from, size_t len);
    int (*to_host)(void *to, unsigned long long from, size_t len);
    int (*launch)(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                  unsigned bz, unsigned shared, void *stream, void **parameters, void **extra);
} cu;

/* In the order of the fields above: under which name, and which symbol. */
static const char *const names[][2] = {{"cuInit", "cuInit"},
                                       {"cuDeviceGet", "cuDeviceGet"},
                                       {"cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRetain"},
                                       {"cuCtxSetCurrent", "cuCtxSetCurrent"},
                                       {"cuModuleLoadData", "cuModuleLoadData"},
                                       {"cuModuleLoadDataEx", "cuModuleLoadDataEx"},
                                       {"cuModuleLoadFatBinary", "cuModuleLoadFatBinary"},
                                       {"cuModuleGetFunction", "cuModuleGetFunction"},
                                       {"cuLibraryLoadData", "cuLibraryLoadData"},
                                       {"cuModuleLoad", "cuModuleLoad"},
                                       {"cuLibraryLoadFromFile", "cuLibraryLoadFromFile"},
                                       {"cuLibraryGetModule", "cuLibraryGetModule"},
                                       {"cuLinkCreate", "cuLinkCreate_v2"},
                                       {"cuLinkAddData", "cuLinkAddData_v2"},
                                       {"cuLinkAddFile", "cuLinkAddFile_v2"},
                                       {"cuLinkComplete", "cuLinkComplete"},
                                       {"cuLinkDestroy", "cuLinkDestroy"},
                                       {"cuMemAlloc", "cuMemAlloc_v2"},
                                       {"cuMemcpyHtoD", "cuMemcpyHtoD_v2"},
                                       {"cuMemcpyDtoH", "cuMemcpyDtoH_v2"},
                                       {"cuLaunchKernel", "cuLaunchKernel"}};
_Static_assert(sizeof cu == sizeof names / sizeof *names * sizeof(void *), "a name for each field");

#ifdef LINKED /* with libcuda.so.1: calls go through the dynamic linker */
int cuModuleLoadData(void **module, const void *image);
int cuLinkCreate_v2(unsigned n, int *options, void **values, struct cu_link **link);
int cuLinkAddData_v2(struct cu_link *link, int type, void *data, size_t len, const char *name,
                     unsigned n, int *options, void **values);
int cuLinkComplete(struct cu_link *link, void **cubin, size_t *len);
int cuLinkDestroy(struct cu_link *link);

static void find_linked(void)
{
    cu.module_load = cuModuleLoadData;
    cu.link_create = cuLinkCreate_v2;
    cu.link_add = cuLinkAddData_v2;
    cu.link_complete = cuLinkComplete;
    cu.link_destroy = cuLinkDestroy;
}
#elif defined LINKED_ADD /* only this one */
int cuLinkAddData_v2(struct cu_link *link, int type, void *data, size_t len, const char *name,
                     unsigned n, int *options, void **values);
static void find_linked(void) { cu.link_add = cuLinkAddData_v2; }
#else
static void find_linked(void) {}
#endif

/* The stand-in's version from which cuLinkAddData is an invented function with other parameters. */
enum { INVENTED_VERSION = 14000 };
static int version = 12000;

static int link_add(struct cu_link *link, void *data, size_t len, const char *name)
{
    int (*newer)(const void *inputs, struct cu_link *link);
    memcpy(&newer, &cu.link_add, sizeof newer);
    if (version >= INVENTED_VERSION)
        return newer(data, link);
    return cu.link_add(link, CU_JIT_INPUT_PTX, data, len, name, 0, NULL, NULL);
}

static void *find_one(void *library, const char *how, size_t i)
{
    static int (*address)(const char *, void **, int, uint64_t, int *);
    void *found = NULL;
    if (strcmp(how, "default") == 0)
        return dlsym(RTLD_DEFAULT, names[i][1]);
    if (strcmp(how, "next") == 0)
        return dlsym(RTLD_NEXT, names[i][1]);
    if (strcmp(how, "versioned") == 0)
        return dlvsym(library, names[i][1], "ANY");
    if (strncmp(how, "address", 7) != 0)
        return dlsym(library, names[i][1]);
    if (!address) { /* as the runtime does: through what that function itself is found by */
        *(void **)&address = dlsym(library, "cuGetProcAddress_v2");
        address("cuGetProcAddress", (void **)&address, version, 0, NULL);
    }
    address(names[i][0], &found, version, 0, NULL);
    return found;
}

static int find(void *library, const char *how)
{
    void **fields = (void **)&cu;
    if (strncmp(how, "address:", 8) == 0)
        version = atoi(how + 8);
    if (strcmp(how, "default,dlsym") == 0 && !dlsym(RTLD_DEFAULT, "cuLinkAddData_v2"))
        return 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!(fields[i] = find_one(library, how, i)))
            return 0;
    find_linked();
    return 1;
}

static void tell_whose(void)
{
    void **fields = (void **)&cu;
    int n = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        Dl_info it;
        if (dladdr(fields[i], &it) && !strstr(it.dli_fname, "libcuda"))
            printf("%s%s", n++ ? " " : "", names[i][0]);
    }
    printf("%s\n", n ? "" : "the driver's");
}

static char *read_text(const char *path, size_t *out_len)
{
    char *text = calloc(1, FILE_MAX_BYTES);
    FILE *f = fopen(path, "rb");
    *out_len = f ? fread(text, 1, FILE_MAX_BYTES - 1, f) : 0;
    if (f)
        fclose(f);
    return text;
}

static int run(void *module)
{
    float data[N] = {1, 2, 3, 4};
    unsigned long long memory;
    void *function, *parameters[] = {&memory};
    int code = cu.function(&function, module, "twice");
    if (code)
        return code;
    cu.allocate(&memory, sizeof data);
    cu.to_device(memory, data, sizeof data);
    code = cu.launch(function, 1, 1, 1, N, 1, 1, 0, NULL, parameters, NULL);
    cu.to_host(data, memory, sizeof data);
    if (!code)
        printf("%g %g %g %g\n", data[0], data[1], data[2], data[3]);
    return code;
}

static int run_link(char *files, int n_by_path)
{
    char info[256] = "";
    int options[] = {CU_JIT_INFO_LOG, CU_JIT_INFO_LOG_SIZE};
    void *values[] = {info, (void *)sizeof info}, *cubin, *module;
    struct cu_link *link;
    size_t len;
    int code = cu.link_create(2, options, values, &link);
    for (char *f = strtok(files, ","); f && !code; f = strtok(NULL, ",")) {
        char *ptx = read_text(f, &len);
        code = n_by_path-- > 0 ? cu.link_add_file(link, CU_JIT_INPUT_PTX, f, 0, NULL, NULL)
                               : link_add(link, ptx, len + 1, f);
        free(ptx);
        if (code)
            printf("adding: ");
    }
    if (!code)
        code = cu.link_complete(link, &cubin, &len);
    if (!code && values[1])
        printf("log of %zu: %s; ", (size_t)values[1], info);
    if (!code)
        code = cu.module_load(&module, cubin);
    if (!code)
        code = run(module);
    cu.link_destroy(link);
    return code;
}

static int load_with_log(void **module, const void *image)
{
    char info[256] = "";
    int options[] = {CU_JIT_INFO_LOG, CU_JIT_INFO_LOG_SIZE};
    void *values[] = {info, (void *)sizeof info};
    int code = cu.module_load_ex(module, image, 2, options, values);
    if (!code && values[1])
        printf("log of %zu: %s; ", (size_t)values[1], info);
    return code;
}

static int load_library(void **module, const char *how, const char *path, const char *image)
{
    int option = 1, has_option = strcmp(how, "library") != 0; /* the image is preserved */
    void *value = (void *)1, *library;
    int code = strcmp(how, "filelibrary") == 0
                   ? cu.library_load_file(&library, path, NULL, NULL, 0, NULL, NULL, 0)
                   : cu.library_load(&library, image, NULL, NULL, 0, &option, &value, has_option);
    return code ? code : cu.library_module(module, library);
}

static int run_image(const char *how, const char *path)
{
    int option = strcmp(how, "target") == 0 ? 9 : CU_JIT_MAX_REGISTERS;
    void *value = (void *)(uintptr_t)(strcmp(how, "target") == 0 ? 90 : 32), *module;
    size_t len;
    char *image = read_text(path, &len);
    int code;
    if (strcmp(how, "module") == 0)
        code = cu.module_load(&module, image);
    else if (strcmp(how, "fat") == 0)
        code = cu.module_load_fat(&module, image);
    else if (strcmp(how, "logs") == 0)
        code = load_with_log(&module, image);
    else if (strcmp(how, "file") == 0)
        code = cu.module_load_file(&module, path);
    else if (strstr(how, "library"))
        code = load_library(&module, how, path, image);
    else
        code = cu.module_load_ex(&module, image, strcmp(how, "ex") ? 1 : 0, &option, &value);
    free(image);
    return code ? code : run(module);
}

int main(int argc, char **argv)
{
    void *context, *library = argc > 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    int device;
    if (library && strcmp(argv[2], "namespace") == 0)
        library = dlmopen(LM_ID_NEWLM, argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!library || !find(library, argv[2]) || cu.init(0) || cu.device(&device, 0) ||
        cu.retain(&context, device) || cu.set_current(context)) {
        fprintf(stderr, "program: no driver\n");
        return 1;
    }
    for (int i = 3; i + 1 < argc; i += 2) {
        const char *how = argv[i];
        int n_by_path = strcmp(how, "paths") == 0 ? 100 : strcmp(how, "mixed") == 0;
        if (strcmp(argv[i], "whose") == 0) {
            tell_whose();
            continue;
        }
        int code = n_by_path || strcmp(how, "link") == 0 ? run_link(argv[i + 1], n_by_path)
                                                         : run_image(how, argv[i + 1]);
        if (code)
            printf("error %d\n", code);
    }
    fflush(stdout); /* a plugin may have a C library of its own */
    return 0;
}
