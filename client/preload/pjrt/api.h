/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api.h - the part of the PJRT C API that we use: a plugin's table of functions, and the arguments
 * of a few of them.
 *
 *     GetPjrtApi() ──▶ struct pjrt_api: size, extensions, version, fn[0], fn[1], …
 *     fn[PJRT_CLIENT_COMPILE](args) ──▶ NULL, or an error that PJRT_ERROR_DESTROY frees
 *
 * Every struct begins with its own size, so that either side can tell how much the other knows.
 * Source: the interface's documentation, https://openxla.org/xla/pjrt; the positions and sizes are
 * checked against a plugin's own header by tests/clients/pjrt_layout.c.
 *
 * Thread: any, as the plugin. Memory: the plugin's; its strings live as long as the client.
 */
#ifndef WARM_PRELOAD_PJRT_API_H
#define WARM_PRELOAD_PJRT_API_H

#include <stddef.h>
#include <stdint.h>

/* The versions that were tested. Within a major version the interface only grows at its ends.
 * Plugins of other versions are passed through. */
#define PJRT_MAJOR 0
#define PJRT_MINOR_MIN 81
#define PJRT_MINOR_MAX 115

struct pjrt_error;
struct pjrt_client;
struct pjrt_device;
struct pjrt_device_description;
struct pjrt_executable;
struct pjrt_loaded_executable;
struct pjrt_serialized_executable;

struct pjrt_extension {
    size_t struct_size;
    int type;
    struct pjrt_extension *next;
};
enum pjrt_extension_type { PJRT_EXTENSION_GPU_CUSTOM_CALL = 0, PJRT_EXTENSION_FFI = 5 };

typedef void (*pjrt_function)(void);
typedef struct pjrt_error *(*pjrt_call)(void *args);

struct pjrt_version {
    size_t struct_size;
    struct pjrt_extension *extensions;
    int major, minor;
};
struct pjrt_api {
    size_t struct_size;
    struct pjrt_extension *extensions;
    struct pjrt_version version;
    pjrt_function fn[];
};

/* Positions in `fn`, and the names of the functions as the interface has them. */
#define PJRT_SLOT_LIST(X)                                                                          \
    X(ERROR_DESTROY, 0, PJRT_Error_Destroy)                                                        \
    X(CLIENT_PLATFORM_NAME, 12, PJRT_Client_PlatformName)                                          \
    X(CLIENT_PROCESS_INDEX, 13, PJRT_Client_ProcessIndex)                                          \
    X(CLIENT_PLATFORM_VERSION, 14, PJRT_Client_PlatformVersion)                                    \
    X(CLIENT_DEVICES, 15, PJRT_Client_Devices)                                                     \
    X(CLIENT_ADDRESSABLE_DEVICES, 16, PJRT_Client_AddressableDevices)                              \
    X(CLIENT_COMPILE, 20, PJRT_Client_Compile)                                                     \
    X(DEVICE_DESCRIPTION_ATTRIBUTES, 25, PJRT_DeviceDescription_Attributes)                        \
    X(DEVICE_DESCRIPTION_KIND, 26, PJRT_DeviceDescription_Kind)                                    \
    X(DEVICE_GET_DESCRIPTION, 29, PJRT_Device_GetDescription)                                      \
    X(EXECUTABLE_DESTROY, 40, PJRT_Executable_Destroy)                                             \
    X(EXECUTABLE_SERIALIZE, 49, PJRT_Executable_Serialize)                                         \
    X(LOADED_EXECUTABLE_GET_EXECUTABLE, 51, PJRT_LoadedExecutable_GetExecutable)                   \
    X(EXECUTABLE_DESERIALIZE_AND_LOAD, 56, PJRT_Executable_DeserializeAndLoad)
enum pjrt_slot {
#define X(name, position, c_name) PJRT_##name = (position),
    PJRT_SLOT_LIST(X)
#undef X
};

/* Every arguments struct begins with this. */
struct pjrt_head {
    size_t struct_size;
    struct pjrt_extension *extensions;
};
/* Error_Destroy, Executable_Destroy: one object goes in. */
struct pjrt_object_args {
    struct pjrt_head head;
    void *object;
};
/* Client_PlatformName, Client_PlatformVersion, DeviceDescription_Kind: a text comes out. */
struct pjrt_text_args {
    struct pjrt_head head;
    void *object;
    const char *text;
    size_t len;
};
/* PJRT_NamedValue; of its kinds of values only a string is read. */
struct pjrt_named_value {
    struct pjrt_head head;
    const char *name;
    size_t name_len;
    int type; /* 0: a string */
    union {
        const char *text;
        int64_t number;
    } value;
    size_t len;
};
/* DeviceDescription_Attributes: borrowed from the description. */
struct pjrt_attributes_args {
    struct pjrt_head head;
    void *description;
    size_t n_attributes;
    const struct pjrt_named_value *attributes;
};
struct pjrt_process_index_args {
    struct pjrt_head head;
    struct pjrt_client *client;
    int process_index;
};
/* Client_Devices, Client_AddressableDevices: borrowed from the client. */
struct pjrt_devices_args {
    struct pjrt_head head;
    struct pjrt_client *client;
    struct pjrt_device *const *devices;
    size_t n_devices;
};
struct pjrt_description_args {
    struct pjrt_head head;
    struct pjrt_device *device;
    struct pjrt_device_description *description;
};
struct pjrt_program {
    struct pjrt_head head;
    char *code;
    size_t code_len;
    const char *format; /* "mlir": bytecode or text; "hlo": a serialized module */
    size_t format_len;
};
struct pjrt_compile_args {
    struct pjrt_head head;
    struct pjrt_client *client;
    const struct pjrt_program *program;
    const char *options; /* serialized CompileOptionsProto */
    size_t options_len;
    struct pjrt_loaded_executable *executable; /* out */
};
struct pjrt_deserialize_args {
    struct pjrt_head head;
    struct pjrt_client *client;
    const char *data;
    size_t len;
    struct pjrt_loaded_executable *executable; /* out */
    const char *options;                       /* NULL: those that were serialized */
    size_t options_len;
};
struct pjrt_get_executable_args {
    struct pjrt_head head;
    struct pjrt_loaded_executable *loaded;
    struct pjrt_executable *executable; /* out */
};
struct pjrt_serialize_args {
    struct pjrt_head head;
    const struct pjrt_executable *executable;
    const char *data; /* out; lives as long as `serialized` */
    size_t len;
    struct pjrt_serialized_executable *serialized;
    void (*free_serialized)(struct pjrt_serialized_executable *serialized); /* out */
};

/* The extensions through which handlers of custom calls are registered; both begin alike. */
struct pjrt_register_args {
    size_t struct_size;
    const char *target;
    size_t target_len;
    int api_version;
};
struct pjrt_gpu_extension {
    struct pjrt_extension base;
    struct pjrt_error *(*register_call)(struct pjrt_register_args *args);
};
struct pjrt_ffi_extension {
    struct pjrt_extension base;
    pjrt_function type_register, user_data_add;
    struct pjrt_error *(*register_call)(struct pjrt_register_args *args);
};

#endif
