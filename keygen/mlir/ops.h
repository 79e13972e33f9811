/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ops.h - what the canonical form knows of MLIR operations, for the text and the bytecode.
 *
 * Two facts for an operation: whether it is pure, and which attributes say what their absence says.
 *
 * Thread: any; no state. Memory: none.
 */
#ifndef WARM_KEYGEN_MLIR_OPS_H
#define WARM_KEYGEN_MLIR_OPS_H

#include <stdbool.h>
#include <stddef.h>

enum mlir_op {
    MLIR_OP_UNKNOWN,
    MLIR_OP_KNOWN, /* printed in one of the usual ways */
    MLIR_OP_PURE   /* and it depends on its operands alone, without an effect */
};

/* Of an operation by its full name, "stablehlo.add". */
enum mlir_op mlir_op_of(const char *name, size_t len);

/* True if attribute `key` with canonical text `value` on operation `op` is the default, which the
 * printed forms may leave out: has_side_effect = false and the like. Such an entry is not put into
 * the dictionary. Also true for what is dropped by name: jax.result_info. */
bool mlir_attr_is_default(const char *op, size_t op_len, const char *key, size_t key_len,
                          const char *value, size_t value_len);

#endif
