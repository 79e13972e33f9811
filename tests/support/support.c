/* SPDX-License-Identifier: Apache-2.0 */
/* support.c - folders and files for tests. */
#include "tests/support/support.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <ftw.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

bool promise_may_break;

static char *dir_new_in(const char *root)
{
    char *path = path_join(root, "warm-test-XXXXXX");
    cr_assert_not_null(mkdtemp(path), "mkdtemp %s", path);
    return path;
}

char *temp_dir_new(void)
{
    const char *root = getenv("TMPDIR");
    return dir_new_in(root && *root ? root : "/tmp");
}

char *memory_dir_new(void)
{
    static const char root[] = "/dev/shm";
    struct statvfs fs;
    bool has_room = !getenv("TMPDIR") && statvfs(root, &fs) == 0 &&
                    (uint64_t)fs.f_bavail * fs.f_frsize >= MEMORY_DIR_BYTES;
    return has_room ? dir_new_in(root) : temp_dir_new();
}

static int on_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

void temp_dir_free(char *path)
{
    nftw(path, on_entry, 32, FTW_DEPTH | FTW_PHYS);
    free(path);
}

char *path_join(const char *dir, const char *name)
{
    char *path = NULL;
    cr_assert(asprintf(&path, "%s/%s", dir, name) >= 0);
    return path;
}

void file_write(const char *path, const void *data, size_t len)
{
    FILE *f = fopen(path, "wb");
    cr_assert_not_null(f, "fopen %s", path);
    cr_assert_eq(fwrite(data, 1, len, f), len);
    cr_assert_eq(fclose(f), 0);
}

char *file_read(const char *path, size_t *out_len)
{
    FILE *f = fopen(path, "rb");
    cr_assert_not_null(f, "fopen %s", path);
    cr_assert_eq(fseek(f, 0, SEEK_END), 0);
    long len = ftell(f);
    rewind(f);
    char *data = malloc((size_t)len + 1);
    cr_assert_not_null(data);
    cr_assert_eq(fread(data, 1, (size_t)len, f), (size_t)len);
    data[len] = '\0';
    fclose(f);
    *out_len = (size_t)len;
    return data;
}

char *bin_path(const char *name)
{
    char self[4096];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    cr_assert(len > 0);
    self[len] = '\0';
    *strrchr(self, '/') = '\0'; /* BUILD/tests */
    *strrchr(self, '/') = '\0'; /* BUILD */
    char *bin = path_join(self, "bin"), *path = path_join(bin, name);
    free(bin);
    return path;
}

/* ---- a build that other users reach ---- */

static char *public_build;
static pid_t public_owner; /* a forked child must not remove it */

static void remove_public_build(void)
{
    if (getpid() == public_owner)
        temp_dir_free(public_build);
}

static void copy_build(void)
{
    char *bin = bin_path(".."), *out;
    public_build = strdup("/var/tmp/warm-test-XXXXXX"); /* some tests mount another /tmp */
    cr_assert_not_null(mkdtemp(public_build));
    public_owner = getpid();
    atexit(remove_public_build);
    int rc = run_command(&out,
                         "cd '%s' && cp -rL --parents bin/warm bin/warmd lib/libwarm* libexec "
                         "share/warm '%s' && chmod -R a+rX '%s' 2>&1",
                         bin, public_build, public_build);
    cr_assert_eq(rc, 0, "%s", out);
    free(out);
    free(bin);
}

char *public_path(const char *name)
{
    if (!public_build)
        copy_build();
    return path_join(public_build, name);
}

unsigned open_descriptors(void)
{
    unsigned n = 0;
    DIR *listing = opendir("/proc/self/fd");
    cr_assert_not_null(listing);
    while (readdir(listing))
        n++;
    closedir(listing);
    return n;
}

bool send_with_fds(int fd, const void *data, size_t len, const int *fds, size_t n_fds)
{
    char control[CMSG_SPACE(2 * sizeof(int))] = {0};
    struct iovec part = {(void *)(uintptr_t)data, len};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    cr_assert_leq(n_fds, 2u);
    if (n_fds) {
        m.msg_control = control;
        m.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
        memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
    }
    return sendmsg(fd, &m, MSG_NOSIGNAL) == (ssize_t)len;
}

int run_command(char **out, const char *format, ...)
{
    char *command = NULL, *text = NULL;
    size_t len = 0;
    va_list args;
    va_start(args, format);
    cr_assert(vasprintf(&command, format, args) >= 0);
    va_end(args);

    FILE *memory = open_memstream(&text, &len), *pipe = popen(command, "r");
    cr_assert(memory && pipe, "%s", command);
    for (int c; (c = getc(pipe)) != EOF;)
        putc(c, memory);
    fclose(memory);
    free(command);
    int status = pclose(pipe);
    *out = text;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

char *toolchain_lib(const char *version)
{
    char exe[PATH_MAX];
    const char *root = getenv("WARM_TOOLCHAIN");
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 16);
    cr_assert_gt(n, 0);
    exe[n] = '\0';
    *strrchr(exe, '/') = '\0';
    strcpy(strrchr(exe, '/'), "/toolchain");
    char *folder = path_join(root ? root : exe, version), *lib = path_join(folder, "lib");
    free(folder);
    if (access(lib, R_OK) == 0)
        return lib;
    free(lib);
    return NULL;
}

bool two_users_can_be(void)
{
    const char *root = getenv("TMPDIR");
    int status;
    if (geteuid() != 0)
        return false;
    pid_t pid = fork();
    if (pid == 0)
        _exit(setgid(65534) || setuid(65534) || access(root && *root ? root : "/tmp", X_OK));
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}
