/* SPDX-License-Identifier: Apache-2.0 */
/*
 * debug.h - lines about what warm does in a program, for people who look for a fault. $WARM_LOG switches
 * them on.
 *
 *     WARM_LOG=LEVEL[:/FILE]     LEVEL is error, warning, info or debug; without FILE: stderr
 *     2026-03-01T09:30:00.123Z debug warm[42]: get pt2:fx-graph-v1::f…: hit, 1203 bytes, 61 us
 *
 * Each line is one write, to a file that is opened for it: programs close descriptors that they do not
 * know. Bytes that are no printable ASCII are written as \xNN.
 *
 * Thread: any; no lock, no allocation. Memory: one flag.
 */
#ifndef WARM_LIB_DEBUG_H
#define WARM_LIB_DEBUG_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

enum debug_level { DEBUG_OFF, DEBUG_ERROR, DEBUG_WARNING, DEBUG_INFO, DEBUG_ALL };

/* Reads $WARM_LOG. False if it is no level with an absolute path; `*out_path` is NULL for stderr. */
bool debug_setting(const char *text, enum debug_level *out, const char **out_path);
/* True if lines of this level are written. The environment is read once. */
bool debug_wants(enum debug_level level);
/* Writes a line, if its level is wanted. errno is kept. */
void debug_say(enum debug_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Writes a time since 1970 in UTC; returns the bytes written. Without gmtime_r, whose lock another thread may
 * hold at a fork: the child then waits for ever. Source: H. Hinnant, "chrono-Compatible Low-Level Date Algorithms",
 * civil_from_days. */
size_t debug_time(struct timespec t, char *out, size_t cap);
/* Writes how a request for an entry ended: `verb` "get", its name or key, 0 or an error, the value's
 * bytes, and the time since `began_us` (debug_now_us). */
void debug_request(const char *verb, const char *name, size_t name_len, const char *outcome,
                   size_t len, unsigned long long began_us);
/* Returns a time that never goes back; 0 if debug_request would write nothing. */
unsigned long long debug_now_us(void);

#endif
