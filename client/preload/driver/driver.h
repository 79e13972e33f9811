/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver.h - the CUDA driver of a process, and what its JIT compiler made before.
 *
 *     cuModuleLoadData(PTX) ──▶ driver_load ─┬─ a cubin is kept ───────────────▶ load the cubin
 *                                            ├─ ours to make: link, load, keep ─▶ load the cubin
 *                                            └─ anything else ─────────────────▶ load the PTX
 *     cuLinkCreate … AddData … Complete ──▶ driver/link.c
 *
 * Only what the same driver (its library by content) made for the same device (compute capability
 * and name) under the same options is used. Of PTX, canonical (keygen/cuda/CUDA.md), a cubin is made
 * through the driver's own linker, and only where linking has nothing to decide: PTX without
 * external symbols other than dynamic shared memory, without debug sections, loaded with options
 * that the linker takes as the loader does. Then the instructions are the same compiler's for the
 * same text, and loading the cubin gives what loading the PTX gives.
 *
 * Thread: any; a link belongs to one at a time. Memory: as said.
 */
#ifndef WARM_PRELOAD_DRIVER_DRIVER_H
#define WARM_PRELOAD_DRIVER_DRIVER_H

#include <stdbool.h>

#include "client/lib/warm.h"
#include "client/preload/driver/api.h"
#include "keygen/bytes.h"
#include "keygen/key.h"

#pragma GCC visibility push(hidden)

/* The real functions; NULL where the driver lacks one. */
struct driver {
    const void *base; /* where the library is mapped */
    char path[4096];
#define X(field, symbol, parameters) int(*field) parameters;
    DRIVER_LIST(X)
#undef X
};
/* NULL until a name of the driver was looked up. */
const struct driver *driver_get(void);

/* Options of the JIT compiler, sorted by what they mean for a cubin. */
struct jit_options {
    bool plain; /* all of them are understood, and none asks for more than a cubin and its log */
    bool verbose, has_target; /* has_target: not for the context's device */
    unsigned n_code;          /* that change the code: register limit, optimization level, … */
    int code[8];
    void *code_values[8];
    /* Where logs go: buffers, their sizes, and where the number of bytes is to be written. */
    struct {
        char *buffer;
        void **size;
    } info, error;
};
void jit_options_read(unsigned n, const int *options, void **values, struct jit_options *out);
void jit_options_add(struct key_builder *b, const struct jit_options *o);

/* Adds driver and device to a key; `any_device` where an image is loaded for all devices, which
 * then must be of one kind. Gives the device's arch and name in `out_hardware`. False: unknown. */
bool driver_add_target(const struct driver *d, struct warm *w, bool any_device,
                       struct key_builder *b, char *out_hardware, size_t cap);
/* Adds the canonical form of PTX; false if it must not be kept. */
bool driver_add_ptx(struct key_builder *b, struct view ptx, bool exact);

/* The PTX in a fat binary that holds nothing else, and the compute capability that it needs. */
bool driver_fat_ptx(const void *image, struct view *out, unsigned *out_cc);

/* One load of an image, to be tried with the program's or with ours. */
struct load {
    int (*load)(const struct load *l, const void *image);
    void **out;
    unsigned n;
    int *options;
    void **values;
    bool any_device;
};
/* Loads `image`, PTX or anything else. Returns what the driver does. */
int driver_load(const struct driver *d, const struct load *l, const void *image);

/* The program's own links: stand-ins for the functions of these names. */
int driver_link_create(unsigned n, int *options, void **values, struct cu_link **link);
int driver_link_add_data(struct cu_link *link, int type, void *data, size_t len, const char *name,
                         unsigned n, int *options, void **values);
int driver_link_add_file(struct cu_link *link, int type, const char *path, unsigned n, int *options,
                         void **values);
int driver_link_complete(struct cu_link *link, void **cubin, size_t *len);
int driver_link_destroy(struct cu_link *link);

#pragma GCC visibility pop

#endif
