/* SPDX-License-Identifier: Apache-2.0 */
/*
 * debug.c - decides if a line of $WARM_LOG is written, and writes it. libwarm and the preloaded library
 * call it wherever something happens that a person may look for.
 *
 * Thread: any.
 */
#include "client/lib/debug.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define UNREAD (-1)
#define TEXT_MAX 1024 /* bytes of a line's text */
#define NAME_MAX_SHOWN 200

static const char *const level_names[] = {"off", "error", "warning", "info", "debug"};

static _Atomic int wanted = UNREAD; /* the level; two threads that read it at once read the same */

bool debug_setting(const char *text, enum debug_level *out, const char **out_path)
{
    size_t len = strcspn(text, ":");
    if (text[len] && text[len + 1] != '/')
        return false;
    for (int i = DEBUG_OFF; i <= DEBUG_ALL; i++)
        if (strlen(level_names[i]) == len && memcmp(level_names[i], text, len) == 0) {
            *out = (enum debug_level)i;
            *out_path = text[len] ? text + len + 1 : NULL;
            return true;
        }
    return false;
}

bool debug_wants(enum debug_level level)
{
    int now = atomic_load_explicit(&wanted, memory_order_relaxed);
    if (now == UNREAD) {
        const char *text = getenv("WARM_LOG"), *path;
        enum debug_level set = DEBUG_OFF;
        now = text && debug_setting(text, &set, &path) ? (int)set : DEBUG_OFF;
        atomic_store_explicit(&wanted, now, memory_order_relaxed);
    }
    return (int)level <= now && level != DEBUG_OFF;
}

size_t debug_time(struct timespec t, char *out, size_t cap)
{
    long long days = t.tv_sec / 86400 + 719468, s = t.tv_sec % 86400; /* since March 1st, year 0 */
    long long era = days / 146097, day = days % 146097;
    long long year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    day -= 365 * year + year / 4 - year / 100;
    long long month = (5 * day + 2) / 153; /* since March */
    return (size_t)snprintf(out, cap, "%04lld-%02lld-%02lldT%02lld:%02lld:%02lld.%03ldZ",
                            year + 400 * era + (month > 9), month < 10 ? month + 3 : month - 9,
                            day - (153 * month + 2) / 5 + 1, s / 3600, s / 60 % 60, s % 60,
                            t.tv_nsec / 1000000);
}

static void write_line(const char *line, size_t len)
{
    const char *text = getenv("WARM_LOG"), *path = NULL;
    enum debug_level level;
    if (!text || !debug_setting(text, &level, &path))
        return; /* the program has changed it */
    const int how = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK; /* a FIFO */
    int fd = path ? open(path, how, 0600) : STDERR_FILENO;
    if (fd < 0 || write(fd, line, len) < 0)
        errno = 0; /* nowhere left to say so */
    if (path && fd >= 0)
        close(fd);
}

void debug_say(enum debug_level level, const char *format, ...)
{
    if (!debug_wants(level))
        return;
    int error = errno;
    char text[TEXT_MAX], line[4 * TEXT_MAX + 128];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    size_t n = debug_time(now, line, 128);
    n += (size_t)snprintf(line + n, 128 - n, " %s warm[%ld]: ", level_names[level], (long)getpid());
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        if (*c >= ' ' && *c < 0x7f)
            line[n++] = (char)*c;
        else
            n += (size_t)sprintf(line + n, "\\x%02x", *c);
    line[n++] = '\n';
    write_line(line, n);
    errno = error;
}

unsigned long long debug_now_us(void)
{
    struct timespec now;
    if (!debug_wants(DEBUG_ALL))
        return 0;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000;
}

void debug_request(const char *verb, const char *name, size_t name_len, const char *outcome,
                   size_t len, unsigned long long began_us)
{
    if (!began_us)
        return;
    debug_say(DEBUG_ALL, "%s %.*s: %s, %zu bytes, %llu us", verb,
              (int)(name_len < NAME_MAX_SHOWN ? name_len : NAME_MAX_SHOWN), name, outcome, len,
              debug_now_us() - began_us);
}
