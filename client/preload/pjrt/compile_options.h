/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compile_options.h - the canonical form of a serialized CompileOptionsProto, for keys.
 *
 *     CompileOptionsProto ──3──▶ ExecutableBuildOptionsProto ──3──▶ DebugOptions
 *
 * The three messages are read field by field: fields in the order of their numbers, entries of a
 * map in the order of their keys (their serialized order is random). The form drops the fields of
 * DebugOptions for the writing of dumps, logs and caches. It refuses those that name files to read,
 * as fields and as overrides by name. Everything else stays byte for byte, unknown fields too.
 *
 * Thread: any; no state. Memory: the input is borrowed until the call returns.
 */
#ifndef WARM_PRELOAD_PJRT_COMPILE_OPTIONS_H
#define WARM_PRELOAD_PJRT_COMPILE_OPTIONS_H

#include <stdbool.h>

#include "keygen/key.h"

#pragma GCC visibility push(hidden)
/* Adds the fields to a key. Errors: REFUSED, MALFORMED, TOO_BIG, NOMEM; the key is then useless. */
int pjrt_options_add(struct key_builder *b, const void *data, size_t len);

/* True for a flag of $XLA_FLAGS, "--name=value", that sets a refused field. */
bool pjrt_flag_is_refused(const char *flag);
#pragma GCC visibility pop

#endif
