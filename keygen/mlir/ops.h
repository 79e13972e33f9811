/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ops.h - the facts about MLIR operations that the canonical form uses, for the text and the bytecode.
 *
 * There are two for each operation: whether its spelling is known, and which attributes the form drops.
 *
 * Thread: any; no state. Memory: none.
 */
#ifndef WARM_KEYGEN_MLIR_OPS_H
#define WARM_KEYGEN_MLIR_OPS_H

#include <stdbool.h>
#include <stddef.h>

/* True if an operation is printed in one of the usual ways. `name` is the full one, "stablehlo.add". */
bool mlir_op_is_known(const char *name, size_t len);

/* True if the form drops attribute `key` with the canonical text `value` of operation `op`. `op` NULL:
 * of an argument or a result of a function. `value` NULL: true if the value does not matter. */
bool mlir_attr_is_dropped(const char *op, size_t op_len, const char *key, size_t key_len,
                          const char *value, size_t value_len);

#endif
