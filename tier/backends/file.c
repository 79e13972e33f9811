/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file.c - file:///FOLDER: objects as files of a folder that several machines share. The folder may be
 * read-only. backends.c chooses it.
 *
 *     FOLDER/v1/HH/e-ID        an object; made as FOLDER/v1/HH/.new-XXXXXX and renamed: whole or not at all
 *
 * A network file system may hang. So each request is a job on a pool thread, with a copy of all
 * that it needs. A job that takes too long is given up: its request ends, and the job frees itself later.
 * A folder that is not there is no miss: it may be a file system that is not mounted.
 *
 * Others may write the folder, too. So each part of a path below it is opened by itself, and a link is never followed:
 * it could lead to a folder of the daemon's user.
 *
 * There are no leases: expiry needs a clock that all machines share.
 *
 * Thread: loop thread; job_run and what it calls: a pool thread.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tier/backends/backends.h"

#define COPY_BYTES (256u << 10)
#define JOBS_MAX 32u /* given-up jobs included: beyond, a request fails at once */

struct file_backend {
    struct tier_backend base;
    uv_loop_t *loop;
    char folder[PATH_MAX];
    unsigned n_jobs;
    bool closing;
    void (*closed)(void *user);
    void *closed_user;
};

struct job {
    uv_work_t work;
    uv_timer_t timer; /* ends the request if the job does not */
    struct file_backend *backend;
    struct tier_request *request; /* NULL: given up */
    struct tier_request own;      /* what job_run reads and writes; its fd is a duplicate */
    char folder[PATH_MAX];
    bool queued;  /* a pool thread has it, or will */
    char why[64]; /* for the end by the timer */
};

/* ---- on a pool thread ---- */

static enum tier_outcome say(struct tier_request *r, enum tier_outcome outcome, const char *text)
{
    snprintf(r->said, sizeof r->said, "%s", text);
    return outcome;
}

/* Writes the path of the folder of all objects, to say why one cannot be reached. */
static bool objects_path(const struct job *j, char out[PATH_MAX])
{
    int n = snprintf(out, PATH_MAX, "%s/v1/.", j->folder);
    return n > 0 && n < PATH_MAX;
}

/* Classifies the error of a system call on an object. */
static enum tier_outcome say_errno(struct job *j, int error)
{
    struct stat st;
    bool gone = error == ENOENT && (stat(j->folder, &st) != 0 || !S_ISDIR(st.st_mode));
    if (gone)
        return say(&j->own, TIER_MISSET, "the folder is not there");
    switch (error) {
    case ENOENT: return say(&j->own, TIER_ABSENT, "no such file");
    case EACCES:
    case EPERM:
    case EROFS: return say(&j->own, TIER_DENIED, strerror(error));
    case EEXIST: return say(&j->own, TIER_EXISTS, "the file is there");
    default: return say(&j->own, TIER_FAILED, strerror(error));
    }
}

/* Does so for a PUT, which is never absent: that would count as sent. One folder of objects that is
 * another user's refuses its own objects alone. A share that nobody may write refuses all. */
static enum tier_outcome say_unsent(struct job *j, int error)
{
    char objects[PATH_MAX];
    enum tier_outcome outcome = say_errno(j, error);
    if (outcome == TIER_ABSENT)
        return TIER_FAILED;
    if (error == ENOTDIR || error == ELOOP)
        return say(&j->own, TIER_CANNOT, "the folder of some objects is a link, or no folder");
    if (error == EISDIR)
        return say(&j->own, TIER_CANNOT, "a folder has the name of an object");
    if (outcome != TIER_DENIED || error == EROFS || !objects_path(j, objects) ||
        faccessat(AT_FDCWD, objects, W_OK | X_OK, AT_EACCESS) != 0)
        return outcome;
    snprintf(j->own.said, sizeof j->own.said, "the folder of some objects is another user's: %s",
             strerror(error));
    return TIER_CANNOT;
}

/* Does so for a GET. An object that may not be read is an error of its own, unless none may be read. */
static enum tier_outcome say_unread(struct job *j, int error)
{
    enum tier_outcome outcome = say_errno(j, error);
    char objects[PATH_MAX];
    struct stat st;
    if (outcome != TIER_DENIED || !objects_path(j, objects) || stat(objects, &st) != 0)
        return outcome;
    snprintf(j->own.said, sizeof j->own.said, "an object: %s", strerror(error));
    return TIER_FAILED;
}

/* Copies `len` bytes from `from` at `offset` to the start of `to`. Returns 0 or an errno. */
static int copy_bytes(int from, uint64_t offset, int to, uint64_t len)
{
    char *buffer = malloc(COPY_BYTES);
    int error = buffer ? 0 : ENOMEM;
    for (uint64_t at = 0; !error && at < len;) {
        size_t piece = len - at < COPY_BYTES ? (size_t)(len - at) : COPY_BYTES;
        ssize_t n = pread(from, buffer, piece, (off_t)(offset + at));
        if (n > 0) /* a full disk takes a part, and refuses the rest */
            n = pwrite(to, buffer, (size_t)n, (off_t)at);
        if (n <= 0 && !(n < 0 && errno == EINTR))
            error = n < 0 ? errno : EIO;
        at += n > 0 ? (uint64_t)n : 0;
    }
    free(buffer);
    return error;
}

static enum tier_outcome get_file(struct job *j, int fd)
{
    struct tier_request *r = &j->own;
    struct stat st;
    if (fstat(fd, &st) != 0)
        return say_errno(j, errno);
    if (!S_ISREG(st.st_mode))
        return say(r, TIER_FAILED, "not a file");
    if ((uint64_t)st.st_size > r->limit)
        return say(r, TIER_TOO_LARGE, "larger than expected");
    r->result_length = (uint64_t)st.st_size;
    r->result_fd = memfd_create("warm-tier", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (r->result_fd < 0)
        return say_errno(j, errno);
    int error = copy_bytes(fd, 0, r->result_fd, r->result_length);
    return error ? say(r, TIER_FAILED, strerror(error)) : TIER_OK;
}

/* Opens a folder by its name in another, which is taken; makes it if `makes`. Returns -1, with errno. */
static int open_part(int in, const char *name, bool makes)
{
    int made = makes && mkdirat(in, name, 0777) != 0 ? errno : 0; /* the umask decides */
    int fd = openat(in, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int error = fd < 0 && errno == ENOENT && made ? made : errno;
    close(in);
    errno = error;
    return fd;
}

/* Opens the folder of an object. *out_base is the object's name there. Returns -1, with errno. */
static int open_folder_of(const struct job *j, const char *name, bool makes, const char **out_base)
{
    const char *slash = strchr(name, '/');
    char part[TIER_NAME_MAX + 1] = "";
    int fd = open(j->folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        fd = open_part(fd, "v1", makes);
    if (slash)
        snprintf(part, sizeof part, "%.*s", (int)(slash - name), name);
    *out_base = slash ? slash + 1 : name;
    bool is_plain = !strchr(*out_base, '/') && **out_base && **out_base != '.' && *part != '.';
    if (fd >= 0 && !is_plain) { /* backend.h: no such name is asked for */
        close(fd);
        errno = EINVAL;
        return -1;
    }
    return fd >= 0 && *part ? open_part(fd, part, makes) : fd;
}

static enum tier_outcome do_get(struct job *j)
{
    const char *base;
    int folder = open_folder_of(j, j->own.name, false, &base);
    int fd = folder < 0 ? -1 : openat(folder, base, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    int error = errno;
    if (folder >= 0)
        close(folder);
    if (fd < 0)
        return say_unread(j, error);
    enum tier_outcome outcome = get_file(j, fd);
    close(fd);
    return outcome;
}

/* Moves a complete file to its place. Returns 0 or an errno. */
static int place_file(int folder, const char *made, const char *base, bool only_if_absent)
{
    if (!only_if_absent)
        return renameat(folder, made, folder, base) == 0 ? 0 : errno;
    int error = linkat(folder, made, folder, base, 0) == 0 ? 0 : errno;
    if (error != EPERM && error != EOPNOTSUPP && error != ENOSYS && error != EMLINK)
        return error;
    return renameat(folder, made, folder, base) == 0 ? 0 : errno; /* a file system without links */
}

/* Makes a file with these bytes in a folder. Returns 0 or an errno. */
static int put_file(struct job *j, int folder, const char *base, int from, uint64_t offset,
                    uint64_t len)
{
    unsigned long long random;
    char made[32];
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return errno;
    snprintf(made, sizeof made, ".new-%016llx", random);
    int to = openat(folder, made, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (to < 0)
        return errno;
    int error = copy_bytes(from, offset, to, len);
    if (!error && (fchmod(to, 0644) != 0 || fdatasync(to) != 0))
        error = errno;
    if (close(to) != 0 && !error)
        error = errno; /* some network file systems tell of a full disk here */
    if (!error)
        error = place_file(folder, made, base, j->own.only_if_absent);
    unlinkat(folder, made, 0);
    return error;
}

static enum tier_outcome put_bytes(struct job *j, const char *name, int from, uint64_t offset,
                                   uint64_t len)
{
    const char *base;
    int folder = open_folder_of(j, name, true, &base);
    int error = folder < 0 ? errno : put_file(j, folder, base, from, offset, len);
    if (folder >= 0)
        close(folder);
    return error ? say_unsent(j, error) : TIER_OK;
}

/* Finds out how far the file server's clock is from ours. */
static uint64_t clock_skew_ms(int folder, const char *base)
{
    struct stat st;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (fstatat(folder, base, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return 0;
    int64_t skew = (int64_t)(st.st_mtim.tv_sec - now.tv_sec) * 1000 +
                   (st.st_mtim.tv_nsec - now.tv_nsec) / 1000000;
    return (uint64_t)(skew < 0 ? -skew : skew);
}

static enum tier_outcome do_probe(struct job *j)
{
    struct tier_capabilities *c = &j->own.capabilities;
    const char *base;
    struct stat st;
    int fd = memfd_create("warm-tier", MFD_CLOEXEC);
    if (fd < 0 || pwrite(fd, "probe", 5, 0) != 5) {
        close(fd);
        return say(&j->own, TIER_FAILED, "no memory for a probe");
    }
    c->reads = stat(j->folder, &st) == 0 && access(j->folder, R_OK | X_OK) == 0;
    enum tier_outcome put = put_bytes(j, j->own.name, fd, 0, 5);
    c->writes = put == TIER_OK;
    int folder = c->writes ? open_folder_of(j, j->own.name, false, &base) : -1;
    if (folder >= 0) {
        c->clock_skew_ms = clock_skew_ms(folder, base);
        j->own.only_if_absent = true;
        c->conditional = put_bytes(j, j->own.name, fd, 0, 5) == TIER_EXISTS;
        unlinkat(folder, base, 0);
        close(folder);
    }
    close(fd);
    snprintf(c->said, sizeof c->said, "%s%s", c->reads ? "the folder can be read" : j->own.said,
             !c->reads   ? ""
             : c->writes ? " and written"
                         : ", not written");
    if (c->reads)
        j->own.said[0] = '\0';
    return c->reads ? TIER_OK : put == TIER_OK ? TIER_DENIED : put;
}

static void job_run(uv_work_t *work)
{
    struct job *j = work->data;
    struct tier_request *r = &j->own;
    r->result_fd = -1;
    errno = 0;
    switch (r->operation) {
    case TIER_GET: r->outcome = do_get(j); break;
    case TIER_PUT: r->outcome = put_bytes(j, r->name, r->fd, r->offset, r->length); break;
    case TIER_PROBE: r->outcome = do_probe(j); break;
    default: r->outcome = say(r, TIER_CANNOT, "a folder has no leases");
    }
}

/* ---- on the loop thread ---- */

static void backend_settle(struct file_backend *b)
{
    if (!b->closing || b->n_jobs)
        return;
    void (*closed)(void *user) = b->closed;
    void *user = b->closed_user;
    free(b);
    closed(user);
}

/* Ends the request with what the job found, or with why it is given up. */
static void job_answer(struct job *j, const struct tier_request *from)
{
    struct tier_request *r = j->request;
    assert(r && r->backend_data == j); /* it ends once */
    j->request = NULL;
    r->backend_data = NULL;
    r->outcome = from->outcome;
    r->result_fd = from->outcome == TIER_OK ? from->result_fd : -1;
    r->result_length = from->result_length;
    r->capabilities = from->capabilities;
    memcpy(r->said, from->said, sizeof r->said);
    r->done(r);
}

static void job_give_up(struct job *j, const char *why)
{
    struct tier_request failed = {.outcome = TIER_FAILED, .result_fd = -1};
    snprintf(failed.said, sizeof failed.said, "%s", why);
    if (j->request)
        job_answer(j, &failed);
}

static void on_timer_closed(uv_handle_t *timer)
{
    struct job *j = timer->data;
    struct file_backend *b = j->backend;
    assert(!j->request && b->n_jobs);
    free(j);
    b->n_jobs--;
    backend_settle(b);
}

/* Ends a request that took too long, was cancelled or cannot begin. */
static void on_timer(uv_timer_t *timer)
{
    struct job *j = timer->data;
    bool queued = j->queued;
    job_give_up(j, j->why);
    if (!queued)
        uv_close((uv_handle_t *)timer, on_timer_closed);
}

static void job_ran(uv_work_t *work, int status)
{
    struct job *j = work->data;
    bool wanted = j->request != NULL && status == 0;
    if (j->own.fd >= 0)
        close(j->own.fd);
    if (!status && j->own.result_fd >= 0 && !(wanted && j->own.outcome == TIER_OK))
        close(j->own.result_fd);
    if (wanted)
        job_answer(j, &j->own);
    job_give_up(j, "cancelled"); /* if uv_cancel ended it */
    uv_close((uv_handle_t *)&j->timer, on_timer_closed);
}

static void job_end_in(struct job *j, uint64_t ms, const char *why)
{
    snprintf(j->why, sizeof j->why, "%s", why);
    uv_timer_start(&j->timer, on_timer, ms, 0);
}

static void file_start(struct tier_backend *backend, struct tier_request *request)
{
    struct file_backend *b = (struct file_backend *)backend;
    assert(!b->closing && request->done && *request->name);
    assert((request->operation == TIER_PUT) <= (request->fd >= 0));
    struct job *j = calloc(1, sizeof *j);
    if (!j)
        abort(); /* warmd starts the helper again */
    *j = (struct job){.backend = b, .request = request, .own = *request};
    j->own.fd = -1;
    request->backend_data = j;
    memcpy(j->folder, b->folder, sizeof j->folder);
    j->work.data = j->timer.data = j;
    uv_timer_init(b->loop, &j->timer);
    if (request->operation == TIER_PUT)
        j->own.fd = fcntl(request->fd, F_DUPFD_CLOEXEC, 3);
    if (++b->n_jobs > JOBS_MAX)
        job_end_in(j, 0, "too many requests hang in the file system");
    else if (request->operation == TIER_PUT && j->own.fd < 0)
        job_end_in(j, 0, "no descriptor left");
    else {
        char why[64];
        snprintf(why, sizeof why, "timed out after %llu ms", (unsigned long long)j->own.timeout_ms);
        j->queued = true;
        job_end_in(j, j->own.timeout_ms, why);
        uv_queue_work(j->backend->loop, &j->work, job_run, job_ran);
    }
    if (!j->queued && j->own.fd >= 0)
        close(j->own.fd);
}

static void file_cancel(struct tier_backend *backend, struct tier_request *request)
{
    struct job *j = request->backend_data;
    (void)backend;
    if (j && j->request == request)
        job_end_in(j, 0, "cancelled");
}

static void file_close(struct tier_backend *backend, void (*closed)(void *user), void *user)
{
    struct file_backend *b = (struct file_backend *)backend;
    b->closing = true;
    b->closed = closed;
    b->closed_user = user;
    backend_settle(b);
}

static const struct tier_backend_functions file_functions = {"file", file_start, file_cancel,
                                                             file_close};

struct tier_backend *tier_file_new(uv_loop_t *loop, const struct tier_settings *settings, char *why,
                                   size_t why_size)
{
    assert(strncmp(settings->url, "file://", 7) == 0);
    const char *path = strstr(settings->url, "://") + 3;
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    if (*path != '/' || strchr(path, '?') || len >= PATH_MAX - TIER_NAME_MAX - 32) {
        snprintf(why, why_size, "the URL of a folder is file:///FOLDER, with three slashes");
        return NULL;
    }
    struct file_backend *b = calloc(1, sizeof *b);
    if (!b) {
        snprintf(why, why_size, "out of memory");
        return NULL;
    }
    b->base.functions = &file_functions;
    b->loop = loop;
    memcpy(b->folder, path, len);
    return &b->base;
}
