/* SPDX-License-Identifier: Apache-2.0 */
/*
 * form.h - the functions that canon.c calls for each kind, and the sink for their output.
 *
 * A form function reads the input and puts its canonical text, part by part, into a struct form. The
 * form hashes the text, and copies it if the caller wants to read it:
 *
 *     form_begin(out, DOMAIN_PTX) ── form_put(out, ...) × n ── (canon.c ends it)
 *
 * A graph (graph.h) hashes records that are one to one with its canonical text. It calls
 * form_text_apart, and on demand writes the text to out->text itself.
 *
 * A form function may find that the input is of its kind, but that it cannot understand all of it. It
 * then sets out->why_exact and returns WARM_EUNSUPPORTED. canon.c starts the hash anew and takes the
 * exact bytes as the form.
 *
 * Thread: any; no state. Memory: a struct form is large and aligned to 64 bytes: keep it on the
 * stack. The input is borrowed until the function returns.
 */
#ifndef WARM_KEYGEN_CANON_FORM_H
#define WARM_KEYGEN_CANON_FORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "keygen/canon/canon.h"

#define FORM_BUFFER 16384 /* bytes: small pieces are hashed together */

struct form {
    struct key_builder builder;
    struct writer *text;   /* NULL, or a copy of the canonical text */
    struct writer *hashed; /* NULL, or a copy of the hashed bytes: for tests */
    size_t text_start;     /* offset in *text at which the form begins */
    bool text_apart;       /* form_put only hashes: the caller writes `text` */
    uint64_t len;          /* bytes hashed so far, but for those in `buffer` */
    const char *why_exact; /* static memory; set by a form function that returns UNSUPPORTED */
    size_t used;           /* bytes in `buffer` */
    char buffer[FORM_BUFFER];
};

/* Begins a form. `domain` is one of keygen/domains.h: the kind and the version of its form. */
void form_begin(struct form *out, const char *domain);
/* Makes form_put only hash until the next form_begin; the caller writes the text. */
void form_text_apart(struct form *out);
/* Appends to the hashed bytes and to the canonical text. Call form_put. */
void form_put_slow(struct form *out, const void *data, size_t len);
/* Appends to the hashed bytes and to the canonical text. */
static inline void form_put(struct form *out, const void *data, size_t len)
{
    if (len > sizeof out->buffer - out->used) {
        form_put_slow(out, data, len);
        return;
    }
    bytes_copy(out->buffer + out->used, data, len);
    out->used += len;
}
/* Returns the place behind the waiting bytes, with room for `max` more. Raise `used` by those that you
 * write there. */
static inline char *form_room(struct form *out, size_t max)
{
    if (max > sizeof out->buffer - out->used)
        form_put_slow(out, "", 0);
    return out->buffer + out->used;
}
/* Appends a C string. */
static inline void form_put_text(struct form *out, const char *text)
{
    form_put(out, text, strlen(text));
}
/* Appends a number in decimal. */
void form_put_u64(struct form *out, uint64_t value);
/* Computes the digests of everything put since form_begin. */
void form_end(struct form *out, struct key *out_key, struct proof *out_proof);

/* True for the target of a custom call whose artifacts hold an address, or a callback's number, of
 * the process that printed the graph. Such a graph is refused. */
bool form_is_process_bound(const char *target, size_t len);
#define FORM_PROCESS_BOUND "a custom call that refers to the process that printed it"

/* Puts the canonical text of an input of this kind. Ignores input->kind. Errors: those of canon_key. */
int form_mlir(const struct canon_input *input, struct form *out, struct err *e);
/* Does the same with MLIR bytecode. */
int form_mlir_bytecode(const struct canon_input *input, struct form *out, struct err *e);
/* Does the same with HLO text. */
int form_hlo(const struct canon_input *input, struct form *out, struct err *e);
/* Does the same with PTX. */
int form_ptx(const struct canon_input *input, struct form *out, struct err *e);
/* Does the same with CUDA C++. */
int form_cuda(const struct canon_input *input, struct form *out, struct err *e);

/* True if these first bytes (at most 64 KiB) look like this kind. */
bool form_mlir_claims(const char *data, size_t len);
/* Tells the same for MLIR bytecode. */
bool form_mlir_bytecode_claims(const char *data, size_t len);
/* Tells the same for HLO text. */
bool form_hlo_claims(const char *data, size_t len);
/* Tells the same for PTX. */
bool form_ptx_claims(const char *data, size_t len);
/* Tells the same for CUDA C++. */
bool form_cuda_claims(const char *data, size_t len);

#endif
