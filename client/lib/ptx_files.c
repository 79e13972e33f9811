/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ptx_files.c - looks at every text between two quotes as if it were a file's name: so comments, line breaks and quotes
 * in odd places hide none. PTX has few quotes.
 *
 * Thread: any; no state.
 */
#include "client/lib/ptx_files.h"

#include <assert.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

static void add_file(struct key_builder *key, uint32_t tag, uint64_t at, const char *name,
                     size_t len)
{
    char path[PATH_MAX];
    struct stat st;
    if (len == 0 || len >= sizeof path)
        return;
    memcpy(path, name, len);
    path[len] = '\0';
    if (stat(path, &st))
        return;
    key_add_u64(key, tag, at);
    key_add_u64(key, tag, (uint64_t)st.st_size);
    key_add_u64(key, tag, (uint64_t)st.st_mtim.tv_sec);
}

void ptx_files_add(struct key_builder *key, uint32_t tag, const void *ptx, size_t len)
{
    assert(key && (ptx || !len));
    const char *text = ptx, *end = text + len, *open = NULL, *quote;
    if (!len || !memmem(text, len, ".file", 5))
        return;
    for (const char *at = text; (quote = memchr(at, '"', (size_t)(end - at))); at = quote + 1) {
        if (open)
            add_file(key, tag, (uint64_t)(open - text), open + 1, (size_t)(quote - open - 1));
        open = quote;
    }
}
