/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_slices.c - a command of many names is work for many turns: others are answered in between.
 */
#include <poll.h>
#include <signal.h>

#include "keygen/key.h"
#include "tests/support/warmd.h"

enum { NAMES = 4095 };

/* A command on the names from `first` on, each with a value behind it if there is one. */
static void put_resp_command(struct writer *w, const char *command, unsigned first, unsigned n,
                             const char *value)
{
    writer_format(w, "*%u\r\n$%zu\r\n%s\r\n", (value ? 2 : 1) * n + 1, strlen(command), command);
    for (unsigned i = first; i < first + n; i++) {
        writer_format(w, "$20\r\n%020u\r\n", i);
        if (value)
            writer_format(w, "$%zu\r\n%s\r\n", strlen(value), value);
    }
}

/* A list of keys that are not there. */
static void put_keys(struct writer *w)
{
    for (unsigned i = 0; i < NAMES; i++) {
        struct key key = key_of_bytes(&i, sizeof i);
        wire_keys_add(w, WIRE_SPACE_KEY, &key, sizeof key);
    }
}

/* Stops the daemon when it sleeps: then it finds what comes next in the order in which it came. */
static void stop_asleep(const struct warmd *k)
{
    char path[64], state = ' ';
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)k->pid);
    for (int calm = 0; calm < 3; calm = state == 'S' ? calm + 1 : 0) {
        usleep(1000);
        FILE *f = fopen(path, "r");
        cr_assert_not_null(f);
        cr_assert_eq(fscanf(f, "%*d (%*[^)]) %c", &state), 1);
        fclose(f);
    }
    kill(k->pid, SIGSTOP);
}

/* True if a request of another connection, which came later, is answered in the middle of this one. */
static bool is_left_for_another(const struct warmd *k, int fd, struct writer *request, int ping)
{
    char answer[4096];
    struct pollfd p = {fd, POLLIN, 0};
    stop_asleep(k);
    warmd_send(fd, request->data, request->len);
    warmd_send(ping, "PING\r\n", 6);
    kill(k->pid, SIGCONT);
    warmd_redis(ping, "", "+PONG\r\n");
    bool first = poll(&p, 1, 0) == 0;
    cr_assert_eq(poll(&p, 1, WARMD_WAIT_MS), 1, "no answer in time");
    cr_assert_gt(recv(fd, answer, sizeof answer, 0), 0);
    return first;
}

Test(slices, a_command_of_many_names_leaves_some_for_another_turn)
{
    enum { TRIES = 20, REQUESTS = 5 };
    struct warmd k = warmd_up(NULL);
    int redis = warmd_connect(&k), native = warmd_native(&k), ping = warmd_connect(&k);
    struct writer keys, requests[REQUESTS];
    writer_init(&keys, 0);
    put_keys(&keys);
    for (size_t i = 0; i < REQUESTS; i++)
        writer_init(&requests[i], 0);
    for (unsigned i = 0; i < 2; i++) {
        put_resp_command(&requests[0], "MSET", i * NAMES / 2, NAMES / 2, "v");
        warmd_flush(redis, &requests[0]);
        warmd_redis(redis, "", "+OK\r\n");
    }
    put_resp_command(&requests[0], "DEL", NAMES, NAMES, NULL); /* which are not there */
    put_resp_command(&requests[1], "EXISTS", 0, NAMES, NULL);
    struct view list = {keys.data, keys.len};
    wire_put_remove(&requests[2], 1, &(struct wire_remove){.n = NAMES, .keys = list});
    wire_put_pin(&requests[3], 1, &(struct wire_pin){.pinned = true, .n = NAMES, .keys = list});
    wire_put_pin(&requests[4], 1, &(struct wire_pin){.pinned = false, .n = NAMES, .keys = list});
    warmd_redis(ping, "PING\r\n", "+PONG\r\n");
    warmd_redis(redis, "PING\r\n", "+PONG\r\n");
    for (size_t i = 0; i < REQUESTS; i++) {
        unsigned n = 0;
        for (unsigned try = 0; try < TRIES; try++)
            n += is_left_for_another(&k, i < 2 ? redis : native, &requests[i], ping);
        cr_expect_gt(n, TRIES / 8, "request %zu was one piece of work: %u times of %u", i, n,
                     TRIES);
        writer_close(&requests[i]);
    }
    writer_close(&keys);
    close(redis);
    close(native);
    close(ping);
    warmd_down(&k);
}

/* The number behind "puts" in STATS. */
static uint64_t read_puts(int native)
{
    static struct warmd_frame f;
    static const char mark[] = "\"puts\": ";
    struct wire_text m;
    warmd_frame(native, &f, WIRE_TEXT, 1);
    cr_assert_eq(wire_get_text(&f.frame, &m, NULL), 0);
    const char *at = memmem(m.text.data, m.text.len, mark, sizeof mark - 1);
    cr_assert_not_null(at);
    return strtoull(at + sizeof mark - 1, NULL, 10);
}

/* Its answer waits for the store: what shows the slices is how many values were put meanwhile. */
Test(slices, an_mset_leaves_some_values_for_another_turn)
{
    enum { TRIES = 20 };
    struct warmd k = warmd_up(NULL);
    int redis = warmd_connect(&k), native = warmd_native(&k);
    struct writer mset, ask;
    unsigned n = 0;
    writer_init(&mset, 0);
    writer_init(&ask, 0);
    for (uint64_t try = 0; try < TRIES && !n; try++) {
        stop_asleep(&k);
        put_resp_command(&mset, "MSET", 0, NAMES / 2, "v");
        wire_put_empty(&ask, WIRE_STATS, 1);
        warmd_flush(redis, &mset);
        warmd_flush(native, &ask);
        kill(k.pid, SIGCONT);
        uint64_t done = read_puts(native) - try * (NAMES / 2);
        warmd_redis(redis, "", "+OK\r\n");
        n += done > 0 && done < NAMES / 2;
    }
    cr_expect_gt(n, 0, "it was one piece of work");
    writer_close(&mset);
    writer_close(&ask);
    close(redis);
    close(native);
    warmd_down(&k);
}

Test(slices, a_command_of_many_names_is_answered_whole)
{
    enum { PAIRS = 2047 };
    struct warmd k = warmd_up(NULL);
    int fd = warmd_connect(&k), left = warmd_connect(&k), native = warmd_native(&k);
    static struct warmd_frame f;
    struct wire_report report;
    struct writer mset, names, keys, w;
    writer_init(&mset, 0);
    writer_init(&names, 0);
    writer_init(&keys, 0);
    writer_init(&w, 0);
    writer_format(&mset, "*%u\r\n$4\r\nMSET\r\n", 2 * PAIRS + 1);
    for (unsigned i = 0; i < PAIRS; i++) {
        char name[8];
        snprintf(name, sizeof name, "in%04u", i);
        writer_format(&mset, "$6\r\n%s\r\n$6\r\nva%04u\r\n", name, i);
        writer_format(&names, "$6\r\n%s\r\n", name);
        wire_keys_add(&keys, WIRE_SPACE_NAME, name, 6);
    }
    warmd_send(left, mset.data, mset.len); /* who leaves in the middle takes nothing along */
    close(left);
    warmd_send(fd, mset.data, mset.len);
    warmd_redis(fd, "", "+OK\r\n");
    warmd_redis(fd, "GET in0000\r\nGET in2046\r\n", "$6\r\nva0000\r\n$6\r\nva2046\r\n");
    for (uint64_t tag = 1; tag <= 2; tag++) {
        wire_put_pin(&w, tag, &(struct wire_pin){tag == 1, PAIRS, {keys.data, keys.len}});
        warmd_flush(native, &w);
        warmd_frame(native, &f, WIRE_REPORT, tag);
        cr_assert_eq(wire_get_report(&f.frame, &report, NULL), 0);
        cr_expect_eq(report.n_entries, PAIRS);
    }
    writer_format(&w, "*%u\r\n$6\r\nEXISTS\r\n", PAIRS + 1);
    writer_bytes(&w, names.data, names.len);
    warmd_flush(fd, &w);
    warmd_redis(fd, "", ":2047\r\n");
    writer_format(&w, "*%u\r\n$3\r\nDEL\r\n", PAIRS + 1);
    writer_bytes(&w, names.data, names.len);
    warmd_flush(fd, &w);
    warmd_redis(fd, "", ":2047\r\n");
    warmd_send(fd, mset.data, mset.len);
    warmd_redis(fd, "", "+OK\r\n");
    wire_put_remove(&w, 3, &(struct wire_remove){PAIRS, {keys.data, keys.len}});
    warmd_flush(native, &w);
    warmd_frame(native, &f, WIRE_REPORT, 3);
    cr_assert_eq(wire_get_report(&f.frame, &report, NULL), 0);
    cr_expect_eq(report.n_entries, PAIRS);
    warmd_redis(fd, "EXISTS in0000 in2046\r\n", ":0\r\n");
    writer_close(&mset);
    writer_close(&names);
    writer_close(&keys);
    writer_close(&w);
    close(fd);
    close(native);
    warmd_down(&k);
}
