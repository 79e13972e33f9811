/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_stand_in.c - the stand-in for libcuda.so.1 (tests/fakecuda) is as hard on a program as the real driver: what
 * fails on a device fails on it, with the same error. Its log shows each call.
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/preload/driver/api.h"
#include "tests/support/support.h"

#define HEAD ".version 6.0\n.target sm_50\n.address_size 64\n"
#define TWICE HEAD ".visible .entry twice(.param .u64 p) { ret; }\n"

static struct {
    char *folder;
    void *library;
    int (*init)(unsigned), (*count)(int *), (*retain)(void **, int), (*set_current)(void *);
    int (*push)(void *), (*pop)(void **), (*load)(void **, const void *), (*unload)(void *);
    int (*load_ex)(void **, const void *, unsigned, int *, void **);
    int (*function)(void **, void *, const char *), (*attribute)(int *, int, void *);
    int (*set_attribute)(void *, int, int);
    int (*library_load)(void **, const void *, int *, void **, unsigned, int *, void **, unsigned);
    int (*library_module)(void **, void *);
    int (*link_create)(unsigned, int *, void **, void **),
        (*link_complete)(void *, void **, size_t *);
    int (*link_add)(void *, int, void *, size_t, const char *, unsigned, int *, void **);
    int (*allocate)(unsigned long long *, size_t), (*synchronize)(void);
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                  void *, void **, void **);
    int (*find)(const char *, void **, int, uint64_t, int *);
} cu;

static const char *const names[] = {"cuInit",
                                    "cuDeviceGetCount",
                                    "cuDevicePrimaryCtxRetain",
                                    "cuCtxSetCurrent",
                                    "cuCtxPushCurrent_v2",
                                    "cuCtxPopCurrent_v2",
                                    "cuModuleLoadData",
                                    "cuModuleUnload",
                                    "cuModuleLoadDataEx",
                                    "cuModuleGetFunction",
                                    "cuFuncGetAttribute",
                                    "cuFuncSetAttribute",
                                    "cuLibraryLoadData",
                                    "cuLibraryGetModule",
                                    "cuLinkCreate_v2",
                                    "cuLinkComplete",
                                    "cuLinkAddData_v2",
                                    "cuMemAlloc_v2",
                                    "cuCtxSynchronize",
                                    "cuLaunchKernel",
                                    "cuGetProcAddress_v2"};
_Static_assert(sizeof cu == (sizeof names / sizeof *names + 2) * sizeof(void *), "a name a field");

/* Builds and loads the stand-in. */
static void load(void)
{
    char *out, *path;
    cu.folder = temp_dir_new();
    path = path_join(cu.folder, "libcuda.so.1");
    int status = run_command(&out,
                             "cc -I. -D_GNU_SOURCE -std=c11 -w -shared -fPIC -Wl,-Bsymbolic "
                             "-o %s tests/fakecuda/libcuda.c 2>&1",
                             path);
    cr_assert_eq(status, 0, "%s", out);
    cu.library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    cr_assert_not_null(cu.library, "%s", dlerror());
    void **fields = (void **)&cu.init;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        cr_assert_not_null(fields[i] = dlsym(cu.library, names[i]), "%s", names[i]);
    free(out);
    free(path);
}

/* The same, with the context of the first device. */
static void begin(void)
{
    void *context;
    load();
    cr_assert_eq(cu.init(0) || cu.retain(&context, 0) || cu.set_current(context), 0);
}

static void end(void) { temp_dir_free(cu.folder); }

static void *function_of(const char *ptx, const char *name)
{
    void *module, *function;
    cr_assert_eq(cu.load(&module, ptx), 0);
    cr_assert_eq(cu.function(&function, module, name), 0);
    return function;
}

static int launch(void *function, unsigned threads, unsigned shared, unsigned long long argument)
{
    void *parameters[] = {&argument};
    return cu.launch(function, 1, 1, 1, threads, 1, 1, shared, NULL, parameters, NULL);
}

Test(stand_in, nothing_works_before_cuInit_or_in_a_forked_child)
{
    int n;
    setenv("FAKECUDA_INIT", "1", 1);
    load();
    cr_expect_eq(cu.count(&n), 3);
    cr_expect_eq(cu.init(0), 0);
    cr_expect_eq(cu.count(&n), 0);
    cr_expect_eq(n, 1);
    pid_t child = fork();
    if (child == 0)
        _exit(cu.count(&n));
    int status;
    waitpid(child, &status, 0);
    cr_expect_eq(WEXITSTATUS(status), 3);
    end();
}

Test(stand_in, contexts_are_a_stack_and_each_device_has_its_own)
{
    void *a, *b, *c, *module, *function;
    int n;
    setenv("FAKECUDA_CC", "90,80", 1);
    load();
    cu.init(0);
    cr_expect(cu.count(&n) == 0 && n == 2);
    cr_expect_eq(cu.load(&module, TWICE), 201, "no context");
    cr_expect(cu.retain(&a, 0) == 0 && cu.retain(&b, 1) == 0 && cu.retain(&c, 2) == 101);
    cr_expect(cu.push(a) == 0 && cu.push(b) == 0);
    cr_expect_eq(cu.load(&module, ".target sm_90\n.entry k() {}"), CU_INVALID_PTX);
    cr_expect_eq(cu.load(&module, TWICE), 0);
    cr_expect_eq(cu.function(&function, module, "twice"), 0);
    cr_expect(cu.pop(&c) == 0 && c == b);
    cr_expect_eq(launch(function, 4, 0, 0), 400, "it is the other context's");
    cr_expect(cu.pop(&c) == 0 && c == a);
    cr_expect_eq(cu.pop(&c), 201);
    end();
}

Test(stand_in, launches_beyond_a_limit_fail)
{
    void *function, *bounded;
    unsigned long long memory;
    begin();
    function =
        function_of(HEAD ".entry twice(.param .u64 p) { .shared .b8 room[1024]; ret; }\n", "twice");
    bounded = function_of(HEAD ".entry k(.param .u64 p) .maxntid 128, 1, 1 { ret; }\n", "k");
    cr_assert_eq(cu.allocate(&memory, 8192), 0);
    cr_expect_eq(launch(function, 1024, 47 * 1024, memory), 0);
    cr_expect_eq(launch(function, 1025, 0, memory), CU_INVALID_VALUE);
    cr_expect_eq(launch(function, 4, 47 * 1024 + 1, memory), CU_INVALID_VALUE);
    cr_expect_eq(cu.set_attribute(function, 8, 226 * 1024), 0);
    cr_expect_eq(launch(function, 4, 226 * 1024, memory), 0);
    cr_expect_eq(cu.set_attribute(function, 8, 226 * 1024 + 1), CU_INVALID_VALUE);
    cr_expect_eq(launch(bounded, 128, 0, memory), 0);
    cr_expect_eq(launch(bounded, 129, 0, memory), CU_INVALID_VALUE);
    cr_expect_eq(cu.launch(function, 1, 1, 1, 4, 1, 1, 0, NULL, NULL, NULL), CU_INVALID_VALUE,
                 "no parameters");
    void *module;
    cr_expect_eq(cu.load(&module, HEAD ".entry k(.param .b8 p[32765]) { ret; }\n"), CU_INVALID_PTX);
    cr_expect_eq(cu.load(&module, HEAD ".entry k(.param .b8 p[32764]) { ret; }\n"), 0);
    cr_expect_eq(cu.load(&module, HEAD ".shared .b8 room[49153];\n.entry k() { ret; }\n"),
                 CU_INVALID_PTX);
    end();
}

/* Returns the linker's cubin of a PTX text. */
static const void *linked(const char *ptx)
{
    char copy[512];
    void *link, *cubin;
    size_t len;
    strcpy(copy, ptx);
    cr_assert_eq(cu.link_create(0, NULL, NULL, &link), 0);
    cr_assert_eq(cu.link_add(link, CU_JIT_INPUT_PTX, copy, strlen(copy) + 1, "", 0, NULL, NULL), 0);
    cr_assert_eq(cu.link_complete(link, &cubin, &len), 0);
    return cubin;
}

Test(stand_in, what_the_linker_makes_is_not_what_the_loader_makes)
{
    int loaded, of_link;
    unsigned long long memory;
    begin();
    void *whole = function_of(TWICE, "twice"), *parts = function_of(linked(TWICE), "twice");
    cr_expect(cu.attribute(&loaded, 4, whole) == 0 && cu.attribute(&of_link, 4, parts) == 0);
    cr_expect(loaded == 32 && of_link == 104, "%d %d", loaded, of_link);
    cu.allocate(&memory, 4096);
    cr_expect_eq(launch(whole, 1024, 0, memory), 0);
    cr_expect_eq(launch(parts, 1024, 0, memory), 701, "its block has too few registers");
    end();
}

/* Launches a kernel on memory that is `off` bytes behind its own. */
static void fails_later(unsigned off, int code)
{
    unsigned long long memory;
    begin();
    void *function = function_of(TWICE, "twice");
    cr_assert_eq(cu.allocate(&memory, 16), 0);
    cr_expect_eq(launch(function, 4, 0, memory + off), 0);
    cr_expect_eq(cu.synchronize(), code);
    cr_expect_eq(launch(function, 4, 0, memory), code);
    cr_expect_eq(cu.allocate(&memory, 16), code);
    end();
}

Test(stand_in, a_kernel_that_writes_behind_its_memory_fails_later_and_for_ever)
{
    fails_later(4, 700);
}

Test(stand_in, a_kernel_that_writes_across_words_fails_later_and_for_ever) { fails_later(2, 716); }

Test(stand_in, a_library_is_loaded_when_it_is_needed)
{
    void *library, *module;
    begin();
    static const char broken[] = HEAD ".entry broken() { ret; }\n";
    cr_expect_eq(cu.library_load(&library, broken, NULL, NULL, 0, NULL, NULL, 0), 0);
    cr_expect_eq(cu.library_module(&module, library), CU_INVALID_PTX);
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    cr_expect_eq(cu.library_load(&library, broken, NULL, NULL, 0, NULL, NULL, 0), CU_INVALID_PTX);
    end();
}

Test(stand_in, options_do_nothing_to_a_cubin)
{
    char log[64] = "as it was";
    int options[] = {CU_JIT_INFO_LOG, CU_JIT_INFO_LOG_SIZE};
    void *values[] = {log, (void *)sizeof log}, *module;
    begin();
    cr_assert_eq(cu.load_ex(&module, linked(TWICE), 2, options, values), 0);
    cr_expect(values[1] == (void *)sizeof log && strcmp(log, "as it was") == 0);
    cr_assert_eq(cu.load_ex(&module, TWICE, 2, options, values), 0);
    cr_expect_null(values[1]);
    end();
}

Test(stand_in, a_name_means_the_version_that_was_asked_for)
{
    void *second, *third, *again;
    int status;
    load();
    cr_expect_eq(cu.find("cuLinkAddData", &second, 12000, 0, &status), 0);
    cr_expect_eq(cu.find("cuLinkAddData", &again, 13050, 0, &status), 0);
    cr_expect_eq(cu.find("cuLinkAddData", &third, 14000, 0, &status), 0);
    cr_expect(second == again && second != third, "the third version is invented");
    cr_expect_neq(second, dlsym(cu.library, "cuLinkAddData_v2"));
    cr_expect_eq(cu.find("cuLinkAddData", &second, 5000, 0, &status), 500);
    cr_expect(status == 2 && !second);
    cr_expect_eq(cu.find("cuNothing", &second, 12000, 0, &status), 500);
    cr_expect_eq(status, 1);
    end();
}

/* nvcc's fat binaries of a kernel, as it compresses them by default and for speed: tests/data/README.md. */
Test(stand_in, compressed_fat_binaries_are_read)
{
    static const char *const files[] = {"tests/data/compressed.fatbin",
                                        "tests/data/compressed_speed.fatbin"};
    size_t len;
    void *module, *function;
    begin();
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char *fat = file_read(files[i], &len);
        cr_expect_eq(cu.load(&module, fat), 0, "%s", files[i]);
        cr_expect_eq(cu.function(&function, module, "twice"), 0);
        cr_expect_eq(cu.function(&function, module, "thrice"), 500);
        cr_expect_eq(cu.unload(module), 0);
        cr_expect_eq(cu.unload(module), 400, "it is gone");
        free(fat);
    }
    end();
}

Test(stand_in, the_log_has_each_call_with_arguments_and_results)
{
    size_t len;
    unsigned long long memory;
    load();
    char *path = path_join(cu.folder, "calls"), want[1024];
    int n, options[] = {CU_JIT_MAX_REGISTERS};
    void *values[] = {(void *)24}, *context, *module, *function;
    setenv("FAKECUDA_INIT", "1", 1);
    setenv("FAKECUDA_CALLS", path, 1);
    cr_assert(cu.count(&n) == 3 && cu.init(0) == 0 && cu.count(&n) == 0);
    cr_assert(cu.retain(&context, 0) == 0 && cu.set_current(context) == 0);
    cr_assert(cu.load_ex(&module, TWICE, 1, options, values) == 0 &&
              cu.function(&function, module, "twice") == 0 && cu.allocate(&memory, 16) == 0 &&
              launch(function, 4, 0, memory) == 0);
    snprintf(want, sizeof want,
             "%1$d/1 ?cuDeviceGetCount(&) = 3 ->\n%1$d/1 cuInit(0) = 0 ->\n"
             "%1$d/1 ?cuDeviceGetCount(&) = 0 -> 1\n"
             "%1$d/1 cuDevicePrimaryCtxRetain(&, 0) = 0 -> #1\n"
             "%1$d/1 cuCtxSetCurrent(#1) = 0 ->\n"
             "%1$d/1 cuModuleLoadDataEx(&, ptx[90]4bac215f, {0:24 }) = 0 -> #2{}\n"
             "%1$d/1 cuModuleGetFunction(&, #2, twice) = 0 -> #3\n"
             "%1$d/1 cuMemAlloc_v2(&, 16) = 0 -> #4\n"
             "%1$d/1 cuLaunchKernel(#3, 1, 1, 1, 4, 1, 1, 0, 0, &, NULL #4) = 0 ->\n",
             (int)getpid());
    char *log = file_read(path, &len);
    cr_expect_str_eq(log, want);
    free(log);
    free(path);
    end();
}
