/* SPDX-License-Identifier: Apache-2.0 */
/*
 * refused_images.h - reports images from the cache that the driver refuses to load, if WARM_DRIVER_JIT=1.
 *
 *     a getter hands out a cubin or PTX of an entry ──▶ refused_images_remember: its digest
 *     the driver refuses to load an image ──▶ refused_images_report: if it is one of those, the
 *                                             daemon sets its entry aside, and compiles it again
 *
 * The program gets the driver's error as it would without us. The last REFUSED_IMAGES_MAX images
 * are remembered. The driver rightly refuses an image for another kind of device: `sm` tells those
 * apart.
 *
 * Thread: any, no lock; a child of fork inherits its parent's list. Memory: static, only digests.
 */
#ifndef WARM_PRELOAD_REFUSED_IMAGES_H
#define WARM_PRELOAD_REFUSED_IMAGES_H

#include "client/lib/warm.h"

#pragma GCC visibility push(hidden)

enum { REFUSED_IMAGES_MAX = 1024 };

/* Returns the target that options ask for: 90 for -arch=sm_90a; 0: none, or a virtual one. */
unsigned refused_images_target(const char *const *options, size_t n);

/* Remembers `data`, which the program gets: a part of the value `v`, compiled for sm_`sm` (0:
 * unknown).
 */
void refused_images_remember(const void *data, size_t len, unsigned sm, const struct warm_value *v);

/* Tells the daemon that the driver refused `image`, if it came from the cache. Only the driver
 * knows its length. `cc`: the device's compute capability, 90 for 9.0; 0: unknown. */
void refused_images_report(const void *image, unsigned cc);

#pragma GCC visibility pop

#endif
