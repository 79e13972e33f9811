/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_failopen.c - whatever is at the other end, libwarm returns within its deadline.
 *
 * The daemon here is a thread with a script: it accepts, does one thing, and waits at a barrier
 * until the client has returned. Nothing sleeps.
 */
#include <criterion/criterion.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/lib/conn.h"
#include "client/lib/warm.h"
#include "keygen/err.h"
#include "tests/support/support.h"

#define DEADLINE_MS 150u
#define SLACK_MS 1500u /* a busy machine, not a second try */

struct fake {
    char *dir, *path;
    int listener;
    void (*script)(struct fake *f, int fd);
    const void *arg;
    pthread_t thread;
    pthread_barrier_t returned; /* the client call came back */
};

static void *fake_main(void *arg)
{
    struct fake *f = arg;
    int fd = accept(f->listener, NULL, NULL);
    if (f->script && fd >= 0)
        f->script(f, fd);
    pthread_barrier_wait(&f->returned);
    if (fd >= 0)
        close(fd);
    return NULL;
}

static void fake_listen(struct fake *f)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    f->dir = temp_dir_new();
    f->path = path_join(f->dir, "s");
    strcpy(address.sun_path, f->path);
    f->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(f->listener, (struct sockaddr *)&address, sizeof address), 0);
    cr_assert_eq(listen(f->listener, 8), 0);
}

static void fake_start(struct fake *f, void (*script)(struct fake *, int), const void *arg)
{
    fake_listen(f);
    f->script = script;
    f->arg = arg;
    pthread_barrier_init(&f->returned, NULL, 2);
    cr_assert_eq(pthread_create(&f->thread, NULL, fake_main, f), 0);
}

static void fake_stop(struct fake *f)
{
    pthread_barrier_wait(&f->returned);
    pthread_join(f->thread, NULL);
    pthread_barrier_destroy(&f->returned);
    close(f->listener);
    free(f->path);
    temp_dir_free(f->dir);
}

static struct warm *open_at(const char *path)
{
    struct warm_options options = {
        .socket = path, .connect_timeout_ms = DEADLINE_MS, .request_timeout_ms = DEADLINE_MS};
    struct warm *w;
    cr_assert_eq(warm_open(&w, &options), 0);
    return w;
}

/* One get against a script: its code, and that it came in time. */
static int get_against(void (*script)(struct fake *, int), const void *arg)
{
    struct fake f;
    struct warm_value v = {0};
    fake_start(&f, script, arg);
    struct warm *w = open_at(f.path);
    uint64_t began_ms = conn_now_ms();
    int code = warm_get(w, "name", 4, 0, &v);
    uint64_t took_ms = conn_now_ms() - began_ms;
    cr_assert_lt(took_ms, 2 * DEADLINE_MS + SLACK_MS, "%lu ms", (unsigned long)took_ms);
    if (code)
        cr_assert_gt(strlen(warm_message(w)), 0);
    else
        warm_value_free(&v);
    fake_stop(&f);
    warm_close(w);
    return code;
}

/* ---- scripts ---- */

static void read_request(int fd)
{
    char request[4096];
    ssize_t n = read(fd, request, sizeof request);
    (void)n;
}

static void say_bytes(struct fake *f, int fd)
{
    const struct view *bytes = f->arg;
    read_request(fd);
    ssize_t n = send(fd, bytes->data, bytes->len, MSG_NOSIGNAL);
    (void)n;
    shutdown(fd, SHUT_WR);
}

static void say_nothing(struct fake *f, int fd) { (void)f, read_request(fd); }

static void close_at_once(struct fake *f, int fd)
{
    (void)f;
    read_request(fd);
    shutdown(fd, SHUT_RDWR);
}

enum { FILE_LEN = 70001 }; /* of no whole number of blocks */

/* WELCOME, a HIT whose value is the file with that descriptor, and a MISS to a second try. */
static void say_file(struct fake *f, int fd)
{
    static char bytes[FILE_LEN];
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct writer w;
    struct wire_hit hit = {.len = FILE_LEN, .check = key_of_bytes(bytes, FILE_LEN)};
    writer_init(&w, 0);
    wire_put_welcome(&w, 0, &(struct wire_welcome){.version = WIRE_VERSION, .daemon = {"d", 1}});
    read_request(fd);
    ssize_t n = send(fd, w.data, w.len, MSG_NOSIGNAL);
    w.len = 0;
    wire_put_hit(&w, 1, &hit);
    struct iovec iov = {w.data, w.len};
    struct msghdr m = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), f->arg, sizeof(int));
    n = sendmsg(fd, &m, MSG_NOSIGNAL);
    w.len = 0;
    wire_put_empty(&w, WIRE_MISS, 3); /* tag 2 tells of the damage */
    n = send(fd, w.data, w.len, MSG_NOSIGNAL);
    (void)n;
    writer_close(&w);
    shutdown(fd, SHUT_WR);
}

/* Sends WELCOME and the frames that `fill` adds, as one answer. */
static int get_against_frames(void (*fill)(struct writer *w), size_t cut)
{
    struct writer w;
    writer_init(&w, 0);
    wire_put_welcome(&w, 0, &(struct wire_welcome){.version = WIRE_VERSION, .daemon = {"d", 1}});
    fill(&w);
    struct view bytes = {w.data, w.len - cut};
    int code = get_against(say_bytes, &bytes);
    writer_close(&w);
    return code;
}

static void add_hit(struct writer *w)
{
    struct wire_hit hit = {.len = 5, .check = key_of_bytes("value", 5), .value = {"value", 5}};
    wire_put_hit(w, 1, &hit);
}

static void add_damaged_hit(struct writer *w)
{
    struct wire_hit hit = {.len = 5, .check = key_of_bytes("other", 5), .value = {"value", 5}};
    wire_put_hit(w, 1, &hit);
    wire_put_hit(w, 3, &hit); /* the second try: tag 2 told of the damage */
}

static void add_hit_without_descriptor(struct writer *w)
{
    wire_put_hit(w, 1, &(struct wire_hit){.len = 1 << 20});
}

static void add_unasked(struct writer *w)
{
    wire_put_progress(w, 1, &(struct wire_progress){1, 2});
}

static void add_others_answers(struct writer *w)
{
    wire_put_empty(w, WIRE_MISS, 77);
    add_hit(w);
}

static void add_error(struct writer *w)
{
    wire_put_error(w, 1, &(struct wire_error){-WARM_EDENIED, {"not yours", 9}});
}

static void add_unknown_type(struct writer *w)
{
    size_t begun = wire_begin(w, 0xee, 0, 1);
    wire_end(w, begun);
}

/* ---- facts ---- */

Test(failopen, the_fake_daemon_works) { cr_assert_eq(get_against_frames(add_hit, 0), 0); }

Test(failopen, no_socket_is_no_daemon_at_once)
{
    struct warm_options options = {.socket = "/nonexistent/warmd.sock"};
    struct warm *w;
    cr_assert_eq(warm_open(&w, &options), WARM_ENO_DAEMON);
}

Test(failopen, a_stale_socket_is_no_daemon)
{
    struct fake f;
    struct warm *w;
    fake_listen(&f);
    close(f.listener);
    struct warm_options options = {.socket = f.path};
    cr_assert_eq(warm_open(&w, &options), WARM_ENO_DAEMON);
    free(f.path);
    temp_dir_free(f.dir);
}

Test(failopen, warm_disable_is_no_daemon)
{
    struct fake f;
    struct warm *w;
    fake_listen(&f);
    setenv("WARM_DISABLE", "1", 1);
    struct warm_options options = {.socket = f.path};
    cr_assert_eq(warm_open(&w, &options), WARM_ENO_DAEMON);
    unsetenv("WARM_DISABLE");
    close(f.listener);
    free(f.path);
    temp_dir_free(f.dir);
}

Test(failopen, a_path_too_long_for_a_socket_is_invalid)
{
    char path[200];
    memset(path, 'x', sizeof path);
    path[sizeof path - 1] = '\0';
    struct warm_options options = {.socket = path};
    struct warm *w;
    cr_assert_eq(warm_open(&w, &options), WARM_EINVALID);
}

/* Connections that nobody accepts fill the queue; the next one waits for its deadline only. */
Test(failopen, a_full_queue_is_a_timeout, .timeout = 20)
{
    struct fake f;
    struct warm *held[64];
    int code = 0;
    size_t n = 0;
    fake_listen(&f);
    struct warm_options options = {.socket = f.path, .connect_timeout_ms = DEADLINE_MS};
    while (n < 64 && (code = warm_open(&held[n], &options)) == 0)
        n++;
    cr_assert_eq(code, WARM_ETIMEOUT);
    while (n)
        warm_close(held[--n]);
    close(f.listener);
    free(f.path);
    temp_dir_free(f.dir);
}

Test(failopen, a_daemon_that_hangs_is_a_timeout)
{
    cr_assert_eq(get_against(say_nothing, NULL), WARM_ETIMEOUT);
}

/* WELCOME and WAIT, then nothing more. */
static void wait_for_ever(struct fake *f, int fd)
{
    struct writer w;
    (void)f;
    read_request(fd);
    writer_init(&w, 0);
    wire_put_welcome(&w, 0, &(struct wire_welcome){.version = WIRE_VERSION});
    wire_put_wait(&w, 1, &(struct wire_wait){2, 10});
    ssize_t n = send(fd, w.data, w.len, MSG_NOSIGNAL);
    (void)n;
    writer_close(&w);
}

Test(failopen, a_wait_without_end_is_a_timeout)
{
    cr_assert_eq(get_against(wait_for_ever, NULL), WARM_ETIMEOUT);
}

Test(failopen, a_daemon_that_hangs_up_is_closed)
{
    cr_assert_eq(get_against(close_at_once, NULL), WARM_ECLOSED);
}

Test(failopen, rubbish_is_malformed)
{
    static const char http[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
    cr_assert_eq(get_against(say_bytes, &(struct view){http, sizeof http - 1}), WARM_EMALFORMED);
}

Test(failopen, half_a_frame_is_closed)
{
    for (size_t cut = 1; cut < 80; cut += 13)
        cr_assert_eq(get_against_frames(add_hit, cut), WARM_ECLOSED, "cut by %zu", cut);
}

Test(failopen, a_frame_of_a_gigabyte_is_too_big)
{
    static const char huge[] = "\xa7\x81\0\0\0\0\0\x40\0\0\0\0\0\0\0\0";
    cr_assert_eq(get_against(say_bytes, &(struct view){huge, 16}), WARM_ETOO_BIG);
}

Test(failopen, another_version_is_told)
{
    struct writer w;
    writer_init(&w, 0);
    wire_put_welcome(&w, 0, &(struct wire_welcome){.version = 9});
    cr_assert_eq(get_against(say_bytes, &(struct view){w.data, w.len}), WARM_EVERSION);
    w.len = 0;
    wire_put_error(&w, 0, &(struct wire_error){-WARM_EVERSION, {"only 2 to 3", 11}});
    cr_assert_eq(get_against(say_bytes, &(struct view){w.data, w.len}), WARM_EVERSION);
    writer_close(&w);
}

Test(failopen, a_damaged_value_never_reaches_the_caller)
{
    cr_assert_eq(get_against_frames(add_damaged_hit, 0), WARM_ENOT_FOUND);
}

/* O_DIRECT: reads of odd lengths fail, a mapping does not. */
Test(failopen, a_file_that_cannot_be_read_as_it_was_opened_is_mapped)
{
    char *dir = temp_dir_new(), *path = path_join(dir, "value");
    static char bytes[FILE_LEN];
    file_write(path, bytes, sizeof bytes);
    int fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (fd < 0 || pread(fd, bytes, sizeof bytes, 0) >= 0)
        cr_skip_test("this file system reads anything with O_DIRECT, or nothing");
    cr_assert_eq(get_against(say_file, &fd), 0);
    close(fd);
    free(path);
    temp_dir_free(dir);
}

/* Neither read nor mapped: as good as damaged, and a miss for the caller. */
Test(failopen, a_file_that_cannot_be_read_at_all_is_damaged)
{
    char *dir = temp_dir_new(), *path = path_join(dir, "value");
    static char bytes[FILE_LEN];
    file_write(path, bytes, sizeof bytes);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    cr_assert_geq(fd, 0);
    cr_assert_eq(get_against(say_file, &fd), WARM_ENOT_FOUND);
    close(fd);
    free(path);
    temp_dir_free(dir);
}

Test(failopen, what_was_not_asked_for_ends_the_connection)
{
    cr_assert_eq(get_against_frames(add_unasked, 0), WARM_EMALFORMED);
    cr_assert_eq(get_against_frames(add_unknown_type, 0), WARM_EMALFORMED);
    cr_assert_eq(get_against_frames(add_hit_without_descriptor, 0), WARM_EMALFORMED);
}

Test(failopen, answers_to_other_requests_are_passed_over)
{
    cr_assert_eq(get_against_frames(add_others_answers, 0), 0);
}

Test(failopen, an_error_of_the_daemon_is_its_code)
{
    cr_assert_eq(get_against_frames(add_error, 0), WARM_EDENIED);
}

/* After a failure the next call costs nothing and touches nothing. */
Test(failopen, after_a_failure_calls_fail_at_once)
{
    struct fake f;
    struct warm_value v;
    fake_start(&f, say_nothing, NULL);
    struct warm *w = open_at(f.path);
    cr_assert_eq(warm_get(w, "n", 1, 0, &v), WARM_ETIMEOUT);
    cr_assert_eq(warm_get(w, "n", 1, 0, &v), WARM_ENO_DAEMON);
    cr_assert_eq(warm_put(w, "n", 1, "v", 1, NULL), WARM_ENO_DAEMON);
    fake_stop(&f);
    warm_close(w);
}

Test(failopen, in_a_forked_child_calls_are_closed)
{
    struct fake f;
    struct warm_value v;
    fake_start(&f, say_nothing, NULL);
    struct warm *w = open_at(f.path);
    pid_t pid = fork();
    if (pid == 0)
        _exit(warm_get(w, "n", 1, 0, &v) == WARM_ECLOSED ? 0 : 1);
    int status;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert_eq(status, 0);
    cr_assert_eq(warm_get(w, "n", 1, 0, &v), WARM_ETIMEOUT, "the parent's is as it was");
    fake_stop(&f);
    warm_close(w);
}

/* A peer that is gone raises no SIGPIPE, whatever the program's handling of it. */
Test(failopen, no_sigpipe)
{
    struct fake f;
    struct warm_value v;
    static char value[300000];
    signal(SIGPIPE, SIG_DFL);
    fake_start(&f, close_at_once, NULL);
    struct warm *w = open_at(f.path);
    cr_assert_eq(warm_get(w, "n", 1, 0, &v), WARM_ECLOSED);
    cr_assert_lt(warm_put(w, "n", 1, value, sizeof value, NULL), 0);
    fake_stop(&f);
    warm_close(w);
}

/* ---- a daemon that is polite, and silent ---- */

#define SILENCE_MS 200u
#define PATIENCE_MS 60000u /* what the request itself would have had */

/* Answers HELLO, then each frame by `reply`, until the client hangs up. */
struct polite {
    int (*reply)(struct polite *p, const struct wire_frame *frame, struct writer *out);
    uint64_t tag;     /* of the last request but those */
    unsigned n_lives; /* signs of life that were asked for */
};

static void be_polite(struct fake *f, int fd)
{
    struct polite *p = (struct polite *)(uintptr_t)f->arg;
    static uint8_t bytes[WIRE_HEADER + 8192];
    struct wire_frame frame;
    size_t len = 0;
    for (ssize_t n; (n = read(fd, bytes + len, sizeof bytes - len)) > 0;) {
        len += (size_t)n;
        for (long took; (took = wire_parse(bytes, len, &frame, NULL)) > 0;) {
            struct writer w;
            writer_init(&w, 0);
            if (frame.type == WIRE_HELLO)
                wire_put_welcome(&w, 0, &(struct wire_welcome){.version = WIRE_VERSION});
            else if (p->reply)
                p->reply(p, &frame, &w);
            if (send(fd, w.data, w.len, MSG_NOSIGNAL) < 0)
                len = (size_t)took; /* the client has gone: the next read says so */
            writer_close(&w);
            len -= (size_t)took;
            memmove(bytes, bytes + took, len);
        }
    }
}

/* The fake daemon ends by itself when the connection does. */
static int polite_get(struct polite *p, uint64_t *out_took_ms)
{
    struct fake f;
    struct warm_value v = {0};
    struct warm *w, *second;
    char timeout[16];
    snprintf(timeout, sizeof timeout, "%u", SILENCE_MS);
    setenv("WARM_TIMEOUT_MS", timeout, 1);
    fake_start(&f, be_polite, p);
    struct warm_options options = {.socket = f.path, .request_timeout_ms = PATIENCE_MS};
    cr_assert_eq(warm_open(&w, &options), 0);
    uint64_t began_ms = conn_now_ms();
    int code = warm_get(w, "name", 4, WARM_WANT_LEASE, &v);
    *out_took_ms = conn_now_ms() - began_ms;
    warm_value_free(&v);
    warm_close(w);
    if (code == WARM_ETIMEOUT) /* for the whole process */
        cr_assert_eq(warm_open(&second, &options), WARM_ENO_DAEMON);
    fake_stop(&f);
    return code;
}

static int reply_wait(struct polite *p, const struct wire_frame *frame, struct writer *out)
{
    p->n_lives += frame->type == WIRE_RELEASE;
    wire_put_wait(out, frame->type == WIRE_RELEASE ? p->tag : (p->tag = frame->tag),
                  &(struct wire_wait){2, 10});
    return 0;
}

static int reply_to_others(struct polite *p, const struct wire_frame *frame, struct writer *out)
{
    p->n_lives += frame->type == WIRE_RELEASE;
    for (uint64_t i = 7; i < 50; i++)
        wire_put_empty(out, WIRE_MISS, frame->tag + i);
    return 0;
}

/* Somebody makes it, and it takes three times as long as a daemon may be silent. */
static int reply_like_a_daemon(struct polite *p, const struct wire_frame *frame, struct writer *out)
{
    if (frame->type == WIRE_GET)
        return reply_wait(p, frame, out);
    wire_put_ok(out, frame->tag, &(struct wire_ok){0});
    if (++p->n_lives == 6)
        add_hit(out);
    return 0;
}

static void expect_one_silence(struct polite p)
{
    uint64_t took_ms;
    cr_assert_eq(polite_get(&p, &took_ms), WARM_ETIMEOUT);
    cr_assert_lt(took_ms, SILENCE_MS + SLACK_MS, "%lu ms", (unsigned long)took_ms);
}

Test(failopen, a_daemon_that_says_nothing_after_its_welcome_costs_one_silence_a_process)
{
    expect_one_silence((struct polite){0});
}

Test(failopen, wait_is_no_sign_of_life)
{
    expect_one_silence((struct polite){.reply = reply_wait});
}

Test(failopen, answers_to_others_are_no_sign_of_life)
{
    expect_one_silence((struct polite){.reply = reply_to_others});
}

Test(failopen, a_daemon_that_gives_signs_of_life_is_waited_for)
{
    struct polite p = {.reply = reply_like_a_daemon};
    uint64_t took_ms;
    cr_assert_eq(polite_get(&p, &took_ms), 0);
    cr_assert_gt(took_ms, 2 * SILENCE_MS);
}

struct polite_connection {
    struct fake fake;
    struct polite polite;
    int fd;
};

static void *polite_main(void *arg)
{
    struct polite_connection *c = arg;
    c->fake.arg = &c->polite;
    be_polite(&c->fake, c->fd);
    close(c->fd);
    free(c);
    return NULL;
}

/* A process that accepts every connection, and is polite to each. */
static pid_t polite_process(const struct fake *f, struct polite p)
{
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int fd; (fd = accept(f->listener, NULL, NULL)) >= 0;) {
        pthread_t thread;
        struct polite_connection *c = calloc(1, sizeof *c);
        *c = (struct polite_connection){.polite = p, .fd = fd};
        pthread_create(&thread, NULL, polite_main, c);
        pthread_detach(thread);
    }
    _exit(0);
}

/* Each of its requests alone has more than a minute. */
static void compile_by_tool(struct polite p)
{
    struct fake f;
    char *out, *warm = bin_path("warm"), *source, *object;
    fake_listen(&f);
    source = path_join(f.dir, "a.c");
    object = path_join(f.dir, "a.o");
    file_write(source, "int a;\n", 7);
    pid_t pid = polite_process(&f, p);
    uint64_t began_ms = conn_now_ms();
    int status = run_command(&out,
                             "exec 2>&1; unset WARM_TIMEOUT_MS; WARM_SOCKET=%s %s run --no-start "
                             "-- cc -c %s -o %s",
                             f.path, warm, source, object);
    uint64_t took_ms = conn_now_ms() - began_ms;
    cr_assert_eq(status, 0, "%s", out);
    cr_assert_eq(access(object, R_OK), 0, "%s", out);
    cr_assert_lt(took_ms, 10000, "%lu ms", (unsigned long)took_ms);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(f.listener);
    free(out);
    free(warm);
    free(source);
    free(object);
    free(f.path);
    temp_dir_free(f.dir);
}

Test(failopen, a_wrapped_compiler_runs_though_the_daemon_is_silent)
{
    compile_by_tool((struct polite){0});
}

Test(failopen, a_wrapped_compiler_runs_though_the_daemon_says_wait_for_ever)
{
    compile_by_tool((struct polite){.reply = reply_wait});
}

Test(failopen, a_wrapped_compiler_runs_though_the_daemon_answers_to_others)
{
    compile_by_tool((struct polite){.reply = reply_to_others});
}

/* ---- compiling ---- */

static void need_then_nothing(struct fake *f, int fd)
{
    struct writer w;
    (void)f;
    read_request(fd);
    writer_init(&w, 0);
    wire_put_welcome(&w, 0, &(struct wire_welcome){.version = WIRE_VERSION});
    wire_put_need(&w, 1, &(struct wire_need){1 << 20});
    ssize_t n = send(fd, w.data, w.len, MSG_NOSIGNAL);
    (void)n;
    writer_close(&w);
}

static int compile_against(void (*script)(struct fake *, int), const void *arg)
{
    struct fake f;
    struct warm_result r = {0};
    static const char *const options[] = {"-arch=sm_90"};
    struct warm_job job = {.name = "k.cu",
                           .source = "x",
                           .source_len = 1,
                           .options = options,
                           .n_options = 1,
                           .timeout_ms = DEADLINE_MS};
    fake_start(&f, script, arg);
    struct warm *w = open_at(f.path);
    uint64_t began_ms = conn_now_ms();
    int code = warm_compile(w, &job, &r);
    cr_assert_lt(conn_now_ms() - began_ms, 2 * DEADLINE_MS + SLACK_MS);
    if (!code)
        warm_result_free(&r);
    fake_stop(&f);
    warm_close(w);
    return code;
}

Test(failopen, a_compile_that_never_ends_is_a_timeout)
{
    cr_assert_eq(compile_against(need_then_nothing, NULL), WARM_ETIMEOUT);
}

Test(failopen, a_result_that_is_no_bundle_is_malformed)
{
    struct writer w;
    writer_init(&w, 0);
    wire_put_welcome(&w, 0, &(struct wire_welcome){.version = WIRE_VERSION});
    add_hit(&w);
    cr_assert_eq(compile_against(say_bytes, &(struct view){w.data, w.len}), WARM_EMALFORMED);
    writer_close(&w);
}

Test(failopen, a_job_that_cannot_be_kept_is_refused_without_asking)
{
    struct fake f;
    struct warm_result r;
    static const char *const options[] = {"-arch=sm_90", "--time=/tmp/t"};
    struct warm_job job = {
        .name = "k.cu", .source = "x", .source_len = 1, .options = options, .n_options = 2};
    fake_listen(&f);
    struct warm *w = open_at(f.path);
    cr_assert_eq(warm_compile(w, &job, &r), WARM_EREFUSED);
    cr_assert(strstr(warm_message(w), "--time"));
    warm_close(w);
    close(f.listener);
    free(f.path);
    temp_dir_free(f.dir);
}
