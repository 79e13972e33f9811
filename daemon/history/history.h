/* SPDX-License-Identifier: Apache-2.0 */
/*
 * history.h - counts the requests of each session, and keeps each miss with its reason, for `warm run
 * --report` and `warm why`. It always runs, so nobody has to switch it on beforehand.
 *
 *     sessions   counters of the last HISTORY_SESSIONS: those of one `warm run`, or of none
 *     used       the entries that each session used, HISTORY_USED_MAX of all together (sessions.c)
 *     events     the last HISTORY_EVENTS answers to requests of sessions  ─┐ each user has a
 *     misses     the last HISTORY_MISSES, with their reasons              ─┘ share (shares.h)
 *     left       entries that have left: when, and why    ─┐ these explain
 *     known      recipes (recipe.h) of entries made here  ─┘ a miss
 *
 * The life of a miss: history_miss notes it, with the reason if that is known at once: its entry was
 * evicted, or damaged. As soon as its recipe is known, history_explain compares it with the known ones:
 * the nearest tells what differs. A miss without a reason is cold. When the entry is made,
 * history_remember keeps its recipe.
 *
 * For headers that changed, history_lines and history_locate add in which line.
 *
 *     usage      hits and misses by hour, user and project (usage.h)
 *
 * Each session has a file, too (sessions.c). All but sessions and events is written to a file once a minute, and read from it when it is first needed. A
 * file that is damaged, or of a version other than 4 and 5, is ignored.
 *
 *     offset  size  field (little-endian)
 *     0       4     "WHIS"
 *     4       4     version, 5
 *     8       16    n entries that have left, n recipes, n misses, n headers
 *     24      -     left: u32 owner, key, u32 cause, u64 time
 *     -       -     recipe: u32 uid, u32 owner, key, u64 time, u8 enum history_kept, blob recipe
 *     -       -     miss: u64 time, u32 uid, u32 owner, key, u8 kind, u8 reason, then blobs: session,
 *                   name, label, hardware, compiler, text, tier, changes (n × blobs part, old, new)
 *     -       -     header: u64 beginning of its content's SHA-256, blob daemon/worker/line_digests.h
 *     -       -     usage (usage.h): u32 n, n × (u32 hour, u32 uid, blob project, u32 n counters, n × u64);
 *                   absent in version 4
 *     -       16    XXH3-128 of all before
 *
 * The history knows no store, sockets or clocks; all times are Unix times in ms.
 *
 * Thread: loop thread. Memory: bounded by the constants below; all texts are copied.
 */
#ifndef WARM_DAEMON_HISTORY_HISTORY_H
#define WARM_DAEMON_HISTORY_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "client/wire/wire.h"
#include "daemon/history/recipe.h"
#include "daemon/history/usage.h"
#include "store/store.h"

#define HISTORY_SESSIONS 256u
#define HISTORY_EVENTS 8192u
#define HISTORY_USED_MAX (1u << 19)
#define HISTORY_MISSES 1024u
#define HISTORY_LEFT 8192u
#define HISTORY_KNOWN 2048u
#define HISTORY_KNOWN_BYTES (2u << 20) /* of all recipes */
#define HISTORY_FILE_MAX (8u << 20)    /* bytes */
#define HISTORY_LINES 512u             /* headers with known lines */
#define HISTORY_CHANGES_MAX 8u         /* of one miss */

/* The counters of a session; the names are those of the JSON. `unkept`: what clients made without asking,
 * because it could not be kept. */
#define HISTORY_COUNTERS(X) X(asked) X(hits) X(coalesced) X(misses) X(errors) X(unkept) X(saved_ms)
enum history_counter {
#define X(name) HISTORY_##name,
    HISTORY_COUNTERS(X)
#undef X
        HISTORY_N_COUNTERS
};

struct history;
/* Makes a history whose file is `path` (copied; NULL: no file). NULL: no memory. */
struct history *history_new(const char *path);
/* Frees the history, and writes nothing. NULL is fine. */
void history_free(struct history *h);
/* Reads the bytes of such a file, up to its digest, which is not compared. */
void history_read(struct history *h, const void *data, size_t len);
/* Writes the file, if anything changed. A failure is silent, since the history is a convenience. */
void history_save(struct history *h);

/* ---- sessions ---- */

#define HISTORY_NO_SESSION 0u
/* Returns the session of an id and user, made if it is new, and holds it until history_leave.
 * HISTORY_NO_SESSION if there is no room. */
uint32_t history_join(struct history *h, uint32_t uid, struct view id, uint64_t now_ms);
/* Sets the project of a session, at most WIRE_PROJECT_MAX bytes. */
void history_set_project(struct history *h, uint32_t session, const char *project);
/* Counts a request by hour, user and project: the session's, or `project` without a session. */
void history_use(struct history *h, uint32_t uid, uint32_t session, const char *project,
                 enum usage_counter what, uint64_t n, uint64_t now_ms);
/* Ends the hold of history_join; the session stays until its place is needed. */
void history_leave(struct history *h, uint32_t session);
/* Adds to a counter of a session. */
void history_count(struct history *h, uint32_t session, enum history_counter what, uint64_t n,
                   uint64_t now_ms);
/* Notes that a session used an entry: it got it, stored it, or was led on by it. */
void history_used(struct history *h, uint32_t session, const struct store_id *id);
/* Notes a hit: a recipe that this session uses is no older version of its misses. */
void history_hit(struct history *h, uint32_t session, const struct store_id *id);

/* ---- events ---- */

/* What became of a request; the texts are those of the JSON. */
#define HISTORY_WHAT_LIST(X)                                                                       \
    X(HIT, "hit")          /* it was here, or being stored */                                      \
    X(WAITED, "wait")      /* another's compile was awaited */                                     \
    X(COMPILED, "compile") /* the daemon made it */                                                \
    X(MADE, "make")        /* the client made it and put it */                                     \
    X(LEASED, "lease")     /* the client was to make it, and has not */                            \
    X(MISSED, "miss")      /* it was not there, and nobody made it */                              \
    X(FAILED, "error")
enum history_what {
#define X(name, text) HISTORY_##name,
    HISTORY_WHAT_LIST(X)
#undef X
};
struct history_event {
    enum history_what what;
    enum store_kind kind;
    uint32_t session, pid;
    uint64_t at_us, us; /* Unix time at which it was asked, and how long the answer took */
    uint32_t cost_ms;   /* the time that making it took */
    uint64_t made_ms;   /* when it was made; 0: just now */
    uint64_t bytes;
    uint64_t miss; /* number of the miss; 0: none */
    struct key key;
    struct view label; /* borrowed until history_event returns */
};
/* Adds an event of a session; without a session it does nothing. */
void history_event(struct history *h, const struct history_event *event);
/* Completes the event of a miss, as its client has put the value: at_us, kind, cost_ms, bytes. */
void history_event_made(struct history *h, uint64_t miss, const struct history_event *made);

/* ---- entries that have left the store ---- */

/* Notes that an entry has left the store, and why. */
void history_left(struct history *h, const struct store_departure *gone);
/* Forgets that an entry has left: it is being stored again. */
void history_put(struct history *h, const struct store_id *id);

/* ---- misses ---- */

struct history_ask {
    struct store_id id;
    struct store_id also; /* another entry whose end explains this miss; zero: none */
    uint32_t uid;
    uint32_t session;
    enum store_kind kind;
    struct view name, label, hardware, compiler;
    struct view
        tier; /* why the store beyond the machine brought nothing; empty: it was not asked */
    bool was_corrupt;    /* the entry was there, damaged */
    struct view failure; /* the daemon's own, for which the entry was not given; empty: none */
};
/* Notes a miss; returns its number, never 0. */
uint64_t history_miss(struct history *h, const struct history_ask *ask, uint64_t now_ms);
/* Finds the last miss of an entry that has no reason yet; 0 if there is none. */
uint64_t history_find(const struct history *h, const struct store_id *id);
/* Returns the label, else the name, of an entry's last miss (borrowed); empty if it is not known.
 * `uid`: if the miss was this user's; -1: anybody's. */
struct view history_label(const struct history *h, const struct store_id *id, int64_t uid);

/* Takes a miss back: its session no longer counts it as a request and a miss. */
void history_forget(struct history *h, uint32_t session, uint64_t miss);

/* Adds a client's description of a value that it has made. */
void history_tell(struct history *h, uint64_t miss, enum store_kind kind, struct view label,
                  struct view hardware, struct view compiler);
/* Sets a reason that is certain; `text` says more. A number of an old miss is fine, and so is 0. */
void history_settle(struct history *h, uint64_t miss, enum wire_reason reason, struct view text);
/* True if the reason of a miss is certain. */
bool history_is_settled(struct history *h, uint64_t miss);
/* Adds one part of the miss's key that differs, e.g. a header. */
void history_change(struct history *h, uint64_t miss, const struct recipe_change *change);
/* Keeps digests of the lines of a header that a compile read, for when it changes. */
void history_lines(struct history *h, const struct proof *content, struct view lines);
/* Adds the changed line to each header that explains a miss, if its lines are known. */
void history_locate(struct history *h, uint64_t miss);
/* Sets the reason that the recipe's nearest relative tells, if the miss has none yet. */
void history_explain(struct history *h, uint64_t miss, struct view recipe);
/* An entry that was made. Its recipe's `label` or `name` is its name for people, and finds its
 * relatives. */
enum history_kept {
    HISTORY_KEPT = 0,
    HISTORY_NOT_WANTED, /* the client did not want it stored */
    HISTORY_NOT_SOUND,  /* it depends on more than its key */
};
struct history_made {
    struct store_id id;
    uint32_t uid;
    uint32_t session;
    enum history_kept kept;
};
/* Keeps the recipe of an entry that was made. */
void history_remember(struct history *h, const struct history_made *made, struct view recipe,
                      uint64_t now_ms);
/* Notes the command line of a session, unless it has one. */
void history_started(struct history *h, uint32_t session, struct view command);
/* Notes that a client did not ask, or did not wait, and why. If `label` is the name of a miss of
 * this session, the reason is that miss's. */
void history_note(struct history *h, uint32_t uid, uint32_t session, enum wire_reason reason,
                  struct view label, struct view text, uint64_t now_ms);

/* ---- what happens now ---- */

struct feed_thing {
    uint32_t uid;
    enum store_kind kind;
    const char *what;    /* a literal: "hit", "put", "evicted", … */
    const char *session; /* its id; NULL: none */
    struct view label, why;
};
/* Adds to what `warm events` shows (feed.c); copies all texts, cut to 95 bytes. */
void history_feed(const struct feed_thing *thing);
/* Returns the id of a session, NULL for HISTORY_NO_SESSION. Valid until it leaves. */
const char *history_session_id(const struct history *h, uint32_t session);

/* ---- reading ---- */

struct history_query {
    enum wire_history_of of;
    struct view id;
    uint32_t max_misses; /* 0: as many as fit in `max_bytes`; of events: those to pass over */
    int64_t uid;         /* of this user alone; -1: of all users */
    uint32_t asker;      /* "the last session" is this user's */
    size_t max_bytes;
};
/* Appends the JSON of PROTOCOL.md's HISTORY. False, and nothing is written, if nothing is known. */
bool history_write_json(struct history *h, const struct history_query *query, struct writer *out);

#endif
