/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_bookkeeping.c - each answer, put and departure changes the counters of the daemon, those of the asker's
 * session, and the history of misses, as it must. The service is real; the calls are the test's.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "daemon/compiler/toolchain.h"
#include "daemon/headers/manifest.h"
#include "daemon/service/bookkeeping.h"
#include "daemon/service/compile_request.h"
#include "daemon/service/internal.h"
#include "tests/support/service.h"

static struct service_rig rig;
static struct peer alice, bob, admin; /* the first two have a session */

static void setup(void)
{
    service_rig_up(&rig);
    alice = (struct peer){.uid = 1000, .space = 1000, .pid = 50};
    bob = (struct peer){.uid = 1001, .space = 1001, .pid = 60};
    admin = (struct peer){.uid = 0, .is_admin = true, .administers = true, .pid = 70};
    alice.session = service_join_session(rig.service, alice.uid, view_of_text("hers"));
    bob.session = service_join_session(rig.service, bob.uid, view_of_text("his"));
    admin.session = service_join_session(rig.service, admin.uid, view_of_text("roots"));
}

static void teardown(void)
{
    service_leave_session(rig.service, alice.session);
    service_leave_session(rig.service, bob.session);
    service_leave_session(rig.service, admin.session);
    service_rig_down(&rig);
}
TestSuite(bookkeeping, .init = setup, .fini = teardown, .timeout = 120);

/* ---- what was noted ---- */

static uint64_t counted(enum stats_counter what, enum store_kind kind)
{
    return service_stats(rig.service)->now[what][kind];
}

/* The JSON that a peer gets of its sessions, misses and events; "" if there is none. */
static const char *told(const struct peer *peer, enum wire_history_of of, const char *id)
{
    static char out[65536];
    struct writer w;
    struct wire_history ask = {.of = of, .id = view_of_text(id)};
    writer_init(&w, sizeof out - 1);
    *out = '\0';
    if (service_write_history(rig.service, peer, &ask, &w))
        snprintf(out, sizeof out, "%.*s", (int)w.len, (const char *)w.data);
    writer_close(&w);
    return out;
}

/* Expects the first counters of alice's session. */
static void expect_session(unsigned asked, unsigned hits, unsigned coalesced, unsigned misses,
                           unsigned errors)
{
    char want[256];
    snprintf(want, sizeof want,
             "\"asked\": %u, \"hits\": %u, \"coalesced\": %u, \"misses\": %u, \"errors\": %u",
             asked, hits, coalesced, misses, errors);
    const char *json = told(&alice, WIRE_HISTORY_SESSION, "hers");
    cr_assert_not_null(strstr(json, want), "no %s in %s", want, json);
}

/* Expects a part of what alice is told about a key, a name or a label. */
static void expect_told(const char *id, const char *part)
{
    const char *json = told(&alice, WIRE_HISTORY_KEY, id);
    cr_assert_not_null(strstr(json, part), "no %s in %s", part, json);
}

static void expect_event(const char *part)
{
    const char *json = told(&alice, WIRE_HISTORY_EVENTS, "hers");
    cr_assert_not_null(strstr(json, part), "no %s in %s", part, json);
}

/* ---- calls ---- */

static const struct ask_ops ops = {.kind = STORE_TRITON};

static struct ask call_of(const struct peer *peer, const char *name)
{
    return (struct ask){.service = rig.service,
                        .peer = peer,
                        .ops = &ops,
                        .name = view_of_text(name),
                        .id = service_name_id(peer, view_of_text(name))};
}

/* Counts the request and this answer of a GET. */
static void answer(struct ask *call, const struct answer *a)
{
    bookkeeping_asked(rig.service, call->peer);
    bookkeeping_answer(call, a);
}

static void miss(struct ask *call) { answer(call, &(struct answer){.kind = ANSWER_MISS}); }

/* A compile that alice asked for, with the parts that bookkeeping looks at. */
static struct toolchain toolchain = {.text = "NVRTC 13.5"};

static struct ask compile_of(struct compile *c, const char *label)
{
    struct ask call = call_of(&alice, "");
    *c = (struct compile){.toolchain = &toolchain};
    strcpy(c->address.hardware, "sm_90");
    strcpy(c->label, label);
    call.name = (struct view){0};
    call.id = (struct store_id){STORE_MADE_HERE, key_of_bytes(label, strlen(label))};
    call.compile = c;
    return call;
}

/* ---- names ---- */

Test(bookkeeping, the_form_of_a_name_tells_the_kind)
{
    static const struct {
        const char *name;
        enum store_kind kind;
    } rows[] = {
        {"pt2:fx-graph:1", STORE_FX_GRAPH},
        {"pt2:autograd:1", STORE_BACKWARD},
        {"pt2:bundled-autotune-v1::x", STORE_AUTOTUNE},
        {"pt2:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef::x", STORE_AUTOTUNE},
        {"pt2:dynamo-pgo-x", STORE_OTHER},
        {"triton:1", STORE_TRITON},
        {"jax:1", STORE_EXECUTABLE},
        {"pjrt:1:2", STORE_EXECUTABLE},
        {"enzyme:1", STORE_BACKWARD},
        {"mlir:1", STORE_GRAPH},
        {"cc:1", STORE_OBJECT},
        {"nvrtc:1", STORE_CUBIN},
        {"ptxas:1", STORE_CUBIN},
        {"triton:", STORE_OTHER},
        {"", STORE_OTHER},
        {"x:triton:1", STORE_OTHER}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cr_expect_eq(wire_kind_of_name(view_of_text(rows[i].name)), rows[i].kind, "%s",
                     rows[i].name);
}

Test(bookkeeping, notes_are_names_and_names_of_second_tries_are_not_listed)
{
    static const struct {
        const char *name;
        bool is_note, is_unlisted;
    } rows[] = {{"file:1", true, true},           {"jax:ahead:1", true, true},
                {"jax:stock:1", false, true},     {"ptxas:exact:1", false, true},
                {"jax:1", false, false},          {"file:", false, false},
                {"torch-catalogue:1", true, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct view name = view_of_text(rows[i].name);
        cr_expect_eq(bookkeeping_is_note(WIRE_SPACE_NAME, name), rows[i].is_note);
        cr_expect_eq(bookkeeping_is_unlisted(WIRE_SPACE_NAME, name), rows[i].is_unlisted);
        cr_expect_not(bookkeeping_is_note(WIRE_SPACE_KEY, name));
        cr_expect_not(bookkeeping_is_unlisted(WIRE_SPACE_KEY, name));
    }
}

/* ---- hits ---- */

static struct store_row row_of(enum store_kind kind)
{
    return (struct store_row){.kind = kind, .cost_ms = 40, .label = view_of_text("row")};
}

Test(bookkeeping, a_hit_counts_once_for_the_daemon_and_for_the_session)
{
    struct store_row row = row_of(STORE_CUBIN);
    bookkeeping_hit(rig.service, &alice, false, &row);
    expect_session(1, 1, 0, 0, 0);
    cr_expect_eq(counted(STATS_hits, STORE_CUBIN), 1u);
    cr_expect_eq(counted(STATS_saved_ms, STORE_CUBIN), 40u);
    expect_event("\"what\": \"hit\", \"cost_ms\": 40");
    expect_event("\"label\": \"row\"");
}

Test(bookkeeping, a_hit_without_a_session_is_its_users_and_her_projects)
{
    struct peer alone = {.uid = 1000, .space = 1000, .project = "paper"};
    struct store_row row = row_of(STORE_CUBIN);
    bookkeeping_hit(rig.service, &alone, false, &row);
    bookkeeping_hit(rig.service, &alone, true, &row); /* a note */
    cr_expect_eq(counted(STATS_hits, STORE_CUBIN), 1u);
    cr_expect_eq(counted(STATS_internal_hits, STORE_CUBIN), 1u);
    expect_session(0, 0, 0, 0, 0);
    const char *json = told(&alice, WIRE_HISTORY_USAGE, "");
    cr_expect_not_null(strstr(json, "\"project\": \"paper\", \"hits\": 1,"), "%s", json);
    cr_expect_not_null(strstr(json, "\"saved_ms\": 40"), "%s", json);
}

Test(bookkeeping, a_hit_of_a_note_or_a_manifest_is_counted_apart)
{
    struct store_row note = row_of(STORE_OTHER), manifest = row_of(STORE_MANIFEST);
    bookkeeping_hit(rig.service, &alice, true, &note);
    bookkeeping_hit(rig.service, &alice, false, &manifest);
    expect_session(0, 0, 0, 0, 0);
    cr_expect_eq(counted(STATS_hits, STORE_OTHER) + counted(STATS_hits, STORE_MANIFEST), 0u);
    cr_expect_eq(counted(STATS_internal_hits, STORE_OTHER), 1u);
    cr_expect_eq(counted(STATS_internal_hits, STORE_MANIFEST), 1u);
    cr_expect_eq(counted(STATS_saved_ms, STORE_MANIFEST), 0u, "the value that it leads to saves");
}

Test(bookkeeping, an_administrators_requests_count_nowhere)
{
    struct store_row row = row_of(STORE_CUBIN);
    struct ask call = call_of(&admin, "triton:1");
    bookkeeping_hit(rig.service, &admin, false, &row);
    miss(&call);
    for (unsigned kind = 0; kind < STATS_KINDS; kind++)
        cr_expect_eq(counted(STATS_hits, kind) + counted(STATS_misses, kind), 0u);
    const char *json = told(&admin, WIRE_HISTORY_SESSION, "roots");
    cr_expect_not_null(strstr(json, "\"asked\": 0, \"hits\": 0"), "%s", json);
    cr_expect_not_null(strstr(json, "\"misses\": []"), "%s", json);
}

/* ---- answers ---- */

Test(bookkeeping, a_result_counts_by_where_it_came_from)
{
    struct artifact good = {.kind = STORE_CUBIN, .cost_ms = 30},
                    bad = {.kind = STORE_CUBIN, .cost_ms = 30, .failed = true};
    struct ask call = call_of(&alice, "name");
    struct answer a = {.kind = ANSWER_VALUE, .artifact = &good, .outcome = WIRE_WAS_MISS};
    answer(&call, &a);
    expect_session(1, 0, 0, 1, 0);
    cr_expect_eq(counted(STATS_saved_ms, STORE_CUBIN), 0u, "it had to be made");
    expect_event("\"what\": \"compile\"");
    a.outcome = WIRE_WAS_COALESCED;
    answer(&call, &a);
    expect_session(2, 0, 1, 1, 0);
    cr_expect_eq(counted(STATS_saved_ms, STORE_CUBIN), 30u);
    expect_event("\"what\": \"wait\"");
    a.outcome = WIRE_WAS_HIT;
    answer(&call, &a);
    expect_session(3, 1, 1, 1, 0);
    cr_expect_eq(counted(STATS_saved_ms, STORE_CUBIN), 60u);
    expect_event("\"what\": \"hit\"");
    a = (struct answer){.kind = ANSWER_FAILED, .artifact = &bad, .outcome = WIRE_WAS_HIT};
    answer(&call, &a);
    expect_session(4, 1, 1, 1, 1);
    cr_expect_eq(counted(STATS_saved_ms, STORE_CUBIN), 60u, "an error saves nothing");
    expect_event("\"what\": \"error\"");
}

/* As it comes from the tier, or from another process that made it. */
Test(bookkeeping, a_list_of_files_that_was_waited_for_is_no_ask)
{
    static const enum wire_outcome outcomes[] = {WIRE_WAS_HIT, WIRE_WAS_COALESCED};
    struct artifact list = {.kind = STORE_MANIFEST, .cost_ms = 30};
    struct store_value stored = {.row = row_of(STORE_MANIFEST)};
    struct ask call = call_of(&alice, "cc:2:1");
    for (size_t i = 0; i < 2; i++)
        answer(&call,
               &(struct answer){.kind = ANSWER_VALUE, .artifact = &list, .outcome = outcomes[i]});
    answer(&call, &(struct answer){.kind = ANSWER_VALUE, .value = &stored});
    expect_session(0, 0, 0, 0, 0);
    cr_expect_eq(counted(STATS_internal_hits, STORE_MANIFEST), 3u);
    cr_expect_eq(counted(STATS_saved_ms, STORE_MANIFEST), 0u);
}

Test(bookkeeping, an_error_counts_under_the_calls_kind)
{
    struct err e;
    struct ask call = call_of(&alice, "name");
    err_set(&e, WARM_EIO, "so it is");
    answer(&call, &(struct answer){.kind = ANSWER_ERROR, .err = &e});
    expect_session(1, 0, 0, 0, 1);
    cr_expect_eq(counted(STATS_errors, STORE_TRITON), 1u);
}

Test(bookkeeping, a_get_that_waited_too_long_is_noted)
{
    struct err e;
    struct ask call = call_of(&alice, "name");
    err_set(&e, WARM_ETIMEOUT, "nobody brought it");
    answer(&call, &(struct answer){.kind = ANSWER_ERROR, .err = &e});
    expect_session(1, 0, 0, 0, 1);
    const char *json = told(&alice, WIRE_HISTORY_SESSION, "hers");
    cr_expect_not_null(strstr(json, "\"reason\": \"timeout\", \"text\": \"nobody brought it\""),
                       "%s", json);
}

/* The client asks again by content, which counts. */
Test(bookkeeping, a_compiler_that_the_daemon_does_not_load_was_not_asked_for)
{
    struct err e;
    struct compile c;
    struct ask call = compile_of(&c, "k.cu");
    err_set(&e, WARM_ENO_TOOLCHAIN, "not that one");
    answer(&call, &(struct answer){.kind = ANSWER_ERROR, .err = &e});
    expect_session(0, 0, 0, 0, 0);
    cr_expect_eq(counted(STATS_errors, STORE_TRITON), 0u);
}

Test(bookkeeping, a_lease_is_a_miss_unless_its_client_waited_first)
{
    struct ask call = call_of(&alice, "triton:1");
    answer(&call, &(struct answer){.kind = ANSWER_LEASE});
    expect_session(1, 0, 0, 1, 0);
    expect_event("\"what\": \"lease\"");
    call.waits = true;
    bookkeeping_answer(&call, &(struct answer){.kind = ANSWER_LEASE});
    expect_session(1, 0, 0, 1, 0);
    cr_expect_eq(counted(STATS_misses, STORE_TRITON), 1u);
}

Test(bookkeeping, answers_on_the_way_count_nothing)
{
    static const enum answer_kind kinds[] = {ANSWER_OVER, ANSWER_WAIT, ANSWER_NEED, ANSWER_CHECK};
    struct ask call = call_of(&alice, "triton:1");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        bookkeeping_answer(&call, &(struct answer){.kind = kinds[i]});
    expect_session(0, 0, 0, 0, 0);
    cr_expect_eq(counted(STATS_misses, STORE_TRITON), 0u);
}

Test(bookkeeping, an_unlisted_miss_is_counted_apart)
{
    struct ask call = call_of(&alice, "jax:stock:1");
    call.is_unlisted = true;
    miss(&call);
    expect_session(1, 0, 0, 0, 0);
    cr_expect_eq(counted(STATS_misses, STORE_EXECUTABLE), 0u);
    cr_expect_eq(counted(STATS_internal_misses, STORE_EXECUTABLE), 1u);
    cr_expect_str_eq(told(&alice, WIRE_HISTORY_KEY, "jax:stock:1"), "");
}

/* ---- a process that comes back for the lease ---- */

Test(bookkeeping, a_look_and_the_lease_after_it_are_one_miss)
{
    struct ask call = call_of(&alice, "triton:1");
    miss(&call);
    expect_session(1, 0, 0, 1, 0);
    bookkeeping_look_is_over(&call);
    expect_session(0, 0, 0, 0, 0);
    cr_expect_eq(counted(STATS_misses, STORE_TRITON), 0u, "the daemon counts what a person did");
    const char *json = told(&alice, WIRE_HISTORY_USAGE, "");
    cr_expect_not_null(strstr(json, "\"misses\": 0,"), "nor by hour: %s", json);
    bookkeeping_look_is_over(&call); /* is forgotten */
    miss(&call);
    expect_session(1, 0, 0, 1, 0);
}

Test(bookkeeping, a_look_of_another_process_entry_or_session_stays_a_miss)
{
    struct peer sibling = alice, elsewhere = alice;
    struct ask call = call_of(&alice, "triton:1"), other = call_of(&alice, "triton:2"),
               siblings = call_of(&sibling, "triton:1"),
               elsewheres = call_of(&elsewhere, "triton:1");
    sibling.pid = 51;
    elsewhere.session = bob.session;
    miss(&call);
    bookkeeping_look_is_over(&other);
    bookkeeping_look_is_over(&siblings);
    bookkeeping_look_is_over(&elsewheres);
    expect_session(1, 0, 0, 1, 0);
    bookkeeping_look_is_over(&call);
    expect_session(0, 0, 0, 0, 0);
}

/* ---- why it was a miss ---- */

static void on_removed(void *arg, int status, const struct store_report *r, const struct err *e)
{
    (void)r, (void)e;
    *(bool *)arg = status == 0;
}

static void remove_entry(const struct store_id *id)
{
    bool removed = false;
    struct err e;
    cr_assert_eq(store_remove(rig.store, id, 1, on_removed, &removed, &e), 0, "%s", e.text);
    service_rig_until(&rig, &removed);
}

Test(bookkeeping, a_miss_of_a_removed_entry_says_so_until_it_is_stored_again)
{
    struct ask call = call_of(&alice, "triton:1");
    cr_assert_eq(service_rig_put(&rig, &alice, service_rig_text("triton:1", "value")), 0);
    remove_entry(&call.id);
    miss(&call);
    expect_told("triton:1", "\"reason\": \"evicted\"");
    expect_told("triton:1", "removed by `warm rm`");
    bookkeeping_look_is_over(&call);
    bookkeeping_stored(rig.service, &call.id);
    miss(&call);
    expect_told("triton:1", "\"reason\": \"cold\"");
}

Test(bookkeeping, a_miss_of_a_damaged_entry_says_so)
{
    struct ask call = call_of(&alice, "triton:1");
    call.was_corrupt = true;
    strcpy(call.tier_said, "nobody has it");
    miss(&call);
    expect_told("triton:1", "\"reason\": \"corrupt\"");
    expect_told("triton:1", "\"tier\": \"nobody has it\"");
}

Test(bookkeeping, an_administrator_is_told_of_all_and_a_user_of_her_own)
{
    struct ask call = call_of(&bob, "triton:his");
    miss(&call);
    cr_expect_str_eq(told(&alice, WIRE_HISTORY_KEY, "triton:his"), "");
    cr_expect_str_neq(told(&bob, WIRE_HISTORY_KEY, "triton:his"), "");
    cr_expect_str_neq(told(&admin, WIRE_HISTORY_KEY, "triton:his"), "");
}

Test(bookkeeping, a_clients_note_is_told)
{
    struct wire_note note = {WIRE_REASON_UNCACHEABLE, view_of_text("k.cu"), view_of_text("--time")};
    service_note(rig.service, &alice, &note);
    expect_told("k.cu", "\"reason\": \"uncacheable\", \"text\": \"--time\"");
}

/* ---- puts ---- */

static void put(const struct peer *peer, const char *name, const char *hardware)
{
    struct service_put p = service_rig_text(name, "value");
    struct store_id id = service_name_id(peer, p.name);
    p.kind = STORE_TRITON;
    p.cost_ms = 7;
    p.hardware = view_of_text(hardware);
    p.label = view_of_text(*hardware ? "kernel" : "");
    bookkeeping_put(rig.service, peer, &p, &id);
}

Test(bookkeeping, a_put_completes_its_miss_and_explains_the_next)
{
    struct ask one = call_of(&alice, "triton:1"), two;
    struct peer later = alice; /* in one session, they would be siblings */
    later.session = service_join_session(rig.service, alice.uid, view_of_text("later"));
    two = call_of(&later, "triton:2");
    answer(&one, &(struct answer){.kind = ANSWER_LEASE});
    put(&alice, "triton:1", "sm_80");
    cr_expect_eq(counted(STATS_puts, STORE_TRITON), 1u);
    cr_expect_eq(service_stats(rig.service)->compile_times.ns_sum[STORE_TRITON], 7000000u);
    expect_event("\"what\": \"make\", \"cost_ms\": 7");
    expect_told("triton:1", "\"label\": \"kernel\", \"kind\": \"triton\", \"hardware\": \"sm_80\"");
    answer(&two, &(struct answer){.kind = ANSWER_LEASE});
    put(&later, "triton:2", "sm_90");
    expect_told("triton:2", "\"reason\": \"differs\"");
    expect_told("triton:2", "\"part\": \"hardware\", \"old\": \"sm_80\", \"new\": \"sm_90\"");
    service_leave_session(rig.service, later.session);
}

Test(bookkeeping, a_put_without_a_description_explains_nothing)
{
    struct ask one = call_of(&alice, "triton:1");
    answer(&one, &(struct answer){.kind = ANSWER_LEASE});
    put(&alice, "triton:1", "");
    expect_event("\"what\": \"make\", \"cost_ms\": 7");
    expect_told("triton:1", "\"reason\": \"cold\"");
    expect_told("triton:1", "\"label\": \"\"");
}

Test(bookkeeping, a_put_of_a_note_is_counted_alone)
{
    struct ask one = call_of(&alice, "file:1");
    miss(&one); /* a listed one, to see that it is not completed */
    put(&alice, "file:1", "sm_80");
    cr_expect_eq(counted(STATS_puts, STORE_TRITON), 0u);
    cr_expect_eq(counted(STATS_internal_puts, STORE_TRITON), 1u);
    expect_told("file:1", "\"hardware\": \"\"");
    expect_event("\"what\": \"miss\"");
}

/* ---- compiles ---- */

Test(bookkeeping, a_compiles_miss_has_what_it_was_asked_for)
{
    struct compile c;
    struct ask call = compile_of(&c, "k.cu");
    miss(&call);
    expect_session(1, 0, 0, 1, 0);
    cr_expect_eq(counted(STATS_misses, STORE_CUBIN), 1u);
    expect_told("k.cu", "\"kind\": \"cubin\", \"hardware\": \"sm_90\", \"compiler\": "
                        "\"NVRTC 13.5\", \"reason\": \"cold\", \"text\": \"\"");
}

Test(bookkeeping, what_the_client_asked_for_may_be_the_reason)
{
    struct compile c;
    struct ask call = compile_of(&c, "anew.cu");
    c.flags = WIRE_COMPILE_RECACHE;
    miss(&call);
    expect_told("anew.cu", "\"reason\": \"disabled\"");
    call = compile_of(&c, "cached.cu");
    c.flags = WIRE_COMPILE_ONLY_IF_CACHED;
    miss(&call);
    expect_told("cached.cu", "\"reason\": \"cold\", \"text\": \"not here; --only-if-cached");
    call = compile_of(&c, "damaged.cu");
    c.flags = WIRE_COMPILE_ONLY_IF_CACHED;
    call.was_corrupt = true;
    miss(&call);
    expect_told("damaged.cu", "\"reason\": \"corrupt\"");
}

Test(bookkeeping, how_a_compile_failed_may_be_the_reason)
{
    static const struct {
        int code;
        const char *label, *want;
    } rows[] = {{WARM_ETIMEOUT, "1.cu", "\"reason\": \"timeout\", \"text\": \"why\""},
                {WARM_EREFUSED, "2.cu", "\"reason\": \"uncacheable\", \"text\": \"why\""},
                {WARM_ECRASHED, "3.cu", "\"reason\": \"cold\", \"text\": \"\""}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err e;
        struct compile c;
        struct ask call = compile_of(&c, rows[i].label);
        err_set(&e, rows[i].code, "why");
        bookkeeping_failed(rig.service, bookkeeping_compile_miss(&call), &e);
        expect_told(rows[i].label, rows[i].want);
    }
}

/* ---- headers ---- */

static struct wire_path_seen file_of(const char *content, uint32_t same)
{
    return (struct wire_path_seen){WIRE_PATH_FILE, proof_of_bytes(content, strlen(content)), same};
}

/* A manifest of files that all had the content "old", and none shared a file but for `linked`, which are one. */
static struct manifest *manifest_of(const char *const *paths, uint32_t n, bool linked)
{
    struct view views[8];
    struct manifest_state states[8];
    struct manifest_alternative alternative = {.maker = 1000, .one_file = true};
    cr_assert_leq(n, 8u);
    for (uint32_t i = 0; i < n; i++) {
        views[i] = view_of_text(paths[i]);
        states[i] = (struct manifest_state){
            .path = i, .sha256 = proof_of_bytes("old", 3), .same = linked ? 0 : i};
    }
    struct manifest *m = manifest_new(views, states, n, &alternative);
    cr_assert_not_null(m);
    return m;
}

static void digest_of(const char *content, char out[WARM_KEY_TEXT])
{
    struct proof p = proof_of_bytes(content, strlen(content));
    struct key key;
    memcpy(key.bytes, p.bytes, sizeof key.bytes);
    key_to_text(&key, out);
    out[16] = '\0';
}

Test(bookkeeping, a_changed_header_is_named_with_both_digests)
{
    static const char *const paths[] = {"/i/same.h", "/i/new.h", "/i/gone.h", "/i/hidden.h"};
    struct wire_path_seen states[] = {file_of("old", 0),
                                      file_of("new", 1),
                                      {WIRE_PATH_ABSENT, {{0}}, 0},
                                      {WIRE_PATH_REFUSED, {{0}}, 0}};
    struct compile c;
    struct ask call = compile_of(&c, "k.cu");
    struct manifest *m = manifest_of(paths, 4, false);
    char old[WARM_KEY_TEXT], new[WARM_KEY_TEXT];
    digest_of("old", old);
    digest_of("new", new);
    bookkeeping_headers(&call, m, states);
    cr_assert_eq(c.n_changed, 3u);
    cr_expect_str_eq(c.changed[0].part, "header /i/new.h");
    cr_expect_str_eq(c.changed[0].old, old);
    cr_expect_str_eq(c.changed[0].now, new);
    cr_expect_str_eq(c.changed[1].part, "header /i/gone.h");
    cr_expect_str_eq(c.changed[1].now, "absent");
    cr_expect_str_eq(c.changed[2].part, "header /i/hidden.h");
    cr_expect_str_eq(c.changed[2].now, "not shown");
    bookkeeping_compile_miss(&call);
    expect_told("k.cu", "\"reason\": \"differs\"");
    expect_told("k.cu", "{\"part\": \"header /i/gone.h\"");
    bookkeeping_headers(&call, m, states);
    cr_assert_eq(c.n_changed, 3u, "those of an earlier manifest are replaced");
    manifest_unref(m);
}

Test(bookkeeping, one_file_under_two_paths_is_one_change_best_by_its_absolute_path)
{
    static const char *const paths[] = {"sub/a.h", "/i/sub/a.h", "other/a.h"};
    struct wire_path_seen states[] = {file_of("new", 0), file_of("new", 0), file_of("new", 0)};
    struct compile c;
    struct ask call = compile_of(&c, "k.cu");
    struct manifest *m = manifest_of(paths, 3, true);
    bookkeeping_headers(&call, m, states);
    cr_assert_eq(c.n_changed, 1u);
    cr_expect_str_eq(c.changed[0].part, "header /i/sub/a.h");
    manifest_unref(m);
}

Test(bookkeeping, no_more_headers_are_named_than_there_is_room_for)
{
    static const char *const paths[] = {"/1.h", "/2.h", "/3.h", "/4.h", "/5.h", "/6.h"};
    struct wire_path_seen states[6];
    struct compile c;
    struct ask call = compile_of(&c, "k.cu");
    struct manifest *m = manifest_of(paths, 6, false);
    for (uint32_t i = 0; i < 6; i++)
        states[i] = file_of(paths[i], i);
    bookkeeping_headers(&call, m, states);
    cr_assert_eq(c.n_changed, CHANGED_HEADERS);
    cr_expect_str_eq(c.changed[CHANGED_HEADERS - 1].part, "header /4.h");
    manifest_unref(m);
}

Test(bookkeeping, of_a_long_path_the_end_is_told)
{
    char path[1000];
    const char *const paths[] = {path};
    struct wire_path_seen state = file_of("new", 0);
    struct compile c;
    struct ask call = compile_of(&c, "k.cu");
    memset(path, 'x', sizeof path);
    memcpy(path + sizeof path - 8, "/last.h", 8);
    *path = '/';
    struct manifest *m = manifest_of(paths, 1, false);
    bookkeeping_headers(&call, m, &state);
    cr_assert_eq(c.n_changed, 1u);
    size_t len = strlen(c.changed[0].part);
    cr_expect_eq(len, sizeof c.changed[0].part - 1);
    cr_expect_str_eq(c.changed[0].part + len - 9, "xx/last.h");
    cr_expect_eq(memcmp(c.changed[0].part, "header xx", 9), 0);
    manifest_unref(m);
}

Test(bookkeeping, two_names_of_one_file_that_are_two_files_now_are_a_change)
{
    static const char *const paths[] = {"/a.h", "/b.h"};
    struct wire_path_seen apart[] = {file_of("old", 0), file_of("old", 1)},
                          linked[] = {file_of("old", 0), file_of("old", 0)};
    struct compile c;
    struct ask call = compile_of(&c, "k.cu");
    struct manifest *m = manifest_of(paths, 2, true);
    bookkeeping_headers(&call, m, apart);
    cr_assert_eq(c.n_changed, 1u);
    cr_expect_str_eq(c.changed[0].part, "header /b.h");
    cr_expect_str_eq(c.changed[0].old, "one file with another header");
    cr_expect_str_eq(c.changed[0].now, "a file of its own");
    manifest_unref(m);
    m = manifest_of(paths, 2, false);
    bookkeeping_headers(&call, m, linked);
    cr_assert_eq(c.n_changed, 1u);
    cr_expect_str_eq(c.changed[0].old, "a file of its own");
    cr_expect_str_eq(c.changed[0].now, "one file with another header");
    bookkeeping_headers(&call, m, apart);
    cr_expect_eq(c.n_changed, 0u, "nothing differs");
    manifest_unref(m);
}
