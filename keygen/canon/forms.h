/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forms.h - what canon.c asks of each kind: one function with one signature.
 *
 * A form function reads the input and puts its canonical text, piece by piece, into a struct form,
 * which hashes it and, if the caller wants to read it, copies it:
 *
 *     form_begin(out, "ptx/1") ── form_put(out, ...) × n ── (canon.c ends it)
 *
 * A graph (graph.h) hashes records that are one to one with its canonical text: it says so with
 * form_text_apart, and puts the text into out->text itself, if somebody wants to read it.
 *
 * A form function that returns WARM_EUNSUPPORTED and has set out->why_exact understood that the
 * input is of its kind but not all of it: canon.c then takes the exact bytes as the form. It must
 * do so before form_begin or forget nothing: canon.c starts the hash anew.
 *
 * Thread: any; no state. Memory: a struct form is large and aligned to 64 bytes: keep it on the
 * stack. The input is borrowed until the function returns.
 */
#ifndef WARM_KEYGEN_CANON_FORMS_H
#define WARM_KEYGEN_CANON_FORMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "keygen/canon/canon.h"

#define FORM_BUFFER 16384 /* bytes: small pieces are hashed together */

struct form {
    struct key_builder builder;
    struct writer *text;   /* NULL, or where the canonical text goes as well */
    struct writer *hashed; /* NULL, or where what is hashed goes as well: for tests */
    size_t text_start;     /* where in *text the form begins */
    bool text_apart;       /* what is put is hashed only: the caller fills `text` */
    uint64_t len;          /* bytes hashed so far, but for those in `buffer` */
    const char *why_exact; /* static memory; set by a form function that returns UNSUPPORTED */
    bool want_regions;     /* graph kinds: fill `regions` instead of the text */
    struct canon_region *regions;
    size_t n_regions;
    size_t used; /* bytes in `buffer` */
    char buffer[FORM_BUFFER];
};

/* `domain` names the kind and the version of its form, e.g. "ptx/1". */
void form_begin(struct form *out, const char *domain);
/* What is put is not the text, which the caller writes; until the next form_begin. */
void form_text_apart(struct form *out);
/* Appends to what is hashed, and to the canonical text. */
void form_put_slow(struct form *out, const void *data, size_t len);
static inline void form_put(struct form *out, const void *data, size_t len)
{
    if (len > sizeof out->buffer - out->used) {
        form_put_slow(out, data, len);
        return;
    }
    memcpy(out->buffer + out->used, data, len);
    out->used += len;
}
static inline void form_put_text(struct form *out, const char *text)
{
    form_put(out, text, strlen(text));
}
/* A number in decimal. */
void form_put_u64(struct form *out, uint64_t value);
/* The digests of all that was put since form_begin. */
void form_end(struct form *out, struct key *out_key, struct proof *out_proof);

/* True for the target of a custom call whose artifacts hold an address, or a callback's number, of
 * the process that printed the graph. Such a graph is refused. */
bool form_is_process_bound(const char *target, size_t len);
#define FORM_PROCESS_BOUND "a custom call that refers to the process that printed it"

/* Each in the file of its name. The kind is settled; input->kind is not looked at. */
int form_mlir(const struct canon_input *input, struct form *out, struct err *e);
int form_mlir_bytecode(const struct canon_input *input, struct form *out, struct err *e);
int form_hlo(const struct canon_input *input, struct form *out, struct err *e);
int form_ptx(const struct canon_input *input, struct form *out, struct err *e);
int form_cuda(const struct canon_input *input, struct form *out, struct err *e);
int form_fx(const struct canon_input *input, struct form *out, struct err *e);

/* What canon_detect asks: do these first bytes (at most 64 KiB) look like this kind? */
bool form_mlir_claims(const char *data, size_t len);
bool form_mlir_bytecode_claims(const char *data, size_t len);
bool form_hlo_claims(const char *data, size_t len);
bool form_ptx_claims(const char *data, size_t len);
bool form_cuda_claims(const char *data, size_t len);
bool form_fx_claims(const char *data, size_t len);

#endif
