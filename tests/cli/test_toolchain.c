/* SPDX-License-Identifier: Apache-2.0 */
/* test_toolchain.c - `warm toolchain` with a real daemon, and NVRTCs in folders as pip makes them. */
#include "tests/support/warmd.h"

#define SITE "lib/python3.11/site-packages/nvidia/cu13/lib"

/* Runs `warm toolchain ARGUMENTS` in a virtual environment, as the user whose file is below the folder. */
static int toolchain(const struct warmd *k, char **out, const char *arguments)
{
    char *program = public_path("bin/warm");
    int status = run_command(
        out,
        "cd %s && unset CUDA_PATH LD_LIBRARY_PATH CONDA_PREFIX && "
        "CUDA_HOME=$PWD/cuda VIRTUAL_ENV=%s/venv XDG_CONFIG_HOME=$PWD/conf WARM_SOCKET=%s %s %s "
        "toolchain %s 2>&1",
        k->dir, k->dir, k->socket,
        geteuid() ? "" : "setpriv --reuid 4242 --regid 4242 --clear-groups", program, arguments);
    free(program);
    return status;
}

static void expect(const struct warmd *k, int status, const char *arguments, const char *text)
{
    char *out;
    int got = toolchain(k, &out, arguments);
    cr_assert_eq(got, status, "warm toolchain %s: exit status %d: %s", arguments, got, out);
    cr_assert_not_null(strstr(out, text), "warm toolchain %s: no `%s` in: %s", arguments, text,
                       out);
    free(out);
}

static void shell(const struct warmd *k, const char *command)
{
    char *out;
    cr_assert_eq(run_command(&out, "cd %s && %s 2>&1", k->dir, command), 0, "%s", out);
    free(out);
}

/* The tests are root's, the command another user's: it must reach the folder, and the socket. */
static void let_in(const struct warmd *k)
{
    char *out;
    shell(k, "chmod 755 . && mkdir -p conf venv/" SITE);
    if (geteuid() == 0)
        shell(k, "chown 4242:4242 conf");
    if (toolchain(k, &out, "--help") != 0)
        cr_skip_test("another user cannot run the built programs");
    free(out);
}

Test(toolchain, list_tells_why_a_library_is_not_used)
{
    struct warmd k = warmd_new();
    char *path = path_join(k.dir, "libnvrtc.so.13");
    char *options[] = {"--nvrtc", path, NULL};
    let_in(&k);
    file_write(path, "no library", 10);
    warmd_start(&k, options);
    expect(&k, 1, "list", "not used: ");
    expect(&k, 1, "list", "libnvrtc.so.13");
    expect(&k, 1, "list", "pip install nvidia-cuda-nvrtc");
    expect(&k, 0, "list --json", "{\"schema\": 1, \"toolchains\": [], \"refused\": [{\"path\": ");
    expect(&k, 2, "find libnvrtc.so", "it takes list, find or add PATH");
    free(path);
    warmd_down(&k);
}

Test(toolchain, find_knows_a_library_by_its_content)
{
    char *lib = toolchain_lib("13.5.37"), *other = toolchain_lib("12.9.86"), command[1024];
    if (!lib || !other)
        cr_skip_test("no CUDA toolchain: set WARM_TOOLCHAIN or run `make toolchain`");
    struct warmd k = warmd_new();
    char *options[] = {"--nvrtc", lib, NULL};
    let_in(&k);
    warmd_start(&k, options);
    snprintf(command, sizeof command, "cp %s/libnvrtc* venv/" SITE, lib);
    shell(&k, command);
    expect(&k, 0, "list", "NVRTC 13.5");
    expect(&k, 0, "list", "(the default)");
    char *out, *wanted = path_join(k.dir, "venv/" SITE "/libnvrtc.so");
    cr_assert_eq(toolchain(&k, &out, "find"), 0, "%s", out);
    char *line = strstr(out, wanted);
    cr_assert(line && strncmp(line - 9, "known    ", 9) == 0, "%s", out);
    free(out);
    snprintf(command, sizeof command, "rm -r venv/" SITE "/* && cp %s/libnvrtc* venv/" SITE, other);
    shell(&k, command);
    cr_assert_eq(toolchain(&k, &out, "find"), 0, "%s", out);
    line = strstr(out, wanted);
    cr_assert(line && strncmp(line - 9, "new      ", 9) == 0, "%s", out);
    free(out);
    cr_assert_eq(toolchain(&k, &out, "find --json"), 0, "%s", out);
    line = strstr(out, wanted);
    cr_assert(line && strncmp(line + strlen(wanted), ".12\",\"state\":\"new\"}", 19) == 0, "%s",
              out);
    free(out);
    free(wanted);
    snprintf(command, sizeof command,
             "mkdir -p cuda/targets/x86_64-linux/lib && ln -s x86_64-linux cuda/targets/sbsa-linux "
             "&& mv venv/" SITE "/* cuda/targets/sbsa-linux/lib/");
    shell(&k, command);
    wanted = path_join(k.dir, "cuda/targets/x86_64-linux/lib/libnvrtc.so.12");
    expect(&k, 0, "find", wanted);
    free(wanted);
    free(lib);
    free(other);
    warmd_down(&k);
}

Test(toolchain, add_appends_to_the_settings)
{
    struct warmd k = warmd_new();
    size_t len;
    let_in(&k);
    expect(&k, 2, "add venv", "there is no libnvrtc.so in it");
    expect(&k, 2, "add nothing", "there is nothing");
    shell(&k, "mkdir a b && touch a/libnvrtc.so.12 b/libnvrtc.so.13 b/other");
    expect(&k, 2, "add b/other", "is no libnvrtc.so");
    expect(&k, 0, "add a", "nvrtc = ");
    expect(&k, 0, "add b/libnvrtc.so.13", "warm daemon restart");
    char *path = path_join(k.dir, "conf/warm/warmd.conf"), *text = file_read(path, &len),
         want[1024];
    snprintf(want, sizeof want, "nvrtc = %s/a\nnvrtc = %s/b/libnvrtc.so.13\n", k.dir, k.dir);
    cr_assert_str_eq(text, want);
    free(text);
    free(path);
    warmd_free(&k);
}
