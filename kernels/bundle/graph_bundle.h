/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph_bundle.h - a compiled graph in one file: cubins, launches, and where each tensor is. BUNDLE.md has the
 * bytes.
 *
 *     program + code ──plan.c──▶ graph_bundle ◀──graph_bundle.c──▶ bytes
 *
 * Terms
 *   buffer   the place of a tensor: an argument of the caller, a part of `constants`, or a part of the arena
 *   arena    one block of device memory; tensors that are not needed at the same time share bytes of it
 *
 * Thread: any; no state. Memory: a struct graph_bundle owns its arrays and `constants`. The other views are
 * borrowed: from the bytes that were read, or from the caller that sets them.
 */
#ifndef WARM_KERNELS_BUNDLE_GRAPH_BUNDLE_H
#define WARM_KERNELS_BUNDLE_GRAPH_BUNDLE_H

#include "kernels/codegen/codegen.h"

#define GRAPH_BUNDLE_MAGIC "WARMGRPH"
#define GRAPH_BUNDLE_VERSION 3u
#define GRAPH_BUNDLE_OLDEST 2u /* that is read, too: no module, no conditions */
#define GRAPH_NONE UINT32_MAX
#define GRAPH_LOOPS_OPEN_MAX 64u /* loops inside of loops */
#define GRAPH_BUNDLE_ALIGN 256u  /* bytes: of each tensor in the arena and in `constants` */
#define GRAPH_BUNDLE_ARENA_MAX ((uint64_t)1 << 50)

enum graph_place { PLACE_ARGUMENT, PLACE_CONSTANT, PLACE_ARENA, PLACE_N };

struct graph_kernel {
    struct view key;   /* of its entry in the store: hex digits */
    struct view cubin; /* its kernel is called "kernel" */
};

struct graph_buffer {
    enum graph_place place;
    uint64_t
        at; /* number of the argument, or bytes from the beginning of `constants` or the arena */
    struct tensor type;
};

struct graph_launch {
    uint32_t kernel;
    uint32_t blocks, threads; /* along x: of the grid, of a block */
    uint32_t args, n_args;    /* slice of `operands`: buffers that it reads, then those it writes */
    uint32_t n_writes;        /* at least 1; they may be read, too */
};

/* Launches that run several times, one round after the other. */
struct graph_loop {
    uint32_t first, end; /* launches: first to end - 1 */
    uint64_t trips;
    uint32_t condition; /* NONE; or a buffer of i1: there is another round while it is true */
};

struct graph_bundle {
    struct view target, compiler; /* "sm_90"; for people */
    VECTOR(struct graph_kernel) kernels;
    VECTOR(struct graph_buffer)
    buffers; /* buffer i is argument i of the function, for its arguments */
    VECTOR(struct graph_launch) launches; /* in order */
    VECTOR(struct graph_loop) loops; /* by first launch, outer before inner; none crosses another */
    uint32_t
        n_forward; /* launches of the forward pass: the first ones. The others are its derivative */
    VECTOR(uint32_t) operands;
    VECTOR(uint32_t) results; /* buffers */
    uint32_t n_arguments;
    uint64_t arena; /* bytes */
    struct writer constants;
    /* What was compiled: StableHLO, the arguments with gradients, the optimizer. All empty in version 2. */
    struct view module, optimizer;
    VECTOR(uint32_t) gradients;
    bool derives;
    bool failed;
};

/* Returns the bytes of a tensor. */
uint64_t graph_tensor_bytes(const struct tensor *t);

/* Plans the buffers of generated code. Fills *out (graph_bundle_close, also after an error) but for
 * target, compiler, keys and cubins. Errors: TOO_BIG for the arena; NOMEM. */
int graph_bundle_plan(const struct codegen *code, struct graph_bundle *out, struct err *e);
/* Appends the bundle; check writer->failed. */
void graph_bundle_write(const struct graph_bundle *b, struct writer *out);
/* Reads and checks a bundle: each number in it is in range. What its cubins do is not known.
 * Fills *out (graph_bundle_close, also after an error), which borrows the bytes. Errors: MALFORMED,
 * TRUNCATED, CORRUPT, VERSION, NOMEM. */
int graph_bundle_read(const void *data, size_t len, struct graph_bundle *out, struct err *e);
/* Calls `launch` for launches first to end - 1, and again for the rounds of loops. `goes_on` tells the value of a
 * condition; without it such a loop has one round. No loop may cross the range. Stops at the first error of the
 * two, and returns it. Memory: none. */
int graph_bundle_run(const struct graph_bundle *b, uint32_t first, uint32_t end,
                     int (*launch)(void *context, const struct graph_launch *l),
                     int (*goes_on)(void *context, uint32_t buffer, bool *out), void *context);
/* Returns how many launches a run makes, with each round of its loops; `most` if it makes more, or if a loop has a
 * condition. */
uint64_t graph_bundle_count(const struct graph_bundle *b, uint64_t most);
/* Frees what the others filled in. */
void graph_bundle_close(struct graph_bundle *b);

/* True if the bytes begin as a bundle does. */
bool graph_bundle_is(const void *data, size_t len);

/* Finds the registers of a thread and the bytes of shared memory of a block of the cubin's first kernel.
 * False if the cubin does not tell. */
bool graph_cubin_needs(struct view cubin, uint32_t *out_registers, uint64_t *out_shared);

#endif
