/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec.h - runs a bundle on the GPU: its modules, its memory, and its launches in order.
 *
 *     bundle ──graph_exec_new──▶ modules, arena, constants and arguments on the device
 *     graph_exec_write ─▶ graph_exec_launch ─▶ … ─▶ graph_exec_read
 *
 * Or with the caller's memory: graph_exec_new ─▶ graph_exec_run ─▶ …
 *
 * Several bundles may share a driver, and one may read what another has written (graph_exec_bind): all
 * launches go on the driver's stream, in order. A caller captures launches with driver_capture_begin and
 * replays them, as CUDA graphs.
 *
 * Thread: the driver's. Memory: a struct graph_exec borrows the bundle and the driver; its device memory goes
 * with it.
 */
#ifndef WARM_KERNELS_EXEC_EXEC_H
#define WARM_KERNELS_EXEC_EXEC_H

#include "kernels/bundle/graph_bundle.h"
#include "kernels/exec/driver.h"

struct graph_exec;

/* Loads a bundle. Gives *out (graph_exec_free). `own_arguments`: with memory for arguments; else each is bound before
 * launches. Errors: UNSUPPORTED for another GPU; TOO_BIG; NOMEM of host or
 * device; those of driver_load. */
int graph_exec_new(struct driver *d, const struct graph_bundle *b, bool own_arguments,
                   struct graph_exec **out, struct err *e);
/* Waits for the GPU, and frees it; NULL is fine. Recordings of its launches are of no use any more. */
void graph_exec_free(struct graph_exec *x);

/* Returns the device address of argument i. */
uint64_t graph_exec_argument(const struct graph_exec *x, uint32_t i);
/* Returns the device address of result i. */
uint64_t graph_exec_result(const struct graph_exec *x, uint32_t i);
/* Has argument i read from another address: of another bundle's result, for example. */
void graph_exec_bind(struct graph_exec *x, uint32_t i, uint64_t address);

/* Copies an argument to the device. `data` has its elements: 4 bytes each, 1 byte of i1. */
int graph_exec_write(struct graph_exec *x, uint32_t i, const void *data, struct err *e);
/* Puts all launches on the stream. */
int graph_exec_launch(struct graph_exec *x, struct err *e);
/* Puts those of the forward pass on the stream: they write the function's own results. */
int graph_exec_launch_forward(struct graph_exec *x, struct err *e);
/* Puts those of the derivative on the stream. They read the cotangents, and what the last forward pass has
 * left. */
int graph_exec_launch_backward(struct graph_exec *x, struct err *e);
/* Waits for the stream, and copies a result from the device. */
int graph_exec_read(struct graph_exec *x, uint32_t i, void *data, struct err *e);

/* Puts all launches on the stream, with arguments and results at these addresses of the device. A result that is an
 * argument, a constant or an earlier result is copied there; any other is written in its place. Addresses stay, as
 * by graph_exec_bind. */
int graph_exec_run(struct graph_exec *x, const uint64_t *arguments, const uint64_t *results,
                   struct err *e);

#endif
