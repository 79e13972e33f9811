/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph_xla.c - libwarm's handlers for XLA's FFI: a compiled graph as a custom call inside of an executable of XLA.
 * warm.graph.value_and_grad in Python opens the graph and writes the call; XLA calls the handler.
 *
 *   warm_graph_xla_open ──▶ a name ──an attribute of the call──▶ XLA's executable
 *   handler: frame ─▶ the graph of that name ─▶ types and shapes compared ─▶ its lock ─▶ warm_graph_run ─▶ NULL
 *
 * The handler returns an error of XLA that names the cause: a layout or version of the interface that is not ours, a name
 * that nobody opened here, the wrong device, other buffers than the graph has, a failure of the run.
 *
 * A name is the digest of the bundle, with the device. So a cache of executables, in which the call of another process
 * may lie, tells two graphs apart; and a name that leads to a graph leads to the right one.
 *
 * An executable may live longer than all that Python knows of it. So a graph that was opened here stays until the process
 * ends, and the list is read without a lock. A forked child begins anew: it has no lock that a lost thread holds.
 *
 * A call has no side effect and no aliases: results depend on the arguments alone, and XLA gives them memory of their own.
 *
 * Thread: any. The runs of a graph wait for one another.
 */
#include "client/lib/warm.h" /* first: its own error codes are the ones that are checked in client.c */

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/graph_run.h"
#include "client/lib/xla_ffi.h"
#include "keygen/bytes.h"
#include "keygen/key.h"

#define MESSAGE 512 /* bytes of an error's text */

struct xla_graph {
    char name[WARM_XLA_NAME];
    pid_t pid; /* of the process that opened it */
    int gpu;
    struct warm_exec *x;
    void *bundle;
    pthread_mutex_t lock; /* of the fields below, and of x */
    void **addresses;     /* of arguments, then of results, of the run */
    void *stream;         /* of the last run */
    bool has_run;
    struct xla_graph *next;
};

static _Atomic(struct xla_graph *) graphs;

/* ---- the list ---- */

static struct xla_graph *find_graph(const char *name, size_t len)
{
    pid_t pid = getpid();
    struct xla_graph *g = atomic_load_explicit(&graphs, memory_order_acquire);
    while (g && (g->pid != pid || strlen(g->name) != len || memcmp(g->name, name, len) != 0))
        g = g->next;
    return g;
}

static int fill_graph(struct xla_graph *g, const void *bundle, size_t len, char *out_why)
{
    const struct warm_tensor *tensors;
    g->pid = getpid();
    if (pthread_mutex_init(&g->lock, NULL) != 0 || !(g->bundle = malloc(len ? len : 1)))
        return WARM_ENOMEM;
    if (len)
        memcpy(g->bundle, bundle, len);
    int rc = warm_graph_open(g->bundle, len, g->gpu, &g->x, out_why);
    if (rc)
        return rc;
    size_t n = warm_graph_arguments(g->x, &tensors);
    n += warm_graph_results(g->x, &tensors);
    return (g->addresses = calloc(n + 1, sizeof *g->addresses)) ? 0 : WARM_ENOMEM;
}

int warm_graph_xla_open(const void *bundle, size_t len, int gpu, char out_name[WARM_XLA_NAME],
                        char out_why[WARM_WHY_TEXT])
{
    struct proof digest = proof_of_bytes(bundle, len);
    struct xla_graph *g = calloc(1, sizeof *g);
    if (out_why)
        snprintf(out_why, WARM_WHY_TEXT, "%s",
                 "out of memory"); /* unless warm_graph_open says more */
    if (!g)
        return WARM_ENOMEM;
    bytes_to_hex(digest.bytes, sizeof digest.bytes, g->name);
    snprintf(g->name + 2 * sizeof digest.bytes, WARM_XLA_NAME - 2 * sizeof digest.bytes, ":%d",
             gpu);
    memcpy(out_name, g->name, WARM_XLA_NAME);
    g->gpu = gpu;
    bool is_new = !find_graph(g->name, strlen(g->name));
    int rc = is_new ? fill_graph(g, bundle, len, out_why) : 0;
    if (rc || !is_new) {
        warm_graph_close(g->x);
        free(g->bundle);
        free(g->addresses);
        free(g);
        return rc;
    }
    g->next = atomic_load_explicit(&graphs, memory_order_relaxed); /* a second one does no harm */
    while (!atomic_compare_exchange_weak_explicit(&graphs, &g->next, g, memory_order_release,
                                                  memory_order_relaxed))
        continue;
    return 0;
}

/* ---- errors ---- */

/* True if the frame has a way to tell of an error. */
static bool has_errors(const struct ffi_frame *f)
{
    return f && f->struct_size >= FFI_SIZE(ffi_frame, api) && f->api &&
           f->api->struct_size >= FFI_SIZE(ffi_api, error_create) && f->api->error_create;
}

__attribute__((format(printf, 3, 4))) static struct ffi_error *
failed(const struct ffi_frame *f, int code, const char *format, ...)
{
    char text[MESSAGE] = "warm: ";
    va_list more;
    va_start(more, format);
    vsnprintf(text + strlen(text), sizeof text - strlen(text), format, more);
    va_end(more);
    struct ffi_error_args args = {FFI_SIZE(ffi_error_args, code), NULL, text, code};
    return f->api->error_create(&args);
}

/* ---- the frame ---- */

/* Returns an error if XLA's table of functions is not one that we know. */
static struct ffi_error *check_version(const struct ffi_frame *f)
{
    const struct ffi_version *v = &f->api->version;
    if (f->api->struct_size < FFI_SIZE(ffi_api, stream_get) || v->struct_size != sizeof *v)
        return failed(f, FFI_FAILED_PRECONDITION, "the FFI of this XLA has another layout");
    if (v->major != FFI_MAJOR || v->minor < FFI_MINOR)
        return failed(f, FFI_FAILED_PRECONDITION, "the FFI of this XLA is %d.%d, not %d.%d or more",
                      v->major, v->minor, FFI_MAJOR, FFI_MINOR);
    return NULL;
}

/* Answers what the handler is. XLA registers none that leaves the version empty. */
static struct ffi_error *describe(const struct ffi_frame *f, struct ffi_extension *extension)
{
    struct ffi_metadata_extension *e = (struct ffi_metadata_extension *)extension;
    struct ffi_error *error = has_errors(f) ? check_version(f) : NULL;
    if (error || extension->struct_size < sizeof *e || !e->metadata ||
        e->metadata->struct_size < FFI_SIZE(ffi_metadata, traits))
        return error;
    e->metadata->version =
        (struct ffi_version){sizeof e->metadata->version, NULL, FFI_MAJOR, FFI_MINOR};
    e->metadata->traits = 0; /* not for command buffers: a graph may wait for its stream */
    return NULL;
}

static struct ffi_error *check_layout(const struct ffi_frame *f)
{
    if (f->struct_size < FFI_SIZE(ffi_frame, attributes) ||
        f->arguments.struct_size != sizeof f->arguments ||
        f->results.struct_size != sizeof f->results ||
        f->attributes.struct_size != sizeof f->attributes)
        return failed(f, FFI_FAILED_PRECONDITION, "a call of this XLA has another layout");
    if (f->stage != FFI_EXECUTE)
        return failed(f, FFI_FAILED_PRECONDITION, "stage %d is not that of a run", f->stage);
    return NULL;
}

/* Finds the graph that the attribute `graph` names; an error if there is none for this device. */
static struct ffi_error *graph_of(const struct ffi_frame *f, bool on_gpu, struct xla_graph **out)
{
    const struct ffi_attributes *a = &f->attributes;
    const struct ffi_text *name = NULL;
    for (int64_t i = 0; i < a->n && !name; i++)
        if (a->types[i] == FFI_ATTRIBUTE_STRING && a->names[i]->len == strlen("graph") &&
            memcmp(a->names[i]->at, "graph", strlen("graph")) == 0)
            name = a->at[i];
    if (!name || !name->at)
        return failed(f, FFI_INVALID_ARGUMENT, "the call has no attribute `graph` with a name");
    struct xla_graph *g = find_graph(name->at, name->len);
    if (!g)
        return failed(f, FFI_NOT_FOUND,
                      "no graph %.*s is open in this process: trace the function here",
                      (int)(name->len < WARM_XLA_NAME ? name->len : WARM_XLA_NAME), name->at);
    if (on_gpu != (g->gpu >= 0))
        return failed(f, FFI_FAILED_PRECONDITION,
                      "XLA runs the call on %s, and its graph is for %s: see `device` of "
                      "warm.graph.value_and_grad",
                      on_gpu ? "a GPU" : "the CPU", on_gpu ? "the CPU" : "a GPU");
    *out = g;
    return NULL;
}

/* ---- buffers ---- */

static int element_number(const char *name)
{
#define X(element, number, c_name)                                                                 \
    if (strcmp(name, element) == 0)                                                                \
        return number;
    FFI_ELEMENTS(X)
#undef X
    return -1;
}

static const char *element_name(int number)
{
#define X(element, its_number, c_name)                                                             \
    if (number == (its_number))                                                                    \
        return element;
    FFI_ELEMENTS(X)
#undef X
    return "another type";
}

/* Writes "2x3xf32". */
static void write_type(const char *element, int64_t rank, const int64_t *dims, char out[128])
{
    size_t len = 0;
    for (int64_t i = 0; i < rank && len < 100; i++)
        len += (size_t)snprintf(out + len, 128 - len, "%lldx", (long long)dims[i]);
    snprintf(out + len, 128 - len, "%s", element);
}

/* Takes the addresses of arguments or results; an error if they are not those of the graph. */
static struct ffi_error *take(const struct ffi_frame *f, const char *what,
                              const struct ffi_values *values, const struct warm_tensor *tensors,
                              unsigned n, void **out)
{
    char is[128], want[128];
    if (values->n != n)
        return failed(f, FFI_INVALID_ARGUMENT, "the call has %lld %ss, and the graph has %u",
                      (long long)values->n, what, n);
    for (unsigned i = 0; i < n; i++) {
        const struct ffi_buffer *b = values->types[i] == FFI_BUFFER ? values->at[i] : NULL;
        const struct warm_tensor *t = &tensors[i];
        if (!b || b->struct_size < FFI_SIZE(ffi_buffer, dims) || b->rank < 0 ||
            (b->rank && !b->dims))
            return failed(f, FFI_INVALID_ARGUMENT, "%s %u is no buffer", what, i);
        if (b->element != element_number(t->element) || b->rank != t->rank ||
            (t->rank && memcmp(b->dims, t->dims, t->rank * sizeof *t->dims) != 0)) {
            write_type(element_name(b->element), b->rank, b->dims, is);
            write_type(t->element, t->rank, t->dims, want);
            return failed(f, FFI_INVALID_ARGUMENT, "%s %u is %s, not %s", what, i, is, want);
        }
        out[i] = b->data;
    }
    return NULL;
}

/* Gets the stream of the call; an error if the call is on another GPU than the graph. */
static struct ffi_error *stream_of(const struct ffi_frame *f, const struct xla_graph *g, void **out)
{
    const struct ffi_api *api = f->api;
    struct ffi_stream_args stream = {FFI_SIZE(ffi_stream_args, stream), NULL, f->context, NULL};
    struct ffi_ordinal_args gpu = {FFI_SIZE(ffi_ordinal_args, ordinal), NULL, f->context, -1};
    if (api->version.minor < FFI_MINOR_ORDINAL ||
        api->struct_size < FFI_SIZE(ffi_api, ordinal_get) || !api->ordinal_get || !api->stream_get)
        return failed(
            f, FFI_FAILED_PRECONDITION,
            "the FFI of this XLA does not say on which GPU a call is: use a newer jaxlib");
    struct ffi_error *error = api->ordinal_get(&gpu);
    if (error)
        return error;
    if (gpu.ordinal != g->gpu)
        return failed(f, FFI_FAILED_PRECONDITION,
                      "XLA runs the call on GPU %d, and its graph is for GPU %d: see `device` of "
                      "warm.graph.value_and_grad",
                      (int)gpu.ordinal, g->gpu);
    error = api->stream_get(&stream);
    *out = stream.stream;
    return error;
}

/* ---- the handlers ---- */

/* Runs a graph, whose lock is held. */
static struct ffi_error *run(const struct ffi_frame *f, struct xla_graph *g)
{
    const struct warm_tensor *tensors;
    void *stream = NULL;
    unsigned n = warm_graph_arguments(g->x, &tensors);
    void **results = g->addresses + n;
    struct ffi_error *error = take(f, "argument", &f->arguments, tensors, n, g->addresses);
    if (error)
        return error;
    unsigned n_results = warm_graph_results(g->x, &tensors);
    error = take(f, "result", &f->results, tensors, n_results, results);
    if (!error && g->gpu >= 0)
        error = stream_of(f, g, &stream);
    if (error)
        return error;
    int rc = 0;
    if (g->has_run && stream != g->stream) /* both runs would write the graph's memory */
        rc = graph_run_wait_for_all(g->x);
    if (rc == 0) {
        g->has_run = true;
        g->stream = stream;
        rc = warm_graph_run(g->x, (const void *const *)g->addresses, results, stream);
    }
    return rc ? failed(f, FFI_INTERNAL, "%s", warm_graph_message(g->x)) : NULL;
}

static struct ffi_error *handle(struct ffi_frame *f, bool on_gpu)
{
    struct xla_graph *g = NULL;
    if (f && f->struct_size >= FFI_SIZE(ffi_frame, extensions))
        for (struct ffi_extension *e = f->extensions; e; e = e->next)
            if (e->type == FFI_EXTENSION_METADATA)
                return describe(f, e);
    if (!has_errors(f)) { /* silence would mean that the results are there */
        fprintf(stderr, "warm: a call of XLA's FFI without a way to say that it failed\n");
        abort();
    }
    struct ffi_error *error = check_version(f);
    if (!error)
        error = check_layout(f);
    if (!error)
        error = graph_of(f, on_gpu, &g);
    if (error)
        return error;
    pthread_mutex_lock(&g->lock);
    error = run(f, g);
    pthread_mutex_unlock(&g->lock);
    return error;
}

void *warm_graph_xla_cpu(void *call_frame) { return handle(call_frame, false); }

void *warm_graph_xla_cuda(void *call_frame) { return handle(call_frame, true); }
