/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcurl.c - decides which libcurl is used, and says in one line why none can be. transfer.c calls it for its pools.
 *
 * Thread: loop thread.
 */
#include "tier/backends/libcurl.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static struct libcurl libcurl;

/* Finds every function of the list. Returns the name of one that is missing, or NULL. */
static const char *find_functions(void *library)
{
#define LIBCURL_ROW(name) {"curl_" #name, offsetof(struct libcurl, name)},
    static const struct {
        const char *name;
        size_t offset;
    } rows[] = {LIBCURL_LIST(LIBCURL_ROW)};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *function = dlsym(library, rows[i].name);
        if (!function)
            return rows[i].name;
        memcpy((char *)&libcurl + rows[i].offset, &function, sizeof function);
    }
    return NULL;
}

const struct libcurl *libcurl_load(char *why, size_t why_size)
{
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};
    static bool is_loaded;
    void *library = NULL;
    const char *missing;
    if (is_loaded)
        return &libcurl;
    for (size_t i = 0; !library && i < sizeof names / sizeof *names; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        snprintf(why, why_size,
                 "s3://, http:// and https:// need libcurl.so.4: install libcurl4 (Debian, Ubuntu) "
                 "or libcurl");
    else if ((missing = find_functions(library)))
        snprintf(why, why_size, "libcurl.so.4 has no %s: install libcurl 7.65 or newer", missing);
    else if (libcurl.global_init(CURL_GLOBAL_ALL) != CURLE_OK)
        snprintf(why, why_size, "libcurl.so.4 does not start");
    else
        is_loaded = true;
    return is_loaded ? &libcurl : NULL;
}
