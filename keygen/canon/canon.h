/* SPDX-License-Identifier: Apache-2.0 */
/*
 * canon.h - from the bytes of a graph or a source to its canonical form and its key.
 *
 *     bytes ──detect──▶ kind ──parse──▶ canonical text ──▶ XXH3-128 (key) and SHA-256 (proof)
 *                                            (of MLIR: as records, one to one)
 *
 * Two inputs have the same canonical text only if they are one program in two spellings. An input that a
 * form cannot understand is kept byte for byte. KEYS.md lists what each form drops, and the sentence of
 * the format that allows it. CUDA.md does so for PTX and CUDA C++.
 *
 * Thread: any; no state. Memory: input is borrowed until the call returns.
 */
#ifndef WARM_KEYGEN_CANON_CANON_H
#define WARM_KEYGEN_CANON_CANON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keygen/bytes.h"
#include "keygen/err.h"
#include "keygen/key.h"

/* name, the name for `warm hash --kind`, a description */
#define CANON_KIND_LIST(X)                                                                         \
    X(AUTO, "auto", "found from the content")                                                      \
    X(MLIR, "mlir", "MLIR text: StableHLO and its neighbours")                                     \
    X(MLIR_BYTECODE, "mlirbc", "MLIR bytecode, VHLO artifacts too")                                \
    X(HLO, "hlo", "HLO text")                                                                      \
    X(PTX, "ptx", "PTX assembly")                                                                  \
    X(CUDA, "cuda", "CUDA C++")                                                                    \
    X(RAW, "raw", "any other bytes, as they are")

enum canon_kind {
#define X(name, text, what) CANON_##name,
    CANON_KIND_LIST(X)
#undef X
};

/* Returns the name of a kind, "mlir" for CANON_MLIR. Static memory. */
const char *canon_kind_name(enum canon_kind kind);
/* True if `name` is one of the names above; then sets *out. */
bool canon_kind_from_name(const char *name, enum canon_kind *out);

/* Returns the kind of these bytes by their content. `file_name` only breaks ties, and may be NULL. Never
 * returns CANON_AUTO, and returns CANON_RAW if no parser claims the bytes. Reads at most the first 64 KiB. */
enum canon_kind canon_detect(const char *file_name, const void *data, size_t len);

/* An operation of bytecode whose location is sought. The caller fills the first two; the others begin as 0. */
struct canon_sought {
    struct view op; /* its name in the canonical form: "stablehlo.add" */
    size_t nth;     /* of this name, in the order of the form; from 1 */
    size_t total;   /* operations of this name */
    char place
        [256]; /* "loss.py:12:8", of the user's innermost function; empty if the operation has none */
};

struct canon_input {
    const void *data;
    size_t len;
    const char *file_name; /* for detection only, never hashed; may be NULL */
    enum canon_kind kind;  /* CANON_AUTO to detect */
    bool debug_info;       /* debug output was asked for: locations and line numbers count */
    bool
        drops_debug_info; /* PTX: the output has no debug sections, so line information does not count */
    struct canon_sought *sought; /* of MLIR bytecode; NULL: none */
    bool many_processes; /* each compiles the program for itself: numbers of channels count */
};

struct canon_result {
    enum canon_kind kind;
    bool exact;            /* the canonical form is the exact bytes; `why_exact` says why */
    const char *why_exact; /* static memory; NULL unless exact */
    struct key key;
    struct proof proof;
};

/*
 * Computes the key of an input. With `text` (an initialised writer; may be NULL) also appends the
 * canonical form as readable lines, one for each operation or statement, so that diff can compare two
 * forms. The key is over exactly the bytes of `text` (for MLIR, over records of the same text: KEYS.md,
 * section 2.3), under a domain that names the kind and the version of the form.
 *
 * Time and memory are linear in `len` (memory at most 3 × len plus a constant, neither the input nor
 * `text` counted); nothing recurses on the depth of the input.
 *
 * Errors (err->line and err->column say where): MALFORMED, TRUNCATED; REFUSED for elided text such
 * as dense<...>, which cannot tell graphs apart (err->text says what to set); NOMEM.
 */
int canon_key(const struct canon_input *input, struct canon_result *out, struct writer *text,
              struct err *e);

#endif
