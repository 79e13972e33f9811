/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listener.h - makes the listening socket, or takes the service manager's, and accepts connections.
 *
 *   own:     lock PATH.lock ─▶ stale? unlink ─▶ bind (umask) ─▶ listener_listen ─▶ … ─▶ unlink
 *   passed:  $LISTEN_FDS from the service manager ─────────────────────▶ … ─▶ left as it is
 *
 * A daemon whose socket others may use has a second one for its administrator, with mode 0600. The
 * service manager passes it under the name "admin" ($LISTEN_FDNAMES). It listens before the first
 * one, which says that the daemon has started.
 *
 * A socket file without a daemon behind it is removed and made anew; if a daemon answers, the start
 * fails. If descriptors run out, connections wait in the listen queue: accepting pauses until a
 * connection ends or 100 ms have passed.
 *
 * Thread: loop thread. Memory: embedded by its user; holds libuv handles: listener_close, then wait
 * for its callback.
 */
#ifndef WARM_DAEMON_NET_LISTENER_H
#define WARM_DAEMON_NET_LISTENER_H

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

#include "keygen/err.h"

/* A socket as listener_open found or made it. */
struct listener_socket {
    int fd;
    int lock_fd;    /* keeps a second daemon from replacing the socket file; -1 if passed */
    bool passed;    /* by the service manager: never unlinked */
    char path[108]; /* of sockaddr_un */
    dev_t device;   /* of an own socket's file */
    ino_t inode;
};

/* Takes the socket that the service manager passed, or makes one at `path`, with its folder (0700).
 * The socket has mode 0666 for root (the kernel tells the uid of each client) and 0600 for a user.
 * Errors: BUSY (a daemon is at that path), INVALID (the path is too long, or is no socket), DENIED
 * (another user could replace the socket: the folder is theirs, or open to them), IO. */
int listener_open(struct listener_socket *out, const char *path, struct err *e);
/* Opens the administrator's socket in the same way, with mode 0600 for root, too. After
 * listener_open. */
int listener_open_admin(struct listener_socket *out, const char *path, struct err *e);
/* Lets clients connect; a passed socket listens already. IO. */
int listener_listen(const struct listener_socket *s, struct err *e);
/* True if users other than root and the daemon's own can connect. */
bool listener_is_shared(const struct listener_socket *s);
/* False if an own socket's file was removed or replaced: nobody can connect any more. */
bool listener_is_there(const struct listener_socket *s);
/* Closes the socket; removes its file, unless it was passed. */
void listener_shut(struct listener_socket *s);

struct listener {
    uv_poll_t poll;
    uv_timer_t retry;
    int fd;
    bool paused;
    unsigned n_closing;
    /* Takes `fd`; returns false to accept no further connections for now. */
    bool (*on_connection)(void *arg, int fd);
    void *arg;
    void (*on_closed)(void *arg);
};

/* Begins to accept. `fd` is borrowed until listener_close's callback. IO. */
int listener_start(struct listener *l, uv_loop_t *loop, int fd,
                   bool (*on_connection)(void *arg, int fd), void *arg, struct err *e);
/* Accepts again after on_connection returned false, or accept failed. */
void listener_resume(struct listener *l);
/* Stops accepting; `on_closed` runs when the handles are closed. */
void listener_close(struct listener *l, void (*on_closed)(void *arg));

#endif
