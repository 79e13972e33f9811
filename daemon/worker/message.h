/* SPDX-License-Identifier: Apache-2.0 */
/*
 * message.h - the messages between the daemon, a fork server and its workers (pool.h draws the tree).
 *
 *     warmd                                       fork server
 *     ───── FILES + [library, builtins] ─────────▶ (gives up its user and most files, loads)
 *     ◀──── READY: versions, targets, which library file
 *     ───── JOB + [job memfd, ANSWER, channel] ──▶ forks a worker
 *     ───── KILL ────────────────────────────────▶ SIGKILL, if the worker is not yet reaped
 *     ◀──── EXITED: the worker is reaped
 *     ───── (end of the socket) ─────────────────▶ exits, and so do its workers
 *
 *     warmd                                       worker, on the socket ANSWER of its job
 *     ◀──── DONE + [bundle memfd, paths memfd]     and exits
 *
 * A worker holds neither another worker's socket nor the fork server's: a source that takes its worker
 * over can answer for its own job alone.
 *
 * The sockets are SOCK_SEQPACKET: a packet is a message, with its descriptors. Both ends come from one
 * build and run on one machine, so packets are structs. The daemon still trusts no length in them: a
 * worker has read the source of a stranger.
 *
 * The paths memfd, little-endian, for each path in the order in which the compiler asked first:
 *     blob path, u8 state (0 absent, 1 file), 32 bytes SHA-256, u32 the first path of the list that
 *     led to this very file (client/lib/inodes.h), blob digests of its lines (daemon/worker/line_digests.h), empty
 *     if there are none
 *
 * Thread: any. Memory: nothing is owned.
 */
#ifndef WARM_DAEMON_WORKER_MESSAGE_H
#define WARM_DAEMON_WORKER_MESSAGE_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/lib/packet.h"
#include "keygen/err.h"

#define WORKER_FD 3           /* the fork server's end of its socket; in a worker, its own socket */
#define WORKER_TMP "/.warm"   /* a folder that exists only in the answers of files.c */
#define WORKER_ARCHS_MAX 128u /* targets that one library supports */
#define WORKER_PATHS_MAX 65536 /* paths that one compile may ask for */

enum worker_message {
    WORKER_READY = 1,
    WORKER_JOB = 2,
    WORKER_DONE = 3,
    WORKER_FILES = 4,
    WORKER_KILL = 5,
    WORKER_EXITED = 6,
};

/* Identifies the bytes behind a path: it changes whenever the file's content may have changed. */
struct worker_file {
    uint64_t dev, ino, size;
    int64_t mtime_ns, ctime_ns;
};

/* The files to load, opened by the daemon: no worker opens a library by its path. */
struct worker_files {
    uint32_t type;
    bool has_builtins; /* the second descriptor */
};

struct worker_ready {
    uint32_t type;
    int32_t status; /* 0, or an error of err.h: then only `text` is set */
    char text[244];
    int32_t major, minor; /* nvrtcVersion */
    uint32_t n_archs;
    int32_t archs[WORKER_ARCHS_MAX];
    struct worker_file library, builtins;
    int32_t landlock; /* version of the kernel's interface that is in force; 0: none */
    uint8_t
        seccomp; /* 0 or 1: the kernel has system-call filters: each worker gets one, or does not run */
};

struct worker_job {
    uint32_t type;
    bool has_channel; /* the third descriptor */
    uint64_t id;
    uint64_t len; /* of the encoded job */
    uint64_t timeout_ms;
    uint64_t memory;   /* bytes of address space; 0: no limit */
    char compiler[96]; /* the compiler's name in the result */
};

struct worker_kill {
    uint32_t type;
    uint64_t id; /* of the job */
};

struct worker_exited {
    uint32_t type;
    int32_t status; /* as waitpid returns it; -1: it could not be forked, `error` says why */
    int32_t error;  /* errno */
    uint64_t id;
};

struct worker_done {
    uint32_t type;
    int32_t status; /* as in struct pool_result; the descriptors come only with 0 */
    char text[244];
    uint64_t id;
    uint64_t len, paths_len; /* bytes of the two descriptors */
    int32_t nvrtc_status;
    uint32_t ms, n_paths;
    uint8_t keep;      /* each of them is 0 or 1: worker_done_is_sound */
    uint8_t shareable; /* as in struct pool_result */
    uint8_t names_places;
    uint8_t has_once, movable, names_inner; /* likewise */
};

/* True for a status that a fork server or a worker may give. Other codes are the daemon's own words, such as
 * SHUTDOWN, which ends the wait of all: who took a worker over must not say them. */
static inline bool worker_status_is_sound(int32_t status)
{
    static const int32_t statuses[] = {0,
                                       WARM_ENOMEM,
                                       WARM_EINVALID,
                                       WARM_EMALFORMED,
                                       WARM_ETRUNCATED,
                                       WARM_ETOO_BIG,
                                       WARM_EVERSION,
                                       WARM_EUNSUPPORTED,
                                       WARM_EDENIED,
                                       WARM_EIO,
                                       WARM_ETIMEOUT,
                                       WARM_ECLOSED,
                                       WARM_EREFUSED,
                                       WARM_ENO_TOOLCHAIN};
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        if (status == statuses[i])
            return true;
    return false;
}

/* Checks READY of a fork server, before anything else in it is read, and ends its text. */
static inline bool worker_ready_is_sound(struct worker_ready *ready)
{
    ready->text[sizeof ready->text - 1] = '\0';
    return ready->type == WORKER_READY && worker_status_is_sound(ready->status) &&
           ready->n_archs <= WORKER_ARCHS_MAX && ready->landlock >= 0 && ready->seccomp <= 1;
}

/* Checks DONE of a worker likewise. */
static inline bool worker_done_is_sound(struct worker_done *done)
{
    done->text[sizeof done->text - 1] = '\0';
    return done->type == WORKER_DONE && worker_status_is_sound(done->status) && done->keep <= 1 &&
           done->shareable <= 1 && done->names_places <= 1 && done->has_once <= 1 &&
           done->movable <= 1 && done->names_inner <= 1;
}

static inline struct worker_file worker_file_of(const struct stat *st)
{
    return (struct worker_file){
        .dev = st->st_dev,
        .ino = st->st_ino,
        .size = (uint64_t)st->st_size,
        .mtime_ns = st->st_mtim.tv_sec * 1000000000ll + st->st_mtim.tv_nsec,
        .ctime_ns = st->st_ctim.tv_sec * 1000000000ll + st->st_ctim.tv_nsec,
    };
}

static inline bool worker_file_equal(const struct worker_file *a, const struct worker_file *b)
{
    return a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
           a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns;
}

#endif
