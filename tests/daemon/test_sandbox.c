/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_sandbox.c - the rights that a process still has in the workers' sandbox.
 *
 * The sandbox belongs to the worker program, which has no way to try such things; so it is compiled
 * in here. Each attempt runs in a child of its own, which exits with the attempt's errno, 0 if it
 * succeeded.
 */
#include "daemon/worker/sandbox.c"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "tests/support/support.h"

enum layers { BOTH, LANDLOCK_ALONE };

/* Enters as the worker does, or with the first layer only; then tries. */
static void child_try(int (*attempt)(const char *arg), const char *arg, enum layers layers)
{
    int landlock;
    struct err e;
    if (layers == BOTH) {
        if (sandbox_drop_user(65534, 65534, &e) || sandbox_close_files(&landlock, &e) ||
            sandbox_close_calls(&e))
            _exit(255);
    } else {
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (landlock_enter(NULL, 0) <= 0)
            _exit(254); /* this kernel has none */
    }
    errno = 0;
    _exit(attempt(arg) == 0 ? 0 : errno);
}

static int try_inside(int (*attempt)(const char *arg), const char *arg, enum layers layers)
{
    int status;
    pid_t pid = fork();
    if (pid == 0)
        child_try(attempt, arg, layers);
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFEXITED(status), "signal %d", WTERMSIG(status));
    return WEXITSTATUS(status);
}

/* ---- attempts: 0, or -1 with errno ---- */

static int read_file(const char *path) { return open(path, O_RDONLY) < 0 ? -1 : 0; }
static int size_of_file(const char *path)
{
    struct stat st; /* by the call that also serves descriptors */
    return (int)syscall(SYS_newfstatat, AT_FDCWD, path, &st, AT_EMPTY_PATH);
}
static int write_file(const char *path)
{
    return open(path, O_WRONLY | O_CREAT, 0600) < 0 ? -1 : 0;
}
static int make_folder(const char *path) { return mkdir(path, 0700); }
static int remove_file(const char *path) { return unlink(path); }
static int link_file(const char *path)
{
    (void)path;
    return symlink("/etc/passwd", path);
}
static int make_inet_socket(const char *arg)
{
    (void)arg;
    return socket(AF_INET, SOCK_STREAM, 0) < 0 ? -1 : 0;
}
static int make_unix_socket(const char *arg)
{
    (void)arg;
    return socket(AF_UNIX, SOCK_STREAM, 0) < 0 ? -1 : 0;
}
static int make_socket_pair(const char *arg)
{
    int pair[2];
    (void)arg;
    return socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
}
static int start_process(const char *arg)
{
    (void)arg;
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    return pid < 0 ? -1 : 0;
}
static int run_program(const char *path)
{
    char name[256];
    snprintf(name, sizeof name, "%s", path);
    char *argv[] = {name, NULL};
    return execve(path, argv, NULL);
}
static int signal_parent(const char *arg)
{
    (void)arg;
    return kill(getppid(), 0);
}
static int own_descriptor_signals(const char *arg)
{
    (void)arg;
    return fcntl(0, F_SETOWN, getppid()); /* the way round kill() */
}
static int trace_parent(const char *arg)
{
    (void)arg;
    return ptrace(PTRACE_SEIZE, getppid(), NULL, NULL) < 0 ? -1 : 0;
}
static int read_parent(const char *arg)
{
    char byte;
    struct iovec here = {&byte, 1}, there = {&byte, 1};
    (void)arg;
    return process_vm_readv(getppid(), &here, 1, &there, 1, 0) < 0 ? -1 : 0;
}
static int limit_parent(const char *arg)
{
    struct rlimit limit;
    (void)arg;
    return prlimit(getppid(), RLIMIT_CORE, NULL, &limit);
}
static int map_code(const char *arg)
{
    (void)arg;
    void *at = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? -1 : 0;
}
static int turn_into_code(const char *arg)
{
    (void)arg;
    void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? 0 : mprotect(at, 4096, PROT_READ | PROT_EXEC);
}
static int become_root(const char *arg)
{
    (void)arg;
    return setuid(0);
}
static int unshare_user(const char *arg)
{
    (void)arg;
    return unshare(CLONE_NEWUSER);
}

TestSuite(sandbox, .timeout = 60);

Test(sandbox, denies_all_that_a_compiler_does_not_need)
{
    if (!sandbox_has_filter())
        cr_skip_test("this kernel has no system-call filters");
    static const struct {
        const char *name;
        int (*attempt)(const char *arg);
        const char *arg;
        int want;
    } attempts[] = {
        {"read /etc/passwd", read_file, "/etc/passwd", EACCES},
        {"read /proc/self/environ", read_file, "/proc/self/environ", EACCES},
        {"read /dev/zero", read_file, "/dev/zero", EACCES},
        {"size of a file", size_of_file, "/etc/passwd", EPERM},
        {"write a file", write_file, "/tmp/warm-sandbox-test", EACCES},
        {"make a folder", make_folder, "/tmp/warm-sandbox-test", EPERM},
        {"remove a file", remove_file, "/tmp/warm-sandbox-test", EPERM},
        {"make a link", link_file, "/tmp/warm-sandbox-test", EPERM},
        {"TCP socket", make_inet_socket, NULL, EPERM},
        {"Unix socket", make_unix_socket, NULL, EPERM},
        {"socket pair", make_socket_pair, NULL, EPERM},
        {"fork", start_process, NULL, EPERM},
        {"exec", run_program, "/bin/true", EPERM},
        {"kill", signal_parent, NULL, EPERM},
        {"F_SETOWN", own_descriptor_signals, NULL, EPERM},
        {"ptrace", trace_parent, NULL, EPERM},
        {"read another's memory", read_parent, NULL, EPERM},
        {"another's limits", limit_parent, NULL, EPERM},
        {"mmap code", map_code, NULL, EPERM},
        {"mprotect code", turn_into_code, NULL, EPERM},
        {"setuid", become_root, NULL, EPERM},
        {"unshare", unshare_user, NULL, EPERM},
    };
    for (size_t i = 0; i < sizeof attempts / sizeof *attempts; i++) {
        int got = try_inside(attempts[i].attempt, attempts[i].arg, BOTH);
        cr_expect_eq(got, attempts[i].want, "%s: %s", attempts[i].name, strerror(got));
    }
}

/* As a service manager may: the filter of a worker is set by prctl(2). */
static int set_filter_without_seccomp_call(const char *arg)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_seccomp, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    struct err e;
    (void)arg;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) || !sandbox_has_filter() ||
        sandbox_close_calls(&e))
        return -1;
    return read_file("/etc/passwd") == 0 ? -1 : 0;
}

Test(sandbox, filters_calls_under_a_filter_that_denies_seccomp)
{
    int got = try_inside(set_filter_without_seccomp_call, NULL, LANDLOCK_ALONE);
    if (got == 254)
        cr_skip_test("this kernel has no Landlock");
    cr_expect_eq(got, 0);
}

Test(sandbox, landlock_alone_denies_every_file)
{
    char *dir = temp_dir_new(), *path = path_join(dir, "file");
    file_write(path, "x", 1);
    int got = try_inside(read_file, path, LANDLOCK_ALONE);
    if (got == 254) {
        temp_dir_free(dir);
        free(path);
        cr_skip_test("this kernel has no Landlock");
    }
    cr_expect_eq(got, EACCES);
    cr_expect_eq(try_inside(write_file, path, LANDLOCK_ALONE), EACCES);
    cr_expect_eq(try_inside(remove_file, path, LANDLOCK_ALONE), EACCES);
    cr_expect_eq(try_inside(read_file, "/etc/passwd", LANDLOCK_ALONE), EACCES);
    free(path);
    temp_dir_free(dir);
}

/* ---- calls that must still work ---- */

static int use_memory(const char *arg)
{
    (void)arg;
    char *p = malloc(64 << 20);
    if (!p)
        return -1;
    memset(p, 1, 64 << 20);
    free(p);
    int fd = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return fd < 0 || ftruncate(fd, 4096) || fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) ? -1 : 0;
}
static void *thread_run(void *arg) { return arg; }
static int use_threads(const char *arg)
{
    pthread_t thread;
    (void)arg;
    errno = pthread_create(&thread, NULL, thread_run, NULL);
    return errno || pthread_join(thread, NULL) ? -1 : 0;
}
static int use_stack_limit(const char *arg)
{
    struct rlimit limit;
    (void)arg;
    return getrlimit(RLIMIT_STACK, &limit) || setrlimit(RLIMIT_STACK, &limit) ? -1 : 0;
}

Test(sandbox, lets_a_compiler_work)
{
    cr_expect_eq(try_inside(use_memory, NULL, BOTH), 0);
    cr_expect_eq(try_inside(use_threads, NULL, BOTH), 0);
    cr_expect_eq(try_inside(use_stack_limit, NULL, BOTH), 0);
}
