/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tier_service.c - warm-tier as a service of its own: another user, with the network, which the daemon lacks.
 * systemd-socket-activate stands where systemd does, and hands the helper its connection in the same way.
 *
 * Needs root: the daemon gets a network namespace without a way out.
 */
#include <sched.h>

#include "tests/support/engine.h"
#include "tests/support/redis_server.h"
#include "tests/support/tier_kit.h"

#define NOBODY 65534

static char *folder, *socket_path, *config;
static pid_t activator;

static void setup(void)
{
    tier_setup();
    folder = temp_dir_new();
    cr_assert_eq(chmod(folder, 0711), 0);
    socket_path = path_join(folder, "tier.sock");
    config = path_join(folder, "warmd.conf");
}

static void teardown(void)
{
    if (activator) {
        kill(activator, SIGTERM);
        waitpid(activator, NULL, 0);
    }
    free(config);
    free(socket_path);
    temp_dir_free(folder);
    tier_teardown();
}

TestSuite(tier_service, .init = setup, .fini = teardown);

/* Starts the helper's service for the tier of tier_url, as nobody; the daemons that come are cut off the network. */
static void service_up(const char *more)
{
    char text[600], *helper = public_path("libexec/warm/warm-tier");
    snprintf(text, sizeof text, "# the tier\ntier = %s\n%s", tier_url, more);
    file_write(config, text, strlen(text));
    cr_assert_eq(chmod(config, 0644), 0);
    activator = fork();
    if (activator == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        freopen("/dev/null", "w", stderr);
        execlp("systemd-socket-activate", "systemd-socket-activate", "--accept", "--seqpacket",
               "-l", socket_path, "-E", "PATH", "setpriv", "--reuid=nobody", "--clear-groups",
               helper, "--config", config, (char *)NULL);
        _exit(127);
    }
    for (uint64_t end = clock_now_ms() + WARMD_WAIT_MS; access(socket_path, F_OK) != 0;
         usleep(5000))
        cr_assert_lt(clock_now_ms(), end, "no socket of the service");
    cr_assert_eq(unshare(CLONE_NEWNET), 0);
    free(helper);
}

static struct warmd daemon_up(void)
{
    char *options[] = {"--tier-socket", socket_path, NULL};
    return tier_up(NULL, tier_key_file, options);
}

/* What one daemon was given, another has, though neither reaches the network. */
static void two_daemons_share(const char *name)
{
    struct warmd first = daemon_up();
    put_one(&first, name, "the bytes");
    await_stats(&first, "\"tier_sent\": 1,");
    warmd_down(&first);
    struct warmd second = daemon_up();
    expect_value(&second, name, "the bytes");
    cr_assert(warmd_stats_have(&second, "\"tier_hits\": 1,"));
    warmd_down(&second);
}

Test(tier_service, a_daemon_without_network_has_a_redis)
{
    NEEDS_TWO_USERS();
    struct redis_server redis;
    redis_server_start(&redis, "--maxclients", "100");
    snprintf(tier_url, sizeof tier_url, "%s", redis.url);
    service_up("");
    two_daemons_share("graph-1");
    redis_server_stop(&redis);
}

Test(tier_service, and_an_s3_whose_keys_it_cannot_read)
{
    NEEDS_TWO_USERS();
    static const char *const argv[] = {"python3", "tests/tier/fake_s3.py", NULL};
    static const char keys[] = "access_key = AKID\nsecret_key = SECRET\n";
    char *credentials = path_join(folder, "keys"), line[300];
    struct engine s3;
    engine_start(&s3, argv);
    snprintf(tier_url, sizeof tier_url, "s3://warm/pre?endpoint=http://127.0.0.1:%d", s3.port);
    file_write(credentials, keys, strlen(keys));
    cr_assert_eq(chmod(credentials, 0600), 0);
    cr_assert_eq(chown(credentials, NOBODY, NOBODY), 0);
    snprintf(line, sizeof line, "tier-credentials = %s\n", credentials); /* "-" is "_" */
    service_up(line); /* the daemons' own options name no credentials */
    two_daemons_share("graph-1");
    engine_stop(&s3);
    free(credentials);
}

Test(tier_service, its_absence_and_its_end_cost_hits_alone)
{
    NEEDS_TWO_USERS();
    struct redis_server redis;
    char *out;
    redis_server_start(&redis, "--maxclients", "100");
    snprintf(tier_url, sizeof tier_url, "%s", redis.url);
    struct warmd k = daemon_up();
    await_log(&k, "warm-tier does not start: cannot connect to ");
    put_one(&k, "graph-1", "the bytes");
    expect_value(&k, "graph-1", "the bytes");
    expect_miss(&k, "graph-2");
    warmd_down(&k);

    service_up("");
    k = daemon_up();
    put_one(&k, "graph-3", "the bytes");
    await_stats(&k, "\"tier_sent\": 1,");
    run_command(&out, "pkill -KILL -x warm-tier -P %d", (int)activator);
    free(out);
    await_log(&k, "warm-tier ended");
    expect_value(&k, "graph-3", "the bytes");
    put_one(&k, "graph-4", "the bytes");
    await_stats(&k, "\"tier_sent\": 2,");
    warmd_down(&k);
    redis_server_stop(&redis);
}

Test(tier_service, a_configuration_without_a_tier_is_named)
{
    NEEDS_TWO_USERS();
    snprintf(tier_url, sizeof tier_url, "redis://127.0.0.1:1");
    service_up("tier =\n");
    struct warmd k = daemon_up();
    await_log(&k, "has no tier");
    warmd_down(&k);
}

Test(tier_service, another_user_does_not_pose_as_it)
{
    NEEDS_TWO_USERS();
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int ready[2];
    char byte;
    cr_assert_eq(pipe(ready), 0);
    cr_assert_eq(chown(folder, NOBODY, NOBODY), 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", socket_path);
    pid_t impostor = fork();
    if (impostor == 0) {
        int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (setuid(NOBODY) != 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
            listen(fd, 4) != 0)
            _exit(1);
        write(ready[1], "x", 1);
        int connection = accept(fd, NULL, NULL);
        _exit(recv(connection, &byte, 1, 0) == 0 ? 0 : 2); /* it hears nothing */
    }
    cr_assert_eq(read(ready[0], &byte, 1), 1);
    snprintf(tier_url, sizeof tier_url, "redis://127.0.0.1:1");
    struct warmd k = daemon_up();
    await_log(&k, "user 65534 listens at ");
    put_one(&k, "graph-1", "the bytes");
    expect_miss(&k, "graph-2");
    warmd_down(&k);
    cr_assert_eq(warmd_reap(impostor), 0, "the impostor was told something");
}
