/* SPDX-License-Identifier: Apache-2.0 */
/* test_negative.c - refusals of compilers are remembered under key and proof, for a while, and in a bounded table. */
#include <criterion/criterion.h>
#include <string.h>

#include "daemon/service/artifact.h"
#include "daemon/service/internal.h"
#include "tests/support/service.h"

static struct service_rig rig;

static void setup(void) { service_rig_up(&rig); }
static void teardown(void) { service_rig_down(&rig); }
TestSuite(negative, .init = setup, .fini = teardown, .timeout = 120);

static void add(uint8_t place, uint8_t proof, const char *text)
{
    struct key key = {{place}};
    struct proof p = {{proof}};
    struct artifact *a = artifact_from_bytes(text, strlen(text));
    cr_assert_not_null(a);
    negative_add(rig.service, &key, &p, a);
    artifact_unref(a); /* the table has its own */
}

/* True if this text is remembered; NULL: nothing. */
static bool finds(uint8_t place, uint8_t proof, const char *text)
{
    struct key key = {{place}};
    struct proof p = {{proof}};
    const struct artifact *a = negative_find(rig.service, &key, &p);
    return text ? a && a->len == strlen(text) && memcmp(a->data, text, a->len) == 0 : !a;
}

Test(negative, a_refusal_is_found_under_its_key_and_its_proof_alone)
{
    cr_expect(finds(1, 1, NULL));
    add(1, 1, "error");
    cr_expect(finds(1, 1, "error"));
    cr_expect(finds(1, 2, NULL), "another source with that key");
    cr_expect(finds(2, 1, NULL));
    add(1, 2, "other error");
    cr_expect(finds(1, 1, "error") && finds(1, 2, "other error"));
}

Test(negative, the_oldest_makes_room)
{
    for (unsigned i = 0; i < NEGATIVES; i++)
        add((uint8_t)i, 1, "error");
    for (unsigned i = 0; i < NEGATIVES; i++)
        cr_assert(finds((uint8_t)i, 1, "error"), "%u", i);
    add(100, 1, "new");
    cr_expect(finds(0, 1, NULL) && finds(1, 1, "error") && finds(100, 1, "new"));
}

Test(negative, it_is_forgotten_after_a_while)
{
    rig.config.negative_ttl_ms = 1;
    add(1, 1, "error");
    uint64_t added_ms = uv_now(&rig.loop);
    cr_expect(finds(1, 1, "error"));
    while (uv_now(&rig.loop) <= added_ms)
        uv_update_time(&rig.loop);
    cr_expect(finds(1, 1, NULL));
    add(1, 1, "again");
    cr_expect(finds(1, 1, "again"));
}

Test(negative, nothing_is_remembered_if_the_setting_is_0)
{
    rig.config.negative_ttl_ms = 0;
    add(1, 1, "error");
    cr_expect(finds(1, 1, NULL));
}

Test(negative, a_long_text_is_not_remembered)
{
    char *text = malloc(NEGATIVE_BYTES_MAX + 2);
    memset(text, 'x', NEGATIVE_BYTES_MAX + 1);
    text[NEGATIVE_BYTES_MAX + 1] = '\0';
    add(1, 1, text);
    cr_expect(finds(1, 1, NULL));
    text[NEGATIVE_BYTES_MAX] = '\0';
    add(1, 1, text);
    cr_expect(finds(1, 1, text));
    free(text);
}

Test(negative, all_can_be_forgotten)
{
    add(1, 1, "error");
    negatives_clear(rig.service);
    cr_expect(finds(1, 1, NULL));
    add(1, 1, "again");
    cr_expect(finds(1, 1, "again"));
}
