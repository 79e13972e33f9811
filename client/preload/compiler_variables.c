/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compiler_variables.c - the list of these variables, as families of names. The stand-ins of NVRTC, nvJitLink, libNVVM
 * and the driver call it.
 *
 * Source: the names that the libraries of 12.9.86 and 13.5.37 gave to getenv. The four share their code.
 *
 *     FINALIZER_USE_LEGACY_ELF_BUILDER    other cubins
 *     LLVM_OVERRIDE_PRODUCER              other LTO IR
 *     FINALIZER_CUBIE                     a file is written
 *     NVJITLINK_TRACE_MESSAGES            more lines in the log
 *     NV_NVVM_VERSION, NVVM_IR_VER_CHK    other inputs are refused
 *
 * Thread: any; no state.
 */
#include "client/preload/compiler_variables.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "keygen/bytes.h"

/* True for members of a family that tell where LLVM is, and for those that set only how many threads work. */
static bool is_harmless(struct view name)
{
    static const char *const names[] = {
        "LLVM_CONFIG",
        "LLVM_DIR",
        "LLVM_HOME",
        "LLVM_PATH",
        "LLVM_PROFILE_FILE",
        "LLVM_ROOT",
        "LLVM_SYMBOLIZER_PATH",
        "LLVM_SYSPATH",
        "LLVM_VERSION",
        "LIBNVVM_DISABLE_CONCURRENT_API",
        "NVRTC_DISABLE_CONCURRENT_NVVM",
        "NVRTC_INTERNAL_GLOBAL_LOCK",
        "NUMBAPRO_NVVM",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (view_is(name, names[i]))
            return true;
    return false;
}

const char *compiler_variables_find(void)
{
    static const char *const families[] = {"NVRTC_", "NVJITLINK_", "FINALIZER_", "CAN_FINALIZE_",
                                           "PTXAS_", "OCG_",       "EDG_",       "CICC_",
                                           "LLVM_",  "DUMP_KNOBS", "AS_SECURE_"};
    for (char **variable = environ; variable && *variable; variable++) {
        const char *end = strchr(*variable, '=');
        struct view name = {*variable, end ? (size_t)(end - *variable) : 0};
        bool is_one = name.len && memmem(name.data, name.len, "NVVM", 4);
        for (size_t i = 0; end && i < sizeof families / sizeof *families; i++)
            is_one |= view_begins(name, families[i]);
        if (is_one && !is_harmless(name))
            return *variable;
    }
    return NULL;
}
