/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvrtc_launch.c LIBNVRTC LIBCUDA FORM: a program that compiles a kernel and loads it into a driver,
 * as it would on a GPU. FORM is what it loads: "cubin", "ptx", or "short": a page that ends in the
 * middle of the cubin. Prints "loaded" or "error N".
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef void *program;

static void *open_or_die(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "nvrtc_launch: %s\n", dlerror());
        exit(1);
    }
    return library;
}

static char *compile(void *nvrtc, const char *what, size_t *out_len)
{
    int (*create)(program *, const char *, const char *, int, const char **, const char **);
    int (*build)(program, int, const char *const *), (*size)(program, size_t *);
    int (*get)(program, char *), (*destroy)(program *);
    static const char *const options[] = {"-arch=sm_90"};
    char name[64];
    program p;
    *(void **)&create = dlsym(nvrtc, "nvrtcCreateProgram");
    *(void **)&build = dlsym(nvrtc, "nvrtcCompileProgram");
    *(void **)&destroy = dlsym(nvrtc, "nvrtcDestroyProgram");
    snprintf(name, sizeof name, "nvrtcGet%s", what);
    *(void **)&get = dlsym(nvrtc, name);
    strcat(name, "Size");
    *(void **)&size = dlsym(nvrtc, name);
    if (create(&p, "extern \"C\" __global__ void one(float *p) { *p = 1; }\n", "one.cu", 0, NULL,
               NULL) ||
        build(p, 1, options) || size(p, out_len))
        exit(1);
    char *image = calloc(1, *out_len + 1);
    if (get(p, image) || destroy(&p))
        exit(1);
    return image;
}

/* The first bytes at the end of a page, behind which there is nothing. */
static char *cut_short(const char *image)
{
    enum { PAGE = 4096, KEPT = 256 };
    char *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(pages + PAGE, PAGE);
    return memcpy(pages + PAGE - KEPT, image, KEPT);
}

int main(int argc, char **argv)
{
    int (*init)(unsigned), (*retain)(void **, int), (*current)(void *), (*load)(void **, void *);
    void *context, *module;
    size_t len;
    if (argc != 4)
        return 2;
    void *nvrtc = open_or_die(argv[1]), *cuda = open_or_die(argv[2]);
    char *image = compile(nvrtc, strcmp(argv[3], "ptx") == 0 ? "PTX" : "CUBIN", &len);
    *(void **)&init = dlsym(cuda, "cuInit");
    *(void **)&retain = dlsym(cuda, "cuDevicePrimaryCtxRetain");
    *(void **)&current = dlsym(cuda, "cuCtxSetCurrent");
    *(void **)&load = dlsym(cuda, "cuModuleLoadData");
    if (init(0) || retain(&context, 0) || current(context))
        return 1;
    int code = load(&module, strcmp(argv[3], "short") == 0 ? cut_short(image) : image);
    if (code)
        printf("error %d\n", code);
    else
        printf("loaded\n");
    return 0;
}
