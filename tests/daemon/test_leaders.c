/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_leaders.c - whoever leads a compile, with whatever headers: another user gets its own result,
 * without an error, and waits for the leader no longer than two seconds.
 *
 * ALICE leads, and does what a test says; BOB has the same source and honest headers. The gates are
 * those of support/compile.h: ALICE's worker has asked for a header before BOB comes. Needs root, to be two
 * users, and a toolchain: see support/pool.h.
 */
#include <sys/mman.h>

#include "tests/support/compile.h"

enum { ALICE = 12345, BOB = 23456 };

#define HEDGED_MS 8000u /* more than two seconds on a busy machine, less than a leader's ten */

static const char with_header[] =
    "#include \"h.h\"\nextern \"C\" __global__ void f(T *x) { *x += 1; }\n";
static const char honest[] = "typedef float T;\n";

TestSuite(leaders, .fini = compile_teardown);

/* ALICE with her turn, and her worker's first question. */
struct leader {
    int fd, channel;
    struct wire_open question;
    char packet[WIRE_OPEN_MAX];
};

static void hear_question(struct leader *l)
{
    ssize_t n = recv(l->channel, l->packet, sizeof l->packet, 0);
    cr_assert_gt(n, 0, "the worker asks for a header");
    cr_assert_eq(wire_get_open(l->packet, (size_t)n, &l->question, NULL), 0);
}

static void lead(struct leader *l, const struct warmd *k, const struct ask *a)
{
    l->fd = warmd_native_as(k, ALICE);
    ask_compile(l->fd, 1, a, 0, WIRE_NEED);
    l->channel = send_source(l->fd, 1, a);
    hear_question(l);
}

static int bob_waits(const struct warmd *k, const struct ask *a)
{
    int bob = warmd_native_as(k, BOB);
    ask_compile(bob, 2, a, 0, WIRE_WAIT);
    return bob;
}

/* BOB leads, and gets the result of his own header. Returns its digest. */
static struct key bob_compiles(int bob, const struct ask *a)
{
    struct key check;
    warmd_expect(bob, 2, WIRE_NEED);
    serve_headers(send_source(bob, 2, a), honest);
    cr_assert_eq(expect_cubin_with(bob, 2, honest, &check), WIRE_WAS_MISS);
    return check;
}

#define NEEDS_USERS_AND_TOOLCHAIN(nvrtc)                                                           \
    NEEDS_TWO_USERS();                                                                             \
    NEEDS_TOOLCHAIN(nvrtc)

Test(leaders, one_that_never_answers_about_a_header_holds_another_user_for_two_seconds)
{
    NEEDS_USERS_AND_TOOLCHAIN(nvrtc);
    struct warmd k = warmd_with_nvrtc(nvrtc, NULL, NULL);
    struct ask a = ask_of(with_header);
    struct leader alice;
    lead(&alice, &k, &a);
    uint64_t began_ms = clock_now_ms();
    int bob = bob_waits(&k, &a);
    bob_compiles(bob, &a);
    cr_assert_lt(clock_now_ms() - began_ms, HEDGED_MS);
    warmd_expect(alice.fd, 1, WIRE_CHECK); /* whether she has BOB's header */
    warmd_expect(alice.fd, 1, WIRE_ERROR); /* she has not answered for ten seconds */
    close(alice.channel);
    close(alice.fd);
    close(bob);
    warmd_down(&k);
}

Test(leaders, one_that_sends_nonsense_fails_alone)
{
    NEEDS_USERS_AND_TOOLCHAIN(nvrtc);
    struct warmd k = warmd_with_nvrtc(nvrtc, NULL, NULL);
    struct ask a = ask_of(with_header);
    struct leader alice;
    lead(&alice, &k, &a);
    int bob = bob_waits(&k, &a), own = warmd_native_as(&k, ALICE);
    ask_compile(own, 3, &a, 0, WIRE_WAIT);
    for (int i = 0; i < 20; i++)
        send(alice.channel, "nonsense, and not an answer to a question", 40, MSG_NOSIGNAL);
    warmd_expect(alice.fd, 1, WIRE_ERROR);
    bob_compiles(bob, &a);
    expect_cubin_with(own, 3, honest, NULL); /* her other process has honest headers */
    close(alice.channel);
    close(alice.fd);
    close(own);
    close(bob);
    warmd_down(&k);
}

/* Deep enough for NVRTC's parser to run out of stack. */
static char *deadly_header(void)
{
    enum { DEPTH = 3000000 };
    static const char begin[] = "typedef float T; __device__ int K = ";
    char *text = malloc(sizeof begin + 2 * DEPTH + 4);
    size_t at = sizeof begin - 1;
    memcpy(text, begin, at);
    memset(text + at, '(', DEPTH);
    at += DEPTH;
    text[at++] = '1';
    memset(text + at, ')', DEPTH);
    at += DEPTH;
    memcpy(text + at, ";\n", 3);
    return text;
}

/* The answer to the question that ALICE's worker has asked, and to those that follow. */
static void answer(struct leader *l, const char *content)
{
    struct writer w;
    int file = memfd_create("header", MFD_CLOEXEC);
    bool there =
        l->question.path.len >= 3 &&
        memcmp((const char *)l->question.path.data + l->question.path.len - 3, "h.h", 3) == 0;
    for (size_t at = 0, len = strlen(content); at < len;) {
        ssize_t n = write(file, content + at, len - at);
        cr_assert_gt(n, 0);
        at += (size_t)n;
    }
    writer_init(&w, 0);
    wire_put_opened(
        &w, &(struct wire_opened){l->question.id, there ? WIRE_PATH_FILE : WIRE_PATH_ABSENT});
    warmd_send_fds(l->channel, w.data, w.len, &file, there);
    writer_close(&w);
    close(file);
}

Test(leaders, one_whose_header_kills_the_compiler_fails_alone)
{
    NEEDS_USERS_AND_TOOLCHAIN(nvrtc);
    struct warmd k = warmd_with_nvrtc(nvrtc, NULL, NULL);
    struct ask a = ask_of(with_header);
    struct leader alice;
    char *deadly = deadly_header();
    lead(&alice, &k, &a);
    int bob = bob_waits(&k, &a);
    serve_headers(alice.channel, deadly); /* closes it when the last worker is dead */
    warmd_expect(alice.fd, 1, WIRE_ERROR);
    bob_compiles(bob, &a);
    free(deadly);
    close(alice.fd);
    close(bob);
    warmd_down(&k);
}

/* Minutes of work for the front end, which listens to nobody meanwhile. */
static char *slow_header(void)
{
    enum { N = 3000 };
    size_t cap = 256 + N * 64;
    char *text = malloc(cap);
    int at = snprintf(text, cap,
                      "typedef float T;\n"
                      "constexpr long f(int n){return n<2?n:f(n-1)+f(n-2);}\n");
    for (int i = 0; i < N; i++)
        at += snprintf(text + at, cap - (size_t)at, "static_assert(f(24)>%d,\"\");\n", i);
    return text;
}

Test(leaders, one_whose_header_takes_minutes_holds_another_user_for_two_seconds)
{
    NEEDS_USERS_AND_TOOLCHAIN(nvrtc);
    struct warmd k = warmd_with_nvrtc(nvrtc, NULL, NULL);
    struct ask a = ask_of(with_header);
    struct leader alice;
    char *slow = slow_header();
    lead(&alice, &k, &a);
    answer(&alice, slow);
    uint64_t began_ms = clock_now_ms();
    int bob = bob_waits(&k, &a);
    bob_compiles(bob, &a);
    cr_assert_lt(clock_now_ms() - began_ms, HEDGED_MS);
    int third = warmd_native_as(&k, BOB + 1);
    send_compile(third, 3, &a, 0);
    cr_assert_eq(expect_cubin_with(third, 3, honest, NULL), WIRE_WAS_HIT);
    free(slow);
    close(alice.channel);
    close(alice.fd);
    close(third);
    close(bob);
    warmd_down(&k);
}

Test(leaders, twenty_turns_that_nobody_uses_are_waited_for_together)
{
    enum { N = 20 };
    NEEDS_USERS_AND_TOOLCHAIN(nvrtc);
    struct warmd k = warmd_with_nvrtc(nvrtc, NULL, NULL);
    struct ask a = ask_of(with_header);
    int alice[N];
    for (int i = 0; i < N; i++) {
        alice[i] = warmd_native_as(&k, ALICE);
        ask_compile(alice[i], 1, &a, 0, i ? WIRE_WAIT : WIRE_NEED);
    }
    uint64_t began_ms = clock_now_ms();
    int bob = bob_waits(&k, &a);
    bob_compiles(bob, &a);
    cr_assert_lt(clock_now_ms() - began_ms, HEDGED_MS);
    for (int i = 0; i < N; i++)
        close(alice[i]);
    close(bob);
    warmd_down(&k);
}

/* ALICE's verdict is the first, and comes from another header: BOB's own goes on. */
Test(leaders, the_first_verdict_is_not_for_a_leader_with_other_headers)
{
    static const char other[] = "typedef double T;\n";
    NEEDS_USERS_AND_TOOLCHAIN(nvrtc);
    struct warmd k = warmd_with_nvrtc(nvrtc, NULL, NULL);
    struct ask a = ask_of(with_header);
    struct leader alice;
    struct key of_alice, of_bob, again;
    static struct warmd_frame f;
    lead(&alice, &k, &a);
    int bob = bob_waits(&k, &a), third = warmd_native_as(&k, BOB + 1);
    warmd_expect(bob, 2, WIRE_NEED);
    struct leader as_bob = {.fd = bob, .channel = send_source(bob, 2, &a)};
    hear_question(&as_bob);
    ask_compile(third, 3, &a, 0, WIRE_WAIT);
    answer(&alice, other);
    serve_headers(alice.channel, other);
    expect_cubin_with(alice.fd, 1, other, &of_alice);
    warmd_frame(third, &f, WIRE_CHECK, 3);
    answer_check(third, &f, honest);
    warmd_expect(third, 3, WIRE_WAIT);
    warmd_frame(bob, &f, WIRE_CHECK, 2); /* BOB is asked too, and it is not his */
    answer_check(bob, &f, honest);
    answer(&as_bob, honest);
    serve_headers(as_bob.channel, honest);
    cr_assert_eq(expect_cubin_with(bob, 2, honest, &of_bob), WIRE_WAS_MISS);
    cr_assert_not(key_equal(&of_alice, &of_bob));
    cr_assert_eq(expect_cubin_with(third, 3, honest, &again), WIRE_WAS_COALESCED);
    cr_assert(key_equal(&of_bob, &again));
    close(alice.fd);
    close(bob);
    close(third);
    warmd_down(&k);
}

Test(leaders, the_first_verdict_is_for_a_leader_with_the_same_headers)
{
    NEEDS_USERS_AND_TOOLCHAIN(nvrtc);
    struct warmd k = warmd_with_nvrtc(nvrtc, NULL, NULL);
    struct ask a = ask_of(with_header);
    struct leader alice;
    struct key of_alice, of_bob;
    lead(&alice, &k, &a);
    int bob = bob_waits(&k, &a);
    warmd_expect(bob, 2, WIRE_NEED);
    struct leader as_bob = {.fd = bob, .channel = send_source(bob, 2, &a)};
    hear_question(&as_bob);
    answer(&alice, honest);
    serve_headers(alice.channel, honest);
    expect_cubin_with(alice.fd, 1, honest, &of_alice);
    /* his worker still waits for its first answer */
    cr_assert_eq(expect_cubin_with(bob, 2, honest, &of_bob), WIRE_WAS_COALESCED);
    cr_assert(key_equal(&of_alice, &of_bob));
    char packet[WIRE_OPEN_MAX];
    cr_assert_leq(recv(as_bob.channel, packet, sizeof packet, 0), 0, "his compile has ended");
    close(as_bob.channel);
    close(alice.fd);
    close(bob);
    warmd_down(&k);
}

/* The silent turn of ALICE is hers; BOB's result, of a source without headers, is everybody's. */
Test(leaders, the_first_verdict_is_for_all_if_no_file_was_read)
{
    NEEDS_USERS_AND_TOOLCHAIN(nvrtc);
    struct warmd k = warmd_with_nvrtc(nvrtc, NULL, NULL);
    struct ask a = ask_of("extern \"C\" __global__ void f(float *x) { *x *= 3; }\n");
    int alice = warmd_native_as(&k, ALICE);
    ask_compile(alice, 1, &a, 0, WIRE_NEED);
    int bob = bob_waits(&k, &a);
    warmd_expect(bob, 2, WIRE_NEED);
    serve_headers(send_source(bob, 2, &a), "");
    cr_assert_eq(expect_cubin(bob, 2, NULL), WIRE_WAS_MISS);
    cr_assert_eq(expect_cubin(alice, 1, NULL), WIRE_WAS_COALESCED);
    close(send_source(alice, 1, &a)); /* she had not heard yet */
    send_compile(alice, 4, &a, 0);
    warmd_expect(alice, 1, WIRE_ERROR);
    cr_assert_eq(expect_cubin(alice, 4, NULL), WIRE_WAS_HIT);
    cr_assert(warmd_stats_have(&k, "\"compiles\": 1,"));
    close(alice);
    close(bob);
    warmd_down(&k);
}

/* BOB's spelling has a flight of its own, but one key with ALICE's beneath. */
Test(leaders, another_spelling_of_a_job_does_not_wait_for_a_leader_either)
{
    NEEDS_USERS_AND_TOOLCHAIN(nvrtc);
    struct warmd k = warmd_with_nvrtc(nvrtc, NULL, NULL);
    struct ask a = ask_of(with_header);
    struct ask b = ask_of(
        "#include \"h.h\" // a comment\nextern \"C\" __global__ void f(T *x) { *x += 1; }\n");
    struct leader alice;
    lead(&alice, &k, &a);
    int bob = warmd_native_as(&k, BOB);
    uint64_t began_ms = clock_now_ms();
    send_compile(bob, 2, &b, 0);
    bob_compiles(bob, &b);
    cr_assert_lt(clock_now_ms() - began_ms, HEDGED_MS);
    close(alice.channel);
    close(alice.fd);
    close(bob);
    warmd_down(&k);
}

/* ---- sources that take long, or are many ---- */

/* COMPILE of a source that was never seen, as a key that nothing else has. */
static void send_compile_of(int fd, uint64_t tag, struct ask a)
{
    memcpy(a.graph.bytes, &tag, sizeof tag);
    send_compile(fd, tag, &a, 0);
}

static void send_large_source(int fd, uint64_t tag, int file, uint64_t len, int *out_channel)
{
    int ends[2];
    struct writer w;
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    writer_init(&w, 0);
    wire_put_source(&w, tag, &(struct wire_source){.len = len});
    warmd_send_fds(fd, w.data, w.len, (int[]){file, ends[1]}, 2);
    writer_close(&w);
    close(ends[1]);
    *out_channel = ends[0];
}

/* How many answers have come; they are read over. */
static unsigned count_answers(int fd)
{
    static struct warmd_frame f;
    unsigned n = 0;
    for (; !warmd_is_silent(fd, 0); n++)
        cr_assert(warmd_frame_try(fd, &f));
    return n;
}

Test(leaders, large_sources_of_one_user_are_verified_one_by_one)
{
    enum { N = 12, SIZE = 48 << 20 };
    NEEDS_USERS_AND_TOOLCHAIN(nvrtc);
    struct warmd k = warmd_with_nvrtc(nvrtc, NULL, NULL);
    struct ask a = ask_of("extern \"C\" __global__ void f(float *x) { *x *= 7; }\n");
    char *source = malloc(SIZE);
    int alice = warmd_native_as(&k, ALICE), channels[N];
    int file = memfd_create("job", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    memset(source, ' ', SIZE);
    source[SIZE - 1] = '\0';
    struct ask large = ask_of(source);
    for (size_t at = 0; at < large.job.len;) {
        ssize_t n = write(file, (char *)large.job.data + at, large.job.len - at);
        cr_assert_gt(n, 0);
        at += (size_t)n;
    }
    cr_assert_eq(fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE), 0);
    for (uint64_t i = 0; i < N; i++) {
        send_compile_of(alice, i + 1, large);
        warmd_expect(alice, i + 1, WIRE_NEED);
    }
    for (uint64_t i = 0; i < N; i++)
        send_large_source(alice, i + 1, file, large.job.len, &channels[i]);
    int bob = warmd_native_as(&k, BOB);
    send_compile_of(bob, 1, a);
    warmd_expect(bob, 1, WIRE_NEED);
    close(send_source(bob, 1, &a));
    warmd_expect(bob, 1, WIRE_ERROR); /* as each of ALICE's: the source is not the one announced */
    unsigned n_done = count_answers(alice);
    cr_assert_lt(n_done, N / 2, "%u of hers were verified before", n_done);
    static struct warmd_frame f;
    for (; n_done < N; n_done++)
        warmd_frame(alice, &f, WIRE_ERROR, n_done + 1);
    for (unsigned i = 0; i < N; i++)
        close(channels[i]);
    free(source);
    close(file);
    close(alice);
    close(bob);
    warmd_down(&k);
}

Test(leaders, a_user_has_so_many_compiles_and_no_more)
{
    enum { N = 256 };
    NEEDS_USERS_AND_TOOLCHAIN(nvrtc);
    struct warmd k = warmd_with_nvrtc(nvrtc, NULL, NULL);
    int alice = warmd_native_as(&k, ALICE), channels[N + 1];
    static struct warmd_frame f;
    struct wire_error error;
    for (uint64_t i = 0; i <= N; i++) {
        char source[128];
        snprintf(source, sizeof source, "#include \"h.h\"\n__global__ void f%u() {}\n",
                 (unsigned)i);
        struct ask a = ask_of(source);
        ask_compile(alice, i + 1, &a, 0, WIRE_NEED);
        channels[i] = send_source(alice, i + 1, &a); /* nobody answers on it */
        compile_teardown_jobs();
    }
    warmd_frame(alice, &f, WIRE_ERROR, N + 1);
    cr_assert_eq(wire_get_error(&f.frame, &error, NULL), 0);
    cr_assert_eq((int)error.code, -WARM_ETOO_BIG);
    int bob = warmd_native_as(&k, BOB);
    struct ask a = ask_of("extern \"C\" __global__ void f(float *x) { *x *= 7; }\n");
    lead_compile(bob, 1, &a, 0, "");
    cr_assert_eq(expect_cubin(bob, 1, NULL), WIRE_WAS_MISS);
    for (int i = 0; i <= N; i++)
        close(channels[i]);
    close(alice);
    close(bob);
    warmd_down(&k);
}
