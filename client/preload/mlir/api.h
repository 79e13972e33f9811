/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api.h - the part of MLIR's C API that we use (mlir-c/IR.h, mlir-c/Pass.h): the functions of one
 * library that has it, found by name. Handles are pointers in structs; names are MLIR's, shortened.
 *
 * Thread: as MLIR: one at a time for each context. Memory: the library's.
 */
#ifndef WARM_PRELOAD_MLIR_API_H
#define WARM_PRELOAD_MLIR_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    void *ptr;
} mlir_context, mlir_module, mlir_operation, mlir_region, mlir_block, mlir_attribute,
    mlir_identifier, mlir_pass_manager, mlir_op_pass_manager;
typedef struct {
    int8_t value; /* 0: failure */
} mlir_result;
typedef struct {
    const char *data;
    size_t len;
} mlir_text;
typedef struct {
    mlir_identifier name;
    mlir_attribute attribute;
} mlir_named;
typedef void (*mlir_print_fn)(mlir_text text, void *user);

/* X(type of the result, our name, MLIR's name, parameters) */
#define MLIR_FUNCTIONS(X)                                                                          \
    X(mlir_result, run, "mlirPassManagerRunOnOp", (mlir_pass_manager, mlir_operation))             \
    X(mlir_op_pass_manager, passes_of, "mlirPassManagerGetAsOpPassManager", (mlir_pass_manager))   \
    X(void, print_passes, "mlirPrintPassPipeline", (mlir_op_pass_manager, mlir_print_fn, void *))  \
    X(mlir_context, context_of, "mlirOperationGetContext", (mlir_operation))                       \
    X(mlir_identifier, name_of, "mlirOperationGetName", (mlir_operation))                          \
    X(mlir_text, text_of, "mlirIdentifierStr", (mlir_identifier))                                  \
    X(void, print, "mlirOperationPrint", (mlir_operation, mlir_print_fn, void *))                  \
    X(void, destroy, "mlirOperationDestroy", (mlir_operation))                                     \
    X(intptr_t, n_regions, "mlirOperationGetNumRegions", (mlir_operation))                         \
    X(intptr_t, n_results, "mlirOperationGetNumResults", (mlir_operation))                         \
    X(mlir_region, region, "mlirOperationGetRegion", (mlir_operation, intptr_t))                   \
    X(mlir_operation, next, "mlirOperationGetNextInBlock", (mlir_operation))                       \
    X(void, remove, "mlirOperationRemoveFromParent", (mlir_operation))                             \
    X(intptr_t, n_attributes, "mlirOperationGetNumAttributes", (mlir_operation))                   \
    X(mlir_named, attribute_at, "mlirOperationGetAttribute", (mlir_operation, intptr_t))           \
    X(mlir_attribute, attribute, "mlirOperationGetAttributeByName", (mlir_operation, mlir_text))   \
    X(void, set_attribute, "mlirOperationSetAttributeByName",                                      \
      (mlir_operation, mlir_text, mlir_attribute))                                                 \
    X(bool, remove_attribute, "mlirOperationRemoveAttributeByName", (mlir_operation, mlir_text))   \
    X(bool, attribute_equal, "mlirAttributeEqual", (mlir_attribute, mlir_attribute))               \
    X(mlir_block, first_block, "mlirRegionGetFirstBlock", (mlir_region))                           \
    X(void, take_body, "mlirRegionTakeBody", (mlir_region, mlir_region))                           \
    X(mlir_block, next_block, "mlirBlockGetNextInRegion", (mlir_block))                            \
    X(mlir_operation, first, "mlirBlockGetFirstOperation", (mlir_block))                           \
    X(void, append, "mlirBlockAppendOwnedOperation", (mlir_block, mlir_operation))                 \
    X(mlir_module, parse, "mlirModuleCreateParse", (mlir_context, mlir_text))                      \
    X(mlir_operation, module_operation, "mlirModuleGetOperation", (mlir_module))                   \
    X(void, module_destroy, "mlirModuleDestroy", (mlir_module))

struct mlir_api {
#define X(type, name, symbol, parameters) type(*name) parameters;
    MLIR_FUNCTIONS(X)
#undef X
};

#endif
