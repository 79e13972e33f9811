/* SPDX-License-Identifier: Apache-2.0 */
/*
 * form.c - the sink into which a form function puts its canonical text: it hashes the text, a buffer at a
 * time, and copies it if somebody wants to read it. form.h has the contract.
 *
 * Thread: any; no state.
 */
#include "keygen/canon/form.h"

#include "keygen/expect.h"

#define TAG_END 1u /* after the text, so that the text is known to be complete */

static void form_pass(struct form *out, const void *data, size_t len)
{
    key_add_piece(&out->builder, data, len);
    out->len += len;
    if (out->hashed)
        writer_bytes(out->hashed, data, len);
    if (out->text && !out->text_apart)
        writer_bytes(out->text, data, len);
}

static void form_flush(struct form *out)
{
    if (!WARM_EXPECT(out->used <= sizeof out->buffer)) /* form_room and form_put keep it */
        out->used = 0;
    form_pass(out, out->buffer, out->used);
    out->used = 0;
}

void form_text_apart(struct form *out)
{
    form_flush(out);
    out->text_apart = true;
}

void form_begin(struct form *out, const char *domain)
{
    (void)WARM_EXPECT(domain && *domain &&
                      (!out->text || out->text_start <= out->text->len || out->text->failed));
    if (out->text && !out->text->failed)
        out->text->len = out->text_start;
    if (out->hashed)
        out->hashed->len = 0;
    out->text_apart = false;
    out->len = 0;
    out->used = 0;
    key_begin(&out->builder, domain);
}

void form_put_slow(struct form *out, const void *data, size_t len)
{
    form_flush(out);
    if (len <= sizeof out->buffer) {
        memcpy(out->buffer, data, len);
        out->used = len;
        return;
    }
    form_pass(out, data, len);
}

void form_put_u64(struct form *out, uint64_t value)
{
    char digits[DECIMAL_MAX], *end = digits + sizeof digits, *at = decimal_before(end, value);
    form_put(out, at, (size_t)(end - at));
}

void form_end(struct form *out, struct key *out_key, struct proof *out_proof)
{
    form_flush(out);
    key_add_u64(&out->builder, TAG_END, out->len);
    key_end(&out->builder, out_key, out_proof);
}

bool form_is_process_bound(const char *target, size_t len)
{
    return memmem(target, len, "enzymexla_compile_", 18) ||
           memmem(target, len, "CustomSPMDPartitioning", 22) ||
           memmem(target, len, "InspectSharding", 15) ||
           (memmem(target, len, "python", 6) && memmem(target, len, "callback", 8));
}
