/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pch.c - decides when a precompiled header is made for real. run_cached.c leaves stubs with it,
 * and asks for the real headers before a real run; pch.h has the contract.
 *
 *     stub    "warm-pch-stub 1", then the folder, the program and each argument, each ended by NUL
 *     X.warm  "warm-pch-made 1", NUL, the stamp of X (five u64), a manifest of one set (inputs.h)
 *
 * Thread: main.
 */
#define XXH_INLINE_ALL
#include "client/tool/pch.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/tool/file_state.h"

static const char stub_magic[] = "warm-pch-stub 1", made_magic[] = "warm-pch-made 1";
#define STUB_MAX (1u << 20) /* bytes */
#define STUB_ARGS_MAX 4096

/* ---- files beside the header ---- */

static int write_whole(const char *path, const struct writer *w, struct err *e)
{
    char temporary[PATH_MAX];
    int n = snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    int fd = n > 0 && n < PATH_MAX && !w->failed ? mkostemp(temporary, O_CLOEXEC) : -1;
    if (fd < 0)
        return err_sys(e, WARM_EIO, errno, "cannot make %s", path);
    bool ok = write(fd, w->data, w->len) == (ssize_t)w->len;
    ok = close(fd) == 0 && ok && rename(temporary, path) == 0;
    if (!ok) {
        unlink(temporary);
        return err_set(e, WARM_EIO, "cannot write %s", path);
    }
    return 0;
}

static bool begins_with(const char *path, const char *text, size_t len)
{
    char head[32];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return false;
    bool same = read(fd, head, len) == (ssize_t)len && memcmp(head, text, len) == 0;
    close(fd);
    return same;
}

bool pch_is_stub(const char *path) { return begins_with(path, stub_magic, sizeof stub_magic); }

bool pch_is_absent_or_stub(const char *path)
{
    struct stat st;
    if (lstat(path, &st) < 0)
        return errno == ENOENT || errno == ENOTDIR;
    return pch_is_stub(path);
}

int pch_write_stub(const struct tool_job *job, struct err *e)
{
    assert(job && job->n_outputs >= 1);
    struct writer w;
    char cwd[PATH_MAX];
    if (!getcwd(cwd, sizeof cwd))
        return err_sys(e, WARM_EIO, errno, "cannot tell the name of the working folder");
    writer_init(&w, STUB_MAX);
    writer_bytes(&w, stub_magic, sizeof stub_magic);
    writer_bytes(&w, cwd, strlen(cwd) + 1);
    writer_bytes(&w, job->program, strlen(job->program) + 1);
    for (int i = 0; i < job->argc; i++)
        writer_bytes(&w, job->argv[i], strlen(job->argv[i]) + 1);
    int code = write_whole(job->outputs[0], &w, e);
    writer_close(&w);
    return code;
}

/* ---- inputs of a real header ---- */

static int made_path(const char *path, char out[PATH_MAX])
{
    int n = snprintf(out, PATH_MAX, "%s.warm", path);
    return n > 0 && n < PATH_MAX ? 0 : WARM_ETOO_BIG;
}

/* Appends the inputs with full paths instead of roots. */
static int write_plain(const struct tool_job *job, const struct inputs *in, struct writer *w)
{
    struct inputs plain = {.n_sets = 1, .n = in->n, .list = calloc(in->n + 1, sizeof *in->list)};
    char(*paths)[PATH_MAX] = calloc(in->n + 1, sizeof *paths);
    if (!plain.list || !paths) {
        free(plain.list);
        free(paths);
        return WARM_ENOMEM;
    }
    for (size_t i = 0; i < in->n; i++) {
        plain.list[i] = in->list[i];
        if (in->list[i].root && in->list[i].root <= job->n_roots) {
            snprintf(paths[i], sizeof paths[i], "%s%s", job->roots[in->list[i].root - 1],
                     in->list[i].path);
            plain.list[i].path = paths[i];
            plain.list[i].root = 0;
        }
    }
    plain.sets[0] = plain.list;
    plain.set_len[0] = plain.n;
    inputs_write(&plain, NULL, w);
    free(plain.list);
    free(paths);
    return 0;
}

int pch_write_inputs(const struct tool_job *job, const char *path, const struct inputs *in,
                     struct err *e)
{
    assert(job && path && in && in->n_sets == 1);
    char made[PATH_MAX];
    struct stat st;
    struct writer w;
    if (made_path(path, made) || stat(path, &st) < 0)
        return err_set(e, WARM_ENOT_FOUND, "there is no precompiled header %s", path);
    struct stamp stamp = stamp_of(&st);
    writer_init(&w, 0);
    writer_bytes(&w, made_magic, sizeof made_magic);
    writer_bytes(&w, &stamp, sizeof stamp);
    int code = write_plain(job, in, &w);
    if (!code)
        code = write_whole(made, &w, e);
    writer_close(&w);
    return code;
}

int pch_read_inputs(const char *path, struct inputs *out, struct err *e)
{
    assert(path && out);
    char made[PATH_MAX];
    struct stat st;
    uint8_t *data;
    size_t len, head = sizeof made_magic + sizeof(struct stamp);
    if (made_path(path, made) || stat(path, &st) < 0)
        return err_set(e, WARM_ENOT_FOUND, "there is no precompiled header %s", path);
    int code = tool_read_file(made, INPUTS_BYTES_MAX, &data, &len, e);
    if (code)
        return code;
    struct stamp stamp = stamp_of(&st);
    if (len < head || memcmp(data, made_magic, sizeof made_magic) != 0 ||
        memcmp(data + sizeof made_magic, &stamp, sizeof stamp) != 0)
        code = err_set(e, WARM_ENOT_FOUND, "%s is not the precompiled header that warm made", path);
    else
        code = inputs_read(data + head, len - head, out, e);
    free(data);
    return code;
}

/* ---- making it ---- */

struct stub {
    char *cwd, *program;
    char *argv[STUB_ARGS_MAX + 8];
    int argc;
};

static int parse_stub(uint8_t *data, size_t len, struct stub *out)
{
    char *texts[STUB_ARGS_MAX + 2];
    size_t n = 0;
    if (len == 0 || data[len - 1] != '\0')
        return WARM_EMALFORMED;
    for (size_t at = sizeof stub_magic; at < len; at += strlen((char *)data + at) + 1) {
        if (n == STUB_ARGS_MAX + 2)
            return WARM_ETOO_BIG;
        texts[n++] = (char *)data + at;
    }
    if (n < 3)
        return WARM_EMALFORMED;
    *out = (struct stub){.cwd = texts[0], .program = texts[1], .argc = (int)(n - 2)};
    memcpy(out->argv, texts + 2, (n - 2) * sizeof *texts);
    return 0;
}

/* Becomes `warm tool --header PATH --argv0 ARGV0 -- PROGRAM ARGS`, in the stub's folder or, if that
 * is gone, in the header's. */
static void become_maker(const struct stub *stub, const char *path)
{
    char *argv[STUB_ARGS_MAX + 16], folder[PATH_MAX], self[PATH_MAX];
    static char tool[] = "tool", header[] = "--header", argv0[] = "--argv0", end[] = "--";
    static char warm[] = "warm";
    char *head[] = {warm, tool, header, folder, argv0, stub->argv[0], end, stub->program};
    size_t n = sizeof head / sizeof head[0];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    self[len > 0 ? len : 0] = '\0';
    char *copy = strdup(path), *slash = copy ? strrchr(copy, '/') : NULL;
    if (!slash)
        _exit(126);
    *slash = '\0';
    if (chdir(stub->cwd) < 0 && chdir(copy) < 0)
        _exit(126);
    snprintf(folder, sizeof folder, "%s", path);
    memcpy(argv, head, sizeof head);
    for (int i = 1; i < stub->argc; i++)
        argv[n++] = stub->argv[i];
    argv[n] = NULL;
    execv(self, argv);
    _exit(127);
}

static int make_from_stub(const char *path, struct err *e)
{
    uint8_t *data;
    size_t len;
    struct stub stub;
    int status, code = tool_read_file(path, STUB_MAX, &data, &len, e);
    if (code)
        return code;
    code = parse_stub(data, len, &stub);
    pid_t pid = code ? -1 : fork();
    if (pid == 0)
        become_maker(&stub, path);
    free(data);
    if (pid < 0)
        return err_set(e, WARM_EIO, "cannot start the compiler of the precompiled header %s", path);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return status == 0 ? 0
                       : err_set(e, WARM_ECRASHED,
                                 "the compiler of the precompiled header %s failed", path);
}

int pch_make_real(const char *path, struct err *e)
{
    assert(path);
    char lock[PATH_MAX];
    if (!pch_is_stub(path))
        return 0;
    int n = snprintf(lock, sizeof lock, "%s.warm.lock", path);
    int fd = n > 0 && n < PATH_MAX ? open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd < 0)
        return err_sys(e, WARM_EIO, errno, "cannot lock %s", path);
    int code = flock(fd, LOCK_EX) < 0 ? WARM_EIO : 0;
    if (!code && pch_is_stub(path)) /* no other process made it while we waited */
        code = make_from_stub(path, e);
    close(fd);
    return code;
}
