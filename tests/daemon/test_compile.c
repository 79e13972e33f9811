/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_compile.c - one compile for each key, with real NVRTC behind a real daemon: who waits, who
 * leads next, who may have the result.
 *
 * tests/support/compile.h says what the gate is. Needs a toolchain: see support/pool.h.
 */
#include <grp.h>
#include <sys/mman.h>

#include "client/wire/bundle.h"
#include "store/store.h"
#include "tests/support/compile.h"

static const char good[] = "extern \"C\" __global__ void f(float *x) { x[threadIdx.x] *= 2; }\n";
static const char bad[] = "this is no CUDA\n";

TestSuite(compile, .fini = compile_teardown);

/* ---- the tests ---- */

Test(compile, a_hit_without_includes_is_one_round_trip)
{
    NEEDS_TOOLCHAIN(nvrtc);
    struct warmd k = warmd_with_nvrtc(nvrtc, NULL, NULL);
    struct ask a = ask_of(good);
    int fd = warmd_native(&k);
    lead_compile(fd, 1, &a, 0, "");
    warmd_expect(fd, 1, WIRE_HIT);
    ask_compile(fd, 2, &a, 0, WIRE_HIT);
    close(fd);
    warmd_down(&k);
}

Test(compile, a_hit_tells_which_compiler_made_it)
{
    NEEDS_TOOLCHAIN(nvrtc);
    struct warmd k = warmd_with_nvrtc(nvrtc, NULL, NULL);
    struct ask a = ask_of(good);
    int fd = warmd_native(&k);
    struct bundle_section sections[BUNDLE_SECTIONS_MAX];
    for (uint64_t tag = 1; tag <= 2; tag++) {
        static struct warmd_frame f;
        struct wire_hit hit;
        size_t n;
        send_compile(fd, tag, &a, 0);
        if (tag == 1) {
            warmd_expect(fd, tag, WIRE_NEED);
            serve_headers(send_source(fd, tag, &a), "");
        }
        await_end(fd, tag, "", &f);
        cr_assert_eq(wire_get_hit(&f.frame, &hit, NULL), 0);
        cr_assert_eq(hit.outcome, tag == 1 ? WIRE_WAS_MISS : WIRE_WAS_HIT);
        cr_assert_eq(bundle_read(hit.value.data, hit.value.len, sections, &n, NULL), 0);
        struct view compiler = bundle_find(sections, n, BUNDLE_COMPILER);
        cr_assert_eq(compiler.len, strlen("NVRTC 13.5 ") + 32);
        cr_assert_eq(memcmp(compiler.data, "NVRTC 13.5 ", strlen("NVRTC 13.5 ")), 0);
    }
    close(fd);
    warmd_down(&k);
}

Test(compile, sixty_four_equal_misses_are_one_compile)
{
    enum { N = 64 };
    NEEDS_TOOLCHAIN(nvrtc);
    struct warmd k = warmd_with_nvrtc(nvrtc, NULL, NULL);
    struct ask a = ask_of(good);
    int fds[N];
    struct key check, first;
    for (int i = 0; i < N; i++) {
        fds[i] = warmd_native(&k);
        ask_compile(fds[i], 5, &a, 0, i ? WIRE_WAIT : WIRE_NEED);
    }
    serve_headers(send_source(fds[0], 5, &a), "");
    cr_assert_eq(expect_cubin(fds[0], 5, &first), WIRE_WAS_MISS);
    for (int i = 1; i < N; i++) {
        cr_assert_eq(expect_cubin(fds[i], 5, &check), WIRE_WAS_COALESCED);
        cr_assert(key_equal(&check, &first));
    }
    send_compile(fds[1], 6, &a, 0);
    cr_assert_eq(expect_cubin(fds[1], 6, &check), WIRE_WAS_HIT);
    cr_assert(key_equal(&check, &first));
    cr_assert(warmd_stats_have(&k, "\"compiles\": 1, \"coalesced\": 63,"));
    for (int i = 0; i < N; i++)
        close(fds[i]);
    warmd_down(&k);
}

Test(compile, the_next_waiter_leads_when_the_leader_ends_before_it_sent_its_source)
{
    NEEDS_TOOLCHAIN(nvrtc);
    struct warmd k = warmd_with_nvrtc(nvrtc, NULL, NULL);
    struct ask a = ask_of(good);
    int leader = warmd_native(&k), next = warmd_native(&k), third = warmd_native(&k);
    ask_compile(leader, 1, &a, 0, WIRE_NEED);
    ask_compile(next, 2, &a, 0, WIRE_WAIT);
    ask_compile(third, 3, &a, 0, WIRE_WAIT);
    close(leader);
    warmd_expect(next, 2, WIRE_NEED);
    serve_headers(send_source(next, 2, &a), "");
    cr_assert_eq(expect_cubin(next, 2, NULL), WIRE_WAS_MISS);
    cr_assert_eq(expect_cubin(third, 3, NULL), WIRE_WAS_COALESCED);
    close(next);
    close(third);
    warmd_down(&k);
}

Test(compile, the_next_waiter_leads_when_the_leader_and_its_headers_go_in_mid_compile)
{
    NEEDS_TOOLCHAIN(nvrtc);
    struct warmd k = warmd_with_nvrtc(nvrtc, NULL, NULL);
    struct ask a = ask_of("#include \"h.h\"\nextern \"C\" __global__ void f(T *x) { *x = 1; }\n");
    int leader = warmd_native(&k), next = warmd_native(&k);
    char packet[WIRE_OPEN_MAX];
    ask_compile(leader, 1, &a, 0, WIRE_NEED);
    ask_compile(next, 2, &a, 0, WIRE_WAIT);
    int channel = send_source(leader, 1, &a);
    cr_assert_gt(recv(channel, packet, sizeof packet, 0), 0, "the worker asks for the header");
    close(leader);
    close(channel);
    warmd_expect(next, 2, WIRE_NEED);
    channel = send_source(next, 2, &a);
    serve_headers(channel, "typedef float T;\n");
    cr_assert_eq(expect_cubin(next, 2, NULL), WIRE_WAS_MISS);
    close(next);
    warmd_down(&k);
}

Test(compile, a_leader_that_sends_no_source_is_hedged)
{
    NEEDS_TOOLCHAIN(nvrtc);
    struct warmd k = warmd_with_nvrtc(nvrtc, NULL, NULL);
    struct ask a = ask_of(good);
    int stopped = warmd_native(&k), next = warmd_native(&k);
    ask_compile(stopped, 1, &a, 0, WIRE_NEED);
    ask_compile(next, 2, &a, 0, WIRE_WAIT);
    warmd_expect(next, 2, WIRE_NEED); /* after ten seconds */
    serve_headers(send_source(next, 2, &a), "");
    cr_assert_eq(expect_cubin(next, 2, NULL), WIRE_WAS_MISS);
    cr_assert_eq(expect_cubin(stopped, 1, NULL), WIRE_WAS_COALESCED);
    close(stopped);
    close(next);
    warmd_down(&k);
}

Test(compile, a_leader_that_leaves_does_not_stop_its_compile)
{
    NEEDS_TOOLCHAIN(nvrtc);
    struct warmd k = warmd_with_nvrtc(nvrtc, NULL, NULL);
    struct ask a = ask_of(good);
    int leader = warmd_native(&k), later = warmd_native(&k);
    ask_compile(leader, 1, &a, 0, WIRE_NEED);
    int channel = send_source(leader, 1, &a);
    close(leader);
    send_compile(later, 2, &a, 0);
    serve_headers(channel, "");
    expect_end(later, 2, "", WIRE_HIT);
    cr_assert(warmd_stats_have(&k, "\"compiles\": 1,"));
    close(later);
    warmd_down(&k);
}

Test(compile, a_cancelled_one_that_nobody_waits_for_leaves_nothing_behind)
{
    NEEDS_TOOLCHAIN(nvrtc);
    struct warmd k = warmd_with_nvrtc(nvrtc, NULL, NULL);
    struct ask a = ask_of("#include \"h.h\"\n");
    int fd = warmd_native(&k);
    char packet[WIRE_OPEN_MAX];
    struct writer w;
    ask_compile(fd, 1, &a, 0, WIRE_NEED);
    int channel = send_source(fd, 1, &a);
    cr_assert_gt(recv(channel, packet, sizeof packet, 0), 0);
    writer_init(&w, 0);
    wire_put_empty(&w, WIRE_CANCEL, 1);
    warmd_flush(fd, &w);
    writer_close(&w);
    cr_assert_leq(recv(channel, packet, sizeof packet, 0), 0, "the worker lets go of the channel");
    send_compile(fd, 2, &a, 4); /* only if cached */
    warmd_expect(fd, 2, WIRE_MISS);
    close(channel);
    close(fd);
    warmd_down(&k);
}

Test(compile, the_compilers_error_goes_to_all_and_is_remembered_briefly)
{
    NEEDS_TOOLCHAIN(nvrtc);
    struct warmd k = warmd_with_nvrtc(nvrtc, "--negative-ttl", "1h");
    struct ask a = ask_of(bad);
    int leader = warmd_native(&k), waiter = warmd_native(&k);
    static struct warmd_frame f;
    struct wire_hit failed;
    ask_compile(leader, 1, &a, 0, WIRE_NEED);
    ask_compile(waiter, 2, &a, 0, WIRE_WAIT);
    serve_headers(send_source(leader, 1, &a), "");
    warmd_frame(leader, &f, WIRE_FAILED, 1);
    cr_assert_eq(wire_get_failed(&f.frame, &failed, NULL), 0);
    cr_assert_not_null(memmem(failed.value.data, failed.value.len, "error", 5), "the log is there");
    expect_end(waiter, 2, "", WIRE_FAILED);
    send_compile(waiter, 3, &a, 0);
    expect_end(waiter, 3, "", WIRE_FAILED);
    cr_assert(warmd_stats_have(&k, "\"compiles\": 1,"));
    cr_assert(warmd_stats_have(&k, "\"entries\": 0,"));
    close(leader);
    close(waiter);
    warmd_down(&k);
}

Test(compile, a_source_that_is_not_the_announced_one_poisons_nothing)
{
    NEEDS_TOOLCHAIN(nvrtc);
    struct warmd k = warmd_with_nvrtc(nvrtc, NULL, NULL);
    struct ask a = ask_of(good), other = ask_of(bad);
    int liar = warmd_native(&k), honest = warmd_native(&k);
    ask_compile(liar, 1, &a, 0, WIRE_NEED);
    ask_compile(honest, 2, &a, 0, WIRE_WAIT);
    serve_headers(send_source(liar, 1, &other), "");
    warmd_expect(liar, 1, WIRE_ERROR);
    warmd_expect(honest, 2, WIRE_NEED);
    serve_headers(send_source(honest, 2, &a), "");
    cr_assert_eq(expect_cubin(honest, 2, NULL), WIRE_WAS_MISS);
    close(liar);
    close(honest);
    warmd_down(&k);
}

Test(compile, a_result_that_read_headers_is_for_those_who_have_the_same)
{
    NEEDS_TOOLCHAIN(nvrtc);
    static const char one[] = "typedef float T;\n", two[] = "typedef double T;\n";
    struct warmd k = warmd_with_nvrtc(nvrtc, NULL, NULL);
    struct ask a = ask_of("#include \"h.h\"\nextern \"C\" __global__ void f(T *x) { *x += 1; }\n");
    int leader = warmd_native(&k), same = warmd_native(&k), different = warmd_native(&k);
    struct key first, check;
    ask_compile(leader, 1, &a, 0, WIRE_NEED);
    ask_compile(same, 2, &a, 0, WIRE_WAIT);
    ask_compile(different, 3, &a, 0, WIRE_WAIT);
    serve_headers(send_source(leader, 1, &a), one);
    cr_assert_eq(expect_cubin(leader, 1, &first), WIRE_WAS_MISS);
    cr_assert_eq(expect_cubin_with(same, 2, one, &check), WIRE_WAS_COALESCED);
    cr_assert(key_equal(&first, &check));
    expect_end(different, 3, two, WIRE_NEED);
    serve_headers(send_source(different, 3, &a), two);
    cr_assert_eq(expect_cubin(different, 3, &check), WIRE_WAS_MISS);
    cr_assert_not(key_equal(&first, &check));
    for (int round = 0; round < 2;
         round++) { /* both alternatives are found, also after a restart */
        int late = warmd_native(&k);
        send_compile(late, 4, &a, 0);
        struct key again;
        cr_assert_eq(expect_cubin_with(late, 4, round ? two : one, &again), WIRE_WAS_HIT);
        cr_assert(key_equal(&again, round ? &check : &first));
        close(late);
        char *options[] = {"--nvrtc", nvrtc, NULL};
        kill(k.pid, SIGTERM);
        warmd_reap(k.pid);
        warmd_start(&k, options);
    }
    close(leader);
    close(same);
    close(different);
    warmd_down(&k);
}

/* Waits until that many entries are durable. */
static void await_entries(const struct warmd *k, unsigned n)
{
    char text[40];
    snprintf(text, sizeof text, "\"entries\": %u,", n);
    for (unsigned i = 0;; i++) {
        char *json = warmd_stats(k);
        bool has = strstr(json, text) != NULL;
        free(json);
        if (has)
            return;
        cr_assert_lt(i, WARMD_WAIT_MS / 10);
        usleep(10000);
    }
}

Test(compile, what_another_made_while_the_asker_compared_its_files_is_found)
{
    NEEDS_TOOLCHAIN(nvrtc);
    static const char one[] = "typedef float T;\n", two[] = "typedef double T;\n";
    static struct warmd_frame held;
    struct warmd k = warmd_with_nvrtc(nvrtc, NULL, NULL);
    struct ask a = ask_of("#include \"h.h\"\nextern \"C\" __global__ void f(T *x) { *x += 1; }\n");
    int first = warmd_native(&k), slow = warmd_native(&k), other = warmd_native(&k);
    struct key made, found;
    lead_compile(first, 1, &a, 0, one);
    expect_cubin(first, 1, NULL);
    await_entries(&k, 3); /* an alias, a manifest and a result */
    send_compile(slow, 2, &a, 0);
    warmd_frame(slow, &held, WIRE_CHECK, 2);
    send_compile(other, 3, &a, 0);
    expect_end(other, 3, two, WIRE_NEED);
    serve_headers(send_source(other, 3, &a), two);
    cr_assert_eq(expect_cubin(other, 3, &made), WIRE_WAS_MISS);
    await_entries(&k, 4);
    answer_check(slow, &held, two);
    cr_assert_eq(expect_cubin_with(slow, 2, two, &found), WIRE_WAS_HIT);
    cr_assert(key_equal(&made, &found));
    close(first);
    close(slow);
    close(other);
    warmd_down(&k);
}

/* Returns the CPU time of the daemon's loop thread. */
static double loop_ms(const struct warmd *k)
{
    char path[64];
    unsigned long long ns = 0;
    snprintf(path, sizeof path, "/proc/%ld/schedstat", (long)k->pid);
    FILE *f = fopen(path, "re");
    cr_assert_not_null(f);
    cr_assert_eq(fscanf(f, "%llu", &ns), 1);
    fclose(f);
    return (double)ns / 1e6;
}

/* Returns the loop's processor time for a result of `len` bytes in ms, and that of its hash here. */
static double loop_ms_of_a_result(const struct warmd *k, int fd, unsigned n, size_t len,
                                  double *out_hash_ms)
{
    static struct warmd_frame f;
    char source[160];
    struct wire_hit hit;
    snprintf(source, sizeof source,
             "__device__ unsigned long long big[%zu] = {1};\n"
             "extern \"C\" __global__ void f(int i) { big[i] *= %u; }\n",
             len / 8, n + 2);
    struct ask a = ask_of(source);
    ask_compile(fd, n, &a, WIRE_COMPILE_NO_STORE, WIRE_NEED);
    int channel = send_source(fd, n, &a);
    double before = loop_ms(k);
    await_end(fd, n, "", &f);
    double took = loop_ms(k) - before;
    cr_assert_eq(f.frame.type, WIRE_HIT, "got %s", wire_type_name(f.frame.type));
    cr_assert_eq(wire_get_hit(&f.frame, &hit, NULL), 0);
    cr_assert_gt(hit.len, len);
    void *bytes = mmap(NULL, hit.len, PROT_READ, MAP_SHARED, f.fd, 0);
    cr_assert_neq(bytes, MAP_FAILED);
    struct timespec from, to;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    struct key check = key_of_bytes(bytes, hit.len);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    *out_hash_ms =
        (double)(to.tv_sec - from.tv_sec) * 1e3 + (double)(to.tv_nsec - from.tv_nsec) / 1e6;
    cr_expect(key_equal(&check, &hit.check));
    munmap(bytes, hit.len);
    close(f.fd);
    close(channel);
    return took;
}

/* Compares with a result of 128 KiB, and with the hash's own time: a busy machine adds to all of them. */
Test(compile, a_large_result_is_not_hashed_on_the_loop)
{
    NEEDS_TOOLCHAIN(nvrtc);
    struct warmd k = warmd_with_nvrtc(nvrtc, NULL, NULL);
    int fd = warmd_native(&k);
    double more = 0, hash = 0, ignored;
    for (unsigned n = 1; n <= 8; n += 2) {
        double small = loop_ms_of_a_result(&k, fd, n, 128 << 10, &ignored);
        more = loop_ms_of_a_result(&k, fd, n + 1, 64 << 20, &hash) - small;
        if (more < hash)
            break;
    }
    cr_log_info("a result of 64 MiB: %.1f ms more of the loop, its hash %.1f", more, hash);
    cr_assert_lt(more, hash, "the loop hashed it");
    close(fd);
    warmd_down(&k);
}

Test(compile, nobody_hangs_when_the_daemon_stops_in_mid_compile)
{
    NEEDS_TOOLCHAIN(nvrtc);
    struct warmd k = warmd_with_nvrtc(nvrtc, NULL, NULL);
    struct ask a = ask_of("#include \"h.h\"\n");
    int leader = warmd_native(&k), waiter = warmd_native(&k);
    char packet[WIRE_OPEN_MAX];
    ask_compile(leader, 1, &a, 0, WIRE_NEED);
    ask_compile(waiter, 2, &a, 0, WIRE_WAIT);
    int channel = send_source(leader, 1, &a);
    cr_assert_gt(recv(channel, packet, sizeof packet, 0), 0);
    kill(k.pid, SIGTERM);
    warmd_expect(leader, 1, WIRE_ERROR);
    warmd_expect(waiter, 2, WIRE_ERROR);
    cr_assert(warmd_is_closed(waiter));
    close(channel);
    close(leader);
    close(waiter);
    int status = warmd_reap(k.pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    warmd_free(&k);
}

Test(compile, another_user_has_it_with_the_proof_and_not_with_the_key)
{
    NEEDS_TOOLCHAIN(nvrtc);
    NEEDS_TWO_USERS();
    struct warmd k = warmd_with_nvrtc(nvrtc, NULL, NULL);
    struct ask a = ask_of(good);
    static struct warmd_frame f;
    struct wire_hit hit;
    struct wire_row row;
    struct writer show;
    int fd = warmd_native(&k);
    lead_compile(fd, 1, &a, 0, "");
    warmd_frame(fd, &f, WIRE_HIT, 1);
    cr_assert_eq(wire_get_hit(&f.frame, &hit, NULL), 0);
    struct key key = hit.key;
    do { /* until it is stored */
        writer_init(&show, 0);
        wire_put_show(&show, 2, &(struct wire_show){WIRE_SPACE_KEY, {&key, sizeof key}});
        warmd_flush(fd, &show);
        writer_close(&show);
        cr_assert(warmd_frame_try(fd, &f));
    } while (f.frame.type == WIRE_MISS);
    cr_assert_eq(wire_get_row(&f.frame, &row, NULL), 0);
    cr_assert_eq(row.owner, STORE_MADE_HERE);
    struct proof proof = row.proof;
    struct wire_get own = {.space = WIRE_SPACE_KEY, .key = {&key, sizeof key}, .has_proof = true};
    struct writer gets;
    writer_init(&gets, 0);
    wire_put_get(&gets, 3, &own); /* its maker's next version has the key by chance */
    own.proof = proof;
    wire_put_get(&gets, 4, &own);
    own.has_proof = false;
    wire_put_get(&gets, 5, &own);
    warmd_flush(fd, &gets);
    writer_close(&gets);
    warmd_expect(fd, 3, WIRE_MISS);
    expect_cubin(fd, 4, NULL);
    expect_cubin(fd, 5, NULL);
    pid_t pid = fork();
    if (pid == 0) {
        if (setgroups(0, NULL) || setgid(23456) || setuid(23456))
            _exit(2);
        int other = warmd_native(&k);
        struct writer w;
        struct wire_get get = {.space = WIRE_SPACE_KEY, .key = {&key, sizeof key}};
        writer_init(&w, 0);
        wire_put_get(&w, 1, &get);
        get.has_proof = true; /* a wrong one */
        wire_put_get(&w, 2, &get);
        get.proof = proof;
        wire_put_get(&w, 3, &get);
        warmd_flush(other, &w);
        warmd_expect(other, 1, WIRE_MISS);
        warmd_expect(other, 2, WIRE_MISS);
        expect_cubin(other, 3, NULL);
        send_compile(other, 4, &a, 0);
        if (expect_cubin(other, 4, NULL) != WIRE_WAS_HIT)
            _exit(3);
        a.proof.bytes[0] ^= 1; /* the same key by design, other bytes: its own compile */
        ask_compile(other, 5, &a, 0, WIRE_NEED);
        _exit(0);
    }
    int status = warmd_reap(pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%x", status);
    close(fd);
    warmd_down(&k);
}

/* The daemon checks CHECKED's length before the descriptor: this one is not even sealed. */
Test(compile, states_in_more_bytes_than_their_paths_can_have_are_refused_unread)
{
    NEEDS_TOOLCHAIN(nvrtc);
    static struct warmd_frame f;
    struct warmd k = warmd_with_nvrtc(nvrtc, NULL, NULL);
    struct ask a = ask_of("#include \"h.h\"\nextern \"C\" __global__ void f(T *x) { *x += 1; }\n");
    int first = warmd_native(&k), other = warmd_native(&k);
    struct wire_check check;
    struct wire_error error;
    struct writer w;
    lead_compile(first, 1, &a, 0, "typedef float T;\n");
    expect_cubin(first, 1, NULL);
    await_entries(&k, 3);
    send_compile(other, 2, &a, 0);
    warmd_frame(other, &f, WIRE_CHECK, 2);
    cr_assert_eq(wire_get_check(&f.frame, &check, NULL), 0);
    int fd = memfd_create("large", MFD_CLOEXEC);
    cr_assert_eq(ftruncate(fd, WIRE_CHECK_MAX), 0);
    writer_init(&w, 0);
    wire_put_checked(&w, 2, &(struct wire_checked){.n = check.n, .len = WIRE_CHECK_MAX});
    warmd_send_fds(other, w.data, w.len, &fd, 1);
    warmd_frame(other, &f, WIRE_ERROR, 2);
    cr_assert_eq(wire_get_error(&f.frame, &error, NULL), 0);
    cr_expect_eq(error.code, (uint32_t)-WARM_EMALFORMED, "%.*s", (int)error.text.len,
                 (const char *)error.text.data);
    writer_close(&w);
    close(fd);
    close(first);
    close(other);
    warmd_down(&k);
}
