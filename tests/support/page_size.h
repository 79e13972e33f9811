/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page_size.h - the pages of another kernel: with WARM_TEST_PAGE=16384 in the environment, LMDB makes its
 * files as on a kernel with pages of 16 KiB. It asks sysconf, which page_size.c stands in for.
 */
#ifndef WARM_TESTS_SUPPORT_PAGE_SIZE_H
#define WARM_TESTS_SUPPORT_PAGE_SIZE_H

#include <stddef.h>

#define PAGE_BYTES_MAX 32768u /* LMDB takes no larger pages */

/* Returns the page size of the files that LMDB makes now. */
size_t page_bytes(void);

#endif
