/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libraries.h - which loaded libraries give PyTorch's dispatcher operators or kernels. client/python/warm/_dispatcher.py
 * uses it.
 *
 * Thread: the caller holds the interpreter's lock. Memory: what is known of each library stays.
 */
#ifndef WARM_LIBRARIES_H
#define WARM_LIBRARIES_H

/* Returns how many libraries this process has loaded so far. */
unsigned long long libraries_loaded(void);
/* Returns 1 if a loaded library that is not below the folder `own` has or needs one of the names of functions that
 * register; 0 if none; -1 without memory. `own` and the n parts of mangled names, `signs`, are the same at each call. */
int libraries_register(const char *own, const char *const *signs, int n);

#endif
