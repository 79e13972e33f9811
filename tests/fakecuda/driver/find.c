/* SPDX-License-Identifier: Apache-2.0 */
/*
 * find.c - cuGetProcAddress: the version of a function that a version of the interface means. Not by dlsym, which
 * may be a preloaded library's. The newest version of cuLinkAddData is invented: it shows who takes a new function
 * for an old one.
 *
 * Thread: any; no state.
 */
#include "tests/fakecuda/driver/driver.h"

extern const struct exported __start_calls[], __stop_calls[];

enum { FOUND = 0, SYMBOL_NOT_FOUND = 1, VERSION_NOT_SUFFICIENT = 2 };

/* From which version of the interface on a name means these; 0 for all others. */
static const struct {
    const char *name;
    int since;
} versions[] = {{"cuGetProcAddress", 11030},        {"cuGetProcAddress_v2", 12000},
                {"cuLinkCreate_v2", 6050},          {"cuLinkAddData_v2", 6050},
                {"cuLinkAddFile_v2", 6050},         {"cuLinkAddData_v3", 14000},
                {"cuStreamBeginCapture_v2", 10010}, {"cuDeviceGetUuid_v2", 11040},
                {"cuCtxSynchronize_v2", 13000}};

static int version_since(const char *name)
{
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
        if (strcmp(versions[i].name, name) == 0)
            return versions[i].since;
    return 0;
}

/* True if `name` is `base`, or a later version of it. */
static bool is_version_of(const char *name, const char *base)
{
    size_t len = strlen(base);
    return strncmp(name, base, len) == 0 && (!name[len] || strncmp(name + len, "_v", 2) == 0);
}

static int find(const char *name, void **out, int version, int *status)
{
    int best = -1, state = SYMBOL_NOT_FOUND;
    *out = NULL;
    for (const struct exported *n = __start_calls; n < __stop_calls; n++) {
        int since = is_version_of(n->name, name) ? version_since(n->name) : -1;
        if (since > version && state == SYMBOL_NOT_FOUND)
            state = VERSION_NOT_SUFFICIENT;
        if (since > version || since <= best)
            continue;
        memcpy(out, &n->function, sizeof *out);
        best = since;
        state = FOUND;
    }
    if (status)
        *status = state;
    return *out ? CU_SUCCESS : NOT_FOUND;
}

CALL(cuGetProcAddress, "qaspiz", (const char *name, void **out, int version, uint64_t flags), name,
     out, version, flags)
{
    (void)flags;
    return find(name, out, version, NULL);
}

CALL(cuGetProcAddress_v2, "qaspizI",
     (const char *name, void **out, int version, uint64_t flags, int *status), name, out, version,
     flags, status)
{
    (void)flags;
    return find(name, out, version, status);
}
