/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec.c - places a bundle on the device and launches it. main.c, libwarm, the examples and the tests call it.
 *
 * Arguments, constants and arena are a block of device memory each. A buffer's address is fixed when the
 * bundle is loaded, so launches need no host memory but their arguments' addresses. Capture wants that too:
 * a recording keeps the addresses.
 *
 * Thread: the driver's.
 */
#include "kernels/exec/exec.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a kernel's parameters: CUDA C++ Programming Guide, table of compute capabilities. The driver reads as
 * many parameters as the kernel has, whatever the bundle says of it: there is room for all. */
#define PARAMETERS_MAX 32764u

struct graph_exec {
    struct driver *d;
    const struct graph_bundle *b;
    void **modules, **functions; /* by kernel */
    uint64_t blocks[PLACE_N];    /* device memory of each place */
    uint64_t *addresses;         /* by buffer; PARAMETERS_MAX bytes more */
    void **args; /* of the last launches; each is an address, or was one of an earlier launch */
};

/* Rounds up to the alignment of tensors. */
static uint64_t aligned(uint64_t bytes)
{
    return (bytes + GRAPH_BUNDLE_ALIGN - 1) / GRAPH_BUNDLE_ALIGN * GRAPH_BUNDLE_ALIGN;
}

static int load_kernels(struct graph_exec *x, struct err *e)
{
    for (uint32_t i = 0; i < x->b->kernels.n; i++) {
        struct view cubin = x->b->kernels.at[i].cubin;
        int rc = driver_load(x->d, cubin.data, cubin.len, &x->modules[i], e);
        if (rc == 0)
            rc = driver_function(x->d, x->modules[i], "kernel", &x->functions[i], e);
        if (rc)
            return rc;
    }
    return 0;
}

/* Allocates the places, and writes the constants. */
static int place_buffers(struct graph_exec *x, bool own_arguments, struct err *e)
{
    const struct graph_bundle *b = x->b;
    uint64_t bytes[PLACE_N] = {[PLACE_CONSTANT] = b->constants.len, [PLACE_ARENA] = b->arena};
    for (uint32_t i = 0; i < b->n_arguments; i++) {
        x->addresses[i] = bytes[PLACE_ARGUMENT];
        bytes[PLACE_ARGUMENT] += aligned(graph_tensor_bytes(&b->buffers.at[i].type));
        if (bytes[PLACE_ARGUMENT] > GRAPH_BUNDLE_ARENA_MAX)
            return err_set(e, WARM_ETOO_BIG, "the arguments need more than 2^50 bytes");
    }
    for (int place = 0; place < PLACE_N; place++) {
        /* an empty place has an address, too: of tensors without elements */
        if (place == PLACE_ARGUMENT && !own_arguments)
            continue;
        int rc = driver_alloc(x->d, bytes[place] ? bytes[place] : GRAPH_BUNDLE_ALIGN,
                              &x->blocks[place], e);
        if (rc)
            return rc;
    }
    for (uint32_t i = 0; i < b->buffers.n; i++) {
        const struct graph_buffer *buffer = &b->buffers.at[i];
        x->addresses[i] = x->blocks[buffer->place] +
                          (buffer->place == PLACE_ARGUMENT ? x->addresses[i] : buffer->at);
    }
    return b->constants.len ? driver_write(x->d, x->blocks[PLACE_CONSTANT], b->constants.data,
                                           b->constants.len, e)
                            : 0;
}

int graph_exec_new(struct driver *d, const struct graph_bundle *b, bool own_arguments,
                   struct graph_exec **out, struct err *e)
{
    struct graph_exec *x = calloc(1, sizeof *x);
    uint32_t n_args = PARAMETERS_MAX;
    if (!driver_can_run(driver_arch(d), b->target)) {
        free(x);
        return err_set(e, WARM_EUNSUPPORTED, "it is compiled for %.*s, and the GPU (%s) is %s",
                       (int)b->target.len, (const char *)b->target.data, driver_name(d),
                       driver_arch(d));
    }
    for (uint32_t i = 0; i < b->launches.n; i++)
        n_args = b->launches.at[i].n_args > n_args ? b->launches.at[i].n_args : n_args;
    if (x)
        *x =
            (struct graph_exec){.d = d,
                                .b = b,
                                .modules = calloc((size_t)b->kernels.n + 1, sizeof *x->modules),
                                .functions = calloc((size_t)b->kernels.n + 1, sizeof *x->functions),
                                .addresses = calloc((size_t)b->buffers.n + PARAMETERS_MAX / 8 + 1,
                                                    sizeof *x->addresses),
                                .args = calloc((size_t)n_args, sizeof *x->args)};
    for (uint32_t i = 0; x && x->args && i < n_args; i++)
        x->args[i] = x->addresses;
    int rc = x && x->modules && x->functions && x->addresses && x->args
                 ? load_kernels(x, e)
                 : err_set(e, WARM_ENOMEM, "a compiled graph");
    if (rc == 0)
        rc = place_buffers(x, own_arguments, e);
    if (rc)
        graph_exec_free(x);
    else
        *out = x;
    return rc;
}

void graph_exec_free(struct graph_exec *x)
{
    if (!x)
        return;
    driver_wait_for_all(x->d, NULL); /* launches read this memory and these modules */
    for (int place = 0; place < PLACE_N; place++)
        driver_free(x->d, x->blocks[place]);
    for (uint32_t i = 0; x->modules && i < x->b->kernels.n; i++)
        driver_unload(x->d, x->modules[i]);
    free(x->modules);
    free(x->functions);
    free(x->addresses);
    free(x->args);
    free(x);
}

uint64_t graph_exec_argument(const struct graph_exec *x, uint32_t i)
{
    assert(i < x->b->n_arguments);
    return x->addresses[i];
}

uint64_t graph_exec_result(const struct graph_exec *x, uint32_t i)
{
    assert(i < x->b->results.n);
    return x->addresses[x->b->results.at[i]];
}

void graph_exec_bind(struct graph_exec *x, uint32_t i, uint64_t address)
{
    assert(i < x->b->n_arguments && address);
    x->addresses[i] = address;
}

int graph_exec_write(struct graph_exec *x, uint32_t i, const void *data, struct err *e)
{
    assert(i < x->b->n_arguments && data);
    uint64_t bytes = graph_tensor_bytes(&x->b->buffers.at[i].type);
    return bytes ? driver_write(x->d, x->addresses[i], data, bytes, e) : 0;
}

/* A launch under way: graph_bundle_run calls launch_one for each. */
struct launching {
    struct graph_exec *x;
    struct err *e;
};

static int launch_one(void *context, const struct graph_launch *l)
{
    struct launching *to = context;
    struct graph_exec *x = to->x;
    assert(l->kernel < x->b->kernels.n && l->args + l->n_args <= x->b->operands.n);
    for (uint32_t k = 0; k < l->n_args; k++)
        x->args[k] = &x->addresses[x->b->operands.at[l->args + k]];
    return driver_launch(x->d, x->functions[l->kernel], (struct driver_dims){l->blocks, 1},
                         (struct driver_dims){l->threads, 1}, x->args, to->e);
}

/* Waits for the launches so far, and reads a condition. */
static int read_condition(void *context, uint32_t buffer, bool *out)
{
    struct launching *to = context;
    uint8_t byte = 0;
    int rc = driver_read(to->x->d, &byte, to->x->addresses[buffer], 1, to->e);
    *out = byte != 0;
    return rc;
}

static int launch_range(struct graph_exec *x, uint32_t first, uint32_t end, struct err *e)
{
    return graph_bundle_run(x->b, first, end, launch_one, read_condition,
                            &(struct launching){x, e});
}

int graph_exec_launch(struct graph_exec *x, struct err *e)
{
    return launch_range(x, 0, x->b->launches.n, e);
}

int graph_exec_launch_forward(struct graph_exec *x, struct err *e)
{
    return launch_range(x, 0, x->b->n_forward, e);
}

int graph_exec_launch_backward(struct graph_exec *x, struct err *e)
{
    return launch_range(x, x->b->n_forward, x->b->launches.n, e);
}

int graph_exec_run(struct graph_exec *x, const uint64_t *arguments, const uint64_t *results,
                   struct err *e)
{
    const struct graph_bundle *b = x->b;
    for (uint32_t i = 0; i < b->n_arguments; i++)
        x->addresses[i] = arguments[i];
    for (uint32_t i = b->results.n; i-- > 0;) /* the first of equal ones is written in its place */
        if (b->buffers.at[b->results.at[i]].place == PLACE_ARENA && results[i])
            x->addresses[b->results.at[i]] = results[i];
    int rc = graph_exec_launch(x, e);
    for (uint32_t i = 0; rc == 0 && i < b->results.n; i++) {
        uint32_t buffer = b->results.at[i];
        uint64_t bytes = graph_tensor_bytes(&b->buffers.at[buffer].type);
        if (bytes && x->addresses[buffer] != results[i])
            rc = driver_copy(x->d, results[i], x->addresses[buffer], bytes, e);
    }
    return rc;
}

int graph_exec_read(struct graph_exec *x, uint32_t i, void *data, struct err *e)
{
    assert(i < x->b->results.n && data);
    uint32_t buffer = x->b->results.at[i];
    uint64_t bytes = graph_tensor_bytes(&x->b->buffers.at[buffer].type);
    return bytes ? driver_read(x->d, data, x->addresses[buffer], bytes, e) : driver_wait(x->d, e);
}
