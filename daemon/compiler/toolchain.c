/* SPDX-License-Identifier: Apache-2.0 */
/*
 * toolchain.c - decides which files are an NVRTC that may be loaded, and identifies it by its content.
 *
 * toolchains.c locates and identifies; pool.c starts fork servers. Locating and identifying read disks:
 * they block.
 *
 * Thread: any; no state.
 */
#define OPENSSL_API_COMPAT 0x10100000L /* the SHA256_* calls: nothing to allocate, nothing fails */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "daemon/compiler/toolchain.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include "client/lib/nvrtc_id.h"
#include "client/lib/owned_path.h"

#define RECORD_VERSION 2u
#define READ_SIZE ((size_t)1 << 20) /* bytes of one read */

/* ---- finding the files ---- */

/* Finds a library in the folder, or in the sub-folder of a toolkit or a wheel. */
static char *library_in(const char *folder)
{
    static const char *const below[] = {"", "/lib", "/lib64", CUDA_TARGET_LIB};
    for (size_t i = 0; i < sizeof below / sizeof *below; i++) {
        char *place = NULL, *path = NULL, name[NAME_MAX + 1];
        if (asprintf(&place, "%s%s", folder, below[i]) < 0)
            return NULL;
        if (nvrtc_newest_entry(place, "libnvrtc.so", name) &&
            asprintf(&path, "%s/%s", place, name) < 0)
            path = NULL;
        free(place);
        if (path)
            return path;
    }
    return NULL;
}

static int file_at(const char *path, struct worker_file *out)
{
    struct stat st;
    *out = (struct worker_file){0};
    if (*path && stat(path, &st))
        return -1;
    if (*path)
        *out = worker_file_of(&st);
    return 0;
}

int toolchain_locate(const char *given, struct toolchain_files *out, struct err *e)
{
    struct stat st;
    *out = (struct toolchain_files){0};
    if (stat(given, &st))
        return err_sys(e, WARM_ENO_TOOLCHAIN, errno, "%s", given);
    out->library = S_ISDIR(st.st_mode) ? library_in(given) : strdup(given);
    if (!out->library)
        return err_set(e, WARM_ENO_TOOLCHAIN, "%s has no libnvrtc.so", given);
    out->builtins = nvrtc_builtins_of(out->library);
    if (out->builtins && !file_at(out->library, &out->library_file) &&
        !file_at(out->builtins, &out->builtins_file))
        return 0;
    int code = err_sys(e, WARM_ENO_TOOLCHAIN, errno, "%s", out->library);
    toolchain_files_close(out);
    return code;
}

/* ---- may the library that a client names be loaded? ---- */

#define NAME_PREFIX "libnvrtc.so"

/* Checks the file system: a user who may mount one chooses the owners in it. The kernel marks a
 * user's mount nosuid. A service manager may mark everything so, and then the mark tells
 * nothing. */
static int check_mount(const char *path, int fd, struct err *e)
{
    struct statvfs here, root;
    struct statfs kind;
    if (fstatvfs(fd, &here) || fstatfs(fd, &kind) || statvfs("/", &root))
        return err_sys(e, WARM_ENO_TOOLCHAIN, errno, "%s", path);
    if (kind.f_type == FUSE_SUPER_MAGIC)
        return err_set(e, WARM_ENO_TOOLCHAIN, "%s lies on a FUSE file system: it is not loaded",
                       path);
    if (here.f_flag & (ST_NOEXEC | (~root.f_flag & ST_NOSUID)))
        return err_set(e, WARM_ENO_TOOLCHAIN,
                       "%s lies on a file system that is mounted nosuid or noexec: it is not "
                       "loaded",
                       path);
    return 0;
}

/* Checks who may change the file, and who may put another library beside it. `path` has no links in it. */
static int check_owners(const char *path, struct err *e)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    if (owned_path_check(path, "the compiler", e) != 0 ||
        owned_path_check(folder, "the compiler", e) != 0)
        return e->code = WARM_ENO_TOOLCHAIN;
    return 0;
}

/* Checks the very file that was located. O_PATH, since opening a device or a FIFO could have
 * effects. */
static int check_file(const char *path, const struct worker_file *located,
                      const struct toolchain_folders *folders, struct err *e)
{
    struct stat st;
    int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st)) {
        int code = err_sys(e, WARM_ENO_TOOLCHAIN, errno, "%s", path);
        if (fd >= 0)
            close(fd);
        return code;
    }
    struct worker_file file = worker_file_of(&st);
    int code = 0;
    if (!S_ISREG(st.st_mode))
        code = err_set(e, WARM_ENO_TOOLCHAIN, "%s is not a file", path);
    else if (!worker_file_equal(&file, located))
        code = err_set(e, WARM_ENO_TOOLCHAIN, "%s is being replaced: ask again", path);
    else if (folders && !toolchain_folders_have(folders, (struct view){path, strlen(path)}))
        code = err_set(e, WARM_ENO_TOOLCHAIN, "%s lies in none of the folders of nvrtc_from", path);
    if (!code)
        code = check_owners(path, e);
    if (!code && folders)
        code = check_mount(path, fd, e);
    close(fd);
    return code;
}

bool toolchain_folders_have(const struct toolchain_folders *folders, struct view path)
{
    const char *text = path.data;
    for (size_t i = 0; i < path.len; i++) {
        size_t part = 0;
        if (text[i] != '/')
            continue;
        while (i + 1 + part < path.len && text[i + 1 + part] != '/')
            part++;
        if (part == 0 || (text[i + 1] == '.' && (part == 1 || (part == 2 && text[i + 2] == '.'))))
            return false;
    }
    for (size_t i = 0; i < folders->n; i++) {
        size_t len = strlen(folders->list[i]);
        if (path.len > len && memcmp(text, folders->list[i], len) == 0 && text[len] == '/')
            return true;
    }
    return false;
}

static bool is_library_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && strncmp(slash + 1, NAME_PREFIX, sizeof NAME_PREFIX - 1) == 0;
}

int toolchain_locate_trusted(const char *path, const struct toolchain_folders *folders,
                             struct toolchain_files *out, struct err *e)
{
    char *real = is_library_name(path) ? realpath(path, NULL) : NULL;
    if (!real || !is_library_name(real)) {
        free(real);
        return err_set(e, WARM_ENO_TOOLCHAIN, "no " NAME_PREFIX " at %s", path);
    }
    int code = toolchain_locate(real, out, e);
    free(real);
    if (code)
        return code;
    code = check_file(out->library, &out->library_file, folders, e);
    if (!code && *out->builtins && !(real = realpath(out->builtins, NULL)))
        code = err_sys(e, WARM_ENO_TOOLCHAIN, errno, "%s", out->builtins);
    if (!code && *out->builtins) {
        free(out->builtins);
        out->builtins = real;
        code = check_file(out->builtins, &out->builtins_file, folders, e);
    }
    if (code)
        toolchain_files_close(out);
    return code;
}

bool toolchain_files_hold(const struct toolchain_files *files)
{
    struct worker_file library, builtins;
    return !file_at(files->library, &library) && !file_at(files->builtins, &builtins) &&
           worker_file_equal(&library, &files->library_file) &&
           worker_file_equal(&builtins, &files->builtins_file);
}

void toolchain_files_close(struct toolchain_files *files)
{
    free(files->library);
    free(files->builtins);
    *files = (struct toolchain_files){0};
}

/* ---- remembering ---- */

void toolchain_record_name(const struct toolchain_files *files, char out[TOOLCHAIN_NAME_MAX])
{
    struct worker_file both[] = {files->library_file, files->builtins_file};
    struct proof proof = proof_of_bytes(both, sizeof both);
    struct key key;
    char text[WARM_KEY_TEXT];
    memcpy(key.bytes, proof.bytes, sizeof key.bytes);
    key_to_text(&key, text);
    snprintf(out, TOOLCHAIN_NAME_MAX, "nvrtc-%s", text);
}

void toolchain_encode(const struct toolchain *t, struct writer *w)
{
    writer_u16(w, RECORD_VERSION);
    writer_bytes(w, &t->id, sizeof t->id);
    writer_u32(w, (uint32_t)t->major);
    writer_u32(w, (uint32_t)t->minor);
    writer_text(w, t->archs);
}

/* Fills in the path and the text for people. NOMEM. */
static int toolchain_name(struct toolchain *t, const struct toolchain_files *files, struct err *e)
{
    char id[WARM_KEY_TEXT];
    key_to_text(&t->id, id);
    const char *slash = strrchr(files->library, '/');
    snprintf(t->text, sizeof t->text, "NVRTC %d.%d (%.80s, %.8s)", t->major, t->minor,
             slash ? slash + 1 : files->library, id);
    t->path = strdup(files->library);
    return t->path && t->archs ? 0 : err_set(e, WARM_ENOMEM, "out of memory");
}

int toolchain_decode(const struct toolchain_files *files, const void *data, size_t len,
                     struct toolchain *out, struct err *e)
{
    struct reader r = reader_over(data, len);
    *out = (struct toolchain){0};
    uint16_t version = reader_u16(&r);
    reader_copy(&r, &out->id, sizeof out->id);
    out->major = (int)reader_u32(&r);
    out->minor = (int)reader_u32(&r);
    struct view archs = reader_blob(&r, TOOLCHAIN_RECORD_MAX);
    if (version != RECORD_VERSION || !reader_done(&r))
        return err_set(e, WARM_EMALFORMED, "what is remembered of %s", files->library);
    out->archs = strndup(archs.data, archs.len);
    int code = toolchain_name(out, files, e);
    if (code)
        toolchain_close(out);
    return code;
}

void toolchain_close(struct toolchain *t)
{
    free(t->path);
    free(t->archs);
    *t = (struct toolchain){0};
}

/* ---- starting a fork server ---- */

/* Opens a file that was located, if it is still that file. *out is -1 for an empty path. */
static int open_located(const char *path, const struct worker_file *located, int *out,
                        struct err *e)
{
    struct stat st;
    *out = *path ? open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
    if (!*path)
        return 0;
    if (*out < 0)
        return err_sys(e, WARM_ENO_TOOLCHAIN, errno, "%s", path);
    struct worker_file file = {0};
    int error = fstat(*out, &st) ? errno : 0;
    if (!error)
        file = worker_file_of(&st);
    if (!error && worker_file_equal(&file, located))
        return 0;
    close(*out);
    *out = -1;
    return error ? err_sys(e, WARM_ENO_TOOLCHAIN, error, "%s", path)
                 : err_set(e, WARM_ENO_TOOLCHAIN, "%s is being replaced: ask again", path);
}

/* Sends a new fork server the files to load. */
static int send_files(int socket, const struct toolchain_files *files, struct err *e)
{
    struct worker_files message = {.type = WORKER_FILES, .has_builtins = *files->builtins};
    int fds[2] = {-1, -1};
    int code = open_located(files->library, &files->library_file, &fds[0], e);
    if (!code)
        code = open_located(files->builtins, &files->builtins_file, &fds[1], e);
    if (!code && packet_send(socket, &message, sizeof message, fds, message.has_builtins ? 2 : 1))
        code = err_sys(e, WARM_EIO, errno, "cannot give a worker its compiler");
    for (size_t i = 0; i < 2; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    return code;
}

int worker_start(const struct worker_program *program, const struct toolchain_files *files,
                 int *out_fd, uint64_t *out_id, struct err *e)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
        return err_sys(e, WARM_EIO, errno, "cannot make a socket to a fork server");
    char uid[16], gid[16];
    snprintf(uid, sizeof uid, "%u", (unsigned)program->uid);
    snprintf(gid, sizeof gid, "%u", (unsigned)program->gid);
    char *path = strdup(program->path);
    char *argv[] = {path, files->library, files->builtins, uid, gid, NULL};
    struct spawn spawn = {.id = spawner_next_id(program->spawner), .argv = argv, .fd = pair[1]};
    int code = path ? send_files(pair[0], files, e) : err_set(e, WARM_ENOMEM, "out of memory");
    if (!code)
        code = spawner_run(program->spawner, &spawn, e);
    free(path);
    close(pair[1]);
    if (code) {
        close(pair[0]);
        return code;
    }
    *out_fd = pair[0];
    *out_id = spawn.id;
    return 0;
}

/* ---- identifying; blocks ---- */

/* Reads a whole file. */
static int read_file(const char *path, const struct worker_file *located, char *buffer,
                     struct nvrtc_file *out, struct err *e)
{
    int fd, code = open_located(path, located, &fd, e);
    if (code)
        return code;
    SHA256_CTX state;
    SHA256_Init(&state);
    ssize_t n;
    out->len = 0;
    while ((n = read(fd, buffer, READ_SIZE)) > 0) {
        SHA256_Update(&state, buffer, (size_t)n);
        out->len += (uint64_t)n;
    }
    int error = errno;
    close(fd);
    SHA256_Final(out->sha256.bytes, &state);
    return n < 0 ? err_sys(e, WARM_EIO, error, "%s", path) : 0;
}

static int identify_content(const struct toolchain_files *files, struct key *out, struct err *e)
{
    struct nvrtc_file library, builtins;
    char *buffer = malloc(READ_SIZE);
    if (!buffer)
        return err_set(e, WARM_ENOMEM, "out of memory");
    int code = read_file(files->library, &files->library_file, buffer, &library, e);
    if (!code && *files->builtins)
        code = read_file(files->builtins, &files->builtins_file, buffer, &builtins, e);
    free(buffer);
    if (!code)
        *out = nvrtc_id(&library, *files->builtins ? &builtins : NULL);
    return code;
}

/* Waits for a new fork server's READY. */
static int await_ready(const struct worker_program *program, const struct toolchain_files *files,
                       struct worker_started *server, struct err *e)
{
    struct worker_ready *out = &server->ready;
    struct pollfd ready = {.fd = server->fd, .events = POLLIN};
    int rc;
    do
        rc = poll(&ready, 1, TOOLCHAIN_PROBE_MS);
    while (rc < 0 && errno == EINTR);
    if (rc == 0) {
        spawner_kill(program->spawner, server->id);
        return err_set(e, WARM_ETIMEOUT, "%s: it did not start in %d s", files->library,
                       TOOLCHAIN_PROBE_MS / 1000);
    }
    ssize_t n = rc > 0 ? packet_receive(server->fd, out, sizeof *out, NULL, 0) : -1;
    if (n != (ssize_t)sizeof *out || !worker_ready_is_sound(out))
        return err_set(e, WARM_ENO_TOOLCHAIN, "%s: %s does not start", files->library,
                       program->path);
    if (out->status)
        return err_set(e, out->status, "%s", out->text);
    if (!worker_file_equal(&out->library, &files->library_file) ||
        !worker_file_equal(&out->builtins, &files->builtins_file) || !toolchain_files_hold(files))
        return err_set(e, WARM_EBUSY, "%s is being replaced", files->library);
    return 0;
}

int toolchain_identify(const struct worker_program *program, const struct toolchain_files *files,
                       struct toolchain *out, struct worker_started *out_server, struct err *e)
{
    *out = (struct toolchain){0};
    int code = worker_start(program, files, &out_server->fd, &out_server->id, e);
    if (code)
        return code;
    code = identify_content(files, &out->id, e);
    if (!code)
        code = await_ready(program, files, out_server, e);
    if (!code) {
        out->major = out_server->ready.major;
        out->minor = out_server->ready.minor;
        struct writer w;
        writer_init(&w, 0);
        for (uint32_t i = 0; i < out_server->ready.n_archs; i++)
            writer_format(&w, "%s%d", i ? " " : "", out_server->ready.archs[i]);
        writer_u8(&w, 0);
        size_t len;
        out->archs = writer_take(&w, &len);
        code = toolchain_name(out, files, e);
    }
    if (code) {
        toolchain_close(out);
        close(out_server->fd);
    }
    return code;
}

/* ---- waits ---- */

void toolchain_wait_cancel(struct toolchain_wait *wait)
{
    if (!wait->at)
        return;
    if (wait->next)
        wait->next->at = wait->at;
    *wait->at = wait->next;
    wait->at = NULL;
}
