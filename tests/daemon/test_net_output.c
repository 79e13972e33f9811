/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_net_output.c - daemon/net/output.c: how the answers of a turn leave, and what waits for a socket that is
 * full. A connection without a server; the test is its protocol, and the client at the other end.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/net/internal.h"
#include "daemon/pytorch/torch_value.h"
#include "daemon/users/budget.h"
#include "tests/support/service.h"

#define USER 1000u
#define FULL (4u << 20) /* bytes: more than a socket takes */

static struct service_rig rig;
static struct turn turn;
static struct connection *conn;
static int client;

static void on_close(void *arg, struct connection *c) { (void)arg, (void)c; }
static void on_freed(void *arg) { *(bool *)arg = true; }

static void setup(void)
{
    static bool freed;
    struct peer peer = {.uid = USER, .space = USER};
    int pair[2];
    service_rig_up(&rig);
    turn.loop = &rig.loop;
    turn.service = rig.service;
    turn.on_close = on_close;
    turn.on_freed = on_freed;
    turn.arg = &freed;
    writer_init(&turn.out, 0);
    uv_idle_init(&rig.loop, &turn.idle);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    client = pair[1];
    conn = connection_new(&turn, pair[0], &peer);
    cr_assert(conn);
    turn_begin(&turn, conn);
}

static void teardown(void)
{
    output_clear(&turn);
    connection_close(conn);
    service_rig_until(&rig, turn.arg);
    uv_close((uv_handle_t *)&turn.idle, NULL);
    writer_close(&turn.out);
    close(client);
    service_rig_down(&rig);
    cr_expect_eq(budget_used(USER, BUDGET_buffers), 0u);
    cr_expect_eq(budget_used(USER, BUDGET_descriptors), 0u);
}

TestSuite(net_output, .init = setup, .fini = teardown, .timeout = 120);

/* ---- both ends ---- */

static void answer_with(const char *text, const int *fds, unsigned n_fds)
{
    writer_bytes(connection_begin(conn), text, strlen(text));
    connection_commit(conn, fds, n_fds);
}

static void answer(const char *text) { answer_with(text, NULL, 0); }

static ino_t inode_of(int fd)
{
    struct stat st;
    cr_assert_eq(fstat(fd, &st), 0, "%d: %s", fd, strerror(errno));
    return st.st_ino;
}

/* Reads at most `max` bytes at once; a descriptor that came goes to *out_fd. Returns them as a string. */
static const char *read_once(size_t max, int *out_fd)
{
    static char text[256];
    union {
        char bytes[CMSG_SPACE(WIRE_FDS_MAX * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec iov = {text, max};
    cr_assert_lt(max, sizeof text);
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof control.bytes};
    ssize_t n = recvmsg(client, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    text[n > 0 ? n : 0] = '\0';
    *out_fd = -1;
    struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
    if (c)
        memcpy(out_fd, CMSG_DATA(c), sizeof *out_fd);
    return text;
}

/* Expects these bytes in one read, and nothing behind them if they are "". A descriptor comes, too, if
 * `want_inode` is one. */
static void expect_with(const char *want, ino_t want_inode)
{
    int fd;
    cr_expect_str_eq(read_once(*want ? strlen(want) : 1, &fd), want);
    cr_expect_eq(fd >= 0, want_inode != 0, "with '%s'", want);
    if (fd < 0)
        return;
    cr_expect_eq(inode_of(fd), want_inode);
    close(fd);
}

static void expect_once(const char *want) { expect_with(want, 0); }

/* Reads these bytes, and sends more of the queue as they leave room. */
static void expect_bytes(const void *want, size_t len)
{
    uint8_t *got = malloc(len);
    size_t n = 0;
    while (n < len) {
        ssize_t more = recv(client, got + n, len - n, MSG_DONTWAIT);
        cr_assert_neq(more, 0, "the end");
        if (more > 0) {
            n += (size_t)more;
            continue;
        }
        cr_assert(conn->queue, "%zu of %zu bytes came", n, len);
        cr_assert(output_send_queue(conn));
    }
    cr_expect_eq(memcmp(got, want, len), 0);
    free(got);
}

/* Returns bytes that differ from their neighbours; free() them. */
static uint8_t *some_bytes(size_t len)
{
    uint8_t *data = malloc(len);
    for (size_t i = 0; i < len; i++)
        data[i] = (uint8_t)(i * 7 + i / 251);
    return data;
}

static int file_of(const void *data, size_t len)
{
    int fd = memfd_create("file", MFD_CLOEXEC);
    cr_assert_eq(write(fd, data, len), (ssize_t)len);
    return fd;
}

static bool is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }

/* Sends more than the socket takes. Returns what the client must read first; free() it. */
static uint8_t *fill(void)
{
    uint8_t *data = some_bytes(FULL);
    connection_borrow(conn, data, FULL);
    cr_assert(output_flush(conn));
    cr_assert(conn->queue);
    return data;
}

/* ---- one turn ---- */

Test(net_output, answers_of_a_turn_leave_together_at_its_end)
{
    answer("one ");
    answer("two ");
    connection_borrow(conn, "three ", 6);
    answer("four");
    expect_once("");
    cr_expect_eq(turn.n_items, 3u, "neighbours are one piece");
    cr_assert(output_flush(conn));
    expect_once("one two three four");
    expect_once("");
    cr_expect_eq(turn.n_items + turn.n_batched + turn.out.len, 0u);
    cr_expect_null(conn->queue);
}

Test(net_output, more_pieces_than_a_turn_holds_leave_in_order)
{
    enum { PIECES = 3 * OUTPUT_ITEMS };
    uint8_t *data = some_bytes(PIECES);
    for (unsigned i = 0; i < PIECES; i++)
        connection_borrow(conn, data + i, 1);
    cr_assert(output_flush(conn));
    expect_bytes(data, PIECES);
    free(data);
}

Test(net_output, a_descriptor_comes_with_the_first_byte_of_its_answer)
{
    int first = file_of("1", 1), second = file_of("2", 1);
    ino_t one = inode_of(first), two = inode_of(second);
    answer("before ");
    answer_with("first ", &first, 1);
    answer_with("second ", &second, 1);
    answer("after");
    cr_assert(output_flush(conn));
    expect_once("before ");
    expect_with("first ", one);
    expect_with("second ", two);
    expect_once("after");
    cr_expect_not(is_open(first), "sent descriptors are closed");
    cr_expect_not(is_open(second), "sent descriptors are closed");
}

Test(net_output, an_artifacts_descriptor_has_an_offset_of_its_own_and_cannot_write)
{
    enum { LEN = ARTIFACT_INLINE_MAX + 1 };
    uint8_t *data = some_bytes(LEN);
    struct artifact *a = NULL;
    int got;
    cr_assert_eq(artifact_from_fd(file_of(data, LEN), LEN, NULL, &a, NULL), 0);
    cr_assert(a->fd >= 0);
    writer_bytes(connection_begin(conn), "here", 4);
    connection_commit_artifact(conn, a);
    cr_assert(output_flush(conn));
    cr_expect_str_eq(read_once(4, &got), "here");
    cr_assert_neq(got, -1);
    cr_expect_eq(inode_of(got), inode_of(a->fd));
    cr_expect_eq(lseek(got, 5, SEEK_SET), 5);
    cr_expect_neq(lseek(a->fd, 0, SEEK_CUR), 5);
    cr_expect_eq(fcntl(got, F_GETFL) & O_ACCMODE, O_RDONLY);
    cr_expect_eq(a->refs, 1u, "its reference went with it");
    close(got);
    artifact_unref(a);
    free(data);
}

Test(net_output, an_answer_without_memory_ends_the_connection)
{
    answer("whole ");
    writer_bytes(connection_begin(conn), "half", 4);
    turn.out.failed = true;
    connection_commit(conn, NULL, 0);
    cr_expect(conn->ended && conn->ending);
    cr_expect_eq(turn.out.len, 6u, "half an answer is left behind");
    cr_expect_eq(turn_next_ready(&turn), conn, "the loop closes it");
    cr_assert(output_flush(conn));
    expect_once("whole ");
}

/* ---- the queue ---- */

Test(net_output, bytes_that_the_socket_does_not_take_wait_in_order)
{
    uint8_t *data = fill();
    answer("after ");
    connection_borrow(conn, "the rest", 8);
    cr_expect_eq(turn.n_items, 0u, "all goes through the queue");
    cr_expect_eq(turn_next_ready(&turn), conn);
    uint8_t *copy = malloc(FULL);
    memcpy(copy, data, FULL);
    memset(data, 0, FULL); /* borrowed bytes are copied by then */
    expect_bytes(copy, FULL);
    expect_bytes("after the rest", 14);
    cr_expect_null(conn->queue);
    cr_expect_eq(conn->queued, 0u);
    answer("next");
    cr_expect_eq(turn.n_items, 1u, "the queue is empty: a turn is batched again");
    cr_assert(output_flush(conn));
    expect_once("next");
    free(copy);
    free(data);
}

Test(net_output, an_answer_outside_its_turn_waits_for_its_own)
{
    turn.current = NULL;
    answer("late");
    expect_once("");
    cr_expect_eq(turn.n_items, 0u);
    cr_expect_eq(turn.out.len, 0u);
    cr_expect_eq(turn_next_ready(&turn), conn);
    cr_assert(output_send_queue(conn));
    expect_once("late");
}

Test(net_output, what_waits_counts_to_its_user_until_it_is_sent_or_dropped)
{
    int fd = file_of("1", 1);
    uint8_t *data = fill();
    uint64_t before = budget_used(USER, BUDGET_buffers);
    cr_expect_geq(before, conn->queued);
    cr_expect_geq(conn->queued, FULL / 2);
    answer_with("more", &fd, 1);
    cr_expect_geq(budget_used(USER, BUDGET_buffers), before + 4);
    cr_expect_eq(budget_used(USER, BUDGET_descriptors), 1u);
    cr_expect(is_open(fd));
    output_drop_queue(conn);
    cr_expect_not(is_open(fd));
    cr_expect_eq(conn->queued, 0u);
    cr_expect_eq(budget_used(USER, BUDGET_buffers), 0u);
    cr_expect_eq(budget_used(USER, BUDGET_descriptors), 0u);
    free(data);
}

Test(net_output, a_descriptor_that_waits_comes_with_its_answer)
{
    int fd = file_of("1", 1);
    ino_t want = inode_of(fd);
    uint8_t *data = fill();
    answer("before ");
    answer_with("with it", &fd, 1);
    expect_bytes(data, FULL);
    while (conn->queue)
        cr_assert(output_send_queue(conn));
    expect_once("before ");
    expect_with("with it", want);
    cr_expect_not(is_open(fd));
    free(data);
}

Test(net_output, an_artifacts_bytes_wait_without_a_copy)
{
    uint8_t *data = fill();
    struct artifact *a = artifact_from_bytes("the value", 9);
    connection_share(conn, a);
    cr_expect_eq(a->refs, 2u);
    struct output_piece *last = conn->queue;
    while (last->next)
        last = last->next;
    cr_expect_eq(last->bytes, a->data);
    expect_bytes(data, FULL);
    expect_bytes("the value", 9);
    cr_expect_eq(a->refs, 1u);
    artifact_unref(a);
    free(data);
}

/* ---- files ---- */

Test(net_output, the_beginning_of_a_file_comes_after_the_answer_before_it)
{
    uint8_t *data = some_bytes(FULL);
    int fd = file_of(data, FULL);
    answer("head ");
    connection_send_file(conn, fd, FULL - 3);
    answer(" tail");
    cr_expect_eq(budget_used(USER, BUDGET_descriptors), 1u);
    expect_bytes("head ", 5);
    expect_bytes(data, FULL - 3);
    expect_bytes(" tail", 5);
    cr_expect_not(is_open(fd));
    cr_expect_null(conn->queue);
    free(data);
}

Test(net_output, a_file_comes_after_bytes_that_wait)
{
    uint8_t *data = fill();
    connection_send_file(conn, file_of("the file", 8), 8);
    answer("tail");
    expect_bytes(data, FULL);
    expect_bytes("the filetail", 12);
    free(data);
}

Test(net_output, a_file_that_ends_early_breaks_the_connection)
{
    connection_send_file(conn, file_of("short", 5), 6);
    cr_expect_not(output_send_queue(conn));
    expect_once("short");
}

/* The encoding of a file from `from` on comes whole, however the socket cuts it. */
static void expect_base64(uint64_t from, size_t len)
{
    uint8_t *data = some_bytes(from + len);
    size_t n = torch_value_encoded_len(len);
    uint8_t *want = malloc(n);
    torch_value_encode(data + from, len, want);
    connection_send_base64(conn, file_of(data, from + len), from, len);
    answer(".");
    expect_bytes(want, n);
    expect_bytes(".", 1);
    free(want);
    free(data);
}

Test(net_output, a_file_is_encoded_as_the_socket_takes_it)
{
    int small = 3001; /* bytes: what fits is no multiple of four letters */
    cr_assert_eq(setsockopt(conn->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
    expect_base64(0, 1);
    expect_base64(8, 100);
    expect_base64(7, (1u << 20) + 1);
    expect_base64(5, (1u << 20) + 2);
}

Test(net_output, an_encoded_file_that_ends_early_breaks_the_connection)
{
    connection_send_base64(conn, file_of("short", 5), 3, 3);
    cr_expect_not(output_send_queue(conn));
    expect_once("");
}

Test(net_output, output_for_a_client_that_is_gone_goes_nowhere)
{
    shutdown(client, SHUT_RD);
    for (int i = 0; i < 2; i++) {
        answer("nobody reads it");
        cr_expect(output_flush(conn));
        cr_expect(conn->deaf);
        cr_expect_eq(turn.n_items, 0u);
        cr_expect_null(conn->queue);
    }
}
