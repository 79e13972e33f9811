/* SPDX-License-Identifier: Apache-2.0 */
/* test_room.c - what the store takes of its file system: a part by default, and less if others fill it. */
#include <sys/mount.h>

#include "daemon/process/room.h"
#include "tests/support/warmd.h"

#define MIB (1ull << 20)

Test(room, the_cap_is_what_others_leave_and_at_most_max_size)
{
    cr_expect_eq(room_cap(100 * MIB, 10 * MIB, 20 * MIB, 500 * MIB), 100 * MIB);
    cr_expect_eq(room_cap(100 * MIB, 10 * MIB, 50 * MIB, 30 * MIB), 70 * MIB);
    cr_expect_eq(room_cap(100 * MIB, 10 * MIB, 50 * MIB, 4 * MIB), 44 * MIB, "it shrinks");
    cr_expect_eq(room_cap(100 * MIB, 60 * MIB, 20 * MIB, 0), ROOM_LEAST);
    cr_expect_eq(room_cap(100 * MIB, 0, 20 * MIB, 0), 20 * MIB, "no floor");
}

Test(room, of_a_folder_that_is_not_there_is_that_of_the_nearest_above)
{
    uint64_t total, left, there, unused;
    cr_assert(room_of("/", &there, &unused));
    cr_assert(room_of("/no/such/folder", &total, &left));
    cr_expect_eq(total, there);
    cr_expect_leq(left, total);
}

/* A daemon whose store is on a file system of 64 MiB. */
static struct warmd small_up(char *const *options)
{
    struct warmd k = warmd_new();
    cr_assert_eq(mkdir(k.store, 0700), 0);
    if (mount("warm-test", k.store, "tmpfs", MS_NOSUID | MS_NODEV, "size=64m,mode=700") != 0) {
        warmd_free(&k);
        cr_skip_test("needs the right to mount a tmpfs");
    }
    warmd_start(&k, options);
    return k;
}

static void small_down(struct warmd *k)
{
    kill(k->pid, SIGTERM);
    warmd_reap(k->pid);
    umount2(k->store, MNT_DETACH);
    warmd_free(k);
}

static unsigned long long stat_of(const struct warmd *k, const char *name)
{
    char *stats = warmd_stats(k), *at = strstr(stats, name);
    cr_assert_not_null(at, "%s", stats);
    unsigned long long n = strtoull(at + strlen(name), NULL, 10);
    free(stats);
    return n;
}

Test(room, a_store_has_a_twentieth_of_a_small_file_system)
{
    struct warmd k = small_up(NULL);
    cr_expect_eq(stat_of(&k, "\"max_bytes\": "), 64 * MIB / 20);
    small_down(&k);
}

Test(room, the_store_shrinks_if_others_fill_the_file_system, .timeout = 120)
{
    char *options[] = {"--max-size", "40M", "--min-free", "20M", "--quota", "0", NULL};
    struct warmd k = small_up(options);
    struct warm *w = warmd_libwarm(&k);
    static char value[1 << 20];
    for (unsigned i = 0; i < 30; i++) {
        char name[16];
        memset(value, (int)i + 1, sizeof value);
        snprintf(name, sizeof name, "v%u", i);
        cr_assert_eq(warm_put(w, name, strlen(name), value, sizeof value, NULL), 0);
    }
    cr_assert_geq(stat_of(&k, "\"bytes\": "), 25 * MIB);
    char *filler = path_join(k.store, "of-others");
    int fd = open(filler, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    for (unsigned i = 0; i < 25; i++)
        cr_assert_eq(write(fd, value, sizeof value), (ssize_t)sizeof value);
    uint64_t total = 0, left = 0, give_up = clock_now_ms() + WARMD_WAIT_MS;
    while (room_of(k.store, &total, &left) && left < 20 * MIB && clock_now_ms() < give_up)
        usleep(50000);
    cr_expect_geq(left, 20 * MIB, "%llu left", (unsigned long long)left);
    cr_expect_lt(stat_of(&k, "\"max_bytes\": "), 40 * MIB);
    cr_expect(warmd_log_has(&k, "less than min_free: the store shrinks"));
    cr_assert_eq(ftruncate(fd, 0), 0);
    close(fd);
    while (stat_of(&k, "\"max_bytes\": ") < 40 * MIB && clock_now_ms() < give_up)
        usleep(50000);
    cr_expect_eq(stat_of(&k, "\"max_bytes\": "), 40 * MIB, "and grows again");
    free(filler);
    warm_close(w);
    small_down(&k);
}
