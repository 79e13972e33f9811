/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job.h - a compile job: everything that a compiler is given, as bytes and as a key.
 *
 * A client describes its compile once. It sends the graph key and proof first; only if the daemon
 * has to compile does it send the encoded job, from which the daemon computes both again.
 *
 *     offset  size  field (little-endian)
 *     0       4     "WJOB"
 *     4       2     version, 1
 *     6       2     language, enum job_language
 *     8       -     blob name            what the program is called (nvrtcCreateProgram's `name`)
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

/* Appends the encoded job; check writer->failed. */
void job_encode(const struct job *job, struct writer *out);

/* Decodes; *out borrows `data` and is freed with job_close. Errors: MALFORMED, TRUNCATED, TOO_BIG,
 * VERSION, NOMEM; err->text says which field. */
int job_decode(const void *data, size_t len, struct job *out, struct err *e);
/* Frees the arrays of a decoded job. */
void job_close(struct job *job);

/*
 * The graph part of the job's address and its proof (level 1 of CUDA.md: exact bytes of source,
 * headers, names, and the options that decide; the working folder only where debug output or LTO
 * IR may show it), and the hardware part: the exact target that the options ask for, e.g. "sm_90a", or
 * "default".
 *
 * Errors: REFUSED where the result must not be kept: the job could write files or read the clock,
 * or has an option that nobody here knows; INVALID for options without their value; TOO_BIG; NOMEM.
 * err->text is one line for the user.
 */
int job_key(const struct job *job, char out_hardware[WARM_HARDWARE_MAX], struct key *out_graph,
            struct proof *out_proof, struct err *e);

/*
 * The same for the second, shared key (level 2 of CUDA.md): the canonical source in place of the
 * exact one, of the name only its last component, of an absolute -I only that there is one, and no
 * option that says what the compiler does anyway: `version` is the compiler's, as options_parse takes
 * it. A result may be kept under it only if, beside
 * what is checked here, every file that was read allows it too (cuda_scan_allows_canonical, or else
 * cuda/reach.h), the compiler's status is 0 and its log is empty.
 *
 * Errors: UNSUPPORTED where this job has no such key: its options, its source or a header that
 * comes along could make lines, names or the text itself show; and those of job_key.
 */
int job_shared_key(const struct job *job, unsigned version, struct key *out_graph,
                   struct proof *out_proof, struct err *e);

#endif
