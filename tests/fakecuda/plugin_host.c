/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plugin_host.c HOW PLUGIN ARGUMENTS…: loads a program that was built as a plugin (-shared -Dmain=plugin_main), and
 * runs it. HOW is the scope that the plugin gets: "local", as extension modules of Python; "global"; "deepbind", as
 * Julia's libraries; "namespace": one of its own (dlmopen).
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    const char *how = argv[1];
    int flags = strcmp(how, "global") == 0     ? RTLD_GLOBAL
                : strcmp(how, "deepbind") == 0 ? RTLD_LOCAL | RTLD_DEEPBIND
                                               : RTLD_LOCAL;
    void *plugin = strcmp(how, "namespace") == 0 ? dlmopen(LM_ID_NEWLM, argv[2], RTLD_NOW | flags)
                                                 : dlopen(argv[2], RTLD_NOW | flags);
    int (*plugin_main)(int, char **);
    if (!plugin) {
        printf("%s\n", dlerror());
        return 1;
    }
    *(void **)&plugin_main = dlsym(plugin, "plugin_main");
    argv[2] = argv[0];
    return plugin_main(argc - 2, argv + 2);
}
