/* SPDX-License-Identifier: Apache-2.0 */
/*
 * headers.c - decides which files a compiler in a worker may read, and opens them. remote_compile.c
 * calls it for each question of the worker (OPEN) and of the daemon (CHECK); headers.h has the
 * rules.
 *
 * Thread: one at a time.
 */
#include "client/lib/headers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/lib/inodes.h"
#include "client/lib/whole_io.h"
#include "keygen/cuda/options.h"
#include "keygen/expect.h"

#define PATH_SIZE (2 * WIRE_PATH_MAX + 2) /* a working folder, a slash, a path and NUL */

struct headers {
    char *cwd;    /* absolute, normal */
    char **roots; /* absolute, normal */
    size_t n_roots;
    char *refused;           /* the first path that was refused; NULL: none */
    struct digests *digests; /* borrowed; NULL: nothing is remembered */
    uint8_t *content;        /* of the file that is being hashed */
    size_t content_cap;
};

/* ---- paths as text ---- */

/* Takes "", "." and ".." out of an absolute path, in place: "/a/./b/../c//d" becomes "/a/c/d". The
 * result is "normal" below. */
static void normalize(char *path)
{
    char *to = path;
    for (char *from = path; *from;) {
        while (*from == '/')
            from++;
        size_t len = strcspn(from, "/");
        if (len == 2 && from[0] == '.' && from[1] == '.') {
            while (to > path && *--to != '/')
                ;
        } else if (len && !(len == 1 && from[0] == '.')) {
            *to++ = '/';
            memmove(to, from, len);
            to += len;
        }
        from += len;
    }
    if (to == path)
        *to++ = '/';
    *to = '\0';
}

/* Makes `path` absolute, not yet normal; a relative one lies in `cwd`. False if it is too long, or
 * holds a NUL. */
static bool make_absolute(const char *cwd, struct view path, char out[PATH_SIZE])
{
    const char *text = path.data;
    bool relative = path.len == 0 || text[0] != '/';
    size_t cwd_len = relative ? strlen(cwd) : 0;
    if (path.len > WIRE_PATH_MAX || cwd_len > WIRE_PATH_MAX ||
        (path.len && memchr(text, '\0', path.len)))
        return false;
    char *at = out;
    if (relative) {
        memcpy(at, cwd, cwd_len);
        at += cwd_len;
        *at++ = '/';
    }
    if (path.len)
        memcpy(at, text, path.len);
    at[path.len] = '\0';
    return true;
}

/* True if `path` lies in `root`. Both are normal. */
static bool is_beneath(const char *path, const char *root)
{
    if (strcmp(root, "/") == 0)
        return strchr(path + 1, '/') == NULL;
    size_t len = strlen(root);
    return strncmp(path, root, len) == 0 && path[len] == '/';
}

/* ---- roots ---- */

static int add_root(struct headers *h, struct view folder, struct err *e)
{
    char path[PATH_SIZE];
    if (!make_absolute(h->cwd, folder, path))
        return 0; /* no folder has such a name */
    normalize(path);
    for (size_t i = 0; i < h->n_roots; i++)
        if (strcmp(h->roots[i], path) == 0)
            return 0;
    char **roots = realloc(h->roots, (h->n_roots + 1) * sizeof *roots);
    if (roots)
        h->roots = roots;
    char *root = roots ? strdup(path) : NULL;
    if (!root)
        return err_set(e, WARM_ENOMEM, "no memory for the include folders");
    h->roots[h->n_roots++] = root;
    return 0;
}

/* Returns the folder of a file's name; empty, which is the working folder, for a name without a
 * slash.
 */
static struct view folder_of(struct view file)
{
    const char *slash = file.len ? memrchr(file.data, '/', file.len) : NULL;
    if (!slash)
        return (struct view){"", 0};
    size_t len = (size_t)(slash - (const char *)file.data);
    return (struct view){file.data, len ? len : 1};
}

static int add_option_roots(struct headers *h, const struct job *job, struct err *e)
{
    struct options options;
    int code = options_parse(OPTIONS_NVRTC, 0, job->options, job->n_options, &options, e);
    if (code)
        return code;
    for (size_t i = 0; !code && i < options.n_include_dirs; i++)
        code = add_root(h, options.include_dirs[i], e);
    for (size_t i = 0; !code && i < options.n_pre_includes; i++)
        code = add_root(h, folder_of(options.pre_includes[i]), e);
    options_close(&options);
    return code;
}

int headers_open(struct headers **out, const struct job *job, struct err *e)
{
    char cwd[PATH_SIZE];
    if (!WARM_EXPECT(out && job))
        return err_set(e, WARM_EINVALID, "no compile job");
    if (job->cwd.len == 0 || *(const char *)job->cwd.data != '/' ||
        !make_absolute("", job->cwd, cwd))
        return err_set(e, WARM_EINVALID, "the job's working folder is not an absolute path");
    normalize(cwd);
    struct headers *h = calloc(1, sizeof *h);
    if (h)
        h->cwd = strdup(cwd);
    int code = h && h->cwd ? add_root(h, (struct view){"", 0}, e)
                           : err_set(e, WARM_ENOMEM, "no memory for the include folders");
    code = code ? code : add_root(h, folder_of(job->name), e);
    code = code ? code : add_option_roots(h, job, e);
    if (code)
        headers_close(h);
    else
        *out = h;
    return code;
}

void headers_remember_in(struct headers *h, struct digests *digests) { h->digests = digests; }

void headers_close(struct headers *h)
{
    if (!h)
        return;
    for (size_t i = 0; i < h->n_roots; i++)
        free(h->roots[i]);
    free(h->roots);
    free(h->cwd);
    free(h->refused);
    free(h->content);
    free(h);
}

/* ---- answers ---- */

static enum wire_path_state refuse(struct headers *h, const char *path)
{
    if (!h->refused)
        h->refused = strdup(path);
    return WIRE_PATH_REFUSED;
}

/* True for system folders: workers read nothing there, whoever offers it. */
static bool is_system_path(const char *normal)
{
    return is_beneath(normal, "/etc") || is_beneath(normal, "/proc") ||
           is_beneath(normal, "/sys") || is_beneath(normal, "/dev");
}

static bool is_offered(const struct headers *h, const char *path)
{
    char copy[PATH_SIZE];
    const char *normal = path;
    if (strstr(path, "/.") || strstr(path, "//")) {
        strcpy(copy, path);
        normalize(copy);
        normal = copy;
    }
    if (is_system_path(normal))
        return false;
    for (size_t i = 0; i < h->n_roots; i++)
        if (is_beneath(normal, h->roots[i]))
            return true;
    return false;
}

/* Opens a path that is offered: as it was asked, not its normal form, because ".." behind a link
 * means the link's target to the compiler. */
static enum wire_path_state open_path(struct headers *h, const char *path, int *out_fd,
                                      struct stat *out_st)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    *out_st = (struct stat){0};
    if (fd < 0)
        return errno == EACCES || errno == EPERM ? refuse(h, path) : WIRE_PATH_ABSENT;
    if (fstat(fd, out_st) == 0 && S_ISREG(out_st->st_mode) &&
        out_st->st_size <= (off_t)JOB_SOURCE_MAX) {
        *out_fd = fd;
        return WIRE_PATH_FILE;
    }
    close(fd);
    return S_ISDIR(out_st->st_mode) ? WIRE_PATH_ABSENT : refuse(h, path);
}

enum wire_path_state headers_find(struct headers *h, struct view path, int *out_fd,
                                  uint64_t *out_len)
{
    char absolute[PATH_SIZE];
    struct stat st;
    *out_fd = -1;
    *out_len = 0;
    if (!make_absolute(h->cwd, path, absolute))
        return WIRE_PATH_ABSENT;
    if (!is_offered(h, absolute))
        return refuse(h, absolute);
    enum wire_path_state state = open_path(h, absolute, out_fd, &st);
    if (state == WIRE_PATH_FILE)
        *out_len = (uint64_t)st.st_size;
    return state;
}

const char *headers_refused(const struct headers *h) { return h->refused; }

static int send_opened(int channel_fd, const struct wire_opened *opened, int fd, struct err *e)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct writer packet;
    writer_init(&packet, WIRE_OPEN_MAX);
    wire_put_opened(&packet, opened);
    struct iovec part = {packet.data, packet.len};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        m.msg_control = control.bytes;
        m.msg_controllen = sizeof control.bytes;
        struct cmsghdr *header = CMSG_FIRSTHDR(&m);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(header), &fd, sizeof fd);
    }
    ssize_t n;
    do
        n = packet.failed ? -1 : sendmsg(channel_fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && !packet.failed && errno == EINTR);
    int error = errno;
    writer_close(&packet);
    return n < 0 ? err_sys(e, WARM_ECLOSED, error, "cannot answer the compiler") : 0;
}

int headers_serve(struct headers *h, int channel_fd, struct err *e)
{
    uint8_t packet[WIRE_OPEN_MAX];
    ssize_t n = recv(channel_fd, packet, sizeof packet, MSG_DONTWAIT | MSG_TRUNC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        return err_set(e, WARM_ECLOSED, "the compiler asks no more");
    if ((size_t)n > sizeof packet)
        return err_set(e, WARM_ETOO_BIG, "the compiler asked with a packet of %zd bytes", n);
    struct wire_open question;
    int code = wire_get_open(packet, (size_t)n, &question, e);
    if (code)
        return code;
    int fd;
    uint64_t len;
    struct wire_opened answer = {question.id, headers_find(h, question.path, &fd, &len)};
    code = send_opened(channel_fd, &answer, fd, e);
    if (fd >= 0)
        close(fd);
    return code;
}

/* Reads a whole file into h->content. False if it cannot be read, or became shorter meanwhile. */
static bool read_content(struct headers *h, int fd, size_t len)
{
    if (len > h->content_cap) {
        uint8_t *content = realloc(h->content, len);
        if (!content)
            return false;
        h->content = content;
        h->content_cap = len;
    }
    return whole_read(fd, h->content, len, 0) == (ssize_t)len;
}

/* Reads and hashes an open file. The digest of a file that changes meanwhile is not remembered. */
static void digest_file(struct headers *h, int fd, const char *path, const struct stat *st,
                        struct wire_path_seen *out)
{
    size_t len = (size_t)st->st_size;
    struct stat after;
    bool shows = stat_shows_mappings(fd, st); /* before the content is read */
    if (!read_content(h, fd, len)) {
        out->state = WIRE_PATH_ABSENT;
        return;
    }
    out->sha256 = proof_of_bytes(h->content, len);
    if (shows && fstat(fd, &after) == 0 && stat_is_same(st, &after))
        digests_keep(h->digests, path, st, &out->sha256);
}

/* Returns the state of a path; one stat is enough for a known or absent file. For a file *out_st is
 * its stat. */
static struct wire_path_seen check_path(struct headers *h, struct view path, struct stat *out_st)
{
    struct wire_path_seen it = {.state = WIRE_PATH_ABSENT};
    char absolute[PATH_SIZE];
    if (!make_absolute(h->cwd, path, absolute))
        return it;
    if (!is_offered(h, absolute)) {
        it.state = refuse(h, absolute);
        return it;
    }
    if (digests_is_absent(h->digests, absolute))
        return it;
    bool is_there = stat(absolute, out_st) == 0;
    if (!is_there && (errno == ENOENT || errno == ENOTDIR)) {
        digests_keep_absent(h->digests, absolute);
        return it;
    }
    if (is_there && digests_recall(h->digests, absolute, out_st, &it.sha256)) {
        it.state = WIRE_PATH_FILE;
        return it;
    }
    int fd = -1;
    it.state = open_path(h, absolute, &fd, out_st);
    if (fd >= 0) {
        digest_file(h, fd, absolute, out_st, &it);
        close(fd);
    }
    return it;
}

int headers_check(struct headers *h, const struct wire_check *check, struct view paths,
                  struct writer *out_states, struct err *e)
{
    if (!WARM_EXPECT(h && check && out_states))
        return err_set(e, WARM_EINVALID, "no list of paths");
    struct reader list = reader_over(paths.data, paths.len);
    struct names seen_files = {0};
    struct inode *ids = check->n <= paths.len ? calloc((size_t)check->n + 1, sizeof *ids) : NULL;
    struct view path;
    struct stat st;
    uint32_t n = 0;
    bool ok = ids;
    digests_begin(h->digests);
    for (; ids && n < check->n && wire_paths_next(&list, &path); n++) {
        struct wire_path_seen seen = check_path(h, path, &st);
        if (seen.state == WIRE_PATH_FILE)
            ok &= inodes_first(&seen_files, &ids[n], &st, n, &seen.same);
        wire_states_add(out_states, &seen, n);
    }
    names_close(&seen_files);
    free(ids);
    if (list.len || n != check->n)
        return err_set(e, WARM_EMALFORMED, "CHECK: the list of paths is damaged");
    return !ok || out_states->failed ? err_set(e, WARM_ENOMEM, "no memory for an answer") : 0;
}
