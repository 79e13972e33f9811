/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tier_redis_cluster.c - a cluster of three Redis servers and a replica: a slot moves, a master is killed. One
 * backend, then two daemons with stores of their own; with TLS, too.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/backend.h"
#include "tests/support/engine.h"
#include "tests/support/support.h"
#include "tests/support/tier_kit.h"

#define NODES 4 /* three masters, and a replica of the first */
#define MASTERS 3

static struct engine node[NODES];
static struct backend_kit kit;
static char *dir;
static char cli[300] = "redis-cli"; /* and how it reaches the servers */
static bool has_tls;

/* Returns what a shell prints, without the line's end. */
static char *shell(const char *format, ...) __attribute__((format(printf, 1, 2)));

static char *shell(const char *format, ...)
{
    static char result[400];
    char line[600], *out;
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    int code = run_command(&out, "%s 2>&1", line);
    cr_assert_eq(code, 0, "%s: %s", line, out);
    snprintf(result, sizeof result, "%s", out);
    result[strcspn(result, "\r\n")] = '\0';
    free(out);
    return result;
}

static void wait_until(const char *condition)
{
    shell("for i in $(seq 400); do if %s; then exit 0; fi; sleep .05; done; exit 1", condition);
}

static void start_node(int i)
{
    char port[16], folder[300], files[3][300];
    static const char *const names[] = {"ca.crt", "server.crt", "server.key"};
    for (int k = 0; k < 3; k++)
        snprintf(files[k], sizeof files[k], "%s/%s", dir, names[k]);
    snprintf(port, sizeof port, "%d", node[i].port);
    snprintf(folder, sizeof folder, "%s/%d", dir, i);
    const char *const argv[] = {"redis-server",
                                "--port",
                                has_tls ? "0" : port,
                                "--bind",
                                "127.0.0.1",
                                "--save",
                                "",
                                "--logfile",
                                "/dev/null",
                                "--dir",
                                folder,
                                "--cluster-enabled",
                                "yes",
                                "--cluster-node-timeout",
                                "1000",
                                "--cluster-require-full-coverage",
                                "no",
                                "--repl-ping-replica-period",
                                "1",
                                "--repl-diskless-sync-delay",
                                "0",
                                has_tls ? "--tls-port" : NULL,
                                port,
                                "--tls-cluster",
                                "yes",
                                "--tls-auth-clients",
                                "no",
                                "--tls-ca-cert-file",
                                files[0],
                                "--tls-cert-file",
                                files[1],
                                "--tls-key-file",
                                files[2],
                                NULL};
    engine_start_on_port(&node[i], argv);
}

/* Starts the servers, and makes a cluster of the first three. */
static void start_cluster(void)
{
    char line[500];
    for (int i = 0; i < NODES; i++) {
        shell("mkdir %s/%d", dir, i);
        do
            node[i].port = engine_free_port();
        while (node[i].port > 55000); /* the cluster's bus is 10000 above */
        start_node(i);
    }
    shell("%s --cluster create 127.0.0.1:%d 127.0.0.1:%d 127.0.0.1:%d --cluster-replicas 0 "
          "--cluster-yes",
          cli, node[0].port, node[1].port, node[2].port);
    for (int i = 0; i < MASTERS; i++) {
        snprintf(line, sizeof line, "%s -p %d cluster info | grep -q cluster_state:ok", cli,
                 node[i].port);
        wait_until(line);
    }
}

static void set_up(void)
{
    char url[200];
    dir = temp_dir_new();
    start_cluster();
    snprintf(url, sizeof url, "redis-cluster://127.0.0.1:%d,localhost:%d", node[0].port,
             node[1].port);
    backend_open(&kit, url, NULL);
}

static void tear_down(void)
{
    backend_close(&kit);
    for (int i = 0; i < NODES; i++)
        if (node[i].pid)
            engine_stop(&node[i]);
    temp_dir_free(dir);
}

TestSuite(tier_redis_cluster, .init = set_up, .fini = tear_down);

static struct tier_request request(enum tier_operation op, int id, char token)
{
    struct tier_request r = {.operation = op, .fd = -1, .limit = 1 << 20, .lease_ms = 5000};
    snprintf(r.name, sizeof r.name, "ab/e-%d", id);
    memset(r.token, token, sizeof r.token);
    return r;
}

static void expect_bytes(struct tier_request *r, const char *value)
{
    char out[64] = "";
    cr_assert_eq(r->outcome, TIER_OK, "%s", r->said);
    cr_assert_eq(pread(r->result_fd, out, 63, 0), (ssize_t)strlen(value));
    cr_assert_str_eq(out, value);
    close(r->result_fd);
}

/* Returns the index of the master that has an object's slot. */
static int master_of(int id)
{
    int slot = atoi(shell("redis-cli -p %d cluster keyslot '{v1:%d}:e'", node[0].port, id));
    char *port =
        shell("redis-cli -p %d cluster slots | awk -v s=%d "
              "'BEGIN { RS = \"\" } { for (i = 1; i < NF; i++) "
              "if ($(i + 2) == \"127.0.0.1\" && $i <= s && $(i + 1) >= s) print $(i + 3) }'",
              node[0].port, slot);
    for (int i = 0; i < NODES; i++)
        if (node[i].port == atoi(port))
            return i;
    cr_assert_fail("no master has the slot %d: %s", slot, port);
    return -1;
}

Test(tier_redis_cluster, objects_and_leases_of_all_slots)
{
    char value[20];
    for (int id = 0; id < 100; id++) {
        struct tier_request a = request(TIER_ASK, id, 'a'), b = request(TIER_ASK, id, 'b');
        struct tier_request get = request(TIER_GET, id, 0);
        snprintf(value, sizeof value, "value %d", id);
        cr_assert_eq(backend_run(&kit, &get), TIER_ABSENT, "%d: %s", id, get.said);
        cr_assert_eq(backend_run(&kit, &a), TIER_LEASE, "%d: %s", id, a.said);
        cr_assert_eq(backend_run(&kit, &b), TIER_WAIT, "%d: %s", id, b.said);
        cr_assert_eq(backend_send(&kit, request(TIER_FINISH, id, 'a'), value), TIER_OK);
        backend_run(&kit, &b);
        expect_bytes(&b, value);
    }
    for (int i = 0; i < MASTERS; i++)
        cr_assert_gt(atoi(shell("redis-cli -p %d dbsize", node[i].port)), 10, "each has its part");
    struct tier_request probe = request(TIER_PROBE, 1, 0);
    cr_assert_eq(backend_run(&kit, &probe), TIER_OK, "%s", probe.said);
    cr_assert(probe.capabilities.leases && probe.capabilities.writes);
}

Test(tier_redis_cluster, a_slot_moves)
{
    struct tier_request get = request(TIER_GET, 7, 0), ask = request(TIER_ASK, 7, 'a');
    int from = master_of(7), to = (from + 1) % MASTERS;
    int slot = atoi(shell("redis-cli -p %d cluster keyslot '{v1:7}:e'", node[0].port));
    char ids[2][60];
    snprintf(ids[0], sizeof ids[0], "%s", shell("redis-cli -p %d cluster myid", node[from].port));
    snprintf(ids[1], sizeof ids[1], "%s", shell("redis-cli -p %d cluster myid", node[to].port));
    cr_assert_eq(backend_run(&kit, &get), TIER_ABSENT);
    shell("redis-cli -p %d cluster setslot %d importing %s", node[to].port, slot, ids[0]);
    shell("redis-cli -p %d cluster setslot %d migrating %s", node[from].port, slot, ids[1]);
    cr_assert_eq(backend_run(&kit, &get), TIER_ABSENT, "ASK: %s", get.said);
    cr_assert_eq(backend_run(&kit, &ask), TIER_LATER, "TRYAGAIN: %s", ask.said);
    cr_assert(strstr(ask.said, "TRYAGAIN"), "%s", ask.said);
    cr_assert_eq(backend_send(&kit, request(TIER_PUT, 7, 0), "moved"), TIER_OK);
    cr_assert_eq(atoi(shell("redis-cli -p %d dbsize", node[from].port)), 0, "it is at the new one");
    backend_run(&kit, &get);
    expect_bytes(&get, "moved");
    for (int i = 0; i < MASTERS; i++)
        shell("redis-cli -p %d cluster setslot %d node %s", node[(to + i) % MASTERS].port, slot,
              ids[1]);
    backend_run(&kit, &get);
    expect_bytes(&get, "moved");
    ask.limit = 1 << 20;
    backend_run(&kit, &ask);
    expect_bytes(&ask, "moved");
}

/* Makes the last server a replica of the first. */
static void add_replica(void)
{
    char id[60];
    snprintf(id, sizeof id, "%s", shell("redis-cli -p %d cluster myid", node[0].port));
    shell("redis-cli --cluster add-node 127.0.0.1:%d 127.0.0.1:%d --cluster-slave "
          "--cluster-master-id %s",
          node[3].port, node[0].port, id);
}

Test(tier_redis_cluster, a_master_is_killed_and_its_replica_takes_over)
{
    char line[400];
    int first = -1, other = -1;
    for (int i = 0; first < 0 || other < 0; i++) {
        int master = master_of(i);
        first = first < 0 && master == 0 ? i : first;
        other = other < 0 && master != 0 ? i : other;
    }
    struct tier_request get = request(TIER_GET, first, 0), rest = request(TIER_GET, other, 0);
    add_replica();
    cr_assert_eq(backend_send(&kit, request(TIER_PUT, first, 0), "kept"), TIER_OK);
    cr_assert_eq(backend_send(&kit, request(TIER_PUT, other, 0), "other"), TIER_OK);
    snprintf(line, sizeof line, "[ \"$(redis-cli -p %d dbsize)\" = 1 ]", node[3].port);
    wait_until(line);
    kill(node[0].pid, SIGKILL);
    waitpid(node[0].pid, NULL, 0);
    node[0].pid = 0;
    unsigned failed = 0;
    for (int i = 0; i < 1000 && backend_run(&kit, &get) != TIER_OK; i++, failed++) {
        cr_assert(get.outcome == TIER_FAILED || get.outcome == TIER_LATER, "no miss: %d %s",
                  get.outcome, get.said);
        backend_run(&kit, &rest);
        expect_bytes(&rest, "other");
        usleep(20000);
    }
    expect_bytes(&get, "kept");
    cr_assert_gt(failed, 0);
    cr_assert_eq(backend_send(&kit, request(TIER_PUT, first, 0), "new"), TIER_OK);
}

/* ---- two daemons ---- */

#define VALUES 60 /* as await_stats says, too */

static void put_values(const struct warmd *k, const char *what)
{
    char name[40], value[60];
    for (int i = 0; i < VALUES; i++) {
        snprintf(name, sizeof name, "%s-%d", what, i);
        snprintf(value, sizeof value, "the bytes of %s", name);
        put_one(k, name, value);
    }
}

/* Asks for a value until it comes: no answer is another one's bytes, and none takes long. */
static void await_value(struct warm *w, const char *what, int i)
{
    char name[40], value[60];
    struct warm_value got;
    snprintf(name, sizeof name, "%s-%d", what, i);
    snprintf(value, sizeof value, "the bytes of %s", name);
    for (uint64_t end = clock_now_ms() + WARMD_WAIT_MS; clock_now_ms() < end; usleep(20000)) {
        uint64_t began = clock_now_ms();
        int code = warm_get(w, name, strlen(name), 0, &got);
        cr_assert_lt(clock_now_ms() - began, 10000, "%s: its budget is 2 s", name);
        if (code)
            continue;
        cr_assert(got.len == strlen(value) && memcmp(got.data, value, got.len) == 0, "%s", name);
        warm_value_free(&got);
        return;
    }
    cr_assert_fail("%s does not come", name);
}

/* Moves the first slot of a server that has values to the next server, up to before all are told. Returns it. */
static int move_slot(int from, int to)
{
    char ids[2][60];
    int slot = atoi(shell("redis-cli -p %d cluster keyslot $(redis-cli -p %d randomkey)",
                          node[from].port, node[from].port));
    snprintf(ids[0], sizeof ids[0], "%s", shell("redis-cli -p %d cluster myid", node[from].port));
    snprintf(ids[1], sizeof ids[1], "%s", shell("redis-cli -p %d cluster myid", node[to].port));
    shell("redis-cli -p %d cluster setslot %d importing %s", node[to].port, slot, ids[0]);
    shell("redis-cli -p %d cluster setslot %d migrating %s", node[from].port, slot, ids[1]);
    shell("for key in $(redis-cli -p %d cluster getkeysinslot %d 100); do "
          "redis-cli -p %d migrate 127.0.0.1 %d $key 0 5000; done",
          node[from].port, slot, node[from].port, node[to].port);
    return slot;
}

Test(tier_redis_cluster, two_daemons_go_on_while_a_slot_moves_and_a_master_is_killed,
     .timeout = 300)
{
    char *options[] = {"--tier-breaker", "300ms", NULL}, line[400], id[60];
    tier_setup();
    snprintf(tier_url, sizeof tier_url, "redis-cluster://127.0.0.1:%d,localhost:%d", node[1].port,
             node[0].port);
    struct warmd writer = tier_up(NULL, tier_key_file, options);
    struct warmd reader = tier_up(NULL, tier_key_file, options);
    struct warm *r = warmd_libwarm(&reader);
    put_values(&writer, "known");
    await_stats(&writer, "\"tier_sent\": 60,");
    int slot = move_slot(1, 2);
    for (int i = 0; i < VALUES / 3; i++)
        await_value(r, "known", i); /* ASK */
    snprintf(id, sizeof id, "%s", shell("redis-cli -p %d cluster myid", node[2].port));
    for (int i = 0; i < MASTERS; i++)
        shell("redis-cli -p %d cluster setslot %d node %s", node[(2 + i) % MASTERS].port, slot, id);
    for (int i = VALUES / 3; i < VALUES * 2 / 3; i++)
        await_value(r, "known", i); /* MOVED */
    cr_assert(warmd_stats_have(&reader, "\"tier_refused\": 0,"));

    add_replica();
    snprintf(line, sizeof line, "[ \"$(redis-cli -p %d dbsize)\" = \"$(redis-cli -p %d dbsize)\" ]",
             node[3].port, node[0].port);
    wait_until(line);
    kill(node[0].pid, SIGKILL);
    waitpid(node[0].pid, NULL, 0);
    node[0].pid = 0;
    put_values(&writer, "late"); /* a third of them cannot be sent now */
    for (int i = VALUES * 2 / 3; i < VALUES; i++)
        await_value(r, "known", i);
    await_stats(&writer, "\"queue\": 0,");
    struct warmd third = tier_up(NULL, tier_key_file, options);
    struct warm *t = warmd_libwarm(&third);
    for (int i = 0; i < VALUES; i++)
        await_value(t, "late", i);
    warm_close(t);
    warm_close(r);
    warmd_down(&third);
    warmd_down(&reader);
    warmd_down(&writer);
    tier_teardown();
}

/* ---- over TLS ---- */

static void set_up_tls(void)
{
    dir = temp_dir_new();
    engine_make_certificates(dir);
    has_tls = true;
    snprintf(cli, sizeof cli, "redis-cli --tls --cacert %s/ca.crt", dir);
    start_cluster();
}

static void tear_down_tls(void)
{
    for (int i = 0; i < NODES; i++)
        engine_stop(&node[i]);
    temp_dir_free(dir);
}

TestSuite(tier_rediss_cluster, .init = set_up_tls, .fini = tear_down_tls);

Test(tier_rediss_cluster, objects_and_leases_of_all_slots)
{
    char url[200], ca[300], other[300], value[20];
    snprintf(url, sizeof url, "rediss-cluster://127.0.0.1:%d", node[0].port);
    snprintf(ca, sizeof ca, "%s/ca.crt", dir);
    snprintf(other, sizeof other, "%s/other.crt", dir);
    backend_open_with(&kit, &(struct tier_settings){.url = url, .ca = ca});
    for (int id = 0; id < 30; id++) {
        struct tier_request a = request(TIER_ASK, id, 'a'), b = request(TIER_ASK, id, 'b');
        snprintf(value, sizeof value, "value %d", id);
        cr_assert_eq(backend_run(&kit, &a), TIER_LEASE, "%d: %s", id, a.said);
        cr_assert_eq(backend_send(&kit, request(TIER_FINISH, id, 'a'), value), TIER_OK);
        backend_run(&kit, &b);
        expect_bytes(&b, value);
    }
    for (int i = 0; i < MASTERS; i++)
        cr_assert_gt(atoi(shell("%s -p %d dbsize", cli, node[i].port)), 2, "each has its part");
    backend_close(&kit);
    backend_open_with(&kit, &(struct tier_settings){.url = url, .ca = other});
    struct tier_request get = request(TIER_GET, 1, 0);
    cr_assert_eq(backend_run(&kit, &get), TIER_MISSET, "%s", get.said);
    cr_assert(strstr(get.said, "certificate"), "%s", get.said);
    backend_close(&kit);
}
