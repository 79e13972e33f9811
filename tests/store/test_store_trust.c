/* SPDX-License-Identifier: Apache-2.0 */
/* test_store_trust.c - which entries count that came from the tier. */
#include "tests/support/store_kit.h"

#define HERE STORE_MADE_HERE
#define SMALL 1000
#define LARGE (200u << 10)

static struct store_kit k;

static void begin(void) { kit_begin(&k, 64 * KIT_MIB); }
static void end(void) { kit_end(&k); }

TestSuite(store_trust, .init = begin, .fini = end, .timeout = 120);

static int put_signed(uint64_t n, size_t len, uint32_t signer, bool keep_existing)
{
    uint8_t *value = kit_value(n, 0, len);
    struct store_put put = kit_put_of(&k, HERE, n, len);
    put.row.tier = STORE_TIER_CAME;
    put.row.signer = signer;
    put.keep_existing = keep_existing;
    put.data = value;
    int rc = kit_put_with(&k, &put);
    free(value);
    return rc;
}

Test(store_trust, an_entry_that_came_is_found_only_while_its_signer_is_trusted)
{
    struct store_id id = kit_id(HERE, 1);
    struct store_row row;
    cr_assert_eq(put_signed(1, SMALL, 7, false), 0);
    cr_assert_eq(put_signed(2, LARGE, 7, false), 0);
    cr_expect_eq(kit_get(&k, HERE, 1), WARM_ENOT_FOUND, "nobody is trusted yet");
    store_trust(k.store, (uint32_t[]){9, 7}, 2);
    cr_expect_eq(kit_get(&k, HERE, 1), 0);
    cr_expect_eq(kit_get(&k, HERE, 2), 0);
    store_trust(k.store, (uint32_t[]){9}, 1);
    cr_expect_eq(kit_get(&k, HERE, 1), WARM_ENOT_FOUND);
    cr_expect_eq(kit_get(&k, HERE, 2), WARM_ENOT_FOUND);
    cr_expect_eq(store_peek(k.store, &id, &row, NULL), WARM_ENOT_FOUND);
    cr_expect_eq(store_prepare(k.store, &id, NULL, NULL, NULL), WARM_ENOT_FOUND);
    store_trust(k.store, NULL, 0);
    cr_expect_eq(kit_get(&k, HERE, 1), WARM_ENOT_FOUND);
    cr_assert_eq(put_signed(3, SMALL, 0, false), 0);
    cr_expect_eq(kit_get(&k, HERE, 3), WARM_ENOT_FOUND, "0 is nobody");
}

Test(store_trust, a_put_that_keeps_what_exists_replaces_an_entry_that_does_not_count)
{
    cr_assert_eq(put_signed(1, SMALL, 7, false), 0);
    store_trust(k.store, (uint32_t[]){9}, 1);
    cr_assert_eq(put_signed(1, SMALL, 9, true), 0);
    cr_expect_not(k.existed);
    cr_expect_eq(kit_get(&k, HERE, 1), 0);
    cr_assert_eq(put_signed(1, SMALL, 9, true), 0);
    cr_expect(k.existed);
}
