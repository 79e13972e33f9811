/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.c - the device's memory, which is the host's: $FAKECUDA_MEMORY bytes of it. An address that is not of an
 * allocation is an error, as on a GPU; new memory is full of numbers that are none.
 *
 * Thread: any, under one lock.
 */
#include <pthread.h>

#include "tests/fakecuda/driver/driver.h"

static pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;
static struct block {
    struct block *next;
    uintptr_t at;
    size_t len;
} * blocks;
static size_t allocated;

static size_t memory_size(void)
{
    return strtoul(setting("FAKECUDA_MEMORY", "1073741824"), NULL, 10);
}

static bool memory_is_ours(unsigned long long at, size_t len)
{
    pthread_mutex_lock(&memory_lock);
    const struct block *b = blocks;
    while (b && !(at >= b->at && at - b->at <= b->len && len <= b->len - (at - b->at)))
        b = b->next;
    pthread_mutex_unlock(&memory_lock);
    return b;
}

static int allocate(unsigned long long *out, size_t len)
{
    void *at = NULL;
    struct block *b = malloc(sizeof *b);
    pthread_mutex_lock(&memory_lock);
    int code = len == 0                                   ? CU_INVALID_VALUE
               : len > memory_size() - allocated          ? OUT_OF_MEMORY
               : posix_memalign(&at, 256, len) != 0 || !b ? OUT_OF_MEMORY
                                                          : CU_SUCCESS;
    if (code == CU_SUCCESS) {
        memset(at, 0xFF, len);
        *b = (struct block){blocks, (uintptr_t)at, len};
        blocks = b;
        allocated += len;
        *out = b->at;
    } else {
        free(b);
    }
    pthread_mutex_unlock(&memory_lock);
    return code;
}

static int release(unsigned long long address)
{
    struct block *found = NULL;
    pthread_mutex_lock(&memory_lock);
    for (struct block **at = &blocks; *at && !found; at = *at ? &(*at)->next : at)
        if ((*at)->at == address) {
            found = *at;
            *at = found->next;
            allocated -= found->len;
            free((void *)found->at);
        }
    pthread_mutex_unlock(&memory_lock);
    free(found);
    return found ? CU_SUCCESS : CU_INVALID_VALUE;
}

CALL(cuMemGetInfo_v2, ".cZZ", (size_t * free_bytes, size_t *all_bytes), free_bytes, all_bytes)
{
    *all_bytes = memory_size();
    *free_bytes = *all_bytes - allocated;
    return CU_SUCCESS;
}

CALL(cuMemAlloc_v2, ".cHz", (unsigned long long *out, size_t len), out, len)
{
    return allocate(out, len);
}

CALL(cuMemFree_v2, ".cx", (unsigned long long address), address) { return release(address); }

CALL(cuMemAllocAsync, ".cHzh", (unsigned long long *out, size_t len, void *stream), out, len,
     stream)
{
    (void)stream;
    return allocate(out, len);
}

CALL(cuMemFreeAsync, ".cxh", (unsigned long long address, void *stream), address, stream)
{
    (void)stream;
    return release(address);
}

CALL(cuMemHostAlloc, ".cpzu", (void **out, size_t len, unsigned flags), out, len, flags)
{
    (void)flags;
    *out = calloc(1, len);
    return *out ? CU_SUCCESS : OUT_OF_MEMORY;
}

CALL(cuMemAllocHost_v2, ".cpz", (void **out, size_t len), out, len)
{
    return made_cuMemHostAlloc(out, len, 0);
}

CALL(cuMemFreeHost, ".cp", (void *at), at)
{
    free(at);
    return CU_SUCCESS;
}

CALL(cuPointerGetAttribute, ".cpih", (void *out, int attribute, unsigned long long address), out,
     attribute, address)
{
    enum { OF_CONTEXT = 1, MEMORY_TYPE = 2, DEVICE_POINTER = 3, DEVICE_ORDINAL = 9, ON_DEVICE = 2 };
    if (!memory_is_ours(address, 1))
        return CU_INVALID_VALUE;
    if (attribute == OF_CONTEXT)
        *(void **)out = context_current();
    else if (attribute == MEMORY_TYPE)
        *(unsigned *)out = ON_DEVICE;
    else if (attribute == DEVICE_POINTER)
        *(unsigned long long *)out = address;
    else if (attribute == DEVICE_ORDINAL)
        *(int *)out = context_current()->device;
    else
        return NOT_SUPPORTED;
    return CU_SUCCESS;
}

/* ---- copies ---- */

CALL(cuMemcpyHtoD_v2, ".chdl", (unsigned long long to, const void *from, size_t len), to, from, len)
{
    if (!memory_is_ours(to, len))
        return CU_INVALID_VALUE;
    memcpy((void *)(uintptr_t)to, from, len);
    return CU_SUCCESS;
}

CALL(cuMemcpyDtoH_v2, ".cDhl", (void *to, unsigned long long from, size_t len), to, from, len)
{
    if (!memory_is_ours(from, len))
        return CU_INVALID_VALUE;
    memcpy(to, (void *)(uintptr_t)from, len);
    return CU_SUCCESS;
}

CALL(cuMemcpyHtoDAsync_v2, ".chdlh",
     (unsigned long long to, const void *from, size_t len, void *stream), to, from, len, stream)
{
    (void)stream;
    return made_cuMemcpyHtoD_v2(to, from, len);
}

CALL(cuMemcpyDtoHAsync_v2, ".cDhlh", (void *to, unsigned long long from, size_t len, void *stream),
     to, from, len, stream)
{
    (void)stream;
    return made_cuMemcpyDtoH_v2(to, from, len);
}

static int fill(unsigned long long at, const void *value, size_t size, size_t n)
{
    if (at % size)
        return CU_INVALID_VALUE;
    if (!memory_is_ours(at, n * size))
        return CU_INVALID_VALUE;
    for (size_t i = 0; i < n; i++)
        memcpy((char *)(uintptr_t)at + i * size, value, size);
    return CU_SUCCESS;
}

CALL(cuMemsetD8Async, ".chuzh",
     (unsigned long long at, unsigned char value, size_t n, void *stream), at, value, n, stream)
{
    (void)stream;
    return fill(at, &value, sizeof value, n);
}

CALL(cuMemsetD32Async, ".chuzh", (unsigned long long at, unsigned value, size_t n, void *stream),
     at, value, n, stream)
{
    (void)stream;
    return fill(at, &value, sizeof value, n);
}

CALL(cuMemsetD8_v2, ".chuz", (unsigned long long at, unsigned char value, size_t n), at, value, n)
{
    return fill(at, &value, sizeof value, n);
}

CALL(cuMemsetD32_v2, ".chuz", (unsigned long long at, unsigned value, size_t n), at, value, n)
{
    return fill(at, &value, sizeof value, n);
}

/* ---- descriptors of tensors ---- */

CALL(cuTensorMapEncodeTiled, ".cpiuhppppiiii",
     (void *out, int type, unsigned rank, unsigned long long address, const void *sizes,
      const void *strides, const void *box, const void *element_strides, int interleave,
      int swizzle, int promotion, int fill_mode),
     out, type, rank, address, sizes, strides, box, element_strides, interleave, swizzle, promotion,
     fill_mode)
{
    enum { ALIGNMENT_OF_TENSOR = 16, MAP_BYTES = 128, RANK_MAX = 5 };
    (void)type, (void)sizes, (void)strides, (void)box, (void)element_strides, (void)interleave;
    (void)swizzle, (void)promotion, (void)fill_mode;
    if (!rank || rank > RANK_MAX || address % ALIGNMENT_OF_TENSOR)
        return CU_INVALID_VALUE;
    memset(out, 0, MAP_BYTES); /* no kernel reads it */
    return CU_SUCCESS;
}
