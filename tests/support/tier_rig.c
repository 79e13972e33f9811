/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier_rig.c - runs a service whose tier is the test. The suites of tier_fetch, tier_send and tier_lease call it.
 *
 * Thread: the test's own.
 */
#include "tests/support/tier_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/wire/memfd.h"
#include "daemon/process/log.h"
#include "store/clock.h"
#include "tests/support/support.h"

#define SETTINGS_MAX 32

void tier_rig_step(void *rig)
{
    struct tier_rig *r = rig;
    uv_run(&r->base.loop, UV_RUN_NOWAIT);
    store_turn_end(r->base.store);
    usleep(1000);
}

static void write_key(const struct tier_rig *r, const char *path)
{
    char text[KEY_TEXT_MAX];
    signing_write(&r->key, text);
    file_write(path, text, strlen(text));
    cr_assert_eq(chmod(path, 0600), 0);
}

void tier_rig_accept(struct tier_rig *r)
{
    fake_helper_accept(&r->helper);
    fake_helper_answer(&r->helper, &(struct tier_answer){.outcome = TIER_OK}, (struct view){0}, -1);
}

void tier_rig_up(struct tier_rig *r, const char *const *settings)
{
    *r = (struct tier_rig){.peer = {.uid = geteuid(), .space = geteuid()}};
    log_set_level(LOG_LEVEL_ERROR);
    fake_helper_up(&r->helper, tier_rig_step, r);
    char *key_file = path_join(r->helper.dir, "key");
    const char *all[SETTINGS_MAX] = {"tier",     "redis://tier", "tier_socket",   r->helper.path,
                                     "tier_key", key_file,       "tier_min_cost", "0"};
    for (size_t n = 8; settings && *settings; settings++) {
        cr_assert_lt(n + 1, SETTINGS_MAX);
        all[n++] = *settings;
    }
    cr_assert(signing_init());
    cr_assert_eq(signing_make("node-1", &r->key, NULL), 0);
    write_key(r, key_file);
    service_rig_up_with(&r->base, all);
    free(key_file);
    r->service = r->base.service;
    r->tier = r->service->tier;
    cr_assert_not_null(r->tier);
    tier_rig_accept(r);
    TIER_RIG_AWAIT(r, r->tier->was_ready);
}

void tier_rig_down(struct tier_rig *r)
{
    cr_expect_not(fake_helper_is_asked(&r->helper), "a request that nobody expected");
    service_rig_down(&r->base);
    fake_helper_down(&r->helper);
}

uint64_t tier_rig_count(const struct tier_rig *r, enum stats_counter what)
{
    uint64_t n = 0;
    for (unsigned kind = 0; kind < STATS_KINDS; kind++)
        n += r->service->stats.now[what][kind];
    return n;
}

/* ---- askers ---- */

static void on_answer(struct ask *ask, const struct answer *a)
{
    struct tier_call *c = (struct tier_call *)ask;
    cr_assert_not(c->ended, "answered after the last answer: %s", c->seen);
    c->ended = service_rig_note(c->seen, sizeof c->seen, a->kind);
    if (a->kind != ANSWER_VALUE)
        return;
    const uint8_t *data = a->artifact ? a->artifact->data : a->value->data;
    c->len = a->artifact ? a->artifact->len : a->value->row.len;
    if (data && c->len < sizeof c->value)
        memcpy(c->value, data, (size_t)c->len);
}

/* Looks first, as the wires do: a value may have come to disk a moment ago. */
void tier_rig_ask(struct tier_rig *r, struct tier_call *c, enum ask_mode mode, const char *name)
{
    struct store_value v;
    struct err e;
    *c = (struct tier_call){
        .ask = {.service = r->service, .peer = &r->peer, .on_answer = on_answer}};
    snprintf(c->name, sizeof c->name, "%s", name);
    struct question q = {.space = WIRE_SPACE_NAME,
                         .key = view_of_text(c->name),
                         .mode = mode,
                         .wait_ms = 60000,
                         .why = &e};
    if (service_get(r->service, &r->peer, &q, &v, &e) == 0)
        on_answer(&c->ask, &(struct answer){.kind = ANSWER_VALUE, .value = &v});
    else
        service_ask(&c->ask, &q);
    store_turn_end(r->base.store);
}

void tier_rig_until(struct tier_rig *r, const struct tier_call *c, const char *seen)
{
    for (int i = 0; strcmp(c->seen, seen) != 0; i++) {
        cr_assert_lt(i, FAKE_HELPER_STEPS_MAX, "its answers are %s, not %s", c->seen, seen);
        tier_rig_step(r);
    }
}

void tier_rig_leave(struct tier_call *c)
{
    if (!c->ended)
        ask_drop(&c->ask, false);
    c->ended = true;
}

/* ---- values ---- */

void tier_rig_put(struct tier_rig *r, const char *name, struct view value, uint32_t cost_ms)
{
    struct service_put put = {.name = view_of_text(name),
                              .kind = STORE_OTHER,
                              .data = value.data,
                              .len = value.len,
                              .fd = -1,
                              .cost_ms = cost_ms};
    cr_assert_eq(service_rig_put(&r->base, &r->peer, put), 0);
    store_turn_end(r->base.store);
}

struct store_id tier_rig_id(const struct tier_rig *r, const char *name)
{
    return service_name_id(&r->peer, view_of_text(name));
}

bool tier_rig_has(struct tier_rig *r, const char *name, const char *value)
{
    struct store_value v;
    struct store_id id = tier_rig_id(r, name);
    bool has = store_look(r->base.store, &id, &v, NULL) == 0 && v.data &&
               v.row.len == strlen(value) && memcmp(v.data, value, strlen(value)) == 0;
    store_turn_end(r->base.store);
    return has;
}

uint32_t tier_rig_marks(struct tier_rig *r, const char *name)
{
    struct store_row row;
    struct store_id id = tier_rig_id(r, name);
    cr_assert_eq(store_peek(r->base.store, &id, &row, NULL), 0, "%s is not stored", name);
    uint32_t marks = row.tier;
    store_turn_end(r->base.store);
    return marks;
}

/* ---- the tier's side ---- */

void tier_rig_entry(const char *name, struct view value, struct tier_entry *out)
{
    struct proof proof = proof_of_bytes(name, strlen(name));
    *out = (struct tier_entry){.kind = STORE_OTHER,
                               .key = key_of_bytes(name, strlen(name)),
                               .proof_hash = proof_of_bytes(proof.bytes, sizeof proof.bytes),
                               .len = value.len,
                               .check = key_of_bytes(value.data, value.len),
                               .content = proof_of_bytes(value.data, value.len),
                               .created_ms = clock_wall_ms(),
                               .space = view_of_text("user"),
                               .is_inline = value.len <= ENTRY_INLINE_MAX,
                               .value = value};
}

struct tier_ask tier_rig_take(struct tier_rig *r, enum tier_operation operation)
{
    struct tier_ask ask = fake_helper_take(&r->helper, NULL);
    cr_assert_eq(ask.operation, operation, "operation %u of %s", ask.operation, ask.name);
    return ask;
}

struct tier_ask tier_rig_take_sent(struct tier_rig *r, enum tier_operation operation,
                                   uint8_t **out_bytes)
{
    int fd;
    struct tier_ask ask = fake_helper_take(&r->helper, &fd);
    cr_assert_eq(ask.operation, operation, "operation %u of %s", ask.operation, ask.name);
    cr_assert(fd >= 0, "no descriptor");
    *out_bytes = malloc(ask.length);
    cr_assert_eq(pread(fd, *out_bytes, ask.length, 0), (ssize_t)ask.length);
    close(fd);
    struct proof sum = proof_of_bytes(*out_bytes, ask.length);
    cr_expect_eq(memcmp(sum.bytes, ask.sha256, sizeof sum.bytes), 0, "its SHA-256");
    return ask;
}

void tier_rig_answer(struct tier_rig *r, const struct tier_ask *ask, enum tier_outcome outcome)
{
    struct tier_answer a = {.id = ask->id, .outcome = outcome};
    snprintf(a.said, sizeof a.said, "outcome %d", (int)outcome);
    fake_helper_answer(&r->helper, &a, (struct view){0}, -1);
}

void tier_rig_answer_bytes(struct tier_rig *r, const struct tier_ask *ask, struct view bytes)
{
    struct tier_answer a = {.id = ask->id, .outcome = TIER_OK, .length = bytes.len};
    fake_helper_answer(&r->helper, &a, bytes, -1);
}

void tier_rig_answer_entry(struct tier_rig *r, const struct tier_ask *ask,
                           const struct tier_entry *entry, const struct signing_key *key)
{
    struct writer w;
    writer_init(&w, 0);
    entry_write(entry, key, &w);
    tier_rig_answer_bytes(r, ask, (struct view){w.data, w.len});
    writer_close(&w);
}

void tier_rig_answer_value(struct tier_rig *r, const struct tier_ask *ask, struct view value)
{
    struct err e = {0};
    struct tier_answer a = {.id = ask->id, .outcome = TIER_OK, .length = value.len};
    int fd = memfd_sealed("value", value.data, value.len, &e);
    cr_assert(fd >= 0, "%s", e.text);
    fake_helper_answer(&r->helper, &a, (struct view){0}, fd);
    close(fd);
}

void tier_rig_expect_entry_of(const struct tier_ask *ask, const char *name)
{
    char want[ENTRY_NAME];
    struct key key = key_of_bytes(name, strlen(name));
    struct proof proof = proof_of_bytes(name, strlen(name));
    entry_name(view_of_text("user"), &key, &proof, want);
    cr_assert_str_eq(ask->name, want, "not the entry of %s", name);
}
