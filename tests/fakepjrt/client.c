/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.c PLUGIN COMMAND…: a program on PJRT, for tests. Commands, in order:
 *     register NAME            a handler of custom calls, through the plugin's extension
 *     compile FILE HEX         the program in FILE with options in hex; prints the executable
 *     short FILE HEX           the same by a program that knows fewer arguments
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/preload/pjrt/api.h"

static const char *(*text_of)(const struct pjrt_loaded_executable *e);

static size_t from_hex(const char *hex, char *out)
{
    size_t len = strlen(hex) / 2;
    for (size_t i = 0; i < len; i++) {
        unsigned byte;
        sscanf(hex + 2 * i, "%2x", &byte);
        out[i] = (char)byte;
    }
    return len;
}

static size_t read_whole(const char *path, char *out, size_t cap)
{
    FILE *f = fopen(path, "rb");
    size_t len = f ? fread(out, 1, cap, f) : 0;
    if (f)
        fclose(f);
    return len;
}

static void compile(const struct pjrt_api *api, const char *path, const char *hex, size_t missing)
{
    static char code[65536], options[4096];
    static int client;
    struct pjrt_program program = {{sizeof program, NULL}, code, 0, "mlir", 4};
    struct pjrt_compile_args args = {
        {sizeof args - missing, NULL}, (struct pjrt_client *)&client, &program, options, 0, NULL};
    program.code_len = read_whole(path, code, sizeof code);
    args.options_len = from_hex(hex, options);
    struct pjrt_error *e = ((pjrt_call)api->fn[PJRT_CLIENT_COMPILE])(&args);
    printf("%s\n", e ? "an error" : text_of(args.executable));
}

static void register_target(const struct pjrt_api *api, const char *name)
{
    struct pjrt_register_args args = {sizeof args, name, strlen(name), 1};
    for (struct pjrt_extension *e = api->extensions; e; e = e->next)
        if (e->type == PJRT_EXTENSION_FFI)
            ((struct pjrt_ffi_extension *)e)->register_call(&args);
}

int main(int argc, char **argv)
{
    const struct pjrt_api *(*get)(void);
    void *plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!plugin) {
        fprintf(stderr, "client: %s\n", dlerror());
        return 1;
    }
    *(void **)&get = dlsym(plugin, "GetPjrtApi");
    *(void **)&text_of = dlsym(plugin, "fake_pjrt_text");
    const struct pjrt_api *api = get();
    for (int i = 2; i + 1 < argc; i++) {
        if (strcmp(argv[i], "register") == 0)
            register_target(api, argv[++i]);
        else if (i + 2 < argc) {
            compile(api, argv[i + 1], argv[i + 2], strcmp(argv[i], "short") == 0 ? 8 : 0);
            i += 2;
        }
    }
    return 0;
}
