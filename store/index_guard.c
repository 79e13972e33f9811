/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index_guard.c - decides if this process may trust an index. open.c calls it once, before it opens the
 * environment and before the store has threads.
 *
 * LMDB reads its file through a memory map and has no page checksums. A damaged page can end in SIGBUS,
 * SIGSEGV, an assertion or an endless loop. So a child process looks first, and its end is the answer. It
 * opens the file read-only and without LMDB's lock file.
 *
 *   few pages    at each start, at constant cost: meta pages, format and totals; then the first, the last
 *                and some random entries of each table, each found again by its key
 *   all entries  after a crash that a damaged index explains, or if the file is shorter than its meta page
 *                says: every entry of every table, in order and by its key. Then the entries are copied into a
 *                new file, which takes the place of the old one: damage that no entry shows, as of a page's
 *                bounds or of the list of free pages, stays behind
 *
 * Thread: the one that opens the store.
 */
#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/internal.h"

#define FEW_SECONDS 5 /* of CPU time: an endless loop takes it, a slow disk does not */
#define ALL_SECONDS 300
#define RANDOM_PROBES 16u
#define COPY_RECORDS 1024u /* in one commit: a bound of its memory */

/* The child's exit status is an index into this. */
enum finding {
    SOUND,
    NOT_OPENED,
    NO_TABLE,
    BAD_META,
    BAD_ORDER,
    NOT_FOUND_AGAIN,
    BAD_COUNT,
    NOT_COPIED,
    ASSERTED,
    RENEWED, /* sound, and copied */
    N_FINDINGS
};
static const char *const finding_text[N_FINDINGS] = {
    [SOUND] = "",
    [NOT_OPENED] = "it cannot be opened",
    [NO_TABLE] = "a table is missing",
    [BAD_META] = "its format or totals cannot be read",
    [BAD_ORDER] = "entries are out of order",
    [NOT_FOUND_AGAIN] = "an entry is not found by its key",
    [BAD_COUNT] = "a table does not have as many entries as it says",
    [NOT_COPIED] = "an entry cannot be copied",
    [ASSERTED] = "a check inside LMDB failed on it",
};

struct probe {
    MDB_env *env, *copy; /* copy: NULL until all is sound */
    MDB_txn *txn;
    bool thorough;
};

static void on_child_assert(MDB_env *env, const char *text)
{
    (void)env, (void)text;
    _exit(ASSERTED);
}

/* Looks up a key of the table: it must be found. */
static enum finding find_again(struct probe *p, MDB_dbi dbi, MDB_val key)
{
    MDB_val data;
    return mdb_get(p->txn, dbi, &key, &data) == 0 ? SOUND : NOT_FOUND_AGAIN;
}

static enum finding check_ends(struct probe *p, MDB_dbi dbi, MDB_cursor *cursor)
{
    static const MDB_cursor_op ends[] = {MDB_FIRST, MDB_LAST};
    MDB_val key, data;
    for (size_t i = 0; i < 2; i++) {
        int rc = mdb_cursor_get(cursor, &key, &data, ends[i]);
        if (rc == MDB_NOTFOUND)
            return SOUND;
        if (rc != 0)
            return BAD_ORDER;
        enum finding f = find_again(p, dbi, key);
        if (f != SOUND)
            return f;
    }
    for (unsigned i = 0; i < RANDOM_PROBES; i++) {
        uint8_t random[2 + 4] = {0xff, 0xff, 0xff, 0xfe, (uint8_t)(i * 16), (uint8_t)rand()};
        key = (MDB_val){sizeof random, random};
        int rc = mdb_cursor_get(cursor, &key, &data, MDB_SET_RANGE);
        if (rc != 0 && rc != MDB_NOTFOUND)
            return BAD_ORDER;
        enum finding f = rc == 0 ? find_again(p, dbi, key) : SOUND;
        if (f != SOUND)
            return f;
    }
    return SOUND;
}

static enum finding check_all(struct probe *p, MDB_dbi dbi, MDB_cursor *cursor)
{
    MDB_val key, data, last = {0, NULL};
    MDB_stat stat;
    size_t n = 0;
    int rc = mdb_stat(p->txn, dbi, &stat);
    while (rc == 0 && (rc = mdb_cursor_get(cursor, &key, &data, MDB_NEXT)) == 0) {
        int order = n ? mdb_cmp(p->txn, dbi, &last, &key) : -1;
        if (order > 0 || ++n > stat.ms_entries)
            return BAD_ORDER;
        enum finding f = find_again(p, dbi, key);
        if (f != SOUND)
            return f;
        last = key;
    }
    return rc == MDB_NOTFOUND && n == stat.ms_entries ? SOUND : BAD_COUNT;
}

/* Copies a table. A full disk is no fault of the file: then the index stays as it is. */
static enum finding copy_all(struct probe *p, const char *name, unsigned flags, MDB_cursor *cursor)
{
    MDB_val key, data;
    MDB_txn *txn;
    MDB_dbi dbi;
    unsigned order = flags & MDB_DUPSORT ? 0 : MDB_APPEND;
    int rc = mdb_txn_begin(p->copy, NULL, 0, &txn);
    rc = rc ? rc : mdb_dbi_open(txn, name, flags | MDB_CREATE, &dbi);
    for (size_t n = 1; rc == 0 && (rc = mdb_cursor_get(cursor, &key, &data, MDB_NEXT)) == 0; n++) {
        rc = mdb_put(txn, dbi, &key, &data, order);
        if (rc == 0 && n % COPY_RECORDS == 0 && (rc = mdb_txn_commit(txn)) == 0)
            rc = mdb_txn_begin(p->copy, NULL, 0, &txn);
    }
    rc = rc == MDB_NOTFOUND ? mdb_txn_commit(txn) : rc;
    if (rc > 0 && !index_is_damage(rc))
        _exit(SOUND);
    return rc ? NOT_COPIED : SOUND;
}

static enum finding check_table(struct probe *p, const char *name, unsigned flags, MDB_dbi *dbi)
{
    MDB_cursor *cursor;
    if (mdb_dbi_open(p->txn, name, flags, dbi) != 0)
        return NO_TABLE;
    if (mdb_cursor_open(p->txn, *dbi, &cursor) != 0)
        return NO_TABLE;
    if (p->copy)
        return copy_all(p, name, flags, cursor);
    return p->thorough ? check_all(p, *dbi, cursor) : check_ends(p, *dbi, cursor);
}

static enum finding check_numbers(struct probe *p, MDB_dbi meta, const char *name, size_t n,
                                  uint64_t *out)
{
    char text[32];
    int len = snprintf(text, sizeof text, "%s", name);
    MDB_val key = {(size_t)len, text}, data;
    if (mdb_get(p->txn, meta, &key, &data) != 0)
        return BAD_META;
    return numbers_decode(data.mv_data, data.mv_size, out, n) ? SOUND : BAD_META;
}

static enum finding check_tables(struct probe *p)
{
    static const struct {
        const char *name;
        unsigned flags, since; /* the first format that has it */
    } tables[] = {{"row", 0, 1},   {"value", 0, 1},
                  {"blob", 0, 1},  {"group", MDB_DUPSORT | MDB_DUPFIXED, 1},
                  {"usage", 0, 1}, {"share", 0, 2}};
    uint64_t format = 0, totals[TOTALS_NUMBERS];
    MDB_dbi dbi = 0;
    enum finding f = check_table(p, "meta", 0, &dbi);
    if (f == SOUND)
        f = check_numbers(p, dbi, "format", 1, &format);
    if (f == SOUND)
        f = check_numbers(p, dbi, "totals", TOTALS_NUMBERS, totals);
    for (size_t i = 0; f == SOUND && i < sizeof tables / sizeof *tables; i++)
        if (format >= tables[i].since)
            f = check_table(p, tables[i].name, tables[i].flags, &dbi);
    return f;
}

static int open_env(MDB_env **out, const char *path, uint64_t map_bytes, unsigned flags)
{
    int rc = mdb_env_create(out);
    rc = rc ? rc : mdb_env_set_maxdbs(*out, 8);
    if (rc)
        _exit(SOUND); /* no memory: no fault of the file */
    mdb_env_set_mapsize(*out, (size_t)map_bytes + (64u << 20));
    mdb_env_set_assert(*out, on_child_assert);
    return mdb_env_open(*out, path, flags | MDB_NOLOCK | MDB_NORDAHEAD, 0600);
}

/* Copies all tables into an environment of its own. */
static enum finding renew(struct probe *p, const char *path, uint64_t size)
{
    char fresh[4096 + 8];
    snprintf(fresh, sizeof fresh, "%s" INDEX_FRESH, path);
    setitimer(ITIMER_PROF, &(struct itimerval){.it_value = {0}},
              NULL); /* that all can be read is known */
    if (mkdir(fresh, 0700) != 0 || open_env(&p->copy, fresh, 2 * size, MDB_NOSYNC) != 0)
        return SOUND;
    enum finding f = check_tables(p);
    return f ? f : mdb_env_sync(p->copy, 1) == 0 ? RENEWED : SOUND;
}

/* Runs in the child. */
static enum finding look(const char *path, uint64_t size, bool thorough, bool renews)
{
    struct probe p = {.thorough = thorough};
    MDB_envinfo info;
    MDB_stat stat;
    if (open_env(&p.env, path, size, MDB_RDONLY) != 0)
        return NOT_OPENED;
    if (mdb_env_stat(p.env, &stat) != 0 || mdb_env_info(p.env, &info) != 0 ||
        info.me_last_pgno > (uint64_t)1 << 40)
        return NOT_OPENED;
    if (info.me_last_txnid == 0)
        return SOUND; /* made, never written */
    /* cut off, or it lacks pages that were never written */
    p.thorough |= size / stat.ms_psize <= info.me_last_pgno;
    if (mdb_txn_begin(p.env, NULL, MDB_RDONLY, &p.txn) != 0)
        return NOT_OPENED;
    enum finding f = check_tables(&p);
    return f == SOUND && p.thorough && renews ? renew(&p, path, size) : f;
}

static void child(const char *path, uint64_t size, bool thorough, bool renews, int lock_fd)
{
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE, SIGPROF, SIGTERM, SIGINT};
    const struct itimerval limit = {.it_value.tv_sec = thorough ? ALL_SECONDS : FEW_SECONDS};
    sigset_t none;
    close(lock_fd); /* the lock must not outlive the parent */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_DUMPABLE, 0); /* a core file of this child would tell nothing */
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
        signal(fatal[i], SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setitimer(ITIMER_PROF, &limit, NULL);
    _exit((int)look(path, size, thorough, renews));
}

/* True for signals whose cause is not the file: out of memory, a filter of system calls, a person. */
static bool says_nothing(int sig)
{
    return sig == SIGKILL || sig == SIGSYS || sig == SIGTERM || sig == SIGINT;
}

bool index_guard_check(const char *dir, int lock_fd, bool thorough, bool renews, const char **why)
{
    char path[4096], file[4096 + 16];
    struct stat st;
    int status;
    snprintf(path, sizeof path, "%s/index", dir);
    snprintf(file, sizeof file, "%s/data.mdb", path);
    if (stat(file, &st) != 0 || st.st_size == 0)
        return true; /* nothing to look at */
    if (renews)
        index_renew(dir, false); /* of a process that was killed */
    pid_t pid = fork();
    if (pid < 0)
        return true; /* no child can start: trust it, since each record is checked when it is read */
    if (pid == 0)
        child(path, (uint64_t)st.st_size, thorough, renews, lock_fd);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return true; /* somebody else reaps children here */
    bool is_renewed = WIFEXITED(status) && WEXITSTATUS(status) == RENEWED;
    if (renews)
        index_renew(dir, is_renewed);
    if (is_renewed ||
        (WIFSIGNALED(status) ? says_nothing(WTERMSIG(status)) : WEXITSTATUS(status) == SOUND))
        return true;
    *why = WIFSIGNALED(status)                ? "reading it crashes"
           : WEXITSTATUS(status) < N_FINDINGS ? finding_text[WEXITSTATUS(status)]
                                              : "reading it fails";
    return false;
}
