/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_look_ups.c - names of all families of the shims, looked up without a handle: a program under
 * libwarm-preload.so finds what it finds without it. Libraries and programs are built here by the system's C
 * compiler; no daemon runs.
 */
#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/support.h"

/* A plugin that looks its arguments up, and says where each is. */
static const char plugin_text[] =
    "#include <dlfcn.h>\n#include <stdio.h>\n#include <string.h>\n"
    "int plugin_main(int argc, char **argv) {\n"
    "  for (int i = 1; i < argc; i++) {\n"
    "    Dl_info it; void *f = dlsym(RTLD_DEFAULT, argv[i]); const char *error = dlerror();\n"
    "    if (!f != !!error) printf(\"dlerror is wrong, \");\n"
    "    if (!f) printf(\"%s: none\\n\", argv[i]);\n"
    "    else if (!dladdr(f, &it)) printf(\"%s: nowhere\\n\", argv[i]);\n"
    "    else printf(\"%s: %s\\n\", argv[i], strrchr(it.dli_fname, '/') + 1); }\n"
    "  fflush(stdout); return 0; }\n";

static const struct {
    const char *library, *source, *name, *where; /* of the function under the preloaded library */
} families[] = {
    {"libnvJitLink.so.13", "tests/fakecuda/libnvjitlink.c", "nvJitLinkCreate",
     "libwarm-preload.so"},
    {"libnvvm.so.4", "tests/fakecuda/libnvvm.c", "nvvmCreateProgram", "libwarm-preload.so"},
    {"libcuda.so.1", "tests/fakecuda/libcuda.c", "cuLinkCreate_v2", "libcuda.so.1"},
    {"libcuda.so.1", "tests/fakecuda/libcuda.c", "cuModuleLoadData", "libcuda.so.1"},
    {"libcuda.so.1", "tests/fakecuda/libcuda.c", "cuLibraryLoadData", "libcuda.so.1"},
    {"libcuda.so.1", "tests/fakecuda/libcuda.c", "cuGetProcAddress_v2", "libcuda.so.1"},
    {"libcuda.so.1", "tests/fakecuda/libcuda.c", "cuMemAlloc_v2", "libcuda.so.1"},
    {"plugin.so", "tests/fakepjrt/plugin.c", "GetPjrtApi", "libwarm-preload.so"},
    {"libmlir.so", "tests/fakemlir/libmlir.c", "mlirPassManagerRunOnOp", "libwarm-preload.so"},
};
enum { N_FAMILIES = sizeof families / sizeof *families };

static char *folder, *preload;

static void build(const char *name, const char *how)
{
    char *out;
    int status =
        run_command(&out, "cc -I. -D_GNU_SOURCE -std=c11 -o %s/%s %s -ldl 2>&1", folder, name, how);
    cr_assert_eq(status, 0, "%s", out);
    free(out);
}

static void up(void)
{
    char *found = bin_path("../lib/libwarm-preload.so");
    preload = realpath(found, NULL);
    free(found);
    if (!preload)
        cr_skip_test("libwarm-preload.so is not part of this build");
    folder = temp_dir_new();
    char *text = path_join(folder, "look.c");
    file_write(text, plugin_text, sizeof plugin_text - 1);
    free(text);
    build("host", "tests/fakecuda/plugin_host.c");
}

static void down(void)
{
    if (folder)
        temp_dir_free(folder);
    free(preload);
}

TestSuite(look_ups, .init = up, .fini = down, .timeout = 120);

static void build_family(size_t i)
{
    char how[8192];
    snprintf(how, sizeof how, "-shared -fPIC -Wl,-Bsymbolic -Wl,-soname,%s %s", families[i].library,
             families[i].source);
    build(families[i].library, how);
    snprintf(how, sizeof how, "-shared -fPIC %s/look.c -L%s -Wl,--no-as-needed -l:%s -Wl,-rpath,%s",
             folder, folder, families[i].library, folder);
    build("look.so", how);
}

/* Runs the plugin in a scope; it must say that the name is in `where`. */
static void expect(const char *environment, const char *scope, const char *name, const char *where)
{
    char *out, want[256];
    snprintf(want, sizeof want, "%s: %s\n", name, where);
    int status = run_command(&out,
                             "env WARM_SOCKET=/nowhere WARM_MLIR=1 LD_PRELOAD=%s %s %s/host %s "
                             "%s/look.so %s 2>&1",
                             preload, environment, folder, scope, folder, name);
    cr_assert_eq(status, 0, "%s", out);
    cr_assert_str_eq(out, want, "%s %s %s", environment, scope, out);
    free(out);
}

Test(look_ups, a_plugin_finds_what_it_is_linked_with)
{
    for (size_t i = 0; i < N_FAMILIES; i++) {
        build_family(i);
        expect("", "local", families[i].name, families[i].where);
        expect("", "global", families[i].name, families[i].where);
    }
}

Test(look_ups, a_plugin_that_is_bound_to_its_own_libraries_finds_them)
{
    for (size_t i = 0; i < N_FAMILIES; i++) {
        build_family(i);
        expect("", "deepbind", families[i].name, families[i].library);
        expect("", "namespace", families[i].name, families[i].library);
    }
}

Test(look_ups, a_disabled_library_is_in_nobodys_way)
{
    for (size_t i = 0; i < N_FAMILIES; i++) {
        build_family(i);
        expect("WARM_DISABLE=1", "local", families[i].name, families[i].library);
    }
}

Test(look_ups, what_nobody_brought_is_not_found)
{
    char how[4200];
    snprintf(how, sizeof how, "-shared -fPIC %s/look.c", folder);
    build("look.so", how);
    for (size_t i = 0; i < N_FAMILIES; i++)
        expect("", "local", families[i].name, "none");
    expect("", "local", "nvrtcCompileProgram", "none");
}

/* Another library of the one that was opened has brought it. */
Test(look_ups, a_plugin_finds_what_its_companions_are_linked_with)
{
    char how[8192];
    build_family(0);
    snprintf(how, sizeof how, "-shared -fPIC %s/look.c -o %s/part.so", folder, folder);
    build("part.so", how);
    snprintf(how, sizeof how,
             "-shared -fPIC -x c /dev/null -L%s -Wl,--no-as-needed -l:part.so "
             "-l:%s -Wl,-rpath,%s",
             folder, families[0].library, folder);
    build("look.so", how);
    expect("", "local", families[0].name, families[0].library);
}
