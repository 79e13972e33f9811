/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_budgets.c - a user who takes all that he can get, and another who must not notice: memory,
 * descriptors, connections, turns of the loop. Needs root, to be both.
 */
#include <dirent.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "tests/support/warmd.h"

enum { GREEDY = 12345, OTHER = 23456, VALUE = 64 << 10, BLOB = 70000, KEYS = 4096 };

#define MIB (1l << 20)

/* A connection of another user: the kernel takes the effective user at connect. */
static int connect_as(const struct warmd *k, uid_t uid)
{
    cr_assert_eq(seteuid(uid), 0);
    int fd = warmd_try_connect(k->socket);
    cr_assert_eq(seteuid(0), 0);
    cr_assert_geq(fd, 0);
    return fd;
}

static int native_as(const struct warmd *k, uid_t uid)
{
    int fd = connect_as(k, uid);
    warmd_hello(fd);
    return fd;
}

static long resident(pid_t pid)
{
    char path[64];
    long pages = 0;
    snprintf(path, sizeof path, "/proc/%ld/statm", (long)pid);
    FILE *f = fopen(path, "re");
    cr_assert_not_null(f);
    cr_assert_eq(fscanf(f, "%*d %ld", &pages), 1);
    fclose(f);
    return pages * sysconf(_SC_PAGESIZE);
}

static unsigned descriptors_of(pid_t pid)
{
    char path[64];
    unsigned n = 0;
    snprintf(path, sizeof path, "/proc/%ld/fd", (long)pid);
    DIR *d = opendir(path);
    cr_assert_not_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n - 2;
}

static int memfd_with(const void *data, size_t len)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    cr_assert_geq(fd, 0);
    if (data)
        cr_assert_eq(write(fd, data, len), (ssize_t)len);
    else
        cr_assert_eq(ftruncate(fd, (off_t)len), 0);
    cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE), 0);
    return fd;
}

/* A PUT whose value is in `memfd`, or, if that is -1, in `value`. Not answered yet. */
static void send_put(int fd, uint64_t tag, const char *name, int memfd, const void *value,
                     uint64_t len, const struct key *check)
{
    struct writer w;
    struct wire_put put = {.space = WIRE_SPACE_NAME, .len = len, .key = {name, strlen(name)}};
    if (memfd < 0)
        put.value = (struct view){value, len};
    if (check)
        put.check = *check;
    writer_init(&w, 0);
    wire_put_put(&w, tag, &put);
    warmd_send_fds(fd, w.data, w.len, &memfd, memfd >= 0);
    writer_close(&w);
}

static void put_memfd(int fd, uint64_t tag, const char *name, const void *value, size_t len)
{
    int memfd = memfd_with(value, len);
    send_put(fd, tag, name, memfd, NULL, len, NULL);
    close(memfd);
    warmd_expect(fd, tag, WIRE_OK);
}

static void send_mget(int fd, uint64_t tag, const char *name, uint32_t n)
{
    struct writer w, keys;
    writer_init(&w, 0);
    writer_init(&keys, 0);
    for (uint32_t i = 0; i < n; i++)
        wire_keys_add(&keys, WIRE_SPACE_NAME, name, strlen(name));
    wire_put_mget(&w, tag, &(struct wire_mget){.n = n, .keys = {keys.data, keys.len}});
    warmd_flush(fd, &w);
    writer_close(&keys);
    writer_close(&w);
}

/* The same over RESP. */
static void send_redis_mget(int fd, char name, unsigned n)
{
    char head[64], one[16];
    struct writer w;
    writer_init(&w, 0);
    writer_bytes(&w, head, (size_t)snprintf(head, sizeof head, "*%u\r\n$4\r\nMGET\r\n", n + 1));
    size_t len = (size_t)snprintf(one, sizeof one, "$1\r\n%c\r\n", name);
    for (unsigned i = 0; i < n; i++)
        writer_bytes(&w, one, len);
    warmd_flush(fd, &w);
    writer_close(&w);
}

static char *some_bytes(size_t len)
{
    char *bytes = malloc(len);
    for (size_t i = 0; i < len; i++)
        bytes[i] = (char)(i * 31 + i / 251);
    return bytes;
}

/* How long a request takes that needs nothing but a turn of the loop. */
static uint64_t ping_ms(int redis)
{
    uint64_t began = clock_now_ms();
    warmd_redis(redis, "PING\r\n", "+PONG\r\n");
    return clock_now_ms() - began;
}

/* The longest of many pings within so long. */
static uint64_t worst_ping_ms(int redis, uint64_t for_ms)
{
    uint64_t worst = 0;
    for (uint64_t end = clock_now_ms() + for_ms; clock_now_ms() < end; usleep(500)) {
        uint64_t ms = ping_ms(redis);
        worst = ms > worst ? ms : worst;
    }
    return worst;
}

/* ---- answers that nobody reads ---- */

Test(budgets, unread_answers_take_a_bounded_memory_and_give_it_back)
{
    NEEDS_TWO_USERS();
    enum { N = 12 };
    struct warmd k = warmd_up(NULL);
    char *value = some_bytes(VALUE);
    int fds[N], seed = native_as(&k, GREEDY), other = connect_as(&k, OTHER);
    send_put(seed, 1, "v", -1, value, VALUE, NULL);
    warmd_expect(seed, 1, WIRE_OK);
    long before = resident(k.pid);
    for (int i = 0; i < N; i++) {
        fds[i] = i % 2 ? connect_as(&k, GREEDY) : native_as(&k, GREEDY);
        if (i % 2)
            send_redis_mget(fds[i], 'v', KEYS - 1);
        else
            send_mget(fds[i], 2, "v", KEYS);
    }
    cr_expect_lt(worst_ping_ms(other, 1000), 250, "the loop served one user for long");
    long during = resident(k.pid);
    cr_assert_lt(during - before, 48 * MIB, "%d connections that do not read: %ld MiB more", N,
                 (during - before) / MIB);
    for (int i = 0; i < N; i++)
        close(fds[i]);
    for (int i = 0; i < 3000 && resident(k.pid) - before > 16 * MIB; i++)
        usleep(10000);
    cr_assert_leq(resident(k.pid) - before, 16 * MIB, "memory stays after its connections ended");
    free(value);
    close(seed);
    close(other);
    warmd_down(&k);
}

/* One user's many connections are held to one budget; another's are not. */
Test(budgets, the_memory_of_unread_answers_is_one_users_not_one_connections)
{
    NEEDS_TWO_USERS();
    enum { N = 300 };
    struct warmd k = warmd_up(NULL);
    char *value = some_bytes(VALUE);
    static int fds[N];
    int seed = native_as(&k, GREEDY), other = native_as(&k, OTHER);
    send_put(seed, 1, "v", -1, value, VALUE, NULL);
    warmd_expect(seed, 1, WIRE_OK);
    long before = resident(k.pid);
    for (int i = 0; i < N; i++) {
        fds[i] = connect_as(&k, GREEDY);
        send_redis_mget(fds[i], 'v', 40);
    }
    warmd_put(other, 1, "mine", "value", 0);
    warmd_expect(other, 1, WIRE_OK);
    usleep(300000);
    long during = resident(k.pid);
    cr_log_info("%ld MiB more", (during - before) / MIB);
    cr_assert_lt(during - before, 160 * MIB, "%ld MiB", (during - before) / MIB);
    warmd_get(other, 2, "mine", false, 0);
    warmd_expect_hit(other, 2, "value");
    for (int i = 0; i < N; i++)
        close(fds[i]);
    for (uint64_t tag = 3;; tag++) { /* when they are gone the user is served again */
        static struct warmd_frame f;
        int again = native_as(&k, GREEDY);
        cr_assert_lt(tag, 100);
        warmd_get(again, tag, "v", false, 0);
        bool good = warmd_frame_try(again, &f) && f.frame.type == WIRE_HIT;
        close(again);
        if (good)
            break;
    }
    free(value);
    close(seed);
    close(other);
    warmd_down(&k);
}

Test(budgets, an_answer_of_many_values_comes_whole_however_slowly_it_is_read)
{
    enum { N = 400 };
    struct warmd k = warmd_up(NULL);
    char *value = some_bytes(VALUE), *got = malloc(VALUE + 2);
    static struct warmd_frame f;
    struct wire_hit hit;
    int fd = warmd_native(&k), redis = warmd_connect(&k);
    send_put(fd, 1, "v", -1, value, VALUE, NULL);
    warmd_expect(fd, 1, WIRE_OK);
    send_mget(fd, 100, "v", N);
    send_redis_mget(redis, 'v', N);
    warmd_send(redis, "PING\r\n", 6);
    for (unsigned i = 0; i < N; i++) {
        warmd_frame(fd, &f, WIRE_HIT, 100 + i);
        cr_assert_eq(wire_get_hit(&f.frame, &hit, NULL), 0);
        cr_assert_eq(hit.value.len, VALUE);
        cr_assert_eq(memcmp(hit.value.data, value, VALUE), 0);
    }
    warmd_redis(redis, "", "*400\r\n");
    for (unsigned i = 0; i < N; i++) {
        warmd_redis(redis, "", "$65536\r\n");
        cr_assert(warmd_recv(redis, got, VALUE + 2));
        cr_assert_eq(memcmp(got, value, VALUE), 0);
    }
    warmd_redis(redis, "", "+PONG\r\n");
    free(value);
    free(got);
    close(fd);
    close(redis);
    warmd_down(&k);
}

/* ---- descriptors ---- */

Test(budgets, unread_descriptors_are_bounded_and_others_still_get_in)
{
    NEEDS_TWO_USERS();
    enum { N = 6 };
    struct warmd k = warmd_up(NULL);
    char *value = some_bytes(BLOB);
    int fds[N], seed = native_as(&k, GREEDY);
    put_memfd(seed, 1, "b", value, BLOB);
    unsigned before = descriptors_of(k.pid);
    for (int i = 0; i < N; i++)
        fds[i] = i % 2 ? connect_as(&k, GREEDY) : native_as(&k, GREEDY);
    for (int i = 0; i < N; i++) {
        if (i % 2)
            send_redis_mget(fds[i], 'b', KEYS - 1);
        else
            send_mget(fds[i], 2, "b", KEYS);
    }
    usleep(300000);
    unsigned during = descriptors_of(k.pid);
    cr_assert_lt(during - before, 300, "%u descriptors more", during - before);
    int other = native_as(&k, OTHER);
    put_memfd(other, 1, "mine", value, BLOB);
    for (int i = 1; i < N; i++)
        close(fds[i]);
    for (unsigned i = 0; i < KEYS; i++) /* and they are all there for who reads */
        warmd_expect(fds[0], 2 + i, WIRE_HIT);
    close(fds[0]);
    free(value);
    close(seed);
    close(other);
    warmd_down(&k);
}

/* One process of a user reads nothing; the user's others have to wait until it is closed, no longer. */
Test(budgets, a_connection_that_reads_nothing_holds_up_its_users_others_for_seconds_at_most)
{
    struct warmd k = warmd_up(NULL);
    char *value = some_bytes(BLOB);
    int greedy = warmd_native(&k), same = warmd_native(&k);
    put_memfd(same, 1, "b", value, BLOB);
    send_mget(greedy, 2, "b", KEYS);
    usleep(50000);
    uint64_t began = clock_now_ms();
    warmd_get(same, 2, "b", false, 0);
    warmd_expect(same, 2, WIRE_HIT);
    cr_assert_lt(clock_now_ms() - began, 10000);
    free(value);
    close(greedy);
    close(same);
    warmd_down(&k);
}

/* What a client does with the descriptor that it was given is nobody else's: O_DIRECT, which makes
 * reads of odd lengths fail, the offset, locks. */
Test(budgets, a_descriptor_shares_nothing_with_that_of_another_receiver)
{
    struct warmd k = warmd_up(NULL);
    char *value = some_bytes(BLOB), *got = malloc(BLOB);
    static struct warmd_frame a, b;
    int one = warmd_native(&k), two = warmd_native(&k);
    put_memfd(one, 1, "b", value, BLOB);
    warmd_get(one, 2, "b", false, 0);
    warmd_frame(one, &a, WIRE_HIT, 2);
    cr_assert_geq(a.fd, 0);
    fcntl(a.fd, F_SETFL, fcntl(a.fd, F_GETFL) | O_DIRECT);
    cr_assert_eq(lseek(a.fd, 777, SEEK_SET), 777);
    warmd_get(two, 2, "b", false, 0);
    warmd_frame(two, &b, WIRE_HIT, 2);
    cr_assert_geq(b.fd, 0);
    cr_assert_not(fcntl(b.fd, F_GETFL) & O_DIRECT);
    cr_assert_eq(fcntl(b.fd, F_GETFL) & O_ACCMODE, O_RDONLY);
    cr_assert_eq(lseek(b.fd, 0, SEEK_CUR), 0, "they share an offset");
    cr_assert_eq(pread(b.fd, got, BLOB, 0), BLOB);
    cr_assert_eq(memcmp(got, value, BLOB), 0);
    close(a.fd);
    close(b.fd);
    close(one);
    close(two);
    free(value);
    free(got);
    warmd_down(&k);
}

/* ---- values that are put ---- */

/* Every byte of it is a hole: it costs its client nothing. */
Test(budgets, a_memfd_of_holes_is_refused_and_never_read_on_the_loop)
{
    NEEDS_TWO_USERS();
    enum { N = 3 };
    struct warmd k = warmd_up(NULL);
    int greedy = native_as(&k, GREEDY), other = connect_as(&k, OTHER);
    long before = resident(k.pid);
    for (uint64_t i = 0; i < N; i++) {
        int memfd = memfd_with(NULL, 1u << 30);
        send_put(greedy, i + 1, "holes", memfd, NULL, 1u << 30, NULL);
        close(memfd);
    }
    cr_expect_lt(worst_ping_ms(other, 500), 100, "the loop read a client's holes");
    for (uint64_t i = 0; i < N; i++)
        warmd_expect(greedy, i + 1, WIRE_ERROR);
    cr_assert_lt(resident(k.pid) - before, 16 * MIB);
    close(greedy);
    close(other);
    warmd_down(&k);
}

Test(budgets, a_value_above_max_value_is_refused)
{
    char *options[] = {"--max-value", "1M", NULL};
    struct warmd k = warmd_up(options);
    size_t len = (1u << 20) + 1;
    char *value = some_bytes(len);
    int fd = warmd_native(&k), memfd = memfd_with(value, len);
    send_put(fd, 1, "large", memfd, NULL, len, NULL);
    warmd_expect(fd, 1, WIRE_ERROR);
    send_put(fd, 2, "less", memfd, NULL, len - 1, NULL);
    warmd_expect(fd, 2, WIRE_OK);
    close(memfd);
    close(fd);
    free(value);
    warmd_down(&k);
}

/* A large value that its client gives no digest of is hashed while it is copied: nobody waits for
 * that but those who wait for the value. */
Test(budgets, a_large_put_holds_up_neither_the_loop_nor_the_put_of_another_user)
{
    NEEDS_TWO_USERS();
    enum { N = 4, LEN = 128 << 20 };
    struct warmd k = warmd_up(NULL);
    char *value = malloc(LEN);
    int greedy = native_as(&k, GREEDY), other = native_as(&k, OTHER), ping = connect_as(&k, OTHER);
    memset(value, 'g', LEN);
    for (uint64_t i = 0; i < N; i++) {
        memcpy(value, &i, sizeof i);
        int memfd = memfd_with(value, LEN);
        char name[16];
        snprintf(name, sizeof name, "large%d", (int)i);
        send_put(greedy, i + 1, name, memfd, NULL, LEN, NULL);
        close(memfd);
    }
    uint64_t began = clock_now_ms();
    put_memfd(other, 1, "mine", value, BLOB);
    uint64_t took = clock_now_ms() - began;
    cr_expect_lt(worst_ping_ms(ping, 300), 100);
    for (uint64_t i = 0; i < N; i++)
        warmd_expect(greedy, i + 1, WIRE_OK);
    uint64_t all = clock_now_ms() - began;
    cr_log_info("70 KB put behind 512 MiB of another user: %lu ms; that took %lu ms",
                (unsigned long)took, (unsigned long)all);
    cr_assert_lt(took, all / 3, "it waited for what another user puts: %lu of %lu ms",
                 (unsigned long)took, (unsigned long)all);
    close(greedy);
    close(other);
    close(ping);
    free(value);
    warmd_down(&k);
}

/* Waiters get the right value, though it came without a digest. */
Test(budgets, a_value_of_unknown_digest_reaches_those_who_wait_with_its_digest)
{
    struct warmd k = warmd_up(NULL);
    char *value = some_bytes(BLOB);
    struct key check = key_of_bytes(value, BLOB);
    static struct warmd_frame f;
    struct wire_hit hit;
    struct writer w;
    int maker = warmd_native(&k), waiter = warmd_native(&k), memfd = memfd_with(value, BLOB);
    warmd_get(maker, 1, "n", true, 0);
    uint64_t token = warmd_expect_lease(maker, 1);
    warmd_get(waiter, 1, "n", true, 10000);
    warmd_expect(waiter, 1, WIRE_WAIT);
    writer_init(&w, 0);
    wire_put_put(
        &w, 2,
        &(struct wire_put){.space = WIRE_SPACE_NAME, .token = token, .len = BLOB, .key = {"n", 1}});
    warmd_send_fds(maker, w.data, w.len, &memfd, 1);
    warmd_expect(maker, 2, WIRE_OK);
    warmd_frame(waiter, &f, WIRE_HIT, 1);
    cr_assert_eq(wire_get_hit(&f.frame, &hit, NULL), 0);
    cr_assert(key_equal(&hit.check, &check));
    close(f.fd);
    writer_close(&w);
    close(memfd);
    close(maker);
    close(waiter);
    free(value);
    warmd_down(&k);
}

/* What its client says of a value is compared where it is copied; nothing is kept of what is not so,
 * and the next one has the turn. */
Test(budgets, a_value_that_is_not_what_its_client_says_is_not_kept)
{
    struct warmd k = warmd_up(NULL);
    char *value = some_bytes(BLOB);
    struct key wrong = key_of_bytes("other", 5);
    int fd = warmd_native(&k), memfd = memfd_with(value, BLOB);
    send_put(fd, 1, "n", memfd, NULL, BLOB, &wrong);
    warmd_expect(fd, 1, WIRE_ERROR);
    warmd_get(fd, 2, "n", false, 0);
    warmd_expect(fd, 2, WIRE_MISS);
    close(memfd);
    close(fd);
    free(value);
    warmd_down(&k);
}

/* A daemon that has just started verifies a large value before it serves it. */
Test(budgets, a_user_whose_large_values_are_verified_denies_nobody_theirs)
{
    NEEDS_TWO_USERS();
    enum { LARGE = 96 << 20, MINE = 2 << 20, N = 400 };
    static struct warmd_frame f;
    struct warmd k = warmd_up(NULL);
    char *value = some_bytes(LARGE);
    int greedy = native_as(&k, GREEDY), other = native_as(&k, OTHER);
    put_memfd(greedy, 1, "large", value, LARGE);
    put_memfd(other, 1, "mine", value, MINE);
    close(greedy);
    close(other);
    kill(k.pid, SIGTERM);
    warmd_reap(k.pid);
    warmd_start(&k, NULL);
    greedy = native_as(&k, GREEDY);
    other = native_as(&k, OTHER);
    send_mget(greedy, 1, "large", N);
    warmd_frame(greedy, &f, WIRE_WAIT, 1);
    warmd_get(other, 1, "mine", false, 0);
    warmd_frame(other, &f, WIRE_WAIT, 1);
    warmd_frame(other, &f, WIRE_HIT, 1);
    close(f.fd);
    close(greedy);
    close(other);
    free(value);
    warmd_down(&k);
}

/* ---- connections ---- */

/* Idle connections make room, first those of the user with the most. */
Test(budgets, idle_connections_of_the_largest_user_go_first)
{
    NEEDS_TWO_USERS();
    enum { MAX = 64 };
    char *options[] = {"--max-connections", "64", NULL};
    struct warmd k = warmd_up(options);
    int greedy[MAX], other[MAX];
    warmd_put(native_as(&k, GREEDY), 1, "x", "y", 0);
    for (int i = 0; i < MAX; i++)
        greedy[i] = i % 2 && i < MAX / 2 ? native_as(&k, GREEDY) : connect_as(&k, GREEDY);
    for (int i = 0; i < MAX / 2 - 8; i++)
        other[i] = native_as(&k, OTHER); /* each is answered, at once */
    int busy = native_as(&k, OTHER);
    warmd_get(busy, 1, "n", true, 0);
    warmd_expect_lease(busy, 1);
    for (int i = 0; i < MAX / 2 - 8; i++) {
        warmd_put(other[i], 2, "k", "v", 0);
        warmd_expect(other[i], 2, WIRE_OK);
        close(other[i]);
    }
    for (int i = 0; i < MAX; i++)
        close(greedy[i]);
    close(busy);
    warmd_down(&k);
}

/* If no connection is idle, the last places are for users who have none. */
Test(budgets, a_user_without_connections_gets_in_beside_a_busy_crowd)
{
    NEEDS_TWO_USERS();
    enum { MAX = 64 };
    char *options[] = {"--max-connections", "64", NULL};
    struct warmd k = warmd_up(options);
    int greedy[MAX];
    unsigned in = 0;
    for (; in < MAX - MAX / 8; in++) {
        char name[16];
        greedy[in] = native_as(&k, GREEDY);
        snprintf(name, sizeof name, "lease%u", in);
        warmd_get(greedy[in], 1, name, true, 0);
        warmd_expect_lease(greedy[in], 1);
    }
    int waits = connect_as(&k, GREEDY);
    warmd_send(waits, "PING\r\n", 6);
    int other = native_as(&k, OTHER);
    warmd_put(other, 1, "k", "v", 0);
    warmd_expect(other, 1, WIRE_OK);
    cr_assert(warmd_is_silent(waits, 50), "the last places are for others");
    close(greedy[0]);
    close(greedy[1]);
    warmd_redis(waits, "", "+PONG\r\n");
    for (unsigned i = 2; i < in; i++)
        close(greedy[i]);
    close(waits);
    close(other);
    warmd_down(&k);
}

/* ---- statistics ---- */

static void stats_of(int fd, char *out, size_t cap)
{
    static struct warmd_frame f;
    struct wire_text text;
    struct writer w;
    writer_init(&w, 0);
    wire_put_empty(&w, WIRE_STATS, 7);
    warmd_flush(fd, &w);
    writer_close(&w);
    warmd_frame(fd, &f, WIRE_TEXT, 7);
    cr_assert_eq(wire_get_text(&f.frame, &text, NULL), 0);
    snprintf(out, cap, "%.*s", (int)text.text.len, (const char *)text.text.data);
}

Test(budgets, an_administrator_sees_each_users_use_and_a_user_his_own)
{
    NEEDS_TWO_USERS();
    static char text[64 << 10];
    struct warmd k = warmd_up(NULL);
    int greedy = native_as(&k, GREEDY), other = native_as(&k, OTHER), root = warmd_admin(&k);
    warmd_put(greedy, 1, "x", "y", 0);
    warmd_expect(greedy, 1, WIRE_OK);
    stats_of(root, text, sizeof text);
    cr_assert_not_null(strstr(text, "\"12345\": {\"connections\": {\"used\": 1, \"limit\": 1024, "
                                    "\"unit\": \"connections\"}"),
                       "%s", text);
    cr_assert_not_null(strstr(text, "\"23456\": {\"connections\""));
    cr_assert_not_null(strstr(text, "\"limit\": 5368709100, \"unit\": \"bytes\""),
                       "the quota, half of 10 GiB: %s", text);
    stats_of(other, text, sizeof text);
    cr_assert_null(strstr(text, "\"12345\""));
    cr_assert_not_null(strstr(text, "\"23456\""));
    close(greedy);
    close(other);
    close(root);
    warmd_down(&k);
}

/* ---- room in the store ---- */

static uint64_t pin(int fd, uint64_t tag, const char *name, bool *out_refused)
{
    static struct warmd_frame f;
    struct wire_report report = {0};
    struct writer w, keys;
    writer_init(&w, 0);
    writer_init(&keys, 0);
    wire_keys_add(&keys, WIRE_SPACE_NAME, name, strlen(name));
    wire_put_pin(&w, tag, &(struct wire_pin){.pinned = 1, .n = 1, .keys = {keys.data, keys.len}});
    warmd_flush(fd, &w);
    writer_close(&keys);
    writer_close(&w);
    cr_assert(warmd_frame_try(fd, &f));
    *out_refused = f.frame.type == WIRE_ERROR;
    if (!*out_refused)
        cr_assert_eq(wire_get_report(&f.frame, &report, NULL), 0);
    return report.n_entries;
}

/* One user puts and pins all that is taken of it; another's few entries are there afterwards. */
Test(budgets, a_user_who_fills_and_pins_the_store_leaves_room_for_another)
{
    NEEDS_TWO_USERS();
    enum { FEW = 20, LEN = 30000 };
    char *options[] = {"--max-size", "16M", NULL}, name[16];
    char *value = some_bytes(VALUE);
    struct warmd k = warmd_up(options);
    int greedy = native_as(&k, GREEDY), other = native_as(&k, OTHER);
    unsigned pinned = 0, refused = 0;
    for (uint64_t i = 0; i < 400; i++) {
        bool is_refused;
        memcpy(value, &i, sizeof i);
        snprintf(name, sizeof name, "a%u", (unsigned)i);
        send_put(greedy, 2 * i + 1, name, -1, value, VALUE, NULL);
        warmd_expect(greedy, 2 * i + 1, WIRE_OK);
        pinned += pin(greedy, 2 * i + 2, name, &is_refused) > 0;
        refused += is_refused;
        if (i < FEW) {
            send_put(other, i + 1, name, -1, value, LEN, NULL);
            warmd_expect(other, i + 1, WIRE_OK);
        }
    }
    cr_assert_leq(pinned * VALUE, 4 * MIB, "half of the quota, which is half of the store");
    cr_assert_gt(refused, 300);
    for (uint64_t i = 0; i < FEW; i++) {
        snprintf(name, sizeof name, "a%u", (unsigned)i);
        warmd_get(other, 100 + i, name, false, 0);
        warmd_expect(other, 100 + i, WIRE_HIT);
    }
    close(greedy);
    close(other);
    free(value);
    warmd_down(&k);
}
