/* SPDX-License-Identifier: Apache-2.0 */
/* test_signers.c - the numbers of keys that count, of a service without a tier. */
#include "daemon/nodes/signers.h"

#include <criterion/criterion.h>

#include <unistd.h>

#include "daemon/process/log.h"
#include "daemon/service/internal.h"
#include "tests/support/service.h"

/* Two public keys that differ in their last bytes alone. */
#define ONE "one:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE="
#define TWO "two:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAI="

static struct service_rig rig;

static void up(const char *const *settings)
{
    log_set_level(LOG_LEVEL_ERROR);
    service_rig_up_with(&rig, settings);
}
static void down(void) { service_rig_down(&rig); }

TestSuite(signers, .fini = down, .timeout = 60);

#define UP(...) up((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

Test(signers, a_revoked_key_takes_no_other_with_it_that_begins_alike)
{
    UP("tier_trusted", ONE, "tier_trusted", TWO, "tier_revoked", ONE);
    const struct signers *s = rig.service->signers;
    char name[KEY_NAME_MAX];
    cr_expect_eq(signers_number(s, &s->trusted.key[0]), 0u);
    uint32_t two = signers_number(s, &s->trusted.key[1]);
    cr_assert_neq(two, 0u);
    signers_name(s, two, name);
    cr_expect_str_eq(name, "two");
    signers_name(s, two + 1, name);
    cr_expect_str_eq(name, "an unknown key");
}

Test(signers, a_key_keeps_its_number_in_the_store)
{
    UP("tier_trusted", ONE, "tier_trusted", TWO);
    struct signers *again, *s = rig.service->signers;
    store_poll(rig.store);
    for (int i = 0; i < 30000 && s->sweep; i++) { /* its end writes the record */
        uv_run(&rig.loop, UV_RUN_NOWAIT);
        usleep(1000);
    }
    cr_assert_null(s->sweep);
    struct signers was = *s;
    for (int i = 0; i < 30000; i++) {
        cr_assert_eq(signers_new(&again, &rig.config, rig.store, &rig.loop, NULL), 0);
        bool same = again->n == was.n && memcmp(again->table, was.table, sizeof was.table) == 0;
        cr_assert(i < 29999 || same, "the keys have other numbers");
        bool swept = again->sweep != NULL;
        signers_free(again);
        store_turn_end(rig.store);
        if (same) {
            cr_expect_not(swept, "nothing has changed");
            return;
        }
        usleep(1000);
    }
}

Test(signers, more_keys_are_revoked_than_are_trusted_at_once)
{
    static char texts[40][80];
    const char *settings[2 * 41 + 1] = {"tier_trusted", ONE};
    for (int i = 0; i < 40; i++) {
        snprintf(texts[i], sizeof texts[i],
                 "old%d:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA%02dAAAA=", i, i);
        settings[2 + 2 * i] = "tier_revoked";
        settings[3 + 2 * i] = i == 39 ? ONE : texts[i];
    }
    up(settings);
    cr_expect_eq(signers_number(rig.service->signers, &rig.service->signers->trusted.key[0]), 0u);
}
