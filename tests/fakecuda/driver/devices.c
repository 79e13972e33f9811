/* SPDX-License-Identifier: Apache-2.0 */
/*
 * devices.c - devices of the architectures in $FAKECUDA_CC ("90", "90,80"), and contexts: the primary one of each
 * device, those that a program makes, and the stack of each thread.
 *
 * With $FAKECUDA_INIT a call before cuInit fails, and each call in a forked child, as with the real driver. Without it
 * a test may leave cuInit out.
 *
 * Thread: any; the stack of contexts belongs to a thread.
 */
#include <stdio.h>
#include <unistd.h>

#include "tests/fakecuda/driver/driver.h"

enum { DEVICES_MAX = 8, STACK_MAX = 32 };

static pid_t initialized_in;
static struct context *primary[DEVICES_MAX];
static __thread struct context *stack[STACK_MAX];
static __thread unsigned depth;

static bool driver_is_initialized(void)
{
    return initialized_in == getpid() || !*setting("FAKECUDA_INIT", "");
}

static struct context *context_current(void) { return depth ? stack[depth - 1] : NULL; }

/* Returns the compute capability of a device: 90; 0 if there is none. */
static int device_cc(int device)
{
    const char *all = setting("FAKECUDA_CC", "90");
    for (; all && device > 0; device--)
        all = strchr(all, ',') ? strchr(all, ',') + 1 : NULL;
    return all && device == 0 ? atoi(all) : 0;
}

static bool is_device(int device) { return device < DEVICES_MAX && device_cc(device) > 0; }

CALL(cuInit, ".au", (unsigned flags), flags)
{
    if (flags)
        return CU_INVALID_VALUE;
    initialized_in = getpid();
    return CU_SUCCESS;
}

CALL(cuDriverGetVersion, "qaI", (int *version), version)
{
    *version = atoi(setting("FAKECUDA_DRIVER", "13000"));
    return CU_SUCCESS;
}

/* ---- devices ---- */

CALL(cuDeviceGetCount, "qiI", (int *n), n)
{
    for (*n = 0; is_device(*n); ++*n)
        ;
    return CU_SUCCESS;
}

CALL(cuDeviceGet, "qiIi", (int *device, int ordinal), device, ordinal)
{
    *device = ordinal;
    return is_device(ordinal) ? CU_SUCCESS : INVALID_DEVICE;
}

CALL(cuDeviceGetName, "qiSii", (char *name, int len, int device), name, len, device)
{
    snprintf(name, (size_t)len, "%s %d", setting("FAKECUDA_NAME", "Stand-in"), device_cc(device));
    return is_device(device) ? CU_SUCCESS : INVALID_DEVICE;
}

/* The figures of an H100 of which programs ask: CUdevice_attribute. */
static int attribute_of(int attribute, int cc)
{
    static const int values[][2] = {
        {1, 1024},                                  /* threads of a block */
        {2, 1024},                                  /* of a dimension */
        {3, 1024},      {4, 64},    {5, INT32_MAX}, /* blocks of a grid */
        {6, 65535},     {7, 65535}, {8, 49152},     /* shared memory of a block */
        {9, 65536},                                 /* constant memory */
        {10, 32},                                   /* a warp */
        {12, 65536},                                /* registers of a block */
        {13, 1980000},                              /* clock, kHz */
        {14, 512},                                  /* alignment of textures */
        {16, 132},                                  /* multiprocessors */
        {36, 2619000},                              /* memory clock, kHz */
        {37, 5120},                                 /* memory bus, bits */
        {38, 52428800},                             /* L2 cache, bytes */
        {39, 2048},                                 /* threads of a multiprocessor */
        {41, 1},                                    /* unified addresses */
        {81, 233472},                               /* shared memory of a multiprocessor */
        {82, 65536},                                /* registers of a multiprocessor */
        {102, 1},                                   /* virtual memory */
        {97, 232448},                               /* shared memory of a block that asks for it */
        {106, 32},                                  /* blocks of a multiprocessor */
        {111, 1024},                                /* reserved shared memory of a block */
    };
    if (attribute == CU_CC_MAJOR || attribute == CU_CC_MINOR)
        return attribute == CU_CC_MAJOR ? cc / 10 : cc % 10;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (values[i][0] == attribute)
            return values[i][1];
    return 0;
}

CALL(cuDeviceGetAttribute, "qiIii", (int *value, int attribute, int device), value, attribute,
     device)
{
    *value = attribute_of(attribute, device_cc(device));
    return is_device(device) ? CU_SUCCESS : INVALID_DEVICE;
}

CALL(cuDeviceGetUuid_v2, ".ipi", (char uuid[16], int device), uuid, device)
{
    memcpy(uuid, "stand-in number ", 16);
    uuid[15] = (char)('0' + device);
    return is_device(device) ? CU_SUCCESS : INVALID_DEVICE;
}

CALL(cuDeviceTotalMem_v2, ".iZi", (size_t * out, int device), out, device)
{
    *out = strtoul(setting("FAKECUDA_MEMORY", "1073741824"), NULL, 10);
    return is_device(device) ? CU_SUCCESS : INVALID_DEVICE;
}

CALL(cuDeviceGetPCIBusId, ".iSii", (char *out, int len, int device), out, len, device)
{
    snprintf(out, (size_t)len, "0000:%02x:00.0", device + 1);
    return is_device(device) ? CU_SUCCESS : INVALID_DEVICE;
}

/* ---- contexts ---- */

static struct context *context_new(int device)
{
    struct context *c = handle_new(CONTEXT, sizeof *c);
    c->device = device;
    c->references = 1;
    return c;
}

CALL(cuDevicePrimaryCtxRetain, ".iHi", (void **out, int device), out, device)
{
    if (!is_device(device))
        return INVALID_DEVICE;
    if (!primary[device] || primary[device]->handle.is_gone)
        primary[device] = context_new(device);
    else
        primary[device]->references++;
    *out = primary[device];
    return CU_SUCCESS;
}

CALL(cuDevicePrimaryCtxRelease_v2, ".ii", (int device), device)
{
    if (!is_device(device))
        return INVALID_DEVICE;
    if (!primary[device] || primary[device]->handle.is_gone)
        return NO_CONTEXT;
    if (--primary[device]->references == 0)
        handle_end(primary[device]);
    return CU_SUCCESS;
}

CALL(cuDevicePrimaryCtxGetState, ".iiII", (int device, int *flags, int *active), device, flags,
     active)
{
    if (!is_device(device))
        return INVALID_DEVICE;
    *flags = 0;
    *active = primary[device] && !primary[device]->handle.is_gone;
    return CU_SUCCESS;
}

static int push(struct context *it)
{
    if (!it || depth == STACK_MAX)
        return NO_CONTEXT;
    stack[depth++] = it;
    return CU_SUCCESS;
}

CALL(cuCtxCreate_v2, ".iHui", (void **out, unsigned flags, int device), out, flags, device)
{
    (void)flags;
    if (!is_device(device))
        return INVALID_DEVICE;
    *out = context_new(device);
    return push(*out);
}

CALL(cuCtxDestroy_v2, ".ix", (void *it), it)
{
    struct context *c = handle_of(it, CONTEXT);
    if (!c)
        return NO_CONTEXT;
    handle_end(c);
    depth -= context_current() == c;
    return CU_SUCCESS;
}

CALL(cuCtxSetCurrent, ".ih", (void *it), it)
{
    struct context *c = handle_of(it, CONTEXT);
    if (it && !c)
        return NO_CONTEXT;
    depth -= depth > 0;
    return it ? push(c) : CU_SUCCESS;
}

CALL(cuCtxPushCurrent_v2, ".ih", (void *it), it) { return push(handle_of(it, CONTEXT)); }

CALL(cuCtxPopCurrent_v2, ".iH", (void **out), out)
{
    if (!depth)
        return NO_CONTEXT;
    depth--;
    if (out)
        *out = stack[depth];
    return CU_SUCCESS;
}

CALL(cuCtxGetCurrent, "qiH", (void **out), out)
{
    *out = context_current();
    return CU_SUCCESS;
}

CALL(cuCtxGetDevice, "qiI", (int *device), device)
{
    if (!context_current())
        return NO_CONTEXT;
    *device = context_current()->device;
    return CU_SUCCESS;
}

CALL(cuCtxGetFlags, ".cI", (int *flags), flags)
{
    *flags = 0;
    return CU_SUCCESS;
}

CALL(cuCtxGetApiVersion, ".ihI", (void *it, int *version), it, version)
{
    *version = 3020;
    return it && !handle_of(it, CONTEXT) ? NO_CONTEXT : CU_SUCCESS;
}

CALL(cuCtxGetLimit, ".cZi", (size_t * out, int limit), out, limit)
{
    *out = limit == 1 ? 1 << 20 : 1 << 10;
    return CU_SUCCESS;
}

CALL(cuCtxSetLimit, ".ciz", (int limit, size_t value), limit, value)
{
    (void)limit, (void)value;
    return CU_SUCCESS;
}

CALL(cuCtxGetStreamPriorityRange, ".cII", (int *least, int *greatest), least, greatest)
{
    if (least)
        *least = 0;
    if (greatest)
        *greatest = 0;
    return CU_SUCCESS;
}

/* ---- errors ---- */

CALL(cuGetErrorName, ".aip", (int error, const char **out), error, out)
{
    static const struct {
        int code;
        const char *name;
    } names[] = {{CU_SUCCESS, "CUDA_SUCCESS"},
                 {CU_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
                 {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
                 {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED"},
                 {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE"},
                 {CU_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE"},
                 {NO_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
                 {CU_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
                 {CU_INVALID_PTX, "CUDA_ERROR_INVALID_PTX"},
                 {FILE_NOT_FOUND, "CUDA_ERROR_FILE_NOT_FOUND"},
                 {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"},
                 {NOT_FOUND, "CUDA_ERROR_NOT_FOUND"},
                 {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"},
                 {OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
                 {CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED"},
                 {MISALIGNED_ADDRESS, "CUDA_ERROR_MISALIGNED_ADDRESS"},
                 {NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED"}};
    *out = "CUDA_ERROR_OF_THE_STAND_IN";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].code == error)
            *out = names[i].name;
    return CU_SUCCESS;
}

CALL(cuGetErrorString, ".aip", (int error, const char **out), error, out)
{
    return made_cuGetErrorName(error, out);
}

/* NVRTC asks for one, where it would find the driver's cache; the runtime for several. */
CALL(cuGetExportTable, ".app", (const void **out, const void *id), out, id)
{
    for (int i = 0; i < 16; i++)
        call_add("%s%02x", i ? "" : " ", ((const unsigned char *)id)[i]);
    *out = NULL;
    return NOT_FOUND;
}
