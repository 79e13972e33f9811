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
 *   A connection:   HELLO ─▶            A compile:  COMPILE (key, proof) ─▶
 *                   ◀─ WELCOME                      ◀─ HIT                        known
 *                   GET ─▶                          ◀─ CHECK (paths), CHECKED ─▶  headers to
 * compare ◀─ HIT | MISS                   ◀─ NEED, SOURCE ─▶            not known: send it | LEASE
 * | WAIT, then one     ◀─ WAIT, then one of these    somebody is at it PUT ─▶ ◀─ FAILED (log) the
 * compiler said no ◀─ OK | ERROR                   ◀─ ERROR                      ours
 *
 * A client may send HELLO and requests in one write. The first byte tells the native protocol from
 * RESP (which begins with a printable byte).
 *
 * Thread: none. Memory: decoded messages borrow the frame's bytes.
 */
#ifndef WARM_CLIENT_WIRE_H
#define WARM_CLIENT_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keygen/bytes.h"
#include "keygen/err.h"
#include "keygen/key.h"

#define WIRE_MAGIC 0xA7u
#define WIRE_VERSION 1u /* spoken here; HELLO carries the lowest and highest of the client */
#define WIRE_HEADER 16u /* bytes */
#define WIRE_PAYLOAD_MAX (1u << 20) /* bytes; what is larger travels as a descriptor */
#define WIRE_INLINE_MAX (64u << 10) /* bytes of a value in a frame; larger: descriptor */
#define WIRE_NAME_MAX 512u          /* bytes of a key's name, label, hardware or compiler text */
#define WIRE_FDS_MAX 2u             /* descriptors with one frame */

/* name, number, who sends it, what it says. Numbers below 0x80 go to the daemon. */
#define WIRE_TYPE_LIST(X)                                                                          \
    X(HELLO, 0x01)   /* versions, capabilities, the client's name */                               \
    X(GET, 0x02)     /* one key; may ask for a lease */                                            \
    X(MGET, 0x03)    /* many keys: answered as GETs with tags tag, tag+1, … */                   \
    X(PUT, 0x04)     /* a value for a key, with or without a lease's token */                      \
    X(RELEASE, 0x05) /* gives a lease back unfulfilled */                                          \
    X(COMPILE, 0x06) /* graph key and proof of a job */                                            \
    X(SOURCE, 0x07)  /* answer to NEED: the encoded job, and a channel to ask for headers */       \
    X(CHECKED, 0x08) /* answer to CHECK: digests of the paths asked */                             \
    X(CANCEL, 0x09)  /* nobody waits for this tag any more */                                      \
    X(DAMAGED, 0x0a) /* the value of this key did not match its checksum */                        \
    X(LIST, 0x10)    /* filter, cursor: ROW frames, then END with the next cursor */               \
    X(SHOW, 0x11)    /* one entry: ROW, or MISS */                                                 \
    X(STATS, 0x12)   /* TEXT: JSON */                                                              \
    X(INFO, 0x13)    /* TEXT: JSON: versions, settings, toolchains, state of the store */          \
    X(REMOVE, 0x14)  /* keys: REPORT */                                                            \
    X(EVICT, 0x15)   /* filter, size to reach, dry run: REPORT */                                  \
    X(PIN, 0x16)     /* keys, on or off: REPORT */                                                 \
    X(VERIFY, 0x17)  /* sample: PROGRESS …, REPORT */                                            \
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

/* Looks for one frame at the start of `data`. Returns its whole length and fills *out; 0 if more
 * bytes are needed; MALFORMED (wrong magic, unknown flags) or TOO_BIG (payload). */
long wire_parse(const void *data, size_t len, struct wire_frame *out, struct err *e);

/* Starts a frame in *w and returns where; wire_end fills in its length. Between them the payload.
 */
size_t wire_begin(struct writer *w, enum wire_type type, unsigned n_fds, uint64_t tag);
void wire_end(struct writer *w, size_t begun);

struct wire_hello {
    uint16_t version_min, version_max;
    uint32_t capabilities; /* none defined yet: 0 */
    struct view client;    /* "warm 0.1.0", for logs */
};
struct wire_welcome {
    uint16_t version;
    uint32_t capabilities;
    uint32_t daemon_uid;
    struct view daemon; /* "warmd 0.1.0" */
};

enum wire_space {
    WIRE_SPACE_NAME = 0, /* any name of 1 to WIRE_NAME_MAX bytes, in the asker's own space */
    WIRE_SPACE_KEY = 1,  /* a 16-byte address key */
};
struct wire_get {
    enum wire_space space;
    bool want_lease;      /* on a miss: LEASE or WAIT instead of MISS */
    uint32_t deadline_ms; /* how long the asker is willing to WAIT; 0: the daemon's default */
    struct view key;
    bool has_proof;
    struct proof proof;
};
struct wire_put {
    enum wire_space space;
    uint8_t kind; /* enum store_kind */
    bool keep_existing;
    uint64_t token;   /* of the lease that this fulfils; 0: none */
    uint32_t cost_ms; /* what it took to make */
    uint64_t ttl_ms;  /* 0: for ever */
    uint64_t len;     /* bytes of the value */
    struct key check; /* XXH3-128 of the value */
    struct key group; /* zero: none */
    struct view key, hardware, compiler, label;
    struct view value; /* inline; empty if a descriptor comes along */
};
enum wire_outcome { WIRE_WAS_HIT = 0, WIRE_WAS_MISS = 1, WIRE_WAS_COALESCED = 2 };
struct wire_hit {
    enum wire_outcome outcome;
    uint8_t kind;
    struct key key;   /* under which the store has it */
    struct key check; /* XXH3-128 of the value: the client verifies it */
    uint32_t cost_ms; /* what making it took, so what a hit saved */
    uint64_t len;
    struct view value; /* inline; empty if a descriptor comes along */
};
struct wire_lease {
    uint64_t token;
    uint32_t deadline_ms; /* after that another may be asked to make it too */
};
enum wire_compile_flags {
    WIRE_COMPILE_RECACHE = 1,        /* compile even if it is known */
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
    struct view
        compiler; /* "" default, "12.9", "13", or hex digits that a compiler's key begins with */
    struct view label; /* file name, for people */
};
/* SOURCE: the encoded job is the payload, or the first descriptor where it is larger than
 * WIRE_INLINE_MAX. The last descriptor is always the channel: one end of a SOCK_SEQPACKET pair, on
 * which the worker asks for headers (struct wire_open) and the client answers with its own rights.
 */
struct wire_source {
    struct view job;
    uint64_t len; /* of the job, inline or not */
};
enum wire_digest { WIRE_XXH3 = 0, WIRE_SHA256 = 1 };
enum wire_path_state { WIRE_PATH_ABSENT = 0, WIRE_PATH_FILE = 1, WIRE_PATH_REFUSED = 2 };
/* CHECK: u8 digest, u32 n, n blobs. CHECKED: u8 digest, u32 n, n × (u8 state, then for a FILE its
 * digest of 16 or 32 bytes). Either may be a descriptor (memfd) when larger than WIRE_INLINE_MAX.
 */

struct wire_filter { /* as struct store_filter; -1, 0 or empty does not restrict */
    int64_t uid;
    int32_t kind, pinned;
    uint64_t min_bytes, max_bytes, min_age_ms, min_idle_ms;
    uint32_t min_hits, max_hits;
    struct view hardware, compiler, text;
};
struct wire_list {
    struct wire_filter filter;
    uint8_t cursor[24];
    uint32_t max_rows; /* at most this many ROW frames before END */
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
};
struct wire_evict {
    struct wire_filter filter;
    uint64_t to_bytes;
    bool dry_run;
};
struct wire_report {
    uint64_t n_entries, n_bytes, n_corrupt;
};

/* Each message has an encoder that appends a whole frame (with `n_fds` announced where it can carry
 * descriptors) and a decoder that fails with MALFORMED, TRUNCATED or TOO_BIG, naming the field. The
 * implementation lists them all; the prototypes follow the pattern
 *     void wire_put_NAME(struct writer *w, uint64_t tag, const struct wire_NAME *m);
 *     int wire_get_NAME(const struct wire_frame *f, struct wire_NAME *out, struct err *e); */

/* On the channel of SOURCE, one packet each way: */
#define WIRE_OPEN_MAX 4200u /* bytes of a packet */
struct wire_open {          /* worker to client: what is at this path? */
    uint32_t id;
    struct view path; /* as the compiler asked; relative paths are relative to the job's cwd */
};
struct wire_opened { /* client to worker; a FILE comes with a read-only descriptor */
    uint32_t id;
    enum wire_path_state state;
};

#endif
