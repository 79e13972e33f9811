/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_torch.c - what PyTorch's caches are given beyond Redis: its values taken apart, turns at its
 * graphs, one answer for all ranks of a job. The programs themselves are in tests/clients.
 */
#include "tests/support/warmd.h"

#define GRAPH "pt2:fx-graph-v1::fabc:c1"
/* a pickle of five bytes: 80 04 4b 2a 2e */
#define VALUE "{\"data\": \"gARLKi4=\", \"time_taken_ms\": 30499}"
#define VALUE_BULK "$44\r\n" VALUE "\r\n"

Test(torch, a_value_comes_back_as_it_was_and_is_kept_as_its_pickle)
{
    struct warmd k = warmd_up(NULL);
    int fd = warmd_connect(&k), native = warmd_native(&k);
    warmd_redis(fd, "*3\r\n$3\r\nSET\r\n$24\r\n" GRAPH "\r\n" VALUE_BULK, "+OK\r\n");
    warmd_redis(fd, "GET " GRAPH "\r\n", VALUE_BULK);
    static struct warmd_frame f;
    struct wire_hit hit;
    warmd_get(native, 2, GRAPH, false, 0);
    warmd_frame(native, &f, WIRE_HIT, 2);
    cr_assert_eq(wire_get_hit(&f.frame, &hit, NULL), 0);
    cr_assert_eq(hit.cost_ms, 30499, "eviction knows what it took to make");
    cr_assert_eq(hit.len, 13);
    cr_assert_eq(memcmp(hit.value.data, "\0torch1\n\x80\x04K*.", 13), 0);
    close(native);
    close(fd);
    warmd_down(&k);
}

Test(torch, other_bytes_under_its_names_come_back_as_they_were)
{
    static const char *const values[] = {"garbage", "{\"data\": \"gASV", "{\"data\": 5}", ""};
    struct warmd k = warmd_up(NULL);
    int fd = warmd_connect(&k);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char set[128], bulk[64];
        snprintf(bulk, sizeof bulk, "$%zu\r\n%s\r\n", strlen(values[i]), values[i]);
        snprintf(set, sizeof set, "*3\r\n$3\r\nSET\r\n$24\r\n" GRAPH "\r\n%s", bulk);
        warmd_redis(fd, set, "+OK\r\n");
        warmd_redis(fd, "GET " GRAPH "\r\n", bulk);
    }
    close(fd);
    warmd_down(&k);
}

Test(torch, the_stored_form_cannot_be_forged_over_resp)
{
    static const char set[] =
        "*3\r\n$3\r\nSET\r\n$24\r\n" GRAPH "\r\n$13\r\n\0torch1\n\x80\x04K*.\r\n";
    struct warmd k = warmd_up(NULL);
    int fd = warmd_connect(&k);
    warmd_send(fd, set, sizeof set - 1);
    warmd_redis(fd, "", "+OK\r\n");
    warmd_redis(fd, "EXISTS " GRAPH "\r\n", ":0\r\n");
    close(fd);
    warmd_down(&k);
}

/* ---- long values: a pool thread takes them apart, and they are encoded as the socket takes them ---- */

/* SET of a graph with a pickle of `len` bytes; *out_json is what GET has to answer. Free both. */
static char *long_set(const char *name, size_t len, char **out_json, size_t *out_json_len,
                      size_t *out_len)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t groups = (len + 2) / 3, n;
    char *json = malloc(4 * groups + 64), *set = malloc(4 * groups + 256);
    n = (size_t)sprintf(json, "{\"data\": \"g");
    uint32_t seed = (uint32_t)len;
    for (size_t i = 1; i < 4 * groups; i++) {
        seed = seed * 1664525u + 1013904223u;
        json[n++] = digits[i == 1 ? 0 : seed >> 26];
    }
    if (len % 3) { /* canonical: the bits that no byte gets are zero */
        json[n - 1] = '=';
        json[n - 2] = len % 3 == 1 ? '=' : 'A';
        json[n - 3] = len % 3 == 1 ? 'A' : json[n - 3];
    }
    n += (size_t)sprintf(json + n, "\", \"time_taken_ms\": 77}");
    size_t at =
        (size_t)sprintf(set, "*3\r\n$3\r\nSET\r\n$%zu\r\n%s\r\n$%zu\r\n", strlen(name), name, n);
    memcpy(set + at, json, n);
    memcpy(set + at + n, "\r\n", 2);
    *out_json = json;
    *out_json_len = n;
    *out_len = at + n + 2;
    return set;
}

/* Reads a bulk string in pieces of `step` bytes, and compares. */
static void expect_bulk(int fd, const char *value, size_t len, size_t step)
{
    char head[32];
    snprintf(head, sizeof head, "$%zu\r\n", len);
    warmd_redis(fd, "", head);
    char *got = malloc(step);
    for (size_t at = 0; at < len; at += step) {
        size_t want = len - at < step ? len - at : step;
        cr_assert(warmd_recv(fd, got, want));
        cr_assert_eq(memcmp(got, value + at, want), 0, "another byte after %zu of %zu", at, len);
    }
    free(got);
    warmd_redis(fd, "", "\r\n");
}

/* Expects a stored form of this length under GRAPH: the native protocol returns it as it is. */
static void expect_stored_len(int native, uint32_t tag, size_t len)
{
    static struct warmd_frame f;
    struct wire_hit hit;
    warmd_get(native, tag, GRAPH, false, 0);
    warmd_frame(native, &f, WIRE_HIT, tag);
    cr_assert_eq(wire_get_hit(&f.frame, &hit, NULL), 0);
    cr_assert_eq(hit.len, len);
    if (f.fd >= 0)
        close(f.fd);
}

Test(torch, a_long_value_comes_back_as_it_was)
{
    static const size_t lens[] = {65 * 1024, 1000000, 1000001, 1000002, 3145600};
    struct warmd k = warmd_up(NULL);
    int fd = warmd_connect(&k), native = warmd_native(&k);
    for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
        char *json;
        size_t json_len, len;
        char *set = long_set(GRAPH, lens[i], &json, &json_len, &len);
        warmd_send(fd, set, len);
        warmd_redis(fd, "", "+OK\r\n");
        expect_stored_len(native, (uint32_t)i + 2, lens[i] + 8);
        warmd_send(fd, "GET " GRAPH "\r\nPING\r\n", strlen("GET " GRAPH "\r\nPING\r\n"));
        expect_bulk(fd, json, json_len, 4093 + 10007 * i);
        warmd_redis(fd, "", "+PONG\r\n");
        free(json);
        free(set);
    }
    close(native);
    close(fd);
    warmd_down(&k);
}

Test(torch, answers_keep_their_order_around_a_long_value)
{
    static const char after[] = "*3\r\n$3\r\nSET\r\n$24\r\n" GRAPH "\r\n$5\r\nshort\r\n"
                                "GET " GRAPH "\r\n";
    struct warmd k = warmd_up(NULL);
    int fd = warmd_connect(&k);
    char *json, *set;
    size_t json_len, len;
    set = long_set(GRAPH, 2 << 20, &json, &json_len, &len);
    warmd_redis(fd, "SET " GRAPH " first\r\n", "+OK\r\n");
    warmd_send(fd, set, len);
    warmd_send(fd, after, sizeof after - 1);
    warmd_redis(fd, "", "+OK\r\n+OK\r\n$5\r\nshort\r\n");
    free(json);
    free(set);
    close(fd);
    warmd_down(&k);
}

Test(torch, a_long_value_is_kept_though_its_client_leaves_at_once)
{
    struct warmd k = warmd_up(NULL);
    int other = warmd_connect(&k);
    char *json, *set;
    size_t json_len, len;
    set = long_set(GRAPH, 2 << 20, &json, &json_len, &len);
    for (int i = 0; i < 8; i++) {
        int fd = warmd_connect(&k);
        warmd_send(fd, set, len);
        close(fd);
    }
    bool there = false;
    for (uint64_t end = clock_now_ms() + WARMD_WAIT_MS; !there && clock_now_ms() < end;
         usleep(5000)) {
        char got[4];
        warmd_send(other, "EXISTS " GRAPH "\r\n", strlen("EXISTS " GRAPH "\r\n"));
        cr_assert(warmd_recv(other, got, 4));
        there = memcmp(got, ":1\r\n", 4) == 0;
    }
    cr_assert(there);
    warmd_send(other, "GET " GRAPH "\r\n", strlen("GET " GRAPH "\r\n"));
    expect_bulk(other, json, json_len, 1 << 20);
    free(json);
    free(set);
    close(other);
    warmd_down(&k);
}

Test(torch, values_of_one_command_keep_their_order)
{
    struct warmd k = warmd_up(NULL);
    int fd = warmd_connect(&k);
    char *json, *set, head[128];
    size_t json_len, len;
    set = long_set(GRAPH, 1 << 20, &json, &json_len, &len);
    int n =
        snprintf(head, sizeof head, "*5\r\n$4\r\nMSET\r\n$24\r\n" GRAPH "\r\n$%zu\r\n", json_len);
    warmd_send(fd, head, (size_t)n);
    warmd_send(fd, json, json_len);
    warmd_redis(fd, "\r\n$24\r\n" GRAPH "\r\n$4\r\nlast\r\n", "+OK\r\n");
    warmd_redis(fd, "GET " GRAPH "\r\n", "$4\r\nlast\r\n");
    free(json);
    free(set);
    close(fd);
    warmd_down(&k);
}

/* ---- turns ---- */

Test(torch, of_clients_that_miss_a_graph_one_has_the_turn)
{
    struct warmd k = warmd_up(NULL);
    int first = warmd_connect(&k), second = warmd_connect(&k), other = warmd_connect(&k);
    warmd_redis(first, "GET " GRAPH "\r\n", "$-1\r\n");
    warmd_send(second, "GET " GRAPH "\r\n", strlen("GET " GRAPH "\r\n"));
    warmd_redis(other, "GET pt2:autograd-experimental::a:c1\r\n", "$-1\r\n");
    warmd_redis(other, "GET pt2:autograd-experimental::a:c1\r\n", "$-1\r\n");
    cr_assert(warmd_is_silent(second, 50));
    warmd_redis(first, "*3\r\n$3\r\nSET\r\n$24\r\n" GRAPH "\r\n" VALUE_BULK, "+OK\r\n");
    warmd_redis(second, "", VALUE_BULK);
    close(first);
    close(second);
    close(other);
    warmd_down(&k);
}

Test(torch, the_turn_passes_on_when_its_client_hangs_up)
{
    struct warmd k = warmd_up(NULL);
    int first = warmd_connect(&k), second = warmd_connect(&k);
    warmd_redis(first, "GET " GRAPH "\r\n", "$-1\r\n");
    warmd_send(second, "GET " GRAPH "\r\n", strlen("GET " GRAPH "\r\n"));
    cr_assert(warmd_is_silent(second, 50));
    close(first);
    warmd_redis(second, "", "$-1\r\n");
    warmd_redis(second, "GET " GRAPH "\r\n",
                "$-1\r\n"); /* it has the turn: it does not wait for itself */
    close(second);
    warmd_down(&k);
}

/* ---- ranks ---- */

static int connect_as(const struct warmd *k, const char *introduction)
{
    static struct warmd_frame f;
    struct writer w;
    int fd = warmd_connect(k);
    writer_init(&w, 0);
    wire_put_hello(&w, 1,
                   &(struct wire_hello){.version_min = WIRE_VERSION,
                                        .version_max = WIRE_VERSION,
                                        .client = {introduction, strlen(introduction)}});
    warmd_flush(fd, &w);
    writer_close(&w);
    warmd_frame(fd, &f, WIRE_WELCOME, 1);
    return fd;
}

/* What another process of that introduction is answered: a type of frame. */
static uint8_t ask_elsewhere(const struct warmd *k, const char *introduction, const char *name)
{
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        static struct warmd_frame f;
        int fd = connect_as(k, introduction);
        warmd_get(fd, 2, name, false, 0);
        _exit(warmd_frame_try(fd, &f) ? f.frame.type : 0);
    }
    int status = warmd_reap(pid);
    cr_assert(WIFEXITED(status));
    return (uint8_t)WEXITSTATUS(status);
}

Test(torch, ranks_of_one_job_get_one_answer)
{
    struct warmd k = warmd_up(NULL);
    int rank = connect_as(&k, "python train.py job=one");
    warmd_get(rank, 2, "entry", false, 0);
    warmd_expect(rank, 2, WIRE_MISS);
    warmd_put(rank, 3, "entry", "made", 0);
    warmd_expect(rank, 3, WIRE_OK);
    cr_assert_eq(ask_elsewhere(&k, "python train.py job=one", "entry"), WIRE_MISS);
    cr_assert_eq(ask_elsewhere(&k, "python train.py job=two", "entry"), WIRE_HIT);
    cr_assert_eq(ask_elsewhere(&k, "python train.py", "entry"), WIRE_HIT);
    warmd_get(rank, 4, "entry", false, 0); /* its second question */
    warmd_expect_hit(rank, 4, "made");
    warmd_redis(warmd_connect(&k), "DEL entry\r\n", ":1\r\n");
    cr_assert_eq(ask_elsewhere(&k, "python train.py job=two", "entry"), WIRE_MISS);
    close(rank);
    warmd_down(&k);
}

Test(torch, a_job_that_is_over_leaves_no_answers)
{
    struct warmd k = warmd_up(NULL);
    int rank = connect_as(&k, "python train.py job=one"), other = warmd_connect(&k);
    warmd_get(rank, 2, "entry", false, 0);
    warmd_expect(rank, 2, WIRE_MISS);
    warmd_redis(other, "SET entry made\r\n", "+OK\r\n");
    close(rank);
    warmd_redis(other, "PING\r\n", "+PONG\r\n");
    /* the daemon may not have seen the end of that connection yet */
    uint8_t answer = WIRE_MISS;
    for (uint64_t end = clock_now_ms() + WARMD_WAIT_MS; answer != WIRE_HIT && clock_now_ms() < end;)
        answer = ask_elsewhere(&k, "python train.py job=one", "entry");
    cr_assert_eq(answer, WIRE_HIT);
    close(other);
    warmd_down(&k);
}
