/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tier_signing.c - keys and signatures: the key signs just these bytes, and texts that are no keys are
 * refused. The first vector of RFC 8032, section 7.1, is the golden one.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/support.h"
#include "tier/signing.h"

/* Seed and public key of the RFC, and the signature of no bytes. */
static const char rfc_secret[] = "rfc:nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDus"
                                 "Axyuf2DXWpgBgrEKt9VL/tPJZAc6DuFy89qmIyWvAhpo9wdRGg==";
static const char rfc_public[] = "rfc:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";
static const uint8_t rfc_signature[SIGNATURE_SIZE] = {
    0xe5, 0x56, 0x43, 0x00, 0xc3, 0x60, 0xac, 0x72, 0x90, 0x86, 0xe2, 0xcc, 0x80, 0x6e, 0x82, 0x8a,
    0x84, 0x87, 0x7f, 0x1e, 0xb8, 0xe5, 0xd9, 0x74, 0xd8, 0x73, 0xe0, 0x65, 0x22, 0x49, 0x01, 0x55,
    0x5f, 0xb8, 0x82, 0x15, 0x90, 0xa3, 0x3b, 0xac, 0xc6, 0x1e, 0x39, 0x70, 0x1c, 0xf9, 0xb4, 0x6b,
    0xd2, 0x5b, 0xf5, 0xf0, 0x59, 0x5b, 0xbe, 0x24, 0x65, 0x51, 0x41, 0x43, 0x8e, 0x7a, 0x10, 0x0b};

static struct signing_key key;
static struct trusted_keys trusted;
static struct err e;

static void setup(void) { cr_assert(signing_init()); }
TestSuite(tier_signing, .init = setup);

Test(tier_signing, keys_and_signatures_are_those_of_the_rfc)
{
    char text[KEY_TEXT_MAX];
    uint8_t signature[SIGNATURE_SIZE];
    cr_assert_eq(signing_read(rfc_secret, &key, &e), 0, "%s", e.text);
    cr_expect_str_eq(key.name, "rfc");
    signing_write(&key, text);
    cr_expect_str_eq(text, rfc_secret);
    struct trusted_key public = signing_public(&key);
    signing_write_public(&public, text);
    cr_expect_str_eq(text, rfc_public);
    signing_sign(&key, "", 0, signature);
    cr_expect_eq(memcmp(signature, rfc_signature, sizeof signature), 0);
    cr_expect(signing_verify(&public, "", 0, rfc_signature));
}

Test(tier_signing, a_signature_is_of_one_key_and_one_text)
{
    struct signing_key other;
    uint8_t signature[SIGNATURE_SIZE];
    cr_assert_eq(signing_make("one", &key, &e), 0);
    cr_assert_eq(signing_make("two", &other, &e), 0);
    struct trusted_key one = signing_public(&key), two = signing_public(&other);
    cr_expect_neq(memcmp(one.public, two.public, sizeof one.public), 0, "each is new");
    signing_sign(&key, "bytes", 5, signature);
    cr_expect(signing_verify(&one, "bytes", 5, signature));
    cr_expect_not(signing_verify(&two, "bytes", 5, signature));
    cr_expect_not(signing_verify(&one, "bytes", 4, signature));
    cr_expect_not(signing_verify(&one, "Bytes", 5, signature));
    for (size_t i = 0; i < sizeof signature; i++) {
        signature[i] ^= 1;
        cr_expect_not(signing_verify(&one, "bytes", 5, signature), "byte %zu", i);
        signature[i] ^= 1;
    }
}

/* ---- names ---- */

Test(tier_signing, a_name_is_printable_and_has_no_blank_or_colon)
{
    static const char *const bad[] = {"", " ", "a b", "a:b", "a\n", "\x7f", "\xc3\xa9", "a\t"};
    char name[KEY_NAME_MAX + 1];
    cr_expect(signing_is_name(view_of_text("node-1.example_2~!")));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_expect_not(signing_is_name(view_of_text(bad[i])), "%s", bad[i]);
        cr_expect_eq(signing_make(bad[i], &key, &e), WARM_EINVALID, "%s", bad[i]);
    }
    memset(name, 'n', sizeof name);
    cr_expect(signing_is_name((struct view){name, KEY_NAME_MAX - 1}));
    cr_expect_not(signing_is_name((struct view){name, KEY_NAME_MAX}));
    name[KEY_NAME_MAX - 1] = '\0';
    cr_assert_eq(signing_make(name, &key, &e), 0);
    char text[KEY_TEXT_MAX];
    struct signing_key again;
    signing_write(&key, text); /* the longest that there is */
    cr_assert_eq(signing_read(text, &again, &e), 0, "%s", e.text);
    cr_expect_str_eq(again.name, name);
}

/* ---- texts ---- */

static int trust(const char *text)
{
    trusted.n = 0;
    return signing_trust(&trusted, text, &e);
}

Test(tier_signing, blanks_at_the_end_of_a_key_are_ignored)
{
    char text[KEY_TEXT_MAX];
    snprintf(text, sizeof text, "%s \t\r\n", rfc_public);
    cr_expect_eq(trust(text), 0, "%s", e.text);
    snprintf(text, sizeof text, "%s\n", rfc_secret);
    cr_expect_eq(signing_read(text, &key, &e), 0, "%s", e.text);
}

Test(tier_signing, a_text_that_is_no_key_is_refused)
{
    static const char *const bad[] = {
        "",
        "rfc",
        ":11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=",
        " rfc:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=",
        "rfc:",
        "rfc: 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=",
        "rfc:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHUR",       /* cut off */
        "rfc:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo",      /* no padding */
        "rfc:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo==",    /* too much of it */
        "rfc:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHUQ==",     /* 31 bytes */
        "rfc:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURoA",     /* 33 bytes */
        "rfc:11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo=",     /* another alphabet */
        "rfc:11qYAYKxCrfVS/7TyWQH Og7hcvPapiMlrwIaaPcHURo=",    /* a blank inside */
        "rfc:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo= x",   /* a second word */
        "rfc:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\nx:", /* a second line */
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_expect_eq(trust(bad[i]), WARM_EINVALID, "%s", bad[i]);
        cr_expect_eq(trusted.n, 0);
    }
    cr_expect_eq(trust(rfc_secret), WARM_EINVALID, "a secret key is none to trust");
    cr_expect_eq(signing_read(rfc_public, &key, &e), WARM_EINVALID, "nor the other way round");
}

Test(tier_signing, a_secret_key_whose_halves_do_not_fit_is_refused)
{
    char text[KEY_TEXT_MAX];
    strcpy(text, rfc_secret);
    text[sizeof rfc_secret - 10]++; /* of the public half */
    cr_expect_eq(signing_read(text, &key, &e), WARM_EINVALID);
    cr_expect_not_null(strstr(e.text, "the halves of the key rfc do not fit"), "%s", e.text);
}

/* ---- files ---- */

Test(tier_signing, a_file_that_others_can_read_or_write_is_refused)
{
    static const mode_t good[] = {0600, 0400, 0700}, bad[] = {0640, 0604, 0620, 0602, 0644, 0666};
    char *dir = temp_dir_new(), *path = path_join(dir, "key");
    file_write(path, rfc_secret, sizeof rfc_secret - 1);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        cr_assert_eq(chmod(path, good[i]), 0);
        cr_expect_eq(signing_read_file(path, &key, &e), 0, "%o: %s", good[i], e.text);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_assert_eq(chmod(path, bad[i]), 0);
        cr_expect_eq(signing_read_file(path, &key, &e), WARM_EDENIED, "%o", bad[i]);
    }
    free(path);
    temp_dir_free(dir);
}

Test(tier_signing, what_is_no_file_with_a_key_is_an_error)
{
    char *dir = temp_dir_new(), *path = path_join(dir, "key"), *pipe = path_join(dir, "pipe");
    cr_expect_eq(signing_read_file(path, &key, &e), WARM_EIO);
    cr_expect_eq(signing_read_file(dir, &key, &e), WARM_EIO, "a folder");
    cr_assert_eq(mkfifo(pipe, 0600), 0);
    cr_expect_eq(signing_read_file(pipe, &key, &e), WARM_EINVALID, "it does not hang");
    file_write(path, "", 0);
    chmod(path, 0600);
    cr_expect_eq(signing_read_file(path, &key, &e), WARM_EINVALID);
    file_write(path, rfc_public, sizeof rfc_public - 1);
    cr_expect_eq(signing_read_file(path, &key, &e), WARM_EINVALID);
    free(path), free(pipe);
    temp_dir_free(dir);
}

/* ---- several keys ---- */

Test(tier_signing, a_trusted_key_is_found_by_its_whole_name)
{
    char text[KEY_TEXT_MAX];
    for (unsigned i = 0; i < TRUSTED_MAX; i++) {
        snprintf(text, sizeof text, "node-%u%s", i, strchr(rfc_public, ':'));
        cr_assert_eq(signing_trust(&trusted, text, &e), 0, "%s", e.text);
    }
    cr_expect_eq(signing_trust(&trusted, rfc_public, &e), WARM_ETOO_BIG);
    cr_expect_eq(trusted.n, TRUSTED_MAX);
    cr_expect_eq(signing_find(&trusted, view_of_text("node-1"), NULL), &trusted.key[1]);
    cr_expect_eq(signing_find(&trusted, view_of_text("node-15"), NULL), &trusted.key[15]);
    cr_expect_null(signing_find(&trusted, view_of_text("node-"), NULL));
    cr_expect_null(signing_find(&trusted, view_of_text("node-16"), NULL));
    cr_expect_null(signing_find(&trusted, view_of_text("rfc"), NULL));
    cr_expect_null(signing_find(&trusted, view_of_text(""), NULL));
}
