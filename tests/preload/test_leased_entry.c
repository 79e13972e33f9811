/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_leased_entry.c - artifacts that only the program can make: with a real daemon, and with one that
 * follows a script.
 *
 * The source is included: the shim is a library of its own, and no archive has it.
 */
#include "client/preload/leased_entry.c"

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "tests/support/fake_daemon.h"
#include "tests/support/support.h"
#include "tests/support/warmd.h"

TestSuite(leased_entry, .timeout = 120);

static const struct proof proof = {{1, 2, 3}};
static const struct warm_put_options of_executable = {.kind = "executable", .cost_ms = 5};

/* Appends what a stored value is, by leased_entry.h. */
static void add_whole(struct writer *w, const struct proof *of, const char *bytes)
{
    struct key check = key_of_bytes(bytes, strlen(bytes));
    writer_bytes(w, "warmkept", 8);
    writer_bytes(w, &check, sizeof check);
    writer_bytes(w, of, sizeof *of);
    writer_bytes(w, bytes, strlen(bytes));
}

/* ---- with a real daemon ---- */

static struct warmd k;
static struct warm *w;

static void up(void)
{
    k = warmd_up(NULL);
    w = warmd_libwarm(&k);
}

static void down(void)
{
    warm_close(w);
    warmd_down(&k);
}

/* Expects this answer to one more look; 0: with these bytes. */
static void expect_look(int code, const char *bytes)
{
    struct leased_entry e;
    struct view got = {NULL, 0};
    leased_entry_begin(&e, w, "test:1:", &proof);
    cr_assert_eq(leased_entry_get(&e, &got), code, "%s", warm_message(w));
    cr_assert_eq(e.token != 0, code == WARM_LEASE);
    if (code == 0)
        cr_assert(got.len == strlen(bytes) && memcmp(got.data, bytes, got.len) == 0);
    leased_entry_end(&e);
}

/* Makes the entry as its user does. */
static void make(int code, const char *bytes)
{
    struct leased_entry e;
    struct view got;
    leased_entry_begin(&e, w, "test:1:", &proof);
    cr_assert_eq(leased_entry_get(&e, &got), code, "%s", warm_message(w));
    leased_entry_put(&e, bytes, strlen(bytes), of_executable);
    cr_assert_eq(e.token, 0, "%s", warm_message(w));
    leased_entry_end(&e);
}

Test(leased_entry, the_artifact_that_was_made_is_there_for_the_next, .init = up, .fini = down)
{
    make(WARM_LEASE, "made");
    expect_look(0, "made");
}

/* Holds a lease until the other thread waits, then says that the artifact is not kept. */
static void *mark_late(void *lease)
{
    usleep(200000);
    leased_entry_mark(lease, "it has the time in it", 0);
    leased_entry_end(lease);
    return NULL;
}

Test(leased_entry, what_must_not_be_kept_is_waited_for_once, .init = up, .fini = down)
{
    struct leased_entry lease, e;
    struct view got = {NULL, 0};
    pthread_t maker;
    struct warm *other = warmd_libwarm(&k);
    leased_entry_begin(&lease, other, "test:1:", &proof);
    cr_assert_eq(leased_entry_get(&lease, &got), WARM_LEASE);
    cr_assert_eq(pthread_create(&maker, NULL, mark_late, &lease), 0);
    for (int i = 0; i < 3; i++) {
        leased_entry_begin(&e, w, "test:1:", &proof);
        int code = leased_entry_get(&e, &got);
        cr_expect_eq(code, WARM_EREFUSED, "%d", code);
        cr_expect(!leased_entry_is_ours(code));
        cr_expect_eq(e.token, 0);
        leased_entry_end(&e);
    }
    pthread_join(maker, NULL);
    warm_close(other);
}

Test(leased_entry, a_mark_is_replaced_by_what_is_kept_after_all, .init = up, .fini = down)
{
    struct leased_entry e;
    struct view got;
    leased_entry_begin(&e, w, "test:1:", &proof);
    cr_assert_eq(leased_entry_get(&e, &got), WARM_LEASE);
    leased_entry_mark(&e, "it has the time in it", 0);
    leased_entry_end(&e);
    make(WARM_EREFUSED, "made");
    expect_look(0, "made");
}

/* A lease that is still held would make the second look wait for minutes. */
Test(leased_entry, a_lease_without_an_artifact_is_given_back, .init = up, .fini = down)
{
    expect_look(WARM_LEASE, NULL);
    expect_look(WARM_LEASE, NULL);
}

Test(leased_entry, a_value_that_was_stored_in_another_way_is_absent_and_is_replaced, .init = up,
     .fini = down)
{
    enum { CHECK_AT = 8, PROOF_AT = 24, BYTES_AT = 56, NONE = 1000 };
    static const struct {
        const char *bytes;
        size_t flip,
            len; /* the byte that is wrong, and the length; NONE: none, and the whole one */
    } wrong[] = {
        {"bytes", 0, NONE},        {"bytes", CHECK_AT - 1, NONE},
        {"bytes", CHECK_AT, NONE}, {"bytes", PROOF_AT - 1, NONE},
        {"bytes", PROOF_AT, NONE}, {"bytes", BYTES_AT - 1, NONE},
        {"bytes", BYTES_AT, NONE}, {"bytes", NONE, 1},
        {"bytes", NONE, PROOF_AT}, {"bytes", NONE, BYTES_AT - 1},
        {"", NONE, NONE},
    };
    struct leased_entry e;
    leased_entry_begin(&e, w, "test:1:", &proof);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct writer whole;
        writer_init(&whole, 0);
        add_whole(&whole, &proof, wrong[i].bytes);
        if (wrong[i].flip != NONE)
            whole.data[wrong[i].flip] ^= 1;
        size_t len = wrong[i].len != NONE ? wrong[i].len : whole.len;
        cr_assert_eq(warm_put(w, e.name, strlen(e.name), whole.data, len, NULL), 0);
        expect_look(WARM_ENOT_FOUND, NULL);
        make(WARM_ENOT_FOUND, "replaced");
        expect_look(0, "replaced");
        writer_close(&whole);
    }
}

Test(leased_entry, another_prefix_or_proof_is_another_entry, .init = up, .fini = down)
{
    static const struct proof other = {{1, 2, 4}};
    struct leased_entry e;
    struct view got;
    make(WARM_LEASE, "made");
    for (int i = 0; i < 2; i++) {
        leased_entry_begin(&e, w, i ? "test:2:" : "test:1:", i ? &proof : &other);
        cr_expect_eq(leased_entry_get(&e, &got), WARM_LEASE);
        leased_entry_end(&e);
    }
}

Test(leased_entry, read_only_takes_no_lease, .init = up, .fini = down)
{
    cr_assert(leased_entry_may_put());
    setenv("WARM_READONLY", "1", 1);
    cr_assert(!leased_entry_may_put());
    expect_look(WARM_ENOT_FOUND, NULL);
    unsetenv("WARM_READONLY");
    make(WARM_LEASE, "made");
    setenv("WARM_READONLY", "1", 1);
    expect_look(0, "made");
}

/* 64 digits and NUL belong to the name, too. */
Test(leased_entry, a_prefix_that_is_too_long_names_nothing, .init = up, .fini = down)
{
    char prefix[LEASED_ENTRY_NAME_MAX - 64 + 1];
    struct leased_entry e;
    struct view got;
    memset(prefix, 'p', sizeof prefix);
    prefix[LEASED_ENTRY_NAME_MAX - 64 - 1] = '\0';
    leased_entry_begin(&e, w, prefix, &proof);
    cr_assert_eq(strlen(e.name), LEASED_ENTRY_NAME_MAX - 1);
    cr_assert_eq(leased_entry_get(&e, &got), WARM_LEASE);
    leased_entry_end(&e);
    prefix[LEASED_ENTRY_NAME_MAX - 64 - 1] = 'p';
    prefix[LEASED_ENTRY_NAME_MAX - 64] = '\0';
    promise_may_break = true;
    leased_entry_begin(&e, w, prefix, &proof);
    cr_assert_eq(leased_entry_get(&e, &got), WARM_EINVALID);
    leased_entry_put(&e, "bytes", 5, of_executable);
    leased_entry_end(&e);
}

/* ---- with a script ---- */

static void take_get(struct fake_daemon *d)
{
    struct wire_get m = {.want_lease = false};
    struct err e;
    fake_daemon_take(d, WIRE_GET);
    if (fake_daemon_talks(d))
        fake_daemon_expect(d, wire_get_get(&d->frame, &m, &e) == 0 && m.want_lease,
                           "a GET that wants no lease");
}

static void say_error(struct fake_daemon *d, int code)
{
    wire_put_error(&d->out, d->frame.tag,
                   &(struct wire_error){(uint32_t)-code, view_of_text("so it is")});
    fake_daemon_send(d, NULL, 0);
}

static void say_lease(struct fake_daemon *d)
{
    wire_put_lease(&d->out, d->frame.tag, &(struct wire_lease){9, 60000});
    fake_daemon_send(d, NULL, 0);
}

/* Takes the PUT of "made" under the lease. */
static void take_put(struct fake_daemon *d)
{
    struct writer whole;
    struct wire_put m = {.token = 0};
    struct err e;
    fake_daemon_take(d, WIRE_PUT);
    writer_init(&whole, 0);
    add_whole(&whole, &proof, "made");
    bool is_right = fake_daemon_talks(d) && wire_get_put(&d->frame, &m, &e) == 0 && m.token == 9 &&
                    m.value.len == whole.len && memcmp(m.value.data, whole.data, whole.len) == 0;
    fake_daemon_expect(d, is_right, "another PUT");
    writer_close(&whole);
}

/* Gets and, if it has the lease, puts "made". Expects this answer to the GET. */
static void against(void (*script)(struct fake_daemon *d), int code)
{
    struct fake_daemon d;
    struct leased_entry e;
    struct view got;
    struct warm_put_options options = of_executable;
    options.token = 77; /* of the caller: it is not the entry's */
    fake_daemon_up(&d, script, NULL);
    struct warm *to = fake_daemon_libwarm(&d);
    leased_entry_begin(&e, to, "test:1:", &proof);
    cr_expect_eq(leased_entry_get(&e, &got), code, "%s", warm_message(to));
    if (code == WARM_LEASE)
        leased_entry_put(&e, "made", 4, options);
    leased_entry_end(&e);
    warm_close(to);
    fake_daemon_down(&d);
}

static void timeout_twice(struct fake_daemon *d)
{
    fake_daemon_meet(d);
    for (int i = 0; i < 2; i++) {
        take_get(d);
        say_error(d, WARM_ETIMEOUT);
    }
    take_get(d);
    say_lease(d);
    take_put(d);
    wire_put_ok(&d->out, d->frame.tag, &(struct wire_ok){.existed = false});
    fake_daemon_send(d, NULL, 0);
    fake_daemon_take(d, FAKE_DAEMON_END); /* no RELEASE: the PUT has ended the lease */
}

Test(leased_entry, while_another_process_makes_it_the_daemon_is_asked_again)
{
    against(timeout_twice, WARM_LEASE);
}

static void put_fails(struct fake_daemon *d)
{
    struct wire_release m = {0};
    struct err e;
    fake_daemon_meet(d);
    take_get(d);
    say_lease(d);
    take_put(d);
    say_error(d, WARM_EFULL);
    fake_daemon_take(d, WIRE_RELEASE);
    if (fake_daemon_talks(d))
        fake_daemon_expect(d, wire_get_release(&d->frame, &m, &e) == 0 && m.token == 9,
                           "RELEASE of another lease");
    wire_put_ok(&d->out, d->frame.tag, &(struct wire_ok){.existed = false});
    fake_daemon_send(d, NULL, 0);
}

Test(leased_entry, a_lease_whose_put_failed_is_given_back) { against(put_fails, WARM_LEASE); }

static void denied(struct fake_daemon *d)
{
    fake_daemon_meet(d);
    take_get(d);
    say_error(d, WARM_EDENIED);
    fake_daemon_take(d, FAKE_DAEMON_END);
}

Test(leased_entry, another_error_is_not_asked_about_again) { against(denied, WARM_EDENIED); }

static void hangs_up(struct fake_daemon *d)
{
    fake_daemon_meet(d);
    take_get(d);
    say_error(d, WARM_ETIMEOUT);
    take_get(d);
    shutdown(d->listener, SHUT_RDWR); /* libwarm connects once more */
}

Test(leased_entry, a_daemon_that_goes_away_is_not_waited_for)
{
    against(hangs_up, WARM_ENO_DAEMON);
}
