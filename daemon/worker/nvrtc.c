/* SPDX-License-Identifier: Apache-2.0 */
/* nvrtc.c - loads libnvrtc and looks up what nvrtc.fn lists. Main thread. */
#include "daemon/worker/nvrtc.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

/* dlsym gives an object pointer; ISO C wants it copied, not cast, into a function pointer. */
static bool find(void *library, const char *symbol, void *out_function)
{
    void *found = dlsym(library, symbol);
    memcpy(out_function, &found, sizeof found);
    return found != NULL;
}

int nvrtc_open(struct nvrtc *out, const char *library, const char *builtins, struct err *e)
{
    if (*builtins && !dlopen(builtins, RTLD_LAZY | RTLD_LOCAL))
        return err_set(e, WARM_ENO_TOOLCHAIN, "cannot load: %s", dlerror());
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return err_set(e, WARM_ENO_TOOLCHAIN, "cannot load: %s", dlerror());
    const char *missing = NULL;
#define FN(name, parameters)                                                                       \
    if (!find(handle, "nvrtc" #name, &out->name))                                                  \
        missing = "nvrtc" #name;
#define FN_OPTIONAL(name, parameters) find(handle, "nvrtc" #name, &out->name);
#include "daemon/worker/nvrtc.fn"
#undef FN
#undef FN_OPTIONAL
    if (missing)
        return err_set(e, WARM_ENO_TOOLCHAIN, "%s has no %s", library, missing);
    int rc = out->Version(&out->major, &out->minor);
    if (rc)
        return err_set(e, WARM_ENO_TOOLCHAIN, "%s: nvrtcVersion says %d", library, rc);
    return 0;
}
