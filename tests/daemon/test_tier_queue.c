/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tier_queue.c - what waits to be sent to the tier: it outlives the daemon, the most valuable goes
 * first, and limits hold.
 */
#include "tests/support/tier_kit.h"

TestSuite(tier_queue, .init = tier_setup, .fini = tier_teardown);

/* Points the tier at a folder that is not there yet. */
static void tier_is_away(void)
{
    snprintf(tier_url, sizeof tier_url, "file://%s/later", tier_folder);
}

static void tier_comes(void)
{
    char *path = path_join(tier_folder, "later");
    cr_assert_eq(mkdir(path, 0755), 0);
    free(path);
}

static void kill_daemon(struct warmd *k)
{
    cr_assert_eq(kill(k->pid, SIGKILL), 0);
    waitpid(k->pid, NULL, 0);
}

Test(tier_queue, kill_9_between_put_and_upload_loses_nothing)
{
    tier_is_away();
    struct warmd k = tier_up(NULL, tier_key_file, NULL);
    put_one(&k, "graph-1", "the bytes");
    await_stats(&k, "\"queue\": 1,");
    kill_daemon(&k);
    tier_comes();
    tier_up_again(&k, NULL, tier_key_file, NULL);
    await_stats(&k, "\"tier_sent\": 1,");
    await_stats(&k, "\"queue\": 0,");
    cr_assert_eq(count_objects(), 1);
    /* The mark is gone from the store, too: a third daemon sends nothing. */
    warmd_down(&k);
    struct warmd second = tier_up(NULL, tier_key_file, NULL);
    expect_value(&second, "graph-1", "the bytes");
    warmd_down(&second);
}

Test(tier_queue, what_was_sent_is_not_sent_again_after_a_restart)
{
    struct warmd k = warmd_new();
    char *store = k.store;
    tier_up_again(&k, NULL, tier_key_file, NULL);
    put_one(&k, "graph-1", "the bytes");
    await_stats(&k, "\"tier_sent\": 1,");
    await_stats(&k, "\"queue\": 0,");
    cr_assert_eq(kill(k.pid, SIGTERM), 0);
    waitpid(k.pid, NULL, 0);
    cr_assert_str_eq(k.store, store);
    tier_up_again(&k, NULL, tier_key_file, NULL);
    put_one(&k, "graph-2", "other bytes");
    await_objects(2);
    await_stats(&k, "\"tier_sent\": 1,");
    warmd_down(&k);
}

Test(tier_queue, sigterm_sends_what_waits)
{
    struct warmd k = tier_up(NULL, tier_key_file, NULL);
    char name[24];
    for (int i = 0; i < 50; i++) {
        snprintf(name, sizeof name, "graph-%d", i);
        put_one(&k, name, "the bytes");
    }
    warmd_down(&k);
    cr_assert_eq(count_objects(), 50);
}

Test(tier_queue, sigterm_waits_for_a_dead_tier_for_no_longer)
{
    tier_is_away();
    struct warmd k = tier_up(NULL, tier_key_file, NULL);
    put_one(&k, "graph-1", "the bytes");
    await_log(&k, "writes fail");
    uint64_t began = clock_now_ms();
    warmd_down(&k);
    cr_assert_lt(clock_now_ms() - began, 7000u);
}

Test(tier_queue, a_full_queue_and_an_old_entry_are_counted)
{
    tier_is_away();
    char *few[] = {"--tier-queue", "2", NULL}, *young[] = {"--tier-queue-age", "1ms", NULL};
    struct warmd k = tier_up(NULL, tier_key_file, few);
    put_one(&k, "graph-1", "1");
    put_one(&k, "graph-2", "2");
    put_one(&k, "graph-3", "3");
    await_stats(&k, "\"tier_dropped\": 1,");
    kill_daemon(&k);
    tier_comes();
    tier_up_again(&k, NULL, tier_key_file, young);
    await_stats(&k, "\"tier_dropped\": 2,");
    await_stats(&k, "\"queue\": 0,");
    cr_assert_eq(count_objects(), 0);
    warmd_down(&k);
}

/* Puts a value that took so long to make. */
static void put_cost(struct warm *w, const char *name, size_t len, uint32_t cost_ms)
{
    char *value = calloc(1, len);
    memcpy(value, name, strlen(name));
    struct warm_put_options options = {.cost_ms = cost_ms};
    cr_assert_eq(warm_put(w, name, strlen(name), value, len, &options), 0);
    free(value);
}

Test(tier_queue, the_most_valuable_goes_first_within_the_bandwidth)
{
    tier_is_away();
    struct warmd k = tier_up(NULL, tier_key_file, NULL);
    struct warm *w = warmd_libwarm(&k);
    put_cost(w, "cheap", 50000, 30);
    put_cost(w, "large", 3000000, 1000);
    put_cost(w, "dear", 50000, 60000);
    warm_close(w);
    await_stats(&k, "\"queue\": 3,");
    kill_daemon(&k);
    tier_comes();
    char *slow[] = {"--tier-bandwidth", "10K", "--tier-uploads", "1", NULL};
    tier_up_again(&k, NULL, tier_key_file, slow);
    await_stats(&k, "\"tier_sent\": 1,");
    struct warmd second = tier_up(NULL, tier_key_file, NULL);
    int fd = warmd_native(&second);
    static struct warmd_frame f;
    warmd_get(fd, 1, "dear", false, 0);
    do
        cr_assert(warmd_frame_try(fd, &f));
    while (f.frame.type == WIRE_WAIT);
    cr_assert_eq(f.frame.type, WIRE_HIT);
    close(fd);
    expect_miss(&second, "large");
    kill_daemon(&k); /* it would send for 5 s */
    warmd_free(&k);
    warmd_down(&second);
}

static const char slow_disk[] = "#include <sys/syscall.h>\n#include <unistd.h>\n"
                                "int fdatasync(int fd) { if (access(SLOW, F_OK) == 0) "
                                "usleep(1500000); return (int)syscall(SYS_fdatasync, fd); }\n";

/* Starts a daemon whose disk takes 1.5 s for each commit while there is a file of this name, which is given. */
static struct warmd tier_up_slow(char *const *options, char **out_slow)
{
    char *slow = path_join(tier_folder, "slow"), *library = path_join(tier_folder, "slow.so"), *out;
    char *source = path_join(tier_folder, "slow.c");
    FILE *f = fopen(source, "w");
    cr_assert(f && fputs(slow_disk, f) >= 0 && fclose(f) == 0);
    cr_assert_eq(
        run_command(&out, "cc -shared -fPIC -DSLOW='\"%s\"' -o %s %s", slow, library, source), 0,
        "%s", out);
    free(out);
    setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 1);
    setenv("LD_PRELOAD", library, 1);
    struct warmd k = tier_up(NULL, tier_key_file, options);
    unsetenv("LD_PRELOAD");
    free(source);
    free(library);
    *out_slow = slow;
    return k;
}

static void touch(const char *path)
{
    FILE *f = fopen(path, "w");
    cr_assert(f && fclose(f) == 0);
}

/* A scan that comes before the marks are committed finds nothing. */
Test(tier_queue, pushed_entries_are_sent_however_slow_the_disk_is)
{
    char *dear[] = {"--tier-min-cost", "1h", NULL}, *warm = bin_path("warm"), *out, *slow;
    struct warmd k = tier_up_slow(dear, &slow);
    struct warm *w = warmd_libwarm(&k);
    put_cost(w, "cheap", 9, 5);
    warm_close(w);
    cr_assert(warmd_stats_have(&k, "\"queue\": 0,"));
    touch(slow);
    cr_assert_eq(run_command(&out, "WARM_SOCKET=%s %s tier push", k.socket, warm), 0);
    free(out);
    unlink(slow);
    await_stats(&k, "\"tier_sent\": 1,");
    warmd_down(&k);
    free(slow);
    free(warm);
}

/* The second one asks while the first one's commit has 1.5 s to go. */
Test(tier_queue, what_came_and_is_not_on_disk_yet_is_not_fetched_again)
{
    char *slow;
    struct warmd first = tier_up(NULL, tier_key_file, NULL);
    put_one(&first, "graph-1", "the bytes");
    await_objects(1);
    struct warmd k = tier_up_slow(NULL, &slow);
    touch(slow);
    expect_value(&k, "graph-1", "the bytes");
    expect_value(&k, "graph-1", "the bytes");
    cr_assert(warmd_stats_have(&k, "\"tier_hits\": 1,"));
    unlink(slow);
    warmd_down(&k);
    warmd_down(&first);
    free(slow);
}

/* The helper is stopped while it sends the old value. */
Test(tier_queue, a_value_that_changes_while_it_is_sent_is_sent_again)
{
    struct warmd k = tier_up(NULL, tier_key_file, NULL);
    put_one(&k, "graph-0", "to see that the helper runs");
    await_objects(1);
    pid_t helper = helper_of(&k);
    cr_assert_eq(kill(helper, SIGSTOP), 0);
    put_one(&k, "graph-1", "old bytes");
    await_stats(&k, "\"sending\": 1,");
    put_one(&k, "graph-1", "new bytes");
    cr_assert_eq(kill(helper, SIGCONT), 0);
    await_stats(&k, "\"queue\": 0,");
    await_stats(&k, "\"tier_sent\": 3,");
    struct warmd second = tier_up(NULL, tier_key_file, NULL);
    expect_value(&second, "graph-1", "new bytes");
    warmd_down(&second);
    warmd_down(&k);
}
