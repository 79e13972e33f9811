/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plugin_host.c PLUGIN SHAPE HOW: a program that knows no driver, and loads a plugin that does: as Python loads its
 * extension modules (local), as the global scope has it, as Julia does (deepbind), or in a namespace of its own.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    int (*client)(const char *);
    void *plugin = NULL;
    if (argc != 4)
        return 2;
    if (strcmp(argv[2], "local") == 0)
        plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    else if (strcmp(argv[2], "global") == 0)
        plugin = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
    else if (strcmp(argv[2], "deepbind") == 0)
        plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    else if (strcmp(argv[2], "namespace") == 0)
        plugin = dlmopen(LM_ID_NEWLM, argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!plugin) {
        fprintf(stderr, "plugin_host: %s\n", dlerror());
        return 2;
    }
    *(void **)&client = dlsym(plugin, "client");
    return client(argv[3]);
}
