/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_find.c - what is found under an id and a proof, in a real store and on its way there. A result of
 * other bytes is never found.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/service/find.h"
#include "daemon/service/put.h"
#include "tests/support/service.h"
#include "tests/support/store_kit.h"

static const struct peer root = {.uid = 0, .space = 0, .is_admin = true, .administers = true};
static const struct peer ada = {.uid = 1000, .space = 1000, .is_admin = true};
static struct service_rig rig;

static void setup(void) { service_rig_up(&rig); }
static void teardown(void) { service_rig_down(&rig); }
TestSuite(find, .init = setup, .fini = teardown, .timeout = 120);

static struct service_made made_of(uint8_t place, uint8_t proof)
{
    return (struct service_made){.address.graph = {{place}}, .proof = {{proof}}};
}

static struct store_id id_of(uint8_t place)
{
    struct service_made made = made_of(place, 0);
    return (struct store_id){STORE_MADE_HERE, address_key(&made.address)};
}

/* Begins to put a value at a place under a proof. */
static void begin_put(const struct peer *peer, uint8_t place, uint8_t proof, enum store_kind kind,
                      struct view value, struct service_rig_put *end)
{
    struct service_made made = made_of(place, proof);
    struct service_put put = {
        .made = &made, .kind = kind, .data = value.data, .len = value.len, .fd = -1};
    cr_assert_eq(service_rig_put_begin(&rig, peer, put, end), 0);
}

/* Puts it and waits until it is stored. */
static void put(uint8_t place, uint8_t proof, enum store_kind kind, struct view value)
{
    struct service_rig_put end;
    begin_put(&root, place, proof, kind, value, &end);
    cr_assert_eq(service_rig_put_end(&rig, &end), 0);
}

static enum found find_at(uint8_t place, uint8_t proof, struct find *out)
{
    struct store_id id = id_of(place);
    struct proof p = {{proof}};
    return find_made(rig.service, &id, &p, out);
}

static void expect_none(uint8_t place, uint8_t proof, int code)
{
    struct find f;
    cr_expect_eq(find_at(place, proof, &f), FOUND_NONE);
    cr_expect(!f.value && !f.pending && !f.manifest);
    cr_expect_eq(f.code, code);
    store_turn_end(rig.store);
}

/* ---- results ---- */

Test(find, a_result_is_found_under_its_own_proof_alone)
{
    struct find f;
    expect_none(1, 1, WARM_ENOT_FOUND);
    put(1, 1, STORE_CUBIN, view_of_text("code"));
    cr_assert_eq(find_at(1, 1, &f), FOUND_RESULT);
    cr_assert(f.value && !f.pending);
    cr_expect(f.value->row.len == 4 && memcmp(f.value->data, "code", 4) == 0);
    store_turn_end(rig.store);
    expect_none(1, 2, 0);
    expect_none(2, 1, WARM_ENOT_FOUND);
}

Test(find, a_result_is_found_before_it_is_stored)
{
    struct find f;
    struct service_rig_put first, second;
    begin_put(&root, 1, 1, STORE_CUBIN, view_of_text("code"), &first);
    cr_assert_eq(find_at(1, 1, &f), FOUND_RESULT);
    cr_assert(f.pending && !f.value);
    cr_expect(f.pending->len == 4 && memcmp(f.pending->data, "code", 4) == 0);
    expect_none(1, 2, WARM_ENOT_FOUND);
    begin_put(&root, 1, 2, STORE_CUBIN, view_of_text("other"), &second);
    cr_assert_eq(find_at(1, 1, &f), FOUND_RESULT, "behind a newer one of other bytes");
    cr_expect_eq(f.pending->len, 4);
    cr_assert_eq(find_at(1, 2, &f), FOUND_RESULT);
    cr_expect_eq(f.pending->len, 5);
    struct store_id id = id_of(1);
    const struct pending_put *newest = find_put(rig.service, &id, NULL);
    cr_expect(newest && newest->proof.bytes[0] == 2);
    cr_assert_eq(service_rig_put_end(&rig, &first), 0);
    cr_assert_eq(service_rig_put_end(&rig, &second), 0);
    cr_expect_null(find_put(rig.service, &id, NULL));
    cr_assert_eq(find_at(1, 2, &f), FOUND_RESULT);
    cr_expect(f.value && !f.pending, "from now on from the store");
    store_turn_end(rig.store);
    expect_none(1, 1, 0);
}

Test(find, damaged_bytes_are_not_found)
{
    size_t len = STORE_INLINE_MAX + 5000;
    uint8_t *value = kit_value(1, 0, len);
    char *blobs = path_join(rig.dir, "blobs"), *path;
    put(1, 1, STORE_CUBIN, (struct view){value, len});
    path = kit_only_file(blobs);
    cr_assert_not_null(path);
    cr_assert_eq(chmod(path, 0600), 0);
    value[100] ^= 1;
    file_write(path, value, len);
    expect_none(1, 1, WARM_ECORRUPT);
    free(path), free(blobs), free(value);
}

/* ---- leads ---- */

static void write_manifest(struct writer *w)
{
    struct manifest_alternative a = {.maker = 1000, .result = {{7}}};
    struct manifest_state state = {.absent = true};
    struct view path = view_of_text("a.h");
    struct manifest *m = manifest_new(&path, &state, 1, &a);
    cr_assert_not_null(m);
    writer_init(w, 0);
    manifest_write(m, NULL, w);
    manifest_unref(m);
}

/* Finds the manifest at place 1, and gives it back. */
static void expect_manifest(void)
{
    struct find f;
    cr_assert_eq(find_at(1, 1, &f), FOUND_MANIFEST);
    cr_assert_not_null(f.manifest);
    cr_expect(!f.value && !f.pending);
    cr_expect_eq(f.manifest->n_paths, 1);
    cr_expect_eq(f.manifest->alternatives[0].result.bytes[0], 7);
    manifest_unref(f.manifest);
    store_turn_end(rig.store);
}

Test(find, a_manifest_is_no_result)
{
    struct writer w;
    struct service_rig_put end;
    write_manifest(&w);
    begin_put(&root, 1, 1, STORE_MANIFEST, (struct view){w.data, w.len}, &end);
    expect_manifest();
    cr_assert_eq(service_rig_put_end(&rig, &end), 0);
    expect_manifest();
    expect_none(1, 2, 0);
    writer_close(&w);
}

Test(find, an_alias_leads_on_with_its_folders)
{
    struct find f;
    struct writer w;
    struct view place = view_of_text("/inc/");
    struct alias alias = {.key = {{9}}, .proof = {{8}}};
    alias.bases = bases_new(view_of_text(""), &place, 1);
    writer_init(&w, 0);
    alias_write(&alias, &w);
    put(1, 1, STORE_MANIFEST, (struct view){w.data, w.len});
    cr_assert_eq(find_at(1, 1, &f), FOUND_ALIAS);
    cr_expect(key_equal(&f.alias.key, &alias.key) && proof_equal(&f.alias.proof, &alias.proof));
    cr_assert(f.alias.bases && f.alias.bases->n_places == 1);
    bases_unref(f.alias.bases);
    store_turn_end(rig.store);
    bases_unref(alias.bases);
    writer_close(&w);
}

Test(find, a_lead_that_cannot_be_read_is_a_miss)
{
    struct writer w;
    write_manifest(&w);
    put(1, 1, STORE_MANIFEST, (struct view){w.data, w.len - 1});
    expect_none(1, 1, 0);
    put(2, 1, STORE_MANIFEST, view_of_text(""));
    expect_none(2, 1, 0);
    writer_close(&w);
}

/* ---- makers ---- */

static bool maker_of(uint8_t place, const struct proof *proof, uint32_t *out, struct key *check)
{
    struct store_id id = id_of(place);
    return find_maker(rig.service, &id, proof, out, check);
}

Test(find, the_maker_is_known_stored_or_on_its_way)
{
    struct proof right = {{1}}, wrong = {{2}};
    struct key check, want = key_of_bytes("code", 4);
    uint32_t maker;
    struct service_rig_put end;
    cr_expect(!maker_of(1, NULL, &maker, &check));
    begin_put(&ada, 1, 1, STORE_CUBIN, view_of_text("code"), &end);
    for (int stored = 0; stored < 2; stored++) {
        maker = 0;
        cr_expect(maker_of(1, &right, &maker, &check), "%d", stored);
        cr_expect_eq(maker, 1000);
        cr_expect(key_equal(&check, &want));
        cr_expect(maker_of(1, NULL, &maker, &check));
        cr_expect(!maker_of(1, &wrong, &maker, &check));
        cr_assert_eq(service_rig_put_end(&rig, &end), 0);
    }
}
