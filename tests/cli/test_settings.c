/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_settings.c - `warm config set` on a user's own file: it changes one line, if warmd accepts it, or
 * nothing. test_toolchain.c has settings that may be given more than once.
 */
#include "tests/support/warmd.h"

static struct warmd k;
static char *folder; /* of settings */

static void up(void)
{
    k = warmd_new();
    folder = path_join(k.dir, "conf");
    cr_assert_eq(mkdir(folder, 0755), 0);
    cr_assert(geteuid() || (chmod(k.dir, 0755) == 0 && chown(folder, 4242, 4242) == 0));
}

static void down(void)
{
    free(folder);
    warmd_free(&k);
}
TestSuite(settings, .init = up, .fini = down);

/* Runs `warm config ARGUMENTS` as a user with this environment; root becomes 4242. */
static int configure_in(char **out, const char *environment, const char *arguments)
{
    char *program = public_path("bin/warm");
    int status = run_command(out,
                             "cd %s && umask 022 && unset XDG_CONFIG_HOME HOME && "
                             "WARM_SOCKET=$PWD/none %s exec %s %s config %s 2>&1",
                             k.dir, environment,
                             geteuid() ? "" : "setpriv --reuid 4242 --regid 4242 --clear-groups",
                             program, arguments);
    free(program);
    return status;
}

static void expect_in(const char *environment, int status, const char *arguments, const char *text)
{
    char *out;
    int got = configure_in(&out, environment, arguments);
    cr_expect_eq(got, status, "warm config %s: exit status %d: %s", arguments, got, out);
    cr_expect_not_null(strstr(out, text), "warm config %s: %s", arguments, out);
    free(out);
}

static void expect(int status, const char *arguments, const char *text)
{
    expect_in("XDG_CONFIG_HOME=$PWD/conf", status, arguments, text);
}

static bool others_can_run_it(void)
{
    char *out;
    int status = configure_in(&out, "", "--help");
    free(out);
    return status == 0;
}
#define NEEDS_ANOTHER_USER()                                                                       \
    if (!others_can_run_it())                                                                      \
    cr_skip_test("another user cannot run the built programs")

/* Runs a shell command in the folder of settings. */
static void shell(const char *command)
{
    char *out;
    cr_assert_eq(run_command(&out, "cd %s && { %s; } 2>&1", folder, command), 0, "%s", out);
    free(out);
}

/* Expects this file of settings, and that no other file is left beside it. */
static void expect_file(const char *want)
{
    char *path = path_join(folder, "warm/warmd.conf"), *names;
    size_t len;
    char *text = file_read(path, &len);
    cr_expect_str_eq(text, want);
    cr_assert_eq(run_command(&names, "ls -A %s/warm", folder), 0);
    cr_expect_str_eq(names, "warmd.conf\n");
    free(path), free(names), free(text);
}

/* Makes the file as its user, then gives it this text. */
static void expect_made(const char *text)
{
    char *path = path_join(folder, "warm/warmd.conf");
    expect(0, "set max-size 1G", "");
    file_write(path, text, strlen(text));
    free(path);
}

Test(settings, the_file_is_made_with_its_folder)
{
    NEEDS_ANOTHER_USER();
    expect(0, "path", "/conf/warm/warmd.conf (not there)\n");
    expect(0, "set max-size 1G", "no daemon runs now: the next one reads it");
    expect_file("max_size = 1G\n");
    shell("[ $(stat -c %a warm/warmd.conf) = 644 ]");
}

Test(settings, one_line_changes_and_all_others_stay)
{
    NEEDS_ANOTHER_USER();
    expect_made("# mine\n\n\tmax-size=1G\n#jobs = 0\nmax_size = 3G\nmax_value = 1G\n");
    shell("chmod 600 warm/warmd.conf");
    expect(0, "set max_size 2G", "max_size = 2G");
    expect(0, "set jobs 3", "jobs = 3");
    expect_file("# mine\n\nmax_size = 2G\n#jobs = 0\nmax_value = 1G\njobs = 3\n");
    shell("[ $(stat -c %a warm/warmd.conf) = 600 ]");
}

Test(settings, a_last_line_without_its_end_stays_a_line)
{
    NEEDS_ANOTHER_USER();
    expect_made("max_size = 1G");
    expect(0, "set jobs 3", "");
    expect_file("max_size = 1G\njobs = 3\n");
}

Test(settings, a_link_stays_and_its_file_changes)
{
    NEEDS_ANOTHER_USER();
    expect(0, "set jobs 1", "");
    shell("mkdir -m 1777 mine && mv warm/warmd.conf mine/w.conf && ln -s ../mine/w.conf "
          "warm/warmd.conf");
    expect(0, "set jobs 3", "warmd.conf: jobs = 3");
    expect(2, "set jobs many", "not a number");
    expect_file("jobs = 3\n");
    shell("[ -L warm/warmd.conf ] && [ \"$(ls -A mine)\" = w.conf ] && rm mine/w.conf");
    expect(1, "set jobs 4", "warmd.conf: a link to a file that does not exist");
    shell("[ -L warm/warmd.conf ] && [ -z \"$(ls -A mine)\" ]");
}

Test(settings, what_warmd_does_not_accept_changes_nothing)
{
    NEEDS_ANOTHER_USER();
    expect(0, "set jobs 1", "");
    expect(2, "set jobs many", "jobs: \"many\" is not a number");
    expect(2, "set no_such 1", "there is no setting \"no_such\"");
    expect(2, "set jobs '1\nmax_size = 1G'", "one line");
    expect(2, "set 'jobs = 2 #' 1", "one line");
    expect(2, "set jobs", "it takes");
    expect_file("jobs = 1\n");
}

Test(settings, a_folder_that_cannot_be_written_is_said)
{
    NEEDS_ANOTHER_USER();
    expect(0, "set jobs 1", "");
    shell("chmod 555 warm");
    expect(1, "set jobs 2", "warmd.conf: Permission denied");
    shell("chmod 755 warm");
    expect_file("jobs = 1\n");
    expect_in("XDG_CONFIG_HOME=/dev/null/x", 1, "set jobs 2", "/dev/null");
}

Test(settings, the_place_follows_the_environment)
{
    NEEDS_ANOTHER_USER();
    expect_in("HOME=/h", 0, "path", "/h/.config/warm/warmd.conf (not there)\n");
    expect_in("HOME=/h XDG_CONFIG_HOME=/x", 0, "path", "/x/warm/warmd.conf (not there)\n");
    expect_in("HOME=/h XDG_CONFIG_HOME=x", 0, "path", "/h/.config/warm/warmd.conf (not there)\n");
    expect_in("", 1, "path", "neither XDG_CONFIG_HOME nor HOME is set");
    expect_in("HOME=h", 1, "set jobs 1", "neither XDG_CONFIG_HOME nor HOME is set");
}

Test(settings, a_size_wants_a_unit)
{
    NEEDS_ANOTHER_USER();
    expect(2, "set max_size 10",
           "max_size: 10 needs a unit, such as 10M or 10G, or 10B for bytes\n");
    expect(0, "set max_size 10GiB", "max_size = 10GiB");
    expect(0, "set quota 0", "quota = 0");
}

Test(settings, a_wrong_name_or_line_is_told_with_the_users_own_file)
{
    NEEDS_ANOTHER_USER();
    expect(2, "set max_sise 10G", "there is no setting \"max_sise\": did you mean max_size?\n");
    expect_made("max_size = 1G\nquota = much\n");
    expect(2, "set jobs 3", "/conf/warm/warmd.conf:2: quota: ");
}

Test(settings, plain_digits_of_before_stay_and_are_told)
{
    NEEDS_ANOTHER_USER();
    expect_made("max_size = 1000000000\n");
    expect(0, "set jobs 3",
           "warmd.conf:1: max_size = 1000000000 is 1000000000 bytes: write the unit");
    expect_file("max_size = 1000000000\njobs = 3\n");
}

Test(settings, a_change_says_for_which_daemon_it_is_and_when)
{
    NEEDS_ANOTHER_USER();
    static const char own[] = "XDG_CONFIG_HOME=$PWD/conf WARM_SOCKET=%s";
    char environment[4096];
    struct warmd w = warmd_up(NULL);
    cr_assert(geteuid() || (chmod(w.dir, 0755) == 0 && chmod(w.socket, 0666) == 0));
    snprintf(environment, sizeof environment, own, w.socket);
    const char *wanted = geteuid() ? "`warm daemon reload` makes your daemon read it"
                                   : "is a daemon of uid 0 with settings of its own";
    expect_in(environment, 0, "set max-size 1G", wanted);
    expect_in(environment, 0, "set tier-mode read-only",
              geteuid() ? "`warm daemon restart`" : wanted);
    expect(0, "path --json", "\"exists\":true}");
    expect_in(environment, 0, "get max_size --json", "\"value\":");
    warmd_down(&w);
}

Test(settings, a_daemon_that_reloads_has_the_new_value)
{
    struct warmd w = warmd_new();
    char *out, *conf = path_join(w.dir, "warmd.conf"), *program = bin_path("warm");
    file_write(conf, "max_size = 1G\n", 14);
    char *options[] = {"--config", conf, NULL};
    warmd_start(&w, options);
    file_write(conf, "max_size = 2G\n", 14);
    cr_expect_eq(run_command(&out, "%s --socket %s daemon reload 2>&1", program, w.socket), 0, "%s",
                 out);
    cr_expect_not_null(strstr(out, "reads its settings again"), "%s", out);
    free(out);
    bool is_new = false;
    for (int i = 0; i < 500 && !is_new; i++) {
        cr_assert_eq(run_command(&out, "%s --socket=%s config get max_size", program, w.socket), 0);
        is_new = strcmp(out, "2G\n") == 0;
        free(out);
    }
    cr_expect(is_new);
    free(conf), free(program);
    warmd_down(&w);
}
