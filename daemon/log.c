/* SPDX-License-Identifier: Apache-2.0 */
/* log.c - lines to stderr. The level is set before threads start. */
#include "daemon/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static enum log_level log_threshold = LOG_LEVEL_INFO;

static const struct {
    const char *name;
    enum log_level level;
} log_names[] = {
    {"error", LOG_LEVEL_ERROR},
    {"warning", LOG_LEVEL_WARNING},
    {"info", LOG_LEVEL_INFO},
    {"debug", LOG_LEVEL_DEBUG},
};

bool log_level_from_name(const char *name, enum log_level *out)
{
    for (size_t i = 0; i < sizeof log_names / sizeof *log_names; i++)
        if (strcmp(name, log_names[i].name) == 0) {
            *out = log_names[i].level;
            return true;
        }
    return false;
}

void log_set_level(enum log_level level) { log_threshold = level; }

/* Writes "<4>" for the journal, else the time of day. Returns the bytes written. */
static size_t log_prefix(char *out, size_t cap, enum log_level level)
{
    if (getenv("JOURNAL_STREAM"))
        return (size_t)snprintf(out, cap, "<%d>warmd: ", (int)level);
    struct timespec now;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &tm);
    size_t n = strftime(out, cap, "%H:%M:%S", &tm);
    return n + (size_t)snprintf(out + n, cap - n, ".%03ld warmd: ", now.tv_nsec / 1000000);
}

void log_line(enum log_level level, const char *format, ...)
{
    if (level > log_threshold)
        return;
    char line[1024];
    size_t n = log_prefix(line, sizeof line, level);
    va_list args;
    va_start(args, format);
    int wrote = vsnprintf(line + n, sizeof line - n, format, args);
    va_end(args);
    n += wrote < 0 ? 0 : (size_t)wrote;
    if (n > sizeof line - 2)
        n = sizeof line - 2;
    line[n++] = '\n';
    if (write(STDERR_FILENO, line, n) < 0)
        return; /* nowhere left to say so */
}
