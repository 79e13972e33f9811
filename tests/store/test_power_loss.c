/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_power_loss.c - the store after a power failure, at every moment of a recorded run.
 *
 *     a run of the store ──record──▶ log of writes, syncs, names and acknowledgements
 *     a place in the log ──replay──▶ a folder as a disk may have it ──▶ a child opens and reads it
 *
 * This program replaces the C library's calls that write. So its log has all that the store and LMDB asked the
 * kernel for, in order. A state is made from the log up to a place:
 *
 *   - what was written before a sync of its file is there;
 *   - of all later writes to it any part may be: none, all, random pages, or random sectors of 512
 *     bytes; the rest is what was there before, and in a new file zeros or noise;
 *   - of the names (create, rename, unlink) a prefix is there, as a journal has it: at least up to the
 *     last sync of any file, or in every other state from any place on, for file systems that promise
 *     less;
 *   - in some states the kernel has written what is older than some hundred operations.
 *
 * What PROTOCOL.md promises: no wrong bytes; of what was acknowledged the last commit may be undone,
 * and values above 64 KiB may be missing; nothing else is lost. One operation is asked for at a time. The
 * control replays such a log as if no sync had been called.
 *
 * WARM_POWER_STATES says how many states in all; a sample if it is not set.
 */
#include <pthread.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "tests/support/page_size.h"
#include "tests/support/store_kit.h"

#ifdef __SANITIZE_ADDRESS__
Test(power_loss, stands_in_for_calls) { cr_skip_test("the sanitizer has these calls for itself"); }
#else

#define HERE STORE_MADE_HERE
#define ENTRIES 48u
#define OPERATIONS 400u
#define STATES 240u
#define PAGE page_bytes()
#define SECTOR 512u
#define FILES_MAX 4096u
#define OPS_MAX 65536u
#define PATH_LEN 200u

/* ---- the log ---- */

enum op_type {
    OP_WRITE,
    OP_SYNC,   /* of one file */
    OP_CREATE, /* path: the file's name */
    OP_RENAME, /* path to path2 */
    OP_UNLINK,
    OP_ACK,  /* of operation `ordinal` */
    OP_QUIET /* the store had more than a second of rest */
};

struct op {
    enum op_type type;
    unsigned file, ordinal;
    off_t at;
    size_t len;
    uint8_t *data;
    char path[PATH_LEN], path2[PATH_LEN];
};

/* What entry `n` was asked to be in operation `ordinal`: a version; odd: removed. */
struct asked {
    uint64_t n, version;
};

static struct {
    pthread_mutex_t lock;
    bool on;
    pid_t pid;
    char dir[PATH_LEN];
    size_t dir_len;
    struct op *ops;
    size_t n_ops, n_base;    /* the first n_base are of what was there before */
    char (*names)[PATH_LEN]; /* of the files as they are now; "": gone */
    unsigned n_files;
    struct asked asked[OPERATIONS + 1]; /* from 1 */
    bool overflow;
} rec = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool recording(void) { return rec.on && rec.pid == getpid(); }

static struct op *op_add(enum op_type type)
{
    static struct op spare;
    if (rec.n_ops == OPS_MAX || rec.n_files >= FILES_MAX - 1) {
        rec.overflow = true;
        return &spare;
    }
    struct op *op = &rec.ops[rec.n_ops++];
    *op = (struct op){.type = type};
    return op;
}

/* The path below the store's folder; false for what lies elsewhere, and for locks, which a start makes
 * anew. */
static bool name_of(const char *path, char out[PATH_LEN])
{
    if (strncmp(path, rec.dir, rec.dir_len) != 0 || path[rec.dir_len] != '/')
        return false;
    path += rec.dir_len + 1;
    if (strstr(path, " (deleted)") || strcmp(path, "lock") == 0 || strstr(path, "lock.mdb") ||
        strlen(path) >= PATH_LEN)
        return false;
    strcpy(out, path);
    return true;
}

static bool name_of_fd(int fd, char out[PATH_LEN])
{
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    return name_of(path, out);
}

static bool name_at(int dirfd, const char *path, char out[PATH_LEN])
{
    char link[64], whole[4096];
    if (*path == '/')
        return name_of(path, out);
    snprintf(link, sizeof link, "/proc/self/fd/%d", dirfd);
    ssize_t n =
        dirfd == AT_FDCWD ? readlink("/proc/self/cwd", whole, 2000) : readlink(link, whole, 2000);
    if (n <= 0)
        return false;
    snprintf(whole + n, sizeof whole - (size_t)n, "/%s", path);
    return name_of(whole, out);
}

/* FILES_MAX: none. */
static unsigned file_of(const char *name)
{
    for (unsigned i = 0; i < rec.n_files; i++)
        if (strcmp(rec.names[i], name) == 0)
            return i;
    return FILES_MAX;
}

static unsigned file_add(const char *name)
{
    strcpy(rec.names[rec.n_files], name);
    return rec.n_files++;
}

/* ---- the calls ---- */

static void note_write(int fd, const struct iovec *parts, int n_parts, ssize_t len, off_t at)
{
    char name[PATH_LEN];
    unsigned file = len > 0 && name_of_fd(fd, name) ? file_of(name) : FILES_MAX;
    if (file == FILES_MAX)
        return;
    struct op *op = op_add(OP_WRITE);
    op->file = file;
    op->at = at;
    op->len = (size_t)len;
    op->data = malloc(op->len);
    for (size_t done = 0, i = 0; (int)i < n_parts && done < op->len; i++) {
        size_t n = parts[i].iov_len < op->len - done ? parts[i].iov_len : op->len - done;
        memcpy(op->data + done, parts[i].iov_base, n);
        done += n;
    }
    if (fcntl(fd, F_GETFL) & O_DSYNC) {
        op = op_add(OP_SYNC);
        op->file = file;
    }
}

/* Where a write without an offset goes. */
static off_t position(int fd)
{
    struct stat st;
    return fcntl(fd, F_GETFL) & O_APPEND && fstat(fd, &st) == 0 ? st.st_size
                                                                : lseek(fd, 0, SEEK_CUR);
}

ssize_t writev(int fd, const struct iovec *parts, int n_parts)
{
    if (!recording())
        return syscall(SYS_writev, fd, parts, n_parts);
    pthread_mutex_lock(&rec.lock);
    off_t at = position(fd);
    ssize_t n = syscall(SYS_writev, fd, parts, n_parts);
    int error = errno;
    note_write(fd, parts, n_parts, n, at);
    pthread_mutex_unlock(&rec.lock);
    errno = error;
    return n;
}

ssize_t write(int fd, const void *data, size_t len)
{
    struct iovec part = {(void *)(uintptr_t)data, len};
    return writev(fd, &part, 1);
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t at)
{
    if (!recording())
        return syscall(SYS_pwrite64, fd, data, len, at);
    pthread_mutex_lock(&rec.lock);
    ssize_t n = syscall(SYS_pwrite64, fd, data, len, at);
    int error = errno;
    struct iovec part = {(void *)(uintptr_t)data, len};
    note_write(fd, &part, 1, n, at);
    pthread_mutex_unlock(&rec.lock);
    errno = error;
    return n;
}

static int note_sync(int fd, long call)
{
    char name[PATH_LEN];
    if (!recording())
        return (int)syscall(call, fd);
    pthread_mutex_lock(&rec.lock);
    unsigned file = name_of_fd(fd, name) ? file_of(name) : FILES_MAX;
    if (file != FILES_MAX)
        op_add(OP_SYNC)->file = file;
    pthread_mutex_unlock(&rec.lock);
    return 0; /* the disk of this machine need not do it */
}

int fsync(int fd) { return note_sync(fd, SYS_fsync); }
int fdatasync(int fd) { return note_sync(fd, SYS_fdatasync); }

static int note_open(int dirfd, const char *path, int flags, mode_t mode)
{
    char name[PATH_LEN];
    if (!recording() || !(flags & O_CREAT))
        return (int)syscall(SYS_openat, dirfd, path, flags, mode);
    pthread_mutex_lock(&rec.lock);
    int fd = (int)syscall(SYS_openat, dirfd, path, flags, mode), error = errno;
    if (fd >= 0 && name_at(dirfd, path, name) && file_of(name) == FILES_MAX) {
        struct op *op = op_add(OP_CREATE);
        op->file = file_add(name);
        strcpy(op->path, name);
    }
    pthread_mutex_unlock(&rec.lock);
    errno = error;
    return fd;
}

static mode_t mode_of(int flags, va_list args)
{
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
}

int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_of(flags, args);
    va_end(args);
    return note_open(AT_FDCWD, path, flags, mode);
}

int openat(int dirfd, const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_of(flags, args);
    va_end(args);
    return note_open(dirfd, path, flags, mode);
}

int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    char name[PATH_LEN], name2[PATH_LEN];
    if (!recording())
        return (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, 0);
    pthread_mutex_lock(&rec.lock);
    int rc = (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, 0), error = errno;
    unsigned file = FILES_MAX;
    if (rc == 0 && name_at(from_fd, from, name) && name_at(to_fd, to, name2))
        file = file_of(name);
    if (file != FILES_MAX) {
        unsigned replaced = file_of(name2);
        if (replaced != FILES_MAX)
            rec.names[replaced][0] = '\0';
        strcpy(rec.names[file], name2);
        struct op *op = op_add(OP_RENAME);
        op->file = file;
        strcpy(op->path, name);
        strcpy(op->path2, name2);
    }
    pthread_mutex_unlock(&rec.lock);
    errno = error;
    return rc;
}

int unlinkat(int dirfd, const char *path, int flags)
{
    char name[PATH_LEN];
    if (!recording())
        return (int)syscall(SYS_unlinkat, dirfd, path, flags);
    pthread_mutex_lock(&rec.lock);
    int rc = (int)syscall(SYS_unlinkat, dirfd, path, flags), error = errno;
    unsigned file = rc == 0 && name_at(dirfd, path, name) ? file_of(name) : FILES_MAX;
    if (file != FILES_MAX) {
        rec.names[file][0] = '\0';
        struct op *op = op_add(OP_UNLINK);
        op->file = file;
        strcpy(op->path, name);
    }
    pthread_mutex_unlock(&rec.lock);
    errno = error;
    return rc;
}

/* ---- the run that is recorded ---- */

static uint64_t random_next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* Every sixth version is a file. */
static size_t len_of(uint64_t n, uint64_t version)
{
    uint64_t x = n * 31 + version * 0x9e3779b97f4a7c15u;
    x ^= x >> 29;
    return x % 6 == 0 ? 65537 + x % 60000 : x % 6 == 1 ? x % 30000 : x % 3000;
}

static bool is_removed(uint64_t version) { return version == 0 || version % 2 == 1; }

static struct store_kit k;

/* Makes all durable that exists before the recording begins. */
static void take_base(const char *at, const char *name)
{
    char path[2 * PATH_LEN + 2], below[PATH_LEN];
    snprintf(path, sizeof path, "%s%s%s", at, *name ? "/" : "", name);
    DIR *folder = opendir(path);
    for (struct dirent *d; folder && (d = readdir(folder));) {
        struct stat st;
        char whole[4 * PATH_LEN];
        if (d->d_name[0] == '.')
            continue;
        snprintf(whole, sizeof whole, "%s/%s", path, d->d_name);
        cr_assert_eq(lstat(whole, &st), 0);
        if (S_ISDIR(st.st_mode)) {
            snprintf(below, sizeof below, "%s%s%.100s", name, *name ? "/" : "", d->d_name);
            take_base(at, below);
        } else if (name_of(whole, below)) {
            struct op *op = op_add(OP_CREATE);
            op->file = file_add(below);
            strcpy(op->path, below);
            unsigned file = op->file;
            op = op_add(OP_WRITE);
            op->file = file;
            op->data = (uint8_t *)file_read(whole, &op->len);
            op_add(OP_SYNC)->file = file;
        }
    }
    if (folder)
        closedir(folder);
}

static void record_begin(void)
{
    rec.ops = calloc(OPS_MAX, sizeof *rec.ops);
    rec.names = calloc(FILES_MAX, PATH_LEN);
    char *real = realpath(k.dir, NULL);
    snprintf(rec.dir, sizeof rec.dir, "%s", real);
    free(real);
    rec.dir_len = strlen(rec.dir);
    take_base(rec.dir, "");
    rec.n_base = rec.n_ops;
    rec.pid = getpid();
    rec.on = true;
}

/* Puts, replacements and removals, one at a time, with restarts and one rest. */
static void run(uint64_t seed)
{
    uint64_t state = seed;
    for (unsigned i = 1; i <= OPERATIONS; i++) {
        uint64_t n = random_next(&state) % ENTRIES, version = 2 * i;
        bool removal = random_next(&state) % 6 == 0;
        rec.asked[i] = (struct asked){n, removal ? version + 1 : version};
        int rc = removal ? kit_remove(&k, HERE, n)
                         : kit_put_version(&k, HERE, n, version, len_of(n, version));
        cr_assert(rc == 0, "operation %u: %d", i, rc);
        pthread_mutex_lock(&rec.lock);
        op_add(OP_ACK)->ordinal = i;
        pthread_mutex_unlock(&rec.lock);
        kit_get_version(&k, HERE, n, version); /* a hit is for eviction to know */
        if (i % 97 == 0)
            kit_reopen(&k);
        if (i == OPERATIONS / 2) {
            for (int ms = 0; ms < 1500; ms += 10) {
                usleep(10000);
                store_poll(k.store);
            }
            op_add(OP_QUIET)->ordinal = i;
        }
    }
    rec.on = false;
    cr_assert_not(rec.overflow);
}

/* ---- a state ---- */

struct image { /* of one file, while a log is replayed */
    uint8_t *durable;
    size_t durable_len, cap;
    size_t *writes, n_writes, cap_writes; /* in the log, those that are not in `durable` yet */
};

struct replay {
    struct image images[FILES_MAX];
    size_t at; /* ops[0..at) were gone through */
    size_t last_sync;
    bool without_sync;
};

struct choice {
    enum { NONE, ALL, PAGES, SECTORS } kept;
    unsigned percent;
    bool noise;       /* what was never written is noise, else zeros */
    size_t names_end; /* ops[0..names_end) have their names on the disk */
    size_t old_end;   /* writes before that are on the disk */
};

static void image_put(struct image *m, size_t at, const void *data, size_t len)
{
    if (at + len > m->cap) {
        m->cap = (at + len) * 2;
        m->durable = realloc(m->durable, m->cap);
    }
    if (at > m->durable_len)
        memset(m->durable + m->durable_len, 0, at - m->durable_len);
    memcpy(m->durable + at, data, len);
    if (at + len > m->durable_len)
        m->durable_len = at + len;
}

/* Goes on in the log: synced writes become durable. */
static void replay_to(struct replay *r, size_t end)
{
    for (; r->at < end; r->at++) {
        const struct op *op = &rec.ops[r->at];
        struct image *m = &r->images[op->file];
        if (op->type == OP_WRITE) {
            if (m->n_writes == m->cap_writes)
                m->writes = realloc(m->writes,
                                    (m->cap_writes = m->cap_writes * 2 + 16) * sizeof *m->writes);
            m->writes[m->n_writes++] = r->at;
        }
        if (op->type != OP_SYNC || (r->without_sync && r->at >= rec.n_base))
            continue;
        for (size_t i = 0; i < m->n_writes; i++) {
            const struct op *w = &rec.ops[m->writes[i]];
            image_put(m, (size_t)w->at, w->data, w->len);
        }
        m->n_writes = 0;
        r->last_sync = r->at;
    }
}

static void replay_free(struct replay *r)
{
    for (unsigned i = 0; i < FILES_MAX; i++) {
        free(r->images[i].durable);
        free(r->images[i].writes);
    }
    free(r);
}

/* Applies the part of a write that has reached the disk. */
static void apply(struct image *m, const struct op *w, const struct choice *c, bool is_old,
                  uint64_t *state)
{
    size_t piece = c->kept == SECTORS ? SECTOR : PAGE;
    for (size_t at = 0; at < w->len;) {
        size_t place = (size_t)w->at + at;
        size_t n = piece - place % piece < w->len - at ? piece - place % piece : w->len - at;
        bool kept =
            is_old || c->kept == ALL || (c->kept != NONE && random_next(state) % 100 < c->percent);
        if (kept)
            image_put(m, place, w->data + at, n);
        at += n;
    }
}

/* The bytes of a file in a state; free() them. */
static uint8_t *file_in_state(struct replay *r, unsigned file, const struct choice *c,
                              uint64_t *state, size_t *out_len)
{
    const struct image *m = &r->images[file];
    struct image copy = {0};
    size_t whole = m->durable_len;
    for (size_t i = 0; i < m->n_writes; i++) {
        const struct op *w = &rec.ops[m->writes[i]];
        if ((size_t)w->at + w->len > whole)
            whole = (size_t)w->at + w->len;
    }
    uint8_t *fill = malloc(whole ? whole : 1);
    for (size_t i = 0; i < whole; i++)
        fill[i] = c->noise ? (uint8_t)(i * 131 + 7) : 0;
    image_put(&copy, 0, fill, random_next(state) % 2 ? whole : m->durable_len);
    free(fill);
    if (m->durable_len)
        memcpy(copy.durable, m->durable, m->durable_len);
    for (size_t i = 0; i < m->n_writes; i++)
        apply(&copy, &rec.ops[m->writes[i]], c, m->writes[i] < c->old_end, state);
    *out_len = copy.durable_len;
    return copy.durable ? copy.durable : calloc(1, 1);
}

static void make_folders(char *path)
{
    for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
}

/* Writes the folder of a state. */
static void make_state(struct replay *r, const struct choice *c, uint64_t *state, const char *dir)
{
    static char names[FILES_MAX][PATH_LEN];
    memset(names, 0, sizeof names);
    for (size_t i = 0; i < c->names_end; i++) {
        const struct op *op = &rec.ops[i];
        if (op->type == OP_CREATE)
            strcpy(names[op->file], op->path);
        else if (op->type == OP_UNLINK)
            names[op->file][0] = '\0';
        else if (op->type == OP_RENAME)
            strcpy(names[op->file], op->path2);
    }
    for (unsigned i = 0; i < rec.n_files; i++) {
        char path[2 * PATH_LEN];
        size_t len;
        if (!names[i][0])
            continue;
        snprintf(path, sizeof path, "%s/%.199s", dir, names[i]);
        make_folders(path);
        uint8_t *data = file_in_state(r, i, c, state, &len);
        unlink(path);
        file_write(path, data, len);
        if (strncmp(names[i], "blobs/", 6) == 0)
            chmod(path, 0400);
        free(data);
    }
}

/* ---- the state that is found ---- */

struct found {
    unsigned wrong;       /* bytes that the entry never had */
    unsigned lost;        /* small, and more than the last commit */
    unsigned stale;       /* a version from before the last commit */
    unsigned undone;      /* the last commit is not there: allowed */
    unsigned large_lost;  /* allowed */
    unsigned rebuilt;     /* the index was damaged */
    unsigned cannot_open; /* or not be written afterwards */
};

/* The newest version of an entry after the first `ordinal` operations. */
static uint64_t version_after(uint64_t n, unsigned ordinal)
{
    for (unsigned i = ordinal; i > 0; i--)
        if (rec.asked[i].n == n)
            return rec.asked[i].version;
    return 0;
}

static void judge_entry(struct store_kit *c, uint64_t n, unsigned acked, unsigned durable,
                        bool evicts, struct found *f)
{
    uint64_t may_be[OPERATIONS + 2];
    size_t n_may_be = 0;
    bool may_miss = evicts, may_miss_large = false, hit = false;
    for (unsigned i = durable; i <= acked + 1 && i <= OPERATIONS; i++) {
        uint64_t version = version_after(n, i);
        may_be[n_may_be++] = version;
        may_miss |= is_removed(version);
        may_miss_large |= !is_removed(version) && len_of(n, version) > STORE_INLINE_MAX;
    }
    struct store_value v;
    struct store_id id = kit_id(HERE, n);
    int rc = store_get(c->store, &id, &v, NULL);
    uint64_t is = 0;
    for (unsigned i = 1; rc == 0 && i <= OPERATIONS; i++) {
        uint64_t version = rec.asked[i].version;
        if (rec.asked[i].n == n && !is_removed(version) && v.row.len == len_of(n, version) &&
            kit_is_value(&v, n, version))
            is = version;
    }
    for (size_t i = 0; i < n_may_be; i++)
        hit |= rc == 0 && is && is == may_be[i];
    if (rc == 0 && !is)
        f->wrong++;
    else if (rc == 0 && !hit)
        f->stale++;
    else if (rc != 0 && !may_miss && !may_miss_large)
        f->lost++;
    else if (rc != 0 && !may_miss)
        f->large_lost++;
    else if (is != version_after(n, acked) && is != version_after(n, acked + 1) && rc == 0)
        f->undone++;
    store_turn_end(c->store);
}

/* In a child: a damaged state may end it. */
static void judge_state(const char *dir, unsigned acked, unsigned durable, bool evicts,
                        struct found *f)
{
    struct store_kit c;
    char copy[PATH_LEN];
    snprintf(copy, sizeof copy, "%s", dir);
    kit_begin_in(&c, evicts ? KIT_MIB : 256 * KIT_MIB, copy);
    f->cannot_open = 1;
    if (kit_try_open(&c) != 0)
        _exit(0);
    f->rebuilt = kit_stats(&c).rebuilt;
    for (uint64_t n = 0; n < ENTRIES; n++)
        judge_entry(&c, n, acked, durable, evicts, f);
    for (uint64_t n = 1000; n < 1003; n++)
        if (kit_put_version(&c, HERE, n, 2, n == 1002 ? 70000 : 500) != 0 ||
            kit_get_version(&c, HERE, n, 2) != 0)
            _exit(0);
    f->cannot_open = 0;
    kit_close(&c);
    _exit(0);
}

static struct choice choose(size_t end, size_t last_sync, unsigned i, uint64_t *state)
{
    static const unsigned percents[] = {10, 50, 90};
    struct choice c = {.kept = i % 4, .percent = percents[random_next(state) % 3]};
    c.noise = random_next(state) % 2;
    size_t from = random_next(state) % 2 ? last_sync : rec.n_base;
    c.names_end = c.kept == ALL ? end : from + random_next(state) % (end - from + 1);
    if (random_next(state) % 3 == 0 && end > 300)
        c.old_end = end - 300;
    return c;
}

/* A commit ends with one of the index's first two pages. */
static bool ends_commit(const struct op *op, unsigned index)
{
    return op->type == OP_WRITE && op->file == index && op->at < (off_t)(2 * PAGE);
}

/* Operations that are acknowledged, and that must be there, in ops[0..end): all that were acknowledged
 * before the last commit ended, or before the store had a rest. */
static void promised(size_t end, unsigned index, unsigned *out_acked, unsigned *out_durable)
{
    unsigned acked = 0, durable = 0;
    for (size_t i = 0; i < end; i++) {
        if (rec.ops[i].type == OP_ACK)
            acked = rec.ops[i].ordinal;
        if (rec.ops[i].type == OP_QUIET || ends_commit(&rec.ops[i], index))
            durable = acked;
    }
    *out_acked = acked;
    *out_durable = durable;
}

static struct found try_states(unsigned n_states, bool evicts, bool without_sync)
{
    struct replay *r = calloc(1, sizeof *r);
    struct found sum = {0};
    struct found *f =
        mmap(NULL, sizeof *f, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t state = n_states;
    size_t begin = 0, quiet = 0;
    while (rec.ops[begin].type != OP_ACK)
        begin++;
    while (rec.ops[quiet].type != OP_QUIET)
        quiet++;
    r->without_sync = without_sync;
    setenv("TMPDIR", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", 1);
    for (unsigned i = 0; i < n_states; i++) {
        size_t end = begin + (rec.n_ops - begin) * (size_t)(i + 1) / n_states;
        unsigned acked, durable;
        bool after_rest = r->at <= quiet && end > quiet; /* one state is just there */
        if (after_rest)
            end = quiet + 1;
        replay_to(r, end);
        promised(end, file_of("index/data.mdb"), &acked, &durable);
        struct choice c = choose(end, without_sync ? rec.n_base : r->last_sync, i, &state);
        if (after_rest)
            c.kept = NONE;
        char *dir = memory_dir_new();
        make_state(r, &c, &state, dir);
        memset(f, 0, sizeof *f);
        pid_t pid = fork();
        cr_assert_geq(pid, 0);
        if (pid == 0) {
            alarm(KIT_WAIT_S);
            judge_state(dir, acked, durable, evicts, f);
        }
        int status;
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        if (!WIFEXITED(status))
            f->cannot_open = 1;
        if (!without_sync && (f->wrong || f->lost || f->stale || f->rebuilt || f->cannot_open))
            cr_log_error("state %u of %u, after %zu operations of the disk (%u acknowledged), kept "
                         "%d, %u %%, names to %zu: wrong %u, lost %u, stale %u, rebuilt %u, status "
                         "%x, kept in %s",
                         i, n_states, end, acked, (int)c.kept, c.percent, c.names_end, f->wrong,
                         f->lost, f->stale, f->rebuilt, (unsigned)status, dir);
        for (size_t at = 0; at < sizeof sum / sizeof(unsigned); at++)
            ((unsigned *)&sum)[at] += ((unsigned *)f)[at];
        temp_dir_free(dir);
    }
    replay_free(r);
    munmap(f, sizeof *f);
    return sum;
}

static unsigned states_wanted(void)
{
    const char *set = getenv("WARM_POWER_STATES");
    return (set ? (unsigned)strtoul(set, NULL, 10) : STATES) / 2;
}

static void expect_promise_kept(uint64_t max_bytes, bool evicts)
{
    kit_begin(&k, max_bytes);
    record_begin();
    run(max_bytes);
    unsigned n = states_wanted();
    struct found f = try_states(n, evicts, false);
    fprintf(stderr,
            "power loss: %u states of %zu operations: %u wrong, %u lost, %u stale, %u damaged, %u "
            "not usable; allowed: %u undone, %u large ones missing\n",
            n, rec.n_ops, f.wrong, f.lost, f.stale, f.rebuilt, f.cannot_open, f.undone,
            f.large_lost);
    cr_expect_eq(f.wrong, 0);
    cr_expect_eq(f.lost, 0);
    cr_expect_eq(f.stale, 0);
    cr_expect_eq(f.rebuilt, 0);
    cr_expect_eq(f.cannot_open, 0);
    cr_expect_gt(f.undone + f.large_lost, 0, "the states are too kind to show anything");
    kit_end(&k);
}

TestSuite(power_loss, .timeout = 36000);

Test(power_loss, takes_the_last_commit_and_large_values_at_most)
{
    expect_promise_kept(256 * KIT_MIB, false);
}

Test(power_loss, brings_nothing_wrong_back_that_was_evicted) { expect_promise_kept(KIT_MIB, true); }

/* Were a sync left out of the store, these tests would find it. */
Test(power_loss, without_syncs_more_is_lost)
{
    kit_begin(&k, 256 * KIT_MIB);
    record_begin();
    run(1);
    struct found f = try_states(40, false, true);
    fprintf(stderr, "power loss, without syncs: %u wrong, %u lost, %u stale, %u damaged\n", f.wrong,
            f.lost, f.stale, f.rebuilt);
    cr_expect_eq(f.wrong, 0);
    cr_expect_gt(f.lost + f.stale + f.rebuilt + f.cannot_open, 0);
    kit_end(&k);
}

#endif
