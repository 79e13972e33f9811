/* SPDX-License-Identifier: Apache-2.0 */
/*
 * find_ptxas.h - finds an assembler of PTX on this machine, in the places where NVRTC is looked for too.
 *
 * Thread: main.
 */
#ifndef WARM_CLI_RUN_FIND_PTXAS_H
#define WARM_CLI_RUN_FIND_PTXAS_H

#include <limits.h>
#include <stdbool.h>

/* Writes the path of ptxas: of CUDA_HOME or CUDA_PATH, of the Python environment, on PATH, of a toolkit in
 * /usr/local. False if there is none. */
bool ptxas_find(char out[PATH_MAX]);

#endif
