/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handles.c - the objects that programs hold. A handle that was destroyed, or that is none, is an error and no
 * crash. Its memory is never used again: in the log, an address names one object for ever.
 *
 * Thread: any, under one lock.
 */
#include <pthread.h>

#include "tests/fakecuda/driver/driver.h"

static pthread_mutex_t handles_lock = PTHREAD_MUTEX_INITIALIZER;
static struct handle *handles;

static void *handle_new(enum kind kind, size_t size)
{
    struct handle *h = calloc(1, size);
    h->kind = kind;
    pthread_mutex_lock(&handles_lock);
    h->next = handles;
    handles = h;
    pthread_mutex_unlock(&handles_lock);
    return h;
}

static void *handle_of(const void *handle, enum kind kind)
{
    pthread_mutex_lock(&handles_lock);
    struct handle *h = handles;
    while (h && h != handle)
        h = h->next;
    pthread_mutex_unlock(&handles_lock);
    return h && h->kind == kind && !h->is_gone ? h : NULL;
}

static void handle_end(void *handle) { ((struct handle *)handle)->is_gone = true; }
