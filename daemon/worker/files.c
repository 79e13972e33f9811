/* SPDX-License-Identifier: Apache-2.0 */
/*
 * files.c - decides what NVRTC finds at each path: asks the client once, and keeps the answer.
 *
 * First the table of paths and the talk with the client; at the end the C library's functions, which only
 * translate. NVRTC calls those; compile.c begins and ends a compile.
 *
 * Thread: main thread; one compile at a time.
 */
#include "daemon/worker/files.h"

#include <assert.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "client/wire/wire.h"
#include "daemon/worker/message.h"
#include "keygen/canon/names.h"
#include "keygen/cuda/job.h"
#include "keygen/vector.h"

#define ANSWER_TIMEOUT_MS 10000 /* a client that takes longer for one path is stopped or dead */
#define ANSWERS_SKIPPED_MAX 16  /* packets that answer something else */
#define PLACE_MAX (2u * JOB_TEXT_MAX)
#define HIDDEN 3u /* files that every compile looks for (files_hide) */
#define HIDDEN_PROGRAM 0u
#define HIDDEN_BUILTINS 1u
#define HIDDEN_NAMES 2u
#define BYTES_MAX (1u << 30) /* of all files of one compile */

static struct {
    bool active;
    int channel;
    const char *cwd;
    char program[PLACE_MAX]; /* the program's folder and the working folder, without . and .. */
    char folder[PLACE_MAX];
    unsigned n_hides[HIDDEN]; /* how many more looks at each find nothing */
    bool hides, hidden_met;
    VECTOR(struct file *) list; /* in the order of asking */
    struct names by_path;       /* their numbers */
    bool failed;                /* the list had no memory */
    size_t bytes;
    uint32_t last_id;
    bool refused;
    struct err failure;
} files;

static void fail(int code, const char *text)
{
    if (!files.failure.code)
        err_set(&files.failure, code, "%s", text);
}

/* ---- asking the client ---- */

/* True for folders without headers, whose files a log must not show. A client refuses paths outside
 * of its include folders; this holds even for a client that does not. */
static bool is_system_path(const char *path)
{
    if (strstr(path, "/../"))
        return false; /* the client resolves it and decides */
    while (path[0] == '/' && path[1] == '/')
        path++;
    return text_begins_with_one(path, ONE_OF("/etc/", "/proc/", "/sys/", "/dev/"));
}

/* Waits for the packet that answers `id`. Gives its descriptor, -1 if it has none. */
static int receive_answer(uint32_t id, struct wire_opened *out, int *out_fd)
{
    for (int i = 0; i < ANSWERS_SKIPPED_MAX; i++) {
        struct pollfd ready = {.fd = files.channel, .events = POLLIN};
        int rc;
        do
            rc = poll(&ready, 1, ANSWER_TIMEOUT_MS);
        while (rc < 0 && errno == EINTR);
        if (rc == 0)
            return WARM_ETIMEOUT;
        char packet[64];
        ssize_t n = packet_receive(files.channel, packet, sizeof packet, out_fd, 1);
        if (n <= 0)
            return n < 0 && errno == EMSGSIZE ? WARM_EMALFORMED : WARM_ECLOSED;
        if (wire_get_opened(packet, (size_t)n, out, NULL) == 0 && out->id == id)
            return 0;
        if (*out_fd >= 0)
            close(*out_fd);
    }
    return WARM_EMALFORMED;
}

static int ask_client(const char *path, enum wire_path_state *out_state, int *out_fd)
{
    assert(files.active && files.channel >= 0);
    struct wire_open question = {.id = ++files.last_id, .path = {path, strlen(path)}};
    struct writer w;
    writer_init(&w, WIRE_OPEN_MAX);
    wire_put_open(&w, &question);
    int code = w.failed                                             ? WARM_ENOMEM
               : packet_send(files.channel, w.data, w.len, NULL, 0) ? WARM_ECLOSED
                                                                    : 0;
    writer_close(&w);
    struct wire_opened answer;
    if (!code)
        code = receive_answer(question.id, &answer, out_fd);
    if (!code)
        *out_state = answer.state;
    return code;
}

/* Reads a whole regular file into own memory. A file may shrink or grow meanwhile: the bytes that
 * were read count. Errors: REFUSED (not a regular file, or too large), NOMEM, IO. */
static int read_whole(int fd, struct file *out)
{
    if (fstat(fd, &out->st))
        return WARM_EIO;
    if (!S_ISREG(out->st.st_mode) || out->st.st_size > JOB_SOURCE_MAX ||
        (size_t)out->st.st_size > BYTES_MAX - files.bytes)
        return WARM_EREFUSED;
    size_t cap = (size_t)out->st.st_size, len = 0;
    char *data = malloc(cap + 1); /* a byte more, to see the end without growing again */
    ssize_t n = -1;
    while (data && len < cap + 1 && (n = pread(fd, data + len, cap + 1 - len, (off_t)len)) > 0)
        len += (size_t)n;
    if (!data || n < 0 || len > cap) {
        free(data);
        return !data ? WARM_ENOMEM : n < 0 ? WARM_EIO : WARM_EREFUSED;
    }
    out->st.st_size = (off_t)len;
    out->bytes = (struct view){data, len};
    files.bytes += len;
    return 0;
}

/* Asks for file->path, and fills in the answer. */
static void learn(struct file *file)
{
    file->absent = true;
    if (strlen(file->path) >= JOB_TEXT_MAX || files.list.n > WORKER_PATHS_MAX) {
        files.refused = true;
        return;
    }
    if (files.channel < 0 || files.failure.code)
        return;
    enum wire_path_state state;
    int fd = -1;
    int code = ask_client(file->path, &state, &fd);
    if (code) {
        fail(code, code == WARM_ETIMEOUT  ? "the client does not answer about a header"
                   : code == WARM_ECLOSED ? "the client has gone"
                                          : "the client's answer about a header is not valid");
        return;
    }
    if (is_system_path(
            file->path)) /* the client is asked all the same, and so knows which path was kept back */
        state = WIRE_PATH_REFUSED;
    if (state == WIRE_PATH_FILE)
        code = fd < 0 ? WARM_EREFUSED : read_whole(fd, file);
    if (fd >= 0)
        close(fd);
    if (code == WARM_ENOMEM)
        fail(code, "out of memory for a header");
    files.refused |= state == WIRE_PATH_REFUSED || code != 0;
    if (state != WIRE_PATH_FILE || code)
        return;
    file->absent = false;
    file->sha256 = proof_of_bytes(file->bytes.data, file->bytes.len);
}

/* Returns the file at a path, which is asked for once; NULL if memory ran out. */
static const struct file *files_ask(const char *path)
{
    uint32_t *number = names_find(&files.by_path, path, strlen(path));
    if (number)
        return files.list.at[*number];
    struct file *file = calloc(1, sizeof *file);
    if (file && (file->path = strdup(path))) {
        learn(file);
        PUSH(&files, files.list, file);
        number = files.failed ? NULL : names_add(&files.by_path, file->path, strlen(path), NULL);
    }
    if (!number) {
        fail(WARM_ENOMEM, "out of memory for a path");
        return NULL; /* the worker ends soon */
    }
    *number = files.list.n - 1;
    return file;
}

size_t files_count(void) { return files.list.n; }
const struct file *files_at(size_t i) { return files.list.at[i]; }
bool files_refused(void) { return files.refused; }

int files_status(struct err *e)
{
    if (files.failure.code)
        *e = files.failure;
    return files.failure.code;
}

/* ---- own files ---- */

static bool is_ours(const char *path)
{
    return strncmp(path, WORKER_TMP "/", sizeof WORKER_TMP) == 0;
}

/* Makes a new file in memory: the compiler writes a temporary file once, and never opens it
 * again. */
static int scratch_open(bool write)
{
    if (write)
        return memfd_create("warm-scratch", MFD_CLOEXEC);
    errno = ENOENT;
    return -1;
}

/* ---- a compile's begin and end ---- */

/* Resolves a path from the working folder, by its text alone: "" for the root, else "/a/b". */
static void resolve(char out[static PLACE_MAX], const char *path)
{
    char whole[PLACE_MAX];
    size_t len = 0;
    snprintf(whole, sizeof whole - 1, "%s/%s", *path == '/' ? "" : files.cwd, path);
    for (char *save, *part = strtok_r(whole, "/", &save); part; part = strtok_r(NULL, "/", &save)) {
        size_t n = strlen(part);
        if (strcmp(part, "..") == 0)
            while (len && out[--len] != '/')
                ;
        if (strcmp(part, "..") == 0 || strcmp(part, ".") == 0)
            continue;
        out[len++] = '/';
        memcpy(out + len, part, n);
        len += n;
    }
    out[len] = '\0';
}

void files_begin(int channel, const char *cwd, const char *name)
{
    assert(!files.active);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    files.last_id = (uint32_t)now.tv_nsec; /* an answer to a worker that died has another id */
    files.channel = channel;
    files.cwd = *cwd ? cwd : "/";
    resolve(files.folder, ".");
    resolve(files.program, name);
    files.active = true;
}

void files_end(void)
{
    for (size_t i = 0; i < files.list.n; i++) {
        struct file *file = files.list.at[i];
        free((void *)(uintptr_t)file->bytes.data);
        free(file->path);
        free(file);
    }
    free(files.list.at);
    names_close(&files.by_path);
    memset(&files, 0, sizeof files);
}

/* ---- functions that NVRTC calls ---- */

static int no_entry(void)
{
    errno = ENOENT;
    return -1;
}

/* True for folders that stat reports as present: see files_begin. */
static bool is_known_folder(const char *path)
{
    char place[PLACE_MAX];
    resolve(place, path);
    size_t n = strlen(place);
    bool above_folder =
        strncmp(place, files.folder, n) == 0 && (files.folder[n] == '/' || files.folder[n] == '\0');
    bool above_program = strncmp(place, files.program, n) == 0 && files.program[n] == '/';
    return above_folder || above_program;
}

/* Returns which of the three a path is, HIDDEN for none. */
static unsigned hidden_of(const char *path)
{
    static const char *const names[] = {"/__nv_nvrtc_builtin_header.h", "/__nv_name_map"};
    char place[PLACE_MAX];
    resolve(place, path);
    if (strcmp(place, files.program) == 0)
        return HIDDEN_PROGRAM;
    size_t n = strlen(files.folder);
    for (unsigned i = HIDDEN_BUILTINS; i < HIDDEN && strncmp(place, files.folder, n) == 0; i++)
        if (strcmp(place + n, names[i - HIDDEN_BUILTINS]) == 0)
            return i;
    return HIDDEN;
}

/* True if this look must find nothing. */
static bool is_hidden(const char *path, bool by_stat)
{
    unsigned i = files.hides ? hidden_of(path) : HIDDEN;
    if (i == HIDDEN)
        return false;
    files.hidden_met |= !by_stat || !files.n_hides[i];
    if (files.hidden_met)
        return false;
    files.n_hides[i]--;
    if (i == HIDDEN_NAMES) /* all includes are read: the program may be looked for again */
        files.n_hides[HIDDEN_PROGRAM]++;
    return true;
}

void files_hide(bool hide)
{
    files.hides = hide;
    files.hidden_met = false;
    for (unsigned i = 0; i < HIDDEN; i++)
        files.n_hides[i] = 1;
}

bool files_hidden_met(void) { return files.hidden_met; }

static int answer_stat(const char *path, struct stat *st)
{
    if (!files.active)
        return fstatat(AT_FDCWD, path, st, 0);
    if (!*path || is_ours(path))
        return no_entry();
    if (is_known_folder(path)) {
        const char *real = strcmp(path, ".") == 0 ? files.cwd : path;
        struct key key = key_of_bytes(real, strlen(real));
        uint64_t number;
        memcpy(&number, key.bytes, sizeof number);
        *st = (struct stat){.st_mode = S_IFDIR | 0755,
                            .st_nlink = 2,
                            .st_dev = 1,
                            .st_ino = number,
                            .st_size = 4096};
        return 0;
    }
    if (is_hidden(path, true))
        return no_entry();
    const struct file *file = files_ask(path);
    if (!file || file->absent)
        return no_entry();
    *st = file->st;
    return 0;
}

/* Makes a descriptor of a header's bytes. */
static int open_bytes(struct view bytes)
{
    int fd = memfd_create("warm-header", MFD_CLOEXEC);
    if (fd < 0)
        return -1;
    for (size_t done = 0; done < bytes.len;) {
        ssize_t n = pwrite(fd, (const char *)bytes.data + done, bytes.len - done, (off_t)done);
        if (n <= 0) {
            close(fd);
            return no_entry();
        }
        done += (size_t)n;
    }
    return fd;
}

static int answer_open(const char *path, int flags, mode_t mode)
{
    if (!files.active)
        return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    if (is_ours(path))
        return scratch_open((flags & O_ACCMODE) != O_RDONLY);
    if ((flags & O_ACCMODE) != O_RDONLY) {
        errno = EACCES;
        return -1;
    }
    is_hidden(path, false);
    const struct file *file = *path ? files_ask(path) : NULL;
    return !file || file->absent ? no_entry() : open_bytes(file->bytes);
}

static FILE *answer_fopen(const char *path, const char *mode)
{
    bool write = strpbrk(mode, "wa+") != NULL;
    if (!files.active) {
        static FILE *(*real)(const char *, const char *);
        if (!real) {
            void *found = dlsym(RTLD_NEXT, "fopen");
            memcpy(&real, &found, sizeof real);
        }
        return real ? real(path, mode) : NULL;
    }
    if (is_ours(path)) {
        int fd = scratch_open(write);
        return fd < 0 ? NULL : fdopen(fd, mode);
    }
    if (write) {
        errno = EACCES;
        return NULL;
    }
    is_hidden(path, false);
    const struct file *file = *path ? files_ask(path) : NULL;
    if (!file || file->absent) {
        errno = ENOENT;
        return NULL;
    }
    union {
        const void *read_only;
        void *plain;
    } data = {file->bytes.data}; /* mode "r" does not write */
    return fmemopen(data.plain, file->bytes.len, "r");
}

#define ANSWER_OPEN(name)                                                                          \
    int name(const char *path, int flags, ...)                                                     \
    {                                                                                              \
        va_list args;                                                                              \
        va_start(args, flags);                                                                     \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;                    \
        va_end(args);                                                                              \
        return answer_open(path, flags, mode);                                                     \
    }
ANSWER_OPEN(open)
ANSWER_OPEN(open64)

FILE *fopen(const char *path, const char *mode) { return answer_fopen(path, mode); }
FILE *fopen64(const char *path, const char *mode) { return answer_fopen(path, mode); }

/* On 64-bit Linux the structures of stat and stat64 are one and the same. */
_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "stat64 is stat");

int stat(const char *path, struct stat *st) { return answer_stat(path, st); }
int lstat(const char *path, struct stat *st) { return answer_stat(path, st); }
int stat64(const char *path, struct stat64 *st) { return answer_stat(path, (struct stat *)st); }
int lstat64(const char *path, struct stat64 *st) { return answer_stat(path, (struct stat *)st); }

/* Replaces the C library's own, whose system call can also ask about paths: the worker's filter
 * denies that. */
int fstat(int fd, struct stat *st) { return (int)syscall(SYS_fstat, fd, st); }
int fstat64(int fd, struct stat64 *st) { return fstat(fd, (struct stat *)st); }

/* Serve programs that were built against a C library before 2.33; later ones declare none of
 * these. */
#define ANSWER_OLD_STAT(name)                                                                      \
    int name(int version, const char *path, struct stat *st);                                      \
    int name(int version, const char *path, struct stat *st)                                       \
    {                                                                                              \
        (void)version;                                                                             \
        return answer_stat(path, st);                                                              \
    }
ANSWER_OLD_STAT(__xstat)
ANSWER_OLD_STAT(__lxstat)
ANSWER_OLD_STAT(__xstat64)
ANSWER_OLD_STAT(__lxstat64)

int __fxstat(int version, int fd, struct stat *st);
int __fxstat(int version, int fd, struct stat *st)
{
    (void)version;
    return fstat(fd, st);
}
int __fxstat64(int version, int fd, struct stat64 *st);
int __fxstat64(int version, int fd, struct stat64 *st)
{
    (void)version;
    return fstat(fd, (struct stat *)st);
}

int access(const char *path, int mode)
{
    if (!files.active)
        return faccessat(AT_FDCWD, path, mode, 0);
    struct stat st;
    if (answer_stat(path, &st))
        return -1;
    if ((mode & W_OK) || ((mode & X_OK) && S_ISREG(st.st_mode))) {
        errno = EACCES;
        return -1;
    }
    return 0;
}

char *getcwd(char *out, size_t cap)
{
    char real[PATH_MAX];
    const char *cwd = files.cwd;
    if (!files.active)
        cwd = syscall(SYS_getcwd, real, sizeof real) > 0 ? real : "/";
    if (!out)
        return strdup(cwd);
    if (strlen(cwd) >= cap) {
        errno = ERANGE;
        return NULL;
    }
    return strcpy(out, cwd);
}

int mkstemp(char *path)
{
    if (!files.active || !is_ours(path)) {
        errno = EACCES;
        return -1;
    }
    return scratch_open(true);
}

int unlink(const char *path)
{
    if (!files.active)
        return unlinkat(AT_FDCWD, path, 0);
    if (is_ours(path))
        return 0; /* it has no name */
    errno = EACCES;
    return -1;
}

DIR *opendir(const char *path)
{
    (void)path;
    errno = EACCES;
    return NULL;
}

ssize_t readlink(const char *path, char *out, size_t cap)
{
    (void)path, (void)out, (void)cap;
    errno = EINVAL; /* not a link */
    return -1;
}
