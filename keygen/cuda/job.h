/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job.h - a compile job: the whole input of one compile, as bytes and as a key.
 *
 * A client first sends the graph key and its proof. It sends the encoded job only if the daemon has to
 * compile. The daemon then computes key and proof again from the job.
 *
 *     offset  size  field (little-endian)
 *     0       4     "WJOB"
 *     4       2     version, 1
 *     6       2     language, enum job_language
 *     8       -     blob name            the program's name (nvrtcCreateProgram's `name`)
 *     -       -     blob cwd             the client's working folder
 *     -       -     blob source
 *     -       4     n, then n × blob     compile options, in order
 *     -       4     n, then n × 2 blobs  in-memory headers: include name, bytes
 *     -       4     n, then n × blob     name expressions, in order
 *
 * A blob is a u32 length and that many bytes. Texts hold no NUL; source and headers may.
 *
 * Thread: any; no state. Memory: a decoded job borrows the encoded bytes and owns only its arrays.
 */
#ifndef WARM_KEYGEN_CUDA_JOB_H
#define WARM_KEYGEN_CUDA_JOB_H

#include <stddef.h>

#include "keygen/bytes.h"
#include "keygen/err.h"
#include "keygen/key.h"

#define JOB_VERSION 1u
#define JOB_SOURCE_MAX (64u << 20) /* bytes of source, or of one header */
#define JOB_TEXT_MAX 4096u         /* bytes of a name, folder, option or name expression */
#define JOB_LIST_MAX 8192u         /* options, headers, or name expressions */

enum job_language { JOB_CUDA = 1, JOB_PTX = 2 };

struct job_header {
    struct view name, bytes;
};

struct job {
    enum job_language language;
    struct view name, cwd, source;
    struct view *options;
    size_t n_options;
    struct job_header *headers;
    size_t n_headers;
    struct view *expressions;
    size_t n_expressions;
};

/* Appends the encoded job. The caller checks writer->failed. */
void job_encode(const struct job *job, struct writer *out);

/* Decodes a job. *out borrows `data`; job_close frees it. Errors: MALFORMED, TRUNCATED, TOO_BIG,
 * VERSION, NOMEM; err->text names the field. */
int job_decode(const void *data, size_t len, struct job *out, struct err *e);
/* Frees the arrays of a decoded job. */
void job_close(struct job *job);

/*
 * Computes the graph part of the job's address with its proof, and the hardware part.
 *
 * The graph part is level 1 of CUDA.md: the exact bytes of source, headers and names, and the options
 * that can change the result. The working folder counts only if debug output or LTO IR may show it. The
 * hardware part is the exact target of the options, for example "sm_90a", or "default".
 *
 * Errors: REFUSED if the result must not be kept, because the job could write files, could read the
 * clock, or has an unknown option; INVALID for options without their value; TOO_BIG; NOMEM.
 * err->text is one line for the user.
 */
int job_key(const struct job *job, char out_hardware[WARM_HARDWARE_MAX], struct key *out_graph,
            struct proof *out_proof, struct err *e);

/*
 * Computes the second, shared key (level 2 of CUDA.md). It differs from job_key's in four points:
 *
 *   - the canonical source stands for the exact one;
 *   - only the last component of the program's name counts;
 *   - of an absolute -I only its presence counts;
 *   - an option that repeats a default does not count. `version` is the compiler's, as in options_parse.
 *
 * A result may be kept under this key on three conditions: the compiler's status is 0, its log is empty, and
 * every file that it read allows it (cuda_scan_allows_canonical, or else cuda/reach.h).
 *
 * Errors: those of job_key; UNSUPPORTED if lines, names or the text itself could show in the result, because of
 * the options, the source or an in-memory header.
 */
int job_shared_key(const struct job *job, unsigned version, struct key *out_graph,
                   struct proof *out_proof, struct err *e);

#endif
