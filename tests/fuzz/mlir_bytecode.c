/* SPDX-License-Identifier: Apache-2.0 */
/* mlir_bytecode.c - MLIR bytecode. */
#define FORM CANON_MLIR_BYTECODE
#include "tests/fuzz/form.h"
