/* SPDX-License-Identifier: Apache-2.0 */
/* test_wire.c - the native protocol's bytes: golden frames, each truncation, each changed byte. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "store/store.h"
#include "tests/support/wire_any.h"

static struct key some_key(uint8_t first)
{
    struct key key;
    for (size_t i = 0; i < sizeof key.bytes; i++)
        key.bytes[i] = (uint8_t)(first + i);
    return key;
}

static struct proof some_proof(uint8_t first)
{
    struct proof proof;
    for (size_t i = 0; i < sizeof proof.bytes; i++)
        proof.bytes[i] = (uint8_t)(first + i);
    return proof;
}

static const struct wire_filter some_filter = {.uid = -1,
                                               .kind = 1,
                                               .pinned = -1,
                                               .min_bytes = 10,
                                               .max_bytes = 1ull << 40,
                                               .min_age_ms = 7,
                                               .min_idle_ms = 8,
                                               .min_hits = 2,
                                               .max_hits = UINT32_MAX,
                                               .hardware = {"sm_90", 5},
                                               .compiler = {"13.5", 4},
                                               .text = {"mlp", 3}};

/* One frame of each message, with no field left at zero that can be otherwise. */
static void put_requests(struct writer *w)
{
    struct writer keys;
    writer_init(&keys, 0);
    struct key address = some_key(0x60);
    wire_keys_add(&keys, WIRE_SPACE_NAME, "a-name", 6);
    wire_keys_add(&keys, WIRE_SPACE_KEY, address.bytes, sizeof address.bytes);
    struct view list = {keys.data, keys.len};

    wire_put_hello(w, 1, &(struct wire_hello){1, 2, 0x40, view_of_text("warm 0.1.0")});
    wire_put_get(w, 2,
                 &(struct wire_get){WIRE_SPACE_NAME, true, 4500, view_of_text("a-name"), true,
                                    some_proof(0x20)});
    wire_put_mget(w, 3, &(struct wire_mget){true, 10, 2, list});
    wire_put_put(w, 4,
                 &(struct wire_put){.space = WIRE_SPACE_NAME,
                                    .kind = WIRE_KIND_BACKWARD,
                                    .keep_existing = true,
                                    .token = 77,
                                    .cost_ms = 1234,
                                    .ttl_ms = 60000,
                                    .len = 5,
                                    .check = some_key(1),
                                    .group = some_key(2),
                                    .key = view_of_text("a-name"),
                                    .hardware = view_of_text("sm_90"),
                                    .compiler = view_of_text("torch 2.13"),
                                    .label = view_of_text("step"),
                                    .value = view_of_text("value")});
    wire_put_put(
        w, 5,
        &(struct wire_put){.space = WIRE_SPACE_NAME, .len = 1 << 20, .key = view_of_text("big")});
    wire_put_release(w, 6, &(struct wire_release){77});
    wire_put_renew(w, 24, &(struct wire_release){78});
    wire_put_compile(w, 7,
                     &(struct wire_compile){WIRE_COMPILE_NO_STORE, 9000, 1, some_key(3),
                                            some_proof(0x40), view_of_text("sm_90a"),
                                            view_of_text("12.9"), view_of_text("k.cu")});
    wire_put_source(w, 8, &(struct wire_source){view_of_text("WJOB..."), 7});
    wire_put_source(w, 9, &(struct wire_source){{"", 0}, 1 << 20});
    wire_put_checked(w, 10, &(struct wire_checked){3, 3, {"\0\0\2", 3}});
    wire_put_checked(w, 11, &(struct wire_checked){3000, 70000, {"", 0}});
    wire_put_empty(w, WIRE_CANCEL, 12);
    wire_put_damaged(w, 13, &(struct wire_damaged){some_key(5), some_key(6)});
    struct wire_list want = {some_filter, {9, 8, 7}, 100};
    wire_put_list(w, 14, &want);
    wire_put_show(w, 15, &(struct wire_show){WIRE_SPACE_KEY, {address.bytes, 16}});
    wire_put_empty(w, WIRE_STATS, 16);
    wire_put_empty(w, WIRE_INFO, 17);
    wire_put_remove(w, 18, &(struct wire_remove){2, list});
    wire_put_evict(w, 19, &(struct wire_evict){some_filter, 1 << 30, true});
    wire_put_pin(w, 20, &(struct wire_pin){true, 2, list});
    wire_put_verify(w, 21, &(struct wire_verify){500});
    wire_put_push(w, 22, &(struct wire_remove){2, list});
    wire_put_closure(w, 23, &(struct wire_remove){2, list});
    writer_close(&keys);
}

static void put_answers(struct writer *w)
{
    struct writer paths;
    writer_init(&paths, 0);
    wire_paths_add(&paths, "a.h", 3);
    wire_paths_add(&paths, "/b/c.cuh", 8);

    wire_put_welcome(w, 1, &(struct wire_welcome){1, 0x40, 1000, view_of_text("warmd 0.1.0")});
    struct wire_hit hit = {.outcome = WIRE_WAS_COALESCED,
                           .kind = WIRE_KIND_CUBIN,
                           .key = some_key(7),
                           .check = some_key(8),
                           .cost_ms = 512,
                           .len = 5,
                           .value = view_of_text("cubin")};
    wire_put_hit(w, 2, &hit);
    wire_put_failed(w, 3, &hit);
    hit.value.len = 0;
    wire_put_hit(w, 4, &hit);
    wire_put_empty(w, WIRE_MISS, 5);
    wire_put_lease(w, 6, &(struct wire_lease){99, 30000});
    wire_put_wait(w, 7, &(struct wire_wait){63, 250});
    wire_put_need(w, 8, &(struct wire_need){256u << 20});
    wire_put_check(w, 9, &(struct wire_check){2, paths.len, {paths.data, paths.len}});
    wire_put_ok(w, 10, &(struct wire_ok){true, some_key(9)});
    wire_put_error(w, 11, &(struct wire_error){19, view_of_text("refused: reads the clock")});
    struct wire_row row = {.key = some_key(10),
                           .owner = 0xfffffffe,
                           .maker = 1000,
                           .kind = 1,
                           .pinned = true,
                           .is_blob = true,
                           .len = 1 << 20,
                           .created_ms = 1700000000000,
                           .accessed_ms = 1700000000001,
                           .expires_ms = 1700000000002,
                           .cost_ms = 3,
                           .hits = 4,
                           .check = some_key(11),
                           .compiler = some_key(12),
                           .graph = some_key(13),
                           .group = some_key(14),
                           .proof = some_proof(15),
                           .content = some_proof(16),
                           .hardware = view_of_text("sm_80"),
                           .compiler_text = view_of_text("NVRTC 13.5"),
                           .name = view_of_text("n"),
                           .label = view_of_text("l"),
                           .tier = 2,
                           .signer = view_of_text("ci-1")};
    wire_put_row(w, 12, &row);
    wire_put_end(w, 13, &(struct wire_end){true, {1, 2, 3}});
    wire_put_text(w, 14, &(struct wire_text){view_of_text("{\"hits\":1}")});
    wire_put_report(w, 15, &(struct wire_report){3, 4, 5});
    wire_put_progress(w, 16, &(struct wire_progress){6, 7});
    writer_close(&paths);
}

static struct writer all_frames(void)
{
    struct writer w;
    writer_init(&w, 0);
    put_requests(&w);
    put_answers(&w);
    cr_assert(!w.failed);
    return w;
}

static void expect_hex(const struct writer *w, const char *hex)
{
    struct writer seen;
    writer_init(&seen, 0);
    for (size_t i = 0; i < w->len; i++)
        writer_format(&seen, "%02x", w->data[i]);
    cr_assert_eq(seen.len, strlen(hex), "%.*s", (int)seen.len, (char *)seen.data);
    cr_assert(memcmp(seen.data, hex, seen.len) == 0, "%.*s", (int)seen.len, (char *)seen.data);
    writer_close(&seen);
}

/* The worked example of PROTOCOL.md. */
Test(wire, hello_and_get_are_the_golden_bytes)
{
    struct writer w;
    writer_init(&w, 0);
    wire_put_hello(&w, 0, &(struct wire_hello){1, 1, 0, view_of_text("warm 0.1.0")});
    wire_put_get(&w, 1, &(struct wire_get){.space = WIRE_SPACE_NAME, .key = view_of_text("abc")});
    expect_hex(&w, "a701000016000000"
                   "0000000000000000"
                   "01000100"
                   "00000000"
                   "0a000000"
                   "7761726d20302e312e30"
                   "a70200002e000000"
                   "0100000000000000"
                   "00"
                   "00"
                   "00"
                   "00000000"
                   "0000000000000000000000000000000000000000000000000000000000000000"
                   "03000000"
                   "616263");
    writer_close(&w);
}

Test(wire, hit_is_the_golden_bytes)
{
    struct writer w;
    writer_init(&w, 0);
    struct wire_hit hit = {.outcome = WIRE_WAS_HIT,
                           .kind = WIRE_KIND_OTHER,
                           .key = some_key(0x10),
                           .check = key_of_bytes("value", 5),
                           .cost_ms = 7,
                           .len = 5,
                           .value = view_of_text("value")};
    wire_put_hit(&w, 1, &hit);
    expect_hex(&w, "a782000037000000"
                   "0100000000000000"
                   "00"
                   "00"
                   "07000000"
                   "0500000000000000"
                   "101112131415161718191a1b1c1d1e1f"
                   "d7ab8cce59abd5050d59506fb013961a"
                   "05000000"
                   "76616c7565");
    writer_close(&w);
}

/* Any change to any message changes this: then the version must change too. */
Test(wire, all_messages_are_the_golden_bytes)
{
    struct writer w = all_frames();
    char digest[WARM_KEY_TEXT];
    struct key key = key_of_bytes(w.data, w.len);
    key_to_text(&key, digest);
    cr_assert_str_eq(digest, "7c45c50dffe1d2536cb28da6002a6335");
    writer_close(&w);
}

Test(wire, every_message_comes_back_as_it_went)
{
    struct writer w = all_frames();
    size_t at = 0, n_frames = 0;
    while (at < w.len) {
        struct wire_frame frame;
        struct err e = {0};
        struct writer again;
        writer_init(&again, 0);
        long n = wire_parse(w.data + at, w.len - at, &frame, &e);
        cr_assert_gt(n, 0, "%s", e.text);
        int code = wire_any(&frame, &again, &e);
        if (code == WARM_EUNSUPPORTED) {
            cr_assert_eq(frame.payload.len, 0);
        } else {
            cr_assert_eq(code, 0, "%s: %s", wire_type_name(frame.type), e.text);
            cr_assert_eq(again.len, (size_t)n);
            cr_assert_eq(memcmp(again.data, w.data + at, again.len), 0);
        }
        writer_close(&again);
        at += (size_t)n;
        n_frames++;
    }
    cr_assert_eq(n_frames, 40);
    writer_close(&w);
}

/* Calls `check` with each frame in memory of its exact size, so that a sanitizer sees an overrun.
 */
static void each_frame(void (*check)(uint8_t *data, size_t len))
{
    struct writer w = all_frames();
    for (size_t at = 0; at < w.len;) {
        struct wire_frame frame;
        long n = wire_parse(w.data + at, w.len - at, &frame, NULL);
        uint8_t *copy = malloc((size_t)n);
        memcpy(copy, w.data + at, (size_t)n);
        check(copy, (size_t)n);
        free(copy);
        at += (size_t)n;
    }
    writer_close(&w);
}

static void expect_more_wanted(uint8_t *data, size_t len)
{
    for (size_t cut = 0; cut < len; cut++) {
        uint8_t *part = malloc(cut ? cut : 1);
        memcpy(part, data, cut);
        struct wire_frame frame;
        cr_assert_eq(wire_parse(part, cut, &frame, NULL), 0);
        free(part);
    }
}
Test(wire, every_cut_of_a_frame_asks_for_more) { each_frame(expect_more_wanted); }

static int decode(const uint8_t *payload, size_t len, const struct wire_frame *like, struct err *e)
{
    uint8_t *copy = malloc(len ? len : 1);
    if (len)
        memcpy(copy, payload, len);
    struct wire_frame frame = *like;
    frame.payload = (struct view){copy, len};
    struct writer again;
    writer_init(&again, 0);
    int code = wire_any(&frame, &again, e);
    writer_close(&again);
    free(copy);
    return code;
}

static void expect_refused_when_cut(uint8_t *data, size_t len)
{
    struct wire_frame frame;
    struct err e;
    wire_parse(data, len, &frame, NULL);
    for (size_t cut = 0; cut < frame.payload.len; cut++) {
        int code = decode(frame.payload.data, cut, &frame, &e);
        cr_assert(code == WARM_ETRUNCATED || code == WARM_EMALFORMED, "%s cut at %zu: %d",
                  wire_type_name(frame.type), cut, code);
    }
}
Test(wire, every_cut_of_a_payload_is_refused) { each_frame(expect_refused_when_cut); }

static void expect_refused_when_longer(uint8_t *data, size_t len)
{
    struct wire_frame frame;
    struct err e;
    uint8_t longer[4096] = {0};
    wire_parse(data, len, &frame, NULL);
    memcpy(longer, frame.payload.data, frame.payload.len);
    int code = decode(longer, frame.payload.len + 1, &frame, &e);
    cr_assert(code == WARM_EMALFORMED || code == WARM_EUNSUPPORTED);
}
Test(wire, bytes_after_the_last_field_are_refused) { each_frame(expect_refused_when_longer); }

/* A changed byte may be another valid message; it never reads out of bounds, and what is taken is
 * encoded as it came. */
static void change_every_byte(uint8_t *data, size_t len)
{
    for (size_t i = 0; i < len * 8; i++) {
        data[i / 8] ^= (uint8_t)(1u << i % 8);
        struct wire_frame frame;
        struct err e;
        long n = wire_parse(data, len, &frame, &e);
        if (n > 0) {
            struct writer again;
            writer_init(&again, 0);
            if (wire_any(&frame, &again, &e) == 0)
                cr_assert(again.len == (size_t)n && memcmp(again.data, data, again.len) == 0);
            writer_close(&again);
        }
        data[i / 8] ^= (uint8_t)(1u << i % 8);
    }
}
Test(wire, every_changed_bit_is_refused_or_taken_exactly) { each_frame(change_every_byte); }

static int parse_header(const char *bytes, size_t len)
{
    struct wire_frame frame;
    return (int)wire_parse(bytes, len, &frame, NULL);
}

Test(wire, header_faults_are_told_apart)
{
    cr_assert_eq(parse_header("X", 1), WARM_EMALFORMED);
    cr_assert_eq(parse_header("\xa7\x02\x04\0\0\0\0\0\0\0\0\0\0\0\0\0", 16), WARM_EMALFORMED);
    cr_assert_eq(parse_header("\xa7\x02\x03\0\0\0\0\0\0\0\0\0\0\0\0\0", 16), WARM_EMALFORMED,
                 "three descriptors");
    cr_assert_eq(parse_header("\xa7\x02\0\0\x01\0\x10\0\0\0\0\0\0\0\0\0", 16), WARM_ETOO_BIG);
    cr_assert_eq(parse_header("\xa7\x7f\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16), 16,
                 "an unknown type is a frame: it can be answered");
}

/* A length that would wrap or is far beyond the payload allocates nothing and reads nothing. */
Test(wire, a_huge_length_in_a_field_is_too_big)
{
    struct writer w;
    writer_init(&w, 0);
    wire_put_show(&w, 1, &(struct wire_show){WIRE_SPACE_NAME, view_of_text("abc")});
    memset(w.data + WIRE_HEADER + 1, 0xff, 4);
    struct wire_frame frame;
    struct wire_show show;
    struct err e;
    cr_assert_gt(wire_parse(w.data, w.len, &frame, &e), 0);
    cr_assert_eq(wire_get_show(&frame, &show, &e), WARM_ETOO_BIG);
    cr_assert_str_eq(e.text, "SHOW: field key is above its limit");
    writer_close(&w);
}

Test(wire, descriptors_must_be_as_many_as_the_message_needs)
{
    struct writer w;
    writer_init(&w, 0);
    wire_put_hit(&w, 1, &(struct wire_hit){.len = 100000});
    cr_assert_eq(w.data[2], 1, "a value without inline bytes announces its descriptor");
    w.data[2] = 0;
    struct wire_frame frame;
    struct wire_hit hit;
    struct err e;
    wire_parse(w.data, w.len, &frame, &e);
    cr_assert_eq(wire_get_hit(&frame, &hit, &e), WARM_EMALFORMED);
    cr_assert_str_eq(e.text, "HIT: field descriptors has no such value");
    writer_close(&w);
}

Test(wire, an_encoder_fails_above_a_limit)
{
    char name[WIRE_NAME_MAX + 1];
    memset(name, 'n', sizeof name);
    struct writer w;
    writer_init(&w, 0);
    wire_put_show(&w, 1, &(struct wire_show){WIRE_SPACE_NAME, {name, sizeof name}});
    cr_assert(w.failed);
    writer_close(&w);
}

Test(wire, lists_say_where_they_are_damaged)
{
    struct writer w;
    writer_init(&w, 0);
    wire_paths_add(&w, "a.h", 3);
    wire_paths_add(&w, "b\0h", 3);
    struct reader list = reader_over(w.data, w.len);
    struct view path;
    cr_assert(wire_paths_next(&list, &path));
    cr_assert(!wire_paths_next(&list, &path), "a path holds no NUL");
    cr_assert(list.failed);
    writer_close(&w);
}

Test(wire, packets_of_the_channel_come_back)
{
    struct writer w;
    writer_init(&w, WIRE_OPEN_MAX);
    struct wire_open question = {7, view_of_text("cub/cub.cuh")}, got;
    struct wire_opened answer = {7, WIRE_PATH_FILE}, opened;
    wire_put_open(&w, &question);
    cr_assert_eq(wire_get_open(w.data, w.len, &got, NULL), 0);
    cr_assert(got.id == 7 && got.path.len == 11);
    for (size_t cut = 0; cut < w.len; cut++)
        cr_assert_neq(wire_get_open(w.data, cut, &got, NULL), 0);
    w.len = 0;
    wire_put_opened(&w, &answer);
    cr_assert_eq(wire_get_opened(w.data, w.len, &opened, NULL), 0);
    cr_assert_eq(opened.state, WIRE_PATH_FILE);
    w.data[4] = 3;
    cr_assert_eq(wire_get_opened(w.data, w.len, &opened, NULL), WARM_EMALFORMED);
    writer_close(&w);
}

/* Rows hold the store's numbers. */
Test(wire, kinds_are_those_of_the_store)
{
    for (unsigned kind = 0; kind < 16; kind++) {
        uint8_t number = 0;
        const char *name = wire_kind_name((uint8_t)kind);
        if (strcmp(name, "unknown") == 0) {
            cr_assert_gt(kind, STORE_GRAPH);
            continue;
        }
        cr_assert(wire_kind_from_name(name, &number) && number == kind);
    }
#define X(name, number, text) cr_assert_eq((int)STORE_##name, number, text);
    WIRE_KIND_LIST(X)
#undef X
}

Test(wire, notes_of_clients_are_known_by_their_names)
{
    static const char *const notes[] = {"file:a", "form:a", "cc:2n:a", "nvcc:2n:a"};
    static const char *const others[] = {"cc:2:a", "cc:2r:a", "nvcc:2:a", "ptxas:exact:a", "x"};
    for (size_t i = 0; i < sizeof notes / sizeof notes[0]; i++)
        cr_expect(wire_name_is_note(view_of_text(notes[i])), "%s", notes[i]);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        cr_expect(!wire_name_is_note(view_of_text(others[i])), "%s", others[i]);
}
