/* SPDX-License-Identifier: Apache-2.0 */
/*
 * npy.c - decides whether a file's bytes are a tensor of the wanted type. main.c calls it.
 *
 * Thread: any; no state.
 */
#include "kernels/exec/npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC "\x93NUMPY"
#define MAGIC_LEN 6u
#define HEADER_MAX 65536u
#define HEADER_ALIGN 64u /* the elements begin at a multiple of it */

/* By enum elem. NumPy has no bf16: ml_dtypes' is two bytes. */
static const char *const DESCRS[ELEM_N] = {"<f4", "<i4", "|b1", "<i8", "<f8", "<f2", "<V2",
                                           "|i1", "<i2", "|u1", "<u2", "<u4", "<u8"};

void npy_type_text(const struct tensor *type, char *out, size_t cap)
{
    size_t at = 0;
    out[0] = '\0';
    for (uint32_t d = 0; d < type->rank && at < cap; d++)
        at += (size_t)snprintf(out + at, cap - at, "%" PRId64 "x", type->dims[d]);
    if (at < cap)
        snprintf(out + at, cap - at, "%s", program_elem_name(type->elem));
}

/* Returns the text behind a key of the header, or NULL. */
static const char *value_of(const char *header, const char *key)
{
    const char *at = strstr(header, key);
    if (!at)
        return NULL;
    at += strlen(key);
    return at + strspn(at, " :");
}

/* True if a shape, "(2, 3)", is the type's. */
static bool same_shape(const char *at, const struct tensor *type)
{
    if (*at++ != '(')
        return false;
    for (uint32_t d = 0; d < type->rank; d++) {
        char *end;
        at += strspn(at, " ,");
        if (strtoll(at, &end, 10) != type->dims[d] || end == at)
            return false;
        at = end;
    }
    at += strspn(at, " ,");
    return *at == ')';
}

int npy_read(const void *data, size_t len, const struct tensor *type, struct view *out,
             struct err *e)
{
    struct reader r = reader_over(data, len);
    size_t bytes = (size_t)type->n * program_elem_size(type->elem);
    char wanted[128];
    npy_type_text(type, wanted, sizeof wanted);
    if (len >= MAGIC_LEN && memcmp(data, MAGIC, MAGIC_LEN) == 0) {
        reader_bytes(&r, MAGIC_LEN);
        uint16_t version = reader_u16(&r);
        uint32_t text_len = (version & 0xFF) == 1 ? reader_u16(&r) : reader_u32(&r);
        struct view text = reader_bytes(&r, text_len <= HEADER_MAX ? text_len : SIZE_MAX);
        char *header = r.failed ? NULL : strndup(text.data, text.len);
        const char *descr = header ? value_of(header, "'descr'") : NULL,
                   *shape = header ? value_of(header, "'shape'") : NULL,
                   *order = header ? value_of(header, "'fortran_order'") : NULL;
        int rc = 0;
        if (!descr || !shape || !order)
            rc = err_set(e, WARM_EMALFORMED, "a damaged .npy file");
        else if (descr[0] != '\'' || strncmp(descr + 1, DESCRS[type->elem], 3) != 0 ||
                 strncmp(order, "False", 5) != 0 || !same_shape(shape, type))
            rc = err_set(e, WARM_EINVALID,
                         "the argument is %s, row-major, and the file has descr %.*s, shape %.*s, "
                         "fortran_order %.*s",
                         wanted, (int)strcspn(descr, ",}\n"), descr, (int)strcspn(shape, ")\n") + 1,
                         shape, (int)strcspn(order, ",}\n"), order);
        free(header);
        if (rc)
            return rc;
    }
    if (r.len != bytes)
        return err_set(e, WARM_EINVALID, "it has %zu bytes of elements; a tensor %s has %zu", r.len,
                       wanted, bytes);
    *out = (struct view){r.data, r.len};
    return 0;
}

void npy_write(const struct tensor *type, const void *elements, struct writer *out)
{
    struct writer header;
    writer_init(&header, 0);
    writer_format(&header, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                  DESCRS[type->elem]);
    for (uint32_t d = 0; d < type->rank; d++)
        writer_format(&header, "%" PRId64 ",%s", type->dims[d], d + 1 < type->rank ? " " : "");
    writer_format(&header, "), }");
    while ((MAGIC_LEN + 4 + header.len + 1) % HEADER_ALIGN && !header.failed)
        writer_u8(&header, ' ');
    writer_u8(&header, '\n');
    writer_bytes(out, MAGIC, MAGIC_LEN);
    writer_u16(out, 1); /* version 1.0 */
    writer_u16(out, (uint16_t)header.len);
    writer_bytes(out, header.data, header.len);
    writer_bytes(out, elements, (size_t)type->n * program_elem_size(type->elem));
    out->failed |= header.failed;
    writer_close(&header);
}
