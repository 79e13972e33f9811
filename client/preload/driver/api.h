/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api.h - the part of the CUDA driver API that we use: a few functions, options of its JIT
 * compiler, results. Source: CUDA Driver API, https://docs.nvidia.com/cuda/cuda-driver-api.
 *
 * Thread: any, as the driver. Memory: the driver's.
 *
 *     X(field of struct driver, symbol in libcuda, result, parameters)
 */
#ifndef WARM_PRELOAD_DRIVER_API_H
#define WARM_PRELOAD_DRIVER_API_H

#include <stddef.h>
#include <stdint.h>

/* Results: success, and the errors of an image, as opposed to those of a context or of memory. */
enum cu_result {
    CU_SUCCESS = 0,
    CU_INVALID_VALUE = 1,
    CU_OUT_OF_MEMORY = 2,
    CU_INVALID_IMAGE = 200,
    CU_NO_BINARY_FOR_GPU = 209,
    CU_INVALID_SOURCE = 300,
    CU_INVALID_PTX = 218,
    CU_UNSUPPORTED_PTX = 222
};

enum cu_jit_option {
    CU_JIT_MAX_REGISTERS = 0,
    CU_JIT_INFO_LOG = 3,
    CU_JIT_INFO_LOG_SIZE = 4,
    CU_JIT_ERROR_LOG = 5,
    CU_JIT_ERROR_LOG_SIZE = 6,
    CU_JIT_OPTIMIZATION_LEVEL = 7,
    CU_JIT_TARGET_FROM_CONTEXT = 8,
    CU_JIT_TARGET = 9,
    CU_JIT_GENERATE_DEBUG_INFO = 11,
    CU_JIT_LOG_VERBOSE = 12,
    CU_JIT_GENERATE_LINE_INFO = 13
};

enum cu_jit_input { CU_JIT_INPUT_CUBIN = 0, CU_JIT_INPUT_PTX = 1 };

enum cu_device_attribute { CU_CC_MAJOR = 75, CU_CC_MINOR = 76 };

struct cu_link; /* of a CUlinkState */

#define DRIVER_LIST(X)                                                                             \
    X(driver_version, cuDriverGetVersion, (int *version))                                          \
    X(context_device, cuCtxGetDevice, (int *device))                                               \
    X(device_count, cuDeviceGetCount, (int *n))                                                    \
    X(device_get, cuDeviceGet, (int *device, int ordinal))                                         \
    X(device_name, cuDeviceGetName, (char *name, int len, int device))                             \
    X(device_attribute, cuDeviceGetAttribute, (int *value, int attribute, int device))             \
    X(module_load, cuModuleLoadData, (void **module, const void *image))                           \
    X(module_load_ex, cuModuleLoadDataEx,                                                          \
      (void **module, const void *image, unsigned n, int *options, void **values))                 \
    X(module_load_fat, cuModuleLoadFatBinary, (void **module, const void *image))                  \
    X(library_load, cuLibraryLoadData,                                                             \
      (void **library, const void *image, int *options, void **values, unsigned n,                 \
       int *library_options, void **library_values, unsigned n_library))                           \
    X(module_load_file, cuModuleLoad, (void **module, const char *path))                           \
    X(library_load_file, cuLibraryLoadFromFile,                                                    \
      (void **library, const char *path, int *options, void **values, unsigned n,                  \
       int *library_options, void **library_values, unsigned n_library))                           \
    X(link_create, cuLinkCreate_v2,                                                                \
      (unsigned n, int *options, void **values, struct cu_link **link))                            \
    X(link_add_data, cuLinkAddData_v2,                                                             \
      (struct cu_link * link, int type, void *data, size_t len, const char *name, unsigned n,      \
       int *options, void **values))                                                               \
    X(link_add_file, cuLinkAddFile_v2,                                                             \
      (struct cu_link * link, int type, const char *path, unsigned n, int *options,                \
       void **values))                                                                             \
    X(link_complete, cuLinkComplete, (struct cu_link * link, void **cubin, size_t *len))           \
    X(link_destroy, cuLinkDestroy, (struct cu_link * link))                                        \
    X(proc_address, cuGetProcAddress,                                                              \
      (const char *name, void **function, int version, uint64_t flags))                            \
    X(proc_address_v2, cuGetProcAddress_v2,                                                        \
      (const char *name, void **function, int version, uint64_t flags, int *status))

#endif
