/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calls.c - the log of calls, and the errors that all calls have in common: no cuInit, no context, a kernel
 * of this context that failed. CALL of driver.h runs call_begin and call_end around each function.
 *
 *     PROCESS/THREAD name(arguments) = result -> what it wrote
 *     1234/1 cuMemAlloc_v2(16) = 0 -> #3
 *     1234/1 ?cuDriverGetVersion() = 0 -> 13000          a query of a kind that warm makes as well
 *
 * Handles and addresses are numbered by their first appearance in the thread, so that logs of two runs compare.
 * Bytes are shown by a digest. The file is $FAKECUDA_CALLS.
 *
 * Thread: any; numbers belong to a thread.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/fakecuda/driver/driver.h"

enum { SMALLEST_ADDRESS = 4096 }; /* lower ones are NULL, and the streams that have no handle */

static __thread struct call *running;
static __thread struct {
    unsigned thread, n, cap, last;
    struct {
        uint64_t address;
        unsigned number;
    } * known;
} numbers;

static const char *setting(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value && *value ? value : otherwise;
}

static void append(const char *path, const char *text, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text, len) != (ssize_t)len)
        fprintf(stderr, "libcuda: cannot write %s\n", path);
    if (fd >= 0)
        close(fd);
}

static void note(const char *what, const char *more)
{
    char line[256];
    const char *path = setting("FAKECUDA_LOG", "");
    snprintf(line, sizeof line, "%s%s\n", what, more);
    if (*path)
        append(path, line, strlen(line));
}

/* ---- the text of a call ---- */

static void add_list(struct call *c, const char *format, va_list list)
{
    size_t room = sizeof c->text - c->len;
    int n = vsnprintf(c->text + c->len, room, format, list);
    c->len += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
}

__attribute__((format(printf, 2, 3))) static void add(struct call *c, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    add_list(c, format, list);
    va_end(list);
}

static void call_add(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    if (running)
        add_list(running, format, list);
    va_end(list);
}

static void forget(uint64_t address)
{
    for (unsigned i = 0; i < numbers.n; i++)
        if (numbers.known[i].address == address)
            numbers.known[i--] = numbers.known[--numbers.n];
}

static void add_address(struct call *c, uint64_t address)
{
    unsigned i = 0;
    if (address < SMALLEST_ADDRESS) {
        add(c, "%u", (unsigned)address);
        return;
    }
    while (i < numbers.n && numbers.known[i].address != address)
        i++;
    if (i == numbers.cap) {
        numbers.cap = 2 * numbers.cap + 16;
        numbers.known = realloc(numbers.known, numbers.cap * sizeof *numbers.known);
    }
    if (i == numbers.n) {
        numbers.known[numbers.n].address = address;
        numbers.known[numbers.n++].number = ++numbers.last;
    }
    add(c, "#%u", numbers.known[i].number);
}

static void call_add_address(unsigned long long address)
{
    call_add(" ");
    if (running)
        add_address(running, address);
}

static void add_bytes(struct call *c, const char *what, const void *data, size_t len)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; data && i < len; i++)
        hash = (hash ^ ((const unsigned char *)data)[i]) * 0x100000001b3u;
    if (data)
        add(c, "%s[%zu]%08x", what, len, (unsigned)(hash ^ hash >> 32));
    else
        add(c, "%s", "NULL");
}

static void add_image(struct call *c, const void *image)
{
    if (image)
        add_bytes(c, image_kind(image), image, image_len(image));
    else
        add(c, "NULL");
}

static bool is_log(int option) { return option == CU_JIT_INFO_LOG || option == CU_JIT_ERROR_LOG; }

/* Adds the options of the JIT compiler; after the call, its logs. */
static void add_options(struct call *c, unsigned n, const int *options, void **values,
                        bool is_after)
{
    add(c, "{");
    for (unsigned i = 0; i < n && options && values; i++) {
        bool has_text = i + 1 < n && is_log(options[i]) && options[i + 1] == options[i] + 1;
        if (!is_after)
            add(c, is_log(options[i]) ? "%d " : "%d:%u ", options[i],
                (unsigned)(uintptr_t)values[i]);
        else if (has_text && values[i])
            add(c, "%d:%u:%.200s ", options[i], (unsigned)(uintptr_t)values[i + 1],
                (const char *)values[i]);
    }
    add(c, "}");
}

/* ---- arguments ---- */

static void add_input(struct call *c, char letter, va_list *list)
{
    const char *text;
    if (letter == 'i')
        add(c, "%d", va_arg(*list, int));
    else if (letter == 'u')
        add(c, "%u", va_arg(*list, unsigned));
    else if (letter == 'z' || letter == 'l')
        add(c, "%zu", va_arg(*list, size_t));
    else if (letter == 'h' || letter == 'x')
        add_address(c, va_arg(*list, uint64_t));
    else if (letter == 'm')
        add_image(c, va_arg(*list, void *));
    else if (letter == 's')
        add(c, "%.200s", (text = va_arg(*list, const char *)) ? text : "NULL");
    else
        add(c, "%s", va_arg(*list, void *) ? "&" : "NULL");
}

static void add_output(struct call *c, char letter, va_list *list)
{
    union {
        void *at;
        int *number;
        size_t *size;
        uint64_t *handle;
        void **image;
        char *text;
    } to = {va_arg(*list, void *)};
    if (!to.at)
        return;
    add(c, " ");
    if (letter == 'I')
        add(c, "%d", *to.number);
    else if (letter == 'Z')
        add(c, "%zu", *to.size);
    else if (letter == 'H')
        add_address(c, *to.handle);
    else if (letter == 'M')
        add_image(c, *to.image);
    else if (letter == 'S')
        add(c, "%s", to.text);
}

static void add_inputs(struct call *c, va_list *list)
{
    for (const char *letter = c->letters + 2; *letter; letter++) {
        unsigned n;
        int *options;
        void **values;
        if (letter != c->letters + 2)
            add(c, ", ");
        if (*letter == 'o' || *letter == 'O') {
            n = *letter == 'o' ? va_arg(*list, unsigned) : 0;
            options = va_arg(*list, int *), values = va_arg(*list, void **);
            n = *letter == 'O' ? va_arg(*list, unsigned) : n;
            add_options(c, n, options, values, false);
        } else {
            add_input(c, *letter, list);
        }
    }
}

static void add_outputs(struct call *c, int code, va_list *list)
{
    const void *bytes = NULL;
    for (const char *letter = c->letters + 2; *letter; letter++) {
        bool is_length = *letter == 'l';
        size_t len = 0;
        if (*letter == 'o' || *letter == 'O') {
            unsigned n = *letter == 'o' ? va_arg(*list, unsigned) : 0;
            int *options = va_arg(*list, int *);
            void **values = va_arg(*list, void **);
            n = *letter == 'O' ? va_arg(*list, unsigned) : n;
            add_options(c, n, options, values, true);
        } else if (*letter == 'd' || *letter == 'D') {
            bytes = va_arg(*list, void *);
        } else if (is_length) {
            len = va_arg(*list, size_t);
            add_bytes(c, " ", code == CU_SUCCESS ? bytes : NULL, len);
        } else if (*letter == 'x') {
            forget(va_arg(*list, uint64_t));
        } else if (strchr("IZHMS", *letter) && code == CU_SUCCESS) {
            add_output(c, *letter, list);
        } else if (*letter == 'i' || *letter == 'u') {
            (void)va_arg(*list, int);
        } else {
            (void)va_arg(*list, uint64_t);
        }
    }
}

/* ---- one call ---- */

/* Returns the error that a call has before it begins. */
static int early_error(char needs)
{
    const struct context *context = context_current();
    if (needs != 'a' && !driver_is_initialized())
        return NOT_INITIALIZED;
    if (needs != 'c')
        return CU_SUCCESS;
    if (!context)
        return NO_CONTEXT;
    return context->handle.is_gone ? CONTEXT_IS_DESTROYED : context->sticky;
}

static int call_begin(struct call *c, const char *name, const char *letters, ...)
{
    static atomic_uint threads;
    va_list list;
    *c = (struct call){.name = name, .letters = letters};
    running = NULL;
    if (*setting("FAKECUDA_CALLS", "")) {
        if (!numbers.thread)
            numbers.thread = ++threads;
        running = c;
        add(c, "%d/%u %s%s(", (int)getpid(), numbers.thread, letters[0] == 'q' ? "?" : "", name);
        va_start(list, letters);
        add_inputs(c, &list);
        va_end(list);
    }
    return early_error(letters[1]);
}

static int call_end(struct call *c, int code, ...)
{
    va_list list;
    if (running == c) {
        add(c, ") = %d ->", code);
        va_start(list, code);
        add_outputs(c, code, &list);
        va_end(list);
        c->len -= c->len == sizeof c->text - 1;
        add(c, "\n");
        append(setting("FAKECUDA_CALLS", ""), c->text, c->len);
    }
    running = NULL;
    return code;
}
