/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machine.c - identifies the machine that a plugin compiles for, beyond its client's answers. That is
 * the processor; for GPUs also the driver, the libraries and the assembler. pjrt.c calls it once a
 * plugin.
 *
 * Thread: any; no state.
 */
#include <fcntl.h>
#include <link.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/preload/pjrt/program_key.h"
#include "keygen/bytes.h"
#include "keygen/domains.h"

/* ---- the processor ---- */

/* Lines of /proc/cpuinfo about the code that a processor can run, and is tuned for. */
static const char *const counted[] = {
    "vendor_id", "cpu family",      "model",
    "flags", /* x86 */
    "Features",  "CPU implementer", "CPU architecture",
    "CPU part",  "CPU variant" /* Arm */
};
enum { COUNTED = sizeof counted / sizeof *counted, FIRST_OF_ARM = 4 };

/* Returns the number of a line's name in `counted`, -1 if it is not there. */
static int counted_line(const char *line)
{
    for (int i = 0; i < COUNTED; i++) {
        size_t len = strlen(counted[i]);
        if (strncmp(line, counted[i], len) == 0 && line[len + strspn(line + len, " \t")] == ':')
            return i;
    }
    return -1;
}

/* Counts the processors that may run this process: XLA cuts loops into as many pieces. */
static uint64_t usable_processors(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return (uint64_t)CPU_COUNT(&set);
    return (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
}

/* Adds the first processor of /proc/cpuinfo, and on Arm each that differs from the one before it: LLVM tunes for a later
 * core if a machine has two kinds. False if the file does not say. */
static bool add_processors(struct key_builder *b, FILE *cpuinfo)
{
    char *line = NULL, *last[COUNTED] = {0};
    size_t cap = 0;
    bool is_known = false, is_arm = false;
    while (getline(&line, &cap, cpuinfo) > 0) {
        line[strcspn(line, "\n")] = 0;
        if (!*line && !is_arm)
            break;
        int i = counted_line(line);
        if (i < 0 || (last[i] && strcmp(last[i], line) == 0))
            continue;
        key_add_text(b, 2, line);
        free(last[i]);
        last[i] = strdup(line);
        is_known = true;
        is_arm |= i >= FIRST_OF_ARM;
    }
    for (size_t i = 0; i < COUNTED; i++)
        free(last[i]);
    free(line);
    return is_known;
}

static bool host_key(struct key *out)
{
    struct key_builder b;
    struct proof unused;
    FILE *cpuinfo = fopen("/proc/cpuinfo", "re");
    key_begin(&b, DOMAIN_PJRT_HOST);
    key_add_u64(&b, 1, usable_processors());
    bool is_known = cpuinfo && add_processors(&b, cpuinfo);
    key_end(&b, out, &unused);
    if (cpuinfo)
        fclose(cpuinfo);
    return is_known;
}

/* ---- GPUs ---- */

/* Reads the first bytes of a file, at most cap - 1, and ends them with NUL. Returns their
 * number. */
static size_t read_start(const char *path, char *out, size_t cap)
{
    size_t len = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    for (ssize_t n = 1; fd >= 0 && n > 0 && len<cap - 1; len += n> 0 ? (size_t)n : 0)
        n = read(fd, out + len, cap - 1 - len);
    if (fd >= 0)
        close(fd);
    out[len] = 0;
    return len;
}

struct gpu {
    struct warm *w;
    struct key_builder builder;
    bool failed;
};

static void add_file(struct gpu *g, const char *path)
{
    char identity[WARM_IDENTITY_TEXT];
    if (warm_file_identity(g->w, path, identity))
        g->failed = true;
    else
        key_add_text(&g->builder, 2, identity);
}

/* Appends the library's path and a NUL. Runs with the dynamic linker's lock held, so it does no
 * more. */
static int note_library(struct dl_phdr_info *info, size_t size, void *data)
{
    /* Libraries that choose or contain code; the plugin's own package has loaded them by now. */
    static const char *const names[] = {"libcuda.so",     "libcudnn.so",     "libcublas.so",
                                        "libcublasLt.so", "libcusolver.so",  "libcusparse.so",
                                        "libcufft.so",    "libnvJitLink.so", "libnccl.so"};
    const char *slash = strrchr(info->dlpi_name, '/');
    (void)size;
    for (size_t i = 0; slash && i < sizeof names / sizeof *names; i++)
        if (strncmp(slash + 1, names[i], strlen(names[i])) == 0)
            writer_bytes(data, info->dlpi_name, strlen(info->dlpi_name) + 1);
    return 0;
}

static void add_if_there(struct gpu *g, const char *path)
{
    if (access(path, R_OK) == 0)
        add_file(g, path);
}

/* Adds every ptxas that XLA may find: beside the plugin's package, in the toolkit's folder, on
 * PATH. */
static void add_assemblers(struct gpu *g, const char *plugin)
{
    static const char *const beside[] = {"nvidia/cuda_nvcc/bin/ptxas", "nvidia/cu13/bin/ptxas",
                                         "nvidia/cu12/bin/ptxas"};
    char path[4096], *rest, *copy, *slash;
    snprintf(path, sizeof path, "%s", plugin);
    for (int up = 0; up < 3 && (slash = strrchr(path, '/')) != NULL; up++) {
        for (size_t i = 0; i < sizeof beside / sizeof *beside; i++) {
            snprintf(slash, sizeof path - (size_t)(slash - path), "/%s", beside[i]);
            add_if_there(g, path);
        }
        *slash = 0;
    }
    add_if_there(g, "/usr/local/cuda/bin/ptxas");
    copy = getenv("PATH") ? strdup(getenv("PATH")) : NULL;
    for (char *p = copy ? strtok_r(copy, ":", &rest) : NULL; p; p = strtok_r(NULL, ":", &rest)) {
        snprintf(path, sizeof path, "%s/ptxas", p);
        add_if_there(g, path);
    }
    free(copy);
}

static bool device_key(struct warm *w, const char *plugin, struct key *out)
{
    struct gpu g = {.w = w};
    struct proof unused;
    char driver[128];
    key_begin(&g.builder, DOMAIN_PJRT_GPU);
    read_start("/sys/module/nvidia/version", driver, sizeof driver);
    key_add_text(&g.builder, 1, driver);
    struct writer paths;
    writer_init(&paths, 0);
    dl_iterate_phdr(note_library, &paths);
    g.failed |= paths.failed;
    for (size_t at = 0; !g.failed && at < paths.len; at += strlen((char *)paths.data + at) + 1)
        add_file(&g, (char *)paths.data + at);
    writer_close(&paths);
    add_assemblers(&g, plugin);
    key_end(&g.builder, out, &unused);
    return !g.failed;
}

bool pjrt_identity_find(struct warm *w, const char *path, bool has_device,
                        struct pjrt_identity *out)
{
    out->device = (struct key){{0}};
    return warm_file_identity(w, path, out->plugin) == 0 && host_key(&out->host) &&
           (!has_device || device_key(w, path, &out->device));
}
