/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvidia_options.c - decides which options of cicc, nvlink, fatbinary and tileiras a kept run may have: two
 * lists for each tool. nvidia.c looks every argument up.
 *
 * Kept options change code or messages alone and count as they are written. The value of one that
 * ends in '=' stands behind it; '*' at the end stands for anything. A row with one dash holds for two.
 * Refused options write other
 * files, print more than warnings, or read options from a file.
 *
 * Source: nvcc --dryrun with each of nvcc's own options, of 13.0 and 13.5; `nvlink --help` and
 * `fatbinary --help` of both.
 *
 * Thread: any; no state.
 */
#include "client/tool/nvidia_options.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static const struct {
    const char *tool, *kept, *refused;
} tables[] = {
    {"cicc",
     "--c++* --clang --gnu_version= --clang_version= --simt-only --static-host-stub "
     "--static-host-stub= "
     "--host-stub-linkage-explicit --device-hidden-visibility --display_error_number "
     "--no_display_error_number --brief_diagnostics --orig_src_file_name --orig_src_path_name "
     "--allow_managed --extended-lambda --relaxed_constexpr --promote_warnings --diag_suppress "
     "--diag_suppress= --diag_error --diag_error= --diag_warn --diag_warn= --diag_warning "
     "--diag_warning= --error_limit --context_limit= --pending_instantiations= "
     "--unicode_source_kind= --frandom-seed --keep-device-functions --lossy_conversion_warning "
     "--no_host_device_initializer_list --no_host_device_move_forward --debug_mode --device-c "
     "--device-syntax-only --partial-link --gen_div_approx_ftz --include_file_name "
     "--no-version-ident --gen_module_id_file --Ofast-compile= -arch -m64 -ftz= -prec_div= "
     "-prec_sqrt= -fmad= -fast-math -tused -generate-line-info -show-src -olto -gen-opt-lto "
     "-jump-table-density= -lto -maxreg -kernel-params-are-restrict -split-compile "
     "-extra-device-vectorization -inline-info -jobserver -g -w -O* ",
     "-v --verbose -time --time -dryrun --enable-tile "},
    {"nvlink",
     "-m* -machine -l* -L* -library -library= -library-path -library-path= -host-ccbin -lto "
     "-link-time-opt -dlto -shared -r -relocatable-link -g -debug -w -disable-warnings "
     "-disable-infos -extrawarn -extra-warnings -Werror -warning-as-error -Ofc -Ofast-compile "
     "-astoolspatch -link-as-tools-patch -maxrregcount -maxrregcount= -arch -arch= -cpu-arch "
     "-cpu-arch= -nvvmpath -nvvmpath= -nvvm-latest -emit-ptx -device-stack-protector "
     "-ignore-host-info -use-host-info -keep-system-libraries -kernels-used -kernels-used= "
     "-variables-used -variables-used= -preserve-relocs -report-arch -split-compile "
     "-split-compile= -split-compile-extended -suppress-arch-warning -suppress-debug-info "
     "-suppress-stack-size-warning ",
     "-v -verbose -v2 -verbose2 -h -help -V -version -optf -options-file -ghls "
     "-gen-host-linker-script -uidx -uidx-file -time -Xnvvm -Xptxas -dump-callgraph "
     "-dump-callgraph-no-demangle "},
    {"fatbinary",
     "-64 -32 -image2 -image2= -image3 -image3= -cmdline -cmdline= -cicc-cmdline= "
     "-tileir-cmdline -tileir-cmdline= -c -device-c -g -debug -generate-line-info -compress "
     "-compress= -compress-all -compress-mode -compress-mode= -concat -no-asm -link -ident "
     "-ident= -prec_sqrt= -prec_div= -fmad= -ftz= -fast-math -maxrregcount= -split-compile= "
     "-fmad -return-at-end -dont-merge-basicblocks ",
     "-h -help -V -version -optf -options-file "},
    {"tileiras",
     "-O* -opt-level -opt-level= -gpu-name -gpu-name= -arch -arch= -lineinfo -device-debug -g "
     "-host-arch= -host-os= -sanitize= -preview= -l -remark-format=command-line "
     "-remark-format=yaml -remarks= -remarks-analysis= -remarks-failed= -remarks-missed= "
     "-remarks-passed= ",
     "-remark-format= -help -help-list -help-hidden -version -list-versions "},
};

/* True if the list has the option, or `dashed`, has it with one dash less. */
static bool has(const char *list, const char *option, bool dashed)
{
    const char *row = list;
    for (size_t len; (len = strcspn(row, " ")); row += len + 1) {
        char last = row[len - 1];
        size_t n = last == '*' ? len - 1 : len;
        if (!(dashed && last == '*') && strncmp(option + dashed, row, n) == 0 &&
            (last == '*' || last == '=' || option[dashed + n] == '\0'))
            return true;
    }
    return !dashed && strncmp(option, "--", 2) == 0 && has(list, option, true);
}

enum nvidia_rule nvidia_option_rule(const char *tool, const char *option)
{
    assert(tool && option);
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)
        if (strstr(tool, tables[t].tool))
            return has(tables[t].kept, option, false)      ? NVIDIA_KEPT
                   : has(tables[t].refused, option, false) ? NVIDIA_REFUSED
                                                           : NVIDIA_UNKNOWN;
    return NVIDIA_UNKNOWN;
}
