/* SPDX-License-Identifier: Apache-2.0 */
/* test_old_keys.c - whether another version of the keys had this store: a real store, opened again. */
#include "daemon/service/old_keys.h"
#include "keygen/bytes.h"
#include "tests/support/store_kit.h"

struct note {
    uint64_t since_ms;
    char text[2048];
};

/* Reads the note, which must be there after at most KIT_WAIT_S: it is written like a put. */
static struct note read_note(struct store_kit *k)
{
    uint8_t bytes[8 + sizeof((struct note *)0)->text];
    struct note n = {0};
    size_t len = 0;
    for (int i = 0; i < KIT_WAIT_S * 100; i++) {
        store_poll(k->store);
        if (store_meta_get(k->store, OLD_KEYS_META, bytes, sizeof bytes, &len) == 0)
            break;
        store_turn_end(k->store);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    cr_assert_gt(len, 8);
    struct reader r = reader_over(bytes, len);
    n.since_ms = reader_u64(&r);
    snprintf(n.text, sizeof n.text, "%.*s", (int)r.len, (const char *)r.data);
    store_turn_end(k->store);
    return n;
}

static void write_note(struct store_kit *k, const char *text)
{
    struct writer w;
    writer_init(&w, 0);
    writer_u64(&w, 0);
    writer_bytes(&w, text, strlen(text));
    cr_assert_eq(store_meta_put(k->store, OLD_KEYS_META, w.data, w.len), 0);
    writer_close(&w);
    kit_reopen(k);
}

Test(old_keys, a_new_store_has_none_and_stays_so)
{
    struct store_kit k;
    kit_begin(&k, 64 * KIT_MIB);
    old_keys_begin(k.store);
    struct note first = read_note(&k);
    cr_expect_eq(first.since_ms, 0);
    cr_expect_not_null(strstr(first.text, "mlir/"));
    kit_reopen(&k);
    cr_assert_eq(kit_put(&k, 1000, 1, 100), 0);
    old_keys_begin(k.store);
    struct note again = read_note(&k);
    cr_expect_eq(again.since_ms, 0, "the same program had it");
    cr_expect_str_eq(again.text, first.text);
    kit_end(&k);
}

Test(old_keys, another_text_means_that_what_is_here_is_older)
{
    struct store_kit k;
    kit_begin(&k, 64 * KIT_MIB);
    cr_assert_eq(kit_put(&k, 1000, 1, 100), 0);
    write_note(&k, "mlir/1 ptx/1 ");
    old_keys_begin(k.store);
    kit_reopen(&k); /* all that was queued is written */
    struct note n = read_note(&k);
    cr_expect_gt(n.since_ms, 0);
    cr_expect_null(strstr(n.text, "mlir/1 "));
    old_keys_begin(k.store);
    kit_reopen(&k);
    struct note again = read_note(&k);
    cr_expect_eq(again.since_ms, n.since_ms, "the time of the change stays");
    kit_end(&k);
}

Test(old_keys, a_store_with_entries_and_no_note_is_older)
{
    struct store_kit k;
    kit_begin(&k, 64 * KIT_MIB);
    cr_assert_eq(kit_put(&k, 1000, 1, 100), 0);
    old_keys_begin(k.store);
    kit_reopen(&k);
    cr_expect_gt(read_note(&k).since_ms, 0);
    kit_end(&k);
}
