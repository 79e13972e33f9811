/* SPDX-License-Identifier: Apache-2.0 */
/*
 * toolchain.h - finds an NVRTC, identifies it by its content, and starts its fork server.
 *
 *     what the configuration names ──locate──▶ libnvrtc + builtins ──identify──▶ struct toolchain
 *     (library, or a folder)                   (paths, struct worker_file)       (id, version, …)
 *
 * Identifying hashes both files (113 MB: 70 ms, or 300 on a processor without instructions for SHA) and
 * starts a fork server that tells version and targets (killed after TOOLCHAIN_PROBE_MS). So it runs on a
 * pool thread, or before the loop. The result holds as long as the files keep their identity. The library
 * never runs inside the daemon.
 *
 * Thread: any; no state. Memory: toolchain_close frees what identify and decode made.
 */
#ifndef WARM_DAEMON_COMPILER_TOOLCHAIN_H
#define WARM_DAEMON_COMPILER_TOOLCHAIN_H

#include "daemon/compiler/spawner.h"
#include "daemon/worker/message.h"
#include "keygen/bytes.h"
#include "keygen/err.h"
#include "keygen/key.h"

#define TOOLCHAIN_PROBE_MS 20000   /* from a cold disk, on a busy machine */
#define TOOLCHAIN_RECORD_MAX 1024u /* bytes of toolchain_encode */
#define TOOLCHAIN_NAME_MAX 64      /* bytes of toolchain_record_name */

/* A compiler, identified by its content. */
struct toolchain {
    struct key id;    /* of the SHA-256 of libnvrtc and its builtins: the first 16 bytes */
    char text[128];   /* "NVRTC 13.5 (libnvrtc.so.13, 1a2b3c4d)" */
    int major, minor; /* as nvrtcVersion says */
    char *path;       /* of libnvrtc */
    char *archs;      /* "75 80 90 …", as nvrtcGetSupportedArchs says */
};

/* A request that waits until a toolchain has been identified. Embedded by its user, zeroed. */
struct toolchain_wait {
    void (*on_change)(struct toolchain_wait *wait);
    struct toolchain_wait *next, **at; /* the list's; `at` is NULL if it is in none */
};
/* Takes it out of its list: on_change does not run. Nothing happens if it is in none. */
void toolchain_wait_cancel(struct toolchain_wait *wait);

/* A path that leads to no usable library. */
struct toolchain_refusal {
    const char *path, *why;
};

/* How fork servers are started. */
struct worker_program {
    struct spawner *spawner;
    const char *path; /* of warm-nvrtc */
    uid_t uid;        /* the user of a root daemon's fork servers and workers */
    gid_t gid;
};

/* The two files of a compiler. */
struct toolchain_files {
    char *library, *builtins; /* paths; "" for builtins if there are none */
    struct worker_file library_file, builtins_file;
};

/* Folders that libraries may come from, each without links and without a '/' at its end. */
struct toolchain_folders {
    char **list;
    size_t n;
};

/* Finds the files behind a path that is a libnvrtc or a folder with one. NO_TOOLCHAIN, NOMEM. */
int toolchain_locate(const char *given, struct toolchain_files *out, struct err *e);
/* Finds the files behind an absolute path that a client named: a file whose name begins with
 * "libnvrtc.so". Only root and the daemon's own user may be able to change them. Library and
 * builtins must be regular files of one of the two, and no group or other user may write them. The
 * same holds for their folder and every folder above it; one with the sticky bit, such as /tmp, may
 * be above. *out has the paths without links. With `folders`, both files must also lie beneath one
 * of them. Their file system must be one whose owners can be believed: not FUSE, and not mounted
 * nosuid or noexec, as a user's mounts are. NO_TOOLCHAIN says what is wrong; NOMEM. */
int toolchain_locate_trusted(const char *path, const struct toolchain_folders *folders,
                             struct toolchain_files *out, struct err *e);
/* True if the path's text lies beneath one of the folders: absolute, no empty, "." or ".." part. */
bool toolchain_folders_have(const struct toolchain_folders *folders, struct view path);
/* True if the paths still lead to the same files. Two calls of stat. */
bool toolchain_files_hold(const struct toolchain_files *files);
/* Frees the paths. */
void toolchain_files_close(struct toolchain_files *files);

/* A fork server that has said READY. Its holder closes `fd`, which ends it. */
struct worker_started {
    int fd;
    uint64_t id; /* with the spawner */
    struct worker_ready ready;
};

/* Reads the files while a fork server loads them; blocks. Gives that fork server in *out_server.
 * NO_TOOLCHAIN, IO, TIMEOUT, NOMEM. */
int toolchain_identify(const struct worker_program *program, const struct toolchain_files *files,
                       struct toolchain *out, struct worker_started *out_server, struct err *e);
/* Frees the texts. */
void toolchain_close(struct toolchain *t);

/* Makes the name under which the toolchain of these files is remembered. */
void toolchain_record_name(const struct toolchain_files *files, char out[TOOLCHAIN_NAME_MAX]);
/* Writes a toolchain as bytes to be remembered. */
void toolchain_encode(const struct toolchain *t, struct writer *w);
/* Reads a toolchain that was remembered. VERSION, MALFORMED, TRUNCATED, NOMEM. */
int toolchain_decode(const struct toolchain_files *files, const void *data, size_t len,
                     struct toolchain *out, struct err *e);

/* Starts a fork server and hands it the two files, opened here: NO_TOOLCHAIN if they are no longer
 * those of `files`. *out_fd is the daemon's end of its socket, *out_id its name with the spawner.
 * IO. */
int worker_start(const struct worker_program *program, const struct toolchain_files *files,
                 int *out_fd, uint64_t *out_id, struct err *e);

#endif
