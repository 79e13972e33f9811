/* SPDX-License-Identifier: Apache-2.0 */
/*
 * aws_identity.h - the keys that sign requests to S3, from the first source that has some:
 *
 *     tier_credentials ─▶ AWS_ACCESS_KEY_ID ─▶ profile ─▶ container's endpoint ─▶ EC2's (IMDSv2)
 *     └──── files and variables: read again each minute ────┘ └── over HTTP: again before they expire ──┘
 *
 * Thread: loop thread. Memory: keys are the identity's, and change at the next call.
 */
#ifndef WARM_TIER_BACKENDS_AWS_IDENTITY_H
#define WARM_TIER_BACKENDS_AWS_IDENTITY_H

#include "tier/backends/credentials.h"
#include "tier/backends/transfer.h"

struct aws_identity;

enum aws_identity_state {
    AWS_IDENTITY_READY,
    AWS_IDENTITY_ASKED, /* an endpoint is asked; `changed` is called when it has answered */
    AWS_IDENTITY_NONE,
};

/* Makes one. `file` and `profile` may be NULL; they and `pool` are borrowed until aws_identity_free. */
struct aws_identity *aws_identity_new(struct transfer_pool *pool, const char *file,
                                      const char *profile, void (*changed)(void *user), void *user);
/* Frees it and forgets the keys. The pool must have ended its transfers. */
void aws_identity_free(struct aws_identity *identity);

/* Returns the keys in *out if READY, else one line in `why` if NONE. */
enum aws_identity_state aws_identity_get(struct aws_identity *identity,
                                         const struct credentials **out, char *why,
                                         size_t why_size);

/* Looks for newer keys at the next call: the server refused these. */
void aws_identity_doubt(struct aws_identity *identity);

#endif
