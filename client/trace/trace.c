/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace.c - libwarm-trace.so: records the files that a compiler looks at. Compilers call these
 * functions instead of the C library's; trace.h has the records.
 *
 * Every function of the C library by which compilers, assemblers and linkers reach files is defined
 * here. It calls the real one, records the outcome, and returns the real result and errno. Records
 * are written at once, so that none is lost however a process ends; a small table of recent records
 * saves most of the writes. A record that cannot be written empties the log, and the result is not
 * kept.
 *
 * Thread: any, and between vfork and exec: no allocation, no lock.
 */
#include "client/trace/trace.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <link.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "client/exec/functions.h"
#include "client/preload/old_glibc.h"

OLD_GLIBC_BIND(dlsym);

#define TOLD_SLOTS 4096         /* of the table of recent records */
#define TOLD_BYTES (512u << 10) /* of its texts: once they are full, no new record is remembered */
#define SEARCH_LIST_BYTES (32u << 10)
#define FIRST_FD 200 /* above the descriptors that a compiler expects to get */

/* Programs that were linked with an older C library still call these; no header declares them
 * now. */
int __xstat(int version, const char *path, struct stat *st);
int __xstat64(int version, const char *path, struct stat64 *st);
int __lxstat(int version, const char *path, struct stat *st);
int __lxstat64(int version, const char *path, struct stat64 *st);
int __fxstatat(int version, int dir, const char *path, struct stat *st, int flags);
int __fxstatat64(int version, int dir, const char *path, struct stat64 *st, int flags);
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dir, const char *path, int flags);
int __openat64_2(int dir, const char *path, int flags);
ssize_t __readlink_chk(const char *path, char *out, size_t cap, size_t room);
char *__realpath_chk(const char *path, char *out, size_t room);

/* clang-format off */
#define REAL_FUNCTIONS(X) \
    X(open) X(open64) X(openat) X(openat64) X(creat) X(creat64) X(fopen) X(fopen64) X(freopen) \
    X(freopen64) X(stat) X(stat64) X(lstat) X(lstat64) X(fstatat) X(fstatat64) X(statx) \
    X(access) X(faccessat) X(euidaccess) X(readlink) X(readlinkat) X(realpath) X(opendir) \
    X(glob) X(mkstemp) X(mkstemp64) X(mkstemps) X(mkstemps64) X(mkostemp) X(mkostemp64) \
    X(rename) X(renameat) X(link) X(symlink) X(mkdir) X(chdir) X(fchdir) X(close) X(dlclose) \
    X(dlopen) X(dlmopen) X(dlinfo)     X(_exit) X(system) X(popen) X(execve) X(posix_spawn) X(fexecve) X(getenv) X(secure_getenv) \
    X(localtime) X(localtime_r) X(__readlink_chk) X(__realpath_chk)
/* clang-format on */
#define X(name) static __typeof__(&name) real_##name;
REAL_FUNCTIONS(X)
#undef X

/* Keeps recent records by hash, one in each slot; their texts lie in `told_texts`, which is never
 * freed. */
static _Atomic(const char *) told[TOLD_SLOTS];
static char told_texts[TOLD_BYTES];
static _Atomic size_t told_used;
static int log_fd = -1;
static bool moved; /* the working folder is not WARM_TRACE_CWD */

/* ---- writing records ---- */

static size_t slot_of(char what, const char *path)
{
    uint64_t h = 14695981039346656037ull ^ (unsigned char)what;
    for (const char *p = path; *p; p++)
        h = (h ^ (unsigned char)*p) * 1099511628211ull;
    return (size_t)(h % TOLD_SLOTS);
}

/* True if a promise of this file is kept. If not, the run's result is not kept: the compiler goes on. */
static bool expect(bool promise)
{
    static const char broken[] = {TRACE_UNKNOWN, 'w', 'a', 'r', 'm', '\0'};
    if (!promise && log_fd >= 0)
        (void)!write(log_fd, broken, sizeof broken);
    return promise;
}

/* True if this very record was written before; otherwise remembers it. */
static bool was_told(char what, const char *text)
{
    size_t slot = slot_of(what, text), len = strlen(text) + 2;
    const char *last = atomic_load_explicit(&told[slot], memory_order_acquire);
    if (last && last[0] == what && strcmp(last + 1, text) == 0)
        return true;
    size_t at = atomic_fetch_add_explicit(&told_used, len, memory_order_relaxed);
    if (at > TOLD_BYTES || len > TOLD_BYTES - at)
        return false;
    if (!expect(text[len - 2] == '\0'))
        return false;
    told_texts[at] = what;
    memcpy(told_texts + at + 1, text, len - 1);
    atomic_store_explicit(&told[slot], told_texts + at, memory_order_release);
    return false;
}

static void write_record(char what, const char *path, bool is_path)
{
    char record[PATH_MAX * 2 + 2];
    size_t len = 1;
    record[0] = what;
    if (is_path && moved && path[0] != '/' && getcwd(record + 1, PATH_MAX)) {
        len += strlen(record + 1);
        record[len++] = '/';
    }
    size_t n = strnlen(path, PATH_MAX);
    if (!expect(len + n < sizeof record))
        return;
    memcpy(record + len, path, n);
    record[len + n] = '\0';
    if (write(log_fd, record, len + n + 1) != (ssize_t)(len + n + 1))
        (void)!ftruncate(log_fd, 0); /* (1) a log without its first B is not used */
}

static void tell_once(char what, const char *text, bool is_path)
{
    int kept = errno;
    if (log_fd >= 0) {
        bool always = what == TRACE_BEGIN || what == TRACE_EXEC || what == TRACE_EXEC_FAILED;
        if (always || !was_told(what, text))
            write_record(what, text, is_path);
    }
    errno = kept;
}

static void tell(char what, const char *path) { tell_once(what, path, true); }
static void tell_text(char what, const char *text) { tell_once(what, text, false); }

/* Records that a file was made, or opened for writing, and which file it is: so a later file in its
 * place is noticed. */
static void tell_write(const char *path)
{
    char text[PATH_MAX + 80];
    struct statx st;
    int kept = errno;
    tell(TRACE_WRITE, path);
    if (log_fd >= 0 && !(moved && path[0] != '/') &&
        real_statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_INO | STATX_BTIME, &st) == 0) {
        int n = snprintf(text, sizeof text, "%x.%x:%llx:%llx:%x:%s", st.stx_dev_major,
                         st.stx_dev_minor, (unsigned long long)st.stx_ino,
                         (unsigned long long)st.stx_btime.tv_sec, st.stx_btime.tv_nsec, path);
        if (n > 0 && (size_t)n < sizeof text)
            tell_text(TRACE_MADE, text);
    }
    errno = kept;
}

/* Records how a look at `path` ended: 0 or an errno. */
static void tell_look(char what, const char *path, int error)
{
    if (error == 0)
        tell(what, path);
    else if (error == ENOENT || error == ENOTDIR)
        tell(TRACE_ABSENT, path);
    else if (error != EINTR && error != EEXIST && error != EISDIR && error != ENXIO)
        tell(TRACE_UNKNOWN, path);
}

/* ---- libraries ---- */

union search_list {
    Dl_serinfo info;
    char room[SEARCH_LIST_BYTES];
};

/* Asks the loader where it looks for the libraries that an object needs. These are the object's folders, those
 * of the objects that loaded it, LD_LIBRARY_PATH, then the loader's folders. */
static bool read_search_list(struct link_map *object, union search_list *out)
{
    return real_dlinfo && real_dlinfo(object, RTLD_DI_SERINFOSIZE, &out->info) == 0 &&
           out->info.dls_size <= sizeof *out &&
           real_dlinfo(object, RTLD_DI_SERINFO, &out->info) == 0;
}

/* Records folders for certain processors in `folder`, into which the loader looks first. Those of
 * glibc before 2.37 nest; nobody uses them now. */
static void tell_variants(const char *folder, const char *name)
{
    static const char *const old[] = {"tls",      "x86_64", "haswell", "avx512_1",
                                      "xeon_phi", "sse2",   "aarch64"};
    char path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/glibc-hwcaps", folder);
    if (real_access(path, F_OK) == 0) {
        snprintf(path, sizeof path, "%s/glibc-hwcaps/%s", folder, name);
        tell(TRACE_VARIANTS, path);
    } else {
        tell_look(TRACE_EXISTS, path, errno);
    }
    if (was_told(TRACE_VARIANTS, folder))
        return;
    for (size_t i = 0; i < sizeof old / sizeof old[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, old[i]);
        tell_look(TRACE_UNKNOWN, path, real_access(path, F_OK) == 0 ? 0 : errno);
    }
}

/* True if the loader takes the file: it passes over libraries for other machines. */
static bool is_loadable(const char *path)
{
    static const ElfW(Ehdr) * own;
    ElfW(Ehdr) head;
    int fd = real_open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, &head, sizeof head) : -1;
    if (fd >= 0)
        real_close(fd);
    if (!own)
        own = (const void *)getauxval(AT_SYSINFO_EHDR);
    return n == (ssize_t)sizeof head && own &&
           memcmp(head.e_ident, own->e_ident, EI_DATA + 1) == 0 && head.e_machine == own->e_machine;
}

/* Records the places where the loader looks for `name`, up to the first that has it. The loader prefers an
 * entry of its list to its own folders: then some of the records are superfluous, which does no harm. */
static void tell_search(const Dl_serinfo *folders, const char *name)
{
    char path[2 * PATH_MAX];
    for (unsigned i = 0; i < folders->dls_cnt; i++) {
        const char *folder = folders->dls_serpath[i].dls_name;
        if (!expect(folder && name))
            return;
        tell_variants(folder, name);
        snprintf(path, sizeof path, "%s/%s", folder, name);
        int error = real_access(path, F_OK) == 0 ? 0 : errno;
        if (error == 0 && is_loadable(path))
            return;
        tell_look(TRACE_READ, path, error);
    }
}

/* Records the names that an object needs and the searches for them; with `name` its searches for that alone. */
static void tell_names(struct link_map *object, const char *name)
{
    union search_list folders;
    const char *strings = NULL;
    bool has_folders = false;
    for (const ElfW(Dyn) *d = object->l_ld; d && d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_STRTAB) /* the loader has made most of them addresses */
            strings = (const void *)(d->d_un.d_ptr +
                                     (d->d_un.d_ptr < object->l_addr ? object->l_addr : 0));
    for (const ElfW(Dyn) *d = object->l_ld; strings && d->d_tag != DT_NULL; d++) {
        bool names = d->d_tag == DT_NEEDED || d->d_tag == DT_AUXILIARY || d->d_tag == DT_FILTER;
        if (d->d_tag == DT_AUDIT || d->d_tag == DT_DEPAUDIT)
            tell(TRACE_UNKNOWN, strings + d->d_un.d_val);
        const char *needed = name ? name : strings + d->d_un.d_val;
        if (!names || strchr(needed, '/')) /* a path: the library that it leads to is recorded */
            continue;
        tell_text(TRACE_NAME, needed);
        if (!has_folders && !(has_folders = read_search_list(object, &folders)))
            tell(TRACE_UNKNOWN, needed);
        if (has_folders)
            tell_search(&folders.info, needed);
        if (name)
            return;
    }
}

/* Records all libraries, and the searches for those that they need; with `name` the searches of all for that
 * name. dl_iterate_phdr calls it once, with the loader's lock. */
static int on_libraries(struct dl_phdr_info *info, size_t size, void *name)
{
    (void)info, (void)size;
    if (log_fd < 0)
        return 1;
    for (struct link_map *object = _r_debug.r_map; object; object = object->l_next) {
        if (!name && strchr(object->l_name, '/'))
            tell(TRACE_LIBRARY, object->l_name);
        tell_names(object, name);
    }
    return 1;
}

static void tell_libraries(void)
{
    int kept = errno;
    dl_iterate_phdr(on_libraries, NULL);
    errno = kept;
}

/* ---- beginning ---- */

/* Forgets recent records after a change of the folder: their names now mean other files. */
static void note_folder(void)
{
    char here[PATH_MAX];
    for (size_t i = 0; i < TOLD_SLOTS; i++)
        atomic_store_explicit(&told[i], NULL, memory_order_relaxed);
    const char *start = real_getenv(TRACE_CWD_VARIABLE);
    moved = !start || !getcwd(here, sizeof here) || strcmp(here, start) != 0;
}

static void open_log(void)
{
    const char *path = real_getenv(TRACE_FILE_VARIABLE);
    int fd = path ? real_open(path, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    log_fd = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FD);
    if (log_fd >= 0)
        real_close(fd);
    else
        log_fd = fd;
}

/* Before glibc 2.33 the C library lacks these functions: its headers called __xstat and its kin
 * with a version (DEFINE_OLD_LOOK). On 64-bit machines struct stat is the kernel's. */
#define DEFINE_RAW_LOOK(type, suffix)                                                              \
    static int raw_fstatat##suffix(int dir, const char *path, type *st, int flags)                 \
    {                                                                                              \
        return (int)syscall(SYS_newfstatat, dir, path, st, flags);                                 \
    }                                                                                              \
    static int raw_stat##suffix(const char *path, type *st)                                        \
    {                                                                                              \
        return raw_fstatat##suffix(AT_FDCWD, path, st, 0);                                         \
    }                                                                                              \
    static int raw_lstat##suffix(const char *path, type *st)                                       \
    {                                                                                              \
        return raw_fstatat##suffix(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW);                       \
    }
DEFINE_RAW_LOOK(struct stat, )
DEFINE_RAW_LOOK(struct stat64, 64)
_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "the kernel has one struct stat");

static int raw_statx(int dir, const char *path, int flags, unsigned mask, struct statx *st)
{
    return (int)syscall(SYS_statx, dir, path, flags, mask, st);
}

static void find_real_functions(void)
{
#define X(name) real_##name = (__typeof__(real_##name))dlsym(RTLD_NEXT, #name);
    REAL_FUNCTIONS(X)
#undef X
#define OR_RAW(name) real_##name = real_##name ? real_##name : raw_##name
    OR_RAW(stat);
    OR_RAW(stat64);
    OR_RAW(lstat);
    OR_RAW(lstat64);
    OR_RAW(fstatat);
    OR_RAW(fstatat64);
    OR_RAW(statx);
#undef OR_RAW
}

/* Begins the log of this process. Each function calls it, because the constructors of other
 * libraries may run before ours. */
static void begin(void)
{
    static bool begun;
    if (begun)
        return;
    begun = true;
    find_real_functions();
    char self[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    open_log();
    note_folder();
    self[len > 0 ? len : 0] = '\0';
    tell(TRACE_BEGIN, self);
    const char *folders = real_getenv("LD_LIBRARY_PATH");
    tell_text(TRACE_SEARCH, folders ? folders : "");
    tell_libraries();
}

__attribute__((constructor)) static void on_load(void) { begin(); }

/* ---- opening ---- */

static void tell_open(const char *path, int flags, bool ok)
{
    int error = ok ? 0 : errno;
    if (flags & O_PATH)
        tell_look(TRACE_EXISTS, path, error);
    else if ((flags & O_TMPFILE) == O_TMPFILE)
        return;
    else if (flags & O_DIRECTORY)
        tell_look(TRACE_LIST, path, error);
    else if ((flags & O_ACCMODE) == O_RDONLY && !(flags & O_CREAT))
        tell_look(TRACE_READ, path, error);
    else if ((flags & O_ACCMODE) == O_RDWR && !(flags & (O_CREAT | O_TRUNC)))
        tell_look(ok ? TRACE_UNKNOWN : TRACE_ABSENT, path, error);
    else if (ok)
        tell_write(path);
    else if (error != EINTR && error != EEXIST) /* the compiler may fail for that alone */
        tell(TRACE_UNWRITTEN, path);
}

/* True unless the path is below an open folder other than the working one, which has no known
 * name. */
static bool is_plain(int dir, const char *path) { return path[0] == '/' || dir == AT_FDCWD; }

static void tell_open_at(int dir, const char *path, int flags, bool ok)
{
    if (is_plain(dir, path))
        tell_open(path, flags, ok);
    else
        tell(TRACE_UNKNOWN, path);
}

static int open_mode(int flags, va_list *args)
{
    return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(*args, int) : 0;
}

#define DEFINE_OPEN(name)                                                                          \
    int name(const char *path, int flags, ...)                                                     \
    {                                                                                              \
        va_list args;                                                                              \
        va_start(args, flags);                                                                     \
        int mode = open_mode(flags, &args);                                                        \
        va_end(args);                                                                              \
        begin();                                                                                   \
        int fd = real_##name(path, flags, mode);                                                   \
        tell_open(path, flags, fd >= 0);                                                           \
        return fd;                                                                                 \
    }                                                                                              \
    int __##name##_2(const char *path, int flags) { return name(path, flags); }
DEFINE_OPEN(open)
DEFINE_OPEN(open64)

#define DEFINE_OPENAT(name)                                                                        \
    int name(int dir, const char *path, int flags, ...)                                            \
    {                                                                                              \
        va_list args;                                                                              \
        va_start(args, flags);                                                                     \
        int mode = open_mode(flags, &args);                                                        \
        va_end(args);                                                                              \
        begin();                                                                                   \
        int fd = real_##name(dir, path, flags, mode);                                              \
        tell_open_at(dir, path, flags, fd >= 0);                                                   \
        return fd;                                                                                 \
    }                                                                                              \
    int __##name##_2(int dir, const char *path, int flags) { return name(dir, path, flags); }
DEFINE_OPENAT(openat)
DEFINE_OPENAT(openat64)

static int mode_flags(const char *mode)
{
    if (mode[0] == 'r')
        return strchr(mode, '+') ? O_RDWR : O_RDONLY;
    return O_WRONLY | O_CREAT;
}

#define DEFINE_FOPEN(name)                                                                         \
    FILE *name(const char *path, const char *mode)                                                 \
    {                                                                                              \
        begin();                                                                                   \
        FILE *f = real_##name(path, mode);                                                         \
        tell_open(path, mode_flags(mode), f != NULL);                                              \
        return f;                                                                                  \
    }
DEFINE_FOPEN(fopen)
DEFINE_FOPEN(fopen64)

#define DEFINE_FREOPEN(name)                                                                       \
    FILE *name(const char *path, const char *mode, FILE *old)                                      \
    {                                                                                              \
        begin();                                                                                   \
        FILE *f = real_##name(path, mode, old);                                                    \
        if (path)                                                                                  \
            tell_open(path, mode_flags(mode), f != NULL);                                          \
        return f;                                                                                  \
    }
DEFINE_FREOPEN(freopen)
DEFINE_FREOPEN(freopen64)

/* Defines functions that make or write the file at `path`; `ok` is an expression over the result,
 * r. */
#define DEFINE_WRITER(type, name, parameters, arguments, ok)                                       \
    type name parameters                                                                           \
    {                                                                                              \
        begin();                                                                                   \
        type r = real_##name arguments;                                                            \
        if (ok)                                                                                    \
            tell_write(path);                                                                      \
        return r;                                                                                  \
    }
DEFINE_WRITER(int, creat, (const char *path, mode_t mode), (path, mode), r >= 0)
DEFINE_WRITER(int, creat64, (const char *path, mode_t mode), (path, mode), r >= 0)
DEFINE_WRITER(int, mkstemp, (char *path), (path), r >= 0)
DEFINE_WRITER(int, mkstemp64, (char *path), (path), r >= 0)
DEFINE_WRITER(int, mkstemps, (char *path, int n), (path, n), r >= 0)
DEFINE_WRITER(int, mkstemps64, (char *path, int n), (path, n), r >= 0)
DEFINE_WRITER(int, mkostemp, (char *path, int flags), (path, flags), r >= 0)
DEFINE_WRITER(int, mkostemp64, (char *path, int flags), (path, flags), r >= 0)
DEFINE_WRITER(int, mkdir, (const char *path, mode_t mode), (path, mode), r == 0)
DEFINE_WRITER(int, link, (const char *from, const char *path), (from, path), r == 0)
DEFINE_WRITER(int, symlink, (const char *from, const char *path), (from, path), r == 0)
DEFINE_WRITER(int, rename, (const char *from, const char *path), (from, path), r == 0)

int renameat(int from_dir, const char *from, int dir, const char *path)
{
    begin();
    int r = real_renameat(from_dir, from, dir, path);
    if (is_plain(dir, path))
        tell_write(path);
    else
        tell(TRACE_UNKNOWN, path);
    return r;
}

/* ---- looking ---- */

#define DEFINE_TOLD(type, name, parameters, arguments, what)                                       \
    type name parameters                                                                           \
    {                                                                                              \
        begin();                                                                                   \
        type r = real_##name arguments;                                                            \
        what;                                                                                      \
        return r;                                                                                  \
    }
#define DEFINE_LOOK(type, name, parameters, arguments, ok)                                         \
    DEFINE_TOLD(type, name, parameters, arguments, tell_look(TRACE_EXISTS, path, (ok) ? 0 : errno))
#define DEFINE_REAL(name, parameters, arguments)                                                   \
    DEFINE_TOLD(char *, name, parameters, arguments, tell_look(TRACE_REAL, path, r ? 0 : errno))
DEFINE_LOOK(int, stat, (const char *path, struct stat *st), (path, st), r == 0)
DEFINE_LOOK(int, stat64, (const char *path, struct stat64 *st), (path, st), r == 0)
DEFINE_LOOK(int, lstat, (const char *path, struct stat *st), (path, st), r == 0)
DEFINE_LOOK(int, lstat64, (const char *path, struct stat64 *st), (path, st), r == 0)
DEFINE_LOOK(ssize_t, readlink, (const char *path, char *out, size_t cap), (path, out, cap),
            r >= 0 || errno == EINVAL)
DEFINE_REAL(realpath, (const char *path, char *out), (path, out))
DEFINE_LOOK(ssize_t, __readlink_chk, (const char *path, char *out, size_t cap, size_t room),
            (path, out, cap, room), r >= 0 || errno == EINVAL)
DEFINE_REAL(__realpath_chk, (const char *path, char *out, size_t room), (path, out, room))

/* Defines the names that programs call if they were built with an older C library. */
#define DEFINE_OLD_LOOK(old, name, type)                                                           \
    int old(int version, const char *path, type *st)                                               \
    {                                                                                              \
        (void)version;                                                                             \
        return name(path, st);                                                                     \
    }
DEFINE_OLD_LOOK(__xstat, stat, struct stat)
DEFINE_OLD_LOOK(__xstat64, stat64, struct stat64)
DEFINE_OLD_LOOK(__lxstat, lstat, struct stat)
DEFINE_OLD_LOOK(__lxstat64, lstat64, struct stat64)

static void tell_look_at(int dir, const char *path, int error)
{
    if (path[0] == '\0') /* the open folder or file itself: recorded when it was opened */
        return;
    if (is_plain(dir, path))
        tell_look(TRACE_EXISTS, path, error);
    else
        tell(TRACE_UNKNOWN, path);
}

#define DEFINE_LOOK_AT(type, name, parameters, arguments, ok)                                      \
    DEFINE_TOLD(type, name, parameters, arguments, tell_look_at(dir, path, (ok) ? 0 : errno))
DEFINE_LOOK_AT(int, fstatat, (int dir, const char *path, struct stat *st, int flags),
               (dir, path, st, flags), r == 0)
DEFINE_LOOK_AT(int, fstatat64, (int dir, const char *path, struct stat64 *st, int flags),
               (dir, path, st, flags), r == 0)
#define DEFINE_OLD_LOOK_AT(old, name, type)                                                        \
    int old(int version, int dir, const char *path, type *st, int flags)                           \
    {                                                                                              \
        (void)version;                                                                             \
        return name(dir, path, st, flags);                                                         \
    }
DEFINE_OLD_LOOK_AT(__fxstatat, fstatat, struct stat)
DEFINE_OLD_LOOK_AT(__fxstatat64, fstatat64, struct stat64)
DEFINE_LOOK_AT(int, statx, (int dir, const char *path, int flags, unsigned mask, struct statx *st),
               (dir, path, flags, mask, st), r == 0)
DEFINE_LOOK_AT(ssize_t, readlinkat, (int dir, const char *path, char *out, size_t cap),
               (dir, path, out, cap), r >= 0 || errno == EINVAL)

/* True if a look at rights tells no more than that the file exists. One that may not be run may get that right later. */
static bool is_existence(const char *path, int mode, int error)
{
    struct stat st;
    return error == 0 ||
           (error == EACCES && !(mode & X_OK && real_stat(path, &st) == 0 && S_ISREG(st.st_mode)));
}

/* Defines looks at rights: for a file that may not be written, EACCES means that it exists. */
#define DEFINE_ACCESS(name, parameters, arguments)                                                 \
    int name parameters                                                                            \
    {                                                                                              \
        begin();                                                                                   \
        int r = real_##name arguments;                                                             \
        int kept = errno, error = r == 0 ? 0 : kept;                                               \
        tell_look_at(dir, path, is_existence(path, mode, error) ? 0 : error);                      \
        errno = kept;                                                                              \
        return r;                                                                                  \
    }
DEFINE_ACCESS(faccessat, (int dir, const char *path, int mode, int flags), (dir, path, mode, flags))
static const int dir = AT_FDCWD;
DEFINE_ACCESS(access, (const char *path, int mode), (path, mode))
DEFINE_ACCESS(euidaccess, (const char *path, int mode), (path, mode))
int eaccess(const char *path, int mode) { return euidaccess(path, mode); }

DIR *opendir(const char *path)
{
    begin();
    DIR *d = real_opendir(path);
    tell_look(TRACE_LIST, path, d ? 0 : errno);
    return d;
}

int glob(const char *pattern, int flags, int (*on_error)(const char *, int), glob_t *out)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(pattern, '/');
    int len = slash ? (int)(slash - pattern) : 0;
    begin();
    bool is_one = len && strcspn(pattern, "*?[\\{~") > (size_t)len &&
                  snprintf(folder, sizeof folder, "%.*s", len, pattern) == len;
    if (is_one) /* the names in one folder decide */
        tell_look(TRACE_LIST, folder, real_access(folder, F_OK) == 0 ? 0 : errno);
    else
        tell(TRACE_UNKNOWN, pattern);
    return real_glob(pattern, flags, on_error, out);
}

/* Records libraries when a process ends, or before it closes one. */
int dlclose(void *library)
{
    begin();
    tell_libraries();
    return real_dlclose(library);
}

__attribute__((destructor)) static void on_exit_of_process(void) { tell_libraries(); }

void _exit(int status)
{
    begin();
    tell_libraries();
    real__exit(status);
    __builtin_unreachable();
}
void _Exit(int status) { _exit(status); }

/* Records what a program loads by itself, even if it is absent. For a path, the caller's folders do
 * not matter; for a name, those of all objects are recorded. */
static void tell_load(const char *name)
{
    int kept = errno;
    if (!name || !*name)
        return;
    if (strchr(name, '$'))
        tell(TRACE_UNKNOWN, name); /* the loader replaces $ORIGIN and $LIB */
    else if (strchr(name, '/'))
        tell_look(TRACE_READ, name, real_access(name, F_OK) == 0 ? 0 : errno);
    else
        dl_iterate_phdr(on_libraries, (void *)(uintptr_t)name);
    errno = kept;
}

/* Tells of a load. The real function takes its caller's folders, by the return address: so this must end in
 * a jump. */
__attribute__((optimize("optimize-sibling-calls"))) void *dlopen(const char *name, int flags)
{
    begin();
    tell_load(name);
    return real_dlopen(name, flags);
}

void *dlmopen(Lmid_t space, const char *name, int flags)
{
    begin();
    tell(TRACE_UNKNOWN, name ? name : "dlmopen");
    return real_dlmopen(space, name, flags);
}

/* ---- the environment ---- */

static void tell_variable(const char *name)
{
    if (strncmp(name, "WARM_", 5) != 0)
        tell_text(TRACE_VARIABLE, name);
}

#define DEFINE_GETENV(name)                                                                        \
    char *name(const char *variable)                                                               \
    {                                                                                              \
        begin();                                                                                   \
        tell_variable(variable);                                                                   \
        return real_##name(variable);                                                              \
    }
DEFINE_GETENV(getenv)
DEFINE_GETENV(secure_getenv)

/* ---- the clock ---- */

/* Tells that the clock was read. GCC and Clang call these two to expand __DATE__, __TIME__ and
 * __TIMESTAMP__, and for nothing else. If SOURCE_DATE_EPOCH sets the clock, they call gmtime. NVIDIA's
 * front ends call time and ctime in each run, and read text that GCC or Clang has preprocessed. */
struct tm *localtime(const time_t *t)
{
    begin();
    tell_text(TRACE_CLOCK, "localtime");
    return real_localtime(t);
}

struct tm *localtime_r(const time_t *t, struct tm *out)
{
    begin();
    tell_text(TRACE_CLOCK, "localtime");
    return real_localtime_r(t, out);
}

/* ---- changes of the folder, and of the log's descriptor ---- */

int chdir(const char *path)
{
    begin();
    int r = real_chdir(path);
    tell_look(TRACE_EXISTS, path, r == 0 ? 0 : errno);
    note_folder();
    return r;
}

int fchdir(int fd)
{
    begin();
    int r = real_fchdir(fd);
    note_folder();
    return r;
}

/* Keeps the log open in a program that closes all descriptors: no other file may get its number. */
int close(int fd)
{
    begin();
    return fd >= 0 && fd == log_fd ? 0 : real_close(fd);
}

/* ---- starting programs ---- */

int execve(const char *path, char *const argv[], char *const env[])
{
    begin();
    tell(TRACE_EXEC, path);
    int r = real_execve(path, argv, env);
    tell(TRACE_EXEC_FAILED, path);
    return r;
}

int execv(const char *path, char *const argv[]) { return execve(path, argv, environ); }

int fexecve(int fd, char *const argv[], char *const env[])
{
    begin();
    tell(TRACE_UNKNOWN, "fexecve");
    return real_fexecve(fd, argv, env);
}

/* Finds a name as execvp does, and records each look. `out` has PATH_MAX bytes. */
static const char *search(const char *name, char *out)
{
    const char *path = real_getenv("PATH");
    if (strchr(name, '/'))
        return name;
    for (const char *at = path; at; at = *at ? at + 1 : NULL) {
        int len = (int)strcspn(at, ":");
        int n = snprintf(out, PATH_MAX, "%.*s%s%s", len, at, len ? "/" : "", name);
        if (n > 0 && n < PATH_MAX && access(out, X_OK) == 0) {
            tell(TRACE_FOUND, out);
            return out;
        }
        at += len;
    }
    return NULL;
}

int execvpe(const char *file, char *const argv[], char *const env[])
{
    char found[PATH_MAX];
    begin();
    const char *path = search(file, found);
    if (path)
        return execve(path, argv, env);
    errno = ENOENT;
    return -1;
}

int execvp(const char *file, char *const argv[]) { return execvpe(file, argv, environ); }

int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attributes, char *const argv[], char *const env[])
{
    begin();
    tell(TRACE_EXEC, path);
    int error = real_posix_spawn(pid, path, actions, attributes, argv, env);
    if (error)
        tell(TRACE_EXEC_FAILED, path);
    return error;
}

int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const argv[], char *const env[])
{
    char found[PATH_MAX];
    begin();
    const char *path = search(file, found);
    return path ? posix_spawn(pid, path, actions, attributes, argv, env) : ENOENT;
}

/* Records the shell, which the C library starts by itself. */
int system(const char *command)
{
    begin();
    if (command)
        tell(TRACE_EXEC, "/bin/sh");
    return real_system(command);
}

FILE *popen(const char *command, const char *mode)
{
    begin();
    FILE *f = real_popen(command, mode);
    if (f)
        tell(TRACE_EXEC, "/bin/sh");
    return f;
}
