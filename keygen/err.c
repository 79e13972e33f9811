/* SPDX-License-Identifier: Apache-2.0 */
/*
 * err.c - decides the text of an error. It fills a struct err: the code, a text from a format, the
 * system's own reason, and line and column of a place in a text. It cuts a text that is too long.
 * The layer that finds a fault calls it.
 *
 * Thread: any; no state.
 */
#include "keygen/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void err_fill(struct err *e, int code, const char *format, va_list args)
{
    e->code = code;
    e->line = 0;
    e->column = 0;
    vsnprintf(e->text, sizeof e->text, format, args);
}

int err_set(struct err *e, int code, const char *format, ...)
{
    if (e) {
        va_list args;
        va_start(args, format);
        err_fill(e, code, format, args);
        va_end(args);
    }
    return code;
}

int err_sys(struct err *e, int code, int errnum, const char *format, ...)
{
    if (e) {
        va_list args;
        va_start(args, format);
        err_fill(e, code, format, args);
        va_end(args);
        size_t used = strlen(e->text);
        snprintf(e->text + used, sizeof e->text - used, ": %s", strerror(errnum));
    }
    return code;
}

void err_place(struct err *e, const char *text, size_t len, size_t at)
{
    if (e == NULL)
        return;
    e->line = e->column = 1;
    for (size_t i = 0; i < at && i < len; i++) {
        e->column = text[i] == '\n' ? 1 : e->column + 1;
        e->line += text[i] == '\n';
    }
}

const char *err_name(int code)
{
    switch (code) {
    case 0: return "OK";
#define X(name, number, text)                                                                      \
    case WARM_E##name: return #name;
        WARM_ERR_LIST(X)
#undef X
    default: return "UNKNOWN";
    }
}

const char *err_text(int code)
{
    switch (code) {
    case 0: return "no error";
#define X(name, number, text)                                                                      \
    case WARM_E##name: return text;
        WARM_ERR_LIST(X)
#undef X
    default: return "unknown error";
    }
}
