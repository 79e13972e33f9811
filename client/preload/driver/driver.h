/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver.h - makes the JIT compiler of the CUDA driver start warm: links, and with WARM_DRIVER_JIT=1 loads of PTX.
 *
 *     cuModuleLoadData(PTX) ──▶ driver_load ─┬─ a cubin is stored ─────────────▶ load the cubin
 *                                            ├─ ours to make: link, load, keep ─▶ load the cubin
 *                                            └─ anything else ─────────────────▶ load the PTX
 *     cuLinkCreate … AddData … Complete ──▶ driver/link.c
 *
 * A cubin is used if the same driver made it for the same target under the same options. A driver
 * is known by its library's content, a target by the compute capability. The device's name counts
 * too, if the program gets a log or sees devices of several targets. The key has the PTX
 * in canonical form (keygen/cuda/CUDA.md). The driver's own linker makes it, and only if linking
 * has nothing to decide: PTX without external symbols other than dynamic shared memory, without
 * debug sections, loaded with options that mean the same to linker and loader. The results are those
 * of the PTX. The instructions may be slower: ptxas compiles for a linker, as with -c, and knows less
 * of the registers that a kernel may take. So loads are served only with WARM_DRIVER_JIT=1.
 *
 * Thread: any; one at a time for each link. Memory: as each function says.
 */
#ifndef WARM_PRELOAD_DRIVER_DRIVER_H
#define WARM_PRELOAD_DRIVER_DRIVER_H

#include <stdbool.h>
#include <stddef.h>

#include "client/lib/warm.h"
#include "client/preload/driver/api.h"
#include "keygen/bytes.h"
#include "keygen/expect.h"
#include "keygen/key.h"

#pragma GCC visibility push(hidden)

/* The real functions; NULL: the driver lacks it. */
struct driver {
    const void *base; /* where the library is mapped */
    char path[4096];
#define X(field, symbol, parameters) int(*field) parameters;
    DRIVER_LIST(X)
#undef X
};
/* Returns the driver; NULL until a program looked up one of its functions. */
const struct driver *driver_get(void);
/* Returns the driver whose function `name` is `function`, and finds its functions first if it is new. The first
 * driver of a process is the one that is served: NULL for any other. */
const struct driver *driver_of(const char *name, const void *function);

/* Options of the JIT compiler, sorted by their effect on a cubin. */
struct jit_options {
    bool plain; /* all are understood, and none asks for more than a cubin and its log */
    bool verbose, has_target; /* has_target: not for the context's device */
    unsigned n_code;          /* that change the code: register limit, optimization level, … */
    int code[8];
    void *code_values[8];
    /* Buffers for logs; *size is the buffer's size before, and the log's length after. */
    struct {
        char *buffer;
        void **size;
    } info, error;
};
/* Sorts the options of a call. Borrows `values`. */
void jit_options_read(unsigned n, const int *options, void **values, struct jit_options *out);
/* True if the program gets a log. */
bool jit_options_have_log(const struct jit_options *o);
/* Adds the options to a key. */
void jit_options_add(struct key_builder *b, const struct jit_options *o);

/* For whom an image is. */
struct driver_target {
    bool any_device; /* it is for all devices, which must then be of one kind */
    bool has_log;    /* the program gets a log, too */
};
/* Adds driver and target to a key. Writes the target to `out_hardware`. False if they are not known. */
bool driver_add_target(const struct driver *d, struct warm *w, struct driver_target who,
                       struct key_builder *b, char *out_hardware, size_t cap);

/* Finds the PTX in a fat binary that holds nothing else, and the compute capability that it
 * needs. */
bool driver_fat_ptx(const void *image, struct view *out, unsigned *out_cc);

/* True if a fat binary holds a PTX, compressed or not. */
bool driver_fat_has_ptx(const void *image);

/* Loads that the driver alone serves. */
enum unserved { UNSERVED_FAT, UNSERVED_OPTIONS, UNSERVED_FILE, UNSERVED_LIBRARY_FILE };
/* Tells `warm why` of one, once for each kind. */
void driver_tell_unserved(enum unserved what);

/* One load. jit.c tries it with the program's image or with a stored cubin. */
struct load {
    int (*load)(const struct load *l, const void *image);
    void **out;
    unsigned n;
    int *options;
    void **values;
    bool any_device;
};
/* Loads `image`, PTX or anything else. Returns the driver's result. */
int driver_load(const struct driver *d, const struct load *l, const void *image);

/* Leaves all links of this process to the driver from now on: the program has functions that work on a link
 * without us. */
void driver_leave_links(void);
/* Stands in for cuLinkCreate. */
int driver_link_create(unsigned n, int *options, void **values, struct cu_link **link);
/* Stands in for cuLinkAddData. */
int driver_link_add_data(struct cu_link *link, int type, void *data, size_t len, const char *name,
                         unsigned n, int *options, void **values);
/* Stands in for cuLinkAddFile. */
int driver_link_add_file(struct cu_link *link, int type, const char *path, unsigned n, int *options,
                         void **values);
/* Stands in for cuLinkComplete. */
int driver_link_complete(struct cu_link *link, void **cubin, size_t *len);
/* Stands in for cuLinkDestroy. */
int driver_link_destroy(struct cu_link *link);

#pragma GCC visibility pop

#endif
