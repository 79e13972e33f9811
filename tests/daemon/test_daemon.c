/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_daemon.c - warmd against bad input and bad luck: garbage and halves on both wires, sockets,
 * folders, limits and signals.
 */
#include <sys/mman.h>
#include <sys/resource.h>

#include "tests/support/warmd.h"

/* The daemon still serves others: a native and a RESP round trip. */
static void expect_alive(const struct warmd *k)
{
    int native = warmd_native(k), redis = warmd_connect(k);
    warmd_get(native, 9, "no such name", false, 0);
    warmd_expect(native, 9, WIRE_MISS);
    warmd_redis(redis, "PING\r\n", "+PONG\r\n");
    close(native);
    close(redis);
}

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
    expect_alive(&k);
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
            expect_alive(&k);
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
            expect_alive(&k);
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
    expect_alive(&k);
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
    expect_alive(&k);
    cr_assert_lt(resident_kib(k.pid) - before, 16 * 1024);
    for (int i = 0; i < 50; i++)
        close(fds[i]);
    expect_alive(&k);
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
    expect_alive(&k);
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
    expect_alive(&k);
    long kib = resident_kib(k.pid) - before;
    cr_log_info("%zu connections: %ld bytes each", n, kib * 1024 / (long)n);
    cr_assert_lt(kib * 1024 / (long)n, 2048, "an idle connection costs little");
    for (size_t i = 0; i < n; i++)
        close(fds[i]);
    expect_alive(&k);
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
    expect_alive(&k);
    warmd_down(&k);
}

/* ---- starting ---- */

/* Starts a daemon that must fail with one line that has `text`. */
static void expect_start_fails(struct warmd *k, char *const *options, int code, const char *text)
{
    char *log = k->log;
    k->log = path_join(k->dir, "failed-log");
    unlink(k->log);
    int status = warmd_reap(warmd_spawn(k, options));
    size_t len;
    char *said = file_read(k->log, &len);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == code, "status %x: %s", status, said);
    cr_assert_not_null(strstr(said, text), "%s", said);
    cr_assert_eq(strchr(said, '\n'), said + len - 1, "more than one line: %s", said);
    free(said);
    free(k->log);
    k->log = log;
}

Test(daemon, a_second_one_on_the_same_socket_or_store_is_told_so)
{
    struct warmd k = warmd_up(NULL), other = warmd_new();
    char *socket = k.socket, *store = k.store;
    k.store = other.store;
    expect_start_fails(&k, NULL, 1, k.socket);
    k.store = store;
    k.socket = other.socket;
    expect_start_fails(&k, NULL, 1, "warmd: ");
    k.socket = socket;
    expect_alive(&k);
    warmd_free(&other);
    warmd_down(&k);
}

Test(daemon, a_stale_socket_is_replaced_and_anything_else_is_left_alone)
{
    struct warmd k = warmd_up(NULL);
    kill(k.pid, SIGKILL);
    warmd_reap(k.pid);
    cr_assert_eq(access(k.socket, F_OK), 0, "the socket file is still there");
    warmd_start(&k, NULL);
    expect_alive(&k);
    kill(k.pid, SIGTERM);
    warmd_reap(k.pid);
    cr_assert_neq(access(k.socket, F_OK), 0, "a daemon that ends takes its socket along");
    file_write(k.socket, "a file", 6);
    expect_start_fails(&k, NULL, 1, "is no socket");
    cr_assert_eq(access(k.socket, F_OK), 0);
    warmd_free(&k);
}

Test(daemon, a_missing_folder_of_the_socket_is_made_and_a_missing_parent_is_an_error)
{
    struct warmd k = warmd_new();
    char *folder = path_join(k.dir, "run");
    struct stat st;
    free(k.socket);
    k.socket = path_join(folder, "warmd.sock");
    warmd_start(&k, NULL);
    cr_assert_eq(stat(folder, &st), 0);
    cr_assert_eq(st.st_mode & 0777, geteuid() == 0 ? 0755 : 0700);
    cr_assert_eq(stat(k.socket, &st), 0);
    cr_assert_eq(st.st_mode & 0777, geteuid() == 0 ? 0666 : 0600);
    kill(k.pid, SIGTERM);
    warmd_reap(k.pid);
    free(k.socket);
    k.socket = path_join(folder, "no/such/warmd.sock");
    expect_start_fails(&k, NULL, 1, "the folder of the socket");
    free(folder);
    warmd_free(&k);
}

Test(daemon, a_folder_in_which_others_could_replace_the_socket_is_refused)
{
    struct warmd k = warmd_new();
    char *folder = path_join(k.dir, "run"), *link = path_join(k.dir, "link");
    cr_assert(mkdir(folder, 0700) == 0 && chmod(folder, 0777) == 0);
    free(k.socket);
    k.socket = path_join(folder, "warmd.sock");
    expect_start_fails(&k, NULL, 1, "can be written by other users");
    cr_assert_eq(chmod(folder, 0770), 0);
    expect_start_fails(&k, NULL, 1, "can be written by other users");
    cr_assert_neq(access(k.socket, F_OK), 0);
    cr_assert_eq(chmod(folder, 01777), 0); /* as /tmp */
    warmd_start(&k, NULL);
    kill(k.pid, SIGTERM);
    warmd_reap(k.pid);
    if (two_users_can_be()) {
        cr_assert(chmod(folder, 0755) == 0 && chown(folder, 65534, 65534) == 0);
        expect_start_fails(&k, NULL, 1, "belongs to another user (uid 65534)");
        cr_assert(chown(folder, 0, 0) == 0 && symlink("run", link) == 0);
        cr_assert_eq(lchown(link, 65534, 65534), 0);
        free(k.socket);
        k.socket = path_join(link, "warmd.sock");
        expect_start_fails(&k, NULL, 1, "belongs to another user (uid 65534)");
    }
    free(folder);
    free(link);
    warmd_free(&k);
}

Test(daemon, wrong_options_are_named)
{
    struct warmd k = warmd_new();
    static char *const wrong[][3] = {{"--no-such", "1"}, {"--max-size", "much"}, {"--jobs"}, {"x"}};
    static const char *const named[] = {"no-such", "max_size", "--jobs", "\"x\""};
    for (size_t i = 0; i < 4; i++)
        expect_start_fails(&k, wrong[i], 2, named[i]);
    warmd_free(&k);
}

Test(daemon, a_store_that_cannot_be_written_is_an_error_of_one_line)
{
    struct warmd k = warmd_new();
    file_write(k.store, "a file", 6);
    expect_start_fails(&k, NULL, 1, k.store);
    warmd_free(&k);
}

Test(daemon, a_socket_that_was_passed_is_used_and_survives_the_daemon)
{
    struct warmd k = warmd_new();
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s", k.socket);
    int listening = socket(AF_UNIX, SOCK_STREAM, 0);
    cr_assert_eq(bind(listening, (struct sockaddr *)&a, sizeof a), 0);
    cr_assert_eq(listen(listening, 16), 0);
    for (int round = 0; round < 2; round++) {
        int early = warmd_connect(&k); /* before there is a daemon */
        char *program = bin_path("warmd");
        k.pid = fork();
        if (k.pid == 0) {
            char pid[16];
            int log = open(k.log, O_WRONLY | O_CREAT | O_APPEND, 0600);
            dup2(log, 2);
            dup2(listening, 3);
            snprintf(pid, sizeof pid, "%d", (int)getpid());
            setenv("LISTEN_PID", pid, 1);
            setenv("LISTEN_FDS", "1", 1);
            execl(program, "warmd", "--store", k.store, (char *)NULL);
            _exit(127);
        }
        free(program);
        warmd_redis(early, "PING\r\n", "+PONG\r\n");
        close(early);
        kill(k.pid, SIGTERM);
        warmd_reap(k.pid);
        cr_assert_eq(access(k.socket, F_OK), 0);
    }
    close(listening);
    warmd_free(&k);
}

/* As systemd passes warmd.socket and warmd-admin.socket, in either order. */
Test(daemon, the_socket_that_is_called_admin_is_the_administrators)
{
    static const char *const orders[] = {"warmd.socket:admin", "admin:warmd"};
    for (int admin_first = 0; admin_first < 2; admin_first++) {
        struct warmd k = warmd_new();
        int fds[2];
        char *admin = path_join(k.dir, "admin.sock");
        for (int i = 0; i < 2; i++) {
            struct sockaddr_un a = {.sun_family = AF_UNIX};
            snprintf(a.sun_path, sizeof a.sun_path, "%s", i ? admin : k.socket);
            fds[i] = socket(AF_UNIX, SOCK_STREAM, 0);
            cr_assert_eq(bind(fds[i], (struct sockaddr *)&a, sizeof a), 0);
            cr_assert_eq(chmod(a.sun_path, i ? 0600 : 0666), 0);
            cr_assert_eq(listen(fds[i], 16), 0);
        }
        char *program = bin_path("warmd");
        k.pid = fork();
        if (k.pid == 0) {
            char pid[16];
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            int log = open(k.log, O_WRONLY | O_CREAT | O_APPEND, 0600);
            int high[2] = {fcntl(fds[admin_first], F_DUPFD, 20),
                           fcntl(fds[!admin_first], F_DUPFD, 20)};
            dup2(log, 2);
            dup2(high[0], 3);
            dup2(high[1], 4);
            snprintf(pid, sizeof pid, "%d", (int)getpid());
            setenv("LISTEN_PID", pid, 1);
            setenv("LISTEN_FDS", "2", 1);
            setenv("LISTEN_FDNAMES", orders[admin_first], 1);
            execl(program, "warmd", "--store", k.store, (char *)NULL);
            _exit(127);
        }
        free(program);
        warmd_await(&k);
        cr_expect(warmd_may_verify(warmd_admin(&k)));
        cr_expect_not(warmd_may_verify(warmd_native(&k)));
        close(fds[0]);
        close(fds[1]);
        kill(k.pid, SIGTERM);
        warmd_reap(k.pid);
        cr_assert(access(k.socket, F_OK) == 0 && access(admin, F_OK) == 0, "they are systemd's");
        free(admin);
        warmd_free(&k);
    }
}

Test(daemon, the_service_manager_is_told)
{
    struct warmd k = warmd_new();
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s/notify", k.dir);
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    setenv("NOTIFY_SOCKET", a.sun_path, 1);
    setenv("WATCHDOG_USEC", "200000", 1);
    warmd_start(&k, NULL);
    static const char *const said[] = {"READY=1", "WATCHDOG=1", "RELOADING=1", "STOPPING=1"};
    for (size_t i = 0; i < 4; i++) {
        char text[512] = "";
        if (i == 2)
            kill(k.pid, SIGHUP);
        if (i == 3)
            kill(k.pid, SIGTERM);
        while (!strstr(text, said[i])) {
            struct pollfd p = {fd, POLLIN, 0};
            cr_assert_eq(poll(&p, 1, WARMD_WAIT_MS), 1, "%s did not come", said[i]);
            ssize_t n = recv(fd, text, sizeof text - 1, 0);
            text[n > 0 ? n : 0] = '\0';
        }
    }
    warmd_reap(k.pid);
    close(fd);
    warmd_free(&k);
}

/* ---- signals ---- */

Test(daemon, sighup_reads_the_limits_again)
{
    struct warmd k = warmd_new();
    char *config = path_join(k.dir, "conf");
    file_write(config, "max_connections_per_user = 1\n", 29);
    char *options[] = {"--config", config, NULL};
    warmd_start(&k, options);
    file_write(config, "max_connections_per_user = 9\n", 29);
    kill(k.pid, SIGHUP);
    for (int i = 0; i < 1000 && !warmd_log_has(&k, "read again"); i++)
        usleep(10000);
    int a = warmd_connect(&k), b = warmd_connect(&k);
    warmd_redis(a, "PING\r\n", "+PONG\r\n");
    warmd_redis(b, "PING\r\n", "+PONG\r\n");
    file_write(config, "nonsense\n", 9);
    kill(k.pid, SIGHUP);
    for (int i = 0; i < 1000 && !warmd_log_has(&k, "not read again"); i++)
        usleep(10000);
    warmd_redis(a, "PING\r\n", "+PONG\r\n");
    close(a);
    close(b);
    free(config);
    warmd_down(&k);
}

/* Waits until the daemon's INFO or STATS has a text. */
static void await_text(const struct warmd *k, uint8_t type, const char *text)
{
    static struct warmd_frame f;
    struct wire_text m;
    bool has = false;
    int fd = warmd_native(k);
    for (uint64_t tag = 1; !has; tag++) {
        struct writer w;
        cr_assert_lt(tag, WARMD_WAIT_MS / 10, "%s", text);
        writer_init(&w, 0);
        wire_put_empty(&w, type, tag);
        warmd_flush(fd, &w);
        writer_close(&w);
        warmd_frame(fd, &f, WIRE_TEXT, tag);
        cr_assert_eq(wire_get_text(&f.frame, &m, NULL), 0);
        has = memmem(m.text.data, m.text.len, text, strlen(text)) != NULL;
        if (!has)
            usleep(10000);
    }
    close(fd);
}

Test(daemon, sighup_changes_the_cap_and_evicts_down_to_it)
{
    static const char before[] = "max_size = 64M\njobs = 3\n";
    static const char after[] = "max_size = 1M\nquota = 512K\njobs = 1\n";
    struct warmd k = warmd_new();
    char *config = path_join(k.dir, "conf"), *value = malloc(40000);
    file_write(config, before, sizeof before - 1);
    char *options[] = {"--config", config, NULL};
    warmd_start(&k, options);
    int fd = warmd_connect(&k);
    memset(value, 'x', 40000);
    for (int i = 0; i < 60; i++) {
        char head[64];
        int n = snprintf(head, sizeof head, "*3\r\n$3\r\nSET\r\n$2\r\n%02d\r\n$40000\r\n", i);
        warmd_send(fd, head, (size_t)n);
        warmd_send(fd, value, 40000);
        warmd_redis(fd, "\r\n", "+OK\r\n");
    }
    await_text(&k, WIRE_STATS, "\"entries\": 60,");
    await_text(&k, WIRE_INFO, "\"max_bytes\": 67108864,");
    file_write(config, after, sizeof after - 1);
    kill(k.pid, SIGHUP);
    await_text(&k, WIRE_INFO, "\"max_bytes\": 1048576,");
    await_text(&k, WIRE_INFO, "\"jobs\": {\"value\": 1, \"origin\": \"file\"}");
    await_text(&k, WIRE_INFO, "\"quota_bytes\": {\"value\": 524288, \"origin\": \"file\"}");
    for (int i = 0;; i++) { /* evicted in the background */
        static struct warmd_frame f;
        struct wire_text m;
        struct writer w;
        int native = warmd_native(&k);
        cr_assert_lt(i, WARMD_WAIT_MS / 10);
        writer_init(&w, 0);
        wire_put_empty(&w, WIRE_STATS, 1);
        warmd_flush(native, &w);
        writer_close(&w);
        warmd_frame(native, &f, WIRE_TEXT, 1);
        cr_assert_eq(wire_get_text(&f.frame, &m, NULL), 0);
        char *json = strndup(m.text.data, m.text.len);
        uint64_t bytes = strtoull(strstr(json, "\"bytes\": ") + 9, NULL, 10);
        free(json);
        close(native);
        if (bytes <= 1 << 20)
            break;
        usleep(10000);
    }
    close(fd);
    free(config);
    free(value);
    warmd_down(&k);
}

Test(daemon, sigterm_answers_what_was_put_before)
{
    struct warmd k = warmd_up(NULL);
    int fd = warmd_connect(&k);
    warmd_send(fd, "SET a 1\r\nSET b 2\r\n", 18);
    warmd_redis(fd, "", "+OK\r\n");
    kill(k.pid, SIGTERM);
    warmd_redis(fd, "", "+OK\r\n");
    cr_assert(warmd_is_closed(fd));
    close(fd);
    warmd_reap(k.pid);
    warmd_start(&k, NULL);
    fd = warmd_connect(&k);
    warmd_redis(fd, "MGET a b\r\n", "*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
    close(fd);
    warmd_down(&k);
}

Test(daemon, what_was_acknowledged_survives_sigkill)
{
    struct warmd k = warmd_up(NULL);
    for (int round = 0; round < 5; round++) {
        char command[64], answer[64];
        int fd = warmd_connect(&k);
        snprintf(command, sizeof command, "SET round %d\r\n", round);
        warmd_redis(fd, command, "+OK\r\n");
        warmd_send(fd, "SET round x", 11); /* and one that never was whole */
        kill(k.pid, SIGKILL);
        warmd_reap(k.pid);
        close(fd);
        warmd_start(&k, NULL);
        fd = warmd_connect(&k);
        snprintf(answer, sizeof answer, "$1\r\n%d\r\n", round);
        warmd_redis(fd, "GET round\r\n", answer);
        close(fd);
    }
    warmd_down(&k);
}

Test(daemon, statistics_survive_a_restart)
{
    struct warmd k = warmd_up(NULL);
    int fd = warmd_connect(&k);
    warmd_redis(fd, "SET a 1\r\n", "+OK\r\n");
    for (int i = 0; i < 3; i++)
        warmd_redis(fd, "GET a\r\n", "$1\r\n1\r\n");
    close(fd);
    kill(k.pid, SIGTERM);
    warmd_reap(k.pid);
    warmd_start(&k, NULL);
    static struct warmd_frame f;
    struct wire_text text;
    struct writer w;
    writer_init(&w, 0);
    fd = warmd_native(&k);
    wire_put_empty(&w, WIRE_STATS, 2);
    warmd_flush(fd, &w);
    warmd_frame(fd, &f, WIRE_TEXT, 2);
    cr_assert_eq(wire_get_text(&f.frame, &text, NULL), 0);
    char *json = strndup(text.text.data, text.text.len);
    cr_assert_not_null(strstr(json, "{\"hits\": 0,"), "%s", json);
    cr_assert_not_null(strstr(json, "\"lifetime\": {\"hits\": 3,"), "%s", json);
    free(json);
    writer_close(&w);
    close(fd);
    warmd_down(&k);
}
