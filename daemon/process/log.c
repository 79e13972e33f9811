/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.c - writes one line to stderr, and decides how many lines one user may cause.
 *
 * Every file of the daemon calls it. main.c sets the level before other threads start.
 *
 * Thread: any, but log_user and log_asked: loop thread.
 */
#include "daemon/process/log.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "store/clock.h"

static enum log_level log_threshold = LOG_LEVEL_INFO;
static enum log_format log_form = LOG_FORMAT_TEXT;

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

bool log_format_from_name(const char *name, enum log_format *out)
{
    static const char *const names[] = {
        [LOG_FORMAT_TEXT] = "text", [LOG_FORMAT_LOGFMT] = "logfmt", [LOG_FORMAT_JSON] = "json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (enum log_format)i;
            return true;
        }
    return false;
}

void log_set_format(enum log_format format) { log_form = format; }

/* Writes the time with date and UTC offset. Returns the bytes written. */
static size_t log_time(char *out, size_t cap)
{
    struct timespec now;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &tm);
    long offset_min = tm.tm_gmtoff / 60, minutes = offset_min < 0 ? -offset_min : offset_min;
    size_t n = strftime(out, cap, "%Y-%m-%dT%H:%M:%S", &tm);
    return n + (size_t)snprintf(out + n, cap - n, ".%03ld%c%02ld:%02ld", now.tv_nsec / 1000000,
                                offset_min < 0 ? '-' : '+', minutes / 60, minutes % 60);
}

bool log_is_journal(void)
{
    char own[64];
    struct stat st;
    const char *named =
        getenv("JOURNAL_STREAM"); /* DEVICE:INODE; a program may have it from its parent */
    if (!named || fstat(STDERR_FILENO, &st) != 0)
        return false;
    snprintf(own, sizeof own, "%llu:%llu", (unsigned long long)st.st_dev,
             (unsigned long long)st.st_ino);
    return strcmp(own, named) == 0;
}

/* Writes everything before the message: for the journal "<4>" instead of a time. Returns the bytes
 * written. */
static size_t log_prefix(char *out, size_t cap, enum log_level level)
{
    static const struct {
        const char *time, *level;
    } forms[] = {[LOG_FORMAT_TEXT] = {"%s ", "%s warmd: "},
                 [LOG_FORMAT_LOGFMT] = {"time=%s ", "level=%s msg=\""},
                 [LOG_FORMAT_JSON] = {"{\"time\": \"%s\", ", "\"level\": \"%s\", \"msg\": \""}};
    size_t i = 0;
    while (i < sizeof log_names / sizeof *log_names && log_names[i].level != level)
        i++;
    assert(i < sizeof log_names / sizeof *log_names);
    const char *name = log_names[i].name;
    char time[48];
    if (log_is_journal()) {
        size_t n = (size_t)snprintf(out, cap, "<%d>", (int)level);
        if (log_form == LOG_FORMAT_TEXT)
            return n + (size_t)snprintf(out + n, cap - n, "warmd: ");
        if (log_form == LOG_FORMAT_JSON)
            out[n++] = '{';
        return n + (size_t)snprintf(out + n, cap - n, forms[log_form].level, name);
    }
    log_time(time, sizeof time);
    size_t n = (size_t)snprintf(out, cap, forms[log_form].time, time);
    return n + (size_t)snprintf(out + n, cap - n, forms[log_form].level, name);
}

#define LOG_BYTE_MAX 5
/* Writes a message: bytes that are not printable as \xNN, and between quotes the quote and the
 * backslash behind a backslash. Returns the bytes written, at most LOG_BYTE_MAX for each. */
static size_t log_escape(char *out, const char *text)
{
    bool is_quoted = log_form != LOG_FORMAT_TEXT;
    size_t n = 0;
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        bool is_printable = *c >= ' ' && *c < 0x7f;
        if (is_quoted && (*c == '"' || *c == '\\' || !is_printable))
            out[n++] = '\\';
        if (is_printable)
            out[n++] = (char)*c;
        else
            n += (size_t)sprintf(out + n, "\\x%02x", *c);
    }
    return n;
}

/* The process that asked for something; NULL for a line that is of no process. */
struct log_asker {
    uint32_t uid;
    long pid;
};

static size_t log_suffix(char *out, size_t cap, const struct log_asker *asker)
{
    static const char *const fields[] = {[LOG_FORMAT_TEXT] = "",
                                         [LOG_FORMAT_LOGFMT] = " uid=%u pid=%ld",
                                         [LOG_FORMAT_JSON] = ", \"uid\": %u, \"pid\": %ld"};
    size_t n = 0;
    if (log_form != LOG_FORMAT_TEXT)
        out[n++] = '"';
    if (asker && log_form != LOG_FORMAT_TEXT)
        n += (size_t)snprintf(out + n, cap - n, fields[log_form], (unsigned)asker->uid, asker->pid);
    if (log_form == LOG_FORMAT_JSON)
        out[n++] = '}';
    out[n++] = '\n';
    return n;
}

/* ---- the journal ---- */

static int journal = -1; /* a connected datagram socket, or -1 */

void log_open_journal(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    assert(strlen(path) < sizeof at.sun_path);
    strcpy(at.sun_path, path);
    if (journal >= 0 || !log_is_journal())
        return;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0)
        journal = fd;
    else if (fd >= 0)
        close(fd);
}

/* Sends a message with its fields (systemd's "Native Journal Protocol": KEY=value lines; the message has
 * no newline). False if the journal does not take it. */
static bool log_to_journal(enum log_level level, const struct log_asker *asker, const char *message,
                           size_t len)
{
    char fields[160], who[80] = "";
    if (asker)
        snprintf(who, sizeof who, "WARM_UID=%u\nWARM_PID=%ld\n", (unsigned)asker->uid, asker->pid);
    int n = snprintf(fields, sizeof fields, "\nPRIORITY=%d\nSYSLOG_IDENTIFIER=warmd\n%s",
                     (int)level, who);
    struct iovec parts[] = {{(char *)(uintptr_t) "MESSAGE=", 8},
                            {(char *)(uintptr_t)message, len},
                            {fields, (size_t)n}};
    struct msghdr m = {.msg_iov = parts, .msg_iovlen = 3};
    return sendmsg(journal, &m, MSG_NOSIGNAL) >= 0;
}

static void log_write(enum log_level level, const struct log_asker *asker, const char *format,
                      va_list args)
{
    char text[1024], line[LOG_BYTE_MAX * sizeof text + 256];
    size_t n = log_prefix(line, 128, level), who = 0;
    if (asker)
        who = (size_t)snprintf(text, sizeof text, "uid %u (pid %ld) ", (unsigned)asker->uid,
                               asker->pid);
    vsnprintf(text + who, sizeof text - who, format, args);
    size_t len = log_escape(line + n, text);
    if (journal >= 0 && log_form == LOG_FORMAT_TEXT && log_to_journal(level, asker, line + n, len))
        return;
    n += len;
    n += log_suffix(line + n, sizeof line - n, asker);
    if (write(STDERR_FILENO, line, n) < 0)
        return; /* nowhere left to say so */
}

void log_line(enum log_level level, const char *format, ...)
{
    if (level > log_threshold)
        return;
    va_list args;
    va_start(args, format);
    log_write(level, NULL, format, args);
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

/* Counts a line of a user. True if it is written. */
static bool log_admits(uint32_t uid)
{
    uint64_t now_ms = clock_mono_ms();
    struct log_user *user = log_user_of(uid, now_ms);
    if (now_ms - user->since_ms >= LOG_USER_MS)
        *user = (struct log_user){.uid = uid, .since_ms = now_ms};
    if (++user->lines == LOG_USER_LINES)
        log_warning("uid %u: further lines of this user are left out for %u s", (unsigned)uid,
                    LOG_USER_MS / 1000);
    return user->lines < LOG_USER_LINES;
}

void log_user(uint32_t uid, enum log_level level, const char *format, ...)
{
    if (level > log_threshold || !log_admits(uid))
        return;
    va_list args;
    va_start(args, format);
    log_write(level, NULL, format, args);
    va_end(args);
}

void log_asked(uint32_t uid, long pid, const char *format, ...)
{
    if (LOG_LEVEL_INFO > log_threshold || (uid != 0 && uid != geteuid() && !log_admits(uid)))
        return;
    va_list args;
    va_start(args, format);
    log_write(LOG_LEVEL_INFO, &(struct log_asker){uid, pid}, format, args);
    va_end(args);
}
