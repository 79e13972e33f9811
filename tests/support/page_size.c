/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/page_size.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

long __sysconf(int name); /* glibc's own, under its other name */

static long page_of_test(void)
{
    const char *page = getenv("WARM_TEST_PAGE");
    return page ? atol(page) : __sysconf(_SC_PAGESIZE);
}

/* Replaces the C library's, and answers LMDB alone with another page size: the memory of this program has
 * the pages that it has. ThreadSanitizer calls it before it can record calls. */
__attribute__((no_sanitize("thread"))) long sysconf(int name)
{
    Dl_info caller;
    if (name == _SC_PAGESIZE && getenv("WARM_TEST_PAGE") &&
        dladdr(__builtin_return_address(0), &caller) && strstr(caller.dli_fname, "lmdb"))
        return page_of_test();
    return __sysconf(name);
}

size_t page_bytes(void)
{
    size_t page = (size_t)page_of_test();
    return page < PAGE_BYTES_MAX ? page : PAGE_BYTES_MAX;
}
