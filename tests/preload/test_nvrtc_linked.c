/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_nvrtc_linked.c - programs and plugins that are linked with NVRTC, under libwarm-preload.so: the dynamic linker
 * binds them to its exports, or to NVRTC's own if it must. support/nvrtc_rig.h has the program.
 */
#include "tests/support/nvrtc_rig.h"

TestSuite(nvrtc_linked, .fini = nvrtc_rig_down, .timeout = 300);

/* Builds the client again, linked with the NVRTC of this soname. */
static char *build_linked(const char *name, const char *flags, const char *soname)
{
    char how[8192], *lib_folder = strdup(nvrtc_rig.library);
    *strrchr(lib_folder, '/') = '\0';
    snprintf(how, sizeof how,
             "%s " NVRTC_CLIENT " -L%s -Wl,--no-as-needed -l:%s -Wl,-rpath,%s -ldl", flags,
             lib_folder, soname, lib_folder);
    free(lib_folder);
    return nvrtc_rig_build(name, how);
}

static void expect_linked_hits(const char *version, const char *soname, const char *arguments)
{
    nvrtc_rig_up(version);
    char *linked = build_linked("linked", "-DLINKED", soname);
    nvrtc_rig_expect_hits(linked, "", arguments);
    free(linked);
}

Test(nvrtc_linked, a_program_that_is_linked_with_13_hits)
{
    expect_linked_hits(NVRTC_13, "libnvrtc.so.13", "LINKED: edges");
}

Test(nvrtc_linked, a_program_that_is_linked_with_12_hits)
{
    expect_linked_hits(NVRTC_12, "libnvrtc.so.12", "LINKED: simple");
}

/* Extension modules of Python are such plugins. Returns the command that runs the client as one: free(). */
static char *build_plugin(const char *scope, const char *flags, const char *version)
{
    char more[256], soname[32], *command;
    snprintf(more, sizeof more, "-shared -fPIC -Dmain=plugin_main %s", flags);
    snprintf(soname, sizeof soname, "libnvrtc.so.%s", version);
    char *host = nvrtc_rig_build("host", "tests/fakecuda/plugin_host.c -ldl");
    char *plugin = build_linked("plugin.so", more, soname);
    cr_assert_geq(asprintf(&command, "%s %s %s", host, scope, plugin), 0);
    free(host);
    free(plugin);
    return command;
}

/* Linked, or by look-ups without a handle. */
static const char *const ways[][2] = {{"-DLINKED", "LINKED: simple"}, {"", "DEFAULT: simple"}};

Test(nvrtc_linked, a_plugin_that_finds_it_in_either_way_hits)
{
    nvrtc_rig_up(NVRTC_12);
    static const char *const scopes[] = {"local", "global"};
    for (size_t i = 0; i < 4; i++) {
        char *plugin = build_plugin(scopes[i / 2], ways[i % 2][0], "12");
        nvrtc_rig_expect_hits(plugin, "", ways[i % 2][1]);
        free(plugin);
    }
}

/* Its own libraries come before the preloaded one, or it has a namespace without it. */
Test(nvrtc_linked, a_plugin_that_is_bound_to_its_own_libraries_runs_as_ever)
{
    nvrtc_rig_up(NVRTC_12);
    static const char *const scopes[] = {"deepbind", "namespace"};
    for (size_t i = 0; i < 4; i++) {
        char *plugin = build_plugin(scopes[i / 2], ways[i % 2][0], "12");
        struct warmd k = warmd_up(nvrtc_rig_options);
        char *direct = nvrtc_rig_run(NULL, "", plugin, ways[i % 2][1]);
        char *with = nvrtc_rig_run(k.socket, "", plugin, ways[i % 2][1]);
        nvrtc_rig_expect_same(direct, with, ways[i % 2][1]);
        cr_assert_eq(nvrtc_rig_counter(&k, "misses"), 0);
        free(direct);
        free(with);
        free(plugin);
        warmd_down(&k);
    }
}

/* Builds an NVRTC that knows little, programs that are linked with it, and expects its answer. */
static void expect_odd(const char *soname, bool has_versions)
{
    char how[8192], local[8192];
    nvrtc_rig_write("odd.c", "int nvrtcVersion(int *a, int *b) { return 0; }\n"
                             "int nvrtcCreateProgram(void **p) { return 0; }\n"
                             "int nvrtcDestroyProgram(void **p) { return 41; }\n");
    nvrtc_rig_write("versions", "libnvrtc.so.13 { global: nvrtc*; };\n");
    nvrtc_rig_write("main.c", "#include <stdio.h>\nint nvrtcDestroyProgram(void **);\n"
                              "int main(void) { void *p = 0;\n"
                              "printf(\"%d\\n\", nvrtcDestroyProgram(&p));\n"
                              "fflush(stdout); return 0; }\n");
    snprintf(how, sizeof how, "-shared -fPIC -Wl,-soname,%s %s%s%s %s/odd.c", soname,
             has_versions ? "-Wl,--version-script," : "", has_versions ? nvrtc_rig.folder : "",
             has_versions ? "/versions" : "", nvrtc_rig.folder);
    free(nvrtc_rig_build(soname, how));
    snprintf(how, sizeof how, "%s/main.c -L%s -l:%s -Wl,-rpath,%s", nvrtc_rig.folder,
             nvrtc_rig.folder, soname, nvrtc_rig.folder);
    char *linked = nvrtc_rig_build("linked", how);
    strcat(how, " -shared -fPIC -Dmain=plugin_main");
    char *plugin = nvrtc_rig_build("plugin.so", how);
    char *host = nvrtc_rig_build("host", "tests/fakecuda/plugin_host.c -ldl");
    snprintf(local, sizeof local, "%s local %s", host, plugin);
    for (int i = 0; i < 2; i++) {
        char *with = nvrtc_rig_run("/nowhere", "", i ? local : linked, "");
        cr_expect_str_eq(with, "41\n", "%s: %s", i ? local : linked, with);
        free(with);
    }
    free(linked);
    free(plugin);
    free(host);
}

/* As tools do that bundle libraries into a wheel. */
Test(nvrtc_linked, an_nvrtc_with_another_soname_is_found_by_linked_programs)
{
    nvrtc_rig_up(NVRTC_13);
    expect_odd("libnvrtc-0a1b2c.so.13", true);
}

/* Nobody knows which of our versions it means. */
Test(nvrtc_linked, a_program_that_is_linked_without_versions_gets_its_own_nvrtc)
{
    nvrtc_rig_up(NVRTC_13);
    expect_odd("libnvrtc.so.13", false);
}

/* The handles are ours, so a real function would find nothing compiled in them. */
Test(nvrtc_linked, a_program_with_functions_of_its_own_in_front_hits)
{
    nvrtc_rig_up(NVRTC_12);
    nvrtc_rig_write("own.c", "#include <dlfcn.h>\n"
                             "int nvrtcGetPTX(void *p, char *out) {\n"
                             "  int (*next)(void *, char *);\n"
                             "  *(void **)&next = dlsym(RTLD_NEXT, \"nvrtcGetPTX\");\n"
                             "  return next ? next(p, out) : 99; }\n");
    char flags[4200];
    snprintf(flags, sizeof flags, "-DLINKED %s/own.c", nvrtc_rig.folder);
    char *linked = build_linked("linked", flags, "libnvrtc.so.12");
    nvrtc_rig_expect_hits(linked, "", "LINKED: simple");
    free(linked);
}
