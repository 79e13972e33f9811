/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_torch.c - what PyTorch's caches are given beyond Redis: its values taken apart, turns at its
 * graphs, one answer for all ranks of a job. The programs themselves are in tests/clients.
 */
#include "tests/support/daemon_kit.h"

#define GRAPH "pt2:fx-graph-v1::fabc:c1"
/* a pickle of five bytes: 80 04 4b 2a 2e */
#define VALUE "{\"data\": \"gARLKi4=\", \"time_taken_ms\": 30499}"
#define VALUE_BULK "$44\r\n" VALUE "\r\n"

Test(torch, a_value_comes_back_as_it_was_and_is_kept_as_its_pickle)
{
    struct kit k = kit_up(NULL);
    int fd = kit_connect(&k), native = kit_native(&k);
    kit_redis(fd, "*3\r\n$3\r\nSET\r\n$24\r\n" GRAPH "\r\n" VALUE_BULK, "+OK\r\n");
    kit_redis(fd, "GET " GRAPH "\r\n", VALUE_BULK);
    kit_redis(fd, "STRLEN " GRAPH "\r\n", ":13\r\n");
    static struct kit_frame f;
    struct wire_hit hit;
    kit_get(native, 2, GRAPH, false, 0);
    kit_frame(native, &f, WIRE_HIT, 2);
    cr_assert_eq(wire_get_hit(&f.frame, &hit, NULL), 0);
    cr_assert_eq(hit.cost_ms, 30499, "eviction knows what it took to make");
    cr_assert_eq(hit.len, 13);
    cr_assert_eq(memcmp(hit.value.data, "\0torch1\n\x80\x04K*.", 13), 0);
    close(native);
    close(fd);
    kit_down(&k);
}

Test(torch, other_bytes_under_its_names_come_back_as_they_were)
{
    static const char *const values[] = {"garbage", "{\"data\": \"gASV", "{\"data\": 5}", ""};
    struct kit k = kit_up(NULL);
    int fd = kit_connect(&k);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char set[128], bulk[64];
        snprintf(bulk, sizeof bulk, "$%zu\r\n%s\r\n", strlen(values[i]), values[i]);
        snprintf(set, sizeof set, "*3\r\n$3\r\nSET\r\n$24\r\n" GRAPH "\r\n%s", bulk);
        kit_redis(fd, set, "+OK\r\n");
        kit_redis(fd, "GET " GRAPH "\r\n", bulk);
    }
    close(fd);
    kit_down(&k);
}

Test(torch, the_stored_form_cannot_be_forged_over_resp)
{
    static const char set[] =
        "*3\r\n$3\r\nSET\r\n$24\r\n" GRAPH "\r\n$13\r\n\0torch1\n\x80\x04K*.\r\n";
    struct kit k = kit_up(NULL);
    int fd = kit_connect(&k);
    kit_send(fd, set, sizeof set - 1);
    kit_redis(fd, "", "+OK\r\n");
    kit_redis(fd, "EXISTS " GRAPH "\r\n", ":0\r\n");
    close(fd);
    kit_down(&k);
}

Test(torch, of_clients_that_miss_a_graph_one_has_the_turn)
{
    struct kit k = kit_up(NULL);
    int first = kit_connect(&k), second = kit_connect(&k), other = kit_connect(&k);
    kit_redis(first, "GET " GRAPH "\r\n", "$-1\r\n");
    kit_send(second, "GET " GRAPH "\r\n", strlen("GET " GRAPH "\r\n"));
    kit_redis(other, "GET pt2:autograd-experimental::a:c1\r\n", "$-1\r\n");
    kit_redis(other, "GET pt2:autograd-experimental::a:c1\r\n", "$-1\r\n");
    cr_assert(kit_is_silent(second, 50));
    kit_redis(first, "*3\r\n$3\r\nSET\r\n$24\r\n" GRAPH "\r\n" VALUE_BULK, "+OK\r\n");
    kit_redis(second, "", VALUE_BULK);
    close(first);
    close(second);
    close(other);
    kit_down(&k);
}

Test(torch, the_turn_passes_on_when_its_client_hangs_up)
{
    struct kit k = kit_up(NULL);
    int first = kit_connect(&k), second = kit_connect(&k);
    kit_redis(first, "GET " GRAPH "\r\n", "$-1\r\n");
    kit_send(second, "GET " GRAPH "\r\n", strlen("GET " GRAPH "\r\n"));
    cr_assert(kit_is_silent(second, 50));
    close(first);
    kit_redis(second, "", "$-1\r\n");
    kit_redis(second, "GET " GRAPH "\r\n",
              "$-1\r\n"); /* it has the turn: it does not wait for itself */
    close(second);
    kit_down(&k);
}

/* ---- ranks ---- */

static int connect_as(const struct kit *k, const char *introduction)
{
    static struct kit_frame f;
    struct writer w;
    int fd = kit_connect(k);
    writer_init(&w, 0);
    wire_put_hello(&w, 1,
                   &(struct wire_hello){.version_min = WIRE_VERSION,
                                        .version_max = WIRE_VERSION,
                                        .client = {introduction, strlen(introduction)}});
    kit_flush(fd, &w);
    writer_close(&w);
    kit_frame(fd, &f, WIRE_WELCOME, 1);
    return fd;
}

/* What another process of that introduction is answered: a type of frame. */
static uint8_t ask_elsewhere(const struct kit *k, const char *introduction, const char *name)
{
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        static struct kit_frame f;
        int fd = connect_as(k, introduction);
        kit_get(fd, 2, name, false, 0);
        _exit(kit_frame_try(fd, &f) ? f.frame.type : 0);
    }
    int status = kit_reap(pid);
    cr_assert(WIFEXITED(status));
    return (uint8_t)WEXITSTATUS(status);
}

Test(torch, ranks_of_one_job_get_one_answer)
{
    struct kit k = kit_up(NULL);
    int rank = connect_as(&k, "python train.py job=one");
    kit_get(rank, 2, "entry", false, 0);
    kit_expect(rank, 2, WIRE_MISS);
    kit_put(rank, 3, "entry", "made", 0);
    kit_expect(rank, 3, WIRE_OK);
    cr_assert_eq(ask_elsewhere(&k, "python train.py job=one", "entry"), WIRE_MISS);
    cr_assert_eq(ask_elsewhere(&k, "python train.py job=two", "entry"), WIRE_HIT);
    cr_assert_eq(ask_elsewhere(&k, "python train.py", "entry"), WIRE_HIT);
    kit_get(rank, 4, "entry", false, 0); /* its second question */
    kit_expect_hit(rank, 4, "made");
    kit_redis(kit_connect(&k), "DEL entry\r\n", ":1\r\n");
    cr_assert_eq(ask_elsewhere(&k, "python train.py job=two", "entry"), WIRE_MISS);
    close(rank);
    kit_down(&k);
}

Test(torch, a_job_that_is_over_leaves_no_answers)
{
    struct kit k = kit_up(NULL);
    int rank = connect_as(&k, "python train.py job=one"), other = kit_connect(&k);
    kit_get(rank, 2, "entry", false, 0);
    kit_expect(rank, 2, WIRE_MISS);
    kit_redis(other, "SET entry made\r\n", "+OK\r\n");
    close(rank);
    kit_redis(other, "PING\r\n", "+PONG\r\n");
    /* the daemon may not have seen the end of that connection yet */
    uint8_t answer = WIRE_MISS;
    for (uint64_t end = kit_now_ms() + KIT_WAIT_MS; answer != WIRE_HIT && kit_now_ms() < end;)
        answer = ask_elsewhere(&k, "python train.py job=one", "entry");
    cr_assert_eq(answer, WIRE_HIT);
    close(other);
    kit_down(&k);
}
