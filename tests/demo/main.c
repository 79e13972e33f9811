/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - warm-kernels: runs compiled kernels on this machine's GPU and compares their results
 * with the CPU's.
 *
 *   warm-kernels NAME.ANYTHING.cubin…   NAME is that of the .cu file: mlp_forward.sm_90.cubin
 *   warm-kernels --arch                 prints the GPU's own target, for example sm_90
 *
 * Exit status: 0 right, or nothing that this machine could run; 1 wrong, or no target to print;
 * 2 usage.
 */
#include "tests/demo/gpu.h"
#include "tests/demo/runner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads a whole file into memory that the caller frees; no cubin is larger than 256 MiB. */
static int read_file(const char *path, void **out, size_t *out_len, struct err *err)
{
    const size_t limit = (size_t)256 << 20;
    FILE *file = fopen(path, "rb");
    char *bytes = NULL;
    size_t len = 0, room = 0;

    if (!file)
        return err_set(err, WARM_EIO, "cannot open it");
    while (!feof(file) && !ferror(file) && len <= limit) {
        if (len == room) {
            char *more = realloc(bytes, room = room ? 2 * room : 64 << 10);
            if (!more)
                break;
            bytes = more;
        }
        len += fread(bytes + len, 1, room - len, file);
    }
    int whole = feof(file) && len <= limit;
    fclose(file);
    if (!whole) {
        free(bytes);
        return err_set(err, WARM_EIO, "cannot read it whole");
    }
    *out = bytes;
    *out_len = len;
    return 0;
}

/* Writes the kernel of a file: "dir/mlp_forward.sm_90.cubin" is for "mlp_forward". */
static void kernel_file_name(const char *path, char out[64])
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    snprintf(out, 64, "%.*s", (int)strcspn(name, "."), name);
}

/* Prints one line about one cubin; returns whether it is wrong. */
static int check_cubin(struct gpu *gpu, const char *path)
{
    struct runner_result result = {0};
    struct err err = {0};
    char name[64];
    void *cubin = NULL;
    size_t len = 0;

    int rc = read_file(path, &cubin, &len, &err);
    if (rc == 0)
        rc = gpu_load(gpu, cubin, len, &err);
    free(cubin);
    if (rc == WARM_EUNSUPPORTED) {
        printf("%s: skipped, it is not for %s\n", path, driver_arch(gpu_driver(gpu)));
        return 0;
    }
    if (rc == 0) {
        kernel_file_name(path, name);
        rc = runner_check(gpu_device(gpu), name, &result, &err);
    }
    if (rc != 0) {
        printf("%s: WRONG: %s\n", path, err.text);
        return 1;
    }
    printf("%s: right on %s, worst error %.1e (allowed %.0e)\n", path, driver_name(gpu_driver(gpu)),
           result.worst, result.allowed);
    return 0;
}

int main(int argc, char **argv)
{
    struct gpu *gpu = NULL;
    struct err err = {0};
    int wrong = 0;

    if (argc < 2 || (argv[1][0] == '-' && strcmp(argv[1], "--arch") != 0)) {
        fprintf(stderr, "usage: warm-kernels NAME.cubin…  |  warm-kernels --arch\n");
        return 2;
    }
    int only_arch = strcmp(argv[1], "--arch") == 0;
    int rc = gpu_open(&gpu, &err);
    if (rc == WARM_EUNSUPPORTED && !only_arch) {
        printf("no GPU: skipped (%s)\n", err.text);
        return 0;
    }
    if (rc != 0) {
        fprintf(stderr, "warm-kernels: %s\n", err.text);
        return 1;
    }
    if (only_arch)
        printf("%s\n", driver_arch(gpu_driver(gpu)));
    else
        for (int i = 1; i < argc; i++)
            wrong |= check_cubin(gpu, argv[i]);
    gpu_close(gpu);
    return wrong;
}
