/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listener.c - makes or takes the listening socket, and accepts connections.
 *
 * Making it, in order; each failure undoes the steps before it:
 *   1. the folder exists, or is made 0700; only root and the daemon's own user can replace its entries;
 *   2. PATH.lock is locked: two daemons cannot both find the socket stale and replace it;
 *   3. connect: an answer means that a daemon is there (one without a lock, or under another name);
 *   4. the entry at PATH did not answer: it is unlinked, if it is a socket;
 *   5. bind under a umask, listen.
 *
 * main.c opens the sockets; server.c accepts.
 *
 * Thread: loop thread.
 */
#include "daemon/net/listener.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/lib/owned_path.h"
#include "daemon/process/log.h"

#define LISTEN_BACKLOG 1024 /* connections that wait; the kernel's somaxconn may be lower */
#define LISTEN_BATCH 64     /* connections taken in one turn of the loop */
#define LISTEN_RETRY_MS 100 /* after a failed accept */
#define LISTEN_FDS_START 3  /* sd_listen_fds(3) */
#define LISTEN_FDS_MAX 16   /* of which the daemon takes notice */

/* ---- a socket that was passed ---- */

/* The sockets that were passed to this very process; -1: none. */
static int passed_socket = -1, passed_admin = -1;

static int listener_take_passed(struct listener_socket *s, int fd, struct err *e)
{
    struct sockaddr_un address = {0};
    socklen_t len = sizeof address;
    int listening = 0;
    socklen_t size = sizeof listening;
    if (getsockname(fd, (struct sockaddr *)&address, &len) != 0 || address.sun_family != AF_UNIX ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0 || !listening)
        return err_set(e, WARM_EINVALID,
                       "the descriptor of LISTEN_FDS is no listening Unix socket");
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 || fcntl(fd, F_SETFL, O_NONBLOCK) != 0)
        return err_sys(e, WARM_EIO, errno, "cannot use the descriptor of LISTEN_FDS");
    *s = (struct listener_socket){.fd = fd, .lock_fd = -1, .passed = true};
    snprintf(s->path, sizeof s->path, "%.*s", (int)sizeof s->path - 1, address.sun_path);
    return 0;
}

/* ---- an own socket ---- */

/* Makes the socket's folder, if it is missing. Then checks it: a user who may rename its entries could
 * listen in the daemon's place, and serve its clients. */
static int listener_make_folder(const char *path, struct err *e)
{
    char folder[108];
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash && slash != folder) {
        *slash = '\0';
        bool is_made = mkdir(folder, 0700) == 0;
        if (!is_made && errno != EEXIST)
            return err_sys(e, WARM_EIO, errno, "cannot make %s, the folder of the socket", folder);
        /* root's daemon serves every user: they must reach the socket */
        if (is_made && geteuid() == 0 && chmod(folder, 0755) != 0)
            return err_sys(e, WARM_EIO, errno, "cannot open the folder %s to all users", folder);
    }
    return owned_path_check_folders(path, "the socket", e);
}

static int listener_lock(const char *path, int *out, struct err *e)
{
    char lock[128];
    snprintf(lock, sizeof lock, "%s.lock", path);
    int fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return err_sys(e, WARM_EIO, errno, "cannot make %s", lock);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        close(fd);
        return err_set(e, WARM_EBUSY, "another daemon is starting or running at %s", path);
    }
    *out = fd;
    return 0;
}

static int listener_clear_path(const struct sockaddr_un *address, struct err *e)
{
    struct stat st;
    if (lstat(address->sun_path, &st) != 0)
        return errno == ENOENT
                   ? 0
                   : err_sys(e, WARM_EIO, errno, "cannot look at %s", address->sun_path);
    if (!S_ISSOCK(st.st_mode))
        return err_set(e, WARM_EINVALID, "%s is there and is no socket", address->sun_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_sys(e, WARM_EIO, errno, "cannot make a socket");
    int rc = connect(fd, (const struct sockaddr *)address, sizeof *address);
    bool stale = rc != 0 && errno == ECONNREFUSED;
    close(fd);
    if (!stale)
        return err_set(e, WARM_EBUSY, "a daemon is running at %s", address->sun_path);
    if (unlink(address->sun_path) != 0 && errno != ENOENT)
        return err_sys(e, WARM_EIO, errno, "cannot remove the stale %s", address->sun_path);
    return 0;
}

static int listener_bind(const struct sockaddr_un *address, mode_t mode, int *out, struct err *e)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_sys(e, WARM_EIO, errno, "cannot make a socket");
    mode_t old = umask(0777 & ~mode);
    int rc = bind(fd, (const struct sockaddr *)address, sizeof *address);
    int why = errno;
    umask(old);
    if (rc != 0) {
        close(fd);
        return err_sys(e, WARM_EIO, why, "cannot make the socket %s", address->sun_path);
    }
    *out = fd;
    return 0;
}

static int listener_make(struct listener_socket *s, const char *path, mode_t mode, struct err *e)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return err_set(e, WARM_EINVALID, "the socket's path is longer than %zu bytes: %s",
                       sizeof address.sun_path - 1, path);
    strcpy(address.sun_path, path);
    int lock_fd = -1, fd = -1;
    int code = listener_make_folder(path, e);
    if (code == 0)
        code = listener_lock(path, &lock_fd, e);
    if (code == 0)
        code = listener_clear_path(&address, e);
    if (code == 0)
        code = listener_bind(&address, mode, &fd, e);
    struct stat st;
    if (code == 0 && lstat(path, &st) != 0) {
        code = err_sys(e, WARM_EIO, errno, "cannot look at %s", path);
        close(fd);
    }
    if (code) {
        if (lock_fd >= 0)
            close(lock_fd);
        return code;
    }
    *s = (struct listener_socket){
        .fd = fd, .lock_fd = lock_fd, .device = st.st_dev, .inode = st.st_ino};
    strcpy(s->path, path);
    return 0;
}

int listener_open(struct listener_socket *out, const char *path, struct err *e)
{
    /* Passed sockets, as in sd_listen_fds_with_names(3): one with the name "admin", and the first other. */
    const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
    const char *names = getenv("LISTEN_FDNAMES");
    long n = pid && count && strtol(pid, NULL, 10) == (long)getpid() ? strtol(count, NULL, 10) : 0;
    for (int i = 0; i < n && i < LISTEN_FDS_MAX; i++) {
        size_t len = names ? strcspn(names, ":") : 0;
        bool is_admin = len == 5 && memcmp(names, "admin", 5) == 0;
        int *place = is_admin ? &passed_admin : &passed_socket;
        if (*place < 0)
            *place = LISTEN_FDS_START + i;
        names = names && names[len] ? names + len + 1 : NULL;
    }
    unsetenv("LISTEN_PID"); /* children must not inherit them */
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    return passed_socket >= 0 ? listener_take_passed(out, passed_socket, e)
                              : listener_make(out, path, geteuid() == 0 ? 0666 : 0600, e);
}

int listener_open_admin(struct listener_socket *out, const char *path, struct err *e)
{
    return passed_admin >= 0 ? listener_take_passed(out, passed_admin, e)
                             : listener_make(out, path, 0600, e);
}

int listener_listen(const struct listener_socket *s, struct err *e)
{
    if (!s->passed && listen(s->fd, LISTEN_BACKLOG) != 0)
        return err_sys(e, WARM_EIO, errno, "cannot listen at %s", s->path);
    return 0;
}

/* True if other users may connect: they need write access to the socket's file. An abstract name
 * has no file. */
bool listener_is_shared(const struct listener_socket *s)
{
    struct stat st;
    return stat(s->path, &st) != 0 || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0;
}

bool listener_is_there(const struct listener_socket *s)
{
    struct stat st;
    return s->passed ||
           (lstat(s->path, &st) == 0 && st.st_dev == s->device && st.st_ino == s->inode);
}

/* Removes an own socket. The lock file stays: without it two daemons could lock two files of one
 * name. */
void listener_shut(struct listener_socket *s)
{
    if (!s->passed && listener_is_there(s))
        unlink(s->path);
    close(s->fd);
    if (s->lock_fd >= 0)
        close(s->lock_fd);
}

/* ---- accepting ---- */

static void listener_pause(struct listener *l)
{
    if (l->paused)
        return;
    l->paused = true;
    uv_poll_stop(&l->poll);
}

static void on_retry(uv_timer_t *timer) { listener_resume(timer->data); }

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    struct listener *l = poll->data;
    for (unsigned i = 0; i < LISTEN_BATCH && !l->paused; i++) {
        int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            if (!l->on_connection(l->arg, fd))
                listener_pause(l);
            continue;
        }
        if (errno == EAGAIN)
            return;
        if (errno == ECONNABORTED || errno == EINTR)
            continue;
        log_warning("cannot accept connections for now: %s", strerror(errno));
        listener_pause(l);
        uv_timer_start(&l->retry, on_retry, LISTEN_RETRY_MS, 0);
    }
}

int listener_start(struct listener *l, uv_loop_t *loop, int fd,
                   bool (*on_connection)(void *arg, int fd), void *arg, struct err *e)
{
    assert(fd >= 0);
    *l = (struct listener){.fd = fd, .on_connection = on_connection, .arg = arg};
    int rc = uv_poll_init(loop, &l->poll, fd);
    if (rc)
        return err_set(e, WARM_EIO, "cannot watch the socket: %s", uv_strerror(rc));
    uv_timer_init(loop, &l->retry);
    l->poll.data = l->retry.data = l;
    l->paused = true;
    listener_resume(l);
    return 0;
}

void listener_resume(struct listener *l)
{
    if (!l->paused || uv_is_closing((uv_handle_t *)&l->poll))
        return;
    l->paused = false;
    uv_poll_start(&l->poll, UV_READABLE, on_readable);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct listener *l = handle->data;
    if (--l->n_closing == 0)
        l->on_closed(l->arg);
}

void listener_close(struct listener *l, void (*on_closed)(void *arg))
{
    l->on_closed = on_closed;
    l->n_closing = 2;
    uv_close((uv_handle_t *)&l->poll, on_handle_closed);
    uv_close((uv_handle_t *)&l->retry, on_handle_closed);
}
