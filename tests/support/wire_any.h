/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire_any.h - one function over every message of the wire, for the tests and the fuzzer.
 */
#ifndef WARM_TESTS_SUPPORT_WIRE_ANY_H
#define WARM_TESTS_SUPPORT_WIRE_ANY_H

#include "client/wire/wire.h"

/* Decodes a frame by its type, and, if that works, appends to `again` what the encoder makes of
 * it. 0, the decoder's error, or UNSUPPORTED for a type that has no fields or is not known. */
static inline int wire_any(const struct wire_frame *frame, struct writer *again, struct err *e)
{
    int code;
    switch (frame->type) {
#define X(TYPE, name, body)                                                                        \
    case WIRE_##TYPE: {                                                                            \
        struct wire_##body message;                                                                \
        code = wire_get_##name(frame, &message, e);                                                \
        if (!code)                                                                                 \
            wire_put_##name(again, frame->tag, &message);                                          \
        return code;                                                                               \
    }
        WIRE_MESSAGE_LIST(X)
#undef X
    default: return WARM_EUNSUPPORTED;
    }
}

#endif
