/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pjrt_layout.c - compiles where client/preload/pjrt/api.h agrees with the header of a plugin, which
 * is in the include path: positions of functions, and offsets and sizes of arguments.
 */
#include <stdbool.h>
#include <stdio.h>

#include "pjrt_c_api.h"

/* Its types have the same names but for their case; ours come second. */
#include "client/preload/pjrt/api.h"

#define X(name, position, c_name)                                                                  \
    _Static_assert(offsetof(PJRT_Api, c_name) ==                                                   \
                       offsetof(struct pjrt_api, fn) + (position) * sizeof(pjrt_function),         \
                   #c_name);
PJRT_SLOT_LIST(X)
#undef X

#define SAME(ours, our_field, theirs, their_field)                                                 \
    _Static_assert(offsetof(struct ours, our_field) == offsetof(theirs, their_field),              \
                   #theirs "." #their_field)
#define SIZE(ours, theirs)                                                                         \
    _Static_assert(sizeof(struct ours) == (size_t)theirs##_STRUCT_SIZE, #theirs)

SAME(pjrt_api, extensions, PJRT_Api, extension_start);
SAME(pjrt_api, version.major, PJRT_Api, pjrt_api_version.major_version);
SAME(pjrt_api, version.minor, PJRT_Api, pjrt_api_version.minor_version);
_Static_assert(PJRT_MAJOR == PJRT_API_MAJOR && PJRT_MINOR_MIN <= PJRT_API_MINOR, "versions");

SAME(pjrt_extension, type, PJRT_Extension_Base, type);
SAME(pjrt_extension, next, PJRT_Extension_Base, next);
_Static_assert((int)PJRT_EXTENSION_FFI == (int)PJRT_Extension_Type_FFI, "FFI");
_Static_assert((int)PJRT_EXTENSION_GPU_CUSTOM_CALL == (int)PJRT_Extension_Type_Gpu_Custom_Call,
               "GPU custom calls");

SIZE(pjrt_object_args, PJRT_Error_Destroy_Args);
SAME(pjrt_object_args, object, PJRT_Error_Destroy_Args, error);
SIZE(pjrt_object_args, PJRT_Executable_Destroy_Args);
SAME(pjrt_object_args, object, PJRT_Executable_Destroy_Args, executable);

SIZE(pjrt_text_args, PJRT_Client_PlatformName_Args);
SAME(pjrt_text_args, object, PJRT_Client_PlatformName_Args, client);
SAME(pjrt_text_args, text, PJRT_Client_PlatformName_Args, platform_name);
SAME(pjrt_text_args, len, PJRT_Client_PlatformName_Args, platform_name_size);
SIZE(pjrt_text_args, PJRT_Client_PlatformVersion_Args);
SAME(pjrt_text_args, text, PJRT_Client_PlatformVersion_Args, platform_version);
SAME(pjrt_text_args, len, PJRT_Client_PlatformVersion_Args, platform_version_size);
SIZE(pjrt_text_args, PJRT_DeviceDescription_Kind_Args);
SAME(pjrt_text_args, object, PJRT_DeviceDescription_Kind_Args, device_description);
SAME(pjrt_text_args, text, PJRT_DeviceDescription_Kind_Args, device_kind);
SAME(pjrt_text_args, len, PJRT_DeviceDescription_Kind_Args, device_kind_size);

SAME(pjrt_process_index_args, client, PJRT_Client_ProcessIndex_Args, client);
SAME(pjrt_process_index_args, process_index, PJRT_Client_ProcessIndex_Args, process_index);
_Static_assert(sizeof(struct pjrt_process_index_args) >= PJRT_Client_ProcessIndex_Args_STRUCT_SIZE,
               "PJRT_Client_ProcessIndex_Args");
SIZE(pjrt_devices_args, PJRT_Client_Devices_Args);
SAME(pjrt_devices_args, devices, PJRT_Client_Devices_Args, devices);
SAME(pjrt_devices_args, n_devices, PJRT_Client_Devices_Args, num_devices);
SIZE(pjrt_devices_args, PJRT_Client_AddressableDevices_Args);
SAME(pjrt_devices_args, devices, PJRT_Client_AddressableDevices_Args, addressable_devices);
SAME(pjrt_devices_args, n_devices, PJRT_Client_AddressableDevices_Args, num_addressable_devices);
SIZE(pjrt_description_args, PJRT_Device_GetDescription_Args);
SAME(pjrt_description_args, device, PJRT_Device_GetDescription_Args, device);
SAME(pjrt_description_args, description, PJRT_Device_GetDescription_Args, device_description);

SIZE(pjrt_program, PJRT_Program);
SAME(pjrt_program, code, PJRT_Program, code);
SAME(pjrt_program, code_len, PJRT_Program, code_size);
SAME(pjrt_program, format, PJRT_Program, format);
SAME(pjrt_program, format_len, PJRT_Program, format_size);
SIZE(pjrt_compile_args, PJRT_Client_Compile_Args);
SAME(pjrt_compile_args, client, PJRT_Client_Compile_Args, client);
SAME(pjrt_compile_args, program, PJRT_Client_Compile_Args, program);
SAME(pjrt_compile_args, options, PJRT_Client_Compile_Args, compile_options);
SAME(pjrt_compile_args, options_len, PJRT_Client_Compile_Args, compile_options_size);
SAME(pjrt_compile_args, executable, PJRT_Client_Compile_Args, executable);

SIZE(pjrt_deserialize_args, PJRT_Executable_DeserializeAndLoad_Args);
SAME(pjrt_deserialize_args, client, PJRT_Executable_DeserializeAndLoad_Args, client);
SAME(pjrt_deserialize_args, data, PJRT_Executable_DeserializeAndLoad_Args, serialized_executable);
SAME(pjrt_deserialize_args, len, PJRT_Executable_DeserializeAndLoad_Args,
     serialized_executable_size);
SAME(pjrt_deserialize_args, executable, PJRT_Executable_DeserializeAndLoad_Args, loaded_executable);
SAME(pjrt_deserialize_args, options, PJRT_Executable_DeserializeAndLoad_Args,
     overridden_serialized_compile_options);
SAME(pjrt_deserialize_args, options_len, PJRT_Executable_DeserializeAndLoad_Args,
     overridden_serialized_compile_options_size);

SIZE(pjrt_get_executable_args, PJRT_LoadedExecutable_GetExecutable_Args);
SAME(pjrt_get_executable_args, loaded, PJRT_LoadedExecutable_GetExecutable_Args, loaded_executable);
SAME(pjrt_get_executable_args, executable, PJRT_LoadedExecutable_GetExecutable_Args, executable);
SIZE(pjrt_serialize_args, PJRT_Executable_Serialize_Args);
SAME(pjrt_serialize_args, executable, PJRT_Executable_Serialize_Args, executable);
SAME(pjrt_serialize_args, data, PJRT_Executable_Serialize_Args, serialized_bytes);
SAME(pjrt_serialize_args, len, PJRT_Executable_Serialize_Args, serialized_bytes_size);
SAME(pjrt_serialize_args, serialized, PJRT_Executable_Serialize_Args, serialized_executable);
SAME(pjrt_serialize_args, free_serialized, PJRT_Executable_Serialize_Args,
     serialized_executable_deleter);

int main(void)
{
    printf("pjrt/api.h agrees with version %d.%d\n", PJRT_API_MAJOR, PJRT_API_MINOR);
    return 0;
}
