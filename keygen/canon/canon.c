/* SPDX-License-Identifier: Apache-2.0 */
/*
 * canon.c - chooses the form function for an input and makes the key of its canonical text. The library, the
 * daemon and `warm hash` call it.
 *
 * Kinds are asked in the order of the table below whether an input is theirs. Kinds with a magic number or
 * a fixed first word stand before kinds that guess.
 *
 * Thread: any; no state.
 */
#include "keygen/canon/canon.h"

#include "keygen/canon/form.h"
#include "keygen/domains.h"
#include "keygen/expect.h"

#define DETECT_BYTES 65536 /* read to find the kind */

#define PIECE ((size_t)256 * 1024) /* bytes: both digests read a piece while it is at hand */

static void put_bytes(const struct canon_input *input, struct form *out)
{
    for (struct reader r = reader_over(input->data, input->len); r.len;) {
        struct view piece = reader_bytes(&r, r.len < PIECE ? r.len : PIECE);
        form_put(out, piece.data, piece.len);
    }
}

static int form_raw(const struct canon_input *input, struct form *out, struct err *e)
{
    (void)e;
    form_begin(out, DOMAIN_RAW);
    put_bytes(input, out);
    return 0;
}

static const struct kind {
    enum canon_kind kind;
    const char *suffix; /* breaks ties */
    bool (*claims)(const char *data, size_t len);
    int (*form)(const struct canon_input *input, struct form *out, struct err *e);
} kinds[] = {
    {CANON_MLIR_BYTECODE, ".mlirbc", form_mlir_bytecode_claims, form_mlir_bytecode},
    {CANON_HLO, ".hlo", form_hlo_claims, form_hlo},
    {CANON_MLIR, ".mlir", form_mlir_claims, form_mlir},
    {CANON_PTX, ".ptx", form_ptx_claims, form_ptx},
    {CANON_CUDA, ".cu", form_cuda_claims, form_cuda},
    {CANON_RAW, "", NULL, form_raw},
};
#define N_KINDS (sizeof kinds / sizeof *kinds)

static const char *const kind_names[] = {
#define X(name, text, what) text,
    CANON_KIND_LIST(X)
#undef X
};

const char *canon_kind_name(enum canon_kind kind)
{
    size_t i = (size_t)kind;
    return i < sizeof kind_names / sizeof *kind_names ? kind_names[i] : "unknown";
}

bool canon_kind_from_name(const char *name, enum canon_kind *out)
{
    for (size_t i = 0; i < sizeof kind_names / sizeof *kind_names; i++)
        if (strcmp(kind_names[i], name) == 0) {
            *out = (enum canon_kind)i;
            return true;
        }
    return false;
}

enum canon_kind canon_detect(const char *file_name, const void *data, size_t len)
{
    size_t seen = len < DETECT_BYTES ? len : DETECT_BYTES;
    enum canon_kind first = CANON_RAW;
    for (size_t i = 0; i < N_KINDS; i++) {
        bool named = file_name && *kinds[i].suffix && text_ends(file_name, kinds[i].suffix);
        if ((!named && first != CANON_RAW) || !kinds[i].claims || !kinds[i].claims(data, seen))
            continue; /* asking may read all of the bytes, so ask only if it matters */
        if (named)
            return kinds[i].kind;
        first = kinds[i].kind;
    }
    return first;
}

static const struct kind *kind_find(const struct canon_input *input)
{
    enum canon_kind kind = input->kind;
    if (kind == CANON_AUTO)
        kind = canon_detect(input->file_name, input->data, input->len);
    for (size_t i = 0; i < N_KINDS; i++)
        if (kinds[i].kind == kind)
            return &kinds[i];
    return &kinds[N_KINDS - 1];
}

/* Writes the exact bytes under a domain of their own, so that the key is never one of a canonical text. */
static int form_exact(const struct kind *kind, const struct canon_input *input, struct form *out)
{
    char domain[32] = DOMAIN_EXACT;
    const char *name = canon_kind_name(kind->kind);
    if (!WARM_EXPECT(strlen(name) < sizeof domain - strlen(domain)))
        return WARM_EINVALID;
    strcat(domain, name);
    form_begin(out, domain);
    put_bytes(input, out);
    return 0;
}

int canon_key(const struct canon_input *input, struct canon_result *out, struct writer *text,
              struct err *e)
{
    if (!WARM_EXPECT(input && out && (input->data || !input->len)))
        return err_set(e, WARM_EINVALID, "no input");
    const struct kind *kind = kind_find(input);
    struct form form;
    memset(&form, 0, offsetof(struct form, buffer));
    form.text = text;
    form.text_start = text ? text->len : 0;
    struct err local = {0};
    int rc = kind->form(input, &form, &local);
    const char *why = rc == WARM_EUNSUPPORTED ? form.why_exact : NULL;
    if (why)
        rc = form_exact(kind, input, &form);
    if (rc) {
        if (e)
            *e = local;
        if (text && !text->failed)
            text->len = form.text_start;
        return rc;
    }
    *out = (struct canon_result){.kind = kind->kind, .exact = why, .why_exact = why};
    form_end(&form, &out->key, &out->proof);
    if (text && text->failed)
        return err_set(e, WARM_ENOMEM, "no memory for the canonical text");
    return 0;
}
