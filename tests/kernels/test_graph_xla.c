/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_graph_xla.c - the handlers for XLA's FFI, on frames as XLA makes them: on the CPU, and on this machine's GPU or
 * the stand-in for a driver. Each frame that does not fit its graph is an error with a reason. tests/clients/jax_graph.py
 * has the real XLA.
 */
#include "client/lib/warm.h" /* first: its own error codes */

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/lib/xla_ffi.h"
#include "kernels/exec/driver.h"
#include "tests/kernels/any_gpu.h"
#include "tests/kernels/made.h"
#include "tests/support/support.h"

static const char ADD[] =
    "func.func public @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {\n"
    "%0 = stablehlo.add %x, %y : tensor<2x3xf32>\nreturn %0 : tensor<2x3xf32>\n}\n";
enum { N = 6 };

/* ---- XLA ---- */

struct ffi_context {
    void *stream;
    int32_t ordinal;
    bool has_stream;
};
static _Thread_local char said[512];

static struct ffi_error *error_create(struct ffi_error_args *a)
{
    cr_assert_eq(a->struct_size, FFI_SIZE(ffi_error_args, code));
    cr_assert_neq(a->code, 0);
    snprintf(said, sizeof said, "%s", a->message);
    return (struct ffi_error *)said;
}

static struct ffi_error *stream_get(struct ffi_stream_args *a)
{
    static char why[] = "XLA: no stream";
    a->stream = a->context->stream;
    return a->context->has_stream ? NULL : (struct ffi_error *)strcpy(said, why);
}

static struct ffi_error *ordinal_get(struct ffi_ordinal_args *a)
{
    a->ordinal = a->context->ordinal;
    return NULL;
}

/* A call of ADD: two arguments, a result, and the name of the graph. */
struct call {
    struct ffi_frame frame;
    struct ffi_api api;
    struct ffi_context context;
    struct ffi_buffer buffers[3];
    int64_t dims[2];
    int buffer_types[3], attribute_types[2];
    void *buffers_at[3], *attributes_at[2];
    struct ffi_text keys[2], texts[2], *keys_at[2];
    char name[WARM_XLA_NAME];
};

/* Fills a call on these addresses of x, y and the result. */
static void call_init(struct call *c, const char *name, void *const *addresses)
{
    memset(c, 0, sizeof *c);
    snprintf(c->name, sizeof c->name, "%s", name);
    c->dims[0] = 2;
    c->dims[1] = 3;
    c->api = (struct ffi_api){.struct_size = sizeof c->api,
                              .version = {sizeof c->api.version, NULL, 0, 3},
                              .error_create = error_create,
                              .stream_get = stream_get,
                              .ordinal_get = ordinal_get};
    for (int i = 0; i < 3; i++) {
        c->buffers[i] = (struct ffi_buffer){sizeof *c->buffers, NULL, 11, addresses[i], 2, c->dims};
        c->buffers_at[i] = &c->buffers[i];
        c->buffer_types[i] = FFI_BUFFER;
    }
    c->keys[0] = (struct ffi_text){"grape", 5};
    c->keys[1] = (struct ffi_text){"graph", 5};
    for (int i = 0; i < 2; i++) {
        c->texts[i] = (struct ffi_text){c->name, strlen(c->name)};
        c->attribute_types[i] = FFI_ATTRIBUTE_STRING;
        c->attributes_at[i] = &c->texts[i];
        c->keys_at[i] = &c->keys[i];
    }
    c->frame = (struct ffi_frame){
        .struct_size = sizeof c->frame,
        .api = &c->api,
        .context = &c->context,
        .stage = FFI_EXECUTE,
        .arguments = {sizeof c->frame.arguments, NULL, 2, c->buffer_types, c->buffers_at},
        .results = {sizeof c->frame.results, NULL, 1, c->buffer_types, c->buffers_at + 2},
        .attributes = {sizeof c->frame.attributes, NULL, 2, c->attribute_types, c->keys_at,
                       c->attributes_at}};
}

/* ---- graphs ---- */

struct bytes {
    struct writer w;
    struct made m;
    struct for_cpu cpu;
};

/* Makes the bundle of ADD, with its module; and its kernels for the stand-in. */
static struct bytes bytes_of_add(void)
{
    struct bytes b = {.cpu = for_cpu_open()};
    b.m = made_of_text(ADD, b.cpu.f);
    b.m.b.module = view_of_text(ADD);
    writer_init(&b.w, 0);
    graph_bundle_write(&b.m.b, &b.w);
    return b;
}

static void bytes_free(struct bytes *b)
{
    writer_close(&b->w);
    made_free(&b->m);
    for_cpu_close(&b->cpu);
}

/* Opens ADD on the CPU, and frees the bundle's bytes. */
static void open_add(char name[WARM_XLA_NAME])
{
    char why[WARM_WHY_TEXT];
    struct bytes b = bytes_of_add();
    cr_assert_eq(warm_graph_xla_open(b.w.data, b.w.len, WARM_ON_CPU, name, why), 0, "%s", why);
    bytes_free(&b);
}

static float x[N] = {1, 2, 3, 4, 5, 6}, y[N] = {10, 20, 30, 40, 50, 60}, sum[N];
static void *const XY[] = {x, y, sum};

/* Expects an error with these words, and that nothing was written. */
#define REFUSED(c, words) refused(warm_graph_xla_cpu, &(c)->frame, words, __LINE__)
static void refused(void *(*handler)(void *), struct ffi_frame *frame, const char *words, int line)
{
    memset(sum, 0, sizeof sum);
    *said = '\0';
    cr_expect_eq(handler(frame), said, "line %d", line);
    cr_expect(strstr(said, words), "line %d: %s", line, said);
    cr_expect_eq(sum[0], 0, "line %d", line);
}

Test(graph_xla, a_call_writes_the_results_of_its_graph)
{
    char name[WARM_XLA_NAME], again[WARM_XLA_NAME];
    struct call c;
    open_add(name);
    open_add(again);
    cr_expect_str_eq(name, again);
    cr_expect_str_eq(name + 64, ":-1");
    call_init(&c, name, XY);
    cr_assert_null(warm_graph_xla_cpu(&c.frame), "%s", said);
    for (int i = 0; i < N; i++)
        cr_expect_eq(sum[i], 11 * x[i]);
}

Test(graph_xla, buffers_that_are_not_the_graphs_are_an_error)
{
    char name[WARM_XLA_NAME];
    struct call c, fresh;
    int64_t other[] = {3, 2};
    open_add(name);
    call_init(&fresh, name, XY);
#define WITH(change, words)                                                                        \
    do {                                                                                           \
        call_init(&c, name, XY);                                                                   \
        change;                                                                                    \
        REFUSED(&c, words);                                                                        \
    } while (0)
    WITH(c.frame.arguments.n = 1, "the call has 1 arguments, and the graph has 2");
    WITH(c.frame.arguments.n = -1, "the call has -1 arguments");
    WITH(c.frame.results.n = 2, "the call has 2 results, and the graph has 1");
    WITH(c.buffers[0].element = 12, "argument 0 is 2x3xf64, not 2x3xf32");
    WITH(c.buffers[1].element = 99, "argument 1 is 2x3xanother type, not 2x3xf32");
    WITH(c.buffers[2].element = 4, "result 0 is 2x3xi32, not 2x3xf32");
    WITH(c.buffers[1].dims = other, "argument 1 is 3x2xf32, not 2x3xf32");
    WITH(c.buffers[1].rank = 1, "argument 1 is 2xf32, not 2x3xf32");
    WITH(c.buffers[1].rank = 0, "argument 1 is f32, not 2x3xf32");
    WITH(c.buffers[1].rank = -1, "argument 1 is no buffer");
    WITH(c.buffers[1].dims = NULL, "argument 1 is no buffer");
    WITH(c.buffers[2].struct_size = 40, "result 0 is no buffer");
    WITH(c.buffers_at[1] = NULL, "argument 1 is no buffer");
    WITH(c.buffer_types[1] = 7, "argument 1 is no buffer");
    WITH(c.buffers[0].data = NULL, "argument 0: the address (nil) is not one of f32");
    WITH(c.buffers[2].data = NULL, "result 0: the address (nil) is not one of f32");
    WITH(c.buffers[1].data = (char *)y + 1, "argument 1: the address");
    WITH(c.texts[1].len--, "no graph ");
    WITH(c.texts[1] = ((struct ffi_text){"", 0}), "no graph  is open in this process");
    WITH(c.texts[1].at = NULL, "no attribute `graph`");
    WITH(c.frame.attributes.n = 1, "no attribute `graph`");
    WITH(c.attribute_types[1] = 3, "no attribute `graph`");
    WITH(c.name[0] ^= 1, "is open in this process: trace the function here");
    call_init(&c, name, XY);
    refused(warm_graph_xla_cuda, &c.frame,
            "XLA runs the call on a GPU, and its graph is for the CPU", __LINE__);
    cr_assert_null(warm_graph_xla_cpu(&fresh.frame), "%s", said); /* it still works */
}

Test(graph_xla, another_interface_is_an_error)
{
    char name[WARM_XLA_NAME];
    struct call c;
    open_add(name);
    WITH(c.api.version.major = 1, "the FFI of this XLA is 1.3, not 0.1 or more");
    WITH(c.api.version.minor = 0, "the FFI of this XLA is 0.0, not 0.1 or more");
    WITH(c.api.version.struct_size = 32, "the FFI of this XLA has another layout");
    WITH(c.api.struct_size = FFI_SIZE(ffi_api, error_create), "another layout");
    WITH(c.frame.struct_size = FFI_SIZE(ffi_frame, results), "a call of this XLA has another");
    WITH(c.frame.arguments.struct_size = 48, "a call of this XLA has another layout");
    WITH(c.frame.results.struct_size = 32, "a call of this XLA has another layout");
    WITH(c.frame.attributes.struct_size = 56, "a call of this XLA has another layout");
    WITH(c.frame.stage = 2, "stage 2 is not that of a run");
#undef WITH
}

/* What XLA asks when a handler is registered. */
Test(graph_xla, a_handler_says_which_interface_it_has)
{
    struct ffi_metadata metadata = {.struct_size = FFI_SIZE(ffi_metadata, traits), .traits = 7};
    struct ffi_extension other = {sizeof other, 99, NULL};
    struct ffi_metadata_extension e = {{sizeof e, FFI_EXTENSION_METADATA, NULL}, &metadata};
    struct call c;
    call_init(&c, "", XY);
    c.frame.extensions = &other;
    other.next = &e.base;
    cr_expect_null(warm_graph_xla_cuda(&c.frame));
    cr_expect(metadata.version.struct_size == 24 && metadata.version.major == 0 &&
              metadata.version.minor == 1 && metadata.traits == 0);
    metadata.version.minor = 0;
    c.api.version.major = 1;
    cr_expect_eq(warm_graph_xla_cpu(&c.frame), said);
    c.api.version.major = 0;
    metadata.struct_size = 8;
    cr_expect_null(warm_graph_xla_cpu(&c.frame));
    e.metadata = NULL;
    cr_expect_null(warm_graph_xla_cpu(&c.frame));
    cr_expect_eq(metadata.version.minor, 0, "what has no room must not be written");
}

/* A NULL would say that the results are there. */
Test(graph_xla, a_frame_without_errors_ends_the_program)
{
    struct call c;
    int status;
    call_init(&c, "", XY);
    c.frame.api = NULL;
    pid_t pid = fork();
    if (pid == 0) {
        freopen("/dev/null", "w", stderr);
        _exit(warm_graph_xla_cpu(&c.frame) == NULL);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void *call_often(void *name)
{
    float a[N], b[N], out[N];
    void *const addresses[] = {a, b, out};
    struct call c;
    call_init(&c, name, addresses);
    for (int k = 0; k < 200; k++) {
        for (int i = 0; i < N; i++) {
            a[i] = (float)(i + k);
            b[i] = (float)((uintptr_t)&c >> 12 & 1023);
        }
        if (warm_graph_xla_cpu(&c.frame))
            return "an error";
        for (int i = 0; i < N; i++)
            if (out[i] != a[i] + b[i])
                return "another sum";
    }
    return NULL;
}

Test(graph_xla, calls_of_many_threads_do_not_mix)
{
    char name[WARM_XLA_NAME];
    pthread_t threads[8];
    void *wrong;
    open_add(name);
    for (int i = 0; i < 8; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, call_often, name), 0);
    for (int i = 0; i < 8; i++) {
        cr_assert_eq(pthread_join(threads[i], &wrong), 0);
        cr_expect_null(wrong, "%s", (const char *)wrong);
    }
}

/* Its threads are gone, and one of them may have held the lock of a graph. */
Test(graph_xla, a_forked_child_opens_its_graphs_again)
{
    char name[WARM_XLA_NAME], again[WARM_XLA_NAME];
    struct call c;
    int status;
    struct bytes b = bytes_of_add();
    cr_assert_eq(warm_graph_xla_open(b.w.data, b.w.len, WARM_ON_CPU, name, NULL), 0);
    call_init(&c, name, XY);
    pid_t pid = fork();
    if (pid == 0) {
        bool is_unknown = warm_graph_xla_cpu(&c.frame) && strstr(said, "trace the function here");
        bool opens = warm_graph_xla_open(b.w.data, b.w.len, WARM_ON_CPU, again, NULL) == 0;
        _exit(!is_unknown || !opens || strcmp(name, again) || warm_graph_xla_cpu(&c.frame));
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_expect_eq(status, 0);
    cr_expect_null(warm_graph_xla_cpu(&c.frame), "%s", said);
    bytes_free(&b);
}

Test(graph_xla, a_bundle_that_does_not_open_says_why)
{
    char name[WARM_XLA_NAME], why[WARM_WHY_TEXT];
    struct bytes b = bytes_of_add();
    cr_expect_eq(warm_graph_xla_open(b.w.data, 20, WARM_ON_CPU, name, why), WARM_ETRUNCATED);
    cr_expect(*why && !strstr(why, "memory"), "%s", why);
    cr_expect_neq(warm_graph_xla_open("", 0, WARM_ON_CPU, name, NULL), 0);
    bytes_free(&b);
}

/* ---- on a GPU ---- */

/* Returns how many lines of the stand-in's log have these words. */
static int count(const char *log, const char *words)
{
    char *out;
    run_command(&out, "grep -c '%s' %s", words, log);
    int n = atoi(out);
    free(out);
    return n;
}

Test(graph_xla, on_a_gpu_runs_go_on_the_stream_of_the_call)
{
    char name[WARM_XLA_NAME], why[WARM_WHY_TEXT], log[256];
    struct bytes b = bytes_of_add();
    struct driver *d;
    struct err e = {0};
    struct call c;
    void *at[3], *streams[2];
    int (*create)(void **, unsigned), (*destroy)(void *);
    for_cpu_compile(&b.cpu);
    any_gpu_use(b.cpu.folder);
    cr_assert_eq(driver_open(0, &d, &e), 0, "%s", e.text);
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
    *(void **)&create = dlsym(cuda, "cuStreamCreate");
    *(void **)&destroy = dlsym(cuda, "cuStreamDestroy_v2");
    cr_assert(create(&streams[0], 1) == 0 && create(&streams[1], 1) == 0);
    for (int i = 0; i < 3; i++) {
        uint64_t address;
        cr_assert_eq(driver_alloc(d, sizeof sum, &address, &e), 0, "%s", e.text);
        cr_assert_eq(driver_write(d, address, XY[i], sizeof sum, &e), 0, "%s", e.text);
        at[i] = (void *)(uintptr_t)address;
    }
    cr_assert_eq(warm_graph_xla_open(b.w.data, b.w.len, 0, name, why), 0, "%s", why);
    cr_expect_str_eq(name + 64, ":0");
    snprintf(log, sizeof log, "%s/calls", b.cpu.folder);
    setenv("FAKECUDA_CALLS", log, 1);
    call_init(&c, name, at);
    c.context = (struct ffi_context){streams[0], 0, true};
    for (int i = 0; i < 2; i++)
        cr_assert_null(warm_graph_xla_cuda(&c.frame), "%s", said);
    cr_assert_eq(driver_read(d, sum, (uint64_t)(uintptr_t)at[2], sizeof sum, &e), 0, "%s", e.text);
    for (int i = 0; i < N; i++)
        cr_expect_eq(sum[i], 11 * x[i]);
    bool is_logged = !any_gpu_is_real();
    cr_expect(!is_logged || (count(log, "cuLaunchKernel(") == 2 && count(log, "cuCtxSync") == 0));
    c.context.stream = streams[1]; /* both streams would write the memory of the graph */
    cr_assert_null(warm_graph_xla_cuda(&c.frame), "%s", said);
    cr_expect(!is_logged || (count(log, "cuLaunchKernel(") == 3 && count(log, "cuCtxSync") == 1));
#define REFUSED_ON_GPU(words) refused(warm_graph_xla_cuda, &c.frame, words, __LINE__)
    c.context.ordinal = 1;
    REFUSED_ON_GPU("XLA runs the call on GPU 1, and its graph is for GPU 0");
    c.context.ordinal = 0;
    c.context.has_stream = false;
    REFUSED_ON_GPU("XLA: no stream");
    c.api.version.minor = 1;
    REFUSED_ON_GPU("does not say on which GPU a call is: use a newer jaxlib");
    c.api.version.minor = 3;
    REFUSED(&c, "XLA runs the call on the CPU, and its graph is for a GPU");
    cr_assert_eq(destroy(streams[0]), 0);
    c.context = (struct ffi_context){streams[0], 0, true};
    if (is_logged)
        REFUSED_ON_GPU("cuLaunchKernel: ");
    unsetenv("FAKECUDA_CALLS");
    c.context.stream = streams[1];
    c.buffers[1].data = (void *)256; /* a kernel's fault: a later call tells */
    cr_expect_null(warm_graph_xla_cuda(&c.frame), "%s", said);
    c.context.stream = NULL;
    REFUSED_ON_GPU("cuCtxSynchronize: ");
    driver_close(d);
    bytes_free(&b);
}
