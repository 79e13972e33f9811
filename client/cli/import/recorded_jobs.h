/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recorded_jobs.h - the folder of `warm record --jobs`: NVRTC's compile jobs, which `warm replay --compile`
 * sends to the daemon again. client/lib/job_file.h has the format of its files.
 *
 * Thread: main; no state. Memory: borrows all.
 */
#ifndef WARM_CLI_IMPORT_RECORDED_JOBS_H
#define WARM_CLI_IMPORT_RECORDED_JOBS_H

#include "client/cli/remote.h"

/*
 * Compiles the jobs of a folder, each unless its result is here, and begins none after `ends_ms`
 * (conn_now_ms). A job that fails is one line on stderr and counts in *out_n_bad. Returns 0 or an exit status
 * after printing the reason. *out_late is true if the time ended it.
 */
int recorded_jobs_compile(struct remote *r, const char *folder, uint64_t ends_ms,
                          uint64_t *out_n_bad, bool *out_late);

#endif
