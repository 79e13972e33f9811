/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlir_ops.h - what the canonical form knows of MLIR operations, for the text and the bytecode.
 *
 * Two facts for an operation: its traits, and which attributes say what their absence says.
 *
 * Thread: any; no state. Memory: none.
 */
#ifndef WARM_KEYGEN_MLIR_OPS_H
#define WARM_KEYGEN_MLIR_OPS_H

#include <stdbool.h>
#include <stddef.h>

/* Of an operation that no table names: nothing is known of it. */
#define MLIR_UNKNOWN_OP (GRAPH_EFFECT | GRAPH_DELICATE)

/* Traits (enum graph_trait) of an operation by its full name, "stablehlo.add"; MLIR_UNKNOWN_OP for
 * one that is not in the table. Those of commuting operations hold as mlir_type_traits says. */
unsigned mlir_op_traits(const char *name, size_t len);

/* `traits` as they hold for values of this (tensor) type. Integers: GRAPH_COMMUTES alone, nothing rounds
 * them. Real floats: both, and neither without GRAPH_FUSES: of two zeros some compilers give one by
 * its place for their maximum. Not complex numbers, whose product is a sum of products that may be
 * fused either way. */
unsigned mlir_type_traits(const char *type, size_t len, unsigned traits);

/* True if attribute `key` with canonical text `value` on operation `op` is the default, which the
 * printed forms may leave out: has_side_effect = false and the like. Such an entry is not put into
 * the dictionary. Also true for what is dropped by name: jax.result_info. */
bool mlir_attr_is_default(const char *op, size_t op_len, const char *key, size_t key_len,
                          const char *value, size_t value_len);

#endif
