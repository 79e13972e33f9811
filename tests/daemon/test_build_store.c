/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_build_store.c - which entries of a real store lead to the result of a build: result, manifest and alias,
 * their proofs, their group and their maker. Real NVRTC makes the results.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "daemon/service/find.h"
#include "store/clock.h"
#include "tests/support/compile_call.h"

#define GOOD_SPELLED "/* the same */\n" GOOD
#define WARNS "extern \"C\" __global__ void f(float *x) { int y; *x = 1; }\n"
/* Lines show in these results: such jobs have no shared key. */
#define EXACT "extern \"C\" __global__ void f(float *x) { *x = __LINE__; }\n"
#define EXACT_WITH_HEADER                                                                          \
    "#include \"h.h\"\nextern \"C\" __global__ void f(float *x) { *x = N + __LINE__; }\n"

static const struct peer root = {.uid = 0, .space = 0, .is_admin = true};
static const struct key no_group;
static struct find found; /* by look_at */

TestSuite(build_store, .fini = compile_calls_down, .timeout = 120);

/* Has a peer compile a source with its h.h, and waits until all is stored. */
static void compile(struct compile_call *c, const struct peer *peer, const char *source,
                    uint32_t flags)
{
    compile_call_init(c, peer, source);
    compile_call_run(c, flags);
    cr_assert_eq(c->seen[strlen(c->seen) - 1], '=', "%s", c->seen);
    compile_calls_stored(&rig);
}

static enum found look_at(const struct store_id *id, const struct proof *proof)
{
    return find_made(rig.service, id, proof, &found);
}

static struct store_id made_here(const struct key *key)
{
    return (struct store_id){STORE_MADE_HERE, *key};
}

static struct store_row row_of(const struct store_id *id)
{
    struct store_row row;
    struct err e = {0};
    cr_assert_eq(store_peek(rig.store, id, &row, &e), 0, "%s", e.text);
    return row;
}

static void expect_group(const struct store_id *id, const struct key *group)
{
    struct store_row row = row_of(id);
    cr_expect(key_equal(&row.group, group));
}

/* Expects a result of alice's under an id and a proof, and under no other proof. */
static void expect_result(const struct store_id *id, const struct proof *proof)
{
    struct proof other = *proof;
    other.bytes[0] ^= 1;
    cr_assert_eq(look_at(id, proof), FOUND_RESULT);
    cr_expect_eq(found.value->row.maker, alice.uid);
    cr_expect(key_equal(&found.value->row.check, &first.check));
    cr_expect_eq(look_at(id, &other), FOUND_NONE);
    store_turn_end(rig.store);
}

/* Expects a manifest with this many alternatives; the newest is in *out_id and *out_proof. */
static void expect_manifest(const struct store_id *id, const struct proof *proof, uint32_t n,
                            struct store_id *out_id, struct proof *out_proof)
{
    cr_assert_eq(look_at(id, proof), FOUND_MANIFEST);
    cr_expect_eq(found.manifest->n_alternatives, n);
    *out_id = made_here(&found.manifest->alternatives->result);
    *out_proof = found.manifest->alternatives->proof;
    manifest_unref(found.manifest);
    store_turn_end(rig.store);
}

/* Expects an alias from a call's exact key; the shared key is in *out_id and *out_proof. */
static void expect_alias(const struct compile_call *c, struct store_id *out_id,
                         struct proof *out_proof)
{
    cr_assert_eq(look_at(&c->ask.id, &c->ask.proof), FOUND_ALIAS);
    *out_id = made_here(&found.alias.key);
    *out_proof = found.alias.proof;
    bases_unref(found.alias.bases);
    store_turn_end(rig.store);
    cr_expect_not(key_equal(&c->ask.id.key, &out_id->key));
    expect_group(&c->ask.id, &out_id->key);
}

/* ---- what leads to a result ---- */

Test(build_store, a_job_without_a_shared_key_has_its_result_under_its_exact_key)
{
    NEEDS_COMPILER(&rig);
    compile(&first, &alice, EXACT, 0);
    expect_result(&first.ask.id, &first.ask.proof);
    expect_group(&first.ask.id, &no_group);
}

Test(build_store, with_headers_a_manifest_leads_from_the_exact_key_to_the_result)
{
    struct store_id id;
    struct proof proof;
    NEEDS_COMPILER(&rig);
    compile(&first, &alice, EXACT_WITH_HEADER, 0);
    expect_manifest(&first.ask.id, &first.ask.proof, 1, &id, &proof);
    cr_expect_not(key_equal(&id.key, &first.ask.id.key));
    cr_expect_not(proof_equal(&proof, &first.ask.proof));
    expect_result(&id, &proof);
    expect_group(&first.ask.id, &first.ask.id.key);
    expect_group(&id, &first.ask.id.key);
}

Test(build_store, an_alias_leads_from_the_exact_key_to_the_shared_one)
{
    struct store_id id;
    struct proof proof;
    NEEDS_COMPILER(&rig);
    compile(&first, &alice, GOOD, 0);
    expect_alias(&first, &id, &proof);
    expect_result(&id, &proof);
    expect_group(&id, &id.key);
}

Test(build_store, with_headers_an_alias_leads_to_the_manifest_of_the_shared_key)
{
    struct store_id shared, id;
    struct proof shared_proof, proof;
    NEEDS_COMPILER(&rig);
    compile(&first, &alice, WITH_HEADER, 0);
    expect_alias(&first, &shared, &shared_proof);
    expect_manifest(&shared, &shared_proof, 1, &id, &proof);
    expect_result(&id, &proof);
    expect_group(&shared, &shared.key);
    expect_group(&id, &shared.key);
}

Test(build_store, another_spelling_adds_an_alias_alone)
{
    struct store_id one, two;
    struct proof one_proof, two_proof;
    NEEDS_COMPILER(&rig);
    compile(&first, &alice, GOOD, 0);
    compile(&second, &bob, GOOD_SPELLED, 0);
    expect_alias(&first, &one, &one_proof);
    expect_alias(&second, &two, &two_proof);
    cr_expect(key_equal(&one.key, &two.key));
    cr_expect(proof_equal(&one_proof, &two_proof));
    cr_expect_eq(row_of(&second.ask.id).maker, bob.uid);
    expect_result(&one, &one_proof);
}

Test(build_store, another_spelling_that_wants_nothing_stored_adds_nothing)
{
    NEEDS_COMPILER(&rig);
    compile(&first, &alice, GOOD, 0);
    compile(&second, &alice, GOOD_SPELLED, WIRE_COMPILE_NO_STORE);
    cr_expect_eq(second.outcome, WIRE_WAS_HIT);
    cr_expect_eq(look_at(&second.ask.id, &second.ask.proof), FOUND_NONE);
}

Test(build_store, a_result_with_a_warning_is_under_its_exact_key_alone)
{
    NEEDS_COMPILER(&rig);
    compile(&first, &alice, WARNS, 0);
    expect_result(&first.ask.id, &first.ask.proof);
    expect_group(&first.ask.id, &no_group);
}

Test(build_store, a_result_of_another_header_is_a_second_alternative)
{
    struct store_id one, two;
    struct proof one_proof, two_proof;
    NEEDS_COMPILER(&rig);
    compile(&first, &alice, EXACT_WITH_HEADER, 0);
    expect_manifest(&first.ask.id, &first.ask.proof, 1, &one, &one_proof);
    compile_call_init(&second, &bob, EXACT_WITH_HEADER);
    second.header = "#define N 2\n";
    compile_call_run(&second, 0);
    cr_assert_str_eq(second.seen, "CN=");
    compile_calls_stored(&rig);
    expect_manifest(&first.ask.id, &first.ask.proof, 2, &two, &two_proof);
    cr_expect_not(key_equal(&one.key, &two.key), "the newest is the first one");
    cr_expect(key_equal(&two.key, &second.key));
    cr_expect_eq(row_of(&two).maker, bob.uid);
    cr_expect_eq(row_of(&first.ask.id).maker, alice.uid, "the manifest stays its first maker's");
    expect_group(&two, &first.ask.id.key);
    expect_result(&one, &one_proof);
}

/* ---- whose they are ---- */

/* Has alice compile, then this peer again. True if the entry was written anew. */
static bool is_replaced_by(const struct peer *peer)
{
    compile(&first, &alice, EXACT, 0);
    uint64_t before = row_of(&first.ask.id).created_ms;
    while (clock_wall_coarse_ms() <= before) /* so that the time tells them apart */
        compile_calls_step(&rig);
    compile(&second, peer, EXACT, WIRE_COMPILE_RECACHE);
    cr_assert_eq(second.outcome, WIRE_WAS_MISS);
    return row_of(&first.ask.id).created_ms != before;
}

Test(build_store, its_maker_may_replace_a_result)
{
    NEEDS_COMPILER(&rig);
    cr_expect(is_replaced_by(&alice));
    cr_expect_eq(row_of(&first.ask.id).maker, alice.uid);
}

Test(build_store, another_user_does_not_replace_a_result)
{
    NEEDS_COMPILER(&rig);
    cr_expect_not(is_replaced_by(&bob));
    cr_expect_eq(row_of(&first.ask.id).maker, alice.uid);
}

Test(build_store, an_administrator_may_replace_a_result)
{
    NEEDS_COMPILER(&rig);
    cr_expect(is_replaced_by(&root));
    cr_expect_eq(row_of(&first.ask.id).maker, root.uid);
}
