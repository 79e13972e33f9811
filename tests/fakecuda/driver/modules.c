/* SPDX-License-Identifier: Apache-2.0 */
/*
 * modules.c - modules, which belong to the context in which they were loaded; libraries, which are loaded into a
 * context when something of theirs is first needed there; and functions.
 *
 * With CUDA_MODULE_LOADING=EAGER a library is loaded at once. Options of the JIT compiler do nothing if the image
 * is a cubin: its log buffers stay as they are.
 *
 * Thread: any.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/fakecuda/driver/driver.h"

enum {
    CONTEXTS_MAX = 8,
    SHARED_OF_BLOCK = 48 * 1024,
    SHARED_OF_BLOCK_OPTIN = 227 * 1024,
    FILE_MAX_BYTES = 1 << 24
};
enum { MAX_THREADS_OF_BLOCK = 0, SHARED_BYTES = 1, REGISTERS_OF_THREAD = 4, MAX_DYNAMIC = 8 };

struct library {
    struct handle handle;
    char *image; /* a copy, unless the program keeps its own */
    unsigned most;
    struct module *modules[CONTEXTS_MAX];
};
struct library_kernel {
    struct handle handle;
    struct library *library;
    struct function *functions[CONTEXTS_MAX];
    char name[160];
};

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

static int load(void **out, const void *image, unsigned most)
{
    struct context *context = context_current();
    struct module *m = handle_new(MODULE, sizeof *m);
    int code = code_load(&m->code, image, context->device, most);
    if (code != CU_SUCCESS) {
        handle_end(m);
        return code;
    }
    m->context = context;
    m->run = m->code.original ? kernel_of(m->code.original) : NULL;
    *out = m;
    return CU_SUCCESS;
}

/* Returns a value of the JIT compiler's options, or 0. */
static unsigned option_of(unsigned n, const int *options, void *const *values, int wanted)
{
    for (unsigned i = 0; i < n && options && values; i++)
        if (options[i] == wanted)
            return (unsigned)(uintptr_t)values[i];
    return 0;
}

static char *read_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *bytes = fd >= 0 ? calloc(1, FILE_MAX_BYTES) : NULL;
    if (bytes && read(fd, bytes, FILE_MAX_BYTES - 1) < 4) {
        free(bytes);
        bytes = NULL;
    }
    if (fd >= 0)
        close(fd);
    return bytes;
}

/* ---- modules ---- */

CALL(cuModuleLoadData, ".cHm", (void **module, const void *image), module, image)
{
    return image ? load(module, image, 0) : CU_INVALID_VALUE;
}

CALL(cuModuleLoadDataEx, ".cHmo",
     (void **module, const void *image, unsigned n, int *options, void **values), module, image, n,
     options, values)
{
    if (!image)
        return CU_INVALID_VALUE;
    was_compiled = false;
    int code = load(module, image, option_of(n, options, values, CU_JIT_MAX_REGISTERS));
    for (unsigned i = 0; was_compiled && i < n; i++)
        if (options[i] == CU_JIT_INFO_LOG_SIZE || options[i] == CU_JIT_ERROR_LOG_SIZE)
            values[i] = NULL; /* nothing was written */
    return code;
}

CALL(cuModuleLoadFatBinary, ".cHm", (void **module, const void *image), module, image)
{
    return image && strcmp(image_kind(image), "fat") == 0 ? load(module, image, 0)
                                                          : CU_INVALID_IMAGE;
}

CALL(cuModuleLoad, ".cHs", (void **module, const char *path), module, path)
{
    char *image = read_file(path);
    return image ? load(module, image, 0) : FILE_NOT_FOUND; /* the code may live in it */
}

CALL(cuModuleUnload, ".cx", (void *module), module)
{
    struct module *m = handle_of(module, MODULE);
    if (!m)
        return INVALID_HANDLE;
    handle_end(m);
    return CU_SUCCESS;
}

static int find_function(struct function **out, struct module *m, const char *name)
{
    const struct kernel *k = NULL;
    for (unsigned i = 0; i < m->code.n && !k; i++)
        if (strcmp(m->code.kernels[i].name, name) == 0)
            k = &m->code.kernels[i];
    if (!k && !m->code.has_any)
        return NOT_FOUND;
    struct function *f = handle_new(FUNCTION, sizeof *f);
    f->module = m;
    f->kernel = k;
    f->dynamic_max = SHARED_OF_BLOCK - (k && k->shared < SHARED_OF_BLOCK ? k->shared : 0);
    snprintf(f->name, sizeof f->name, "%s", name);
    *out = f;
    return CU_SUCCESS;
}

CALL(cuModuleGetFunction, ".cHhs", (void **out, void *module, const char *name), out, module, name)
{
    struct module *m = handle_of(module, MODULE);
    return m ? find_function((struct function **)out, m, name) : INVALID_HANDLE;
}

CALL(cuModuleGetGlobal_v2, ".cHZhs",
     (unsigned long long *out, size_t *len, void *module, const char *name), out, len, module, name)
{
    (void)out, (void)len, (void)name;
    return handle_of(module, MODULE) ? NOT_FOUND : INVALID_HANDLE;
}

CALL(cuModuleGetLoadingMode, ".iI", (int *mode), mode)
{
    *mode = strcmp(setting("CUDA_MODULE_LOADING", "LAZY"), "EAGER") == 0 ? 1 : 2;
    return CU_SUCCESS;
}

/* ---- libraries ---- */

/* Returns the module of a library in the current context. */
static int module_of(struct library *l, struct module **out)
{
    struct context *context = context_current();
    unsigned i = 0;
    void *module;
    while (i < CONTEXTS_MAX && l->modules[i] && l->modules[i]->context != context)
        i++;
    if (i == CONTEXTS_MAX)
        return OUT_OF_MEMORY;
    int code = l->modules[i] ? CU_SUCCESS : load(&module, l->image, l->most);
    if (code == CU_SUCCESS && !l->modules[i])
        l->modules[i] = module;
    *out = l->modules[i];
    return code;
}

static int library_load(void **out, char *image, unsigned most)
{
    struct library *l = handle_new(LIBRARY, sizeof *l);
    struct module *module;
    l->image = image;
    l->most = most;
    *out = l;
    return context_current() && strcmp(setting("CUDA_MODULE_LOADING", "LAZY"), "EAGER") == 0
               ? module_of(l, &module)
               : CU_SUCCESS;
}

CALL(cuLibraryLoadData, ".iHmOppu",
     (void **library, const void *image, int *options, void **values, unsigned n,
      int *library_options, void **library_values, unsigned n_library),
     library, image, options, values, n, library_options, library_values, n_library)
{
    (void)library_options, (void)library_values, (void)n_library;
    if (!image)
        return CU_INVALID_VALUE;
    const char *whole = fat_of(image) ? fat_of(image) : image;
    size_t len = image_len(image);
    char *copy = calloc(1, len + 1);
    memcpy(copy, whole, len);
    return library_load(library, copy, option_of(n, options, values, CU_JIT_MAX_REGISTERS));
}

CALL(cuLibraryLoadFromFile, ".iHsOppu",
     (void **library, const char *path, int *options, void **values, unsigned n,
      int *library_options, void **library_values, unsigned n_library),
     library, path, options, values, n, library_options, library_values, n_library)
{
    char *image = read_file(path);
    (void)library_options, (void)library_values, (void)n_library;
    return image ? library_load(library, image, option_of(n, options, values, CU_JIT_MAX_REGISTERS))
                 : FILE_NOT_FOUND;
}

CALL(cuLibraryUnload, ".ix", (void *library), library)
{
    struct library *l = handle_of(library, LIBRARY);
    if (!l)
        return INVALID_HANDLE;
    for (int i = 0; i < CONTEXTS_MAX && l->modules[i]; i++)
        handle_end(l->modules[i]);
    handle_end(l);
    return CU_SUCCESS;
}

CALL(cuLibraryGetModule, ".cHh", (void **module, void *library), module, library)
{
    struct library *l = handle_of(library, LIBRARY);
    return l ? module_of(l, (struct module **)module) : INVALID_HANDLE;
}

/* Writes the function of a kernel in the current context. */
static int kernel_function(struct library_kernel *k, struct function **out)
{
    struct module *m;
    int code = module_of(k->library, &m);
    for (int i = 0; code == CU_SUCCESS && i < CONTEXTS_MAX; i++) {
        if (!k->functions[i])
            code = find_function(&k->functions[i], m, k->name);
        if (code == CU_SUCCESS && k->functions[i]->module == m) {
            *out = k->functions[i];
            return CU_SUCCESS;
        }
    }
    return code == CU_SUCCESS ? OUT_OF_MEMORY : code;
}

CALL(cuLibraryGetKernel, ".iHhs", (void **kernel, void *library, const char *name), kernel, library,
     name)
{
    struct library *l = handle_of(library, LIBRARY);
    struct function *f;
    if (!l)
        return INVALID_HANDLE;
    struct library_kernel *k = handle_new(KERNEL, sizeof *k);
    k->library = l;
    snprintf(k->name, sizeof k->name, "%s", name);
    int code = context_current() ? kernel_function(k, &f) : CU_SUCCESS;
    if (code == CU_SUCCESS)
        *kernel = k;
    else
        handle_end(k);
    return code;
}

CALL(cuLibraryGetGlobal, ".cHZhs",
     (unsigned long long *out, size_t *len, void *library, const char *name), out, len, library,
     name)
{
    (void)out, (void)len, (void)name;
    return handle_of(library, LIBRARY) ? NOT_FOUND : INVALID_HANDLE;
}

CALL(cuKernelGetFunction, ".cHh", (void **out, void *kernel), out, kernel)
{
    struct library_kernel *k = handle_of(kernel, KERNEL);
    return k ? kernel_function(k, (struct function **)out) : INVALID_HANDLE;
}

/* ---- functions ---- */

static struct function *function_of(void *handle)
{
    struct library_kernel *k = handle_of(handle, KERNEL);
    struct function *f = handle_of(handle, FUNCTION);
    if (k && kernel_function(k, &f) != CU_SUCCESS)
        return NULL;
    return f && !f->module->handle.is_gone && f->module->context == context_current() ? f : NULL;
}

static int attribute_of_function(const struct function *f, int attribute)
{
    const struct kernel *k = f->kernel;
    return attribute == MAX_THREADS_OF_BLOCK  ? (int)(k ? k->max_threads : 1024)
           : attribute == SHARED_BYTES        ? (int)(k ? k->shared : 0)
           : attribute == REGISTERS_OF_THREAD ? (int)(k ? k->registers : 32)
           : attribute == MAX_DYNAMIC         ? (int)f->dynamic_max
                                              : 0;
}

CALL(cuFuncGetAttribute, ".cIih", (int *value, int attribute, void *function), value, attribute,
     function)
{
    struct function *f = function_of(function);
    *value = f ? attribute_of_function(f, attribute) : 0;
    return f ? CU_SUCCESS : INVALID_HANDLE;
}

CALL(cuKernelGetAttribute, ".cIihi", (int *value, int attribute, void *kernel, int device), value,
     attribute, kernel, device)
{
    struct function *f = function_of(kernel);
    *value = f ? attribute_of_function(f, attribute) : 0;
    return !is_device(device) ? INVALID_DEVICE : f ? CU_SUCCESS : INVALID_HANDLE;
}

static int set_attribute(struct function *f, int attribute, int value)
{
    unsigned own = f && f->kernel ? f->kernel->shared : 0;
    if (!f)
        return INVALID_HANDLE;
    if (attribute == MAX_DYNAMIC && (value < 0 || (unsigned)value > SHARED_OF_BLOCK_OPTIN ||
                                     own + (unsigned)value > SHARED_OF_BLOCK_OPTIN))
        return CU_INVALID_VALUE;
    if (attribute == MAX_DYNAMIC)
        f->dynamic_max = (unsigned)value;
    return CU_SUCCESS;
}

CALL(cuFuncSetAttribute, ".chii", (void *function, int attribute, int value), function, attribute,
     value)
{
    return set_attribute(function_of(function), attribute, value);
}

CALL(cuKernelSetAttribute, ".ciihi", (int attribute, int value, void *kernel, int device),
     attribute, value, kernel, device)
{
    return is_device(device) ? set_attribute(function_of(kernel), attribute, value)
                             : INVALID_DEVICE;
}

CALL(cuFuncSetCacheConfig, ".chi", (void *function, int config), function, config)
{
    (void)config;
    return function_of(function) ? CU_SUCCESS : INVALID_HANDLE;
}

CALL(cuFuncGetModule, ".cHh", (void **out, void *function), out, function)
{
    struct function *f = handle_of(function, FUNCTION);
    if (!f)
        return INVALID_HANDLE;
    *out = f->module;
    return CU_SUCCESS;
}

CALL(cuFuncLoad, ".ch", (void *function), function)
{
    return function_of(function) ? CU_SUCCESS : INVALID_HANDLE;
}

CALL(cuFuncIsLoaded, ".cIh", (int *state, void *function), state, function)
{
    *state = 1;
    return function_of(function) ? CU_SUCCESS : INVALID_HANDLE;
}
