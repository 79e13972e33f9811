/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox.c - decides what a worker may still do: Landlock and a system-call filter, in the kernel's own
 * terms (no library).
 *
 * The filter lists the allowed calls; all others fail with EPERM, so that a compiler's new habit shows up
 * as an error instead of a killed worker. main.c calls it in the order that sandbox.h draws.
 *
 * Thread: main thread, once.
 */
#include "daemon/worker/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int sandbox_drop_user(uid_t uid, gid_t gid, struct err *e)
{
    if (geteuid() != 0)
        return 0;
    if (setgroups(0, NULL) || setresgid(gid, gid, gid) || setresuid(uid, uid, uid))
        return err_sys(e, WARM_EDENIED, errno, "the compilers' process cannot become user %u",
                       (unsigned)uid);
    /* Changing the user cleared this flag; processes of that user must not trace this one. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_DUMPABLE, 0);
    return 0;
}

/* ---- Landlock ---- */

/* The kernel's structure as of version 6 of the interface. An older kernel takes it as long as its
 * unknown fields are zero. Debian 12's headers end at version 3. */
struct landlock_rules {
    uint64_t filesystem, network, scopes;
};
#define LANDLOCK_VERSION_FLAG 1u
#define LANDLOCK_FS_V1 ((1ull << 13) - 1) /* execute, read, write, make and remove, of all kinds */
#define LANDLOCK_FS_REFER (1ull << 13)    /* 2 */
#define LANDLOCK_FS_TRUNCATE (1ull << 14) /* 3 */
#define LANDLOCK_NET_TCP 3ull             /* 4: bind, connect */
#define LANDLOCK_FS_IOCTL (1ull << 15)    /* 5: on devices */
#define LANDLOCK_SCOPES 3ull              /* 6: abstract Unix sockets, signals */
#define LANDLOCK_FS_READ_FILE (1ull << 2)
#define LANDLOCK_FS_READ_DIR (1ull << 3)
#define LANDLOCK_PATH_BENEATH 1

struct landlock_beneath {
    uint64_t allowed;
    int32_t fd;
} __attribute__((packed));

/* Allows reading a file, or all files beneath a folder. */
static int landlock_allow_reading(int rules, int fd)
{
    struct stat st;
    struct landlock_beneath rule = {LANDLOCK_FS_READ_FILE, fd};
    if (fstat(fd, &st))
        return -1;
    if (S_ISDIR(st.st_mode))
        rule.allowed |= LANDLOCK_FS_READ_DIR;
    return (int)syscall(SYS_landlock_add_rule, rules, LANDLOCK_PATH_BENEATH, &rule, 0);
}

/* Allows reading the folders of a library's dependencies; missing ones are skipped. */
static int landlock_allow_libraries(int rules)
{
    static const char *const places[] = {"/usr", "/lib", "/lib64", "/etc/ld.so.cache"};
    int rc = 0;
    for (size_t i = 0; !rc && i < sizeof places / sizeof *places; i++) {
        int fd = open(places[i], O_PATH | O_CLOEXEC);
        if (fd < 0)
            continue;
        rc = landlock_allow_reading(rules, fd);
        close(fd);
    }
    return rc;
}

/* Restricts everything that this kernel's version knows. Nothing stays allowed, or with `fds`
 * reading those files and the system's libraries. Returns the version, 0 if there is none (or a
 * container hides it), -1 with errno. */
static int landlock_enter(const int *fds, size_t n_fds)
{
    int version = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_VERSION_FLAG);
    if (version <= 0)
        return 0;
    struct landlock_rules rules = {.filesystem = LANDLOCK_FS_V1};
    if (version >= 2)
        rules.filesystem |= LANDLOCK_FS_REFER;
    if (version >= 3)
        rules.filesystem |= LANDLOCK_FS_TRUNCATE;
    if (version >= 4)
        rules.network = LANDLOCK_NET_TCP;
    if (version >= 5)
        rules.filesystem |= LANDLOCK_FS_IOCTL;
    if (version >= 6)
        rules.scopes = LANDLOCK_SCOPES;
    int fd = (int)syscall(SYS_landlock_create_ruleset, &rules, sizeof rules, 0);
    if (fd < 0)
        return -1;
    int rc = fds ? landlock_allow_libraries(fd) : 0;
    for (size_t i = 0; !rc && i < n_fds; i++)
        rc = fds[i] < 0 ? 0 : landlock_allow_reading(fd, fds[i]);
    if (!rc)
        rc = (int)syscall(SYS_landlock_restrict_self, fd, 0);
    close(fd);
    return rc ? -1 : version;
}

/* ---- the system-call filter ---- */

#if defined __x86_64__
#define AUDIT_ARCH_OURS AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define AUDIT_ARCH_OURS AUDIT_ARCH_AARCH64
#else
#error "the system-call filter has no table for this machine"
#endif

enum argument_test { ANY, EQUAL, BIT_SET, BIT_CLEAR, NEVER };

/* One call, allowed if its argument `index` passes; several lines for one call are alternatives.
 * NEVER: fails with `value` instead of EPERM. */
struct rule {
    int number;
    enum argument_test test;
    unsigned index;
    uint32_t value;
};
#define SELF UINT32_MAX /* stands for the own process id */

static const struct rule rules[] = {
    /* Memory; never as code. */
    {SYS_brk, ANY, 0, 0},
    {SYS_mmap, BIT_CLEAR, 2, PROT_EXEC},
    {SYS_mprotect, BIT_CLEAR, 2, PROT_EXEC},
    {SYS_munmap, ANY, 0, 0},
    {SYS_mremap, ANY, 0, 0},
    {SYS_madvise, ANY, 0, 0},
    {SYS_memfd_create, ANY, 0, 0},
    {SYS_ftruncate, ANY, 0, 0},
    {SYS_fallocate, ANY, 0, 0},
    /* Open descriptors. Not F_SETOWN, which sends signals. */
    {SYS_read, ANY, 0, 0},
    {SYS_write, ANY, 0, 0},
    {SYS_readv, ANY, 0, 0},
    {SYS_writev, ANY, 0, 0},
    {SYS_pread64, ANY, 0, 0},
    {SYS_pwrite64, ANY, 0, 0},
    {SYS_lseek, ANY, 0, 0},
    {SYS_close, ANY, 0, 0},
    {SYS_fstat, ANY, 0, 0},
    {SYS_dup, ANY, 0, 0},
    {SYS_fcntl, EQUAL, 1, F_DUPFD_CLOEXEC},
    {SYS_fcntl, EQUAL, 1, F_GETFD},
    {SYS_fcntl, EQUAL, 1, F_SETFD},
    {SYS_fcntl, EQUAL, 1, F_GETFL},
    {SYS_fcntl, EQUAL, 1, F_ADD_SEALS},
    {SYS_fcntl, EQUAL, 1, F_GET_SEALS},
    {SYS_sendmsg, ANY, 0, 0},
    {SYS_recvmsg, ANY, 0, 0},
    {SYS_ppoll, ANY, 0, 0},
#ifdef SYS_poll
    {SYS_poll, ANY, 0, 0},
#endif
    /* Own threads, which code generation uses; never a process. */
    {SYS_clone, BIT_SET, 0, CLONE_THREAD},
    {SYS_clone3, NEVER, 0, ENOSYS}, /* its flags are in memory: the C library falls back to clone */
    {SYS_futex, ANY, 0, 0},
    {SYS_set_robust_list, ANY, 0, 0},
    {SYS_rseq, ANY, 0, 0},
    {SYS_sched_yield, ANY, 0, 0},
    {SYS_sched_getaffinity, ANY, 0, 0},
    {SYS_gettid, ANY, 0, 0},
    {SYS_getpid, ANY, 0, 0},
    {SYS_exit, ANY, 0, 0},
    {SYS_exit_group, ANY, 0, 0},
    /* Own limits (NVRTC raises its stack), usage and clocks. */
    {SYS_prlimit64, EQUAL, 0, 0},
    {SYS_getrlimit, ANY, 0, 0},
    {SYS_setrlimit, ANY, 0, 0},
    {SYS_getrusage, ANY, 0, 0},
    {SYS_sysinfo, ANY, 0, 0},
    {SYS_times, ANY, 0, 0},
    {SYS_clock_gettime, ANY, 0, 0},
    {SYS_clock_getres, ANY, 0, 0},
    {SYS_clock_nanosleep, ANY, 0, 0},
    {SYS_nanosleep, ANY, 0, 0},
    {SYS_gettimeofday, ANY, 0, 0},
#ifdef SYS_time
    {SYS_time, ANY, 0, 0},
#endif
    {SYS_uname, ANY, 0, 0},
    {SYS_getuid, ANY, 0, 0},
    {SYS_geteuid, ANY, 0, 0},
    {SYS_getgid, ANY, 0, 0},
    {SYS_getegid, ANY, 0, 0},
    {SYS_getrandom, ANY, 0, 0},
    /* Signals to the process itself: abort(). */
    {SYS_rt_sigaction, ANY, 0, 0},
    {SYS_rt_sigprocmask, ANY, 0, 0},
    {SYS_rt_sigreturn, ANY, 0, 0},
    {SYS_sigaltstack, ANY, 0, 0},
    {SYS_restart_syscall, ANY, 0, 0},
    {SYS_tgkill, EQUAL, 0, SELF},
    /* Files by name: none exists. */
    {SYS_openat, NEVER, 0, EACCES},
#ifdef SYS_open
    {SYS_open, NEVER, 0, EACCES},
#endif
};
#define N_RULES (sizeof rules / sizeof *rules)

struct program {
    struct sock_filter code[16 + 5 * N_RULES];
    unsigned short len;
};

static void emit(struct program *p, uint16_t code, uint32_t value, uint8_t if_true,
                 uint8_t if_false)
{
    p->code[p->len++] = (struct sock_filter){code, if_true, if_false, value};
}

/* Loads the low half of an argument: flags, small numbers and process ids have no other. */
static uint32_t argument_offset(unsigned index)
{
    return (uint32_t)(offsetof(struct seccomp_data, args) + index * sizeof(uint64_t));
}

/* Adds a rule. The accumulator holds the call's number before it and, if the rule does not apply,
 * after it. */
static void emit_rule(struct program *p, const struct rule *rule)
{
    const uint16_t jump_equal = BPF_JMP | BPF_JEQ | BPF_K, jump_set = BPF_JMP | BPF_JSET | BPF_K;
    uint32_t value = rule->value == SELF ? (uint32_t)getpid() : rule->value;
    if (rule->test == ANY || rule->test == NEVER) {
        emit(p, jump_equal, (uint32_t)rule->number, 0, 1);
        emit(p, BPF_RET | BPF_K, rule->test == ANY ? SECCOMP_RET_ALLOW : SECCOMP_RET_ERRNO | value,
             0, 0);
        return;
    }
    emit(p, jump_equal, (uint32_t)rule->number, 0, 4);
    emit(p, BPF_LD | BPF_W | BPF_ABS, argument_offset(rule->index), 0, 0);
    bool inverted = rule->test == BIT_CLEAR;
    emit(p, rule->test == EQUAL ? jump_equal : jump_set, value, inverted, !inverted);
    emit(p, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
    emit(p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
}

static int seccomp_enter(void)
{
    struct program p = {.len = 0};
    emit(&p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), 0, 0);
    emit(&p, BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_OURS, 1, 0);
    emit(&p, BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS, 0, 0);
    emit(&p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
    for (size_t i = 0; i < N_RULES; i++)
        emit_rule(&p, &rules[i]);
    emit(&p, BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM, 0, 0);
    struct sock_fprog program = {.len = p.len, .filter = p.code};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

int sandbox_load_only(const int *fds, size_t n_fds, struct err *e)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return err_sys(e, WARM_EDENIED, errno, "cannot give up new privileges");
    if (landlock_enter(fds, n_fds) < 0)
        return err_sys(e, WARM_EDENIED, errno, "cannot put Landlock in force");
    return 0;
}

int sandbox_close_files(int *out_landlock, struct err *e)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return err_sys(e, WARM_EDENIED, errno, "cannot give up new privileges");
    *out_landlock = landlock_enter(NULL, 0);
    if (*out_landlock < 0)
        return err_sys(e, WARM_EDENIED, errno, "cannot put Landlock in force");
    return 0;
}

bool sandbox_has_filter(void)
{
    /* Tries an unreadable filter: EINVAL means that there are no filters. seccomp(2) would not do,
     * since a service manager may deny it and allow this. */
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0) && errno == EFAULT;
}

int sandbox_close_calls(struct err *e)
{
    if (sandbox_has_filter() && seccomp_enter())
        return err_sys(e, WARM_EDENIED, errno, "cannot put the system-call filter in force");
    return 0;
}
