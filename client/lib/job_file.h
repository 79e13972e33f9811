/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job_file.h - NVRTC's compile jobs in a folder of the user's, for `warm replay`. If $WARM_RECORD_JOBS
 * names the folder, libwarm writes each job there before it asks the daemon.
 *
 *     FOLDER/COMPILER-DIGEST.job     the compiler's identity (nvrtc_id.h), XXH3 of the file's bytes
 *
 *     offset  size  field (little-endian)
 *     0       -     blob                 path of the compiler: u32 length, bytes
 *     -       -     to the end           the job, as in keygen/cuda/job.h
 *
 * A file is complete or absent, and has mode 0600: sources are private. Headers that the compiler looks for
 * on the disk are not in it.
 *
 * Thread: any; no state. Memory: as each function says.
 */
#ifndef WARM_LIB_JOB_FILE_H
#define WARM_LIB_JOB_FILE_H

#include "keygen/cuda/job.h"

/* Returns $WARM_RECORD_JOBS if it is an absolute path, else NULL: no job is to be written. */
const char *job_file_folder(void);
/* Writes a job that goes to the compiler `id` at `path` into that folder. The program goes on after a
 * failure: it is a line of WARM_LOG. */
void job_file_write(const struct key *id, const char *path, const struct job *job);

struct job_file {
    struct key id;    /* of the compiler */
    struct view path; /* borrows the file's bytes */
    struct job job;   /* likewise; job_close frees its arrays */
};
/* Decodes a file. `name` is its name without the folder. Errors: MALFORMED, and those of job_decode. */
int job_file_read(const char *name, const void *data, size_t len, struct job_file *out,
                  struct err *e);

#endif
