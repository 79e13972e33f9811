/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - the types and functions that the files of the history share.
 *
 *     history.c   sessions; misses and their reasons
 *     tables.c    the tables: entries that have left, known recipes, misses
 *     events.c    answers to requests, and the time that a session saved
 *     feed.c      what happens now, for `warm events`
 *     report.c    the answer to a question, as JSON
 *     sessions.c  which entries each session used, also in a file
 *     file.c      all but sessions and events, in a file
 *     lines.c     in which line a header has changed
 *
 * Thread: loop thread. Memory: all of it is in struct history.
 */
#ifndef WARM_DAEMON_HISTORY_INTERNAL_H
#define WARM_DAEMON_HISTORY_INTERNAL_H

#include <string.h>

#include "daemon/history/history.h"
#include "daemon/history/shares.h"
#include "daemon/worker/line_digests.h"
#include "store/id_set.h"

#define SET 4u            /* places of one set of `left` */
#define BUCKETS 1024u     /* of the index of known recipes */
#define NOBODY UINT16_MAX /* end of a chain */
#define HISTORY_TEXT_MAX WIRE_NAME_MAX
#define EVENT_LABEL 96u /* bytes */

struct session {
    char id[WIRE_SESSION_MAX + 1]; /* "": a free place */
    char project[WIRE_PROJECT_MAX + 1];
    char command[WIRE_NAME_MAX + 1]; /* "": nobody told */
    uint32_t uid;
    unsigned refs;
    uint64_t number; /* never the same twice */
    uint64_t started_ms, last_ms;
    uint64_t counters[HISTORY_N_COUNTERS];
    uint64_t n_events; /* ever, also those that gave way */
    struct id_set used;
    uint32_t lost; /* entries that are not in it, at least */
    bool unsaved;  /* its file lacks an entry */
};

struct known {
    struct store_id id;
    uint32_t uid;
    uint8_t kept;                  /* enum history_kept */
    uint16_t next;                 /* in its bucket */
    uint64_t at_ms;                /* 0: a free place */
    uint64_t session;              /* number of the last one that used it; 0: none */
    uint64_t source, label_digest; /* 0: there is none */
    uint8_t *recipe;
    size_t len;
};

enum history_text {
    TEXT_SESSION,
    TEXT_NAME,
    TEXT_LABEL,
    TEXT_HARDWARE,
    TEXT_COMPILER,
    TEXT_TEXT,
    TEXT_TIER,
    TEXTS
};

struct miss {
    uint64_t number; /* 0: the place is free */
    uint64_t at_ms;
    struct store_id id;
    uint32_t uid;
    uint64_t session; /* number */
    uint64_t event;   /* number; 0: none */
    uint8_t kind, reason;
    bool settled;
    char *text[TEXTS];     /* NULL: empty */
    struct writer changes; /* n × blobs part, old, new */
    unsigned n_changes;
};

struct event {
    uint64_t number;        /* 0: the place is free */
    uint64_t session;       /* number */
    struct history_event e; /* without its label */
    char label[EVENT_LABEL];
    uint8_t label_len;
};

/* The lines of one content of a header. */
struct known_lines {
    uint64_t digest; /* the first 8 bytes of its SHA-256 */
    struct line_digests lines;
};

struct history {
    char *path;
    bool loaded, dirty;
    uint64_t last_session;
    struct session session[HISTORY_SESSIONS];
    uint64_t n_used; /* entries of all sessions */
    bool sessions_loaded;
    struct store_departure left[HISTORY_LEFT];
    struct known known[HISTORY_KNOWN];
    uint16_t bucket[BUCKETS];
    size_t next_known, known_bytes;
    uint64_t n_added;                   /* recipes, ever */
    uint32_t miss_hash[HISTORY_MISSES]; /* of their ids, for a fast search */
    struct miss miss[HISTORY_MISSES];
    struct shares miss_shares;
    uint16_t next_miss[HISTORY_MISSES];
    struct known_lines lines[HISTORY_LINES];
    struct usage usage;
    struct event event[HISTORY_EVENTS];
    struct shares event_shares;
    uint16_t next_event[HISTORY_EVENTS];
};

/* Returns the hash that finds an entry's misses. */
static inline uint32_t history_hash(const struct store_id *id)
{
    uint32_t bits; /* keys are digests */
    memcpy(&bits, id->key.bytes + 4, sizeof bits);
    return bits ^ id->owner * 0x9e3779b1u;
}

/* ---- tables.c ---- */

/* Returns the departure of an entry; NULL if none is known. */
struct store_departure *history_left_find(struct history *h, const struct store_id *id);
/* Notes that an entry is gone, and why. */
void history_left_add(struct history *h, const struct store_departure *gone);
/* Returns the known recipe of an entry; NULL if there is none. */
struct known *history_known_find(struct history *h, const struct store_id *id);
/* Adds a known recipe like `from`, with a copy of its bytes. */
void history_known_add(struct history *h, const struct known *from, struct view recipe);
/* Empties a place of the known recipes. */
void history_known_drop(struct history *h, struct known *k);
/* Computes the digests of label and source, which tell if two recipes are of one program. */
void history_kinship(struct view recipe, uint64_t *source, uint64_t *label);
/* Finds a miss by its number; NULL if it is gone. */
struct miss *history_miss_at(struct history *h, uint64_t number);
/* Empties a place for a new miss of a user (shares.h), and returns it. */
struct miss *history_miss_new(struct history *h, uint32_t uid);
/* Lists the misses, the oldest first. Returns how many there are. */
size_t history_misses(const struct history *h, const struct miss *out[HISTORY_MISSES]);
/* Empties the place of a miss. */
void history_miss_clear(struct miss *m);
/* Copies one of the texts of a miss, cut to HISTORY_TEXT_MAX. */
void history_set_text(struct miss *m, enum history_text which, struct view text);

/* ---- events.c ---- */

/* Takes back the event of a miss. False if it is no longer known. */
bool history_event_forget(struct history *h, const struct miss *m);
/* Returns the next event of a session after `*number`, which it sets; NULL after the last one. */
const struct event *history_event_next(const struct history *h, const struct session *session,
                                       uint64_t *number);
/* Returns the least time that the hits of a session saved: times that overlap, such as those of an entry
 * and of its part, count once. */
uint64_t history_gained_ms(const struct history *h, const struct session *session);

/* ---- feed.c ---- */

/* Writes what came after the number `id` of a query, the newest number and how many are lost; with an empty `id`
 * the number alone. */
void history_feed_write(const struct history_query *query, struct writer *out);

/* ---- sessions.c ---- */

/* Finds a place for a new session: a free one, or that of the session that is silent for longest. NULL: all
 * are in use. */
struct session *history_session_place(struct history *h);
/* Adds to a new session of a user and id what an earlier daemon knew of it. */
void history_session_begin(struct history *h, struct session *s);
/* Empties the place of a session, and removes its file. */
void history_session_drop(struct history *h, struct session *s);
/* Reads the sessions of earlier daemons, once, before a question about them is answered. */
void history_sessions_load(struct history *h);
/* Writes the files of sessions. */
void history_sessions_save(struct history *h);
/* Frees what the sessions own. */
void history_sessions_free(struct history *h);
/* Reads the bytes of a session's file, without their digest. False if they are none. */
bool history_session_read(const void *data, size_t len, struct session *out);

/* ---- file.c ---- */

/* Reads the file, when it is first needed. */
void history_load(struct history *h);
/* Writes the file, if anything changed. */
void history_file_save(struct history *h);
/* Reads a file with a digest at its end into an empty writer. False if there is none, or it is damaged. */
bool history_file_read(const char *path, struct writer *out);
/* Appends the digest and writes the file, complete or not at all. */
bool history_file_write(const char *path, struct writer *w);

#endif
