/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device.h - what a check of a kernel needs of the machine that runs it: memory and launches.
 *
 * gpu.c makes one of a GPU; the tests make one of the CPU, so that the same checks run on the
 * same sources where there is no GPU.
 *
 * Thread: one thread uses a device at a time. Memory: a device is embedded in what implements it.
 */
#ifndef WARM_TESTS_DEMO_DEVICE_H
#define WARM_TESTS_DEMO_DEVICE_H

#include "keygen/err.h"

#include <stddef.h>
#include <stdint.h>

/* Blocks of a grid, or threads of a block. */
struct dims {
    unsigned x, y;
};

struct device {
    /* Gives the address of `len` bytes of device memory, aligned for any type. */
    int (*alloc)(struct device *device, size_t len, uint64_t *out_address, struct err *err);
    /* Takes back what alloc gave; 0 is fine. */
    void (*release)(struct device *device, uint64_t address);
    /* Copies `len` bytes to and from device memory; both wait until that is done. */
    int (*write)(struct device *device, uint64_t to, const void *from, size_t len, struct err *err);
    int (*read)(struct device *device, void *to, uint64_t from, size_t len, struct err *err);
    /* Runs a kernel of the loaded module and waits for its end. args[i] points to the kernel's
     * i-th argument; pointers are passed as the uint64_t that alloc gave. */
    int (*launch)(struct device *device, const char *kernel, struct dims grid, struct dims block,
                  void **args, struct err *err);
};

#endif
