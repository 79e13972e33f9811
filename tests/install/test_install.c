/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_install.c - the files of `make install`, and whether systemd, man and the daemon's own
 * table of settings agree with it. Runs the real make in the source tree, which must be the working
 * folder, with the build that the test belongs to.
 */
#include "daemon/process/config.h"
#include "tests/support/support.h"

#include <criterion/criterion.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *root; /* a PREFIX of our own, so that the paths inside the files exist */

/* $(B): two folders above this program. */
static char *build_folder(void)
{
    static char path[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 1);
    cr_assert_gt(len, 0);
    path[len] = '\0';
    return dirname(dirname(path));
}

/* Runs `make TARGET` for our prefix. What is built stays as it is (-o all): this is not the place
 * to build it with other flags. A make that may be running us must not pass on its own settings. */
static void make(const char *target)
{
    char *out;
    int rc =
        run_command(&out,
                    "env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -s -o all B='%s' PREFIX='%s/usr' "
                    "SYSCONFDIR='%s/etc' %s 2>&1",
                    build_folder(), root, root, target);
    cr_assert_eq(rc, 0, "%s", out);
    free(out);
}

static void install(void)
{
    root = temp_dir_new();
    make("install");
}

static void remove_root(void) { temp_dir_free(root); }

TestSuite(install, .init = install, .fini = remove_root);

static void expect_file(const char *name, int mode)
{
    char *path = path_join(root, name);
    cr_expect_eq(access(path, mode), 0, "%s", name);
    free(path);
}

Test(install, puts_everything_in_its_place)
{
    expect_file("usr/bin/warm", X_OK);
    expect_file("usr/bin/warmd", X_OK);
    expect_file("usr/libexec/warm/warm-nvrtc", X_OK);
    expect_file("usr/include/warm.h", R_OK);
    expect_file("usr/lib/libwarm.a", R_OK);
    expect_file("usr/lib/libwarm.so", R_OK);
#ifndef __SANITIZE_ADDRESS__ /* what other programs load is never built with sanitizers */
    expect_file("usr/lib/libwarm-preload.so", R_OK);
#endif
    expect_file("usr/share/warm/python/warm/__init__.py", R_OK);
    expect_file("usr/lib/pkgconfig/warm.pc", R_OK);
    expect_file("usr/lib/systemd/system/warmd.service", R_OK);
    expect_file("usr/lib/systemd/system/warmd.socket", R_OK);
    expect_file("usr/lib/systemd/system/warmd-admin.socket", R_OK);
    expect_file("usr/lib/systemd/system/warm-tier.socket", R_OK);
    expect_file("usr/lib/systemd/system/warm-tier@.service", R_OK);
    expect_file("usr/lib/systemd/user/warmd.service", R_OK);
    expect_file("usr/lib/systemd/user/warmd.socket", R_OK);
    expect_file("usr/lib/sysusers.d/warm.conf", R_OK);
    expect_file("usr/lib/tmpfiles.d/warm.conf", R_OK);
    expect_file("usr/share/man/man5/warmd.conf.5", R_OK);
    expect_file("usr/share/man/man8/warmd.8", R_OK);
    expect_file("etc/warm/warmd.conf", R_OK);
}

Test(install, below_the_home_folder_needs_no_root)
{
    char *out;
    int rc =
        run_command(&out,
                    "cd '%s' && mkdir home && cd - >/dev/null && env -u MAKEFLAGS -u MAKELEVEL "
                    "HOME='%s/home' make -s -o all B='%s' PREFIX='~/.local' install 2>&1 && "
                    "cd '%s/home' && find . -path '*systemd*' -type f | sort && ls -A",
                    root, root, build_folder(), root);
    cr_assert_eq(rc, 0, "%s", out);
    cr_assert_str_eq(out,
                     "./.local/share/systemd/user/warmd.service\n"
                     "./.local/share/systemd/user/warmd.socket\n.local\n",
                     "nothing of the system's, nothing beside it: %s", out);
    free(out);
}

Test(install, leaves_no_placeholder)
{
    char *out;
    int rc = run_command(&out, "grep -rnE '@[a-z]+@' '%s/usr/lib/systemd' '%s/usr/lib/pkgconfig'",
                         root, root);
    cr_expect_eq(rc, 1, "%s", out);
    free(out);
}

Test(install, gives_a_program_what_it_needs_to_build_and_run)
{
#ifdef __SANITIZE_ADDRESS__
    cr_skip("a library with sanitizers inside needs programs that have them too");
#endif
    char *source = path_join(root, "program.c"), *out;
    const char *text = "#include <warm.h>\n"
                       "int main(void) { return !warm_error_name(WARM_ENO_DAEMON); }\n";
    file_write(source, text, strlen(text));
    int rc = run_command(&out,
                         "cd '%s' && cc -std=c11 -Wall -Werror -Iusr/include -o program program.c "
                         "-Lusr/lib -lwarm 2>&1 && LD_LIBRARY_PATH=usr/lib ./program 2>&1",
                         root);
    cr_expect_eq(rc, 0, "%s", out);
    free(out);
    free(source);
}

Test(install, keeps_a_configuration_that_was_changed)
{
    char *conf = path_join(root, "etc/warm/warmd.conf");
    size_t len;
    file_write(conf, "jobs = 3\n", 9);
    make("install");
    char *now = file_read(conf, &len);
    cr_expect_str_eq(now, "jobs = 3\n");
    free(now);
    free(conf);
}

Test(install, uninstall_takes_back_all_but_the_configuration)
{
    char *out;
    make("uninstall");
    cr_expect_eq(run_command(&out, "find '%s' ! -type d", root), 0);
    char *conf = path_join(root, "etc/warm/warmd.conf\n");
    cr_expect_str_eq(out, conf);
    free(conf);
    free(out);
}

Test(install, systemd_accepts_the_units)
{
    static const char *const managers[] = {"system", "user"};
    for (size_t i = 0; i < 2; i++) {
        char *out;
        int rc = run_command(
            &out,
            "cd '%s/usr/lib/systemd/%s' && XDG_RUNTIME_DIR='%s' systemd-analyze --man=no "
            "--%s verify *.service *.socket 2>&1",
            root, managers[i], root, managers[i]);
        cr_expect_eq(rc, 0, "%s", out);
        cr_expect_str_eq(out, "");
        free(out);
    }
}

/* No systemd runs for a user here: a script in the place of systemctl writes down its arguments.
 * systemd-analyze judges the units. */
Test(install, user_hands_the_daemon_to_systemd_and_takes_it_back)
{
    char *out;
    int rc = run_command(
        &out,
        "cd '%s' && mkdir tools && printf '#!/bin/sh\necho \"$@\"\n' >tools/systemctl && "
        "chmod +x tools/systemctl && export HOME=$PWD/home PATH=$PWD/tools:$PATH && "
        "unset XDG_CONFIG_HOME && W=usr/bin/warm U=home/.config/systemd/user && "
        "$W daemon install && grep -h ^ExecStart $U/warmd.service && "
        "XDG_RUNTIME_DIR=$PWD systemd-analyze --man=no --user verify $U/warmd.service "
        "$U/warmd.socket && "
        "$W daemon uninstall && ls $U",
        root);
    char expected[4096];
    snprintf(expected, sizeof expected,
             "wrote %s/home/.config/systemd/user/warmd.socket\n"
             "wrote %s/home/.config/systemd/user/warmd.service\n"
             "--user daemon-reload\n--user enable --now warmd.socket\n"
             "systemd starts the daemon when the first client connects\n"
             "ExecStart=%s/usr/bin/warmd\n"
             "--user disable --now warmd.socket warmd.service\n"
             "removed %s/home/.config/systemd/user/warmd.socket\n"
             "removed %s/home/.config/systemd/user/warmd.service\n--user daemon-reload\n",
             root, root, root, root, root);
    cr_expect_eq(rc, 0, "%s", out);
    cr_expect_str_eq(out, expected, "%s", out);
    free(out);
}

Test(install, daemon_install_without_systemd_says_so)
{
    char *out;
    int rc = run_command(
        &out, "cd '%s' && HOME=$PWD/home PATH=/nonexistent usr/bin/warm daemon install 2>&1", root);
    cr_expect_eq(rc, 1);
    cr_expect_not_null(strstr(out, "systemctl --user failed: is there a systemd"), "%s", out);
    free(out);
    rc = run_command(&out, "'%s/bin/warm' daemon install 2>&1", build_folder());
    cr_expect_eq(rc, 1);
    cr_expect_not_null(strstr(out, "has no units for systemd"), "%s", out);
    free(out);
}

/* Expects that systemd rates the exposure of a unit at no more than a tenth of `most`. */
static void expect_rated(const char *unit, int most)
{
    char *out;
    int rc = run_command(&out,
                         "systemd-analyze security --offline=yes --threshold=%d "
                         "'%s/usr/lib/systemd/system/%s' 2>&1",
                         most, root, unit);
    cr_expect_eq(rc, 0, "%s", out);
    cr_expect_not_null(strstr(out, "Overall exposure level"), "%s", out);
    free(out);
}

Test(install, systemd_rates_the_service_at_no_more_than_0_6) { expect_rated("warmd.service", 6); }

Test(install, systemd_rates_the_helper_at_no_more_than_1_8)
{
    expect_rated("warm-tier@.service", 18);
}

Test(install, both_services_take_no_more_than_a_part_of_the_machine)
{
    static const char *const limits[] = {"MemoryHigh=", "MemoryMax=", "TasksMax=512",
                                         "CPUWeight=20", "IOWeight=20"};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        char *out;
        int rc = run_command(&out,
                             "grep -h '^%s' '%s/usr/lib/systemd/system/warmd.service' "
                             "'%s/usr/lib/systemd/user/warmd.service' | wc -l",
                             limits[i], root, root);
        cr_expect_eq(rc, 0);
        cr_expect_eq(strtol(out, NULL, 10), 2, "%s: %s", limits[i], out);
        free(out);
    }
}

Test(install, service_sees_the_true_users_of_its_connections)
{
    char *out;
    int rc = run_command(&out,
                         "grep -nE '^(PrivateUsers|DynamicUser)=' '%s/usr/lib/systemd/system/"
                         "warmd.service' '%s/usr/lib/systemd/user/warmd.service'",
                         root, root);
    cr_expect_eq(rc, 1, "a user namespace shows every other user as nobody: %s", out);
    free(out);
}

/* Each `function` (file) and each file or suite that the threat model names is there. */
Test(install, threat_model_names_code_and_tests_that_are_there)
{
    char *out;
    int rc = run_command(
        &out, "%s",
        "sed -n '/^## Threat model/,/^## An example/p' client/wire/PROTOCOL.md "
        ">/tmp/warm-threats.$$ && "
        "grep -oE '(`[a-z_]+`, )*`[a-z_]+` \\([a-z/_]+\\.(c|py)\\)' /tmp/warm-threats.$$ |"
        "while read -r line; do file=${line##*(}; file=${file%)};"
        "  for f in $(echo \"${line%(*}\" | tr -d '`,'); do"
        "    grep -q \"\\b$f(\" \"$file\" || echo \"$file has no $f\"; done; done;"
        "grep -oE '\\b(client|daemon|store|keygen)/[a-z/_]+\\.(c|h|py|md)\\b' /tmp/warm-threats.$$ "
        "|"
        "while read -r f; do [ -e $f ] || echo \"no $f\"; done;"
        "grep -oE '\\btest_[a-z_]+' /tmp/warm-threats.$$ |"
        "while read -r f; do [ -e tests/*/$f.c ] || echo \"no $f\"; done;"
        "wc -l </tmp/warm-threats.$$; rm /tmp/warm-threats.$$");
    cr_expect_eq(rc, 0);
    cr_expect(strtol(out, NULL, 10) > 20, "%s", out); /* the number of lines alone */
    free(out);
}

/* Each file and folder of the tree that a page names, from the root or from its own folder. */
Test(install, documents_name_files_that_are_there)
{
    char *out;
    int rc = run_command(
        &out, "%s",
        "for page in *.md */*.md */*/*.md; do"
        "  grep -oE "
        "'`(keygen|store|client|daemon|kernels|tests|systemd|packaging)/[A-Za-z0-9_/.-]*`' "
        "$page |"
        "  tr -d '`' | while read -r f; do"
        "    [ -e $f ] || [ -e ${page%/*}/$f ] || echo \"$page names $f\"; done; done;"
        "cat *.md | grep -c '`[a-z]*/'");
    cr_expect_eq(rc, 0);
    cr_expect(strtol(out, NULL, 10) > 50, "%s", out); /* the number of lines alone */
    free(out);
}

/* The numbers of versions that pages state are those of the code, and each module of tests/data has its
 * row. */
Test(install, pages_state_the_versions_of_the_code)
{
    char *out;
    int rc = run_command(
        &out, "%s",
        "number() { sed -nE \"s/^#define $1 \\\"?([0-9.]+).*/\\1/p\" $2; };"
        "has() { grep -qF \"$2\" $1 || echo \"$1 does not say: $2\"; };"
        "wire=$(number WIRE_VERSION client/wire/wire.h) row=$(number ROW_VERSION store/row.h);"
        "index=$(number INDEX_FORMAT store/index.h) warm=$(cat VERSION);"
        "has client/wire/PROTOCOL.md \"native protocol, version $wire,\";"
        "has store/FORMAT.md \"Version $index (the format of the index; rows and trailers are of "
        "version $row)\";"
        "list() { grep -oE '\\b[a-z][a-z-]*/[0-9]+' $1 | sort -u; };"
        "for d in $(list keygen/KEYS.md; list keygen/cuda/CUDA.md); do has keygen/domains.h "
        "\"\\\"$d\"; done;"
        "for d in $(sed -n '/forms and jobs/,/^$/p' keygen/domains.h | list); do"
        "  cat keygen/KEYS.md | grep -qF $d || echo \"KEYS.md does not say: $d\"; done;"
        "has CHANGELOG.md \"[$warm]\";"
        "for f in tests/data/*.*; do [ ${f##*/} = README.md ] || has tests/data/README.md "
        "\"\\`${f##*/}\\`\"; done");
    cr_expect_eq(rc, 0);
    cr_expect_str_eq(out, "");
    free(out);
}

Test(install, man_pages_are_without_warnings)
{
    char *out;
    int rc = run_command(
        &out, "groff -ww -man -mdoc -Tutf8 '%s'/usr/share/man/man*/* 2>&1 >/dev/null", root);
    cr_expect_eq(rc, 0);
    cr_expect_str_eq(out, "");
    free(out);
}

Test(install, daemon_reads_the_configuration)
{
    char *conf = path_join(root, "etc/warm/warmd.conf");
    struct config config;
    struct err err = {0};
    cr_assert_eq(config_init(&config, &err), 0);
    cr_expect_eq(config_read_file(&config, conf, &err), 0, "%s", err.text);
    cr_expect_str_eq(config.socket, "/run/warm/warmd.sock");
    cr_expect_str_eq(config.store, "/var/cache/warm");
    config_close(&config);
    free(conf);
}

/* One line `#key = default` in the file, and one item in the manual, for each setting. */
Test(install, configuration_and_its_manual_name_every_setting_and_default)
{
    static const struct {
        const char *name, *standard, *help;
    } settings[] = {
#define X(type, name, standard, help) {#name, standard, help},
        CONFIG_LIST(X)
#undef X
    };
    char *conf_path = path_join(root, "etc/warm/warmd.conf");
    char *page_path = path_join(root, "usr/share/man/man5/warmd.conf.5"), want[256];
    size_t len;
    char *conf = file_read(conf_path, &len), *page = file_read(page_path, &len);

    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        if (!*settings[i].help)
            continue; /* a constant */
        snprintf(want, sizeof want, "%s%s =%s%s", *settings[i].standard ? "\n#" : "",
                 settings[i].name, *settings[i].standard ? " " : "", settings[i].standard);
        cr_expect_not_null(strstr(conf, want), "warmd.conf lacks \"%s\"", want);
        snprintf(want, sizeof want, ".It Li %s No = Ar ", settings[i].name);
        const char *item = strstr(page, want);
        cr_expect_not_null(item, "warmd.conf(5) lacks %s", settings[i].name);
        if (item && *settings[i].standard) {
            const char *end = strstr(item + 1, "\n.It ");
            const char *at = strstr(item, settings[i].standard);
            cr_expect(at && (!end || at < end), "warmd.conf(5): the default of %s is %s",
                      settings[i].name, settings[i].standard);
        }
    }
    free(conf);
    free(page);
    free(conf_path);
    free(page_path);
}
