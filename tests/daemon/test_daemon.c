/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_daemon.c - warmd on both wires: requests, garbage, halves of messages, and crowds of connections.
 */
#include <sys/mman.h>
#include <sys/resource.h>

#include "tests/support/warmd.h"

/* ---- the native wire ---- */

Test(daemon, answers_pipelined_requests_behind_hello_in_one_write)
{
    struct warmd k = warmd_up(NULL);
    int fd = warmd_connect(&k);
    struct writer w;
    static struct warmd_frame f;
    writer_init(&w, 0);
    wire_put_hello(&w, 1, &(struct wire_hello){.version_min = 1, .version_max = 9});
    for (uint64_t tag = 2; tag < 200; tag++)
        wire_put_get(&w, tag, &(struct wire_get){.key = {"x", 1}});
    wire_put_empty(&w, WIRE_STATS, 200);
    warmd_flush(fd, &w);
    writer_close(&w);
    warmd_frame(fd, &f, WIRE_WELCOME, 1);
    for (uint64_t tag = 2; tag < 200; tag++)
        warmd_expect(fd, tag, WIRE_MISS);
    warmd_expect(fd, 200, WIRE_TEXT);
    close(fd);
    warmd_down(&k);
}

Test(daemon, a_put_is_there_for_get_show_list_and_mget_until_it_is_removed)
{
    struct warmd k = warmd_up(NULL);
    int fd = warmd_native(&k);
    struct writer w, keys;
    static struct warmd_frame f;
    struct wire_row row;
    struct wire_report report;
    warmd_put(fd, 1, "name", "value", 0);
    warmd_expect(fd, 1, WIRE_OK);
    warmd_get(fd, 2, "name", false, 0);
    warmd_expect_hit(fd, 2, "value");

    writer_init(&w, 0);
    writer_init(&keys, 0);
    wire_put_show(&w, 3, &(struct wire_show){WIRE_SPACE_NAME, {"name", 4}});
    warmd_flush(fd, &w);
    warmd_frame(fd, &f, WIRE_ROW, 3);
    cr_assert_eq(wire_get_row(&f.frame, &row, NULL), 0);
    cr_assert_eq(row.len, 5);
    cr_assert_eq(row.owner, getuid());
    struct key key = row.key;

    wire_put_list(&w, 4,
                  &(struct wire_list){
                      .filter = {.uid = -1, .kind = -1, .pinned = -1, .max_hits = UINT32_MAX}});
    warmd_flush(fd, &w);
    warmd_expect(fd, 4, WIRE_ROW);
    warmd_expect(fd, 4, WIRE_END);

    wire_keys_add(&keys, WIRE_SPACE_NAME, "name", 4);
    wire_keys_add(&keys, WIRE_SPACE_NAME, "other", 5);
    wire_keys_add(&keys, WIRE_SPACE_KEY, &key, sizeof key);
    wire_put_mget(&w, 10, &(struct wire_mget){.n = 3, .keys = {keys.data, keys.len}});
    warmd_flush(fd, &w);
    warmd_expect_hit(fd, 10, "value");
    warmd_expect(fd, 11, WIRE_MISS);
    warmd_expect_hit(fd, 12, "value");

    wire_put_remove(&w, 20, &(struct wire_remove){3, {keys.data, keys.len}});
    warmd_flush(fd, &w);
    warmd_frame(fd, &f, WIRE_REPORT, 20);
    cr_assert_eq(wire_get_report(&f.frame, &report, NULL), 0);
    cr_assert_geq(report.n_entries, 1);
    warmd_get(fd, 21, "name", false, 0);
    warmd_expect(fd, 21, WIRE_MISS);
    writer_close(&keys);
    writer_close(&w);
    close(fd);
    warmd_down(&k);
}

Test(daemon, a_large_value_comes_as_a_read_only_descriptor)
{
    enum { LEN = 3 << 20 };
    struct warmd k = warmd_up(NULL);
    int fd = warmd_native(&k), redis = warmd_connect(&k);
    static char value[LEN], got[LEN];
    static struct warmd_frame f;
    struct wire_hit hit;
    struct writer w;
    for (size_t i = 0; i < LEN; i++)
        value[i] = (char)(i * 7 + i / 255);
    int memfd = memfd_create("value", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    cr_assert_eq(write(memfd, value, LEN), LEN);
    cr_assert_eq(fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE), 0);
    writer_init(&w, 0);
    struct wire_put put = {.len = LEN, .check = key_of_bytes(value, LEN), .key = {"large", 5}};
    wire_put_put(&w, 1, &put);
    warmd_send_fds(fd, w.data, w.len, &memfd, 1);
    warmd_expect(fd, 1, WIRE_OK);
    warmd_get(fd, 2, "large", false, 0);
    warmd_frame(fd, &f, WIRE_HIT, 2);
    cr_assert_eq(wire_get_hit(&f.frame, &hit, NULL), 0);
    cr_assert_eq(hit.len, LEN);
    cr_assert_geq(f.fd, 0);
    cr_assert_eq(pread(f.fd, got, LEN, 0), LEN);
    cr_assert_eq(memcmp(got, value, LEN), 0);
    cr_assert_lt(pwrite(f.fd, "x", 1, 0), 0, "a client can write to the store");
    close(f.fd);
    kill(k.pid, SIGTERM);
    warmd_reap(k.pid);
    warmd_start(&k, NULL); /* this daemon has to verify it first */
    close(fd);
    close(redis);
    fd = warmd_native(&k);
    redis = warmd_connect(&k);
    warmd_get(fd, 3, "large", false, 0);
    warmd_expect(fd, 3, WIRE_WAIT);
    warmd_expect(fd, 3, WIRE_HIT);
    warmd_get(fd, 4, "large", false, 0);
    warmd_expect(fd, 4, WIRE_HIT);
    warmd_redis(redis, "GET large\r\n", "$3145728\r\n");
    cr_assert(warmd_recv(redis, got, LEN));
    cr_assert_eq(memcmp(got, value, LEN), 0);
    warmd_redis(redis, "PING\r\n", "\r\n+PONG\r\n");
    writer_close(&w);
    close(memfd);
    close(fd);
    close(redis);
    warmd_down(&k);
}

/* Sends a PUT that announces a value in a descriptor; the daemon must refuse it and go on. */
static void expect_refused_put(int fd, uint64_t tag, int value_fd, uint64_t len)
{
    struct writer w;
    writer_init(&w, 0);
    struct wire_put put = {.len = len, .key = {"bad", 3}};
    wire_put_put(&w, tag, &put);
    warmd_send_fds(fd, w.data, w.len, &value_fd, 1);
    warmd_expect(fd, tag, WIRE_ERROR);
    writer_close(&w);
}

Test(daemon, refuses_descriptors_that_a_client_could_change_or_block)
{
    struct warmd k = warmd_up(NULL);
    int fd = warmd_native(&k), ends[2];
    char *path = path_join(k.dir, "file");
    file_write(path, "0123456789", 10);
    int file = open(path, O_RDWR), short_fd = memfd_create("s", MFD_ALLOW_SEALING);
    int unsealed = memfd_create("u", MFD_ALLOW_SEALING);
    cr_assert_eq(ftruncate(unsealed, 100000), 0);
    cr_assert_eq(fcntl(short_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE), 0);
    cr_assert_eq(pipe(ends), 0);
    expect_refused_put(fd, 1, file, 10);
    expect_refused_put(fd, 2, ends[0], 10);
    expect_refused_put(fd, 3, short_fd, 100000);
    expect_refused_put(fd, 4, unsealed, 100000);
    warmd_put(fd, 5, "good", "v", 0);
    warmd_expect(fd, 5, WIRE_OK);
    free(path);
    close(fd);
    warmd_down(&k);
}

Test(daemon, refuses_a_value_that_is_not_what_its_checksum_says)
{
    struct warmd k = warmd_up(NULL);
    int fd = warmd_native(&k);
    struct writer w;
    writer_init(&w, 0);
    wire_put_put(
        &w, 1, &(struct wire_put){.len = 3, .check = {{1}}, .key = {"k", 1}, .value = {"abc", 3}});
    warmd_flush(fd, &w);
    warmd_expect(fd, 1, WIRE_ERROR);
    warmd_get(fd, 2, "k", false, 0);
    warmd_expect(fd, 2, WIRE_MISS);
    writer_close(&w);
    close(fd);
    warmd_down(&k);
}

Test(daemon, garbage_gets_one_error_and_the_end)
{
    static const uint8_t garbage[][20] = {
        {0xa7, 0x01, 0xff, 0xff, 0, 0, 0, 0},       /* unknown flags */
        {0xa7, 0x01, 0, 0, 0xff, 0xff, 0xff, 0xff}, /* 4 GiB of payload */
        {0xa7, 0x02, 0, 0, 0, 0, 0, 0},             /* GET before HELLO */
        {0xa7, 0x01, 1, 0, 0, 0, 0, 0},             /* a descriptor that did not come */
        {0xa7, 0x01, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0}, /* HELLO cut short */
    };
    struct warmd k = warmd_up(NULL);
    static struct warmd_frame f;
    for (size_t i = 0; i < sizeof garbage / sizeof *garbage; i++) {
        int fd = warmd_connect(&k);
        warmd_send(fd, garbage[i], i == 4 ? 18 : 16);
        cr_assert(warmd_frame_try(fd, &f), "case %zu: no answer", i);
        cr_assert_eq(f.frame.type, WIRE_ERROR, "case %zu", i);
        cr_assert(warmd_is_closed(fd), "case %zu", i);
        close(fd);
    }
    int fd = warmd_native(&k);
    warmd_send(fd, "rubbish in the middle", 21); /* wrong magic after HELLO */
    warmd_expect(fd, 0, WIRE_ERROR);
    cr_assert(warmd_is_closed(fd));
    close(fd);
    warmd_expect_alive(&k);
    warmd_down(&k);
}

Test(daemon, an_unknown_version_is_told_the_one_that_is_spoken)
{
    struct warmd k = warmd_up(NULL);
    int fd = warmd_connect(&k);
    struct writer w;
    static struct warmd_frame f;
    struct wire_error error;
    writer_init(&w, 0);
    wire_put_hello(&w, 5, &(struct wire_hello){.version_min = 7, .version_max = 9});
    warmd_flush(fd, &w);
    warmd_frame(fd, &f, WIRE_ERROR, 5);
    cr_assert_eq(wire_get_error(&f.frame, &error, NULL), 0);
    cr_assert_eq(error.code, (uint32_t)-WARM_EVERSION);
    cr_assert(warmd_is_closed(fd));
    writer_close(&w);
    close(fd);
    warmd_down(&k);
}

Test(daemon, an_unknown_message_or_a_wrong_field_costs_that_request_only)
{
    struct warmd k = warmd_up(NULL);
    int fd = warmd_native(&k);
    struct writer w;
    writer_init(&w, 0);
    wire_end(&w, wire_begin(&w, 0x7f, 0, 1));
    wire_end(&w, wire_begin(&w, WIRE_HIT, 0, 2));
    size_t at = wire_begin(&w, WIRE_GET, 0, 3);
    writer_u8(&w, 99);
    wire_end(&w, at);
    wire_put_source(&w, 0, &(struct wire_source){.len = 1, .job = {"x", 1}});
    warmd_flush(fd, &w);
    for (uint64_t tag = 1; tag <= 3; tag++)
        warmd_expect(fd, tag, WIRE_ERROR);
    warmd_expect(fd, 0, WIRE_ERROR); /* its descriptor did not come: this one ends it */
    cr_assert(warmd_is_closed(fd));
    writer_close(&w);
    close(fd);
    warmd_down(&k);
}

Test(daemon, messages_may_be_cut_at_every_byte)
{
    struct warmd k = warmd_up(NULL);
    struct writer w;
    static struct warmd_frame f;
    writer_init(&w, 0);
    wire_put_hello(&w, 1,
                   &(struct wire_hello){.version_min = WIRE_VERSION, .version_max = WIRE_VERSION});
    wire_put_get(&w, 2, &(struct wire_get){.key = {"cut", 3}});
    for (size_t cut = 1; cut < w.len; cut++) {
        int fd = warmd_connect(&k);
        warmd_send(fd, w.data, cut);
        if (cut % 2) /* half of them with a turn of the daemon in between */
            warmd_expect_alive(&k);
        warmd_send(fd, w.data + cut, w.len - cut);
        warmd_frame(fd, &f, WIRE_WELCOME, 1);
        warmd_expect(fd, 2, WIRE_MISS);
        close(fd);
    }
    int fd = warmd_connect(&k);
    for (size_t i = 0; i < w.len; i++)
        warmd_send(fd, w.data + i, 1);
    warmd_frame(fd, &f, WIRE_WELCOME, 1);
    warmd_expect(fd, 2, WIRE_MISS);
    close(fd);
    writer_close(&w);
    warmd_down(&k);
}

/* ---- the other wire ---- */

Test(daemon, redis_commands_may_be_cut_at_every_byte)
{
    static const char text[] = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nvalue\r\n"
                               "*2\r\n$3\r\nGET\r\n$1\r\nk\r\nPING\r\n";
    struct warmd k = warmd_up(NULL);
    for (size_t cut = 1; cut < sizeof text - 1; cut++) {
        int fd = warmd_connect(&k);
        warmd_send(fd, text, cut);
        if (cut % 2)
            warmd_expect_alive(&k);
        warmd_send(fd, text + cut, sizeof text - 1 - cut);
        warmd_redis(fd, "", "+OK\r\n$5\r\nvalue\r\n+PONG\r\n");
        close(fd);
    }
    warmd_down(&k);
}

Test(daemon, redis_garbage_gets_one_error_and_the_end)
{
    static const char *const garbage[] = {"*x\r\n", "*1\r\n+GET\r\n", "*1\r\n$99999999999\r\n",
                                          "*99999\r\n", "*1\r\n$3\r\nGETxx"};
    struct warmd k = warmd_up(NULL);
    for (size_t i = 0; i < sizeof garbage / sizeof *garbage; i++) {
        int fd = warmd_connect(&k);
        warmd_redis(fd, garbage[i], "-ERR Protocol error: ");
        cr_assert(warmd_is_closed(fd));
        close(fd);
    }
    warmd_expect_alive(&k);
    warmd_down(&k);
}

Test(daemon, a_command_that_is_wrong_costs_itself_only)
{
    struct warmd k = warmd_up(NULL);
    int fd = warmd_connect(&k);
    warmd_redis(fd, "NOSUCH x\r\n", "-ERR unknown command 'NOSUCH'\r\n");
    warmd_redis(fd, "GET\r\n", "-ERR wrong number of arguments for 'get' command\r\n");
    warmd_redis(fd, "SET k v EX 0\r\n", "-ERR value is not an integer or out of range\r\n");
    warmd_redis(fd, "SET k v NX XX\r\n", "-ERR syntax error\r\n");
    warmd_redis(fd, "SCAN 77\r\n", "-ERR invalid cursor\r\n");
    warmd_redis(fd, "PING\r\n", "+PONG\r\n");
    close(fd);
    warmd_down(&k);
}

/* The resident memory of a process, in KiB. */
static long resident_kib(pid_t pid)
{
    char path[64], line[128];
    long kib = -1;
    snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
    FILE *f = fopen(path, "r");
    cr_assert_not_null(f);
    while (fgets(line, sizeof line, f))
        sscanf(line, "RssAnon: %ld", &kib);
    fclose(f);
    return kib;
}

Test(daemon, memory_does_not_grow_with_an_announced_length)
{
    struct warmd k = warmd_up(NULL);
    long before = resident_kib(k.pid);
    int fds[50];
    for (int i = 0; i < 50; i++) {
        fds[i] = warmd_connect(&k);
        const char *head = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4000000000\r\nfirst bytes";
        warmd_send(fds[i], head, strlen(head));
    }
    warmd_expect_alive(&k);
    cr_assert_lt(resident_kib(k.pid) - before, 16 * 1024);
    for (int i = 0; i < 50; i++)
        close(fds[i]);
    warmd_expect_alive(&k);
    warmd_down(&k);
}

Test(daemon, a_reader_that_does_not_read_is_not_read_from_either)
{
    enum { LEN = 60000, N = 2000 };
    struct warmd k = warmd_up(NULL);
    int writer = warmd_connect(&k), reader = warmd_connect(&k);
    static char value[LEN + 1];
    memset(value, 'v', LEN);
    struct writer w;
    writer_init(&w, 0);
    writer_format(&w, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n%s\r\n", LEN, value);
    warmd_flush(writer, &w);
    warmd_redis(writer, "", "+OK\r\n");
    long before = resident_kib(k.pid);
    for (int i = 0; i < N; i++)
        writer_bytes(&w, "GET k\r\n", 7);
    warmd_flush(reader, &w); /* 120 MB of answers */
    warmd_expect_alive(&k);
    cr_assert_lt(resident_kib(k.pid) - before, 16 * 1024);
    static char answer[LEN + 10 + 2];
    for (int i = 0; i < N; i++)
        cr_assert(warmd_recv(reader, answer, 8 + LEN + 2), "answer %d", i);
    cr_assert_eq(memcmp(answer, "$60000\r\n", 8), 0);
    warmd_redis(reader, "PING\r\n", "+PONG\r\n");
    writer_close(&w);
    close(writer);
    close(reader);
    warmd_down(&k);
}

/* ---- crowds ---- */

Test(daemon, thousands_of_silent_and_half_spoken_connections_cost_the_others_nothing)
{
    enum { N = 10000 };
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    size_t n = limit.rlim_cur < N + 100 ? limit.rlim_cur - 100 : N;
    char *options[] = {"--max-connections", "20000", "--max-connections-per-user", "20000", NULL};
    struct warmd k = warmd_up(options);
    long before = resident_kib(k.pid);
    static int fds[N];
    for (size_t i = 0; i < n; i++) {
        fds[i] = warmd_connect(&k);
        if (i % 2)
            warmd_send(fds[i], i % 4 == 1 ? "\xa7\x01" : "*2\r\n$3", i % 4 == 1 ? 2 : 6);
    }
    warmd_expect_alive(&k);
    long kib = resident_kib(k.pid) - before;
    cr_log_info("%zu connections: %ld bytes each", n, kib * 1024 / (long)n);
    cr_assert_lt(kib * 1024 / (long)n, 2048, "an idle connection costs little");
    for (size_t i = 0; i < n; i++)
        close(fds[i]);
    warmd_expect_alive(&k);
    warmd_down(&k);
}

Test(daemon, half_a_message_is_given_up_after_ten_seconds)
{
    struct warmd k = warmd_up(NULL);
    int silent = warmd_connect(&k), half = warmd_connect(&k);
    warmd_send(half, "\xa7\x01", 2);
    uint64_t began = clock_now_ms();
    cr_assert(warmd_is_closed(silent));
    cr_assert(warmd_is_closed(half));
    cr_assert_geq(clock_now_ms() - began, 9000);
    close(silent);
    close(half);
    warmd_down(&k);
}

Test(daemon, further_connections_of_one_user_are_closed)
{
    char *options[] = {"--max-connections-per-user", "3", NULL};
    struct warmd k = warmd_up(options);
    int fds[3];
    for (int i = 0; i < 3; i++) {
        fds[i] = warmd_connect(&k);
        warmd_redis(fds[i], "PING\r\n", "+PONG\r\n");
    }
    int fourth = warmd_connect(&k);
    cr_assert(warmd_is_closed(fourth));
    close(fourth);
    close(fds[0]);
    for (bool in = false; !in;
         usleep(1000)) { /* the daemon sees the end of the first in its turn */
        char answer[8] = "";
        int fd = warmd_connect(&k);
        send(fd, "PING\r\n", 6, MSG_NOSIGNAL);
        in = warmd_recv(fd, answer, 7);
        close(fd);
    }
    close(fds[1]);
    close(fds[2]);
    warmd_down(&k);
}

Test(daemon, connections_beyond_the_limit_wait_until_there_is_room)
{
    char *options[] = {"--max-connections", "2", NULL};
    struct warmd k = warmd_up(options);
    int a = warmd_connect(&k), b = warmd_connect(&k);
    warmd_redis(a, "PING\r\n", "+PONG\r\n");
    warmd_redis(b, "PING\r\n", "+PONG\r\n");
    int c = warmd_connect(&k);
    warmd_send(c, "PING\r\n", 6);
    cr_assert(warmd_is_silent(c, 100));
    close(a);
    warmd_redis(c, "", "+PONG\r\n");
    close(b);
    close(c);
    warmd_down(&k);
}

Test(daemon, without_descriptors_left_clients_wait_and_nobody_is_lost)
{
    struct warmd k = warmd_new();
    k.pid = warmd_spawn(&k, NULL);
    struct rlimit daemon_limit = {64, 64};
    warmd_await(&k);
    cr_assert_eq(prlimit(k.pid, RLIMIT_NOFILE, &daemon_limit, NULL), 0);
    int fds[100];
    for (int i = 0; i < 100; i++) {
        fds[i] = warmd_connect(&k);
        warmd_send(fds[i], "PING\r\n", 6);
    }
    for (int i = 0; i < 100; i++) {
        warmd_redis(fds[i], "", "+PONG\r\n");
        close(fds[i]);
    }
    cr_assert(warmd_log_has(&k, "cannot accept"), "the limit was not reached");
    warmd_expect_alive(&k);
    warmd_down(&k);
}

Test(daemon, removals_and_evictions_are_logged_with_their_asker)
{
    struct warmd k = warmd_up(NULL);
    int fd = warmd_admin(&k);
    struct writer w, keys;
    char who[64], line[128];
    warmd_put(fd, 1, "a", "value", 0);
    warmd_expect(fd, 1, WIRE_OK);
    warmd_put(fd, 2, "b", "value", 0);
    warmd_expect(fd, 2, WIRE_OK);
    writer_init(&w, 0);
    writer_init(&keys, 0);
    wire_keys_add(&keys, WIRE_SPACE_NAME, "a", 1);
    wire_put_remove(&w, 3, &(struct wire_remove){1, {keys.data, keys.len}});
    warmd_flush(fd, &w);
    warmd_expect(fd, 3, WIRE_REPORT);
    wire_put_evict(&w, 4,
                   &(struct wire_evict){
                       .filter = {.uid = -1, .kind = -1, .pinned = -1, .max_hits = UINT32_MAX}});
    warmd_flush(fd, &w);
    warmd_expect(fd, 4, WIRE_REPORT);
    snprintf(who, sizeof who, "uid %u (pid %ld)", (unsigned)getuid(), (long)getpid());
    snprintf(line, sizeof line, "info warmd: %s removed 1 entry, 5 bytes\n", who);
    cr_expect(warmd_log_has(&k, line));
    snprintf(line, sizeof line, "info warmd: %s evicted 1 entry, 5 bytes\n", who);
    cr_expect(warmd_log_has(&k, line));
    writer_close(&w);
    writer_close(&keys);
    close(fd);
    warmd_down(&k);
}
