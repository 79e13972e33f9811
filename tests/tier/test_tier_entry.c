/* SPDX-License-Identifier: Apache-2.0 */
/* test_tier_entry.c - an entry beyond the machine counts only if a trusted key signed just these bytes. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tier/entry.h"

static struct signing_key key;
static struct trusted_keys trusted;
static const struct key some_key = {"0123456789abcde"};
static const struct proof some_proof = {"0123456789abcdef0123456789abcde"};

static void setup(void)
{
    char text[KEY_TEXT_MAX];
    cr_assert(signing_init());
    cr_assert_eq(signing_make("cluster-1", &key, NULL), 0);
    struct trusted_key public = signing_public(&key);
    signing_write_public(&public, text);
    trusted.n = 0;
    cr_assert_eq(signing_trust(&trusted, text, NULL), 0);
}

TestSuite(tier_entry, .init = setup);

static struct tier_entry sample(const char *value)
{
    return (struct tier_entry){
        .kind = 1,
        .key = some_key,
        .proof_hash = proof_of_bytes(some_proof.bytes, sizeof some_proof.bytes),
        .len = strlen(value),
        .check = key_of_bytes(value, strlen(value)),
        .content = proof_of_bytes(value, strlen(value)),
        .cost_ms = 700,
        .created_ms = 1700000000000,
        .space = view_of_text("made"),
        .hardware = view_of_text("sm_90"),
        .compiler_text = view_of_text("NVRTC 13.5"),
        .is_inline = true,
        .value = view_of_text(value),
    };
}

static struct writer written(const struct tier_entry *entry)
{
    struct writer w;
    writer_init(&w, 0);
    entry_write(entry, &key, &w);
    cr_assert_not(w.failed);
    return w;
}

Test(tier_entry, what_was_written_is_read)
{
    struct tier_entry in = sample("value"), out;
    struct writer w = written(&in);
    const struct trusted_key *by;
    struct err e = {0};
    cr_assert_eq(entry_read(w.data, w.len, &trusted, &out, &by, &e), 0, "%s", e.text);
    cr_assert_str_eq(by->name, "cluster-1");
    cr_assert(entry_is(&out, view_of_text("made"), &some_key, &some_proof));
    cr_assert(entry_has_value(&out, out.value.data, out.value.len));
    cr_assert_eq(out.cost_ms, 700);
    cr_assert_eq(out.created_ms, 1700000000000);
    cr_assert_eq(out.hardware.len, 5);
    cr_assert_lt(w.len - out.len, ENTRY_HEAD_MAX);
    writer_close(&w);
}

/* A key is replaced, and the new one has the name of the old. */
Test(tier_entry, two_trusted_keys_of_one_name_both_count)
{
    char text[KEY_TEXT_MAX];
    struct signing_key second;
    cr_assert_eq(signing_make("cluster-1", &second, NULL), 0);
    struct trusted_key public = signing_public(&second);
    signing_write_public(&public, text);
    cr_assert_eq(signing_trust(&trusted, text, NULL), 0);
    for (size_t i = 0; i < 2; i++) {
        struct tier_entry in = sample("value"), out;
        struct writer w = written(&in);
        const struct trusted_key *by;
        struct err e = {0};
        cr_assert_eq(entry_read(w.data, w.len, &trusted, &out, &by, &e), 0, "%s", e.text);
        cr_expect_eq(by, &trusted.key[i]);
        writer_close(&w);
        key = second;
    }
}

/* Threat model: whoever may write the bucket. */
Test(tier_entry, each_flipped_byte_is_refused)
{
    struct tier_entry in = sample("value"), out;
    struct writer w = written(&in);
    const struct trusted_key *by;
    for (size_t i = 0; i < w.len; i++)
        for (unsigned bit = 0; bit < 8; bit += 7) {
            w.data[i] ^= (uint8_t)(1u << bit);
            bool counts = entry_read(w.data, w.len, &trusted, &out, &by, NULL) == 0 &&
                          entry_is(&out, view_of_text("made"), &some_key, &some_proof) &&
                          entry_has_value(&out, out.value.data, out.value.len);
            cr_assert_not(counts, "byte %zu", i);
            w.data[i] ^= (uint8_t)(1u << bit);
        }
    for (size_t len = 0; len < w.len; len++)
        cr_assert_neq(entry_read(w.data, len, &trusted, &out, &by, NULL), 0, "%zu bytes", len);
    writer_close(&w);
}

Test(tier_entry, hostile_name_of_a_key_does_not_reach_the_log)
{
    struct tier_entry in = sample("value"), out;
    struct writer w = written(&in);
    const struct trusted_key *by;
    struct err e = {0};
    uint8_t *name = memmem(w.data, w.len, key.name, strlen(key.name));
    cr_assert_not_null(name);
    name[1] = 'x';
    cr_assert_eq(entry_read(w.data, w.len, &trusted, &out, &by, &e), WARM_EDENIED);
    cr_assert(strstr(e.text, "unknown key c"), "%s", e.text);
    name[1] = '\n';
    cr_assert_eq(entry_read(w.data, w.len, &trusted, &out, &by, &e), WARM_EDENIED);
    cr_assert_str_eq(e.text, "signature of a key without a proper name");
    writer_close(&w);
}

Test(tier_entry, another_key_of_the_same_name_is_refused)
{
    struct tier_entry in = sample("value"), out;
    const struct trusted_key *by;
    struct err e = {0};
    cr_assert_eq(signing_make("cluster-1", &key, NULL), 0);
    struct writer w = written(&in);
    cr_assert_eq(entry_read(w.data, w.len, &trusted, &out, &by, &e), WARM_EDENIED);
    writer_close(&w);
    cr_assert_eq(signing_make("ci-2", &key, NULL), 0);
    w = written(&in);
    cr_assert_eq(entry_read(w.data, w.len, &trusted, &out, &by, &e), WARM_EDENIED);
    cr_assert(strstr(e.text, "unknown key ci-2"), "%s", e.text);
    writer_close(&w);
}

Test(tier_entry, an_entry_of_another_key_proof_or_space_is_another)
{
    struct tier_entry in = sample("value");
    struct key other = some_key;
    struct proof other_proof = some_proof;
    char name[ENTRY_NAME], again[ENTRY_NAME];
    other.bytes[15] ^= 1;
    other_proof.bytes[31] ^= 1;
    cr_assert_not(entry_is(&in, view_of_text("made"), &other, &some_proof));
    cr_assert_not(entry_is(&in, view_of_text("made"), &some_key, &other_proof));
    cr_assert_not(entry_is(&in, view_of_text("own"), &some_key, &some_proof));
    entry_name(view_of_text("made"), &some_key, &some_proof, name);
    cr_assert_eq(strlen(name), 69);
    entry_name(view_of_text("made"), &some_key, &other_proof, again);
    cr_assert_str_neq(name, again);
    entry_name(view_of_text("own"), &some_key, &some_proof, again);
    cr_assert_str_neq(name, again);
}

Test(tier_entry, keys_are_written_as_nix_writes_them)
{
    char text[KEY_TEXT_MAX], path[] = "/tmp/warm-key-XXXXXX";
    struct signing_key again;
    struct err e = {0};
    signing_write(&key, text);
    cr_assert_eq(strlen(text), strlen("cluster-1:") + 88);
    cr_assert_eq(signing_read(text, &again, &e), 0, "%s", e.text);
    cr_assert_eq(memcmp(again.secret, key.secret, sizeof key.secret), 0);
    int fd = mkstemp(path);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    cr_assert_eq(write(fd, "\n", 1), 1);
    cr_assert_eq(signing_read_file(path, &again, &e), 0, "%s", e.text);
    fchmod(fd, 0644);
    cr_assert_eq(signing_read_file(path, &again, &e), WARM_EDENIED);
    close(fd);
    unlink(path);
    static const char *const wrong[] = {"",         "name",      "name:",  ":AAAA",
                                        "a b:AAAA", "name:AAAA", "name:!!"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        cr_assert_eq(signing_read(wrong[i], &again, &e), WARM_EINVALID, "%s", wrong[i]);
        cr_assert_eq(signing_trust(&trusted, wrong[i], &e), WARM_EINVALID, "%s", wrong[i]);
    }
    text[20] ^= 1; /* the halves do not fit any more */
    cr_assert_eq(signing_read(text, &again, &e), WARM_EINVALID);
}
