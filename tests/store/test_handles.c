/* SPDX-License-Identifier: Apache-2.0 */
/* test_handles.c - open descriptors of blobs: which are kept, and when one is closed. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "store/handles.h"

static struct blob_id blob(unsigned n)
{
    struct blob_id id = {.owner = 1};
    memcpy(id.content.bytes, &n, sizeof n);
    return id;
}

static int new_fd(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    cr_assert_geq(fd, 0);
    return fd;
}

static bool is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }

static struct handle *add(struct handles *h, unsigned n)
{
    struct blob_id id = blob(n);
    return handles_add(h, &id, new_fd(), &(struct blob_state){.size = n});
}

static struct handle *find(struct handles *h, unsigned n)
{
    struct blob_id id = blob(n);
    return handles_find(h, &id);
}

Test(handles, the_least_recently_used_one_makes_room)
{
    static struct handles h;
    handles_init(&h);
    cr_assert_null(find(&h, 0));
    for (unsigned n = 0; n < HANDLES_MAX; n++)
        add(&h, n);
    cr_assert_not_null(find(&h, 0), "used again");
    int fd_1 = find(&h, 1)->fd;
    for (unsigned n = 2; n < HANDLES_MAX; n++)
        find(&h, n);
    find(&h, 0);
    add(&h, HANDLES_MAX);
    cr_expect_null(find(&h, 1));
    cr_expect(!is_open(fd_1));
    cr_expect_not_null(find(&h, 0));
    cr_expect_eq(find(&h, HANDLES_MAX)->state.size, HANDLES_MAX);
    handles_close(&h);
}

Test(handles, a_descriptor_that_was_given_out_lives_until_the_turn_ends)
{
    static struct handles h;
    handles_init(&h);
    struct handle *given = add(&h, 1), *kept = add(&h, 2);
    int fd = given->fd, other = kept->fd;
    cr_assert(handles_give(&h, given));
    struct blob_id id = blob(1), id_2 = blob(2);
    handles_drop(&h, &id);
    handles_drop(&h, &id_2);
    cr_expect_null(find(&h, 1));
    cr_expect(is_open(fd), "its reader may be at work");
    cr_expect(!is_open(other), "nobody has it");
    handles_turn_end(&h);
    cr_expect(!is_open(fd));
    handles_close(&h);
}

Test(handles, the_same_blob_again_replaces_its_descriptor)
{
    static struct handles h;
    handles_init(&h);
    int old = add(&h, 1)->fd;
    struct handle *again = add(&h, 1);
    cr_expect_neq(again->fd, old);
    cr_expect(!is_open(old));
    cr_expect(find(&h, 1) == again);
    handles_close(&h);
    cr_expect_null(find(&h, 1));
}

Test(handles, many_given_and_dropped_in_one_turn_are_all_closed)
{
    static struct handles h;
    static int fds[3 * HANDLES_MAX];
    handles_init(&h);
    for (unsigned n = 0; n < 3 * HANDLES_MAX; n++) {
        struct handle *handle = add(&h, n);
        fds[n] = handle->fd;
        cr_assert(handles_give(&h, handle));
    }
    for (unsigned n = 0; n < 3 * HANDLES_MAX; n++)
        cr_assert(is_open(fds[n]));
    handles_close(&h);
    for (unsigned n = 0; n < 3 * HANDLES_MAX; n++)
        cr_assert(!is_open(fds[n]));
}
