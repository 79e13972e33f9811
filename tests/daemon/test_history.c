/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_history.c - the history by itself: sessions and misses, their bounds, and the file that keeps them
 * over a restart. tests/cli/test_why.c sees it through a daemon.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/history/history.h"
#include "daemon/history/recipe.h"
#include "tests/support/recipe.h"
#include "tests/support/support.h"

static struct store_id id_of(const char *name)
{
    return (struct store_id){7, key_of_bytes(name, strlen(name))};
}

static uint64_t miss(struct history *h, const char *name, uint32_t session, uint64_t at_ms)
{
    return history_miss(
        h,
        &(struct history_ask){
            .id = id_of(name), .uid = 7, .session = session, .name = view_of_text(name)},
        at_ms);
}

/* The JSON of a key's misses; "" if there are none. */
static char *json_of(struct history *h, enum wire_history_of of, const char *id)
{
    static char out[65536];
    struct writer w;
    writer_init(&w, sizeof out - 1);
    *out = '\0';
    if (history_write_json(h,
                           &(struct history_query){.of = of,
                                                   .id = view_of_text(id),
                                                   .uid = -1,
                                                   .asker = 7,
                                                   .max_bytes = sizeof out / 2},
                           &w))
        snprintf(out, sizeof out, "%.*s", (int)w.len, (const char *)w.data);
    writer_close(&w);
    return out;
}

static void expect_json(struct history *h, enum wire_history_of of, const char *id,
                        const char *part)
{
    char *json = json_of(h, of, id);
    cr_assert_not_null(strstr(json, part), "no %s in %s", part, json);
}

static void remember(struct history *h, const char *name, uint32_t session, const struct writer *w)
{
    history_remember(h, &(struct history_made){.id = id_of(name), .uid = 7, .session = session},
                     (struct view){w->data, w->len}, 1000);
}

Test(history, sessions_are_counted_apart)
{
    struct history *h = history_new(NULL);
    uint32_t a = history_join(h, 7, view_of_text("a"), 1),
             b = history_join(h, 7, view_of_text("b"), 2);
    cr_assert(a && b && a != b);
    cr_assert_eq(history_join(h, 7, view_of_text("a"), 3), a);
    cr_assert_eq(history_join(h, 7, view_of_text("not/an id"), 3), HISTORY_NO_SESSION);
    cr_assert_neq(history_join(h, 8, view_of_text("a"), 3), a, "another user's");
    history_count(h, a, HISTORY_hits, 2, 4);
    history_count(h, b, HISTORY_hits, 5, 5);
    miss(h, "x", a, 6);
    miss(h, "y", b, 7);
    expect_json(h, WIRE_HISTORY_SESSION, "a", "\"hits\": 2");
    expect_json(h, WIRE_HISTORY_SESSION, "a", "\"name\": \"x\"");
    cr_assert_null(strstr(json_of(h, WIRE_HISTORY_SESSION, "a"), "\"name\": \"y\""));
    expect_json(h, WIRE_HISTORY_LAST, "", "\"id\": \"b\"");
    cr_assert_str_eq(json_of(h, WIRE_HISTORY_SESSION, "c"), "");
    history_free(h);
}

/* Sessions that asked for nothing, such as `warm run true`, push out none that did. */
Test(history, a_session_that_asked_nothing_gives_way_first)
{
    struct history *h = history_new(NULL);
    char name[32];
    history_join(h, 7, view_of_text("idle"), 1);
    cr_expect_str_eq(json_of(h, WIRE_HISTORY_LAST, ""), "", "it is not the last one that asked");
    uint32_t asked = history_join(h, 7, view_of_text("asked"), 1);
    history_count(h, asked, HISTORY_asked, 1, 2);
    history_leave(h, asked);
    for (unsigned i = 0; i < 2 * HISTORY_SESSIONS; i++) {
        snprintf(name, sizeof name, "s%u", i);
        uint32_t idle = history_join(h, 7, view_of_text(name), 3 + i);
        history_started(h, idle, view_of_text("first"));
        history_started(h, idle, view_of_text("inner"));
        history_leave(h, idle);
    }
    expect_json(h, WIRE_HISTORY_SESSION, "asked", "\"asked\": 1");
    expect_json(h, WIRE_HISTORY_LAST, "", "\"id\": \"asked\"");
    expect_json(h, WIRE_HISTORY_SESSION, "s509", "\"command\": \"first\"");
    history_free(h);
}

Test(history, reason_of_a_miss_is_what_its_own_session_notes)
{
    struct history *h = history_new(NULL);
    uint32_t a = history_join(h, 7, view_of_text("a"), 1),
             b = history_join(h, 7, view_of_text("b"), 2);
    miss(h, "x", a, 3);
    miss(h, "x", b, 4);
    history_note(h, 7, a, WIRE_REASON_UNCACHEABLE, view_of_text("x"), view_of_text("the clock"), 5);
    expect_json(h, WIRE_HISTORY_SESSION, "a",
                "\"reason\": \"uncacheable\", \"text\": \"the clock\"");
    cr_expect_null(strstr(json_of(h, WIRE_HISTORY_SESSION, "a"), "cold"));
    expect_json(h, WIRE_HISTORY_SESSION, "b", "\"reason\": \"cold\"");
    history_note(h, 7, b, WIRE_REASON_UNCACHEABLE, view_of_text("y"), view_of_text("the clock"), 6);
    expect_json(h, WIRE_HISTORY_SESSION, "b", "\"reason\": \"cold\"");
    expect_json(h, WIRE_HISTORY_SESSION, "b", "\"label\": \"y\"");
    history_note(h, 8, HISTORY_NO_SESSION, WIRE_REASON_TIMEOUT, view_of_text("x"),
                 view_of_text("late"), 7);
    cr_expect_null(strstr(json_of(h, WIRE_HISTORY_SESSION, "b"), "late"), "another user's");
    history_free(h);
}

Test(history, sessions_and_misses_are_bounded)
{
    struct history *h = history_new(NULL);
    char name[32];
    uint32_t held = history_join(h, 7, view_of_text("held"), 1);
    for (unsigned i = 0; i < 3 * HISTORY_SESSIONS; i++) {
        snprintf(name, sizeof name, "s%u", i);
        history_leave(h, history_join(h, 7, view_of_text(name), 2 + i));
    }
    cr_assert_eq(history_join(h, 7, view_of_text("held"), 9), held,
                 "who is connected keeps its session");
    for (unsigned i = 0; i < 3 * HISTORY_MISSES; i++) {
        snprintf(name, sizeof name, "m%u", i);
        miss(h, name, held, i + 1);
    }
    cr_assert_eq(history_find(h, &(struct store_id){7, key_of_bytes("m0", 2)}), 0);
    struct store_id last = id_of(name);
    cr_assert_neq(history_find(h, &last), 0);
    cr_assert_str_eq(json_of(h, WIRE_HISTORY_KEY, "m0"), "");
    history_free(h);
}

Test(history, recipes_are_bounded_in_bytes)
{
    struct history *h = history_new(NULL);
    struct writer w;
    writer_init(&w, 0);
    writer_text(&w, "label");
    writer_text(&w, "l");
    while (w.len < 8000) {
        writer_text(&w, "part");
        writer_text(&w, "0123456789012345678901234567890123456789");
    }
    char name[32];
    for (unsigned i = 0; i < 2 * HISTORY_KNOWN; i++) {
        snprintf(name, sizeof name, "k%u", i);
        remember(h, name, 0, &w);
    }
    uint64_t number = miss(h, name, 0, 2000);
    history_explain(h, number, (struct view){w.data, w.len});
    expect_json(h, WIRE_HISTORY_KEY, name, "made here before");
    number = miss(h, "k0", 0, 2000);
    history_explain(h, number, (struct view){w.data, w.len});
    expect_json(h, WIRE_HISTORY_KEY, "k0", "\"part\": \"input\"");
    writer_close(&w);
    history_free(h);
}

Test(history, sibling_of_the_same_session_is_no_older_version)
{
    struct history *h = history_new(NULL);
    struct writer w[3];
    recipe_make(&w[0], "sm_90", "k", "1");
    recipe_make(&w[1], "sm_90", "k", "2");
    recipe_make(&w[2], "sm_90", "k", "3");
    uint32_t now = history_join(h, 7, view_of_text("now"), 1),
             later = history_join(h, 7, view_of_text("later"), 2);
    remember(h, "one", now, &w[0]);
    uint64_t two = miss(h, "two", now, 2);
    history_explain(h, two, (struct view){w[1].data, w[1].len});
    expect_json(h, WIRE_HISTORY_KEY, "two", "\"reason\": \"cold\"");
    uint64_t three = miss(h, "three", later, 3);
    history_explain(h, three, (struct view){w[2].data, w[2].len});
    expect_json(h, WIRE_HISTORY_KEY, "three",
                "\"part\": \"source\", \"old\": \"1\", \"new\": \"3\"");
    struct store_id one = id_of("one");
    history_hit(h, later, &one);
    uint64_t four = miss(h, "four", later, 4);
    history_explain(h, four, (struct view){w[1].data, w[1].len});
    expect_json(h, WIRE_HISTORY_KEY, "four", "\"reason\": \"cold\"");
    for (int i = 0; i < 3; i++)
        writer_close(&w[i]);
    history_free(h);
}

/* A hit writes a changed set of inputs again, under the same name. */
Test(history, a_miss_stays_cold_if_what_it_made_is_put_again)
{
    struct history *h = history_new(NULL);
    struct writer w;
    recipe_make(&w, "sm_90", "k", "1");
    struct view recipe = {w.data, w.len};
    uint32_t now = history_join(h, 7, view_of_text("now"), 1);
    uint64_t first = miss(h, "one", now, 900);
    history_explain(h, first, recipe);
    remember(h, "one", now, &w); /* at 1000 */
    history_explain(h, first, recipe);
    expect_json(h, WIRE_HISTORY_KEY, "one", "\"reason\": \"cold\"");
    history_explain(h, miss(h, "one", now, 1100), recipe);
    expect_json(h, WIRE_HISTORY_KEY, "one", "made here before");
    writer_close(&w);
    history_free(h);
}

Test(history, other_users_misses_are_not_shown)
{
    struct history *h = history_new(NULL);
    struct writer w;
    miss(h, "x", 0, 1);
    writer_init(&w, 0);
    struct history_query q = {
        .of = WIRE_HISTORY_KEY, .id = view_of_text("x"), .uid = 8, .asker = 8, .max_bytes = 65536};
    cr_assert(!history_write_json(h, &q, &w) && w.len == 0);
    q.of = WIRE_HISTORY_LAST;
    cr_assert(!history_write_json(h, &q, &w));
    q.uid = q.asker = 7;
    cr_assert(history_write_json(h, &q, &w));
    writer_close(&w);
    history_free(h);
}

/* A history with one of each, written to `path`. */

/* ---- the file ---- */

static void write_history(const char *path)
{
    struct history *h = history_new(path);
    struct writer w;
    recipe_make(&w, "sm_90", "k", "1");
    remember(h, "made", 0, &w);
    history_left(h, &(struct store_departure){
                        .id = id_of("gone"), .cause = STORE_LEFT_FOR_ROOM, .at_ms = 86400000});
    uint64_t n = miss(h, "missed", 0, 1);
    history_change(h, n,
                   &(struct recipe_change){view_of_text("arch"), view_of_text("sm_80"),
                                           view_of_text("sm_90")});
    history_save(h);
    writer_close(&w);
    history_free(h);
}

Test(history, file_keeps_what_is_gone_what_was_made_and_what_was_missed)
{
    char *dir = temp_dir_new(), *path = path_join(dir, "history");
    struct writer w;
    write_history(path);
    struct history *h = history_new(path);
    expect_json(h, WIRE_HISTORY_KEY, "missed", "\"old\": \"sm_80\", \"new\": \"sm_90\"");
    miss(h, "gone", 0, 2);
    expect_json(h, WIRE_HISTORY_KEY, "gone", "1970-01-02T00:00:00Z: evicted, to stay below");
    recipe_make(&w, "sm_80", "k", "1");
    history_explain(h, miss(h, "next", 0, 3), (struct view){w.data, w.len});
    expect_json(h, WIRE_HISTORY_KEY, "next", "\"part\": \"hardware\"");
    writer_close(&w);
    history_free(h);
    free(path);
    temp_dir_free(dir);
}

Test(history, damaged_file_is_as_good_as_none)
{
    char *dir = temp_dir_new(), *path = path_join(dir, "history");
    size_t len;
    write_history(path);
    char *bytes = file_read(path, &len);
    for (size_t i = 0; i <= len; i += 7) {
        char *copy = malloc(len);
        memcpy(copy, bytes, len);
        if (i < len)
            copy[i] ^= 0x20;
        file_write(path, copy, i < len ? len : len - 1);
        struct history *h = history_new(path);
        cr_assert_str_eq(json_of(h, WIRE_HISTORY_KEY, "missed"), "", "byte %zu", i);
        history_free(h);
        free(copy);
    }
    free(bytes);
    free(path);
    temp_dir_free(dir);
}

Test(history, file_of_another_version_is_as_good_as_none)
{
    char *dir = temp_dir_new(), *path = path_join(dir, "history");
    size_t len;
    write_history(path);
    char *bytes = file_read(path, &len);
    bytes[4]++; /* the version */
    struct key seal = key_of_bytes(bytes, len - sizeof seal);
    memcpy(bytes + len - sizeof seal, &seal, sizeof seal);
    file_write(path, bytes, len);
    struct history *h = history_new(path);
    cr_assert_str_eq(json_of(h, WIRE_HISTORY_KEY, "missed"), "");
    history_free(h);
    bytes[4]--;
    seal = key_of_bytes(bytes, len - sizeof seal);
    memcpy(bytes + len - sizeof seal, &seal, sizeof seal);
    file_write(path, bytes, len);
    h = history_new(path);
    expect_json(h, WIRE_HISTORY_KEY, "missed", "\"old\": \"sm_80\"");
    history_free(h);
    free(bytes);
    free(path);
    temp_dir_free(dir);
}

Test(history, file_cut_anywhere_is_as_good_as_none)
{
    char *dir = temp_dir_new(), *path = path_join(dir, "history");
    size_t len;
    write_history(path);
    char *bytes = file_read(path, &len);
    for (size_t cut = 0; cut < len; cut++) {
        file_write(path, bytes, cut);
        struct history *h = history_new(path);
        cr_assert_str_eq(json_of(h, WIRE_HISTORY_KEY, "missed"), "", "cut at %zu", cut);
        history_free(h);
    }
    free(bytes);
    free(path);
    temp_dir_free(dir);
}

Test(history, file_is_the_owners_alone)
{
    char *dir = temp_dir_new(), *path = path_join(dir, "history");
    struct stat st;
    write_history(path);
    cr_assert_eq(stat(path, &st), 0);
    cr_assert_eq(st.st_mode & 0777, 0600u);
    free(path);
    temp_dir_free(dir);
}

Test(history, folder_that_is_gone_loses_the_file_and_nothing_else)
{
    char *dir = temp_dir_new(), *missing = path_join(dir, "missing"),
         *path = path_join(missing, "history");
    struct history *h = history_new(path);
    miss(h, "missed", 0, 1);
    history_save(h);
    expect_json(h, WIRE_HISTORY_KEY, "missed", "missed");
    history_free(h);
    free(path);
    free(missing);
    temp_dir_free(dir);
}

/* ---- events ---- */

static void hit(struct history *h, uint32_t session, uint64_t made_ms, uint32_t cost_ms)
{
    history_event(h, &(struct history_event){.what = HISTORY_HIT,
                                             .session = session,
                                             .at_us = 90000000,
                                             .made_ms = made_ms,
                                             .cost_ms = cost_ms,
                                             .label = {"l", 1}});
}

Test(history, time_of_entries_that_were_made_together_counts_once)
{
    struct history *h = history_new(NULL);
    uint32_t a = history_join(h, 7, view_of_text("a"), 1),
             b = history_join(h, 7, view_of_text("b"), 1);
    hit(h, a, 30000, 20000); /* a graph, from 10 s to 30 s */
    hit(h, a, 15000, 3000);  /* its kernels */
    hit(h, a, 29000, 9000);
    hit(h, a, 45000, 5000);  /* another graph */
    hit(h, a, 46000, 4000);  /* began with it, and ended later */
    hit(h, b, 80000, 70000); /* another session's */
    expect_json(h, WIRE_HISTORY_SESSION, "a", "\"gained_ms\": 26000");
    history_free(h);
}

Test(history, events_come_in_pages_and_the_oldest_give_way)
{
    struct history *h = history_new(NULL);
    uint32_t a = history_join(h, 7, view_of_text("a"), 1);
    for (unsigned i = 0; i < HISTORY_EVENTS + 5; i++)
        hit(h, a, 1000, 1);
    unsigned seen = 0;
    for (uint32_t next = 0, first = 1; next || first; first = 0) {
        struct writer w;
        writer_init(&w, 0);
        cr_assert(history_write_json(h,
                                     &(struct history_query){.of = WIRE_HISTORY_EVENTS,
                                                             .max_misses = next,
                                                             .uid = -1,
                                                             .asker = 7,
                                                             .max_bytes = 100000},
                                     &w));
        cr_assert_leq(w.len, 100000 + 100);
        writer_u8(&w, 0);
        for (const char *at = (const char *)w.data; (at = strstr(at, "\"at_us\"")); at++)
            seen++;
        next = (uint32_t)strtoul(strstr((const char *)w.data, "\"next\": ") + 8, NULL, 10);
        writer_close(&w);
    }
    cr_assert_eq(seen, HISTORY_EVENTS);
    expect_json(h, WIRE_HISTORY_SESSION, "a", "\"n_events\": 8197,");
    history_free(h);
}

Test(history, put_of_a_client_completes_the_event_of_its_miss)
{
    struct history *h = history_new(NULL);
    uint32_t a = history_join(h, 7, view_of_text("a"), 1);
    uint64_t m = miss(h, "x", a, 5), gone = miss(h, "y", a, 6);
    history_event(
        h, &(struct history_event){.what = HISTORY_LEASED, .session = a, .at_us = 1000, .miss = m});
    history_event(h, &(struct history_event){
                         .what = HISTORY_MISSED, .session = a, .at_us = 2000, .miss = gone});
    history_event_made(
        h, m,
        &(struct history_event){.kind = STORE_TRITON, .at_us = 5000, .cost_ms = 3, .bytes = 9});
    expect_json(h, WIRE_HISTORY_EVENTS, "a", "\"us\": 4000, \"pid\": 0, \"what\": \"make\"");
    expect_json(h, WIRE_HISTORY_EVENTS, "a", "\"kind\": \"triton\"");
    history_forget(h, a, gone);
    cr_assert_null(strstr(json_of(h, WIRE_HISTORY_EVENTS, "a"), "\"what\": \"miss\""));
    history_free(h);
}

/* One user asks ten times what all tables hold; another has asked little before. */
Test(history, a_flood_of_one_user_leaves_the_misses_and_events_of_others)
{
    struct history *h = history_new(NULL);
    uint32_t mine = history_join(h, 7, view_of_text("mine"), 1);
    uint32_t flood = history_join(h, 8, view_of_text("flood"), 1);
    char name[32];
    for (unsigned i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "mine%u", i);
        miss(h, name, mine, i + 1);
        hit(h, mine, 1000, 1);
    }
    struct history_ask ask = {.uid = 8, .session = flood};
    for (unsigned i = 0; i < 10 * HISTORY_EVENTS; i++) {
        snprintf(name, sizeof name, "flood%u", i);
        ask.id = (struct store_id){8, key_of_bytes(name, strlen(name))};
        ask.name = view_of_text(name);
        history_miss(h, &ask, i + 1000);
        hit(h, flood, 1000, 1);
    }
    unsigned misses = 0, events = 0;
    const char *json = json_of(h, WIRE_HISTORY_SESSION, "mine");
    for (const char *at = json; (at = strstr(at, "\"time_ms\"")); at++)
        misses++;
    json = json_of(h, WIRE_HISTORY_EVENTS, "mine");
    for (const char *at = json; (at = strstr(at, "\"at_us\"")); at++)
        events++;
    cr_expect_eq(misses, 100, "%u", misses);
    cr_expect_eq(events, 100, "%u", events);
    history_free(h);
}

/* ---- what sessions used ---- */

static void use(struct history *h, uint32_t session, unsigned from, unsigned to)
{
    char name[32];
    for (unsigned i = from; i < to; i++) {
        snprintf(name, sizeof name, "%u", i);
        struct store_id id = id_of(name);
        history_used(h, session, &id);
    }
}

static uint32_t session_of(struct history *h, uint32_t uid, const char *id, uint64_t now_ms)
{
    uint32_t session = history_join(h, uid, view_of_text(id), now_ms);
    cr_assert_neq(session, HISTORY_NO_SESSION);
    history_count(h, session, HISTORY_asked, 1, now_ms);
    return session;
}

Test(history, entries_of_a_session_are_known_once_in_order_and_after_a_restart)
{
    char *dir = temp_dir_new(), *path = path_join(dir, "history"), want[256], keys[2][33];
    struct history *h = history_new(path);
    struct store_id a = id_of("a"), b = id_of("b");
    uint32_t session = session_of(h, 7, "s", 5);
    history_started(h, session, view_of_text("prog --x"));
    key_to_text(&a.key, keys[0]), key_to_text(&b.key, keys[1]);
    snprintf(want, sizeof want, "\"used\": [\"%s\", \"%s\"], \"lost\": 0", keys[1], keys[0]);
    history_used(h, session, &b), history_used(h, session, &a), history_used(h, session, &b);
    history_used(h, HISTORY_NO_SESSION, &b);
    for (int restarts = 0; restarts < 3; restarts++) {
        expect_json(h, WIRE_HISTORY_USED, restarts == 2 ? "" : "s", want);
        history_save(h);
        history_free(h);
        h = history_new(path);
    }
    session_of(h, 7, "s", 6);
    expect_json(h, WIRE_HISTORY_USED, "s", want);
    expect_json(h, WIRE_HISTORY_SESSION, "s", "\"asked\": 2");
    expect_json(h, WIRE_HISTORY_SESSION, "s", "\"command\": \"prog --x\"");
    history_free(h);
    free(path);
    temp_dir_free(dir);
}

Test(history, a_daemon_that_was_killed_says_that_entries_may_be_missing)
{
    char *dir = temp_dir_new(), *path = path_join(dir, "history");
    struct history *h = history_new(path);
    use(h, session_of(h, 7, "s", 1), 0, 2);
    history_save(h);
    use(h, session_of(h, 7, "s", 1), 2, 4);
    history_free(h); /* without writing it */
    h = history_new(path);
    expect_json(h, WIRE_HISTORY_USED, "s", "\"lost\": 1");
    history_free(h);
    free(path);
    temp_dir_free(dir);
}

Test(history, the_user_with_the_most_entries_gives_way_and_is_told)
{
    enum { STEP = HISTORY_USED_MAX / 4 };
    struct history *h = history_new(NULL);
    uint32_t mine = session_of(h, 7, "mine", 1);
    use(h, mine, 0, 100);
    for (unsigned i = 0; i < 5; i++) {
        char id[8];
        snprintf(id, sizeof id, "flood%u", i);
        use(h, session_of(h, 8, id, 2 + i), i * STEP, (i + 1) * STEP);
    }
    expect_json(h, WIRE_HISTORY_USED, "mine", "\"lost\": 0");
    expect_json(h, WIRE_HISTORY_USED, "flood0", "\"used\": [], \"lost\": 131072");
    expect_json(h, WIRE_HISTORY_USED, "flood4", "\"lost\": 0");
    history_free(h);
}

Test(history, a_damaged_file_of_a_session_is_no_session)
{
    char *dir = temp_dir_new(), *path = path_join(dir, "history"), *out;
    struct history *h = history_new(path);
    use(h, session_of(h, 7, "s", 1), 0, 9);
    history_save(h);
    history_free(h);
    cr_assert_eq(run_command(&out, "for f in %s.sessions/*; do truncate -s -1 $f; done", path), 0);
    free(out);
    h = history_new(path);
    cr_expect_str_eq(json_of(h, WIRE_HISTORY_USED, "s"), "");
    history_free(h);
    free(path);
    temp_dir_free(dir);
}
