/* SPDX-License-Identifier: Apache-2.0 */
/* test_doctor.c - `warm doctor --fix`: does what helps, says so, and checks again. What a read-only
 * root, or one without /proc, leaves of `warm run`. */
#include "tests/support/pool.h"
#include "tests/support/warmd.h"

/* Runs `warm ARGUMENTS` with a home and a socket of the test's own; its status. */
static int warm(const struct warmd *k, char **out, const char *arguments)
{
    char *program = bin_path("warm");
    int status = run_command(out,
                             "cd '%s' && env HOME='%s' XDG_CACHE_HOME='%s' WARM_STORE='%s' "
                             "WARM_SOCKET='%s' '%s' %s 2>&1",
                             k->dir, k->dir, k->dir, k->store, k->socket, program, arguments);
    free(program);
    return status;
}

static void expect(const struct warmd *k, int status, const char *arguments, const char *text)
{
    char *out;
    int got = warm(k, &out, arguments);
    cr_expect_eq(got, status, "warm %s: %d: %s", arguments, got, out);
    cr_expect(strstr(out, text), "warm %s: no `%s` in: %s", arguments, text, out);
    free(out);
}

Test(doctor, fix_starts_a_daemon_if_none_answers)
{
    struct warmd k = warmd_new();
    expect(&k, 3, "doctor", "FAIL  socket");
    expect(&k, 0, "doctor --fix", "no daemon answers: warm daemon start");
    expect(&k, 0, "ping", "");
    expect(&k, 0, "doctor", "ok    daemon");
    expect(&k, 2, "doctor --fix --json", "without --json");
    expect(&k, 0, "daemon stop", "stopped");
    warmd_free(&k);
}

/* The set-ups of docs/trust.md. */
Test(doctor, names_whose_results_are_taken)
{
    char *tier, *key;
    struct warmd k = warmd_up(NULL);
    expect(&k, 0, "doctor", "one user: you take your own results\n");
    warmd_down(&k);
    k = warmd_new();
    key = path_join(k.dir, "key");
    cr_assert_gt(asprintf(&tier, "file://%s", k.dir), 0);
    expect(&k, 0, "tier keygen test key", "");
    warmd_start(&k, (char *[]){"--trust-group", "root", "--tier", tier, "--tier-key", key, NULL});
    expect(&k, 0, "doctor", "a group: members take one another's results: root, and a signed tier");
    free(tier);
    free(key);
    warmd_down(&k);
}

Test(doctor, fix_takes_the_place_of_a_daemon_that_was_killed)
{
    struct warmd k = warmd_up(NULL);
    kill(k.pid, SIGKILL);
    warmd_reap(k.pid);
    expect(&k, 0, "doctor --fix", "after that:");
    expect(&k, 0, "daemon stop", "stopped");
    warmd_free(&k);
}

/* Kills the process that starts compilers until a command sees that there is none: one that dies again at once is not
 * replaced for a second. */
static void expect_without_spawner(const struct warmd *k, int status, const char *arguments,
                                   const char *text)
{
    pid_t pids[16];
    char *out;
    for (unsigned tries = 0;; tries++) {
        if (children_of(k->pid, pids) == 1)
            kill(pids[0], SIGKILL);
        int got = warm(k, &out, arguments);
        if (got == status && strstr(out, text))
            break;
        cr_assert_lt(tries, 100u, "warm %s: %d: %s", arguments, got, out);
        free(out);
    }
    free(out);
}

Test(doctor, it_and_a_deep_ping_fail_while_nothing_is_compiled)
{
    struct warmd k = warmd_up(NULL);
    char *out;
    expect(&k, 0, "ping --deep", "warmd ");
    expect_without_spawner(&k, 1, "ping --deep", "it compiles nothing");
    expect_without_spawner(&k, 0, "ping", "warmd ");
    expect_without_spawner(&k, 1, "doctor", "nothing is compiled now");
    for (unsigned tries = 0; warm(&k, &out, "ping --deep --json") != 0; tries++) {
        cr_assert_lt(tries, 600u, "%s", out);
        free(out);
        poll(NULL, 0, 100);
    }
    cr_expect(strstr(out, "\"daemon\":"), "%s", out);
    free(out);
    warmd_down(&k);
}

Test(doctor, names_the_files_of_the_daemon_and_counts_what_was_not_kept)
{
    struct warmd k = warmd_new();
    char *settings = path_join(k.dir, "w.conf"), *large = path_join(k.dir, "large"), text[256];
    static uint8_t value[3 << 20];
    file_write(settings, "max_size = 2M\n", 14);
    file_write(large, value, sizeof value);
    char *options[] = {"--config", settings, NULL};
    warmd_start(&k, options);
    expect(&k, 2, "put large large", "is larger than the store");
    snprintf(text, sizeof text, "store %s, log /", k.store);
    expect(&k, 0, "doctor", text);
    snprintf(text, sizeof text, "settings %s\n", settings);
    expect(&k, 0, "doctor", text);
    expect(&k, 0, "doctor", "warn  store       1 value was not kept since the start");
    warmd_down(&k);
    free(settings);
    free(large);
}

Test(doctor, says_that_everybody_may_write_the_store)
{
    struct warmd k = warmd_up(NULL);
    cr_assert_eq(chmod(k.store, 0777), 0);
    expect(&k, 1, "doctor", "so warmd will not start with it again: chmod o-w it");
    cr_assert_eq(chmod(k.store, 0700), 0);
    expect(&k, 0, "doctor", "");
    warmd_down(&k);
}

Test(doctor, fix_verifies_a_store_with_damaged_values)
{
    struct warmd k = warmd_up(NULL);
    char *out;
    cr_assert_eq(run_command(&out, "head -c 100000 /dev/urandom >'%s/v'", k.dir), 0);
    free(out);
    expect(&k, 0, "put large v", "");
    cr_assert_eq(run_command(&out,
                             "for f in $(find '%s/blobs' -type f); do chmod 600 $f; "
                             "printf x | dd of=$f bs=1 seek=50000 conv=notrunc; done 2>&1",
                             k.store),
                 0, "%s", out);
    free(out);
    expect(&k, 1, "verify", "1 damaged");
    uint64_t give_up = clock_now_ms() + WARMD_WAIT_MS;
    do { /* the report comes before the entry is set aside */
        warm(&k, &out, "doctor");
        bool is_known = strstr(out, "damaged values found");
        free(out);
        if (is_known)
            break;
        usleep(20000);
    } while (clock_now_ms() < give_up);
    expect(&k, 0, "doctor --fix", "values were damaged: warm verify");
    warmd_down(&k);
}

/* Mounts are of a namespace of the test's own, in which the system's daemon is not seen. */
Test(doctor, program_runs_on_a_read_only_root_and_with_a_daemon_if_tmp_is_writable)
{
    struct warmd k = warmd_new();
    char *warm = public_path("bin/warm"), *out;
    static const char ask[] =
        "unshare -m -p -f --mount-proc sh -c 'mount --make-rprivate / && mount -t tmpfs t /run && "
        "mount -o remount,bind,ro / && %s && exec setpriv --reuid %d --clear-groups env -i "
        "HOME=/nohome PATH=/usr/bin:/bin sh -c \"%s run echo it runs; %s ping; %s "
        "daemon stop\"' 2>&1";
    if (geteuid() != 0) {
        warmd_free(&k);
        free(warm);
        cr_skip_test("only root can mount");
    }
    run_command(&out, ask, "mount -t tmpfs -o ro t /tmp", 65534, warm, warm, warm);
    cr_expect_not_null(strstr(out, "\nit runs\n"), "%s", out);
    cr_expect_not_null(strstr(out, "Read-only file system"), "%s", out);
    free(out);
    run_command(&out, ask, "mount -t tmpfs -o mode=1777 t /tmp", 65534, warm, warm, warm);
    cr_expect_eq(strncmp(out, "it runs\n", 8), 0, "%s", out);
    cr_expect_not_null(strstr(out, "stopped: process"), "%s", out);
    free(out);
    free(warm);
    warmd_free(&k);
}

Test(doctor, root_without_proc_is_said_and_the_program_runs)
{
    char *warm = bin_path("warm"), *out;
    if (geteuid() != 0) {
        free(warm);
        cr_skip_test("only root can unmount");
    }
    int status = run_command(&out,
                             "unshare -m sh -c 'umount -l /proc && exec \"%s\" run sh -c \"echo it "
                             "runs; exit 3\"' 2>&1",
                             warm);
    cr_expect_eq(status, 3, "%d: %s", status, out);
    cr_expect_not_null(strstr(out, "warm: cannot read /proc/self/exe: No such file"), "%s", out);
    cr_expect_not_null(strstr(out, "\nit runs\n"), "%s", out);
    free(out);
    free(warm);
}

Test(doctor, says_which_parts_of_the_drivers_shim_are_on)
{
    struct warmd k = warmd_up(NULL);
    expect(&k, 0, "doctor",
           "ok    driver      links of the CUDA driver are kept; PTX that programs");
    setenv("WARM_DRIVER_JIT", "1", 1);
    expect(&k, 0, "doctor", "and PTX that programs load: WARM_DRIVER_JIT is set");
    unsetenv("WARM_DRIVER_JIT");
    warmd_down(&k);
}

/* Runs `warm doctor` as a user of its own, root becomes 4242, who has nothing yet but what `settings` says. */
static int new_user(char **out, const char *settings)
{
    char *dir = temp_dir_new(), *program = bin_path("warm");
    const char *as = geteuid() ? "" : "setpriv --reuid 4242 --regid 4242 --clear-groups";
    int status = run_command(
        out,
        "exec 2>&1; cd %s && mkdir -p conf/warm run && printf '%%s' '%s' >conf/warm/warmd.conf && "
        "chmod 755 . conf conf/warm && chmod 700 run && %s unset WARM_SOCKET && "
        "{ %s test -x %s || exit 126; } && "
        "XDG_CONFIG_HOME=$PWD/conf XDG_RUNTIME_DIR=$PWD/run HOME=$PWD %s %s doctor",
        dir, settings, geteuid() ? "" : "chown 4242 run conf conf/warm conf/warm/warmd.conf &&", as,
        program, as, program);
    free(program);
    temp_dir_free(dir);
    return status;
}

Test(doctor, a_new_user_without_a_daemon_is_no_failure)
{
    char *out;
    if (access("/run/warm/warmd.sock", F_OK) == 0)
        cr_skip_test("the system has a daemon");
    int status = new_user(&out, "max_size = 1G\n");
    if (status == 126 || status == 127)
        cr_skip_test("another user cannot run the built programs");
    cr_expect_eq(status, 3);
    cr_expect_not_null(strstr(out, "no daemon yet; `warm run` starts one"), "%s", out);
    cr_expect_null(strstr(out, "FAIL"), "%s", out);
    free(out);
}

Test(doctor, a_broken_file_of_settings_is_one)
{
    char *out;
    int status = new_user(&out, "max_size = 1G\nmax_sise = 2G\n");
    if (status == 126 || status == 127)
        cr_skip_test("another user cannot run the built programs");
    cr_expect_not_null(strstr(out, "FAIL  settings"), "%s", out);
    cr_expect_not_null(
        strstr(out, "warmd.conf:2: there is no setting \"max_sise\": did you mean max_size?"), "%s",
        out);
    free(out);
}

Test(doctor, another_build_of_this_version_is_told)
{
    struct warmd k = warmd_new();
    char *out, *program = bin_path("warmd"), *warm = bin_path("warm");
    warmd_start(&k, NULL);
    expect(&k, 0, "doctor", "ok    daemon");
    /* the same programs, but for the id that the linker gives a build */
    cr_assert_eq(run_command(&out,
                             "exec 2>&1; cd %s && cp %s %s . && objcopy --remove-section "
                             ".note.gnu.build-id warmd no-id; objcopy --dump-section "
                             ".note.gnu.build-id=id warmd /dev/null && printf x | dd of=id bs=1 "
                             "seek=20 conv=notrunc 2>/dev/null && objcopy --update-section "
                             ".note.gnu.build-id=id warmd && WARM_SOCKET=%s ./warm doctor",
                             k.dir, program, warm, k.socket),
                 0, "%s", out);
    cr_expect_not_null(strstr(out, "another build of"), "%s", out);
    free(out), free(program), free(warm);
    warmd_down(&k);
}
