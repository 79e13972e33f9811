/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver.h - what the parts of the stand-in for libcuda.so.1 share. libcuda.c includes all parts, so that one
 * command builds it.
 *
 *     calls.c    the log of calls; the errors that every call has in common
 *     handles.c  objects that programs hold: an address names one object for ever
 *     devices.c  devices, contexts
 *     images.c   cubins, PTX, fat binaries: which kernels are in them, and their limits
 *     modules.c  modules, libraries, functions
 *     links.c    the linker
 *     memory.c   memory and copies
 *     launch.c   launches, streams, graphs
 *     find.c     cuGetProcAddress
 *
 * Thread: any, as the driver; the lock of handles.c is the only one. Memory: what a program frees is marked as
 * gone, and stays.
 */
#ifndef WARM_TESTS_FAKECUDA_DRIVER_H
#define WARM_TESTS_FAKECUDA_DRIVER_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "client/preload/driver/api.h"
#include "tests/fakecuda/image.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* the declarations are in cuda.h */

enum {
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    INVALID_DEVICE = 101,
    NO_CONTEXT = 201,
    FILE_NOT_FOUND = 301,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    ILLEGAL_ADDRESS = 700,
    OUT_OF_RESOURCES = 701,
    CONTEXT_IS_DESTROYED = 709,
    MISALIGNED_ADDRESS = 716,
    NOT_SUPPORTED = 801
};

/* ---- calls.c ---- */

/*
 * Defines a function of the driver, at one address for dlsym and at another for cuGetProcAddress. Its body runs if the errors that all calls share have not come first. The log
 * gets a line, with the arguments as `letters` say:
 *
 *     first   q a query without side effects, of a kind that warm makes as well; . any other
 *     second  a works at any time; i after cuInit; c needs a current context
 *     then    one letter an argument, or more arguments. What a call writes is logged after the call:
 *             i int, u unsigned, z size · I Z such numbers that the call writes
 *             h handle or address, x one that dies, H one that is made
 *             p pointer of the host · s text · S text that the call writes
 *             m image · M image that the call writes
 *             d bytes of the host, D bytes that it writes; l is their length, later
 *             o three arguments: count, options, values of the JIT compiler; O the same, count last
 */
#define CALL(name, letters, parameters, ...)                                                       \
    static int made_##name parameters;                                                             \
    int name parameters                                                                            \
    {                                                                                              \
        struct call c;                                                                             \
        int code = call_begin(&c, #name, letters, __VA_ARGS__);                                    \
        if (code == CU_SUCCESS)                                                                    \
            code = made_##name(__VA_ARGS__);                                                       \
        return call_end(&c, code, __VA_ARGS__);                                                    \
    }                                                                                              \
    static int found_##name parameters { return name(__VA_ARGS__); }                               \
    __attribute__((used, section("calls"))) static const struct exported name##_entry = {          \
        #name, (void (*)(void))(found_##name)};                                                    \
    static int made_##name parameters

struct exported {
    const char *name;
    void (*function)(void);
};
struct call {
    const char *name, *letters;
    size_t len;
    char text[8192];
};
static int call_begin(struct call *c, const char *name, const char *letters, ...);
static int call_end(struct call *c, int code, ...);
/* Adds a text to the line of the call that runs. */
static void call_add(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Adds the number of an address. */
static void call_add_address(unsigned long long address);
/* Writes a word, and more, to $FAKECUDA_LOG. */
static void note(const char *what, const char *more);
/* Returns a variable of the environment, or another text if it is empty. */
static const char *setting(const char *name, const char *otherwise);

/* ---- handles.c ---- */

enum kind {
    CONTEXT = 1,
    MODULE,
    LIBRARY,
    FUNCTION,
    KERNEL,
    LINK,
    STREAM,
    EVENT,
    GRAPH,
    GRAPH_EXEC
};
struct handle {
    enum kind kind;
    bool is_gone;
    struct handle *next;
};
static void *handle_new(enum kind kind, size_t size);
/* Returns the object, or NULL if it is gone, or was never one of this kind. */
static void *handle_of(const void *handle, enum kind kind);
static void handle_end(void *handle);

/* ---- devices.c ---- */

struct context {
    struct handle handle;
    int device, sticky; /* sticky: the error of a kernel, which all further calls return */
    unsigned references;
};
static bool driver_is_initialized(void);
/* Returns the context of this thread, or NULL. */
static struct context *context_current(void);
static int device_cc(int device);
static bool is_device(int device);

/* ---- images.c ---- */

enum { TEXT_MAX = 4096, KERNELS_MAX = 32, PARAMETERS_MAX = 64 };
struct kernel {
    char name[160];
    unsigned registers, shared, max_threads; /* of a block; shared: bytes of all static variables */
    unsigned n_parameters, parameter_bytes;
    struct {
        unsigned at, size;
    } parameters[PARAMETERS_MAX];
};
struct code {
    bool has_any;         /* its kernels are not known: it has whatever is asked for */
    const void *original; /* the bytes of a cubin for a GPU */
    unsigned n;
    struct kernel kernels[KERNELS_MAX];
};
/* Reads or compiles an image for a device. `most`: registers of a kernel, 0 for no limit. */
static int code_load(struct code *out, const void *image, int device, unsigned most);
/* Compiles PTX, and writes a cubin. `linked`: as the linker does it, which optimizes less. */
static int ptx_compile(const char *ptx, size_t len, int cc, unsigned most, bool linked,
                       char out[TEXT_MAX]);
/* True if this thread has compiled PTX since the caller made it false. */
static __thread bool was_compiled;
/* Returns the length of an image, whatever it is. */
static size_t image_len(const void *image);
static const char *image_kind(const void *image);
/* Returns the fat binary that an image is or points to, or NULL. */
static const char *fat_of(const void *image);

/* ---- modules.c ---- */

struct module {
    struct handle handle;
    struct context *context;
    struct code code;
    const struct image_kernel *run; /* what it does, if that is known */
};
struct function {
    struct handle handle;
    struct module *module;
    const struct kernel *kernel; /* NULL: not known */
    unsigned dynamic_max;        /* bytes of shared memory that a launch may ask for */
    char name[160];
};
/* Returns a value of the JIT compiler's options, or 0. */
static unsigned option_of(unsigned n, const int *options, void *const *values, int wanted);
/* Returns the bytes of a file, with a NUL (free()); NULL if it cannot be read. */
static char *read_file(const char *path);
/* Returns the function of a CUfunction or a CUkernel in the current context, or NULL. */
static struct function *function_of(void *handle);

/* ---- memory.c ---- */

/* True if these bytes are within one allocation. */
static bool memory_is_ours(unsigned long long at, size_t len);

#endif
