/* SPDX-License-Identifier: Apache-2.0 */
/* archive.h - an archive for tests. Thread: the test's own. */
#ifndef WARM_TESTS_SUPPORT_ARCHIVE_H
#define WARM_TESTS_SUPPORT_ARCHIVE_H

#include "keygen/bytes.h"

/* Returns an archive of two entries: "one" is "first", "two" is "2nd". writer_close frees it. */
struct writer archive_of_two(void);
/* Writes the first `len` bytes of an archive into a file, compressed as `warm export` does. */
void archive_write(const char *path, const void *archive, size_t len);

#endif
