/* SPDX-License-Identifier: Apache-2.0 */
/*
 * xla_ffi.h - the part of the C interface of XLA's FFI that a handler needs: the frame of a call.
 *
 *     struct ffi_frame ─┬─ api         XLA's functions: an error, the stream, the number of the device
 *                       ├─ extensions  at registration: what the handler is, to be filled in
 *                       ├─ arguments, results ──▶ struct ffi_buffer
 *                       └─ attributes  of the call, by name
 *
 * Every struct begins with its own size. Three lists and a version stand inside of other structs: what is behind them
 * moves if they grow, so their sizes must be these.
 *
 * Source: xla/ffi/api/c_api.h, which jaxlib has in its folder `include`. tests/clients/xla_ffi_layout.c compares.
 *
 * Thread: the one that XLA calls from. Memory: XLA's, until the handler returns.
 */
#ifndef WARM_LIB_XLA_FFI_H
#define WARM_LIB_XLA_FFI_H

#include <stddef.h>
#include <stdint.h>

/* The version that the handlers name: the oldest that XLA takes. It has all that is here but the device's number. */
#define FFI_MAJOR 0
#define FFI_MINOR 1
#define FFI_MINOR_ORDINAL 2 /* the first version whose every jaxlib has it */

/* Returns the bytes of a struct up to the end of a field, as XLA counts them. */
#define FFI_SIZE(type, last) (offsetof(struct type, last) + sizeof((struct type *)0)->last)

struct ffi_error;
struct ffi_context;

struct ffi_extension {
    size_t struct_size;
    int type;
    struct ffi_extension *next;
};
enum { FFI_EXTENSION_METADATA = 1 };

struct ffi_version {
    size_t struct_size;
    struct ffi_extension *extensions;
    int major, minor;
};
struct ffi_metadata {
    size_t struct_size;
    struct ffi_version version;
    uint32_t traits;
};
struct ffi_metadata_extension {
    struct ffi_extension base;
    struct ffi_metadata *metadata;
};

enum {
    FFI_INVALID_ARGUMENT = 3,
    FFI_NOT_FOUND = 5,
    FFI_FAILED_PRECONDITION = 9,
    FFI_INTERNAL = 13
};
struct ffi_error_args {
    size_t struct_size;
    struct ffi_extension *extensions;
    const char *message; /* is copied */
    int code;
};
struct ffi_stream_args {
    size_t struct_size;
    struct ffi_extension *extensions;
    struct ffi_context *context;
    void *stream; /* out: a CUstream */
};
struct ffi_ordinal_args {
    size_t struct_size;
    struct ffi_extension *extensions;
    struct ffi_context *context;
    int32_t ordinal; /* out: CUDA's number of the GPU */
};
struct ffi_api {
    size_t struct_size;
    struct ffi_extension *extensions;
    struct ffi_version version;
    const void *internal;
    struct ffi_error *(*error_create)(struct ffi_error_args *);
    void (*others[3])(void);
    struct ffi_error *(*stream_get)(struct ffi_stream_args *);
    void (*more[12])(void);
    struct ffi_error *(*ordinal_get)(struct ffi_ordinal_args *); /* see FFI_MINOR_ORDINAL */
};

enum { FFI_BUFFER = 1 };           /* the type of an argument, or of a result */
enum { FFI_ATTRIBUTE_STRING = 4 }; /* the type of an attribute */

/* Numbers of the element types that compiled graphs have, with StableHLO's names. */
#define FFI_ELEMENTS(X)                                                                            \
    X("i1", 1, PRED)                                                                               \
    X("i8", 2, S8)                                                                                 \
    X("i16", 3, S16)                                                                               \
    X("i32", 4, S32)                                                                               \
    X("i64", 5, S64)                                                                               \
    X("ui8", 6, U8)                                                                                \
    X("ui16", 7, U16)                                                                              \
    X("ui32", 8, U32)                                                                              \
    X("ui64", 9, U64)                                                                              \
    X("f16", 10, F16)                                                                              \
    X("f32", 11, F32)                                                                              \
    X("f64", 12, F64)                                                                              \
    X("bf16", 16, BF16)

struct ffi_buffer {
    size_t struct_size;
    struct ffi_extension *extensions;
    int element;
    void *data;
    int64_t rank;
    int64_t *dims; /* outermost first; row-major, if the call did not ask for another layout */
};
struct ffi_values { /* arguments, or results */
    size_t struct_size;
    struct ffi_extension *extensions;
    int64_t n;
    int *types;
    void **at;
};
struct ffi_text {
    const char *at;
    size_t len;
};
struct ffi_attributes {
    size_t struct_size;
    struct ffi_extension *extensions;
    int64_t n;
    int *types;
    struct ffi_text **names;
    void **at;
};

enum { FFI_EXECUTE = 3 }; /* the stage in which buffers have their contents */
struct ffi_frame {
    size_t struct_size;
    struct ffi_extension *extensions;
    const struct ffi_api *api;
    struct ffi_context *context;
    int stage;
    struct ffi_values arguments, results;
    struct ffi_attributes attributes;
};

#endif
