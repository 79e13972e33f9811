/* SPDX-License-Identifier: Apache-2.0 */
/*
 * refused_images.h - what the driver thinks of the images that programs got from the cache.
 *
 *     getters: a cubin or PTX of an entry is handed out ──▶ refused_images_remember: remembered by its bytes
 *     the driver refuses to load an image ──▶ refused_images_report: one of those? the daemon puts its
 *                                             entry aside, and who asks next has it compiled anew
 *
 * The program gets the driver's error as it would without us. Remembered are the last REFUSED_IMAGES_MAX.
 * An image that is for another kind of device than the program's is refused too, and for no fault of
 * its own: `sm` tells.
 *
 * Thread: any, no lock; across fork the child has what its parent had. Memory: static, copies only
 * digests.
 */
#ifndef WARM_PRELOAD_REFUSED_IMAGES_H
#define WARM_PRELOAD_REFUSED_IMAGES_H

#include "client/lib/warm.h"

#pragma GCC visibility push(hidden)

enum { REFUSED_IMAGES_MAX = 1024 };

/* The target that options ask for: 90 for -arch=sm_90a; 0: none, or a virtual one. */
unsigned refused_images_target(const char *const *options, size_t n);

/* The program is given `data`, a part of the entry with value `v`; compiled for sm_`sm`, 0: unknown. */
void refused_images_remember(const void *data, size_t len, unsigned sm, const struct warm_value *v);

/* The driver refused `image`, of a length that only it knows, on a device of compute capability `cc`
 * (90 for 9.0; 0: unknown). */
void refused_images_report(const void *image, unsigned cc);

#pragma GCC visibility pop

#endif
