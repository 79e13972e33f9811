/* SPDX-License-Identifier: Apache-2.0 */
/* test_remote.c - what commands share: exit statuses, the reasons that they print, keys and reports. */
#include "client/cli/remote.h"
#include "tests/support/printed.h"
#include "tests/support/warmd.h"

TestSuite(remote, .init = printed_setup, .fini = printed_teardown, .timeout = 120);

/* ---- exit statuses ---- */

Test(remote, each_error_has_its_exit_status)
{
    static const int no_daemon[] = {WARM_ENO_DAEMON, WARM_ECLOSED, WARM_ETIMEOUT, WARM_EVERSION,
                                    WARM_ESHUTDOWN};
    static const int usage[] = {WARM_EINVALID, WARM_EREFUSED, WARM_ENO_TOOLCHAIN, WARM_ETOO_BIG,
                                WARM_EUNSUPPORTED};
    static const int finding[] = {WARM_ENOT_FOUND, WARM_EIO,   WARM_EDENIED,
                                  WARM_ECORRUPT,   WARM_EFULL, -1000};
    cr_expect_eq(remote_exit_status(0), CLI_OK);
    for (size_t i = 0; i < sizeof no_daemon / sizeof *no_daemon; i++)
        cr_expect_eq(remote_exit_status(no_daemon[i]), CLI_NO_DAEMON, "%d", no_daemon[i]);
    for (size_t i = 0; i < sizeof usage / sizeof *usage; i++)
        cr_expect_eq(remote_exit_status(usage[i]), CLI_USAGE, "%d", usage[i]);
    for (size_t i = 0; i < sizeof finding / sizeof *finding; i++)
        cr_expect_eq(remote_exit_status(finding[i]), CLI_FINDING, "%d", finding[i]);
}

/* ---- connecting ---- */

Test(remote, without_a_daemon_the_reason_is_printed)
{
    char *absent = path_join(printed_folder, "s"), want[300];
    struct remote r = {.socket = absent};
    snprintf(want, sizeof want, "warm: no daemon answers at %s (`warm run true` starts", absent);
    cr_expect_eq(remote_open(&r), CLI_NO_DAEMON);
    cr_expect_null(r.w);
    printed_has(want);
    setenv("WARM_DISABLE", "1", 1);
    cr_expect_eq(remote_open(&r), CLI_NO_DAEMON);
    printed_has("warm: WARM_DISABLE is set: no daemon is asked");
    setenv("WARM_DISABLE", "0", 1);
    cr_expect_eq(remote_open(&r), CLI_NO_DAEMON);
    printed_has(want);
    remote_close(&r); /* there is none */
    free(absent);
}

Test(remote, a_path_that_cannot_be_a_socket_is_wrong_usage)
{
    char path[200];
    struct remote r = {.socket = path};
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    cr_expect_eq(remote_open(&r), CLI_USAGE);
    printed_has("warm: invalid argument at xxx");
}

Test(remote, the_socket_is_the_given_one_or_the_environments)
{
    struct warmd k = warmd_up(NULL);
    struct remote r = {.socket = k.socket}, other = {.socket = NULL};
    cr_assert_eq(remote_open(&r), 0);
    remote_close(&r);
    cr_expect_null(r.w);
    setenv("WARM_SOCKET", k.socket, 1);
    cr_assert_eq(remote_open(&other), 0);
    remote_close(&other);
    warmd_down(&k);
}

Test(remote, the_administrators_socket_is_used_by_those_who_may)
{
    struct warmd k = warmd_up(NULL);
    char *plain = path_join(printed_folder, "s"), *admin = path_join(printed_folder, "s.admin");
    struct remote r = {.socket = plain};
    cr_assert_eq(symlink(k.socket, admin), 0); /* nothing is at the other path */
    cr_expect_eq(remote_open(&r), 0);
    remote_close(&r);
    cr_assert_eq(unlink(admin), 0);
    cr_assert_eq(symlink("/nonexistent", admin), 0);
    cr_assert_eq(symlink(k.socket, plain), 0);
    cr_expect_eq(remote_open(&r), 0, "that one is gone");
    remote_close(&r);
    free(plain), free(admin);
    warmd_down(&k);
}

/* ---- asking ---- */

static struct warmd k;
static struct remote r;

static void open_daemon(void)
{
    k = warmd_up(NULL);
    r = (struct remote){.socket = k.socket};
    cr_assert_eq(remote_open(&r), 0);
}
static void close_daemon(void)
{
    remote_close(&r);
    warmd_down(&k);
}

static int show(const char *name, enum wire_type want)
{
    struct answer answer;
    uint64_t tag = request_begin(r.w);
    wire_put_show(&r.w->request, tag, &(struct wire_show){WIRE_SPACE_NAME, view_of_text(name)});
    return remote_ask(&r, tag, want, &answer);
}

Test(remote, an_answer_is_the_expected_one_a_miss_or_a_failure)
{
    open_daemon();
    int fd = warmd_connect(&k);
    warmd_redis(fd, "SET here v\r\n", "+OK\r\n");
    cr_expect_eq(show("here", WIRE_ROW), CLI_OK);
    cr_expect_eq(show("absent", WIRE_ROW), CLI_FINDING);
    cr_expect_eq(show("here", WIRE_REPORT), CLI_FINDING);
    printed_has("warm: ");
    close(fd);
    close_daemon();
}

Test(remote, a_daemon_that_ends_meanwhile_is_no_daemon)
{
    open_daemon();
    kill(k.pid, SIGKILL);
    warmd_reap(k.pid);
    cr_expect_eq(show("here", WIRE_ROW), CLI_NO_DAEMON);
    printed_has("warm: ");
    remote_close(&r);
    warmd_free(&k);
}

Test(remote, a_text_is_asked_for_and_a_refusal_printed)
{
    struct wire_text text = {0};
    open_daemon();
    cr_expect_eq(remote_text(&r, WIRE_STATS, &text), 0);
    cr_expect(text.text.len > 2 && *(const char *)text.text.data == '{');
    cr_expect_neq(remote_text(&r, WIRE_CANCEL + 0x30, &text), 0, "no such message");
    close_daemon();
}

Test(remote, a_report_is_of_what_was_done)
{
    struct wire_report report = {0};
    struct writer keys;
    open_daemon();
    int fd = warmd_connect(&k);
    warmd_redis(fd, "SET one v\r\n", "+OK\r\n");
    warmd_redis(fd, "SET two vv\r\n", "+OK\r\n");
    writer_init(&keys, 0);
    uint32_t n = remote_add_key(&keys, "one");
    n += remote_add_key(&keys, "absent");
    uint64_t tag = request_begin(r.w);
    wire_put_remove(&r.w->request, tag, &(struct wire_remove){n, {keys.data, keys.len}});
    cr_expect_eq(remote_report(&r, tag, "removing", &report), 0);
    cr_expect_eq(report.n_entries, 1);
    cr_expect_eq(report.n_bytes, 1);
    tag = request_begin(r.w);
    wire_put_show(&r.w->request, tag, &(struct wire_show){WIRE_SPACE_NAME, view_of_text("two")});
    cr_expect_neq(remote_report(&r, tag, "removing", &report), 0, "a ROW is no report");
    printed_has("warm: ");
    writer_close(&keys);
    close(fd);
    close_daemon();
}

/* ---- keys, reports, options ---- */

Test(remote, hex_digits_of_a_key_are_a_key_and_a_name)
{
    static const char text[] = "0123456789abcdef0123456789ABCDEF";
    struct writer list;
    enum wire_space space;
    struct view key;
    writer_init(&list, 0);
    cr_expect_eq(remote_add_key(&list, "0123456789abcdef0123456789ABCDE"), 1);
    cr_expect_eq(remote_add_key(&list, text), 2);
    struct reader in = reader_over(list.data, list.len);
    cr_assert(wire_keys_next(&in, &space, &key));
    cr_expect(space == WIRE_SPACE_NAME && key.len == 31);
    cr_assert(wire_keys_next(&in, &space, &key));
    cr_expect(space == WIRE_SPACE_KEY && key.len == 16);
    cr_expect_eq(
        memcmp(key.data, "\x01\x23\x45\x67\x89\xab\xcd\xef\x01\x23\x45\x67\x89\xab\xcd\xef", 16),
        0);
    cr_assert(wire_keys_next(&in, &space, &key));
    cr_expect(space == WIRE_SPACE_NAME && key.len == 32 && memcmp(key.data, text, 32) == 0);
    cr_expect(!wire_keys_next(&in, &space, &key) && reader_done(&in));
    writer_close(&list);
}

Test(remote, a_report_is_printed_for_people_and_programs)
{
    struct wire_report one = {1, 2048, 0}, none = {0, 0, 0};
    struct remote text = {.as_json = false}, json = {.as_json = true};
    remote_print_report(&text, "removed", &one, false);
    printed_has("removed 1 entry, 2 KiB\n");
    remote_print_report(&text, "removed", &none, true);
    printed_has("would have removed 0 entries, 0 B\n");
    remote_print_report(&json, "removed", &one, true);
    printed_has("{\"schema\":1,\"entries\":1,\"bytes\":2048,\"dry_run\":true}\n");
}

Test(remote, the_common_options_are_read)
{
    static const struct command self = {.name = "x", .synopsis = "", .summary = "S", .help = "H\n"};
    static char name[] = "x", socket_option[] = "--socket", path[] = "/s", as_json[] = "--json",
                help[] = "--help", wrong[] = "--wrong";
    char *good[] = {name, socket_option, path, as_json, NULL}, *asks[] = {name, help, NULL},
         *bad[] = {name, wrong, NULL}, *cut[] = {name, socket_option, NULL};
    struct remote o = {0};
    int status = -1;
    optind = 0;
    cr_expect(remote_options(&o, &self, 4, good, &status));
    cr_expect(o.socket == path && o.as_json && status == -1);
    optind = 0;
    cr_expect_not(remote_options(&o, &self, 2, asks, &status));
    cr_expect_eq(status, CLI_OK);
    printed_has("Usage: warm x");
    optind = 0;
    cr_expect_not(remote_options(&o, &self, 2, bad, &status));
    cr_expect_eq(status, CLI_USAGE);
    printed_has("unknown option --wrong");
    optind = 0;
    cr_expect_not(remote_options(&o, &self, 2, cut, &status));
    cr_expect_eq(status, CLI_USAGE);
    printed_has("option --socket needs a value");
}
