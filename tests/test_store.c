/* SPDX-License-Identifier: Apache-2.0 */
/* test_store.c - what store.h promises, on real LMDB in a folder of its own. */
#include "tests/store_kit.h"

#define HERE STORE_MADE_HERE
#define SMALL 1000
#define LARGE (200u << 10)

static struct kit k;

static void begin(void) { kit_begin(&k, 64 * KIT_MIB); }
static void end(void) { kit_end(&k); }

TestSuite(store, .init = begin, .fini = end, .timeout = 120);

static const size_t lens[] = {0,     1,     7,     100,   1000,  2000,  2001,    4096,
                              20000, 65535, 65536, 65537, 70000, LARGE, 3u << 20};
#define N_LENS (sizeof lens / sizeof *lens)

Test(store, gives_back_values_of_every_size)
{
    for (size_t i = 0; i < N_LENS; i++)
        cr_assert_eq(kit_put(&k, HERE, i, lens[i]), 0, "put %zu: %s", lens[i], k.last_event);
    for (size_t i = 0; i < N_LENS; i++)
        cr_assert_eq(kit_get(&k, HERE, i), 0, "get %zu", lens[i]);
    kit_reopen(&k);
    for (size_t i = 0; i < N_LENS; i++)
        cr_assert_eq(kit_get(&k, HERE, i), 0, "get %zu after reopening", lens[i]);
    cr_assert_eq(kit_stats(&k).n_entries, N_LENS);
    cr_assert_eq(kit_get(&k, HERE, 999), WARM_ENOT_FOUND);
}
