/* SPDX-License-Identifier: Apache-2.0 */
/*
 * xla_ffi_layout.c - compiles where client/lib/xla_ffi.h agrees with the header of a jaxlib, which is in the include
 * path: offsets, sizes and numbers. What XLA has since version 0.2 is compared from there on.
 */
#include <stdio.h>

#include "xla/ffi/api/c_api.h"

#include "client/lib/xla_ffi.h"

#define SAME(ours, our_field, theirs, their_field)                                                 \
    _Static_assert(offsetof(struct ours, our_field) == offsetof(theirs, their_field) &&            \
                       sizeof((struct ours *)0)->our_field == sizeof((theirs *)0)->their_field,    \
                   #theirs "." #their_field)
#define SIZE(ours, theirs) _Static_assert(sizeof(struct ours) == sizeof(theirs), #theirs)
#define NUMBER(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)

_Static_assert(FFI_MAJOR == XLA_FFI_API_MAJOR && FFI_MINOR <= XLA_FFI_API_MINOR, "versions");

SIZE(ffi_extension, XLA_FFI_Extension_Base);
SAME(ffi_extension, type, XLA_FFI_Extension_Base, type);
SAME(ffi_extension, next, XLA_FFI_Extension_Base, next);
NUMBER(FFI_EXTENSION_METADATA, XLA_FFI_Extension_Metadata);

typedef struct XLA_FFI_Api_Version version;
SIZE(ffi_version, version);
SAME(ffi_version, major, version, major_version);
SAME(ffi_version, minor, version, minor_version);
typedef struct XLA_FFI_Metadata metadata;
SAME(ffi_metadata, version, metadata, api_version);
SAME(ffi_metadata, traits, metadata, traits);
SAME(ffi_metadata_extension, metadata, struct XLA_FFI_Metadata_Extension, metadata);
SIZE(ffi_metadata_extension, struct XLA_FFI_Metadata_Extension);

NUMBER(FFI_INVALID_ARGUMENT, XLA_FFI_Error_Code_INVALID_ARGUMENT);
NUMBER(FFI_NOT_FOUND, XLA_FFI_Error_Code_NOT_FOUND);
NUMBER(FFI_FAILED_PRECONDITION, XLA_FFI_Error_Code_FAILED_PRECONDITION);
NUMBER(FFI_INTERNAL, XLA_FFI_Error_Code_INTERNAL);
SAME(ffi_error_args, message, XLA_FFI_Error_Create_Args, message);
SAME(ffi_error_args, code, XLA_FFI_Error_Create_Args, errc);
NUMBER(FFI_SIZE(ffi_error_args, code), XLA_FFI_Error_Create_Args_STRUCT_SIZE);
SAME(ffi_stream_args, context, XLA_FFI_Stream_Get_Args, ctx);
SAME(ffi_stream_args, stream, XLA_FFI_Stream_Get_Args, stream);
NUMBER(FFI_SIZE(ffi_stream_args, stream), XLA_FFI_Stream_Get_Args_STRUCT_SIZE);

SAME(ffi_api, version, XLA_FFI_Api, api_version);
SAME(ffi_api, error_create, XLA_FFI_Api, XLA_FFI_Error_Create);
SAME(ffi_api, stream_get, XLA_FFI_Api, XLA_FFI_Stream_Get);
#if XLA_FFI_API_MINOR >= FFI_MINOR_ORDINAL
SAME(ffi_api, ordinal_get, XLA_FFI_Api, XLA_FFI_DeviceOrdinal_Get);
SAME(ffi_ordinal_args, context, XLA_FFI_DeviceOrdinal_Get_Args, ctx);
SAME(ffi_ordinal_args, ordinal, XLA_FFI_DeviceOrdinal_Get_Args, device_ordinal);
NUMBER(FFI_SIZE(ffi_ordinal_args, ordinal), XLA_FFI_DeviceOrdinal_Get_Args_STRUCT_SIZE);
#endif

NUMBER(FFI_BUFFER, XLA_FFI_ArgType_BUFFER);
NUMBER(FFI_BUFFER, XLA_FFI_RetType_BUFFER);
NUMBER(FFI_ATTRIBUTE_STRING, XLA_FFI_AttrType_STRING);
#define X(element, number, name) NUMBER(number, XLA_FFI_DataType_##name);
FFI_ELEMENTS(X)
#undef X

SAME(ffi_buffer, element, XLA_FFI_Buffer, dtype);
SAME(ffi_buffer, data, XLA_FFI_Buffer, data);
SAME(ffi_buffer, rank, XLA_FFI_Buffer, rank);
SAME(ffi_buffer, dims, XLA_FFI_Buffer, dims);
SIZE(ffi_values, XLA_FFI_Args);
SAME(ffi_values, n, XLA_FFI_Args, size);
SAME(ffi_values, types, XLA_FFI_Args, types);
SAME(ffi_values, at, XLA_FFI_Args, args);
SIZE(ffi_values, XLA_FFI_Rets);
SAME(ffi_values, n, XLA_FFI_Rets, size);
SAME(ffi_values, types, XLA_FFI_Rets, types);
SAME(ffi_values, at, XLA_FFI_Rets, rets);
typedef struct XLA_FFI_ByteSpan span;
SIZE(ffi_text, span);
SAME(ffi_text, at, span, ptr);
SAME(ffi_text, len, span, len);
SIZE(ffi_attributes, XLA_FFI_Attrs);
SAME(ffi_attributes, n, XLA_FFI_Attrs, size);
SAME(ffi_attributes, types, XLA_FFI_Attrs, types);
SAME(ffi_attributes, names, XLA_FFI_Attrs, names);
SAME(ffi_attributes, at, XLA_FFI_Attrs, attrs);

NUMBER(FFI_EXECUTE, XLA_FFI_ExecutionStage_EXECUTE);
SAME(ffi_frame, extensions, XLA_FFI_CallFrame, extension_start);
SAME(ffi_frame, api, XLA_FFI_CallFrame, api);
SAME(ffi_frame, context, XLA_FFI_CallFrame, ctx);
SAME(ffi_frame, stage, XLA_FFI_CallFrame, stage);
SAME(ffi_frame, arguments, XLA_FFI_CallFrame, args);
SAME(ffi_frame, results, XLA_FFI_CallFrame, rets);
SAME(ffi_frame, attributes, XLA_FFI_CallFrame, attrs);

int main(void)
{
    printf("xla_ffi.h agrees with version %d.%d\n", XLA_FFI_API_MAJOR, XLA_FFI_API_MINOR);
    return 0;
}
