/* SPDX-License-Identifier: Apache-2.0 */
/*
 * domains.h - the domain of every key: the kind of its input, and the version of its form.
 *
 * Raise a version with each change that may give any input another key. If DOMAINS_ALL is not what the store
 * was last used with, the daemon evicts older entries first (daemon/service/old_keys.h). Forms: KEYS.md 1.
 */
#ifndef WARM_KEYGEN_DOMAINS_H
#define WARM_KEYGEN_DOMAINS_H

/* forms and jobs */
#define DOMAIN_MLIR "mlir/15"
#define DOMAIN_PTX "ptx/3"
#define DOMAIN_CUDA "cuda/1"
#define DOMAIN_HLO "hlo/14"
#define DOMAIN_RAW "raw/1"
#define DOMAIN_EXACT "exact/1 "
#define DOMAIN_CUDA_EXACT "cuda-exact/2"
#define DOMAIN_PTX_EXACT "ptx-exact/1"
#define DOMAIN_CUDA_SHARED "cuda-shared/2"
#define DOMAIN_TARGETS "targets/1"

/* facts that the daemon finds out about files and compilers */
#define DOMAIN_INCLUDE_FOLDERS "include-folders/1"
#define DOMAIN_CLIENT_FILES "client-files/4"
#define DOMAIN_NVRTC "nvrtc/2"

/* warm tool */
#define DOMAIN_TOOL_RESULT "tool-result/2"
#define DOMAIN_PTXAS_PRINT "ptxas-print/3"
#define DOMAIN_PTXAS "ptxas/4"
#define DOMAIN_PTXAS_CANONICAL "ptxas-canonical/4"
#define DOMAIN_CC_SOURCES "cc-sources/2"
#define DOMAIN_CC "cc/11"
#define DOMAIN_CC_NOTE "cc-note/1"
#define DOMAIN_FOLDER "folder/1"
#define DOMAIN_LIBRARY "library/1"
#define DOMAIN_OUTPUTS "outputs/2"
#define DOMAIN_NVCC "nvcc/11"
#define DOMAIN_NV "nv/5"

/* keys of code that is loaded into programs */
#define DOMAIN_DRIVER_JIT "cuda-driver-jit/2"
#define DOMAIN_DRIVER_LINK "cuda-driver-link/4"
#define DOMAIN_PJRT "pjrt/1"
#define DOMAIN_PJRT_HOST "pjrt-host/1"
#define DOMAIN_PJRT_GPU "pjrt-gpu/1"
#define DOMAIN_PJRT_TARGET "pjrt-target/1"
#define DOMAIN_OWN_NVRTC "own-nvrtc/2"
#define DOMAIN_NVJITLINK "nvjitlink/4"
#define DOMAIN_NVJITLINK_INPUT "nvjitlink-input/2"
#define DOMAIN_NVVM "nvvm/2"
#define DOMAIN_GRAPH_PLAN "graph-plan/1"
#define DOMAIN_MLIR_PASSES "mlir-passes/1" /* of MLIR's own text: without DOMAIN_MLIR */

/* Not listed: WARM_KEY_FORMAT is the address's version; an archive's checksum finds no entry. */
#define DOMAIN_ADDRESS "address"
#define DOMAIN_ARCHIVE "archive/3"

#define DOMAINS_ALL                                                                                \
    DOMAIN_MLIR                                                                                    \
    " " DOMAIN_PTX " " DOMAIN_CUDA " " DOMAIN_HLO " " DOMAIN_RAW " " DOMAIN_EXACT                  \
    " " DOMAIN_CUDA_EXACT " " DOMAIN_PTX_EXACT " " DOMAIN_CUDA_SHARED " " DOMAIN_TARGETS           \
    " " DOMAIN_INCLUDE_FOLDERS " " DOMAIN_CLIENT_FILES " " DOMAIN_NVRTC " " DOMAIN_TOOL_RESULT     \
    " " DOMAIN_PTXAS_PRINT " " DOMAIN_PTXAS " " DOMAIN_PTXAS_CANONICAL " " DOMAIN_CC_SOURCES       \
    " " DOMAIN_CC " " DOMAIN_CC_NOTE " " DOMAIN_FOLDER " " DOMAIN_LIBRARY " " DOMAIN_OUTPUTS       \
    " " DOMAIN_NVCC " " DOMAIN_NV " " DOMAIN_DRIVER_JIT " " DOMAIN_DRIVER_LINK " " DOMAIN_PJRT     \
    " " DOMAIN_PJRT_HOST " " DOMAIN_PJRT_GPU " " DOMAIN_PJRT_TARGET " " DOMAIN_NVJITLINK           \
    " " DOMAIN_NVJITLINK_INPUT " " DOMAIN_MLIR_PASSES " " DOMAIN_OWN_NVRTC " " DOMAIN_NVVM         \
    " " DOMAIN_GRAPH_PLAN " "

#endif
