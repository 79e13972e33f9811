/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph_run.c - libwarm's warm_graph_open, _run and _close: a bundle on the caller's memory and stream. Programs and
 * Python call them; warm.h has the contract. kernels/exec does the work: exec.h on a GPU, cpu.h without one.
 *
 * Each call enters the driver with the caller's stream, and leaves it: a thread's own CUDA context comes back.
 *
 * Thread: one at a time for each struct warm_exec.
 */
#include "client/lib/warm.h" /* first: its own error codes are the ones that are checked in client.c */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/graph_run.h"
#include "kernels/exec/cpu.h"
#include "kernels/exec/exec.h"

struct warm_exec {
    struct graph_bundle b;
    struct driver *d; /* NULL: on the CPU */
    struct graph_exec *x;
    struct program *p;           /* NULL: on a GPU */
    struct warm_tensor *tensors; /* of arguments, then of results */
    uint64_t *addresses;         /* likewise, of the last run */
    struct err err;
};

/* Returns the type of argument i, or of result i - n_arguments. */
static const struct tensor *type_of(const struct warm_exec *x, uint32_t i)
{
    uint32_t n = x->b.n_arguments;
    return &x->b.buffers.at[i < n ? i : x->b.results.at[i - n]].type;
}

static int fill_tensors(struct warm_exec *x)
{
    size_t n = (size_t)x->b.n_arguments + x->b.results.n;
    x->tensors = calloc(n + 1, sizeof *x->tensors);
    x->addresses = calloc(n + 1, sizeof *x->addresses);
    if (!x->tensors || !x->addresses)
        return err_set(&x->err, WARM_ENOMEM, "a compiled graph");
    for (uint32_t i = 0; i < n; i++) {
        const struct tensor *t = type_of(x, i);
        x->tensors[i] = (struct warm_tensor){program_elem_name(t->elem), t->rank, t->dims,
                                             graph_tensor_bytes(t)};
    }
    return 0;
}

int warm_graph_open(const void *bundle, size_t len, int gpu, struct warm_exec **out,
                    char out_why[WARM_WHY_TEXT])
{
    struct warm_exec *x = calloc(1, sizeof *x);
    if (!x) {
        snprintf(out_why, out_why ? WARM_WHY_TEXT : 0, "%s", err_text(WARM_ENOMEM));
        return WARM_ENOMEM;
    }
    int rc = graph_bundle_read(bundle, len, &x->b, &x->err);
    if (rc == 0)
        rc = fill_tensors(x);
    if (rc == 0 && gpu == WARM_ON_CPU)
        rc = cpu_open(&x->b, &x->p, &x->err);
    else if (rc == 0 && (rc = driver_open(gpu, &x->d, &x->err)) == 0)
        rc = graph_exec_new(x->d, &x->b, false, &x->x, &x->err);
    if (x->d)
        driver_leave(x->d);
    if (rc == 0) {
        *out = x;
        return 0;
    }
    snprintf(out_why, out_why ? WARM_WHY_TEXT : 0, "%s", x->err.text);
    warm_graph_close(x);
    return rc;
}

void warm_graph_close(struct warm_exec *x)
{
    if (!x)
        return;
    if (x->x && driver_enter(x->d, NULL, NULL) == 0)
        graph_exec_free(x->x);
    driver_close(x->d);
    program_free(x->p);
    graph_bundle_close(&x->b);
    free(x->tensors);
    free(x->addresses);
    free(x);
}

unsigned warm_graph_arguments(const struct warm_exec *x, const struct warm_tensor **out)
{
    *out = x->tensors;
    return x->b.n_arguments;
}

unsigned warm_graph_results(const struct warm_exec *x, const struct warm_tensor **out)
{
    *out = x->tensors + x->b.n_arguments;
    return x->b.results.n;
}

const char *warm_graph_message(const struct warm_exec *x) { return x->err.text; }

/* Takes an address, if it may be that of tensor i. */
static int take_address(struct warm_exec *x, uint32_t i, const void *address)
{
    uint32_t n = x->b.n_arguments, size = program_elem_size(type_of(x, i)->elem);
    x->addresses[i] = (uint64_t)(uintptr_t)address;
    if ((address || !x->tensors[i].bytes) && x->addresses[i] % size == 0)
        return 0;
    return err_set(&x->err, WARM_EINVALID, "%s %u: the address %p is not one of %s",
                   i < n ? "argument" : "result", i < n ? i : i - n, address,
                   x->tensors[i].element);
}

int warm_graph_run(struct warm_exec *x, const void *const *arguments, void *const *results,
                   void *stream)
{
    uint32_t n = x->b.n_arguments;
    int rc = 0;
    for (uint32_t i = 0; i < n + x->b.results.n && rc == 0; i++)
        rc = take_address(x, i, i < n ? arguments[i] : results[i - n]);
    if (rc == 0 && x->p)
        return cpu_run(x->p, (const uint8_t *const *)arguments, (uint8_t *const *)results, &x->err);
    if (rc == 0)
        rc = driver_enter(x->d, stream, &x->err);
    if (rc)
        return rc;
    rc = graph_exec_run(x->x, x->addresses, x->addresses + n, &x->err);
    driver_leave(x->d);
    return rc;
}

/* ---- memory ---- */

int warm_graph_memory(struct warm_exec *x, size_t bytes, void **out)
{
    uint64_t address = 0;
    bytes += bytes == 0;
    if (x->p)
        return (*out = malloc(bytes)) ? 0 : err_set(&x->err, WARM_ENOMEM, "%zu bytes", bytes);
    int rc = driver_enter(x->d, NULL, &x->err);
    if (rc)
        return rc;
    rc = driver_alloc(x->d, bytes, &address, &x->err);
    driver_leave(x->d);
    *out = (void *)(uintptr_t)address;
    return rc;
}

void warm_graph_memory_free(struct warm_exec *x, void *address)
{
    if (x->p) {
        free(address);
    } else if (driver_enter(x->d, NULL, &x->err) == 0) {
        driver_free(x->d, (uint64_t)(uintptr_t)address);
        driver_leave(x->d);
    }
}

int warm_graph_copy(struct warm_exec *x, void *to, const void *from, size_t bytes, void *stream)
{
    if (bytes == 0)
        return 0;
    if (x->p) {
        memmove(to, from, bytes);
        return 0;
    }
    int rc = driver_enter(x->d, stream, &x->err);
    if (rc)
        return rc;
    rc = driver_copy(x->d, (uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from, bytes, &x->err);
    driver_leave(x->d);
    return rc;
}

int warm_graph_wait(struct warm_exec *x, void *stream)
{
    int rc = x->p ? 0 : driver_enter(x->d, stream, &x->err);
    if (rc || x->p)
        return rc;
    rc = driver_wait(x->d, &x->err);
    driver_leave(x->d);
    return rc;
}

int graph_run_wait_for_all(struct warm_exec *x)
{
    int rc = x->p ? 0 : driver_enter(x->d, NULL, &x->err);
    if (rc || x->p)
        return rc;
    rc = driver_wait_for_all(x->d, &x->err);
    driver_leave(x->d);
    return rc;
}
