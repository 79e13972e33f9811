/* SPDX-License-Identifier: Apache-2.0 */
/*
 * refused_images.c - a ring of digests of images that programs got; refused_images.h has the
 * picture. The stand-ins for NVRTC, nvJitLink and the driver call it.
 *
 * A refused image may be anything, also shorter than a remembered one. It is read through the
 * kernel, which returns an error if a load from memory would fault.
 *
 * Thread: any: a thread claims a slot with BUSY before it fills or reads it.
 */
#include "client/preload/refused_images.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/lib/environment.h"
#include "client/lib/request.h"
#include "client/preload/connection_pool.h"
#include "client/preload/leased_entry.h"
#include "client/preload/preload.h"
#include "keygen/expect.h"

#define HEAD 64u /* first bytes, which tell most images apart: the file header of a cubin */

enum slot_state { EMPTY, BUSY, THERE };

struct image {
    struct key head, whole; /* of its bytes */
    size_t len;
    unsigned sm;
    struct key entry, check; /* under which the store has the value, and the value's own */
};

static struct slot {
    _Atomic int state;
    struct image image;
} slots[REFUSED_IMAGES_MAX];

static _Atomic unsigned next_slot;

unsigned refused_images_target(const char *const *options, size_t n)
{
    unsigned sm = 0;
    for (size_t i = 0; i < n; i++) {
        const char *at = strstr(options[i], "sm_");
        if (at)
            sm = (unsigned)strtoul(at + strlen("sm_"), NULL, 10);
    }
    return sm;
}

void refused_images_remember(const void *data, size_t len, unsigned sm, const struct warm_value *v)
{
    if (!WARM_EXPECT(data || len == 0) || !environment_is_set("WARM_DRIVER_JIT"))
        return; /* no load of the program comes here */
    struct image image = {.len = len, .sm = sm};
    if (len < HEAD || !key_from_text(v->key, strlen(v->key), &image.entry))
        return;
    image.head = key_of_bytes(data, HEAD);
    image.whole = key_of_bytes(data, len);
    image.check = key_of_bytes(v->data, v->len);
    struct slot *s = &slots[atomic_fetch_add(&next_slot, 1) % REFUSED_IMAGES_MAX];
    if (atomic_exchange(&s->state, BUSY) == BUSY)
        return; /* another thread is one round of the ring ahead and fills it: forget this image */
    s->image = image;
    atomic_store(&s->state, THERE);
}

/* ---- refused ---- */

static bool read_memory(const void *from, void *to, size_t len)
{
    int fd = memfd_create("warm-image", MFD_CLOEXEC);
    bool whole =
        fd >= 0 && write(fd, from, len) == (ssize_t)len && pread(fd, to, len, 0) == (ssize_t)len;
    if (fd >= 0)
        close(fd);
    return whole;
}

/* True if the image is for another major version, or for a newer device. */
static bool is_for_another_device(const struct image *i, unsigned cc)
{
    return i->sm && cc && (i->sm / 10 != cc / 10 || i->sm > cc);
}

static bool is_this(const struct image *i, const void *image)
{
    void *copy = malloc(i->len);
    bool same = false;
    if (copy && read_memory(image, copy, i->len)) {
        struct key whole = key_of_bytes(copy, i->len);
        same = key_equal(&whole, &i->whole);
    }
    free(copy);
    return same;
}

/* Copies the slot's image and empties the slot. False, and the slot stays, if it holds another
 * image. */
static bool take(struct slot *s, const struct key *head, const void *image, struct image *out)
{
    int there = THERE;
    if (!atomic_compare_exchange_strong(&s->state, &there, BUSY))
        return false;
    bool same = key_equal(&s->image.head, head) && is_this(&s->image, image);
    (void)WARM_EXPECT(s->image.len >= HEAD);
    *out = s->image;
    atomic_store(&s->state, same ? EMPTY : THERE);
    return same;
}

static void tell(const struct image *i)
{
    struct warm *w = leased_entry_may_put() ? connection_pool_borrow() : NULL;
    if (!w)
        return;
    request_tell_refused(w, &i->entry, &i->check);
    connection_pool_return(w);
}

void refused_images_report(const void *image, unsigned cc)
{
    uint8_t bytes[HEAD];
    struct image found;
    if (atomic_load(&next_slot) == 0 || !read_memory(image, bytes, sizeof bytes))
        return;
    struct key head = key_of_bytes(bytes, sizeof bytes);
    for (size_t i = 0; i < REFUSED_IMAGES_MAX; i++)
        if (take(&slots[i], &head, image, &found) && !is_for_another_device(&found, cc))
            tell(&found);
}
