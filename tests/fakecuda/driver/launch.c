/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launch.c - launches and copies on the device: they run at once, or are recorded by a stream that captures. The
 * stand-in runs the kernel `twice`, each thread of which doubles a float, and those of the library
 * $FAKECUDA_KERNELS (image.h); any other does nothing.
 *
 * A launch beyond a limit of the device or the kernel fails. A kernel that reads or writes where it must not fails
 * later, as on a GPU: the launch succeeds, and all further calls in that context return the error.
 *
 * Thread: any, one at a time for each stream.
 */
#include <stdio.h>

#include "tests/fakecuda/driver/driver.h"

enum {
    ARGS_MAX = 128,
    WARP = 32,
    REGISTERS_OF_BLOCK = 65536,
    THREADS_MAX = 1024,
    THREADS_Z_MAX = 64,
    BLOCKS_YZ_MAX = 65535,
    ALIGNMENT =
        16,     /* of the addresses of a kernel of image.h, which may read four floats at once */
    BUFFER = 1, /* CU_LAUNCH_PARAM_BUFFER_POINTER and _SIZE */
    BUFFER_SIZE = 2
};

struct work {
    struct work *next;
    const struct image_kernel *kernel; /* NULL: a copy of args[2] bytes from args[1] to args[0] */
    unsigned blocks, threads;
    unsigned long long args[ARGS_MAX];
};
struct recording {
    struct work *first, **end;
    int references; /* by graphs and executable graphs */
};
struct graph {
    struct handle handle;
    struct recording *recording;
};
struct stream {
    struct handle handle;
    struct context *context;
    struct recording *recording; /* NULL: it does not capture */
};
struct grid {
    unsigned blocks[3], threads[3], shared;
};

/* True if a stream is one of ours, or one of those that have no handle. */
static bool is_stream(void *stream) { return (uintptr_t)stream <= 2 || handle_of(stream, STREAM); }

/* Makes an error that the kernel met that of all further calls. */
static int fail_later(int code)
{
    context_current()->sticky = code;
    return CU_SUCCESS;
}

static int run_work(struct work *w)
{
    void *pointers[ARGS_MAX];
    if (!w->kernel) {
        if (!memory_is_ours(w->args[0], w->args[2]) || !memory_is_ours(w->args[1], w->args[2]))
            return CU_INVALID_VALUE;
        memmove((void *)(uintptr_t)w->args[0], (void *)(uintptr_t)w->args[1], w->args[2]);
        return CU_SUCCESS;
    }
    for (unsigned i = 0; i < w->kernel->n_args; i++) {
        pointers[i] = &w->args[i];
        if (!memory_is_ours(w->args[i], 1))
            return fail_later(ILLEGAL_ADDRESS);
        if (w->args[i] % ALIGNMENT)
            return fail_later(MISALIGNED_ADDRESS);
    }
    w->kernel->run(w->blocks, w->threads, w->kernel->has_barriers, pointers);
    return CU_SUCCESS;
}

static int do_work(struct stream *s, struct work w)
{
    struct work *kept;
    if ((uintptr_t)s <= 2 || !s->recording)
        return run_work(&w);
    kept = malloc(sizeof *kept);
    *kept = w;
    *s->recording->end = kept;
    s->recording->end = &kept->next;
    return CU_SUCCESS;
}

CALL(cuMemcpyDtoDAsync_v2, ".chhzh",
     (unsigned long long to, unsigned long long from, size_t len, void *stream), to, from, len,
     stream)
{
    return is_stream(stream) ? do_work(stream, (struct work){.args = {to, from, len}})
                             : INVALID_HANDLE;
}

CALL(cuMemcpyAsync, ".chhzh",
     (unsigned long long to, unsigned long long from, size_t len, void *stream), to, from, len,
     stream)
{
    if (!memory_is_ours(to, len))
        return made_cuMemcpyDtoH_v2((void *)(uintptr_t)to, from, len);
    if (!memory_is_ours(from, len))
        return made_cuMemcpyHtoD_v2(to, (const void *)(uintptr_t)from, len);
    return made_cuMemcpyDtoDAsync_v2(to, from, len, stream);
}

/* ---- launches ---- */

/* Returns the error of a launch that device or kernel cannot run. */
static int check_grid(const struct function *f, const struct grid *g)
{
    const unsigned *b = g->blocks, *t = g->threads;
    unsigned long long threads = 1ull * t[0] * t[1] * t[2];
    const struct kernel *k = f->kernel;
    if (!b[0] || !b[1] || !b[2] || b[0] > INT32_MAX || b[1] > BLOCKS_YZ_MAX ||
        b[2] > BLOCKS_YZ_MAX || !threads || threads > THREADS_MAX || t[2] > THREADS_Z_MAX ||
        g->shared > f->dynamic_max || (k && threads > k->max_threads))
        return CU_INVALID_VALUE;
    unsigned long long warps = (threads + WARP - 1) / WARP;
    return k && warps * WARP * ((k->registers + 7) / 8 * 8) > REGISTERS_OF_BLOCK ? OUT_OF_RESOURCES
                                                                                 : CU_SUCCESS;
}

/* Writes where each parameter of a launch is. */
static int find_parameters(const struct function *f, void **parameters, void **extra,
                           void *out[PARAMETERS_MAX])
{
    const struct kernel *k = f->kernel;
    char *buffer = NULL;
    size_t size = 0;
    for (; !parameters && extra && *extra; extra += 2) {
        buffer = (uintptr_t)extra[0] == BUFFER ? extra[1] : buffer;
        size = (uintptr_t)extra[0] == BUFFER_SIZE ? *(size_t *)extra[1] : size;
    }
    if (k && k->n_parameters && !parameters && (!buffer || size < k->parameter_bytes))
        return CU_INVALID_VALUE;
    for (unsigned i = 0; k && i < k->n_parameters; i++)
        out[i] = parameters ? parameters[i] : buffer + k->parameters[i].at;
    return CU_SUCCESS;
}

/* Adds the values of the parameters to the log. */
static void log_parameters(const struct kernel *k, void *const *at)
{
    for (unsigned i = 0; i < k->n_parameters; i++) {
        unsigned long long value = 0, hash = 0xcbf29ce484222325u;
        unsigned size = k->parameters[i].size;
        memcpy(&value, at[i], size < sizeof value ? size : sizeof value);
        for (unsigned j = 0; j < size; j++)
            hash = (hash ^ ((const unsigned char *)at[i])[j]) * 0x100000001b3u;
        if (size == sizeof value && memory_is_ours(value, 0))
            call_add_address(value);
        else
            call_add(" %08x", (unsigned)hash);
    }
}

static void run_twice(void *const *parameters, unsigned threads)
{
    unsigned long long at;
    memcpy(&at, parameters[0], sizeof at);
    if (at % sizeof(float))
        fail_later(MISALIGNED_ADDRESS);
    else if (!memory_is_ours(at, threads * sizeof(float)))
        fail_later(ILLEGAL_ADDRESS);
    for (unsigned i = 0; !context_current()->sticky && i < threads; i++)
        ((float *)(uintptr_t)at)[i] *= 2;
}

static int launch(void *handle, const struct grid *g, void *stream, void **parameters, void **extra)
{
    struct function *f = function_of(handle);
    void *at[PARAMETERS_MAX] = {NULL};
    if (!f || !is_stream(stream))
        return INVALID_HANDLE;
    int code = check_grid(f, g);
    if (code == CU_SUCCESS)
        code = find_parameters(f, parameters, extra, at);
    if (code != CU_SUCCESS)
        return code;
    note("launch ", f->name);
    if (f->kernel)
        log_parameters(f->kernel, at);
    if (strcmp(f->name, "twice") == 0)
        run_twice(f->kernel ? at : parameters, g->threads[0]);
    const struct image_kernel *run = f->module->run;
    if (!run)
        return CU_SUCCESS;
    struct work w = {.kernel = run, .blocks = g->blocks[0], .threads = g->threads[0]};
    if (g->blocks[1] != 1 || g->blocks[2] != 1 || g->threads[1] != 1 || g->threads[2] != 1 ||
        run->n_args > ARGS_MAX)
        return CU_INVALID_VALUE;
    for (unsigned i = 0; i < run->n_args; i++)
        memcpy(&w.args[i], parameters[i], sizeof w.args[i]);
    return do_work(stream, w);
}

CALL(cuLaunchKernel, ".chuuuuuuuhpp",
     (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
      unsigned block_y, unsigned block_z, unsigned shared, void *stream, void **parameters,
      void **extra),
     function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, parameters, extra)
{
    struct grid g = {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared};
    return launch(function, &g, stream, parameters, extra);
}

CALL(cuLaunchCooperativeKernel, ".chuuuuuuuhp",
     (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
      unsigned block_y, unsigned block_z, unsigned shared, void *stream, void **parameters),
     function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, parameters)
{
    struct grid g = {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared};
    return launch(function, &g, stream, parameters, NULL);
}

/* The first fields of a CUlaunchConfig. */
struct config {
    struct grid grid;
    void *stream;
};

CALL(cuLaunchKernelEx, ".cphpp",
     (const struct config *config, void *function, void **parameters, void **extra), config,
     function, parameters, extra)
{
    const struct grid *g = &config->grid;
    call_add(" %ux%ux%u %ux%ux%u %u", g->blocks[0], g->blocks[1], g->blocks[2], g->threads[0],
             g->threads[1], g->threads[2], g->shared);
    return launch(function, g, config->stream, parameters, extra);
}

CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor, ".cIhiz",
     (int *out, void *function, int threads, size_t shared), out, function, threads, shared)
{
    (void)threads, (void)shared;
    *out = 1;
    return function_of(function) ? CU_SUCCESS : INVALID_HANDLE;
}

CALL(cuOccupancyMaxActiveClusters, ".cIhp", (int *out, void *function, const void *config), out,
     function, config)
{
    (void)config;
    *out = 1;
    return function_of(function) ? CU_SUCCESS : INVALID_HANDLE;
}

/* ---- streams and events: everything has happened by the time that a call returns ---- */

/* Without arguments: CALL needs one. */
int cuCtxSynchronize(void)
{
    struct call c;
    int code = call_begin(&c, "cuCtxSynchronize", ".c");
    return call_end(&c, code);
}
__attribute__((used, section("calls"))) static const struct exported cuCtxSynchronize_entry = {
    "cuCtxSynchronize", (void (*)(void))cuCtxSynchronize};

CALL(cuCtxSynchronize_v2, ".ih", (void *it), it)
{
    struct context *c = handle_of(it, CONTEXT);
    return c ? c->sticky : NO_CONTEXT;
}

CALL(cuStreamCreateWithPriority, ".cHui", (void **out, unsigned flags, int priority), out, flags,
     priority)
{
    struct stream *s = handle_new(STREAM, sizeof *s);
    (void)flags, (void)priority;
    s->context = context_current();
    *out = s;
    return CU_SUCCESS;
}

CALL(cuStreamCreate, ".cHu", (void **out, unsigned flags), out, flags)
{
    return made_cuStreamCreateWithPriority(out, flags, 0);
}

CALL(cuStreamGetCtx, ".chH", (void *stream, void **out), stream, out)
{
    struct stream *s = handle_of(stream, STREAM);
    *out = s ? s->context : context_current();
    return is_stream(stream) ? CU_SUCCESS : INVALID_HANDLE;
}

CALL(cuStreamSynchronize, ".ch", (void *stream), stream)
{
    return is_stream(stream) ? CU_SUCCESS : INVALID_HANDLE;
}

CALL(cuStreamQuery, ".ch", (void *stream), stream)
{
    return is_stream(stream) ? CU_SUCCESS : INVALID_HANDLE;
}

CALL(cuStreamWaitEvent, ".chhu", (void *stream, void *event, unsigned flags), stream, event, flags)
{
    (void)flags;
    return is_stream(stream) && handle_of(event, EVENT) ? CU_SUCCESS : INVALID_HANDLE;
}

CALL(cuStreamDestroy_v2, ".cx", (void *stream), stream)
{
    if (!handle_of(stream, STREAM))
        return INVALID_HANDLE;
    handle_end(stream);
    return CU_SUCCESS;
}

CALL(cuEventCreate, ".cHu", (void **out, unsigned flags), out, flags)
{
    (void)flags;
    *out = handle_new(EVENT, sizeof(struct handle));
    return CU_SUCCESS;
}

CALL(cuEventRecord, ".chh", (void *event, void *stream), event, stream)
{
    return handle_of(event, EVENT) && is_stream(stream) ? CU_SUCCESS : INVALID_HANDLE;
}

CALL(cuEventSynchronize, ".ch", (void *event), event)
{
    return handle_of(event, EVENT) ? CU_SUCCESS : INVALID_HANDLE;
}

CALL(cuEventQuery, ".ch", (void *event), event)
{
    return handle_of(event, EVENT) ? CU_SUCCESS : INVALID_HANDLE;
}

CALL(cuEventElapsedTime, ".cphh", (float *out, void *from, void *to), out, from, to)
{
    *out = 1;
    return handle_of(from, EVENT) && handle_of(to, EVENT) ? CU_SUCCESS : INVALID_HANDLE;
}

CALL(cuEventDestroy_v2, ".cx", (void *event), event)
{
    if (!handle_of(event, EVENT))
        return INVALID_HANDLE;
    handle_end(event);
    return CU_SUCCESS;
}

/* ---- graphs ---- */

CALL(cuStreamBeginCapture_v2, ".chi", (void *stream, int mode), stream, mode)
{
    struct stream *s = handle_of(stream, STREAM);
    (void)mode;
    if (!s || s->recording)
        return s ? CU_INVALID_VALUE : INVALID_HANDLE;
    s->recording = calloc(1, sizeof *s->recording);
    s->recording->end = &s->recording->first;
    return CU_SUCCESS;
}

CALL(cuStreamIsCapturing, ".chI", (void *stream, int *status), stream, status)
{
    struct stream *s = handle_of(stream, STREAM);
    *status = s && s->recording;
    return is_stream(stream) ? CU_SUCCESS : INVALID_HANDLE;
}

static struct graph *graph_new(enum kind kind, struct recording *r)
{
    struct graph *g = handle_new(kind, sizeof *g);
    g->recording = r;
    r->references++;
    return g;
}

CALL(cuStreamEndCapture, ".chH", (void *stream, void **out), stream, out)
{
    struct stream *s = handle_of(stream, STREAM);
    if (!s || !s->recording)
        return s ? CU_INVALID_VALUE : INVALID_HANDLE;
    *out = graph_new(GRAPH, s->recording);
    s->recording = NULL;
    return CU_SUCCESS;
}

CALL(cuGraphInstantiateWithFlags, ".cHhz", (void **out, void *graph, uint64_t flags), out, graph,
     flags)
{
    struct graph *g = handle_of(graph, GRAPH);
    (void)flags;
    if (!g)
        return INVALID_HANDLE;
    *out = graph_new(GRAPH_EXEC, g->recording);
    return CU_SUCCESS;
}

CALL(cuGraphLaunch, ".chh", (void *graph, void *stream), graph, stream)
{
    struct graph *g = handle_of(graph, GRAPH_EXEC);
    int code = g && is_stream(stream) ? CU_SUCCESS : INVALID_HANDLE;
    note("graph", "");
    for (struct work *w = g ? g->recording->first : NULL; w && code == CU_SUCCESS; w = w->next)
        code = run_work(w);
    return code;
}

static int graph_destroy(struct graph *g)
{
    if (!g)
        return INVALID_HANDLE;
    struct recording *r = g->recording;
    handle_end(g);
    g->recording = NULL;
    if (--r->references)
        return CU_SUCCESS;
    for (struct work *next, *w = r->first; w; w = next) {
        next = w->next;
        free(w);
    }
    free(r);
    return CU_SUCCESS;
}

CALL(cuGraphDestroy, ".cx", (void *graph), graph) { return graph_destroy(handle_of(graph, GRAPH)); }

CALL(cuGraphExecDestroy, ".cx", (void *graph), graph)
{
    return graph_destroy(handle_of(graph, GRAPH_EXEC));
}
