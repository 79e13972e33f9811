/* SPDX-License-Identifier: Apache-2.0 */
/*
 * signers.h - whose signatures count, whether there is a tier or not: the own key and tier_trusted, without
 * tier_revoked.
 *
 * A row names its signer by a number. The record "tier.signers" of the store has each number's whole key, n times:
 * u32 number, 32 bytes. A number is drawn at random when its key is first trusted, so no key can be made to have
 * the number of another. The store refuses a row whose number is not that of a key which counts (store_trust). So a
 * key that is revoked, or trusted no more, ends its hits before the first request, and so does a lost record.
 *
 *     start ──▶ keys of the settings ──▶ numbers ──▶ store_trust
 *                                          └─ if the record differs: all rows are read, and refused ones removed
 *
 * Thread: loop thread. Memory: signers_free frees it.
 */
#ifndef WARM_DAEMON_NODES_SIGNERS_H
#define WARM_DAEMON_NODES_SIGNERS_H

#include <uv.h>

#include "daemon/process/config.h"
#include "store/store.h"
#include "tier/signing.h"

#define SIGNERS_MAX 64u /* in the record */

struct signer {
    uint32_t number; /* as in struct store_row */
    uint8_t public[32];
};

struct signers {
    uv_loop_t *loop;
    struct store *store;
    struct signing_key key; /* the own one, which signs */
    bool has_key;
    struct trusted_keys trusted;  /* by the settings; */
    bool is_revoked[TRUSTED_MAX]; /* such a one does not count */
    struct signer table[SIGNERS_MAX];
    size_t n;
    struct signers_sweep *sweep; /* NULL: it is over, or was not needed */
};

/* Reads the keys of the settings, and tells the store whose entries count. Without a tier, keys that cannot be read
 * are logged, and none counts. With one: INVALID, DENIED, IO: a key cannot be read. NOMEM. */
int signers_new(struct signers **out, const struct config *c, struct store *store, uv_loop_t *loop,
                struct err *e);
/* Ends the sweep. NULL is fine. */
void signers_close(struct signers *s);
/* Frees all. NULL is fine. */
void signers_free(struct signers *s);

/* Returns the number of a trusted key; 0 if it is revoked. */
uint32_t signers_number(const struct signers *s, const struct trusted_key *key);
/* Finds the name of a number's key, for people: hex digits if it is not trusted. */
void signers_name(const struct signers *s, uint32_t number, char out[KEY_NAME_MAX]);

#endif
