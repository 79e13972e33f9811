/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shim_kit.c - builds and loads a library beside a suite, and looks into the daemon's store. The suites of the
 * shims for nvJitLink, libNVVM and MLIR call it.
 *
 * Thread: the test's own.
 */
#include "tests/support/shim_kit.h"

#include <dlfcn.h>
#include <glob.h>

void shim_kit_up(struct shim_kit *k)
{
    k->daemon = warmd_new();
    /* no NVRTC is there: it would only be read */
    warmd_start(&k->daemon, (char *[]){(char *)"--nvrtc", k->daemon.dir, NULL});
    k->w = warmd_libwarm(&k->daemon);
    setenv("WARM_SOCKET", k->daemon.socket, 1);
    setenv("WARM_TIMEOUT_MS", "30000", 1); /* a busy machine is no hang */
}

void shim_kit_down(struct shim_kit *k)
{
    warm_close(k->w);
    if (k->daemon.pid)
        warmd_down(&k->daemon);
    else
        warmd_free(&k->daemon);
}

void shim_kit_kill(struct shim_kit *k)
{
    kill(k->daemon.pid, SIGKILL);
    warmd_reap(k->daemon.pid);
    k->daemon.pid = 0;
}

char *shim_kit_build(const struct shim_kit *k, const char *name, const char *source,
                     const char *flags)
{
    char *out, *path = path_join(k->daemon.dir, name);
    int status = run_command(&out,
                             "cc -I. -D_GNU_SOURCE -std=c11 -shared -fPIC -Wl,-Bsymbolic %s "
                             "-o %s %s 2>&1",
                             flags, path, source);
    cr_assert_eq(status, 0, "%s", out);
    free(out);
    return path;
}

void *shim_kit_load(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    cr_assert_not_null(library, "%s", dlerror());
    return library;
}

char *shim_kit_vendor(const char *pattern)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *all = NULL, *found = NULL;
    glob_t paths;
    cr_assert(asprintf(&all, "%s%s/warm-venv/nvrtc*/lib/python3*/site-packages/nvidia/%s",
                       cache ? cache : home, cache ? "" : "/.cache", pattern) >= 0);
    if (glob(all, 0, NULL, &paths) == 0) {
        found = strdup(paths.gl_pathv[0]);
        globfree(&paths);
    }
    free(all);
    return found;
}

const char *shim_kit_notes(void *library)
{
    const char *(*notes)(void);
    void *found = dlsym(library, "fake_notes");
    cr_assert_not_null(found);
    memcpy(&notes, &found, sizeof notes);
    return notes();
}

void shim_kit_show(FILE *out, const void *bytes, size_t len)
{
    for (const char *at = bytes, *end = at + len; at < end; at++)
        fputc(*at ? *at : '$', out);
}

extern size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

size_t shim_kit_allocated(void)
{
    return __sanitizer_get_current_allocated_bytes ? __sanitizer_get_current_allocated_bytes() : 0;
}

/* Returns the names of all entries with this prefix, a line each; free() them. */
static char *names(const struct shim_kit *k, const char *prefix)
{
    char *warm = bin_path("warm"), *out;
    int status = run_command(
        &out, "WARM_SOCKET=%s %s ls --json >%s/ls && grep -o '%s[0-9a-f]*' %s/ls || true",
        k->daemon.socket, warm, k->daemon.dir, prefix, k->daemon.dir);
    cr_assert_eq(status, 0, "%s", out);
    free(warm);
    return out;
}

size_t shim_kit_count(const struct shim_kit *k, const char *prefix)
{
    char *all = names(k, prefix);
    size_t n = 0;
    for (const char *at = all; (at = strchr(at, '\n')); at++)
        n++;
    free(all);
    return n;
}

void shim_kit_name(const struct shim_kit *k, const char *prefix, char out[128])
{
    char *all = names(k, prefix);
    size_t len = strcspn(all, "\n");
    cr_assert(len && len < 128 && all[len] == '\n' && !all[len + 1], "%s", all);
    memcpy(out, all, len);
    out[len] = '\0';
    free(all);
}

void shim_kit_put_whole(const struct shim_kit *k, const char *name, const void *data, size_t len)
{
    uint8_t proof[32];
    struct key check = key_of_bytes(data, len);
    struct writer w;
    const char *hex = strrchr(name, ':') + 1;
    for (size_t i = 0; i < sizeof proof; i++)
        cr_assert_eq(sscanf(hex + 2 * i, "%2hhx", &proof[i]), 1);
    writer_init(&w, 0);
    writer_bytes(&w, "warmkept", 8);
    writer_bytes(&w, &check, sizeof check);
    writer_bytes(&w, proof, sizeof proof);
    writer_bytes(&w, data, len);
    cr_assert_eq(warm_put(k->w, name, strlen(name), w.data, w.len, NULL), 0);
    writer_close(&w);
}
