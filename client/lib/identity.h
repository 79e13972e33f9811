/* SPDX-License-Identifier: Apache-2.0 */
/*
 * identity.h - the parts of a file's identity, as warm_file_identity writes it.
 *
 * Thread: any; no state. Memory: none.
 */
#ifndef WARM_LIB_IDENTITY_H
#define WARM_LIB_IDENTITY_H

#include <stdbool.h>

#include "client/lib/warm.h"
#include "keygen/key.h"

/* Reads the SHA-256 of an identity. False if the text is none. */
bool identity_sha256(const char identity[WARM_IDENTITY_TEXT], struct proof *out);

#endif
