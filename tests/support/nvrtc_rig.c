/* SPDX-License-Identifier: Apache-2.0 */
/* nvrtc_rig.c - builds and runs programs on NVRTC for the suites; nvrtc_rig.h says what they get. */
#include "tests/support/nvrtc_rig.h"

struct nvrtc_rig nvrtc_rig = {.timeout_ms = "5000"};

char *nvrtc_rig_own_path(const char *name)
{
    char *found = bin_path(name), *real = realpath(found, NULL);
    free(found);
    return real;
}

static char *toolchain_path(const char *rest)
{
    const char *root = getenv("WARM_TOOLCHAIN");
    char *base = root ? strdup(root) : bin_path("../toolchain");
    char *found = path_join(base, rest), *real = realpath(found, NULL);
    free(base);
    free(found);
    return real;
}

/* Compiles a program or a library beside the tests' files. */
char *nvrtc_rig_build(const char *name, const char *how)
{
    char *out, *path = path_join(nvrtc_rig.folder, name);
    int status =
        run_command(&out, "cc -D_GNU_SOURCE -std=c11 -O1 -pthread -o %s %s 2>&1", path, how);
    cr_assert_eq(status, 0, "%s", out);
    free(out);
    return path;
}

void nvrtc_rig_write(const char *name, const char *text)
{
    char *path = path_join(nvrtc_rig.folder, name);
    file_write(path, text, strlen(text));
    free(path);
}

static void build_client(void)
{
    nvrtc_rig.client = nvrtc_rig_build("client", NVRTC_CLIENT " -ldl");
}

void nvrtc_rig_up(const char *version)
{
    nvrtc_rig.preload = nvrtc_rig_own_path("../lib/libwarm-preload.so");
    if (!nvrtc_rig.preload)
        cr_skip_test("libwarm-preload.so is not built with sanitizers");
    nvrtc_rig.library = toolchain_path(version);
    if (!nvrtc_rig.library)
        cr_skip_test("no CUDA toolchain: set WARM_TOOLCHAIN or run `make toolchain`");
    nvrtc_rig.folder = temp_dir_new();
    char *header = path_join(nvrtc_rig.folder, "part.h");
    file_write(header, "#define PART 4\n", 15);
    free(header);
    build_client();
}

void nvrtc_rig_down(void)
{
    if (nvrtc_rig.folder)
        temp_dir_free(nvrtc_rig.folder);
    free(nvrtc_rig.preload);
    free(nvrtc_rig.client);
    free(nvrtc_rig.library);
}

/* The output of a program; `socket` NULL: without the preload. */
char *nvrtc_rig_run(const char *socket, const char *settings, const char *program,
                    const char *arguments)
{
    char *out;
    int status;
    if (socket)
        status = run_command(
            &out, "cd %s && WARM_TIMEOUT_MS=%s WARM_SOCKET=%s LD_PRELOAD=%s env %s %s %s",
            nvrtc_rig.folder, nvrtc_rig.timeout_ms, socket, nvrtc_rig.preload, settings, program,
            arguments);
    else
        status = run_command(&out, "cd %s && env -u LD_PRELOAD %s %s %s", nvrtc_rig.folder,
                             settings, program, arguments);
    cr_assert_eq(status, 0, "%s %s ended with %d: %s", program, arguments, status, out);
    cr_assert_gt(strlen(out), 0);
    return out;
}

void nvrtc_rig_expect_same(const char *expected, const char *got, const char *what)
{
    size_t line = 1;
    for (size_t i = 0; expected[i] || got[i]; i++) {
        cr_assert_eq(expected[i], got[i], "%s: line %zu differs: …%.120s… is now …%.120s…", what,
                     line, expected + (i < 40 ? 0 : i - 40), got + (i < 40 ? 0 : i - 40));
        line += expected[i] == '\n';
    }
}

long nvrtc_rig_counter(const struct warmd *k, const char *name)
{
    char *out, *warm = nvrtc_rig_own_path("warm"), label[64];
    int status = run_command(&out, "WARM_SOCKET=%s %s stats --json", k->socket, warm);
    cr_assert_eq(status, 0);
    snprintf(label, sizeof label, "\"%s\":", name);
    const char *at = strstr(out, label);
    cr_assert_not_null(at, "no %s in %s", name, out);
    long value = strtol(at + strlen(label), NULL, 10);
    free(out);
    free(warm);
    return value;
}

char *nvrtc_rig_options[] = {(char *)"--jobs", (char *)"2", NULL};

/* Without warm, twice with it: the same, and the second time from the cache alone. */
void nvrtc_rig_expect_hits(const char *program, const char *settings, const char *arguments)
{
    struct warmd k = warmd_up(nvrtc_rig_options);
    char *direct = nvrtc_rig_run(NULL, settings, program, arguments);
    char *missed = nvrtc_rig_run(k.socket, settings, program, arguments);
    nvrtc_rig_expect_same(direct, missed, "a miss");
    long misses = nvrtc_rig_counter(&k, "misses"), hits = nvrtc_rig_counter(&k, "hits");
    cr_assert_gt(misses, 0);
    char *hit = nvrtc_rig_run(k.socket, settings, program, arguments);
    nvrtc_rig_expect_same(direct, hit, "a hit");
    cr_assert_gt(nvrtc_rig_counter(&k, "hits"), hits);
    free(direct);
    free(missed);
    free(hit);
    warmd_down(&k);
}

char *nvrtc_rig_arguments(const char *prefix, const char *path, const char *command)
{
    static char text[8192];
    snprintf(text, sizeof text, "%s%s %s %s", prefix, path, command, nvrtc_rig.folder);
    return text;
}
