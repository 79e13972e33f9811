/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_remote_compile.c - libwarm's conversation about a compile, with a daemon that follows a script: each
 * answer at each place, cut at each byte, and rubbish. Whatever it says, the caller gets the right result or an
 * error, and nothing stays open. test_client.c and test_graph_compile.c have it with a real daemon.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/request.h"
#include "client/wire/bundle.h"
#include "client/wire/memfd.h"
#include "keygen/cuda/job.h"
#include "keygen/expect.h"
#include "tests/support/compile_script.h"
#include "tests/support/support.h"

TestSuite(remote_compile, .timeout = 120);

static struct warm_job job_in(const char *folder)
{
    static const char *const options[] = {"--gpu-architecture=sm_90", "-I."};
    return (struct warm_job){.name = "k.cu",
                             .source = SCRIPT_SOURCE,
                             .source_len = sizeof SCRIPT_SOURCE - 1,
                             .options = options,
                             .n_options = 2,
                             .cwd = folder};
}

/* ---- the test's side ---- */

struct talk {
    struct fake_daemon d;
    struct warm *w;
    struct warm_job job;
};

static void talk_up(struct talk *t, void (*script)(struct fake_daemon *), void *arg)
{
    fake_daemon_up(&t->d, script, arg);
    char *header = path_join(t->d.dir, "part.h");
    file_write(header, SCRIPT_PART, sizeof SCRIPT_PART - 1);
    free(header);
    t->w = fake_daemon_libwarm(&t->d);
    t->job = job_in(t->d.dir);
}

static void talk_down(struct talk *t)
{
    warm_close(t->w);
    fake_daemon_down(&t->d);
}

/* Expects this result of one more compile; NULL: the error `code`. */
static void expect_compile(struct talk *t, const char *cubin, int code)
{
    static const struct warm_result none;
    struct warm_result r = none;
    int got = warm_compile(t->w, &t->job, &r);
    cr_assert_eq(got, cubin ? 0 : code, "%d: %s", got, warm_message(t->w));
    if (!cubin) {
        cr_assert(memcmp(&r, &none, sizeof r) == 0, "a result beside an error");
        cr_assert_neq(*warm_message(t->w), '\0');
        return;
    }
    cr_assert(r.cubin.len == strlen(cubin) && memcmp(r.cubin.data, cubin, r.cubin.len) == 0);
    warm_result_free(&r);
}

/* One compile against a script: the result, or the error, and no descriptor left. */
static void against(void (*script)(struct fake_daemon *), void *arg, const char *cubin, int code)
{
    struct talk t;
    unsigned before = open_descriptors();
    talk_up(&t, script, arg);
    expect_compile(&t, cubin, code);
    talk_down(&t);
    cr_assert_eq(open_descriptors(), before, "a descriptor was left open");
    cr_assert(!expect_is_off());
}

/* ---- whole conversations ---- */

/* All that can be said. `arg`: the number of bytes after which it hangs up; NULL: none. */
static void whole(struct fake_daemon *d)
{
    if (d->arg)
        d->left = *(const size_t *)d->arg;
    fake_daemon_meet(d);
    script_take_compile(d, 0);
    wire_put_wait(&d->out, d->frame.tag, &(struct wire_wait){2, 5});
    fake_daemon_send(d, NULL, 0);
    script_say_check(d);
    script_take_checked(d);
    script_say_need(d, 1 << 20);
    int channel = script_take_source(d);
    script_ask_on(d, channel);
    script_ask_on(d, channel);
    script_say_hit(d);
    script_close_channel(channel);
}

Test(remote_compile, every_question_of_the_daemon_and_the_compiler_is_answered)
{
    against(whole, NULL, "cubin", 0);
}

Test(remote_compile, an_end_after_any_byte_is_an_error_and_leaves_nothing)
{
    struct talk t;
    unsigned before = open_descriptors();
    talk_up(&t, whole, NULL);
    expect_compile(&t, "cubin", 0);
    warm_close(t.w);
    fake_daemon_end(&t.d);
    size_t all = t.d.sent;
    fake_daemon_down(&t.d);
    cr_assert_gt(all, 5 * WIRE_HEADER);
    for (size_t cut = 0; cut < all; cut++) {
        talk_up(&t, whole, &cut);
        expect_compile(&t, NULL, WARM_ECLOSED);
        talk_down(&t);
        cr_assert_eq(open_descriptors(), before, "after %zu bytes", cut);
    }
}

/* ---- the source ---- */

static void need_twice(struct fake_daemon *d)
{
    fake_daemon_meet(d);
    script_take_compile(d, 0);
    script_say_need(d, 1 << 20);
    int first = script_take_source(d);
    script_say_need(d, 1 << 20);
    int second = script_take_source(d);
    fake_daemon_expect(d, script_is_closed(first), "the channel of the first try is open");
    script_ask_on(d, second);
    script_say_hit(d);
    script_close_channel(first);
    script_close_channel(second);
}

Test(remote_compile, a_second_need_gets_the_source_again_with_a_channel_of_its_own)
{
    against(need_twice, NULL, "cubin", 0);
}

static void channel_ends(struct fake_daemon *d)
{
    fake_daemon_meet(d);
    script_take_compile(d, 0);
    script_say_need(d, 1 << 20);
    script_close_channel(script_take_source(d));
    script_say_check(d); /* its answer shows that the client has seen the end */
    script_take_checked(d);
    script_say_hit(d);
}

Test(remote_compile, the_end_of_the_channel_is_not_the_end_of_the_compile)
{
    against(channel_ends, NULL, "cubin", 0);
}

static void channel_talks_rubbish(struct fake_daemon *d)
{
    fake_daemon_meet(d);
    script_take_compile(d, 0);
    script_say_need(d, 1 << 20);
    int channel = script_take_source(d);
    if (channel >= 0)
        send_with_fds(channel, "rubbish", 7, NULL, 0);
    fake_daemon_expect(d, script_is_closed(channel), "the client still listens to rubbish");
    script_say_hit(d);
    script_close_channel(channel);
}

Test(remote_compile, rubbish_on_the_channel_ends_the_channel_alone)
{
    against(channel_talks_rubbish, NULL, "cubin", 0);
}

static void need_too_small(struct fake_daemon *d)
{
    fake_daemon_meet(d);
    script_take_compile(d, 0);
    script_say_need(d, 10);
    fake_daemon_take(d, WIRE_CANCEL);
}

Test(remote_compile, a_job_above_the_daemons_limit_is_cancelled)
{
    against(need_too_small, NULL, NULL, WARM_ETOO_BIG);
}

/* ---- paths ---- */

/* Asks with a list in a file, or in one that is empty. */
static void check_by_file(struct fake_daemon *d, bool is_empty)
{
    struct writer list;
    struct err e;
    writer_init(&list, 0);
    script_add_paths(&list);
    int fd = memfd_sealed("test", list.data, is_empty ? 0 : list.len, &e);
    wire_put_check(&d->out, d->frame.tag, &(struct wire_check){.n = 2, .len = list.len});
    fake_daemon_send(d, &fd, 1);
    close(fd);
    writer_close(&list);
}

static void paths_in_a_file(struct fake_daemon *d)
{
    fake_daemon_meet(d);
    script_take_compile(d, 0);
    check_by_file(d, false);
    script_take_checked(d);
    check_by_file(d, false);
    script_take_checked(d);
    script_say_hit(d);
}

Test(remote_compile, paths_may_come_in_a_file) { against(paths_in_a_file, NULL, "cubin", 0); }

static void paths_in_a_short_file(struct fake_daemon *d)
{
    fake_daemon_meet(d);
    script_take_compile(d, 0);
    check_by_file(d, true);
    fake_daemon_take(d, WIRE_CANCEL);
}

Test(remote_compile, a_file_of_paths_that_is_too_short_is_not_read)
{
    against(paths_in_a_short_file, NULL, NULL, WARM_EMALFORMED);
}

static void paths_of_another_number(struct fake_daemon *d)
{
    struct writer list;
    fake_daemon_meet(d);
    script_take_compile(d, 0);
    writer_init(&list, 0);
    script_add_paths(&list);
    wire_put_check(&d->out, d->frame.tag,
                   &(struct wire_check){*(uint32_t *)d->arg, list.len, {list.data, list.len}});
    fake_daemon_send(d, NULL, 0);
    fake_daemon_take(d, WIRE_CANCEL);
    writer_close(&list);
}

Test(remote_compile, a_list_with_another_number_of_paths_is_malformed)
{
    uint32_t numbers[] = {0, 1, 3};
    for (size_t i = 0; i < 3; i++)
        against(paths_of_another_number, &numbers[i], NULL, WARM_EMALFORMED);
}

/* ---- errors and rubbish ---- */

static void error_while_compiling(struct fake_daemon *d)
{
    fake_daemon_meet(d);
    script_take_compile(d, 0);
    script_say_need(d, 1 << 20);
    int channel = script_take_source(d);
    script_say_error(d, WARM_ECRASHED);
    fake_daemon_take(d, WIRE_CANCEL);
    fake_daemon_expect(d, script_is_closed(channel), "the channel is open after an error");
    script_close_channel(channel);
    script_take_compile(d, 0);
    script_say_hit(d);
}

/* Two compiles on one connection: the first gets this error, and the second its result. */
static void against_two(void (*script)(struct fake_daemon *), unsigned flags, int code)
{
    struct talk t;
    talk_up(&t, script, NULL);
    t.job.flags = flags;
    expect_compile(&t, NULL, code);
    expect_compile(&t, "cubin", 0);
    talk_down(&t);
}

Test(remote_compile, after_an_error_the_connection_goes_on)
{
    against_two(error_while_compiling, 0, WARM_ECRASHED);
}

static void hit_of_a_job_that_was_given_up(struct fake_daemon *d)
{
    fake_daemon_meet(d);
    script_take_compile(d, 0);
    uint64_t tag = d->frame.tag;
    script_say_error(d, WARM_EBUSY);
    fake_daemon_take(d, WIRE_CANCEL);
    script_take_compile(d, 0);
    script_add_result(d, WIRE_HIT, tag, "of the first", 0, false);
    script_add_result(d, WIRE_HIT, d->frame.tag + 1, "of nobody", 0, false);
    script_say_hit(d);
}

Test(remote_compile, a_result_for_another_request_is_not_taken)
{
    against_two(hit_of_a_job_that_was_given_up, 0, WARM_EBUSY);
}

static void miss(struct fake_daemon *d)
{
    fake_daemon_meet(d);
    script_take_compile(d, WIRE_COMPILE_ONLY_IF_CACHED);
    fake_daemon_say(d, WIRE_MISS);
    script_take_compile(d, WIRE_COMPILE_ONLY_IF_CACHED); /* no CANCEL: the request was answered */
    script_say_hit(d);
}

Test(remote_compile, a_miss_is_an_answer)
{
    against_two(miss, WARM_ONLY_IF_CACHED, WARM_ENOT_FOUND);
}

/* An answer without fields, of this type. */
struct empty {
    uint8_t type;
    bool after_source;
};

static void empty_frame(struct fake_daemon *d)
{
    const struct empty *a = d->arg;
    int channel = -1;
    fake_daemon_meet(d);
    script_take_compile(d, 0);
    if (a->after_source) {
        script_say_need(d, 1 << 20);
        channel = script_take_source(d);
    }
    fake_daemon_say(d, a->type);
    if (a->type == WIRE_ERROR) /* the connection is not given up */
        fake_daemon_take(d, WIRE_CANCEL);
    else
        fake_daemon_take(d, FAKE_DAEMON_END);
    script_close_channel(channel);
}

Test(remote_compile, an_unexpected_or_empty_answer_ends_the_connection)
{
    for (unsigned type = 0x80; type <= 0xff; type++)
        for (unsigned after = 0; after < 2; after++)
            if (type != WIRE_WAIT && type != WIRE_MISS)
                against(empty_frame, &(struct empty){(uint8_t)type, after}, NULL,
                        type == WIRE_ERROR ? WARM_ETRUNCATED : WARM_EMALFORMED);
}

/* WAIT and MISS carry no descriptor, but a daemon might send one. */
static void stray_descriptors(struct fake_daemon *d)
{
    uint8_t types[] = {WIRE_WAIT, WIRE_WAIT, WIRE_MISS};
    int fds[2] = {d->listener, d->listener};
    fake_daemon_meet(d);
    script_take_compile(d, 0);
    for (size_t i = 0; i < sizeof types; i++) {
        wire_end(&d->out, wire_begin(&d->out, types[i], 2, d->frame.tag));
        fake_daemon_send(d, fds, 2);
    }
}

Test(remote_compile, descriptors_with_an_answer_that_has_none_are_closed)
{
    against(stray_descriptors, NULL, NULL, WARM_ENOT_FOUND);
}

/* ---- damaged results ---- */

static void take_damaged(struct fake_daemon *d) { fake_daemon_take(d, WIRE_DAMAGED); }

static void damaged_twice(struct fake_daemon *d)
{
    fake_daemon_meet(d);
    script_take_compile(d, 0);
    script_say_damaged(d);
    take_damaged(d);
    script_take_compile(d, 0);
    script_say_damaged(d);
    take_damaged(d);
    script_take_compile(d, WIRE_COMPILE_RECACHE);
    script_say_need(d, 1 << 20);
    int channel = script_take_source(d);
    script_say_hit(d);
    script_close_channel(channel);
}

Test(remote_compile, a_result_that_stays_damaged_is_compiled_again)
{
    against(damaged_twice, NULL, "cubin", 0);
}

static void damaged_always(struct fake_daemon *d)
{
    fake_daemon_meet(d);
    for (int i = 0; i < 3; i++) {
        script_take_compile(d, i == 2 ? WIRE_COMPILE_RECACHE : 0);
        script_say_damaged(d);
        take_damaged(d);
    }
    fake_daemon_take(d, WIRE_CANCEL);
}

Test(remote_compile, three_damaged_results_are_an_error)
{
    against(damaged_always, NULL, NULL, WARM_ECORRUPT);
}

/* A right checksum of bytes that are no bundle. */
static void no_bundle(struct fake_daemon *d)
{
    struct view bytes = view_of_text(d->arg);
    struct wire_hit hit = {
        .len = bytes.len, .check = key_of_bytes(bytes.data, bytes.len), .value = bytes};
    fake_daemon_meet(d);
    script_take_compile(d, 0);
    wire_put_hit(&d->out, d->frame.tag, &hit);
    fake_daemon_send(d, NULL, 0);
    fake_daemon_take(d, WIRE_CANCEL);
}

Test(remote_compile, bytes_that_are_no_bundle_are_no_result)
{
    against(no_bundle, (char *)(uintptr_t) "hello", NULL, WARM_EMALFORMED);
}

/* ---- refusals, audits ---- */

static void refused(struct fake_daemon *d)
{
    fake_daemon_meet(d);
    script_take_compile(d, 0);
    script_add_result(d, WIRE_FAILED, d->frame.tag, "", 6, false);
    fake_daemon_send(d, NULL, 0);
}

Test(remote_compile, a_compilers_refusal_is_a_result)
{
    struct talk t;
    struct warm_result r;
    talk_up(&t, refused, NULL);
    cr_assert_eq(warm_compile(t.w, &t.job, &r), 0, "%s", warm_message(t.w));
    cr_assert_eq(r.status, 6);
    warm_result_free(&r);
    talk_down(&t);
}

static void wants_an_audit(struct fake_daemon *d)
{
    struct writer bundle;
    struct wire_audit m;
    struct job job;
    struct err e;
    fake_daemon_meet(d);
    script_take_compile(d, 0);
    writer_init(&bundle, 0);
    bundle_write(&bundle, &(struct bundle_section){BUNDLE_CUBIN, view_of_text("cubin")}, 1);
    struct wire_hit hit = {.outcome = WIRE_WAS_HIT_AUDIT,
                           .key = key_of_bytes("key", 3),
                           .len = bundle.len,
                           .check = key_of_bytes(bundle.data, bundle.len),
                           .value = {bundle.data, bundle.len}};
    wire_put_hit(&d->out, d->frame.tag, &hit);
    fake_daemon_send(d, NULL, 0);
    writer_close(&bundle);
    fake_daemon_take(d, WIRE_AUDIT);
    bool is_right = wire_get_audit(&d->frame, &m, &e) == 0 && key_equal(&m.key, &hit.key) &&
                    job_decode(m.job.data, m.job.len, &job, &e) == 0;
    fake_daemon_expect(d, is_right, "AUDIT of another job");
    if (is_right)
        job_close(&job);
}

Test(remote_compile, a_hit_that_asks_for_an_audit_gets_the_job)
{
    against(wants_an_audit, NULL, "cubin", 0);
}

/* ---- a daemon that was restarted ---- */

static void restarts(struct fake_daemon *d)
{
    fake_daemon_meet(d);
    script_take_compile(d, 0);
    script_say_hit(d);
    fake_daemon_meet(d); /* hangs up first */
    script_take_compile(d, 0);
    script_say_hit(d);
}

Test(remote_compile, a_daemon_that_was_restarted_between_two_compiles_is_asked_again)
{
    struct talk t;
    talk_up(&t, restarts, NULL);
    expect_compile(&t, "cubin", 0);
    expect_compile(&t, "cubin", 0);
    talk_down(&t);
}

/* ---- a compiler that the daemon does not load ---- */

/* Takes a COMPILE and notes its compiler in `out`. */
static void take_compiler(struct fake_daemon *d, char out[WIRE_NAME_MAX])
{
    struct wire_compile m;
    struct err e;
    *out = '\0';
    fake_daemon_take(d, WIRE_COMPILE);
    if (fake_daemon_talks(d) && wire_get_compile(&d->frame, &m, &e) == 0)
        snprintf(out, WIRE_NAME_MAX, "%.*s", (int)m.compiler.len, (const char *)m.compiler.data);
}

static void knows_it_by_content(struct fake_daemon *d)
{
    char by_path[WIRE_NAME_MAX], by_content[WIRE_NAME_MAX], again[WIRE_NAME_MAX];
    fake_daemon_meet(d);
    take_compiler(d, by_path);
    script_say_error(d, WARM_ENO_TOOLCHAIN);
    fake_daemon_take(d, WIRE_CANCEL);
    take_compiler(d, by_content);
    script_say_hit(d);
    take_compiler(d, again);
    script_say_hit(d);
    fake_daemon_expect(d, *by_path == '/', "the first COMPILE names no file");
    fake_daemon_expect(d, strlen(by_content) == 32 && strspn(by_content, "0123456789abcdef") == 32,
                       "the second COMPILE names no content");
    fake_daemon_expect(d, strcmp(by_content, again) == 0, "the content was forgotten");
    take_compiler(d, again); /* the test has changed the file */
    fake_daemon_expect(d, strcmp(by_path, again) == 0, "another file under the same content");
    script_say_error(d, WARM_ENO_TOOLCHAIN);
    fake_daemon_take(d, WIRE_CANCEL);
    take_compiler(d, again);
    fake_daemon_expect(d, strlen(again) == 32 && strcmp(by_content, again) != 0,
                       "the same content of another file");
    script_say_error(d, WARM_ENO_TOOLCHAIN);
    fake_daemon_take(d, WIRE_CANCEL);
    fake_daemon_take(d, WIRE_NOTE);
    take_compiler(d, again);
    fake_daemon_expect(d, strcmp(by_path, again) == 0, "a content that the daemon does not have");
    script_say_hit(d);
}

Test(remote_compile, a_library_of_the_users_own_is_named_by_its_content)
{
    struct talk t;
    talk_up(&t, knows_it_by_content, NULL);
    char *library = path_join(t.d.dir, "libnvrtc.so.12");
    file_write(library, "one", 3);
    t.job.compiler = library;
    expect_compile(&t, "cubin", 0);
    expect_compile(&t, "cubin", 0);
    file_write(library, "another", 7);
    expect_compile(&t, NULL, WARM_ENO_TOOLCHAIN);
    expect_compile(&t, "cubin", 0);
    talk_down(&t);
    free(library);
}

/* ---- many at once ---- */

enum { N = 4 };

/* Takes N COMPILEs, and leaves the first one's tag in d->frame. */
static void take_compiles(struct fake_daemon *d)
{
    fake_daemon_meet(d);
    for (int i = 0; i < N; i++)
        script_take_compile(d, 0);
    d->frame.tag -= N - 1;
}

/* Compiles N equal jobs; fills in out and codes. */
static int compile_many(struct talk *t, struct warm_result out[N], int codes[N])
{
    struct warm_job jobs[N];
    for (int i = 0; i < N; i++)
        jobs[i] = t->job;
    return request_compile_many(t->w, jobs, N, out, codes);
}

static void in_another_order(struct fake_daemon *d)
{
    take_compiles(d);
    uint64_t first = d->frame.tag;
    script_add_result(d, WIRE_HIT, first + 2, "third", 0, false);
    d->frame.tag = first + 1;
    script_say_need(d, 1 << 20);
    int channel = script_take_source(d);
    fake_daemon_expect(d, d->frame.tag == first + 1, "SOURCE of another job");
    script_ask_on(d, channel);
    d->frame.tag = first + 3;
    script_say_error(d, WARM_ECRASHED);
    script_add_result(d, WIRE_FAILED, first, "first", 6, false);
    script_add_result(d, WIRE_HIT, first + 1, "second", 0, false);
    fake_daemon_send(d, NULL, 0);
    fake_daemon_expect(d, script_is_closed(channel), "the channel is open after the result");
    script_close_channel(channel);
}

Test(remote_compile, many_answers_go_to_their_own_jobs_in_any_order)
{
    static const char *const cubins[] = {"first", "second", "third"};
    struct talk t;
    struct warm_result out[N];
    int codes[N];
    unsigned before = open_descriptors();
    talk_up(&t, in_another_order, NULL);
    cr_assert_eq(compile_many(&t, out, codes), 0, "%s", warm_message(t.w));
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(codes[i], 0);
        cr_assert_eq(out[i].status, i ? 0 : 6);
        cr_assert(out[i].cubin.len == strlen(cubins[i]) &&
                  memcmp(out[i].cubin.data, cubins[i], out[i].cubin.len) == 0);
        warm_result_free(&out[i]);
    }
    cr_assert_eq(codes[3], WARM_ECRASHED);
    talk_down(&t);
    cr_assert_eq(open_descriptors(), before);
}

static void one_is_damaged(struct fake_daemon *d)
{
    take_compiles(d);
    uint64_t first = d->frame.tag;
    script_add_result(d, WIRE_HIT, first, "wrong", 0, true);
    for (unsigned i = 1; i < N; i++)
        script_add_result(d, WIRE_HIT, first + i, "right", 0, false);
    fake_daemon_send(d, NULL, 0);
    take_damaged(d);
    script_take_compile(d, 0);
    script_add_result(d, WIRE_HIT, d->frame.tag, "right", 0, false);
    fake_daemon_send(d, NULL, 0);
}

Test(remote_compile, a_damaged_one_of_many_is_asked_for_again)
{
    struct talk t;
    struct warm_result out[N];
    int codes[N];
    talk_up(&t, one_is_damaged, NULL);
    cr_assert_eq(compile_many(&t, out, codes), 0, "%s", warm_message(t.w));
    for (int i = 0; i < N; i++) {
        cr_assert_eq(codes[i], 0);
        cr_assert(out[i].cubin.len == 5 && memcmp(out[i].cubin.data, "right", 5) == 0);
        warm_result_free(&out[i]);
    }
    talk_down(&t);
}

static void twice(struct fake_daemon *d)
{
    take_compiles(d);
    uint64_t first = d->frame.tag;
    script_add_result(d, WIRE_HIT, first, "first", 0, false);
    script_add_result(d, WIRE_HIT, first, "again", 0, false);
    fake_daemon_send(d, NULL, 0);
    fake_daemon_take(d, FAKE_DAEMON_END);
}

static void some_then_end(struct fake_daemon *d)
{
    take_compiles(d);
    script_add_result(d, WIRE_HIT, d->frame.tag, "first", 0, false);
    fake_daemon_send(d, NULL, 0);
    d->frame.tag++;
    script_say_need(d, 1 << 20);
    script_close_channel(script_take_source(d));
}

/* LeakSanitizer sees a result that is not freed. */
Test(remote_compile, many_fail_together_after_a_second_answer_or_the_end)
{
    struct talk t;
    struct warm_result out[N];
    int codes[N];
    unsigned before = open_descriptors();
    talk_up(&t, twice, NULL);
    cr_assert_eq(compile_many(&t, out, codes), WARM_EMALFORMED);
    talk_down(&t);
    talk_up(&t, some_then_end, NULL);
    cr_assert_eq(compile_many(&t, out, codes), WARM_ECLOSED);
    talk_down(&t);
    cr_assert_eq(open_descriptors(), before);
}

static void nobody(struct fake_daemon *d) { fake_daemon_meet(d); }

Test(remote_compile, a_request_that_cannot_be_encoded_is_not_sent)
{
    char compiler[WIRE_NAME_MAX + 2];
    struct talk t;
    struct warm_result out[N];
    int codes[N];
    memset(compiler, '9', sizeof compiler - 1);
    compiler[sizeof compiler - 1] = '\0';
    talk_up(&t, nobody, NULL);
    t.job.compiler = compiler;
    cr_assert_eq(compile_many(&t, out, codes), WARM_ETOO_BIG);
    expect_compile(&t, NULL, WARM_ETOO_BIG);
    talk_down(&t);
}
