/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch_value.h - the values of PyTorch's remote caches, taken apart for the store and put together
 * again for the client.
 *
 *     over RESP   {"data": "gASV…base64 of a pickle…", "time_taken_ms": 30499}
 *                            │ decoded once                         │
 *     stored      00 "torch1" 0A, the pickle          the row's cost_ms
 *
 * So equal pickles are stored once whatever their time was, three quarters as large, and eviction
 * knows their cost. A value that would not come back byte for byte is not taken apart. Clients of the
 * native protocol send and get the stored form (client/python/warm/torch.py).
 *
 * Thread: any; no state. Memory: all of it is the caller's.
 */
#ifndef WARM_DAEMON_PYTORCH_TORCH_VALUE_H
#define WARM_DAEMON_PYTORCH_TORCH_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keygen/bytes.h"

#define TORCH_VALUE_MAGIC 8u         /* bytes before the pickle */
#define TORCH_VALUE_MAX (4u << 20)   /* bytes of JSON: a longer value is stored as it came */
#define TORCH_VALUE_WRAPPING_MAX 64u /* bytes of JSON around the base64 */

/* True for the names of PyTorch's caches. */
bool torch_value_is_name(struct view name);
/* True if these bytes are the stored form. */
bool torch_value_is_stored(const void *data, size_t len);

/* Writes the stored form of `json` into `out`, which has room for TORCH_VALUE_MAGIC + json.len
 * bytes. Returns its length, with the time in *out_cost_ms; 0 if it cannot be taken apart. */
size_t torch_value_take_apart(struct view json, uint8_t *out, uint32_t *out_cost_ms);

/* Returns the length of the JSON that a stored form of `len` bytes becomes. */
size_t torch_value_json_len(size_t len, uint32_t cost_ms);
/* Writes that JSON: exactly torch_value_json_len bytes. */
void torch_value_put_together(const uint8_t *stored, size_t len, uint32_t cost_ms, uint8_t *out);

/* That JSON in pieces: TORCH_VALUE_HEAD, then the pickle's base64 (3 bytes become 4 letters), then the end
 * that torch_value_end writes. */
#define TORCH_VALUE_HEAD "{\"data\": \""
/* Writes the end of the JSON; returns its length. */
size_t torch_value_end(uint32_t cost_ms, char out[static TORCH_VALUE_WRAPPING_MAX]);
/* Returns the length of the base64 of `len` bytes. */
uint64_t torch_value_encoded_len(uint64_t len);
/* Writes the base64 of these bytes. */
void torch_value_encode(const uint8_t *in, size_t len, uint8_t *out);

#define TORCH_VALUE_FX_KEY 52u
/* Finds the next key of an FX graph ("f" and 51 letters of base32) in an AOTAutograd entry, from
 * *at on. Empty: there is none. */
struct view torch_value_next_fx_key(struct view entry, size_t *at);

#endif
