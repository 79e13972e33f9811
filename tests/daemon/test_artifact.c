/* SPDX-License-Identifier: Apache-2.0 */
/* test_artifact.c - values that clients pass in memfds: which are taken, and who owns the descriptor. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/wire/memfd.h"
#include "daemon/service/artifact.h"
#include "tests/support/warmd.h"

#define LONG (ARTIFACT_INLINE_MAX + 5000u)
#define ALL_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

TestSuite(artifact, .timeout = 120);

static struct err e;

static uint8_t *some_bytes(size_t len)
{
    uint8_t *bytes = malloc(len);
    cr_assert_not_null(bytes);
    for (size_t i = 0; i < len; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 251);
    return bytes;
}

static int sealed(size_t len)
{
    uint8_t *bytes = some_bytes(len);
    int fd = memfd_sealed("test", bytes, len, &e);
    cr_assert(fd >= 0, "%s", e.text);
    free(bytes);
    return fd;
}

/* Makes a memfd of `len` bytes, of which the first `n` were written, with these seals. */
static int memfd_with(size_t len, size_t n, int seals)
{
    uint8_t *bytes = some_bytes(n ? n : 1);
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    cr_assert_eq(ftruncate(fd, (off_t)len), 0);
    cr_assert_eq(pwrite(fd, bytes, n, 0), (ssize_t)n);
    cr_assert(seals == 0 || fcntl(fd, F_ADD_SEALS, seals) == 0);
    free(bytes);
    return fd;
}

/* Closing takes a thread: waits until it is done. */
static void expect_closed(int fd)
{
    uint64_t end = clock_now_ms() + WARMD_WAIT_MS;
    while (fcntl(fd, F_GETFD) >= 0 && clock_now_ms() < end)
        poll(NULL, 0, 1);
    cr_expect(fcntl(fd, F_GETFD) < 0 && errno == EBADF, "%d was left open", fd);
}

/* ---- what a client may pass ---- */

Test(artifact, only_a_sealed_memfd_is_taken)
{
    static const int missing[] = {F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE};
    int ends[2], fd = sealed(1000);
    cr_expect_eq(memfd_check(fd, 1000, &e), 0, "%s", e.text);
    cr_expect_eq(memfd_check(fd, 999, &e), 0, "a longer one is no fault");
    cr_expect_eq(memfd_check(fd, 1001, &e), WARM_ETRUNCATED);
    close(fd);
    for (size_t i = 0; i < 3; i++) {
        fd = memfd_with(1000, 1000, ALL_SEALS & ~missing[i]);
        cr_expect_eq(memfd_check(fd, 1000, &e), WARM_EINVALID, "seal %d", missing[i]);
        close(fd);
    }
    cr_assert_eq(pipe(ends), 0);
    cr_expect_eq(memfd_check(ends[0], 0, &e), WARM_EINVALID);
    close(ends[0]), close(ends[1]);
    fd = open("/dev/null", O_RDONLY);
    cr_expect_eq(memfd_check(fd, 0, &e), WARM_EINVALID);
    close(fd);
}

Test(artifact, a_large_memfd_of_holes_is_refused)
{
    size_t len = 16u << 20;
    int empty = memfd_with(len, 4096, ALL_SEALS), full = memfd_with(len, len / 2 + 4096, ALL_SEALS);
    int small = memfd_with(1u << 20, 0, ALL_SEALS);
    cr_expect_eq(memfd_check(empty, len, &e), WARM_EINVALID, "it costs its client nothing");
    cr_expect_eq(memfd_check(full, len, &e), 0, "%s", e.text);
    cr_expect_eq(memfd_check(small, 1u << 20, &e), 0, "%s", e.text);
    close(empty), close(full), close(small);
}

/* ---- whose descriptor it is ---- */

Test(artifact, a_short_value_is_in_memory_and_its_descriptor_closed)
{
    struct artifact *a;
    int fd = sealed(1000);
    uint8_t *bytes = some_bytes(1000);
    struct key want = key_of_bytes(bytes, 1000);
    cr_assert_eq(artifact_from_fd(fd, 1000, NULL, &a, &e), 0, "%s", e.text);
    expect_closed(fd);
    cr_expect_eq(a->fd, -1);
    cr_expect_eq(a->len, 1000);
    cr_expect_arr_eq(a->data, bytes, 1000);
    cr_expect(a->hashed && key_equal(&a->check, &want), "known without a pool thread");
    artifact_unref(a);
    free(bytes);
}

Test(artifact, bytes_whose_digest_is_known_are_not_hashed_again)
{
    uint8_t *bytes = some_bytes(1000);
    struct key known = {{1, 2, 3}}, right = key_of_bytes(bytes, 1000);
    struct artifact *a = artifact_from_known(bytes, 1000, &known);
    cr_assert(a && a->hashed && key_equal(&a->check, &known));
    cr_expect(a->data != bytes && a->len == 1000);
    cr_expect_arr_eq(a->data, bytes, 1000);
    artifact_unref(a);
    a = artifact_from_bytes(bytes, 1000);
    cr_assert(a && a->hashed && key_equal(&a->check, &right));
    artifact_unref(a);
    free(bytes);
}

Test(artifact, the_descriptor_is_taken_on_failure_too)
{
    struct artifact *a = NULL;
    int fd = sealed(1000);
    cr_expect_eq(artifact_from_fd(fd, 1001, NULL, &a, &e), WARM_ETRUNCATED);
    cr_expect_null(a);
    expect_closed(fd);
}

Test(artifact, a_long_value_keeps_its_descriptor_until_the_last_reference)
{
    struct artifact *a;
    int fd = sealed(LONG);
    uint8_t *bytes = some_bytes(LONG);
    struct key want = key_of_bytes(bytes, LONG);
    cr_assert_eq(artifact_from_fd(fd, LONG, NULL, &a, &e), 0, "%s", e.text);
    cr_expect(!a->data && a->fd == fd && !a->hashed);
    cr_assert_eq(artifact_hash(a, &e), 0, "%s", e.text);
    cr_expect(a->hashed && key_equal(&a->check, &want));
    cr_expect(artifact_ref(a) == a);
    artifact_unref(a);
    cr_expect(fcntl(fd, F_GETFD) >= 0);
    artifact_unref(a);
    expect_closed(fd);
    artifact_unref(NULL);
    free(bytes);
}

Test(artifact, a_value_that_lost_its_end_has_no_hash)
{
    struct artifact *a;
    int fd = memfd_with(LONG, LONG, 0);
    cr_assert_eq(artifact_from_fd(fd, LONG, NULL, &a, &e), 0);
    cr_assert_eq(ftruncate(fd, LONG - 1), 0);
    cr_expect_eq(artifact_hash(a, &e), WARM_ETRUNCATED);
    cr_expect(!a->hashed);
    artifact_unref(a);
}

Test(artifact, an_empty_value_is_one)
{
    struct artifact *a = artifact_from_bytes("", 0);
    struct key want = key_of_bytes("", 0);
    cr_assert_not_null(a);
    cr_expect(a->len == 0 && a->data && key_equal(&a->check, &want));
    artifact_unref(a);
}

/* ---- files ---- */

Test(artifact, a_file_that_is_opened_again_shares_no_offset_and_no_right_to_write)
{
    int fd, again;
    char bytes[6] = "", other[6] = "";
    cr_assert_eq(memfd_from_bytes("hello", 5, &fd, &e), 0, "%s", e.text);
    again = fd_reopen(fd);
    cr_assert(again >= 0);
    cr_expect_eq(read(fd, bytes, 3), 3);
    cr_expect_eq(read(again, other, 5), 5);
    cr_expect_str_eq(other, "hello", "from its start");
    cr_expect(write(again, "x", 1) < 0 && errno == EBADF);
    cr_expect(fcntl(again, F_GETFD) & FD_CLOEXEC);
    close(fd);
    cr_expect(fd_reopen(fd) < 0);
    close(again);
}

Test(artifact, a_file_is_read_whole_or_not_at_all)
{
    int fd;
    char bytes[6] = "";
    cr_assert_eq(memfd_from_bytes("hello", 5, &fd, &e), 0, "%s", e.text);
    cr_expect_eq(file_read_at(fd, bytes, 3, 2, &e), 0);
    cr_expect_str_eq(bytes, "llo");
    cr_expect_eq(file_read_start(fd, bytes, 6, &e), WARM_ETRUNCATED);
    cr_expect_eq(file_read_at(fd, bytes, 1, 5, &e), WARM_ETRUNCATED);
    close(fd);
    cr_expect_eq(file_read_start(fd, bytes, 1, &e), WARM_EIO);
}
