/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tier_nodes.c - daemons with stores of their own and one redis-server: what one made, the others
 * have.
 *
 * Needs a toolchain where it compiles: see support/pool.h.
 */
#include "tests/support/redis_server.h"
#include "tests/support/store_kit.h"
#include "tests/support/tier_kit.h"

static struct redis_server redis;

static void setup(void)
{
    tier_setup();
    redis_server_start(&redis, "--maxclients", "100");
    snprintf(tier_url, sizeof tier_url, "%s", redis.url);
}

static void teardown(void)
{
    redis_server_stop(&redis);
    tier_teardown();
}

TestSuite(tier_nodes, .init = setup, .fini = teardown);

Test(tier_nodes, a_second_node_starts_with_the_first_ones_kernels)
{
    NEEDS_TOOLCHAIN(nvrtc);
    struct warmd first = tier_up(nvrtc, tier_key_file, NULL);
    struct key made = make_kernels(&first);
    await_stats(&first, "\"tier_sent\": 5");

    struct warmd second = tier_up(nvrtc, tier_key_file, NULL);
    expect_kernels(&second, &made);
    warmd_down(&first);
    warmd_down(&second);
}

/* Makes a value of printable bytes that do not repeat. */
static char *value_of(size_t len)
{
    char *value = malloc(len + 1);
    for (size_t i = 0; i < len; i++)
        value[i] = (char)('a' + (i * 2654435761u >> 13) % 26);
    value[len] = '\0';
    return value;
}

Test(tier_nodes, values_of_all_sizes_travel_through_redis)
{
    static const size_t sizes[] = {1, 1000, 61440, 61441, 65536, 65537, 3000000};
    size_t n = sizeof sizes / sizeof *sizes;
    struct warmd first = tier_up(NULL, tier_key_file, NULL);
    struct warm *w = warmd_libwarm(&first);
    char name[24], text[32];
    for (size_t i = 0; i < n; i++) {
        char *value = value_of(sizes[i]);
        snprintf(name, sizeof name, "value-%zu", sizes[i]);
        cr_assert_eq(warm_put(w, name, strlen(name), value, sizes[i], NULL), 0);
        free(value);
    }
    warm_close(w);
    snprintf(text, sizeof text, "\"tier_sent\": %zu", n);
    await_stats(&first, text);
    struct warmd second = tier_up(NULL, tier_key_file, NULL);
    w = warmd_libwarm(&second);
    for (size_t i = 0; i < n; i++) {
        char *value = value_of(sizes[i]);
        struct warm_value got;
        snprintf(name, sizeof name, "value-%zu", sizes[i]);
        cr_assert_eq(warm_get(w, name, strlen(name), 0, &got), 0, "%s", name);
        cr_assert_eq(got.len, sizes[i]);
        cr_assert_eq(memcmp(got.data, value, sizes[i]), 0);
        warm_value_free(&got);
        free(value);
    }
    warm_close(w);
    warmd_down(&first);
    warmd_down(&second);
    char *out;
    run_command(&out, "redis-cli -p %d -n 1 --scan --pattern '*:b' | wc -l", redis.port);
    cr_assert_eq(atoi(out), 2, "only what is larger than 64 KiB is an object of its own: %s", out);
    free(out);
}

/* ---- one compile for each key of all nodes ---- */

#define NODES 4

static struct warmd nodes[NODES];
static int fds[NODES];

/* Starts the nodes; each has a client that asks for one key. The first one's is to bring its source, the
 * others wait. */
static void ask_on_all_nodes(char *nvrtc, const struct ask *a, char *const *options)
{
    for (int i = 0; i < NODES; i++) {
        nodes[i] = tier_up(nvrtc, tier_key_file, options);
        fds[i] = warmd_native(&nodes[i]);
        send_compile(fds[i], 1, a, 0);
        warmd_expect(fds[i], 1, i ? WIRE_WAIT : WIRE_NEED);
    }
}

static void stop_nodes(int from)
{
    for (int i = from; i < NODES; i++) {
        close(fds[i]);
        warmd_down(&nodes[i]);
    }
}

/* Waits until one of the nodes' clients gets NEED, and returns its number. */
static int await_need(int from)
{
    struct pollfd polls[NODES] = {{0}};
    for (int i = from; i < NODES; i++)
        polls[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
    cr_assert_gt(poll(polls + from, NODES - from, WARMD_WAIT_MS), 0, "nobody makes it");
    for (int i = from; i < NODES; i++)
        if (polls[i].revents) {
            warmd_expect(fds[i], 1, WIRE_NEED);
            return i;
        }
    return -1;
}

/* Brings the source to a node, and takes the result. */
static void make_on(int i, const struct ask *a, struct key *out)
{
    int channel = send_source(fds[i], 1, a);
    serve_headers(channel, "");
    expect_cubin(fds[i], 1, out);
}

/* Takes the result on a node, which must not make it. */
static void take_on(int i, struct key *out)
{
    static struct warmd_frame f;
    struct wire_hit hit;
    do
        cr_assert(warmd_frame_try(fds[i], &f));
    while (f.frame.type == WIRE_WAIT);
    cr_assert_eq(f.frame.type, WIRE_HIT, "node %d", i);
    cr_assert_eq(wire_get_hit(&f.frame, &hit, NULL), 0);
    *out = hit.check;
}

static unsigned compiles(int from)
{
    unsigned n = 0;
    for (int i = from; i < NODES; i++) {
        char *stats = warmd_stats(&nodes[i]);
        n += (unsigned)atoi(strstr(stats, "\"compiles\": ") + strlen("\"compiles\": "));
        free(stats);
    }
    return n;
}

/*
 * What is guaranteed: while the maker renews its lease, no other node begins. A renewal comes each third of the lease. If
 * a busy machine stops the maker for two thirds of a lease, it loses the lease, and another node makes the key, too.
 * With a lease of 3 s that happens on a busy machine, without any hedge; with this one a test has 10 s for each renewal.
 */
#define LONG_LEASE "15s"

static void expect_no_hedge(int from)
{
    for (int i = from; i < NODES; i++)
        cr_assert(warmd_stats_have(&nodes[i], "\"tier_hedges\": 0,"));
}

Test(tier_nodes, many_nodes_that_want_one_key_compile_once)
{
    NEEDS_TOOLCHAIN(nvrtc);
    struct ask a = ask_of(TIER_SOURCE);
    struct key made, found;
    char *options[] = {"--tier-lease", LONG_LEASE, "--tier-hedge", "120s", NULL};
    ask_on_all_nodes(nvrtc, &a, options);
    make_on(0, &a, &made);
    for (int i = 1; i < NODES; i++) {
        cr_assert_eq(expect_cubin(fds[i], 1, &found), WIRE_WAS_HIT);
        cr_assert(key_equal(&made, &found));
    }
    cr_assert_eq(compiles(0), 1);
    cr_assert(warmd_stats_have(&nodes[1], "\"tier_waits\": 1,"));
    stop_nodes(0);
}

Test(tier_nodes, a_killed_maker_delays_the_others_by_its_lease)
{
    NEEDS_TOOLCHAIN(nvrtc);
    struct ask a = ask_of(TIER_SOURCE);
    struct key made, found;
    char *options[] = {"--tier-lease", LONG_LEASE, "--tier-hedge", "120s", NULL};
    ask_on_all_nodes(nvrtc, &a, options);
    uint64_t began = clock_now_ms();
    kill(nodes[0].pid, SIGKILL);
    waitpid(nodes[0].pid, NULL, 0);
    int maker = await_need(1);
    cr_assert_lt(clock_now_ms() - began, 45000u, "the lease, and a poll");
    make_on(maker, &a, &made);
    for (int i = 1; i < NODES; i++)
        if (i != maker) {
            take_on(i, &found);
            cr_assert(key_equal(&made, &found));
        }
    expect_no_hedge(1);
    cr_assert_eq(compiles(1), 1);
    close(fds[0]);
    warmd_free(&nodes[0]);
    stop_nodes(1);
}

Test(tier_nodes, a_stopped_maker_costs_one_more_compile)
{
    NEEDS_TOOLCHAIN(nvrtc);
    struct ask a = ask_of(TIER_SOURCE);
    struct key made, found;
    char *options[] = {"--tier-lease", LONG_LEASE, "--tier-hedge", "120s", NULL};
    ask_on_all_nodes(nvrtc, &a, options);
    kill(nodes[0].pid, SIGSTOP);
    int maker = await_need(1);
    make_on(maker, &a, &made);
    for (int i = 1; i < NODES; i++)
        if (i != maker)
            take_on(i, &found);
    expect_no_hedge(1);
    cr_assert_eq(compiles(1), 1);
    kill(nodes[0].pid, SIGCONT);
    make_on(0, &a, &found);
    cr_assert(key_equal(&made, &found));
    cr_assert_leq(compiles(0), 2, "its own, unless it hears of the other's result first");
    stop_nodes(0);
}

Test(tier_nodes, beside_a_late_maker_another_one_begins_and_the_first_result_wins)
{
    NEEDS_TOOLCHAIN(nvrtc);
    struct ask a = ask_of(TIER_SOURCE);
    struct key made;
    char *options[] = {"--tier-hedge", "4s", NULL};
    ask_on_all_nodes(nvrtc, &a, options);
    int hedger = await_need(1);
    cr_assert(warmd_stats_have(&nodes[hedger], "\"tier_hedges\": 1,"));
    make_on(0, &a, &made); /* the first maker comes to its end after all */
    for (int i = 1; i < NODES; i++) {
        static struct warmd_frame f;
        do
            cr_assert(warmd_frame_try(fds[i], &f));
        while (f.frame.type == WIRE_NEED || f.frame.type == WIRE_WAIT);
        cr_assert_eq(f.frame.type, WIRE_HIT, "node %d", i);
    }
    cr_assert_eq(compiles(0), 1);
    stop_nodes(0);
}

Test(tier_nodes, a_maker_whose_client_leaves_gives_the_lease_back)
{
    NEEDS_TOOLCHAIN(nvrtc);
    struct ask a = ask_of(TIER_SOURCE);
    struct key made;
    char *options[] = {"--tier-lease", "60s", "--tier-hedge", "60s", NULL};
    ask_on_all_nodes(nvrtc, &a, options);
    uint64_t began = clock_now_ms();
    close(fds[0]);
    int maker = await_need(1);
    cr_assert_lt(clock_now_ms() - began, 30000u, "sooner than the lease of 60 s ends");
    make_on(maker, &a, &made);
    fds[0] = warmd_native(&nodes[0]);
    stop_nodes(0);
}

/* ---- budgets and breakers ---- */

static const char other[] = "extern \"C\" __global__ void g(float *x) { x[threadIdx.x] += 5; }\n";

Test(tier_nodes, a_silent_tier_delays_a_compile_by_half_of_its_cost)
{
    NEEDS_TOOLCHAIN(nvrtc);
    struct ask a = ask_of(TIER_SOURCE), b = ask_of(other);
    struct key made, found;
    struct warmd first = tier_up(nvrtc, tier_key_file, NULL);
    struct warmd second = tier_up(nvrtc, tier_key_file, NULL);
    nodes[0] = first;
    fds[0] = warmd_native(&first);
    fds[1] = warmd_native(&second);
    send_compile(fds[0], 1, &b, 0);
    warmd_expect(fds[0], 1, WIRE_NEED);
    make_on(0, &b, &made);
    send_compile(fds[1], 1, &a, 0); /* the second one learns what a compile costs */
    warmd_expect(fds[1], 1, WIRE_NEED);
    make_on(1, &a, &found);
    await_stats(&first, "\"queue\": 0,");
    await_stats(&second, "\"queue\": 0,");

    kill(redis.pid, SIGSTOP);
    send_compile(fds[1], 1, &b, 0);
    warmd_expect(fds[1], 1, WIRE_NEED); /* it shall make it; but */
    cr_assert(warmd_stats_have(&second, "\"tier_late\": 1,"));
    kill(redis.pid, SIGCONT);
    cr_assert_neq(expect_cubin(fds[1], 1, &found), WIRE_WAS_MISS, "the tier's answer came first");
    cr_assert(key_equal(&made, &found));
    cr_assert(warmd_stats_have(&second, "\"tier_overtook\": 1,"));
    cr_assert(warmd_stats_have(&second, "\"compiles\": 1,"));
    close(fds[0]);
    close(fds[1]);
    warmd_down(&first);
    warmd_down(&second);
}

Test(tier_nodes, a_dead_tier_is_left_alone_until_the_daemon_sees_it_again)
{
    char *options[] = {"--tier-breaker", "300ms", NULL};
    struct warmd k = tier_up(NULL, tier_key_file, options);
    expect_miss(&k, "graph-0");
    redis_server_stop(&redis);
    expect_miss(&k, "graph-1");
    expect_miss(&k, "graph-2");
    expect_miss(&k, "graph-3");
    await_stats(&k, "\"reads\": {\"state\": \"off\"");
    cr_assert(warmd_stats_have(&k, "\"tier_misses\": 1,"), "errors are no misses");
    expect_miss(&k, "graph-4");
    put_one(&k, "graph-5", "the bytes");
    redis_server_restart(&redis);
    await_stats(&k, "\"reads\": {\"state\": \"on\"");
    await_stats(&k, "\"tier_sent\": 1,");
    await_stats(&k, "\"writes\": {\"state\": \"on\"");
    warmd_down(&k);
}

Test(tier_nodes, a_user_without_eval_hits_all_the_same)
{
    char *out, command[] = "redis-cli -p %d acl setuser default -eval -evalsha";
    cr_assert_eq(run_command(&out, command, redis.port), 0);
    free(out);
    struct warmd first = tier_up(NULL, tier_key_file, NULL);
    int fd = warmd_native(&first);
    warmd_get(fd, 1, "graph-1", true, 0);
    warmd_expect(fd, 1, WIRE_WAIT);
    uint64_t token = warmd_expect_lease(fd, 1);
    warmd_put(fd, 2, "graph-1", "the bytes", token);
    warmd_expect(fd, 2, WIRE_OK);
    close(fd);
    await_stats(&first, "\"tier_sent\": 1,");
    struct warmd second = tier_up(NULL, tier_key_file, NULL);
    expect_value(&second, "graph-1", "the bytes");
    warmd_down(&first);
    warmd_down(&second);
}

/* ---- ranks on several machines ---- */

#define RANKS 8

/* Returns the connection of a rank of a job that runs on both nodes. */
static int rank_of(const struct warmd *k)
{
    struct writer w;
    struct warmd_frame f;
    int fd = warmd_connect(k);
    writer_init(&w, 0);
    wire_put_hello(&w, 0,
                   &(struct wire_hello){WIRE_VERSION, WIRE_VERSION, 0,
                                        view_of_text("python train.py job=slurm:7.0 nodes=2")});
    warmd_flush(fd, &w);
    warmd_frame(fd, &f, WIRE_WELCOME, 0);
    writer_close(&w);
    return fd;
}

/* Has a rank, a process of its own, ask for a name; returns HIT or MISS. */
static int rank_asks(const struct warmd *k, const char *name)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        static struct warmd_frame f;
        int fd = rank_of(k);
        warmd_get(fd, 1, name, false, 0);
        do
            if (!warmd_frame_try(fd, &f))
                _exit(0);
        while (f.frame.type == WIRE_WAIT);
        _exit(f.frame.type);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    return WEXITSTATUS(status);
}

/* Eight ranks on each of two nodes ask for a name, one after the other; those of node `first` begin. All must
 * hear `answer`, though the value is put on the other node after the first one. */
static void all_ranks_hear(struct warmd *k, int first, const char *name, int answer)
{
    int jobs[2] = {rank_of(&k[0]), rank_of(&k[1])}; /* the job lives as long as these */
    for (int i = 0; i < 2 * RANKS; i++) {
        int node = i < RANKS ? first : 1 - first;
        cr_assert_eq(rank_asks(&k[node], name), answer, "rank %d, %s", i, name);
        if (i == 0)
            put_one(&k[1 - first], name, "the bytes");
        if (i == 0)
            await_stats(&k[1 - first], "\"queue\": 0,");
    }
    close(jobs[0]);
    close(jobs[1]);
}

Test(tier_nodes, all_ranks_of_a_job_on_two_nodes_hear_one_answer)
{
    struct warmd k[2] = {tier_up(NULL, tier_key_file, NULL), tier_up(NULL, tier_key_file, NULL)};
    put_one(&k[0], "there", "the bytes");
    await_stats(&k[0], "\"tier_sent\": 1,");
    all_ranks_hear(k, 0, "new-1", WIRE_MISS);
    all_ranks_hear(k, 1, "new-2", WIRE_MISS);
    all_ranks_hear(k, 1, "there", WIRE_HIT);
    /* With the tier dead, each machine decides for itself, and hits what it has. */
    redis_server_stop(&redis);
    cr_assert_eq(rank_asks(&k[0], "there"), WIRE_HIT);
    redis_server_restart(&redis);
    warmd_down(&k[0]);
    warmd_down(&k[1]);
}

/* As after a collision of XXH3: the entry under a name's key has another name. */
Test(tier_nodes, a_rank_is_not_given_the_entry_of_another_name)
{
    struct warmd k = warmd_new();
    struct store_kit kit;
    kit_begin_in(&kit, KIT_MIB, k.store);
    kit_open(&kit);
    struct store_put put = kit_put_of(&kit, geteuid(), 0, strlen("the bytes"));
    put.data = "the bytes";
    put.row.id.key = key_of_bytes("asked", 5);
    put.row.name = view_of_text("other");
    cr_assert_eq(kit_put_with(&kit, &put), 0);
    put.row.id.key = key_of_bytes("own", 3);
    put.row.name = view_of_text("own");
    cr_assert_eq(kit_put_with(&kit, &put), 0);
    kit_close(&kit);
    redis_server_stop(&redis); /* so the machine decides for itself */
    tier_up_again(&k, NULL, tier_key_file, NULL);
    int job = rank_of(&k);
    cr_assert_eq(rank_asks(&k, "own"), WIRE_HIT);
    cr_assert_eq(rank_asks(&k, "asked"), WIRE_MISS);
    close(job);
    redis_server_restart(&redis);
    warmd_down(&k);
}
