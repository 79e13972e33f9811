/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_conn.c - one connection by itself: HELLO, frames in pieces, descriptors, the buffer, wrong daemons.
 * The test is both ends, on one thread: a read that would wait has a second descriptor that can always be
 * read. test_failopen.c has libwarm's deadlines against a daemon that hangs.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/lib/conn.h"
#include "client/wire/memfd.h"
#include "tests/support/support.h"

#define LONG_MS 60000u /* not reached */

static char *folder, *path;
static int listener, daemon_fd, ready;
static struct conn c;
static struct err e;
static struct wire_frame frame;
static int fds[WIRE_FDS_MAX];

static int listen_at(const char *at)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", at);
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    cr_assert_eq(listen(fd, 8), 0);
    return fd;
}

static uint64_t in_time(void) { return conn_now_ms() + LONG_MS; }

/* Connects, and takes the daemon's end. */
static void connect_both(void)
{
    cr_assert_eq(conn_open(&c, path, in_time(), &e), 0, "%s", e.text);
    daemon_fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    cr_assert_geq(daemon_fd, 0);
}

static void setup(void)
{
    folder = temp_dir_new();
    path = path_join(folder, "s");
    listener = listen_at(path);
    ready = eventfd(1, EFD_CLOEXEC); /* can always be read */
    connect_both();
}

static void teardown(void)
{
    conn_close(&c);
    close(daemon_fd), close(listener), close(ready);
    free(path);
    temp_dir_free(folder);
}

TestSuite(conn, .init = setup, .fini = teardown, .timeout = 120);

/* ---- the daemon's end ---- */

static void say(const void *data, size_t len)
{
    cr_assert(send_with_fds(daemon_fd, data, len, NULL, 0));
}

static void say_frames(struct writer *w)
{
    cr_assert_not(w->failed);
    say(w->data, w->len);
    writer_close(w);
}

static void say_welcome_as(uint16_t version, const char *name)
{
    struct writer w;
    writer_init(&w, 0);
    wire_put_welcome(
        &w, 0,
        &(struct wire_welcome){.version = version, .daemon_uid = 7, .daemon = view_of_text(name)});
    say_frames(&w);
}

/* A TEXT frame that announces n_fds descriptors. */
static void put_text(struct writer *w, unsigned n_fds, uint64_t tag, struct view text)
{
    size_t begun = wire_begin(w, WIRE_TEXT, n_fds, tag);
    writer_bytes(w, text.data, text.len);
    wire_end(w, begun);
}

static void say_text(unsigned n_announced, const int *sent, size_t n_sent, uint64_t tag)
{
    struct writer w;
    writer_init(&w, 0);
    put_text(&w, n_announced, tag, view_of_text("text"));
    cr_assert(send_with_fds(daemon_fd, w.data, w.len, sent, n_sent));
    writer_close(&w);
}

static int receive(void) { return conn_recv(&c, -1, &frame, fds, in_time(), &e); }
/* Takes what is there; CONN_OTHER if a frame is not whole. */
static int look(void) { return conn_recv(&c, ready, &frame, fds, in_time(), &e); }

static void expect_tag(uint64_t tag)
{
    cr_assert_eq(receive(), 0, "%s", e.text);
    cr_expect_eq(frame.type, WIRE_TEXT);
    cr_expect_eq(frame.tag, tag);
}

static int file_of(const char *text) { return memfd_of_bytes("test", text, strlen(text), &e); }

static void expect_file_at(int fd, const char *want)
{
    char text[16] = "";
    cr_assert_geq(fd, 0, "no descriptor of %s", want);
    cr_expect_eq(pread(fd, text, sizeof text - 1, 0), (ssize_t)strlen(want));
    cr_expect_str_eq(text, want);
}

static void expect_file(int fd, const char *want)
{
    expect_file_at(fd, want);
    cr_expect(fcntl(fd, F_GETFD) & FD_CLOEXEC);
}

/* ---- connecting ---- */

Test(conn, the_administrators_socket_stands_beside_the_other)
{
    static const char *const paths[][2] = {
        {"/run/warm/warmd.sock", "/run/warm/admin.sock"},
        {"warmd.sock", "admin.sock"},
        {"/warmd.sock", "/admin.sock"},
        {"/tmp/my.sock", "/tmp/my.sock.admin"},
        {"/tmp/a-warmd.sock", "/tmp/a-warmd.sock.admin"},
        {"/tmp/warmd.sock/s", "/tmp/warmd.sock/s.admin"},
    };
    char out[64];
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        size_t len = strlen(paths[i][1]);
        cr_expect(conn_admin_path(paths[i][0], out, len + 1));
        cr_expect_str_eq(out, paths[i][1]);
        cr_expect_not(conn_admin_path(paths[i][0], out, len), "%s in %zu bytes", paths[i][1], len);
    }
}

static void expect_open(const char *at, int code, const char *text)
{
    struct conn none;
    memset(&none, 1, sizeof none);
    cr_expect_eq(conn_open(&none, at, in_time(), &e), code, "%s: %s", at, e.text);
    cr_expect_not_null(strstr(e.text, text), "%s: %s", at, e.text);
    cr_expect_eq(none.fd, -1);
    conn_close(&none); /* there is nothing, but closing is fine */
}

Test(conn, a_socket_where_no_daemon_listens_is_no_daemon)
{
    char *absent = path_join(folder, "absent"), *file = path_join(folder, "file"),
         *below = path_join(file, "s"), *old = path_join(folder, "old");
    file_write(file, "", 0);
    close(listen_at(old));
    int before = open_descriptors();
    expect_open(absent, WARM_ENO_DAEMON, "no daemon answers at ");
    expect_open(file, WARM_ENO_DAEMON, "no daemon answers at ");
    expect_open(below, WARM_ENO_DAEMON, "no daemon answers at ");
    expect_open(old, WARM_ENO_DAEMON, "Connection refused");
    cr_expect_eq(open_descriptors(), before);
    free(absent), free(below), free(file), free(old);
}

Test(conn, a_path_is_as_long_as_a_socket_address_may_be)
{
    char at[120];
    memset(at, 'x', sizeof at);
    at[108] = '\0';
    expect_open(at, WARM_EINVALID, "has 1 to 107 bytes, not 108");
    at[107] = '\0';
    expect_open(at, WARM_ENO_DAEMON, "no daemon answers at ");
    expect_open("", WARM_EINVALID, "not 0");
}

Test(conn, a_full_queue_is_waited_for_until_the_deadline)
{
    struct conn more[40];
    int code = 0;
    unsigned n = 0;
    for (; !code && n < 40; n++)
        code = conn_open(&more[n], path, conn_now_ms(), &e);
    cr_expect_eq(code, WARM_ETIMEOUT, "%s", e.text);
    cr_expect_not_null(strstr(e.text, "does not accept connections"), "%s", e.text);
    while (n)
        conn_close(&more[--n]);
}

/* Its artifacts would run in the user's programs. */
Test(conn, a_daemon_of_another_user_is_not_used)
{
    NEEDS_TWO_USERS();
    char *shared = path_join(folder, "shared"), *at = path_join(shared, "s"), *out = NULL;
    int ends[2], status;
    char byte;
    cr_assert_eq(chmod(folder, 0755), 0);
    cr_assert_eq(mkdir(shared, 0777), 0);
    cr_assert_eq(chmod(shared, 0777), 0);
    cr_assert_eq(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (setgid(65534) || setuid(65534))
            _exit(1);
        listen_at(at);
        close(ends[1]);
        pause();
    }
    close(ends[1]);
    cr_expect_eq(read(ends[0], &byte, 1), 0, "it listens");
    expect_open(at, WARM_EDENIED, "runs as uid 65534, which is neither you nor root");
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    close(ends[0]);
    free(out), free(at), free(shared);
}

/* ---- HELLO ---- */

static void expect_hello(const char *client)
{
    char bytes[1024];
    struct wire_hello hello;
    cr_assert_eq(conn_send(&c, 0, NULL, 0, in_time(), &e), 0);
    ssize_t n = read(daemon_fd, bytes, sizeof bytes);
    cr_assert_gt(n, 0);
    cr_assert_eq(wire_parse(bytes, (size_t)n, &frame, &e), n, "HELLO alone");
    cr_assert_eq(frame.type, WIRE_HELLO);
    cr_assert_eq(wire_get_hello(&frame, &hello, &e), 0);
    cr_expect(hello.version_min == WIRE_VERSION && hello.version_max == WIRE_VERSION);
    cr_expect_eq(strncmp(hello.client.data, "libwarm ", 8), 0);
    const char *blank = memchr((const char *)hello.client.data + 8, ' ', hello.client.len - 8);
    size_t rest = blank ? hello.client.len - (size_t)(blank - (const char *)hello.client.data) : 0;
    cr_expect(rest == strlen(client) && memcmp(blank ? blank : "", client, rest) == 0, "%.*s",
              (int)hello.client.len, (const char *)hello.client.data);
}

static void again(void)
{
    conn_close(&c);
    close(daemon_fd);
    connect_both();
}

Test(conn, hello_names_the_session_and_the_project)
{
    char session[WIRE_SESSION_MAX + 2], project[WIRE_PROJECT_MAX + 2], want[256];
    expect_hello("");
    setenv("WARM_SESSION", "s-1", 1);
    setenv("WARM_PROJECT", "p", 1);
    again();
    expect_hello(" session=s-1 project=p");
    setenv("WARM_SESSION", "two words", 1);
    setenv("WARM_PROJECT", "", 1);
    again();
    expect_hello("");
    memset(session, 's', sizeof session);
    memset(project, 'p', sizeof project);
    session[WIRE_SESSION_MAX] = project[WIRE_PROJECT_MAX] = '\0';
    setenv("WARM_SESSION", session, 1);
    setenv("WARM_PROJECT", project, 1);
    conn_administer();
    again();
    snprintf(want, sizeof want, " administers session=%s project=%s", session, project);
    expect_hello(want);
    session[WIRE_SESSION_MAX] = 's', session[WIRE_SESSION_MAX + 1] = '\0';
    project[WIRE_PROJECT_MAX] = 'p', project[WIRE_PROJECT_MAX + 1] = '\0';
    setenv("WARM_SESSION", session, 1);
    setenv("WARM_PROJECT", project, 1);
    again();
    expect_hello(" administers");
}

/* ---- WELCOME ---- */

Test(conn, shaking_hands_sends_hello_and_leaves_the_answers)
{
    char bytes[64];
    say_welcome_as(WIRE_VERSION, "warmd 9.8.7");
    say_text(0, NULL, 0, 5);
    cr_assert_eq(conn_shake_hands(&c, in_time(), &e), 0, "%s", e.text);
    cr_expect(c.welcomed && c.daemon_uid == 7);
    cr_expect_str_eq(c.daemon, "warmd 9.8.7");
    cr_expect_gt(recv(daemon_fd, bytes, sizeof bytes, MSG_DONTWAIT), 0);
    cr_assert_eq(conn_shake_hands(&c, 0, &e), 0, "a second time waits for nothing");
    expect_tag(5);
}

Test(conn, a_long_name_of_a_daemon_is_cut)
{
    char name[200] = "";
    memset(name, 'n', sizeof c.daemon + 5);
    say_welcome_as(WIRE_VERSION, name);
    cr_assert_eq(conn_shake_hands(&c, in_time(), &e), 0, "%s", e.text);
    cr_expect_eq(strlen(c.daemon), sizeof c.daemon - 1);
    cr_expect_eq(c.daemon_uid, 7);
}

Test(conn, a_daemon_that_does_not_begin_with_welcome_is_refused)
{
    say_text(0, NULL, 0, 1);
    cr_expect_eq(receive(), WARM_EMALFORMED);
    cr_expect_str_eq(e.text, "the daemon begins with TEXT, not with WELCOME");
}

Test(conn, a_daemon_of_another_version_is_refused)
{
    say_welcome_as(WIRE_VERSION + 1, "warmd");
    cr_expect_eq(conn_shake_hands(&c, in_time(), &e), WARM_EVERSION);
    cr_expect_not(c.welcomed);
}

Test(conn, an_error_in_place_of_welcome_is_its_own_reason)
{
    struct writer w;
    writer_init(&w, 0);
    wire_put_error(&w, 0, &(struct wire_error){-WARM_EBUSY, view_of_text("too many of you")});
    say_frames(&w);
    cr_expect_eq(receive(), WARM_EBUSY);
    cr_expect_str_eq(e.text, "too many of you");
}

Test(conn, an_error_without_a_code_of_ours_is_one_of_io)
{
    static const struct {
        uint32_t number;
        int code;
    } cases[] = {
        {0, WARM_EIO}, {8, WARM_ENOT_FOUND}, {255, -255}, {256, WARM_EIO}, {UINT16_MAX, WARM_EIO}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct writer w;
        struct wire_error error = {.text = view_of_text("why")};
        error.code = (__typeof__(error.code))cases[i].number;
        writer_init(&w, 0);
        wire_put_error(&w, 0, &error);
        cr_assert_gt(wire_parse(w.data, w.len, &frame, &e), 0);
        cr_expect_eq(conn_error(&frame, &e), cases[i].code, "%u", cases[i].number);
        cr_expect_str_eq(e.text, "why");
        frame.payload.len = 0;
        cr_expect_lt(conn_error(&frame, &e), 0, "a short frame");
        writer_close(&w);
    }
}

/* ---- sending ---- */

Test(conn, descriptors_come_with_the_first_byte_of_their_frame)
{
    char bytes[4096], control[CMSG_SPACE(4 * sizeof(int))];
    size_t at = c.out.len;
    put_text(&c.out, 2, 1, view_of_text("with"));
    int sent[2] = {file_of("one"), file_of("two")}, got[2];
    cr_assert_eq(conn_send(&c, at, sent, 2, in_time(), &e), 0, "%s", e.text);
    cr_expect_eq(c.out.len, 0);
    struct iovec part = {bytes, at};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    m.msg_control = control, m.msg_controllen = sizeof control;
    cr_assert_eq(recvmsg(daemon_fd, &m, MSG_CMSG_CLOEXEC), (ssize_t)at, "HELLO");
    cr_expect_eq(m.msg_controllen, 0);
    part.iov_len = 1;
    m.msg_control = control, m.msg_controllen = sizeof control;
    cr_assert_eq(recvmsg(daemon_fd, &m, MSG_CMSG_CLOEXEC), 1);
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    cr_assert(h && h->cmsg_type == SCM_RIGHTS && h->cmsg_len == CMSG_LEN(sizeof got));
    memcpy(got, CMSG_DATA(h), sizeof got);
    expect_file(got[0], "one");
    expect_file(got[1], "two");
    expect_file(sent[0], "one"); /* it was only borrowed */
    close(got[0]), close(got[1]), close(sent[0]), close(sent[1]);
}

Test(conn, a_request_without_memory_is_not_sent)
{
    char byte;
    c.out.failed = true;
    cr_expect_eq(conn_send(&c, 0, NULL, 0, in_time(), &e), WARM_ENOMEM);
    cr_expect_eq(recv(daemon_fd, &byte, 1, MSG_DONTWAIT), -1);
}

Test(conn, sending_to_a_daemon_that_is_gone_is_closed)
{
    close(daemon_fd);
    daemon_fd = -1;
    cr_expect_eq(conn_send(&c, 0, NULL, 0, in_time(), &e), WARM_ECLOSED, "%s", e.text);
}

Test(conn, sending_to_a_daemon_that_does_not_read_ends_by_the_deadline)
{
    writer_reserve(&c.out, 8u << 20);
    cr_assert_not(c.out.failed);
    cr_expect_eq(conn_send(&c, 0, NULL, 0, conn_now_ms(), &e), WARM_ETIMEOUT, "%s", e.text);
}

/* ---- receiving ---- */

Test(conn, a_frame_in_pieces_is_whole_with_its_last_byte)
{
    struct writer w;
    writer_init(&w, 0);
    put_text(&w, 0, 9, view_of_text("pieces"));
    say_welcome_as(WIRE_VERSION, "warmd");
    for (size_t i = 0; i < w.len; i++) {
        cr_assert_eq(look(), CONN_OTHER, "byte %zu: %s", i, e.text);
        say(w.data + i, 1);
    }
    cr_assert_eq(look(), 0, "%s", e.text);
    cr_expect(frame.tag == 9 && frame.payload.len == 6);
    cr_expect_eq(memcmp(frame.payload.data, "pieces", 6), 0);
    writer_close(&w);
}

Test(conn, many_frames_come_in_order_through_a_buffer_that_is_smaller)
{
    enum { N = 60, LEN = 7001 };
    uint8_t value[LEN];
    struct writer w;
    unsigned next = 0;
    size_t sent = 0;
    writer_init(&w, 0);
    for (unsigned i = 0; i < N; i++) {
        memset(value, (int)i, LEN);
        put_text(&w, 0, i, (struct view){value, LEN});
    }
    say_welcome_as(WIRE_VERSION, "warmd");
    while (next < N) {
        ssize_t n = send(daemon_fd, w.data + sent, w.len - sent, MSG_DONTWAIT);
        sent += n > 0 ? (size_t)n : 0;
        while (look() == 0) {
            cr_assert(frame.tag == next && frame.payload.len == LEN, "%u", next);
            memset(value, (int)next++, LEN);
            cr_assert_eq(memcmp(frame.payload.data, value, LEN), 0, "%u", next);
        }
    }
    writer_close(&w);
}

Test(conn, the_largest_frame_comes_and_a_larger_one_is_refused)
{
    uint8_t *value = malloc(WIRE_PAYLOAD_MAX);
    struct writer w;
    size_t sent = 0;
    int code;
    memset(value, 'v', WIRE_PAYLOAD_MAX);
    writer_init(&w, 0);
    put_text(&w, 0, 3, (struct view){value, WIRE_PAYLOAD_MAX});
    say_welcome_as(WIRE_VERSION, "warmd");
    do {
        ssize_t n = send(daemon_fd, w.data + sent, w.len - sent, MSG_DONTWAIT);
        sent += n > 0 ? (size_t)n : 0;
        code = look();
    } while (code == CONN_OTHER);
    cr_assert_eq(code, 0, "%s", e.text);
    cr_expect_eq(frame.payload.len, WIRE_PAYLOAD_MAX);
    cr_expect_eq(memcmp(frame.payload.data, value, WIRE_PAYLOAD_MAX), 0);
    cr_expect_null(conn_give_buffer(&c), "a buffer of another size is not given away");
    w.len = 0;
    put_text(&w, 0, 4, (struct view){value, WIRE_PAYLOAD_MAX});
    w.data[4]++; /* its length */
    say(w.data, WIRE_HEADER);
    cr_expect_eq(receive(), WARM_ETOO_BIG, "%s", e.text);
    writer_close(&w);
    free(value);
}

Test(conn, a_daemon_that_ends_within_a_frame_is_closed)
{
    say_welcome_as(WIRE_VERSION, "warmd");
    say("\xa7", 1);
    shutdown(daemon_fd, SHUT_WR);
    cr_expect_eq(receive(), WARM_ECLOSED, "%s", e.text);
}

Test(conn, bytes_of_another_protocol_are_malformed)
{
    say("HTTP/1.1 400 Bad Request\r\n", 26);
    cr_expect_eq(receive(), WARM_EMALFORMED, "%s", e.text);
}

Test(conn, a_silent_daemon_ends_a_wait_by_the_deadline)
{
    cr_expect_eq(conn_recv(&c, -1, &frame, fds, conn_now_ms(), &e), WARM_ETIMEOUT, "%s", e.text);
    /* from the fourth long wait on, a timer of its own ends them */
    for (int i = 0; i < 6; i++)
        cr_expect_eq(conn_recv(&c, -1, &frame, fds, conn_now_ms() + 260, &e), WARM_ETIMEOUT);
    say_welcome_as(WIRE_VERSION, "warmd");
    say_text(0, NULL, 0, 1);
    expect_tag(1);
}

/* ---- descriptors ---- */

Test(conn, each_frame_gets_the_descriptors_that_it_announces)
{
    int sent[3] = {file_of("one"), file_of("two"), file_of("three")};
    say_welcome_as(WIRE_VERSION, "warmd");
    say_text(2, sent, 2, 1);
    say_text(0, NULL, 0, 2);
    say_text(1, sent + 2, 1, 3);
    expect_tag(1);
    expect_file(fds[0], "one");
    expect_file(fds[1], "two");
    conn_fds_close(fds);
    cr_expect(fds[0] == -1 && fds[1] == -1);
    expect_tag(2);
    cr_expect(fds[0] == -1 && fds[1] == -1);
    expect_tag(3);
    expect_file(fds[0], "three");
    cr_expect_eq(fds[1], -1);
    conn_fds_close(fds);
    close(sent[0]), close(sent[1]), close(sent[2]);
}

Test(conn, descriptors_of_two_frames_in_one_read_stay_apart)
{
    int sent[2] = {file_of("one"), file_of("two")};
    struct writer w;
    say_welcome_as(WIRE_VERSION, "warmd");
    cr_assert_eq(look(), CONN_OTHER);
    writer_init(&w, 0);
    put_text(&w, 1, 1, view_of_text("text"));
    cr_assert(send_with_fds(daemon_fd, w.data, w.len - 1, sent, 1));
    cr_assert_eq(look(), CONN_OTHER);
    say(w.data + w.len - 1, 1);
    say_text(1, sent + 1, 1, 2);
    expect_tag(1);
    expect_file(fds[0], "one");
    conn_fds_close(fds);
    expect_tag(2);
    expect_file(fds[0], "two");
    conn_fds_close(fds);
    close(sent[0]), close(sent[1]);
    writer_close(&w);
}

Test(conn, a_descriptor_that_was_announced_must_have_come)
{
    int sent = file_of("one");
    say_welcome_as(WIRE_VERSION, "warmd");
    say_text(2, &sent, 1, 1);
    cr_expect_eq(receive(), WARM_EMALFORMED);
    cr_expect_str_eq(e.text, "TEXT announces 2 descriptors, 1 came");
    cr_expect(fds[0] == -1 && fds[1] == -1);
    close(sent);
}

Test(conn, more_descriptors_than_one_frame_may_have_are_refused_and_closed)
{
    int sent[3] = {file_of("one"), file_of("two"), file_of("three")}, before = open_descriptors();
    char control[CMSG_SPACE(sizeof sent)] = "";
    struct writer w;
    say_welcome_as(WIRE_VERSION, "warmd");
    cr_assert_eq(look(), CONN_OTHER);
    writer_init(&w, 0);
    put_text(&w, 2, 1, view_of_text("text"));
    struct iovec part = {w.data, w.len};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    m.msg_control = control, m.msg_controllen = sizeof control;
    *CMSG_FIRSTHDR(&m) = (struct cmsghdr){CMSG_LEN(sizeof sent), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), sent, sizeof sent);
    cr_assert_eq(sendmsg(daemon_fd, &m, 0), (ssize_t)w.len);
    cr_expect_eq(receive(), WARM_EMALFORMED, "%s", e.text);
    conn_close(&c);
    cr_expect_eq(open_descriptors(), before - 1);
    close(sent[0]), close(sent[1]), close(sent[2]);
    writer_close(&w);
}

Test(conn, more_descriptors_than_may_wait_are_refused_and_closed)
{
    int sent[2] = {file_of("one"), file_of("two")}, before = open_descriptors();
    say_welcome_as(WIRE_VERSION, "warmd");
    cr_assert_eq(look(), CONN_OTHER);
    for (int i = 0; i < CONN_FDS_WAITING / 2; i++) {
        cr_assert(send_with_fds(daemon_fd, &"\xa7\x92\0\0"[i], 1, sent, 2));
        cr_assert_eq(look(), CONN_OTHER, "%s", e.text);
    }
    cr_expect_eq(open_descriptors(), before + CONN_FDS_WAITING);
    cr_assert(send_with_fds(daemon_fd, "", 1, sent, 2));
    cr_expect_eq(look(), WARM_EMALFORMED, "%s", e.text);
    conn_close(&c);
    cr_expect_eq(open_descriptors(), before - 1, "all of them, and the socket");
    close(sent[0]), close(sent[1]);
}

Test(conn, closing_closes_all_that_was_not_handed_out)
{
    int sent[2] = {file_of("one"), file_of("two")}, before = open_descriptors();
    say_welcome_as(WIRE_VERSION, "warmd");
    say_text(0, sent, 2, 1); /* they belong to no frame */
    expect_tag(1);
    cr_expect_eq(open_descriptors(), before + 2);
    conn_close(&c);
    conn_close(&c);
    cr_expect_eq(open_descriptors(), before - 1);
    cr_expect(c.fd == -1 && !c.in && !c.out.data);
    close(sent[0]), close(sent[1]);
}

/* ---- a descriptor that the program closed ---- */

/* The connection's number is the program's now: `to` stands for what it has there. */
static void take_over(int to) { cr_assert_eq(dup2(to, c.fd), c.fd); }

static void expect_nothing_came(int fd)
{
    char byte;
    cr_expect_eq(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
    cr_expect_eq(errno, EAGAIN);
}

Test(conn, nothing_is_sent_to_a_socket_that_the_program_opened_at_our_number)
{
    int pair[2], number = c.fd;
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    take_over(pair[0]);
    cr_expect_eq(conn_shake_hands(&c, in_time(), &e), WARM_ECLOSED, "%s", e.text);
    expect_nothing_came(pair[1]);
    conn_close(&c);
    cr_expect_neq(fcntl(number, F_GETFD), -1, "it is the program's");
    close(pair[0]), close(pair[1]), close(number);
}

Test(conn, nothing_is_read_from_a_socket_that_the_program_opened_at_our_number)
{
    int pair[2], number = c.fd;
    char byte;
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    say_welcome_as(WIRE_VERSION, "warmd");
    cr_assert_eq(conn_shake_hands(&c, in_time(), &e), 0);
    take_over(pair[0]);
    cr_assert_eq(send(pair[1], "x", 1, 0), 1);
    cr_expect_eq(receive(), WARM_ECLOSED, "%s", e.text);
    cr_expect_eq(recv(number, &byte, 1, MSG_DONTWAIT), 1, "the program's byte is still there");
    close(pair[0]), close(pair[1]), close(number);
}

Test(conn, a_file_at_our_number_and_a_closed_number_are_left_alone)
{
    int file = file_of("theirs"), number = c.fd;
    take_over(file);
    cr_expect_eq(conn_shake_hands(&c, in_time(), &e), WARM_ECLOSED, "%s", e.text);
    conn_close(&c);
    expect_file_at(number, "theirs");
    close(number);
    cr_assert_eq(conn_open(&c, path, in_time(), &e), 0, "%s", e.text);
    close(c.fd);
    cr_expect_eq(conn_shake_hands(&c, in_time(), &e), WARM_ECLOSED, "%s", e.text);
    conn_close(&c);
    close(file);
}

Test(conn, a_connection_never_takes_the_number_of_a_standard_stream)
{
    conn_close(&c);
    pid_t child = fork();
    if (child == 0) {
        for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
            close(fd);
        bool opened = conn_open(&c, path, in_time(), &e) == 0;
        bool free_again = !opened || fcntl(STDIN_FILENO, F_GETFD) < 0;
        _exit(opened && c.fd > STDERR_FILENO && free_again ? 0 : 1);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%d", status);
}

/* ---- the buffer ---- */

static void say_hit(const char *value)
{
    struct writer w;
    writer_init(&w, 0);
    wire_put_hit(&w, 1, &(struct wire_hit){.len = strlen(value), .value = view_of_text(value)});
    say_frames(&w);
}

Test(conn, the_buffer_of_a_hit_is_given_with_an_aligned_value)
{
    struct wire_hit hit;
    say_welcome_as(WIRE_VERSION, "warmd");
    cr_assert_eq(look(), CONN_OTHER);
    say_hit("value");
    cr_assert_eq(receive(), 0, "%s", e.text);
    cr_assert_eq(wire_get_hit(&frame, &hit, &e), 0);
    cr_expect_eq((uintptr_t)hit.value.data % 16, 0);
    void *buffer = conn_give_buffer(&c);
    cr_assert_not_null(buffer);
    cr_expect_eq(memcmp(hit.value.data, "value", 5), 0, "it is still there");
    cr_expect_null(conn_give_buffer(&c), "once");
    say_hit("next");
    cr_assert_eq(receive(), 0, "%s", e.text);
    cr_expect_neq((void *)c.in, buffer);
    cr_expect_eq(memcmp(hit.value.data, "value", 5), 0, "an answer in another buffer");
    conn_buffer_free(buffer);
    again();
    say_welcome_as(WIRE_VERSION, "warmd");
    cr_assert_eq(look(), CONN_OTHER);
    cr_expect_eq((void *)c.in, buffer, "the next connection uses it again");
}

Test(conn, a_buffer_with_a_second_frame_is_kept)
{
    say_welcome_as(WIRE_VERSION, "warmd");
    cr_assert_eq(look(), CONN_OTHER);
    say_hit("value");
    say_text(0, NULL, 0, 2);
    cr_assert_eq(receive(), 0, "%s", e.text);
    cr_expect_null(conn_give_buffer(&c));
    expect_tag(2);
    void *buffer = conn_give_buffer(&c);
    cr_expect_not_null(buffer);
    conn_buffer_free(buffer);
}

/* ---- values as memory files ---- */

Test(conn, a_value_above_the_limit_on_the_size_of_files_is_an_error_and_no_signal)
{
    struct rlimit limit = {.rlim_cur = 4, .rlim_max = RLIM_INFINITY};
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    int fd = memfd_of_bytes("test", "1234", 4, &e);
    cr_expect_geq(fd, 0, "%s", e.text);
    cr_expect_eq(memfd_of_bytes("test", "12345", 5, &e), WARM_ENOMEM);
    cr_expect_eq(memfd_sealed("test", "12345", 5, &e), WARM_ENOMEM);
    limit.rlim_cur = RLIM_INFINITY;
    setrlimit(RLIMIT_FSIZE, &limit);
    close(fd);
}
