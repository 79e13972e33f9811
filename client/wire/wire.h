/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.h - the native protocol: frames, message types, and their encoding. PROTOCOL.md has the
 * bytes.
 *
 *   one frame   0     1     2       4        8              16
 *               ┌─────┬─────┬───────┬────────┬──────────────┬─ ─ ─ ─ ─ ─
 *               │ A7  │type │ flags │  len   │     tag      │ payload …
 *               └─────┴─────┴───────┴────────┴──────────────┴─ ─ ─ ─ ─ ─
 *   flags bits 0-1: descriptors that come with the frame (SCM_RIGHTS on its first byte).
 *   tag: chosen by the client, echoed in every frame that answers it.
 *
 *   A connection              A compile                            A key that only clients can make
 *     HELLO ─▶                  COMPILE (key, proof) ─▶              GET, wants the lease ─▶
 *     ◀─ WELCOME                ◀─ HIT              known            ◀─ HIT
 *     GET ─▶                    ◀─ CHECK (paths)    headers to       ◀─ LEASE    make it, then
 *     ◀─ HIT | MISS             CHECKED ─▶          compare          PUT ─▶
 *     PUT ─▶                    ◀─ NEED             not known:       ◀─ OK
 *     ◀─ OK                     SOURCE ─▶           send it          ◀─ WAIT     another client
 *     ◀─ ERROR  in place of     ◀─ WAIT             another one                  makes it: HIT,
 *               any answer      ◀─ HIT | FAILED     compiles it                  LEASE or MISS
 *
 * A client may send HELLO and requests in one write. The first byte tells the native protocol from
 * RESP (which begins with a printable byte).
 *
 * Thread: any; no state. Memory: decoded messages borrow the frame's bytes.
 */
#ifndef WARM_WIRE_WIRE_H
#define WARM_WIRE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keygen/bytes.h"
#include "keygen/err.h"
#include "keygen/key.h"

#define WIRE_MAGIC 0xA7u
#define WIRE_VERSION 3u /* spoken here; HELLO carries the lowest and highest of the client */
#define WIRE_HEADER 16u /* bytes */
#define WIRE_PAYLOAD_MAX (1u << 20) /* bytes; larger values and lists travel as a descriptor */
#define WIRE_INLINE_MAX (64u << 10) /* bytes of a value in a frame; larger: descriptor */
#define WIRE_NAME_MAX 512u          /* bytes of a key's name, label, hardware or compiler text */
#define WIRE_FDS_MAX 2u             /* descriptors with one frame */
#define WIRE_PATH_MAX 4096u         /* bytes of a path */
#define WIRE_KEYS_MAX 4096u         /* keys in one MGET, REMOVE, PIN, PUSH or CLOSURE */
#define WIRE_CHECK_PATHS_MAX 16384u /* paths in one CHECK */
#define WIRE_CHECK_MAX (16u << 20)  /* bytes of the list of a CHECK or CHECKED */
#define WIRE_ROWS_MAX 65536u        /* ROW frames that one LIST may ask for */
#define WIRE_SESSION_MAX 64u        /* bytes of a session's id */
#define WIRE_CURSOR 24u             /* bytes of a LIST cursor */

/* name, number, meaning. Numbers below 0x80 go to the daemon. */
#define WIRE_TYPE_LIST(X)                                                                          \
    X(HELLO, 0x01)   /* versions, capabilities, the client's name */                               \
    X(GET, 0x02)     /* one key; may ask for a lease */                                            \
    X(MGET, 0x03)    /* many keys: answered as GETs with tags tag, tag+1, … */                   \
    X(PUT, 0x04)     /* a value for a key, with or without a lease's token */                      \
    X(RELEASE, 0x05) /* gives a lease back unfulfilled */                                          \
    X(COMPILE, 0x06) /* graph key and proof of a job */                                            \
    X(SOURCE, 0x07)  /* answer to NEED: the encoded job, and a channel to ask for headers */       \
    X(CHECKED, 0x08) /* answer to CHECK: digests of the paths asked */                             \
    X(CANCEL, 0x09)  /* the client no longer waits for this tag */                                 \
    X(DAMAGED, 0x0a) /* the value of this key did not match its checksum */                        \
    X(NOTE, 0x0b)    /* why the client did not ask, or did not wait: for `warm why` */             \
    X(AUDIT, 0x0c)   /* the job of a HIT that welcomes one, for the daemon to compare */           \
    X(RENEW, 0x0d)   /* the holder of a lease makes progress: it stays the holder */               \
    X(LIST, 0x10)    /* filter, cursor: ROW frames, then END with the next cursor */               \
    X(SHOW, 0x11)    /* one entry: ROW, or MISS */                                                 \
    X(STATS, 0x12)   /* TEXT: JSON */                                                              \
    X(INFO, 0x13)    /* TEXT: JSON: versions, settings, toolchains, state of the store */          \
    X(REMOVE, 0x14)  /* keys: REPORT */                                                            \
    X(EVICT, 0x15)   /* filter, size to reach, dry run: REPORT */                                  \
    X(PIN, 0x16)     /* keys, on or off: REPORT */                                                 \
    X(VERIFY, 0x17)  /* sample: PROGRESS …, REPORT */                                            \
    X(HISTORY, 0x18) /* a session, or a key: TEXT: JSON: requests, and reasons of misses */        \
    X(PUSH, 0x19)    /* keys of entries to send to the store beyond the machine: REPORT */         \
    X(CLOSURE, 0x1a) /* keys: ROW frames of their entries and what belongs to them, then END */    \
    X(WELCOME, 0x81)                                                                               \
    X(HIT, 0x82)                                                                                   \
    X(MISS, 0x83)                                                                                  \
    X(LEASE, 0x84)                                                                                 \
    X(WAIT, 0x85)                                                                                  \
    X(NEED, 0x86)                                                                                  \
    X(CHECK, 0x87)                                                                                 \
    X(FAILED, 0x88)                                                                                \
    X(OK, 0x89)                                                                                    \
    X(ERROR, 0x8a)                                                                                 \
    X(ROW, 0x90)                                                                                   \
    X(END, 0x91)                                                                                   \
    X(TEXT, 0x92)                                                                                  \
    X(REPORT, 0x93)                                                                                \
    X(PROGRESS, 0x94)

enum wire_type {
#define X(name, number) WIRE_##name = number,
    WIRE_TYPE_LIST(X)
#undef X
};

struct wire_frame {
    uint8_t type;
    uint8_t n_fds;
    uint64_t tag;
    struct view payload; /* borrowed from the buffer that was parsed */
};

/* Parses one frame at the start of `data`. Returns its whole length and fills *out; 0 if more bytes
 * are needed; MALFORMED (wrong magic, unknown flags) or TOO_BIG (payload). */
long wire_parse(const void *data, size_t len, struct wire_frame *out, struct err *e);

/* Starts a frame in *w and returns its offset there. The caller appends the payload, then calls
 * wire_end. n_fds is at most WIRE_FDS_MAX. */
size_t wire_begin(struct writer *w, enum wire_type type, unsigned n_fds, uint64_t tag);
/* Fills in the length of the frame that begins at `begun`. */
void wire_end(struct writer *w, size_t begun);

struct wire_hello {
    uint16_t version_min, version_max;
    uint32_t capabilities; /* none defined yet: 0 */
    struct view client;    /* "warm 0.1.0", for logs */
};
/* True for the id of a session: 1 to WIRE_SESSION_MAX letters, digits, '.', '_' and '-'. */
bool wire_session_ok(const void *id, size_t len);
/* Returns the word after a mark like " job=" in a HELLO's client text, up to the next blank; empty if there is
 * none. */
struct view wire_word_after(struct view client, const char *mark);
/* Returns the id after " session=" in a HELLO's client text; empty if there is none. */
struct view wire_session_of(struct view client);
#define WIRE_PROJECT_MAX 31u
/* Finds " project=NAME" in a HELLO's client text; an empty view if there is none, or a wrong one. The rules
 * for NAME are those of a session, with at most WIRE_PROJECT_MAX bytes. */
struct view wire_project_of(struct view client);
/* True if a HELLO's client text has " administers": the client's requests are no use of the entries. */
bool wire_administers(struct view client);
struct wire_welcome {
    uint16_t version;
    uint32_t capabilities;
    uint32_t daemon_uid;
    struct view daemon; /* "warmd 0.1.0" */
};

/* name, number, text that people type: kinds of artifacts. The store's rows hold the same
 * numbers. */
#define WIRE_KIND_LIST(X)                                                                          \
    X(OTHER, 0, "other")                                                                           \
    X(CUBIN, 1, "cubin")                                                                           \
    X(MANIFEST, 2, "manifest")                                                                     \
    X(BACKWARD, 3, "backward")                                                                     \
    X(EXECUTABLE, 4, "executable")                                                                 \
    X(FX_GRAPH, 5, "fx-graph")                                                                     \
    X(TRITON, 6, "triton")                                                                         \
    X(AUTOTUNE, 7, "autotune")                                                                     \
    X(OBJECT, 8, "object")                                                                         \
    X(GRAPH, 9, "graph")                                                                           \
    X(FORM, 10, "form")
enum wire_kind {
#define X(name, number, text) WIRE_KIND_##name = number,
    WIRE_KIND_LIST(X)
#undef X
};
/* Returns "cubin" for 1; "unknown" for a number that is no kind. Static memory. */
const char *wire_kind_name(uint8_t kind);
/* Finds the number of a kind by its name. False if no kind has that name. */
bool wire_kind_from_name(const char *name, uint8_t *out);
/* Returns the kind that the artifacts under a name of this form have: neither a GET nor RESP tells. */
uint8_t wire_kind_of_name(struct view name);
/* True for names under which clients keep notes of their own: "file:" (client/lib/identity.c), "jax:ahead:"
 * (client/python/warm/jax/_ahead.py), "form:" (PROTOCOL.md), "cc:2n:" (client/tool/spelling.c). */
bool wire_name_is_note(struct view name);
/* True for names of what PyTorch has before a program changes it (client/python/warm/_catalogue.py): no result, as notes
 * are, but it comes from the tier. */
bool wire_name_is_catalogue(struct view name);
/* True for names that a client tries after the first one missed. */
bool wire_name_is_second(struct view name);

enum wire_space {
    WIRE_SPACE_NAME = 0, /* any name of 1 to WIRE_NAME_MAX bytes, in the user's own space */
    WIRE_SPACE_KEY = 1,  /* a 16-byte address key */
};
struct wire_get {
    enum wire_space space;
    bool want_lease;      /* on a miss: LEASE or WAIT instead of MISS */
    uint32_t deadline_ms; /* how long the client will WAIT; 0: the daemon's default */
    struct view key;
    bool has_proof;
    struct proof proof;
};
struct wire_put {
    enum wire_space space;
    uint8_t kind; /* enum wire_kind */
    bool keep_existing;
    uint64_t token;   /* of the lease that this fulfils; 0: none */
    uint32_t cost_ms; /* time that it took to make */
    uint64_t ttl_ms;  /* 0: for ever */
    uint64_t len;     /* bytes of the value */
    struct key check; /* XXH3-128 of the value */
    struct key group; /* zero: none */
    struct view key, hardware, compiler, label;
    struct view value; /* inline; empty if a descriptor comes along */
};
/* Bytes of a PUT's key in the space KEY. An administrator stores what a daemon made: the key is
 * compiler (16 bytes), graph (16) and proof (32). With the hardware they give the address key. */
#define WIRE_MADE_LEN 64u
#define WIRE_HIT_VALUE_AT 66u /* offset of the value in the frame of a HIT */
enum wire_outcome {
    WIRE_WAS_HIT = 0,
    WIRE_WAS_MISS = 1,
    WIRE_WAS_COALESCED = 2,
    WIRE_WAS_HIT_AUDIT = 3, /* a hit of a COMPILE, and the daemon asks for an AUDIT */
};
struct wire_hit {
    enum wire_outcome outcome;
    uint8_t kind;
    struct key key;   /* under which the store has it */
    struct key check; /* XXH3-128 of the value: the client verifies it */
    uint32_t cost_ms; /* time that it took to make, and that a hit saves */
    uint64_t len;
    struct view value; /* inline; empty if a descriptor comes along */
};
struct wire_lease {
    uint64_t token;
    uint32_t deadline_ms; /* after that another may be asked to make it too */
};
enum wire_compile_flags {
    WIRE_COMPILE_RECACHE = 1,        /* compile even if the result is in the cache */
    WIRE_COMPILE_NO_STORE = 2,       /* do not keep the result */
    WIRE_COMPILE_ONLY_IF_CACHED = 4, /* MISS instead of compiling */
};
struct wire_compile {
    uint32_t flags;
    uint32_t deadline_ms; /* 0: the daemon's default */
    uint16_t language;    /* enum job_language */
    struct key graph;
    struct proof proof;
    struct view hardware;
    struct view compiler; /* "" default, "12.9", "13", or the first digits of a compiler's key */
    struct view label;    /* file name, for people */
};
/* SOURCE: the encoded job is the payload. If it is larger than WIRE_INLINE_MAX, the first
 * descriptor holds it. The last descriptor is always the channel: one end of a SOCK_SEQPACKET pair,
 * on which the worker asks for headers (struct wire_open) and the client answers with its own
 * rights. */
struct wire_source {
    struct view job;
    uint64_t len; /* of the job, inline or not */
};
enum wire_path_state { WIRE_PATH_ABSENT = 0, WIRE_PATH_FILE = 1, WIRE_PATH_REFUSED = 2 };
/* CHECK asks for the state of paths, CHECKED gives the states in the same order. The list (see
 * wire_paths_add, wire_states_add) is inline. If it is larger than WIRE_INLINE_MAX, the frame's one
 * descriptor, a memfd, holds it: then `list` is empty and `len` is its length. */
struct wire_check {
    uint32_t n;   /* paths */
    uint64_t len; /* bytes of the list, inline or not */
    struct view list;
};
struct wire_checked {
    uint32_t n; /* states, as many as there were paths */
    uint64_t len;
    struct view list;
};
struct wire_path_seen {
    enum wire_path_state state;
    struct proof sha256; /* of a FILE's content */
    uint32_t
        same; /* of a FILE: number of the first path in the list with this device and inode; its
                      own number if it is the first */
};

struct wire_filter { /* as struct store_filter; -1, 0 or empty: no restriction */
    int64_t uid;
    int32_t kind, pinned;
    uint64_t min_bytes, max_bytes, min_age_ms, min_idle_ms;
    uint32_t min_hits, max_hits;
    struct view hardware, compiler, text;
};
struct wire_list {
    struct wire_filter filter;
    uint8_t cursor[WIRE_CURSOR]; /* zero to begin, then the cursor of the last END */
    uint32_t max_rows;           /* at most this many ROW frames before END */
};
struct wire_row {
    struct key key;
    uint32_t owner, maker; /* uid; owner 0xfffffffe: made here */
    uint8_t kind;
    bool pinned, is_blob;
    uint64_t len, created_ms, accessed_ms, expires_ms;
    uint32_t cost_ms, hits;
    struct key check, compiler, graph, group;
    struct proof proof, content;
    struct view hardware, compiler_text, name, label;
    uint8_t tier; /* 0 none, 1 it waits to be sent there, 2 it came from there, 3 it stays here */
    struct view signer; /* with 2: by whom it is signed */
};
struct wire_evict {
    struct wire_filter filter;
    uint64_t to_bytes;
    bool dry_run;
};
struct wire_report {
    uint64_t n_entries, n_bytes, n_corrupt;
};

/* GETs of many keys, answered as if they had the tags tag, tag + 1, … */
struct wire_mget {
    bool want_lease;
    uint32_t deadline_ms;
    uint32_t n;
    struct view keys; /* n of them, checked: wire_keys_next */
};
struct wire_remove {
    uint32_t n;
    struct view keys;
};
struct wire_pin {
    bool pinned; /* false: unpin */
    uint32_t n;
    struct view keys;
};
struct wire_show {
    enum wire_space space;
    struct view key;
};
struct wire_verify {
    uint64_t sample; /* entries, taken at random; 0: all */
};
struct wire_release {
    uint64_t token;
};
struct wire_damaged {
    struct key key; /* of the HIT */
    struct key
        seen; /* XXH3-128 of the bytes that came. If it is the entry's own checksum, the bytes
                        are as they were put, and useless */
};
/* name, number, text that people read: why something was not taken from the cache. */
#define WIRE_REASON_LIST(X)                                                                        \
    X(COLD, 0, "cold")               /* nothing like it was ever here */                           \
    X(EVICTED, 1, "evicted")         /* it was here, and was evicted, expired or removed */        \
    X(DIFFERS, 2, "differs")         /* a part of the key differs from the nearest entry's */      \
    X(UNCACHEABLE, 3, "uncacheable") /* it could not be kept soundly */                            \
    X(CORRUPT, 4, "corrupt")         /* it was here, damaged */                                    \
    X(DISABLED, 5, "disabled")       /* the client wanted no hit */                                \
    X(TIMEOUT, 6, "timeout")         /* it did not come in time */                                 \
    X(FAILED, 7, "failed")           /* it is here, and the daemon could not give it */            \
    X(STARTED, 8, "started")         /* no miss: what `warm run` starts; NOTE alone has it */
enum wire_reason {
#define X(name, number, text) WIRE_REASON_##name = number,
    WIRE_REASON_LIST(X)
#undef X
};
/* Returns "cold" for 0; "unknown" for a number that is no reason. Static memory. */
const char *wire_reason_name(uint8_t reason);
struct wire_note {
    uint8_t reason;    /* enum wire_reason */
    struct view label; /* name of the compiled file, for people */
    struct view text;  /* the option, token or variable that was the reason; or a time */
};
struct wire_audit {
    struct key key;       /* of the HIT */
    struct view compiler; /* as in the COMPILE */
    struct view job;      /* as in a SOURCE; inline */
};
enum wire_history_of {
    WIRE_HISTORY_LAST = 0,    /* the session that asked last */
    WIRE_HISTORY_SESSION = 1, /* `id` is a session's */
    WIRE_HISTORY_KEY = 2,     /* `id` is a name, 32 hex digits, or a label */
    WIRE_HISTORY_USAGE = 4,   /* counters by hour, user and project; the sessions */
    WIRE_HISTORY_USED = 5,    /* entries that such a session used */
    WIRE_HISTORY_FEED = 6,    /* what happened after the number `id`; its newest number if empty */
    WIRE_HISTORY_EVENTS = 3,  /* events of the session `id`; of the one that asked last if empty */
};
struct wire_history {
    uint8_t of; /* enum wire_history_of */
    uint32_t
        max_misses; /* the newest; 0: as many as fit. Of events and entries: those to pass over */
    struct view id;
};
struct wire_wait {
    uint32_t n_waiters;  /* this one included */
    uint32_t elapsed_ms; /* since the awaited work began */
};
struct wire_need {
    uint64_t max_bytes; /* of an encoded job that the daemon accepts */
};
struct wire_ok {
    bool existed;   /* PUT with keep_existing: nothing was stored */
    struct key key; /* PUT: under which the store has it; zero otherwise */
};
struct wire_error {
    uint32_t code; /* of enum warm_error, without its minus */
    struct view text;
};
struct wire_end {
    bool more; /* ask again with this cursor */
    uint8_t cursor[WIRE_CURSOR];
};
struct wire_text {
    struct view text;
};
struct wire_progress {
    uint64_t done, total;
};

/*
 * Each message has a decoder, and an encoder that appends a whole frame. The encoder announces the
 * descriptors of the frame: one if a value or list has a `len` but no inline bytes; a SOURCE has
 * one more, the channel. The caller sends them. The encoder fails (writer->failed) if a field is
 * above its limit. CANCEL, STATS, INFO and MISS have no fields: wire_put_empty.
 *
 * A decoder must get a frame of its own type. Errors: MALFORMED (a value that the field cannot
 * have, bytes after the last field, a wrong number of descriptors), TRUNCATED, TOO_BIG; err->text
 * names message and field. *out borrows the frame's payload.
 */
#define WIRE_MESSAGE_LIST(X)                                                                       \
    X(HELLO, hello, hello)                                                                         \
    X(GET, get, get)                                                                               \
    X(MGET, mget, mget)                                                                            \
    X(PUT, put, put)                                                                               \
    X(RELEASE, release, release)                                                                   \
    X(RENEW, renew, release)                                                                       \
    X(COMPILE, compile, compile)                                                                   \
    X(SOURCE, source, source)                                                                      \
    X(CHECKED, checked, checked)                                                                   \
    X(DAMAGED, damaged, damaged)                                                                   \
    X(NOTE, note, note)                                                                            \
    X(AUDIT, audit, audit)                                                                         \
    X(LIST, list, list)                                                                            \
    X(SHOW, show, show)                                                                            \
    X(REMOVE, remove, remove)                                                                      \
    X(CLOSURE, closure, remove)                                                                    \
    X(PUSH, push, remove)                                                                          \
    X(EVICT, evict, evict)                                                                         \
    X(PIN, pin, pin)                                                                               \
    X(VERIFY, verify, verify)                                                                      \
    X(HISTORY, history, history)                                                                   \
    X(WELCOME, welcome, welcome)                                                                   \
    X(HIT, hit, hit)                                                                               \
    X(LEASE, lease, lease)                                                                         \
    X(WAIT, wait, wait)                                                                            \
    X(NEED, need, need)                                                                            \
    X(CHECK, check, check)                                                                         \
    X(FAILED, failed, hit) /* a HIT whose value, a bundle, has the compiler's errors */            \
    X(OK, ok, ok)                                                                                  \
    X(ERROR, error, error)                                                                         \
    X(ROW, row, row)                                                                               \
    X(END, end, end)                                                                               \
    X(TEXT, text, text)                                                                            \
    X(REPORT, report, report)                                                                      \
    X(PROGRESS, progress, progress)

#define X(TYPE, name, type)                                                                        \
    void wire_put_##name(struct writer *w, uint64_t tag, const struct wire_##type *m);             \
    int wire_get_##name(const struct wire_frame *f, struct wire_##type *out, struct err *e);
WIRE_MESSAGE_LIST(X)
#undef X
/* Appends a message that has no fields. */
void wire_put_empty(struct writer *w, enum wire_type type, uint64_t tag);
/* Appends a HIT or FAILED without its value, which is its last field. The caller sends m->value.len
 * bytes right behind it, so that the value need not be copied. */
void wire_put_hit_head(struct writer *w, enum wire_type type, uint64_t tag,
                       const struct wire_hit *m);
/* Returns "HIT" for 0x82; "UNKNOWN" for a number that is no message. Static memory. */
const char *wire_type_name(uint8_t type);

/* Lists. Each `next` function reads one item from a reader over the list. It returns false at the
 * end; if the reader has failed then, the list is not well-formed. */

/* Appends a key to the list of a MGET, REMOVE, PIN, PUSH or CLOSURE. */
void wire_keys_add(struct writer *list, enum wire_space space, const void *key, size_t len);
/* Reads the next key. */
bool wire_keys_next(struct reader *list, enum wire_space *out_space, struct view *out_key);
/* Appends a path to the list of a CHECK. */
void wire_paths_add(struct writer *list, const void *path, size_t len);
/* Reads the next path. */
bool wire_paths_next(struct reader *list, struct view *out_path);
/* Appends the state with number `i` to the list of a CHECKED. */
void wire_states_add(struct writer *list, const struct wire_path_seen *state, uint32_t i);
/* Reads state `i` into states[i]; the states before it must have been read. */
bool wire_states_next(struct reader *list, struct wire_path_seen *states, uint32_t i);

/* The channel of SOURCE carries one packet each way, with no frame around it. The client answers
 * with its own rights, and only beneath the job's -I folders, its cwd and the folder of its
 * name. */
#define WIRE_OPEN_MAX 4200u /* bytes of a packet */
struct wire_open {          /* worker to client: asks for the file at a path */
    uint32_t id;
    struct view path; /* as the compiler asked; relative paths are relative to the job's cwd */
};
struct wire_opened { /* client to worker; a FILE comes with a read-only descriptor */
    uint32_t id;     /* of the wire_open that it answers */
    enum wire_path_state state;
};
/* Appends a question. */
void wire_put_open(struct writer *w, const struct wire_open *m);
/* Decodes a question; *out borrows the packet. Errors: as a message's. */
int wire_get_open(const void *packet, size_t len, struct wire_open *out, struct err *e);
/* Appends an answer. */
void wire_put_opened(struct writer *w, const struct wire_opened *m);
/* Decodes an answer. Errors: as a message's. */
int wire_get_opened(const void *packet, size_t len, struct wire_opened *out, struct err *e);

#endif
