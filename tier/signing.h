/* SPDX-License-Identifier: Apache-2.0 */
/*
 * signing.h - Ed25519 keys in the format of Nix: NAME:BASE64, of 64 bytes if it is secret, of 32 if it is
 * public.
 *
 * Several public keys may be trusted at once: a new key is trusted before the old one stops signing, and a
 * key that is taken off the list is revoked.
 *
 * Thread: any; no state after signing_init. Memory: embedded by its user.
 */
#ifndef WARM_TIER_SIGNING_H
#define WARM_TIER_SIGNING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keygen/bytes.h"
#include "keygen/err.h"

#define SIGNATURE_SIZE 64
#define KEY_NAME_MAX 64u /* bytes, NUL included */
#define KEY_TEXT_MAX 200u
#define TRUSTED_MAX 16u

struct signing_key {
    char name[KEY_NAME_MAX];
    uint8_t secret[64];
};
struct trusted_key {
    char name[KEY_NAME_MAX];
    uint8_t public[32];
};
struct trusted_keys {
    struct trusted_key key[TRUSTED_MAX];
    size_t n;
};

/* Makes the library ready; to be called first. False if it cannot be. */
bool signing_init(void);

/* True for a key's name: 1 to 63 printable bytes of ASCII, and neither blanks nor colons. */
bool signing_is_name(struct view name);

/* Makes a key of this name. INVALID: it is no name. */
int signing_make(const char *name, struct signing_key *out, struct err *e);
/* Reads "NAME:BASE64" of a secret key; blanks at its end are ignored. INVALID. */
int signing_read(const char *text, struct signing_key *out, struct err *e);
/* Reads a secret key from a file that nobody else can read. IO, INVALID; DENIED: others can read it. */
int signing_read_file(const char *path, struct signing_key *out, struct err *e);
/* Writes a secret key as text. */
void signing_write(const struct signing_key *key, char out[KEY_TEXT_MAX]);
/* Writes a public key as text. */
void signing_write_public(const struct trusted_key *key, char out[KEY_TEXT_MAX]);
/* Returns the public half. */
struct trusted_key signing_public(const struct signing_key *key);
/* Adds "NAME:BASE64" of a public key. INVALID; TOO_BIG: there are TRUSTED_MAX. */
int signing_trust(struct trusted_keys *all, const char *text, struct err *e);
/* Signs bytes. */
void signing_sign(const struct signing_key *key, const void *data, size_t len,
                  uint8_t out[SIGNATURE_SIZE]);
/* Finds the next trusted key of a name after `last` (NULL: the first); NULL if there is none. Two may have one name. */
const struct trusted_key *signing_find(const struct trusted_keys *all, struct view name,
                                       const struct trusted_key *last);
/* True if the key signed these bytes. */
bool signing_verify(const struct trusted_key *key, const void *data, size_t len,
                    const uint8_t signature[SIGNATURE_SIZE]);

#endif
