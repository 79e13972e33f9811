/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.c - writes one line to stderr, and decides how many lines one user may cause.
 *
 * Every file of the daemon calls it. main.c sets the level before other threads start.
 *
 * Thread: any, but log_user: loop thread.
 */
#include "daemon/process/log.h"

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

static void log_write(enum log_level level, const char *format, va_list args)
{
    char text[1024], line[4 * sizeof text + 64];
    size_t n = log_prefix(line, sizeof line, level);
    vsnprintf(text, sizeof text, format, args);
    for (const unsigned char *c = (unsigned char *)text; *c; c++)
        if (*c >= ' ' && *c < 0x7f)
            line[n++] = (char)*c;
        else
            n += (size_t)sprintf(line + n, "\\x%02x", *c);
    line[n++] = '\n';
    if (write(STDERR_FILENO, line, n) < 0)
        return; /* no place is left to report it */
}

void log_line(enum log_level level, const char *format, ...)
{
    if (level > log_threshold)
        return;
    va_list args;
    va_start(args, format);
    log_write(level, format, args);
    va_end(args);
}

/* ---- lines that users cause ---- */

#define LOG_USERS                                                                                  \
    64u /* users that are counted at once; the one that is quiet for longest makes room */

static struct log_user {
    uint32_t uid;
    unsigned lines; /* since `since_ms`; 0: a free slot */
    uint64_t since_ms;
} log_users[LOG_USERS];

static struct log_user *log_user_of(uint32_t uid, uint64_t now_ms)
{
    struct log_user *oldest = log_users;
    for (struct log_user *u = log_users; u < log_users + LOG_USERS; u++) {
        if (u->lines && u->uid == uid)
            return u;
        if (!u->lines || u->since_ms < oldest->since_ms)
            oldest = u;
    }
    *oldest = (struct log_user){.uid = uid, .since_ms = now_ms};
    return oldest;
}

void log_user(uint32_t uid, enum log_level level, const char *format, ...)
{
    if (level > log_threshold)
        return;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t now_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    struct log_user *user = log_user_of(uid, now_ms);
    if (now_ms - user->since_ms >= LOG_USER_MS)
        *user = (struct log_user){.uid = uid, .since_ms = now_ms};
    if (++user->lines == LOG_USER_LINES)
        log_warning("uid %u: further lines of this user are left out for %u s", (unsigned)uid,
                    LOG_USER_MS / 1000);
    if (user->lines >= LOG_USER_LINES)
        return;
    va_list args;
    va_start(args, format);
    log_write(level, format, args);
    va_end(args);
}
