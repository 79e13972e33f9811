/* SPDX-License-Identifier: Apache-2.0 */
/* test_key.c - addresses of three parts: their content, and the bytes that they are made of. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keygen/key.h"
#include "tests/support/support.h"

static struct address sample(void)
{
    struct address a = {.hardware = "sm_90"};
    a.compiler = key_of_bytes("compiler", 8);
    a.graph = key_of_bytes("graph", 5);
    return a;
}

static bool changes(const struct address *other)
{
    struct address base = sample();
    struct key a = address_key(&base), b = address_key(other);
    return !key_equal(&a, &b);
}

Test(key, each_byte_of_each_part_of_an_address_counts)
{
    struct address other;
    for (size_t i = 0; i < sizeof other.compiler.bytes; i++) {
        other = sample();
        other.compiler.bytes[i] ^= 1;
        cr_expect(changes(&other), "byte %zu of the compiler", i);
        other = sample();
        other.graph.bytes[i] ^= 0x80;
        cr_expect(changes(&other), "byte %zu of the graph", i);
    }
    static const char *const hardware[] = {"sm_90a", "sm_90f",     "sm_9",
                                           "sm_100", "compute_90", "",
                                           "SM_90",  "sm_90 ",     "NVIDIA H100, driver 575.51.03"};
    for (size_t i = 0; i < sizeof hardware / sizeof *hardware; i++) {
        other = sample();
        strcpy(other.hardware, hardware[i]);
        cr_expect(changes(&other), "%s", hardware[i]);
    }
}

Test(key, a_drivers_version_in_the_hardware_part_counts)
{
    struct address one = sample(), two = sample();
    strcpy(one.hardware, "sm_90 driver 575.51.03");
    strcpy(two.hardware, "sm_90 driver 575.57.08");
    struct key a = address_key(&one), b = address_key(&two);
    cr_assert(!key_equal(&a, &b));
}

Test(key, parts_that_change_places_are_another_address)
{
    struct address other = sample();
    struct key graph = other.graph;
    other.graph = other.compiler;
    other.compiler = graph;
    cr_assert(changes(&other));
}

Test(key, what_stands_behind_the_hardware_text_does_not_count)
{
    struct address other = sample();
    memset(other.hardware + 6, 'x', 20);
    cr_assert(!changes(&other));
}

Test(key, an_address_has_its_golden_key)
{
    char text[WARM_KEY_TEXT];
    struct address a = sample();
    struct key key = address_key(&a);
    key_to_text(&key, text);
    cr_expect_str_eq(text, "0d594e76f5ad7726572e497d40245b17");
    cr_expect_eq(WARM_KEY_FORMAT, 1u, "other addresses: raise the format and these values with it");
}

Test(key, fields_do_not_run_into_one_another)
{
    static const char *const pairs[][2] = {{"sm_9", "0"}, {"sm_90", ""}, {"", "sm_90"}};
    struct key keys[3];
    struct proof proofs[3];
    for (size_t i = 0; i < 3; i++) {
        struct key_builder b;
        key_begin(&b, "test/1");
        key_add_text(&b, 1, pairs[i][0]);
        key_add_text(&b, 1, pairs[i][1]);
        key_end(&b, &keys[i], &proofs[i]);
    }
    for (size_t i = 0; i < 3; i++)
        for (size_t k = 0; k < i; k++) {
            cr_expect(!key_equal(&keys[i], &keys[k]));
            cr_expect_arr_neq(proofs[i].bytes, proofs[k].bytes, sizeof proofs[i].bytes);
        }
}

Test(key, tags_and_domains_count_and_pieces_do_not)
{
    static const struct {
        const char *domain;
        uint32_t tag;
        size_t cut; /* where the text is cut into two pieces */
        bool same;
    } cases[] = {{"test/1", 1, 0, true},
                 {"test/1", 1, 3, true},
                 {"test/2", 1, 3, false},
                 {"test/1", 2, 3, false}};
    struct key base = {{0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct key_builder b;
        struct key key;
        struct proof proof;
        key_begin(&b, cases[i].domain);
        key_add_open(&b, cases[i].tag, 6);
        key_add_piece(&b, "abcdef", cases[i].cut);
        key_add_piece(&b, &"abcdef"[cases[i].cut], 6 - cases[i].cut);
        key_end(&b, &key, &proof);
        if (!i)
            base = key;
        cr_expect_eq(key_equal(&base, &key), cases[i].same, "case %zu", i);
    }
}

Test(key, text_of_a_key_comes_back)
{
    struct key key = key_of_bytes("x", 1), back;
    char text[WARM_KEY_TEXT];
    key_to_text(&key, text);
    cr_assert(key_from_text(text, strlen(text), &back));
    cr_expect(key_equal(&key, &back));
    text[0] = 'g';
    cr_expect(!key_from_text(text, strlen(text), &back));
    cr_expect(!key_from_text(text, strlen(text) - 1, &back));
}

Test(key, is_xxh3_whatever_the_processor_has)
{
    uint8_t bytes[5000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 2654435761u >> 13);
    for (size_t len = 0; len + 3 < sizeof bytes; len += len < 300 ? 1 : 61) {
        XXH128_canonical_t expected;
        const void *at = bytes + len % 4; /* at any alignment */
        XXH128_canonicalFromHash(&expected, XXH3_128bits(at, len));
        struct key key = key_of_bytes(at, len);
        cr_assert_arr_eq(key.bytes, expected.digest, sizeof key.bytes, "%zu bytes", len);
    }
}

/* XXH3 finds, SHA-256 proves: where an XXH3 is made or compared, XXH3.md says why that is enough. */
Test(key, each_use_of_xxh3_has_its_reason)
{
    char *out;
    int rc = run_command(
        &out,
        "d=$(mktemp -d) && trap 'rm -rf $d' EXIT && "
        "sed -nE 's/^\\| `([^`]+)` \\| ([0-9]+|any) \\|.*/\\1 \\2/p' keygen/XXH3.md | sort "
        ">$d/reasons && "
        "grep -rnE '\\b(key_equal|store_id_equal|key_of_bytes|XXH[0-9]+_[A-Za-z0-9_]*) *\\(' "
        "--include='*.[ch]' "
        "keygen store client daemon kernels tier | grep -vE '^[^:]*:[0-9]+: *(\\*|/\\*)' | "
        "awk -F: 'NR == FNR { split($0, r, \" \"); any[r[1]] = r[2] == \"any\"; next } { n[$1]++ } "
        "END { for (f in n) print f, any[f] ? \"any\" : n[f] }' $d/reasons - | sort >$d/uses && "
        "test $(wc -l <$d/uses) -gt 30 && diff $d/reasons $d/uses");
    cr_assert_eq(rc, 0, "XXH3.md says <, the sources have >:\n%s", out);
    free(out);
}

/* A key whose domain is a literal would not be counted when its version is raised. */
Test(key, each_domain_is_a_name_of_the_list)
{
    char *out;
    int rc = run_command(
        &out, "grep -rnE '(key|form)_begin *\\([^;]*\"|domain *= *\"' --include='*.[ch]' "
              "keygen store client daemon kernels | "
              "grep -vE '^[^:]*:[0-9]+: *(\\*|/\\*)'; test $? = 1 && "
              "test $(grep -rhoE '(key|form)_begin *\\(' --include='*.c' keygen client "
              "daemon | wc -l) -gt 20");
    cr_expect_eq(rc, 0, "a domain that is not in keygen/domains.h:\n%s", out);
    free(out);
    rc = run_command(
        &out, "all=$(sed -n '/define DOMAINS_ALL/,$p' keygen/domains.h) && "
              "test $(grep -cE '^#define DOMAIN_' keygen/domains.h) -gt 30 && "
              "for d in $(sed -nE 's/^#define (DOMAIN_[A-Z_]+) .*/\\1/p' keygen/domains.h); do "
              "case \"$d\" in DOMAIN_ADDRESS | DOMAIN_ARCHIVE) ;; "
              "*) echo \"$all\" | grep -qw $d || { echo $d; false; } ;; esac || exit 1; done");
    cr_expect_eq(rc, 0, "not in DOMAINS_ALL: %s", out);
    free(out);
}
