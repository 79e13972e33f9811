/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver.h - a GPU of this machine, through the CUDA driver API.
 *
 *     driver_load ──▶ module ──driver_function──▶ function ──driver_launch──▶ the stream
 *     driver_capture_begin, launches and copies, driver_capture_end ──▶ recording ──driver_replay──▶ the stream
 *
 * libcuda.so.1 is opened when it is asked for, so everything builds and starts without it. Work goes on one
 * stream, in order: the driver's own, or the one of driver_enter. A fault of a kernel is the error of a later call:
 * driver_wait at the latest. The context is the GPU's primary one, which the frameworks use, too.
 *
 * Terms
 *   recording   launches and copies that were captured once; CUDA calls it a graph
 *
 * Errors name the call and CUDA's error: "cuMemAlloc: out of memory (CUDA_ERROR_OUT_OF_MEMORY)".
 *
 * Thread: the one that has entered it. Memory: modules, memory and recordings are the caller's, until the driver
 * closes. Device memory is a number, its address; 0 is none.
 */
#ifndef WARM_KERNELS_EXEC_DRIVER_H
#define WARM_KERNELS_EXEC_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keygen/bytes.h"
#include "keygen/err.h"

struct driver;

/* Opens the driver, device number `gpu` and a stream, and enters it. UNSUPPORTED, with the reason, if there is no
 * driver, no device or a driver too old; INVALID for the number; IO if the driver fails otherwise; NOMEM. */
int driver_open(int gpu, struct driver **out, struct err *e);
/* Leaves it and frees everything; NULL is fine. */
void driver_close(struct driver *d);

/* Has the calling thread use the GPU, with this stream, until driver_leave: then the thread has the context that it
 * had before, and the stream is the driver's own again. */
int driver_enter(struct driver *d, void *stream, struct err *e);
/* Ends that. */
void driver_leave(struct driver *d);

/* Returns the device's name, "NVIDIA H100 80GB HBM3"; it lives as long as the driver. */
const char *driver_name(const struct driver *d);
/* Returns the device's own target, "sm_90"; it lives as long as the driver. */
const char *driver_arch(const struct driver *d);

/* True if a device of this target may run code that was made for `target`: one of the same major number and no
 * larger minor one; sm_90a runs on sm_90 alone (CUDA C++ Programming Guide, "Binary Compatibility"). Devices of
 * Tegra are pickier: there driver_load has the last word. */
bool driver_can_run(const char *arch, struct view target);

/* Loads a cubin. Borrows the bytes during the call. UNSUPPORTED if it is for another architecture, MALFORMED
 * if it is no whole cubin. */
int driver_load(struct driver *d, const void *cubin, size_t len, void **out_module, struct err *e);
/* Unloads a module; NULL is fine. */
void driver_unload(struct driver *d, void *module);
/* Finds a kernel of a module; it lives as long as the module. NOT_FOUND. */
int driver_function(struct driver *d, void *module, const char *name, void **out, struct err *e);

/* Allocates bytes of device memory, aligned to 256 bytes. NOMEM, also if the device has not so many. */
int driver_alloc(struct driver *d, size_t bytes, uint64_t *out, struct err *e);
/* Frees device memory; 0 is fine. */
void driver_free(struct driver *d, uint64_t address);

/* Puts a copy on the stream, between addresses of the device, of the host, or both. One from or to memory of the host
 * that CUDA did not allocate has happened when the call returns. */
int driver_copy(struct driver *d, uint64_t to, uint64_t from, size_t bytes, struct err *e);
/* Copies to the device, and waits until that is done. */
int driver_write(struct driver *d, uint64_t to, const void *from, size_t bytes, struct err *e);
/* Copies from the device behind all that is on the stream, and waits for it. */
int driver_read(struct driver *d, void *to, uint64_t from, size_t bytes, struct err *e);

/* Blocks of a grid, or threads of a block. */
struct driver_dims {
    unsigned x, y;
};
/* Puts a kernel on the stream. args[i] points to its argument i and is read during the call. */
int driver_launch(struct driver *d, void *function, struct driver_dims grid,
                  struct driver_dims block, void **args, struct err *e);
/* Waits for the stream. */
int driver_wait(struct driver *d, struct err *e);

/* Waits for all streams of the GPU. */
int driver_wait_for_all(struct driver *d, struct err *e);

/* Begins to record launches and copies, which do not run. */
int driver_capture_begin(struct driver *d, struct err *e);
/* Ends it. Gives *out (driver_recording_free). */
int driver_capture_end(struct driver *d, void **out, struct err *e);
/* Puts a recording on the stream. */
int driver_replay(struct driver *d, void *recording, struct err *e);
/* Frees a recording; NULL is fine. */
void driver_recording_free(struct driver *d, void *recording);

#endif
