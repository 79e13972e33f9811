/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcurl.h - the functions of libcurl, which is loaded when a backend over HTTP is made.
 *
 * So one build serves systems with libcurl and without. Versions from 7.65 on do. An option that the loaded version
 * does not know is left out.
 *
 * Thread: loop thread. Memory: the library stays loaded.
 */
#ifndef WARM_TIER_BACKENDS_LIBCURL_H
#define WARM_TIER_BACKENDS_LIBCURL_H

#include <stdbool.h>
#include <stddef.h>

#define CURL_DISABLE_TYPECHECK 1 /* its macros would stand in for the functions below */
#include <curl/curl.h>

#define LIBCURL_LIST(X)                                                                            \
    X(global_init)                                                                                 \
    X(getdate)                                                                                     \
    X(slist_append)                                                                                \
    X(slist_free_all)                                                                              \
    X(easy_init)                                                                                   \
    X(easy_setopt)                                                                                 \
    X(easy_getinfo)                                                                                \
    X(easy_strerror)                                                                               \
    X(easy_cleanup)                                                                                \
    X(multi_init)                                                                                  \
    X(multi_setopt)                                                                                \
    X(multi_add_handle)                                                                            \
    X(multi_remove_handle)                                                                         \
    X(multi_socket_action)                                                                         \
    X(multi_assign)                                                                                \
    X(multi_info_read)                                                                             \
    X(multi_cleanup)

#define LIBCURL_MEMBER(name) __typeof__(curl_##name) *name;
struct libcurl {
    LIBCURL_LIST(LIBCURL_MEMBER)
};

/* Loads the library, once. Returns NULL and one line in `why` if there is none that can be used. */
const struct libcurl *libcurl_load(char *why, size_t why_size);

#endif
