/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_native.c - the native protocol on a server without a daemon: which frame is which request, and which answer
 * goes to whom. test_admin.c has the messages for people, test_daemon.c a real warmd.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/process/log.h"
#include "daemon/users/budget.h"
#include "tests/support/server_rig.h"
#include "tests/support/store_kit.h"

static struct server_rig rig;
static struct server_rig_frame f;
static struct writer w;
static int a, b;

static void setup(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    writer_init(&w, 0);
    server_rig_up(&rig);
    a = server_rig_native(&rig);
    b = server_rig_native(&rig);
}

static void teardown(void)
{
    close(a);
    close(b);
    server_rig_down(&rig);
    writer_close(&w);
    cr_expect_eq(budget_used(geteuid(), BUDGET_calls), 0u);
    cr_expect_eq(budget_used(geteuid(), BUDGET_leases), 0u);
}

TestSuite(native, .init = setup, .fini = teardown, .timeout = 120);

/* ---- requests and answers ---- */

static void send_frames(int fd) { server_rig_send(fd, &w, NULL, 0); }

static void expect(int fd, uint64_t tag, enum wire_type type)
{
    server_rig_expect_frame(&rig, fd, tag, type);
}

static void expect_error(int fd, uint64_t tag, int code)
{
    server_rig_expect_error(&rig, fd, tag, code);
}

static bool is_ended(int fd) { return server_rig_is_ended(&rig, fd); }

static void get(int fd, uint64_t tag, const char *name, bool lease)
{
    wire_put_get(&w, tag, &(struct wire_get){.want_lease = lease, .key = view_of_text(name)});
    send_frames(fd);
}

static struct wire_put put_of(const char *name, struct view value, uint64_t token)
{
    return (struct wire_put){.token = token,
                             .len = value.len,
                             .check = key_of_bytes(value.data, value.len),
                             .key = view_of_text(name),
                             .value = value};
}

static void put(int fd, uint64_t tag, const char *name, const char *value, uint64_t token)
{
    struct wire_put m = put_of(name, view_of_text(value), token);
    server_rig_put(fd, tag, &m);
}

/* Puts a value and waits until it is stored. */
static void put_whole(int fd, const char *name, const char *value)
{
    put(fd, 1000, name, value, 0);
    expect(fd, 1000, WIRE_OK);
}

static uint64_t expect_lease(int fd, uint64_t tag)
{
    struct wire_lease m;
    server_rig_answer(&rig, fd, &f, tag, WIRE_LEASE);
    cr_assert_eq(wire_get_lease(&f.frame, &m, NULL), 0);
    cr_assert_neq(m.token, 0u);
    return m.token;
}

static void expect_hit(int fd, uint64_t tag, const char *value, enum wire_outcome outcome)
{
    struct wire_hit m;
    server_rig_answer(&rig, fd, &f, tag, WIRE_HIT);
    cr_assert_eq(wire_get_hit(&f.frame, &m, NULL), 0);
    cr_expect(m.value.len == strlen(value) && memcmp(m.value.data, value, m.value.len) == 0);
    cr_expect_eq(m.outcome, outcome);
}

/* True if the daemon answers on this connection, and had nothing else to say. */
static bool is_next(int fd)
{
    get(fd, 999, "no such name", false);
    return server_rig_take(&rig, fd, &f) && f.frame.tag == 999 && f.frame.type == WIRE_MISS;
}

/* ---- frames ---- */

Test(native, nothing_is_answered_before_hello)
{
    int fd = server_rig_client(&rig);
    get(fd, 7, "name", false);
    expect_error(fd, 7, WARM_EMALFORMED);
    cr_expect(is_ended(fd));
    close(fd);
}

Test(native, the_version_must_be_one_that_both_speak)
{
    static const uint16_t all[][2] = {{WIRE_VERSION + 1, WIRE_VERSION + 1}, {1, WIRE_VERSION - 1}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        int fd = server_rig_client(&rig);
        wire_put_hello(&w, 7,
                       &(struct wire_hello){.version_min = all[i][0], .version_max = all[i][1]});
        send_frames(fd);
        expect_error(fd, 7, WARM_EVERSION);
        cr_expect(is_ended(fd));
        close(fd);
    }
    int fd = server_rig_client(&rig);
    wire_put_hello(&w, 7, &(struct wire_hello){.version_min = 1, .version_max = WIRE_VERSION + 1});
    send_frames(fd);
    expect(fd, 7, WIRE_WELCOME);
    close(fd);
}

Test(native, a_message_that_is_not_for_a_daemon_costs_itself_alone)
{
    static const uint8_t types[] = {0x00, 0x0e, 0x1b, 0x7f, WIRE_WELCOME, WIRE_HIT, 0xff};
    for (size_t i = 0; i < sizeof types; i++) {
        wire_put_empty(&w, (enum wire_type)types[i], i);
        send_frames(a);
        expect_error(a, i, WARM_EUNSUPPORTED);
    }
    cr_expect(is_next(a));
}

Test(native, a_wrong_field_costs_that_request_alone)
{
    size_t at = wire_begin(&w, WIRE_GET, 0, 7);
    writer_u8(&w, 99);
    wire_end(&w, at);
    send_frames(a);
    server_rig_answer(&rig, a, &f, 7, WIRE_ERROR);
    cr_expect(is_next(a));
}

Test(native, bytes_that_are_no_frame_end_the_connection_after_the_answers_before_them)
{
    wire_put_get(&w, 7, &(struct wire_get){.key = view_of_text("name")});
    writer_bytes(&w, "sixteen bytes...", 16);
    send_frames(a);
    expect(a, 7, WIRE_MISS);
    expect_error(a, 0, WARM_EMALFORMED);
    cr_expect(is_ended(a));
    cr_expect(is_next(b));
}

Test(native, a_descriptor_that_does_not_come_ends_the_connection)
{
    wire_end(&w, wire_begin(&w, WIRE_PUT, 1, 7));
    send_frames(a);
    expect_error(a, 7, WARM_EMALFORMED);
    cr_expect(is_ended(a));
}

/* ---- values ---- */

Test(native, a_value_is_there_for_whoever_asks_next)
{
    struct wire_ok ok;
    struct wire_put m = put_of("name", view_of_text("other"), 0);
    get(b, 1, "name", false);
    expect(b, 1, WIRE_MISS);
    put_whole(a, "name", "value");
    get(b, 2, "name", false);
    expect_hit(b, 2, "value", WIRE_WAS_HIT);
    m.keep_existing = true;
    server_rig_put(a, 3, &m);
    server_rig_answer(&rig, a, &f, 3, WIRE_OK);
    cr_assert_eq(wire_get_ok(&f.frame, &ok, NULL), 0);
    cr_expect(ok.existed);
    get(b, 4, "name", false);
    expect_hit(b, 4, "value", WIRE_WAS_HIT);
}

Test(native, values_of_all_sizes_come_whole)
{
    static const size_t sizes[] = {0, 1, 4096, 4097, WIRE_INLINE_MAX, WIRE_INLINE_MAX + 1};
    char name[16];
    struct wire_hit hit;
    uint8_t *got = malloc(WIRE_INLINE_MAX + 1);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint8_t *value = kit_value(i, 0, sizes[i]);
        snprintf(name, sizeof name, "%zu bytes", sizes[i]);
        struct wire_put m = put_of(name, (struct view){value, sizes[i]}, 0);
        server_rig_put(a, i, &m);
        expect(a, i, WIRE_OK);
        get(b, i, name, false);
        server_rig_answer(&rig, b, &f, i, WIRE_HIT);
        cr_assert_eq(wire_get_hit(&f.frame, &hit, NULL), 0);
        cr_assert_eq(hit.len, sizes[i]);
        cr_assert_eq(f.fd >= 0, sizes[i] > WIRE_INLINE_MAX);
        if (f.fd >= 0)
            cr_assert_eq(pread(f.fd, got, sizes[i], 0), (ssize_t)sizes[i]);
        else
            memcpy(got, hit.value.data, hit.value.len);
        cr_expect(sizes[i] == 0 || memcmp(got, value, sizes[i]) == 0, "%s", name);
        if (f.fd >= 0)
            close(f.fd);
        free(value);
    }
    free(got);
}

Test(native, a_value_that_is_not_what_it_says_is_refused)
{
    struct wire_put m = put_of("name", view_of_text("value"), 0);
    m.check.bytes[0] ^= 1;
    server_rig_put(a, 1, &m);
    expect_error(a, 1, WARM_ECORRUPT);
    int fd = memfd_create("value", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    cr_assert_eq(ftruncate(fd, 4096), 0);
    m = (struct wire_put){.len = 4096, .key = view_of_text("name")};
    wire_put_put(&w, 2, &m);
    server_rig_send(a, &w, &fd, 1);
    expect_error(a, 2, WARM_EINVALID); /* its client can still change it */
    close(fd);
    get(a, 3, "name", false);
    expect(a, 3, WIRE_MISS);
}

Test(native, many_keys_are_answered_as_so_many_gets)
{
    enum { MANY = 4000 };
    struct writer keys;
    writer_init(&keys, 0);
    put_whole(a, "name", "value");
    for (int i = 0; i < MANY; i++)
        wire_keys_add(&keys, WIRE_SPACE_NAME, i % 2 ? "name" : "other", i % 2 ? 4 : 5);
    wire_put_mget(&w, 100, &(struct wire_mget){.n = MANY, .keys = {keys.data, keys.len}});
    send_frames(a);
    for (int i = 0; i < MANY; i++)
        if (i % 2)
            expect_hit(a, 100 + (uint64_t)i, "value", WIRE_WAS_HIT);
        else
            expect(a, 100 + (uint64_t)i, WIRE_MISS);
    cr_expect(is_next(a));
    writer_close(&keys);
}

Test(native, an_entry_that_was_made_elsewhere_has_its_address_for_a_key)
{
    struct wire_put m = put_of("", view_of_text("code"), 0);
    struct {
        struct key compiler, graph;
        struct proof proof;
    } made = {.graph = {{1}}, .proof = {{2}}};
    struct address address = {.graph = made.graph, .hardware = "sm_90"};
    struct key key = address_key(&address);
    m.space = WIRE_SPACE_KEY;
    m.kind = WIRE_KIND_CUBIN;
    m.key = (struct view){&made, WIRE_MADE_LEN};
    server_rig_put(a, 1, &m);
    expect_error(a, 1, WARM_EINVALID); /* for which hardware? */
    m.hardware = view_of_text("sm_90");
    server_rig_put(a, 2, &m);
    expect(a, 2, WIRE_OK);
    struct wire_get ask = {.space = WIRE_SPACE_KEY, .key = {&key, sizeof key}, .has_proof = true};
    wire_put_get(&w, 3, &ask);
    ask.proof = made.proof;
    wire_put_get(&w, 4, &ask);
    send_frames(b);
    expect(b, 3, WIRE_MISS); /* another proof */
    expect_hit(b, 4, "code", WIRE_WAS_HIT);
}

/* ---- leases ---- */

Test(native, waiters_get_what_the_holder_brings)
{
    struct wire_wait m;
    get(a, 1, "name", true);
    uint64_t token = expect_lease(a, 1);
    get(b, 2, "name", true);
    server_rig_answer(&rig, b, &f, 2, WIRE_WAIT);
    cr_assert_eq(wire_get_wait(&f.frame, &m, NULL), 0);
    cr_expect_eq(m.n_waiters, 1u);
    cr_expect(is_next(b)); /* meanwhile it may ask for other things */
    put(a, 3, "name", "value", token);
    expect_hit(b, 2, "value", WIRE_WAS_COALESCED);
    expect(a, 3, WIRE_OK);
}

Test(native, a_lease_that_is_released_goes_to_the_next)
{
    get(a, 1, "name", true);
    uint64_t token = expect_lease(a, 1);
    get(b, 2, "name", true);
    expect(b, 2, WIRE_WAIT);
    wire_put_release(&w, 3, &(struct wire_release){token + 1}); /* nobody's */
    send_frames(a);
    expect(a, 3, WIRE_OK);
    cr_expect(is_next(b));
    wire_put_release(&w, 4, &(struct wire_release){token});
    send_frames(b);
    expect(b, 4, WIRE_OK); /* nor may another connection give it away */
    cr_expect(is_next(b));
    wire_put_release(&w, 5, &(struct wire_release){token});
    send_frames(a);
    expect(a, 5, WIRE_OK);
    expect_lease(b, 2);
}

Test(native, the_end_of_the_holder_passes_its_lease_on)
{
    get(a, 1, "name", true);
    expect_lease(a, 1);
    get(b, 2, "name", true);
    expect(b, 2, WIRE_WAIT);
    cr_assert_eq(shutdown(a, SHUT_WR), 0);
    expect_lease(b, 2);
    cr_expect(is_ended(a));
}

Test(native, a_late_value_does_not_replace_that_of_the_next_holder)
{
    get(a, 1, "name", true);
    uint64_t token = expect_lease(a, 1);
    wire_put_release(&w, 2, &(struct wire_release){token});
    send_frames(a);
    expect(a, 2, WIRE_OK);
    put_whole(b, "name", "value");
    put(a, 3, "name", "late", token);
    expect_error(a, 3, WARM_ELEASE_LOST);
    get(a, 4, "name", false);
    expect_hit(a, 4, "value", WIRE_WAS_HIT);
}

Test(native, a_cancelled_request_has_no_answer)
{
    get(a, 1, "name", true);
    uint64_t token = expect_lease(a, 1);
    get(b, 2, "name", true);
    expect(b, 2, WIRE_WAIT);
    wire_put_empty(&w, WIRE_CANCEL, 3); /* of no request: it is ignored */
    wire_put_empty(&w, WIRE_CANCEL, 2);
    send_frames(b);
    cr_expect(is_next(b));
    cr_expect_eq(budget_used(geteuid(), BUDGET_calls), 1u);
    put(a, 4, "name", "value", token);
    expect(a, 4, WIRE_OK);
    cr_expect(is_next(b));
}

Test(native, a_holder_that_cancels_passes_its_lease_on)
{
    get(a, 1, "name", true);
    expect_lease(a, 1);
    get(b, 2, "name", true);
    expect(b, 2, WIRE_WAIT);
    wire_put_empty(&w, WIRE_CANCEL, 1);
    send_frames(a);
    expect_lease(b, 2);
}

Test(native, the_waiting_requests_of_a_user_are_bounded)
{
    budget_set(BUDGET_calls, 1, 0);
    get(a, 1, "name", true);
    uint64_t token = expect_lease(a, 1);
    get(a, 2, "other", true);
    expect_error(a, 2, WARM_ETOO_BIG);
    wire_put_release(&w, 3, &(struct wire_release){token});
    send_frames(a);
    expect(a, 3, WIRE_OK);
    get(a, 4, "other", true);
    expect_lease(a, 4);
}

Test(native, without_a_lease_left_a_miss_is_a_miss)
{
    budget_set(BUDGET_leases, 1, 0);
    get(a, 1, "name", true);
    expect_lease(a, 1);
    get(a, 2, "other", true);
    expect(a, 2, WIRE_MISS);
    get(b, 3, "name", true);
    expect(b, 3, WIRE_MISS); /* it may not make the value, so it does not wait */
}

/* ---- compiles ---- */

/* Sends SOURCE, and expects an error and the end of its channel. */
static void expect_no_source(uint64_t tag)
{
    int ends[2];
    char byte;
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    wire_put_source(&w, tag, &(struct wire_source){.len = 1, .job = {"x", 1}});
    server_rig_send(a, &w, &ends[1], 1);
    close(ends[1]);
    expect_error(a, tag, WARM_EINVALID);
    SERVER_RIG_AWAIT(&rig, recv(ends[0], &byte, 1, MSG_DONTWAIT) == 0);
    close(ends[0]);
}

static void expect_no_checked(uint64_t tag)
{
    wire_put_checked(&w, tag, &(struct wire_checked){0});
    send_frames(a);
    expect_error(a, tag, WARM_EINVALID);
}

Test(native, what_nobody_asked_a_compile_for_is_an_error)
{
    expect_no_source(1);
    expect_no_checked(2);
    get(a, 3, "name", true);
    expect_lease(a, 3);
    expect_no_source(3); /* a GET is no compile */
    expect_no_checked(3);
    cr_expect(is_next(a));
}

Test(native, a_compile_without_a_compiler_is_an_error)
{
    wire_put_compile(&w, 1,
                     &(struct wire_compile){.language = 1, .hardware = view_of_text("sm_90")});
    send_frames(a);
    server_rig_answer(&rig, a, &f, 1, WIRE_ERROR);
    cr_expect_eq(budget_used(geteuid(), BUDGET_calls), 0u);
    cr_expect(is_next(a));
}
