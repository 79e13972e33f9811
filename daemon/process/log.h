/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.h - writes lines for operators to stderr.
 *
 *     text     2026-03-01T09:30:00.123+01:00 info warmd: uid 1000 (pid 42) evicted 7 entries, …
 *     logfmt   time=2026-03-01T09:30:00.123+01:00 level=info msg="uid 1000 …" uid=1000 pid=42
 *     json     {"time": "2026-…", "level": "info", "msg": "uid 1000 …", "uid": 1000, "pid": 42}
 *
 * If stderr is the journal ($JOURNAL_STREAM), a line of text goes to the journal's own socket. It has the
 * fields PRIORITY and SYSLOG_IDENTIFIER, and a request's also WARM_UID and WARM_PID. Another format goes to
 * stderr, with the syslog level ("<6>") in place of the time.
 *
 * A line may contain text of a client. Every byte that is no printable ASCII character is written as \xNN, and
 * in quotes a quote follows a backslash. So nobody can add a line or a field, or move the terminal's cursor.
 * A user who causes many lines loses some of them, so that the lines of others can be found.
 *
 * Thread: any, but log_user and log_asked: loop thread. A line is one write. Memory: none.
 */
#ifndef WARM_DAEMON_PROCESS_LOG_H
#define WARM_DAEMON_PROCESS_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level {
    LOG_LEVEL_ERROR = 3,
    LOG_LEVEL_WARNING = 4,
    LOG_LEVEL_INFO = 6,
    LOG_LEVEL_DEBUG = 7
};

/* Reads "error", "warning", "info" or "debug". False for any other name. */
bool log_level_from_name(const char *name, enum log_level *out);
/* Sets the level; lines beyond it are not written. */
void log_set_level(enum log_level level);

enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_LOGFMT, LOG_FORMAT_JSON };

/* Reads "text", "logfmt" or "json". False for any other name. */
bool log_format_from_name(const char *name, enum log_format *out);
/* Sets the format of the lines. */
void log_set_format(enum log_format format);

/* True if stderr is the journal: the stream that $JOURNAL_STREAM names. */
bool log_is_journal(void);
#define LOG_JOURNAL "/run/systemd/journal/socket"
/* Sends lines of the format text to the journal's socket at `path` from now on, if stderr is the
 * journal. */
void log_open_journal(const char *path);

/* Writes a line. What a client chose may be in it. */
void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define LOG_USER_LINES 20u
#define LOG_USER_MS 10000u
/* Writes a line that a client of this user caused: at most LOG_USER_LINES of one user in
 * LOG_USER_MS. */
void log_user(uint32_t uid, enum log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Writes a line at info about a request of a process; "uid 1000 (pid 42) " stands before the text.
 * Always writes the lines of root and of the daemon's own user, and others' as log_user does. */
void log_asked(uint32_t uid, long pid, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define log_error(...) log_line(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_line(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...) log_line(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
