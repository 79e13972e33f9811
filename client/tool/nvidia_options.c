/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvidia_options.c - decides which options of cicc, nvlink and fatbinary a kept run may have: a
 * table for each tool. nvidia.c looks every argument up.
 *
 * The options of the tables change code alone and count as they are written. The value of one that
 * ends in '=' stands behind it; '*' at the end stands for anything. Options that write other files,
 * print more than warnings, or read options from a file are missing here, and refused.
 *
 * Source: nvcc --dryrun with each of nvcc's own options, of 13.0 and 13.5; `nvlink --help` and
 * `fatbinary --help` of 13.0.
 *
 * Thread: any; no state.
 */
#include "client/tool/nvidia_options.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

static const char *const cicc_options[] = {"--c++*",
                                           "--gnu_version=",
                                           "--simt-only",
                                           "--clang_version=",
                                           "--static-host-stub",
                                           "--static-host-stub=",
                                           "--device-hidden-visibility",
                                           "--display_error_number",
                                           "--orig_src_file_name",
                                           "--orig_src_path_name",
                                           "--allow_managed",
                                           "--extended-lambda",
                                           "--relaxed_constexpr",
                                           "--promote_warnings",
                                           "--diag_suppress",
                                           "--diag_error",
                                           "--diag_warn",
                                           "--diag_warning",
                                           "--error_limit",
                                           "--context_limit=",
                                           "--pending_instantiations=",
                                           "--unicode_source_kind=",
                                           "--frandom-seed",
                                           "--keep-device-functions",
                                           "--no_host_device_initializer_list",
                                           "--no_host_device_move_forward",
                                           "--debug_mode",
                                           "--device-c",
                                           "--partial-link",
                                           "--gen_div_approx_ftz",
                                           "--include_file_name",
                                           "--no-version-ident",
                                           "--gen_module_id_file",
                                           "-arch",
                                           "-m64",
                                           "-ftz=",
                                           "-prec_div=",
                                           "-prec_sqrt=",
                                           "-fmad=",
                                           "-fast-math",
                                           "-tused",
                                           "-generate-line-info",
                                           "-show-src",
                                           "-olto",
                                           "-gen-opt-lto",
                                           "-jump-table-density=",
                                           "-lto",
                                           "-maxreg",
                                           "-kernel-params-are-restrict",
                                           "-split-compile",
                                           "-extra-device-vectorization",
                                           "-g",
                                           "-w",
                                           "-O*",
                                           NULL};
static const char *const nvlink_options[] = {"-m*",
                                             "--machine=",
                                             "-l*",
                                             "-L*",
                                             "--library",
                                             "--library-path",
                                             "-cpu-arch=",
                                             "--cpu-arch=",
                                             "--arch=",
                                             "-arch=",
                                             "-arch",
                                             "--arch",
                                             "--host-ccbin",
                                             "-nvvmpath=",
                                             "-dlto",
                                             "-lto",
                                             "--shared",
                                             "-shared",
                                             "-r",
                                             "-g",
                                             "-w",
                                             "--debug",
                                             "-maxrregcount=",
                                             "--preserve-relocs",
                                             "--use-host-info",
                                             "--ignore-host-info",
                                             "-kernels-used",
                                             "-variables-used",
                                             "-split-compile=",
                                             "--suppress-arch-warning",
                                             "--suppress-debug-info",
                                             "--suppress-stack-size-warning",
                                             NULL};
static const char *const fatbinary_options[] = {"-64",
                                                "--64",
                                                "--image2=",
                                                "--image3=",
                                                "-image2=",
                                                "-image3=",
                                                "--cmdline=",
                                                "-cmdline=",
                                                "--cicc-cmdline=",
                                                "--ident=",
                                                "-ident=",
                                                "-link",
                                                "--link",
                                                "-c",
                                                "--device-c",
                                                "-g",
                                                "--debug",
                                                "--generate-line-info",
                                                "--compress=",
                                                "-compress=",
                                                "--compress-all",
                                                "-compress-all",
                                                "--compress-mode=",
                                                "-compress-mode=",
                                                "-no-asm",
                                                "-prec_sqrt=",
                                                "-prec_div=",
                                                "-fmad=",
                                                "-ftz=",
                                                "-fast-math",
                                                "-maxrregcount=",
                                                "-split-compile=",
                                                "--fmad",
                                                "--return-at-end",
                                                "--dont-merge-basicblocks",
                                                NULL};

static bool fits(const char *row, const char *option)
{
    size_t len = strlen(row);
    if (row[len - 1] == '*')
        return strncmp(option, row, len - 1) == 0;
    return row[len - 1] == '=' ? strncmp(option, row, len) == 0 : strcmp(option, row) == 0;
}

bool nvidia_option_is_known(const char *tool, const char *option)
{
    assert(tool && option);
    static const struct {
        const char *tool;
        const char *const *rows;
    } tables[] = {
        {"cicc", cicc_options}, {"nvlink", nvlink_options}, {"fatbinary", fatbinary_options}};
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)
        for (const char *const *row = tables[t].rows; strstr(tool, tables[t].tool) && *row; row++)
            if (fits(*row, option))
                return true;
    return false;
}
