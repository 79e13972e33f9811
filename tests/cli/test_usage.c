/* SPDX-License-Identifier: Apache-2.0 */
/* test_usage.c - `warm stats` by hour, user and project, its reset, and what counts as use. */
#include "daemon/history/usage.h"
#include "tests/support/warmd.h"

Test(usage, requests_count_for_their_user_and_project)
{
    struct warmd k = warmd_up(NULL);
    warmd_shell(&k, 0, "echo 1 >v; $W put a v --cost-ms 3000", "");
    warmd_shell(&k, 0, "WARM_PROJECT=alpha $W get a -o v; WARM_PROJECT=alpha $W get a -o v", "");
    warmd_shell(&k, 1, "WARM_PROJECT=beta $W get triton:none -o v", "");
    warmd_shell(
        &k, 0, "$W stats --since 2h --json | tr -d ' \\n'",
        "\"project\":\"alpha\",\"hits\":2,\"misses\":0,\"coalesced\":0,\"errors\":0,\"saved_"
        "ms\":6000");
    warmd_shell(&k, 0, "$W stats --project beta", "beta                         0         1");
    warmd_shell(&k, 0, "$W stats --project beta | grep -c alpha || true", "0");
    warmd_shell(&k, 0, "$W stats --user 4000000000", "no requests");
    warmd_shell(&k, 0,
                "$W stats --json | python3 -c 'import json, sys; d = json.load(sys.stdin); "
                "print(d[\"kinds\"][\"triton\"][\"misses\"], d[\"kinds\"][\"other\"][\"misses\"])'",
                "1 0");
    warmd_shell(&k, 2, "$W stats --since soon", "--since soon is not a span");
    warmd_down(&k);
}

Test(usage, it_outlives_a_restart)
{
    struct warmd k = warmd_up(NULL);
    warmd_shell(&k, 0, "echo 1 >v; $W put a v; WARM_PROJECT=p $W get a -o v", "");
    kill(k.pid, SIGTERM);
    warmd_reap(k.pid);
    warmd_start(&k, NULL);
    warmd_shell(
        &k, 0,
        "$W stats --project p --json | python3 -c 'import json, sys; d = json.load(sys.stdin); "
        "print(d[0][\"hits\"])'",
        "1");
    warmd_down(&k);
}

Test(usage, a_session_carries_its_project_to_clients_that_do_not_know_it)
{
    struct warmd k = warmd_up(NULL);
    warmd_shell(&k, 0, "echo 1 >v; $W put a v", "");
    warmd_shell(&k, 0, "WARM_PROJECT=p WARM_SESSION=s $W get a -o v", "");
    int fd = warmd_connect(&k);
    warmd_redis(fd, "CLIENT SETNAME warm-session-s\r\n", "+OK\r\n");
    warmd_redis(fd, "GET a\r\n", "$2\r\n1\n\r\n");
    warmd_shell(
        &k, 0,
        "$W stats --project p --json | python3 -c 'import json, sys; d = json.load(sys.stdin); "
        "print(d[0][\"hits\"])'",
        "2");
    close(fd);
    warmd_down(&k);
}

Test(usage, a_reset_begins_a_column_of_ones_own)
{
    struct warmd k = warmd_up(NULL);
    warmd_shell(&k, 0, "echo 1 >v; $W put a v; WARM_PROJECT=p $W get a -o v", "");
    warmd_shell(&k, 0, "$W stats | head -1", "in total\n");
    warmd_shell(&k, 0, "$W stats --reset; WARM_PROJECT=p $W get a -o v", "");
    warmd_shell(&k, 0, "$W stats | tr -s ' ' | sed -n '1p;3p'",
                " since start in total since reset\nhits 2 2 1\n");
    warmd_down(&k);
}

Test(usage, looking_is_no_use)
{
    struct warmd k = warmd_up(NULL);
    warmd_shell(&k, 0, "echo 1 >v; $W put a v; $W get a -o v; $W show a; $W ls; $W why a || true",
                "");
    warmd_shell(&k, 1, "$W get nothing -o v", "no such entry");
    warmd_shell(&k, 0, "$W export x.warm; $W stats --since 1h; $W verify", "");
    warmd_shell(&k, 0,
                "$W stats --json | python3 -c 'import json, sys; d = json.load(sys.stdin); "
                "print(d[\"hits\"], d[\"misses\"], d[\"saved_ms\"])'",
                "0 0 0");
    warmd_shell(&k, 1, "$W why", "no miss is known");
    warmd_down(&k);
}

Test(usage, an_export_of_a_project_has_what_its_sessions_used)
{
    struct warmd k = warmd_up(NULL);
    warmd_shell(&k, 0, "echo 1 >v; for n in a b c; do $W put $n v; done", "");
    warmd_shell(
        &k, 0,
        "WARM_PROJECT=p WARM_SESSION=s1 $W get a -o v; WARM_PROJECT=p WARM_SESSION=s2 $W get b "
        "-o v",
        "");
    warmd_shell(
        &k, 0,
        "WARM_PROJECT=p WARM_SESSION=s3 $W get a -o v; WARM_PROJECT=q WARM_SESSION=s4 $W get c "
        "-o v",
        "");
    warmd_shell(&k, 0, "$W export x.warm --project p", "exported 2 entries");
    warmd_shell(&k, 1, "$W export x.warm --project none",
                "no session of the project none is known");
    warmd_down(&k);
}

/* ---- the table ---- */

static struct usage table;

static size_t rows_of(uint32_t uid)
{
    size_t n = 0;
    for (size_t i = 0; i < USAGE_ROWS; i++)
        n += table.row[i].hour && table.row[i].uid == uid;
    return n;
}

Test(usage, one_user_does_not_push_out_others_rows)
{
    char project[16];
    memset(&table, 0, sizeof table);
    for (unsigned hour = 1; hour <= 3; hour++)
        usage_count(&table, 7, "mine", USAGE_hits, 1, hour * (uint64_t)USAGE_HOUR_MS);
    for (unsigned uid = 100; uid < 110; uid++)
        for (unsigned i = 0; i < 1000; i++) {
            snprintf(project, sizeof project, "p%u", i);
            usage_count(&table, uid, project, USAGE_misses, 1, 9 * (uint64_t)USAGE_HOUR_MS);
        }
    cr_expect_eq(rows_of(7), 3);
    for (unsigned uid = 100; uid < 110; uid++)
        cr_expect_leq(rows_of(uid), USAGE_OF_USER);
    struct writer w;
    writer_init(&w, 0);
    usage_encode(&table, &w);
    struct reader r = reader_over(w.data, w.len);
    struct usage copy = {.cache = {0}};
    usage_decode(&copy, &r);
    cr_expect_eq(r.len, 0);
    cr_expect_eq(memcmp(copy.row, table.row, sizeof copy.row), 0);
    writer_close(&w);
}
