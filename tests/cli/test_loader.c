/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_loader.c - which dynamic linker a program asks for; and `warm run` of a program that musl loads. The
 * preloaded library needs glibc: such a program would end with it.
 */
#include "tests/support/warmd.h"

#include "client/exec/elf.h"

static const char source[] = "#include <stdio.h>\n#include <stdlib.h>\nint main(void)\n"
                             "{ printf(\"[%s]\", getenv(\"LD_PRELOAD\")); return 3; }\n";
static const char musl[] = "/lib/ld-musl-x86_64.so.1";

static struct warmd k;
static char loader[PATH_MAX];

/* Makes `a`, which musl loads, a script for it, and a static program. */
static void setup(void)
{
    char *out;
    k = warmd_up(NULL);
    char *path = path_join(k.dir, "a.c");
    file_write(path, source, strlen(source));
    free(path);
    cr_assert_eq(
        run_command(&out,
                    "exec 2>&1; cd %s && musl-gcc -o a a.c && musl-gcc -static -o static a.c "
                    "&& echo '#! %s/a -x' >script && chmod +x script",
                    k.dir, k.dir),
        0, "%s", out);
    free(out);
}

static void teardown(void) { warmd_down(&k); }

TestSuite(loader, .init = setup, .fini = teardown);

static bool is_found(const char *name)
{
    char *path = path_join(k.dir, name);
    bool found = elf_loader_of(path, loader);
    free(path);
    return found;
}

Test(loader, of_a_program_a_script_and_a_name_on_path)
{
    cr_expect(is_found("a"));
    cr_expect_str_eq(loader, musl);
    cr_expect(is_found("script"));
    cr_expect_str_eq(loader, musl);
    cr_expect(elf_loader_of("sh", loader));
    cr_expect_str_neq(loader, musl);
}

Test(loader, no_program_or_a_damaged_one_has_none)
{
    char long_name[2 * PATH_MAX];
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    cr_expect(!is_found("static"));
    cr_expect(!is_found("a.c"));
    cr_expect(!is_found(""), "a folder");
    cr_expect(!is_found("absent"));
    cr_expect(!elf_loader_of(long_name, loader));
    cr_expect(!elf_loader_of("", loader));
    size_t len;
    char *from = path_join(k.dir, "a"), *to = path_join(k.dir, "cut"),
         *bytes = file_read(from, &len);
    for (size_t n = 0; n < 1024; n += 7) {
        file_write(to, bytes, n);
        if (elf_loader_of(to, loader))
            cr_expect_eq(strncmp(musl, loader, strlen(loader)), 0, "%zu: %s", n, loader);
    }
    free(bytes);
    free(from);
    free(to);
}

Test(loader, a_program_of_musl_runs_without_the_library)
{
    char *out, want[256], *warm = bin_path("warm");
    static const char *const programs[] = {"./a", "./script"};
    cr_assert_eq(run_command(&out, "ls $(dirname %s)/../lib/libwarm-preload.so 2>&1", warm) & ~2,
                 0);
    if (!strncmp(out, "ls:", 3))
        cr_skip_test("the preloaded library is not built with sanitizers");
    free(out);
    setenv("WARM_SOCKET", k.socket, 1);
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        int status = run_command(&out, "exec 2>&1; cd %s && %s run %s", k.dir, warm, programs[i]);
        cr_expect_eq(status, 3, "%d: %s", status, out);
        snprintf(want, sizeof want, "warm: %s is loaded by %s, not by ", programs[i], musl);
        const char *rest = strstr(out, ": running without the library\n[(null)]");
        cr_expect(rest && strchr(out, '\n') == strchr(rest, '\n'), "one line: %s", out);
        cr_expect_eq(strncmp(out, want, strlen(want)), 0, "%s", out);
        free(out);
    }
    free(warm);
}
