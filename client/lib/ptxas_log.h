/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ptxas_log.h - the messages that ptxas prints, and the JIT compilers of NVRTC, nvJitLink and the
 * driver, which are made of it. NAME is the name by which ptxas was called:
 *
 *     NAME info    : Used 8 registers, used 0 barriers       an info
 *     NAME info    : Compile time = 1.755 ms                 a time, which differs in each run
 *     NAME file.ptx, line 7; warning : ...                   shows the source
 *
 * A stored log has no times: a hit must not print a time that nobody measured.
 *
 * Thread: any; no state.
 */
#ifndef WARM_CLIENT_LIB_PTXAS_LOG_H
#define WARM_CLIENT_LIB_PTXAS_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "keygen/bytes.h"

/* True if a line is an info. */
bool ptxas_log_is_info(struct view line);

/* Removes the lines that are times, in place. Returns the new length. */
size_t ptxas_log_drop_times(void *log, size_t len);

#endif
