/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jaxold_mlir.c LIBRARY PIPELINE FILE…: a program that uses MLIR's C API as Reactant.jl does. It opens
 * the library, parses each module in FILE, and keeps a pointer to its first function. It runs the passes,
 * goes on with that function, and prints the module. Its functions are looked up with dlsym.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    void *ptr;
} handle;
typedef struct {
    const char *data;
    size_t len;
} text;
typedef struct {
    int8_t value;
} result;

static void *library;

static void *find(const char *name)
{
    void *function = dlsym(library, name);
    if (!function) {
        fprintf(stderr, "no %s\n", name);
        exit(2);
    }
    return function;
}
#define CALL(type, name, ...) (((type(*) __VA_ARGS__)find(name)))

static void on_text(text t, void *user) { fwrite(t.data, 1, t.len, user); }
static text text_of(const char *s) { return (text){s, strlen(s)}; }

static handle context_new(void)
{
    static const char *const dialects[] = {"mlirGetDialectHandle__func__",
                                           "mlirGetDialectHandle__stablehlo__"};
    handle context = CALL(handle, "mlirContextCreateWithThreading", (_Bool))(0);
    for (size_t i = 0; i < sizeof dialects / sizeof *dialects; i++) {
        handle dialect = CALL(handle, dialects[i], (void))();
        CALL(void, "mlirDialectHandleRegisterDialect", (handle, handle))(dialect, context);
        CALL(handle, "mlirDialectHandleLoadDialect", (handle, handle))(dialect, context);
    }
    return context;
}

static char *file_read(const char *path)
{
    FILE *f = fopen(path, "r");
    char *data = calloc(1, 1 << 20);
    if (!f || !data || fread(data, 1, (1 << 20) - 1, f) == 0)
        exit(2);
    fclose(f);
    return data;
}

/* The first function's name and its body's first operation, by the pointer from before the passes. */
static void function_print(handle function, handle module_operation)
{
    handle parent = CALL(handle, "mlirOperationGetParentOperation", (handle))(function);
    printf("// same module: %d\n", parent.ptr == module_operation.ptr);
    CALL(void, "mlirOperationPrint", (handle, void (*)(text, void *), void *))
    (function, on_text, stdout);
    printf("\n");
}

static int module_run(handle context, handle manager, const char *path)
{
    char *source = file_read(path);
    handle module = CALL(handle, "mlirModuleCreateParse", (handle, text))(context, text_of(source));
    if (!module.ptr)
        exit(2);
    handle operation = CALL(handle, "mlirModuleGetOperation", (handle))(module);
    handle body = CALL(handle, "mlirModuleGetBody", (handle))(module);
    handle function = CALL(handle, "mlirBlockGetFirstOperation", (handle))(body);
    result done = CALL(result, "mlirPassManagerRunOnOp", (handle, handle))(manager, operation);
    if (done.value) {
        function_print(function, operation);
        CALL(void, "mlirOperationPrint", (handle, void (*)(text, void *), void *))
        (operation, on_text, stdout);
        if (!CALL(_Bool, "mlirOperationVerify", (handle))(operation))
            printf("// not valid\n");
    }
    CALL(void, "mlirModuleDestroy", (handle))(module);
    free(source);
    return !done.value;
}

int main(int argc, char **argv)
{
    int failed = 0;
    if (argc < 4 || !(library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL)))
        return 2;
    CALL(void, "mlirRegisterTransformsPasses", (void))();
    CALL(void, "mlirRegisterAllStablehloPasses", (void))();
    handle context = context_new();
    handle manager = CALL(handle, "mlirPassManagerCreate", (handle))(context);
    handle passes = CALL(handle, "mlirPassManagerGetAsOpPassManager", (handle))(manager);
    result added = CALL(result, "mlirOpPassManagerAddPipeline",
                        (handle, text, void (*)(text, void *), void *))(passes, text_of(argv[2]),
                                                                        on_text, stderr);
    if (!added.value)
        return 2;
    for (int i = 3; i < argc; i++)
        failed |= module_run(context, manager, argv[i]);
    CALL(void, "mlirPassManagerDestroy", (handle))(manager);
    CALL(void, "mlirContextDestroy", (handle))(context);
    return failed;
}
