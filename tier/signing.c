/* SPDX-License-Identifier: Apache-2.0 */
/*
 * signing.c - makes, reads and uses Ed25519 keys, with libsodium: EVP of libcrypto would add 3.8 MB to each
 * static program. entry.c calls it to sign and to verify.
 *
 * Thread: any.
 */
#include "tier/signing.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(SIGNATURE_SIZE == crypto_sign_BYTES, "Ed25519");
_Static_assert(sizeof((struct signing_key *)0)->secret == crypto_sign_SECRETKEYBYTES, "Ed25519");
_Static_assert(sizeof((struct trusted_key *)0)->public == crypto_sign_PUBLICKEYBYTES, "Ed25519");

bool signing_init(void) { return sodium_init() >= 0; }

bool signing_is_name(struct view name)
{
    const char *text = name.data;
    for (size_t i = 0; i < name.len; i++)
        if (text[i] <= ' ' || text[i] > '~' || text[i] == ':')
            return false;
    return name.len > 0 && name.len < KEY_NAME_MAX;
}

/* Reads NAME:BASE64 of exactly `len` bytes. */
static int read_text(const char *text, char name[KEY_NAME_MAX], uint8_t *out, size_t len,
                     struct err *e)
{
    const char *colon = strchr(text, ':'), *end;
    size_t name_len = colon ? (size_t)(colon - text) : 0, got;
    if (!colon || !signing_is_name((struct view){text, name_len}))
        return err_set(
            e, WARM_EINVALID,
            "a key is written NAME:BASE64, in tier_trusted, tier_revoked and tier_key's file");
    size_t text_len = strcspn(colon + 1, " \t\r\n");
    if (colon[1 + text_len + strspn(colon + 1 + text_len, " \t\r\n")] != '\0' ||
        sodium_base642bin(out, len, colon + 1, text_len, NULL, &got, &end,
                          sodium_base64_VARIANT_ORIGINAL) != 0 ||
        got != len || end != colon + 1 + text_len)
        return err_set(e, WARM_EINVALID, "the key %.*s is not %zu bytes of base64", (int)name_len,
                       text, len);
    memcpy(name, text, name_len);
    name[name_len] = '\0';
    return 0;
}

static void write_text(const char *name, const uint8_t *key, size_t len, char out[KEY_TEXT_MAX])
{
    int at = snprintf(out, KEY_TEXT_MAX, "%s:", name);
    sodium_bin2base64(out + at, KEY_TEXT_MAX - (size_t)at, key, len,
                      sodium_base64_VARIANT_ORIGINAL);
}

int signing_make(const char *name, struct signing_key *out, struct err *e)
{
    uint8_t public[crypto_sign_PUBLICKEYBYTES];
    if (!signing_is_name(view_of_text(name)))
        return err_set(e, WARM_EINVALID,
                       "the name of a key has 1 to %u letters, and neither blanks nor colons",
                       KEY_NAME_MAX - 1);
    snprintf(out->name, sizeof out->name, "%s", name);
    crypto_sign_keypair(public, out->secret);
    return 0;
}

int signing_read(const char *text, struct signing_key *out, struct err *e)
{
    uint8_t again[64], public[32];
    int code = read_text(text, out->name, out->secret, sizeof out->secret, e);
    if (code)
        return code;
    /* A key whose halves do not fit would make signatures that nobody can verify. */
    crypto_sign_seed_keypair(public, again, out->secret);
    return memcmp(again, out->secret, sizeof again) == 0
               ? 0
               : err_set(e, WARM_EINVALID, "the halves of the key %s do not fit", out->name);
}

int signing_read_file(const char *path, struct signing_key *out, struct err *e)
{
    char text[KEY_TEXT_MAX] = "";
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) != 0) {
        int code = err_sys(e, WARM_EIO, errno, "cannot read the key %s", path);
        if (fd >= 0)
            close(fd);
        return code;
    }
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (st.st_mode & (S_IRGRP | S_IROTH | S_IWGRP | S_IWOTH))
        return err_set(e, WARM_EDENIED, "others can read or write the key %s: chmod 0400", path);
    if (n < 0)
        return err_set(e, WARM_EIO, "cannot read the key %s", path);
    int code = signing_read(text, out, e);
    sodium_memzero(text, sizeof text);
    return code;
}

void signing_write(const struct signing_key *key, char out[KEY_TEXT_MAX])
{
    write_text(key->name, key->secret, sizeof key->secret, out);
}

void signing_write_public(const struct trusted_key *key, char out[KEY_TEXT_MAX])
{
    write_text(key->name, key->public, sizeof key->public, out);
}

struct trusted_key signing_public(const struct signing_key *key)
{
    struct trusted_key out = {{0}, {0}};
    memcpy(out.name, key->name, sizeof out.name);
    crypto_sign_ed25519_sk_to_pk(out.public, key->secret);
    return out;
}

int signing_trust(struct trusted_keys *all, const char *text, struct err *e)
{
    if (all->n == TRUSTED_MAX)
        return err_set(e, WARM_ETOO_BIG, "more than %u trusted keys", TRUSTED_MAX);
    struct trusted_key *key = &all->key[all->n];
    int code = read_text(text, key->name, key->public, sizeof key->public, e);
    if (code == 0)
        all->n++;
    return code;
}

void signing_sign(const struct signing_key *key, const void *data, size_t len,
                  uint8_t out[SIGNATURE_SIZE])
{
    crypto_sign_detached(out, NULL, data, len, key->secret);
}

const struct trusted_key *signing_find(const struct trusted_keys *all, struct view name,
                                       const struct trusted_key *last)
{
    for (size_t i = last ? (size_t)(last - all->key) + 1 : 0; i < all->n; i++)
        if (strlen(all->key[i].name) == name.len &&
            memcmp(all->key[i].name, name.data, name.len) == 0)
            return &all->key[i];
    return NULL;
}

bool signing_verify(const struct trusted_key *key, const void *data, size_t len,
                    const uint8_t signature[SIGNATURE_SIZE])
{
    return crypto_sign_verify_detached(signature, data, len, key->public) == 0;
}
