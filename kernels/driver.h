/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver.h - the first GPU of this machine, through the CUDA driver API.
 *
 * libcuda.so.1 is opened when it is asked for, so everything builds and starts without it.
 *
 * Thread: a driver is used by the thread that opened it. Memory: a driver owns its context and its
 * module; what was allocated on the device goes with the context.
 */
#ifndef WARM_KERNELS_DRIVER_H
#define WARM_KERNELS_DRIVER_H

#include "kernels/device.h"

struct driver;

/* Opens the driver and its first device. WARM_EUNSUPPORTED, with the reason, where there is no
 * driver, no device or a driver too old; WARM_EIO if the driver fails otherwise. */
int driver_open(struct driver **out, struct err *err);
/* Frees everything; NULL is fine. */
void driver_close(struct driver *driver);

/* Returns the device's name, "NVIDIA H100 80GB HBM3"; it lives as long as the driver. */
const char *driver_name(const struct driver *driver);
/* Returns the device's own target, "sm_90"; it lives as long as the driver. */
const char *driver_arch(const struct driver *driver);

/* Loads a cubin in place of the one loaded before; borrows the bytes during the call.
 * WARM_EUNSUPPORTED if it was compiled for another architecture, WARM_EMALFORMED if it is no whole
 * cubin. */
int driver_load(struct driver *driver, const void *cubin, size_t len, struct err *err);

/* Returns the device, for launches of the loaded module's kernels. It lives as long as the
 * driver. */
struct device *driver_device(struct driver *driver);

#endif
