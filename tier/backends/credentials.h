/* SPDX-License-Identifier: Apache-2.0 */
/*
 * credentials.h - who we are to the tier's server, as files and the environment of warm-tier say.
 *
 *     tier_credentials = FILE      lines "name = value"; # begins a comment
 *         user, password           Redis, HTTP
 *         token                    HTTP: a bearer's token
 *         access_key, secret_key, session_token      S3
 *         certificate, key         files: what the client shows in TLS
 *         proxy                    http://[USER:PASSWORD@]HOST:PORT
 *
 * A FILE without a slash is one of systemd's LoadCredential=, in $CREDENTIALS_DIRECTORY. A file that others can read
 * is refused.
 *
 * Thread: any. Memory: struct credentials owns nothing; credentials_wipe forgets its secrets.
 */
#ifndef WARM_TIER_BACKENDS_CREDENTIALS_H
#define WARM_TIER_BACKENDS_CREDENTIALS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

struct credentials {
    char user[128], password[1024], token[4096];
    char access_key[160], secret_key[160], session_token[4096];
    char certificate[PATH_MAX], key[PATH_MAX], proxy[512];
    time_t expires; /* 0: nobody said */
    char from[64];  /* where the keys of S3 are from, for a person */
};

/* Reads a file. NULL and "" are no file, and leave `out` empty. False with one line in `why` if it cannot be used. */
bool credentials_read_file(const char *file, struct credentials *out, char *why, size_t why_size);

/* Adds the keys of S3 from the environment, or else from a profile, to `out` if it has none. `profile`: NULL for
 * $AWS_PROFILE or "default". False with one line in `why` if one is named and is not there, or is half there. */
bool credentials_read_aws(const char *profile, struct credentials *out, char *why, size_t why_size);

/* Writes the region that the environment or the profile names. False if there is none. */
bool credentials_read_region(const char *profile, char *out, size_t cap);

/* Forgets all secrets. */
void credentials_wipe(struct credentials *c);

#endif
