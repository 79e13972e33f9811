/* SPDX-License-Identifier: Apache-2.0 */
/*
 * history.h - what was asked for in each session, and for each miss the reason: what `warm run
 * --report` and `warm why` read. Kept always, so that nobody has to ask for it beforehand.
 *
 *     sessions   counters of the last HISTORY_SESSIONS: those of one `warm run`, or of none
 *     misses     the last HISTORY_MISSES, with their reasons
 *     left       entries that are gone: when, and why     ─┐ what a miss
 *     known      recipes (recipe.h) of what was made here ─┘ is explained by
 *
 * The life of a miss: history_miss has it, with what is known at once: its entry was evicted, or
 * damaged. As soon as somebody says what is to be made, history_explain compares its recipe with
 * those that are known: the nearest tells what differs. What stays without a reason is cold. When it
 * is made, history_remember keeps its recipe.
 *
 * For headers that changed, history_lines and history_locate add in which line.
 *
 * All but the sessions is written to a file now and then, and read from it when it is first needed; a
 * file that is damaged, or of another version, is as good as none.
 *
 *     offset  size  field (little-endian)
 *     0       4     "WHIS"
 *     4       4     version, 3
 *     8       16    n entries that are gone, n recipes, n misses, n headers
 *     24      -     gone: u32 owner, key, u32 cause, u64 time
 *     -       -     recipe: u32 uid, u32 owner, key, u64 time, u8 enum history_kept, blob recipe
 *     -       -     miss: u64 time, u32 uid, u32 owner, key, u8 kind, u8 reason, then blobs: session,
 *                   name, label, hardware, compiler, text, changes (n × blobs part, old, new)
 *     -       -     header: u64 beginning of its content's SHA-256, blob keygen/lines.h
 *     -       16    XXH3-128 of all before
 *
 * Nothing here knows the store, sockets or clocks; all times are Unix times in ms.
 *
 * Thread: loop thread. Memory: bounded by the constants below; all texts are copied.
 */
#ifndef WARM_DAEMON_HISTORY_HISTORY_H
#define WARM_DAEMON_HISTORY_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "client/wire/wire.h"
#include "daemon/history/recipe.h"
#include "store/store.h"

#define HISTORY_SESSIONS 256u
#define HISTORY_MISSES 1024u
#define HISTORY_LEFT 8192u
#define HISTORY_KNOWN 2048u
#define HISTORY_KNOWN_BYTES (2u << 20) /* of all recipes */
#define HISTORY_FILE_MAX (8u << 20)    /* bytes */
#define HISTORY_LINES 512u             /* headers of whose lines something is known */
#define HISTORY_CHANGES_MAX 8u         /* of one miss */

/* What is counted for a session; the names are those of the JSON. */
#define HISTORY_COUNTERS(X) X(asked) X(hits) X(coalesced) X(misses) X(errors) X(saved_ms)
enum history_counter {
#define X(name) HISTORY_##name,
    HISTORY_COUNTERS(X)
#undef X
        HISTORY_N_COUNTERS
};

struct history;
/* `path` is the file, and is copied; NULL: nothing is kept. NULL: no memory. */
struct history *history_new(const char *path);
void history_free(struct history *h); /* NULL is fine; writes nothing */
/* Takes up what stands in such a file, up to its digest, which is not looked at. */
void history_read(struct history *h, const void *data, size_t len);
/* Writes the file, if anything changed. A failure is silent: it is a convenience. */
void history_save(struct history *h);

/* ---- sessions ---- */

#define HISTORY_NO_SESSION 0u
/* The session of that id and user, made if it is new; HISTORY_NO_SESSION if there is no room. Holds
 * it until history_leave. */
uint32_t history_join(struct history *h, uint32_t uid, struct view id, uint64_t now_ms);
void history_leave(struct history *h, uint32_t session);
void history_count(struct history *h, uint32_t session, enum history_counter what, uint64_t n,
                   uint64_t now_ms);
/* An entry was found: what is like it, and missed, is no older version of it. */
void history_hit(struct history *h, uint32_t session, const struct store_id *id);

/* ---- what is gone ---- */

void history_left(struct history *h, const struct store_departure *gone);
/* An entry is there (again). */
void history_put(struct history *h, const struct store_id *id);

/* ---- misses ---- */

struct history_ask {
    struct store_id id;
    struct store_id also; /* another entry whose end explains this miss; zero: none */
    uint32_t uid;
    uint32_t session;
    enum store_kind kind;
    struct view name, label, hardware, compiler;
    bool was_corrupt; /* the entry was there, damaged */
};
/* Returns the miss's number, never 0. */
uint64_t history_miss(struct history *h, const struct history_ask *ask, uint64_t now_ms);
/* The last miss of an entry that is not explained yet; 0 if there is none. */
uint64_t history_find(const struct history *h, const struct store_id *id);

/* It was no ask of its own: neither an ask nor a miss of its session any more. */
void history_forget(struct history *h, uint32_t session, uint64_t miss);

/* What a client says of it when it has made it. */
void history_tell(struct history *h, uint64_t miss, enum store_kind kind, struct view label,
                  struct view hardware, struct view compiler);
/* A reason that is known for certain; `text` says more. A number that is no more is fine, and so is
 * 0. */
void history_settle(struct history *h, uint64_t miss, enum wire_reason reason, struct view text);
/* One part of its key that differs, e.g. a header. */
void history_change(struct history *h, uint64_t miss, const struct recipe_change *change);
/* What a compile read: digests of a header's lines, for when it changes. */
void history_lines(struct history *h, const struct proof *content, struct view lines);
/* Adds the line to each header that a miss is for, where it can be told. */
void history_locate(struct history *h, uint64_t miss);
/* Gives it the reason that the recipe's nearest relative tells, if it has none yet. */
void history_explain(struct history *h, uint64_t miss, struct view recipe);
/* Something was made. What that is called for people, and its like, is its recipe's `label` or
 * `name`. */
enum history_kept {
    HISTORY_KEPT = 0,
    HISTORY_NOT_WANTED, /* who asked did not want it stored */
    HISTORY_NOT_SOUND,  /* it depends on more than its key */
};
struct history_made {
    struct store_id id;
    uint32_t uid;
    uint32_t session;
    enum history_kept kept;
};
void history_remember(struct history *h, const struct history_made *made, struct view recipe,
                      uint64_t now_ms);
/* Something was not asked for, or not waited for, and why. */
void history_note(struct history *h, uint32_t uid, uint32_t session, enum wire_reason reason,
                  struct view label, struct view text, uint64_t now_ms);

/* ---- reading ---- */

struct history_query {
    enum wire_history_of of;
    struct view id;
    uint32_t max_misses; /* 0: as many as fit in `max_bytes` */
    int64_t uid;         /* only this user's; -1: everybody's */
    uint32_t asker;      /* whose last session is the last one */
    size_t max_bytes;
};
/* Appends the JSON of PROTOCOL.md's HISTORY. False, and nothing written, if nothing is known. */
bool history_write_json(struct history *h, const struct history_query *query, struct writer *out);

#endif
