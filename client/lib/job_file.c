/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job_file.c - decides where a recorded job of NVRTC is written, and if a file is one. remote_compile.c writes
 * them, `warm replay` reads them. A file that cannot be written is a line of WARM_LOG and nothing else.
 *
 * Thread: any; no state.
 */
#include "client/lib/job_file.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/debug.h"
#include "keygen/bytes.h"

/* Writes a file beside its place, and renames it. False if it is not there afterwards. */
static bool write_whole(const char *folder, const char *name, const void *data, size_t len)
{
    char path[PATH_MAX], beside[PATH_MAX];
    size_t done = 0;
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= PATH_MAX ||
        snprintf(beside, sizeof beside, "%s/.%s.%ld", folder, name, (long)getpid()) >= PATH_MAX)
        return false;
    if (access(path, F_OK) == 0)
        return true;
    int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    for (ssize_t n = 1; done < len && n > 0; done += n > 0 ? (size_t)n : 0)
        n = write(fd, (const char *)data + done, len - done);
    bool ok = close(fd) == 0 && done == len && rename(beside, path) == 0;
    if (!ok)
        unlink(beside);
    return ok;
}

const char *job_file_folder(void)
{
    const char *folder = getenv("WARM_RECORD_JOBS");
    return folder && *folder == '/' ? folder : NULL;
}

void job_file_write(const struct key *id, const char *path, const struct job *job)
{
    const char *folder = job_file_folder();
    char id_text[WARM_KEY_TEXT], digest[WARM_KEY_TEXT], name[NAME_MAX + 1];
    struct writer out;
    if (!folder)
        return;
    writer_init(&out, 0);
    writer_text(&out, path);
    job_encode(job, &out);
    if (!out.failed) {
        struct key all = key_of_bytes(out.data, out.len);
        key_to_text(id, id_text);
        key_to_text(&all, digest);
        snprintf(name, sizeof name, "%s-%s.job", id_text, digest);
        if (!write_whole(folder, name, out.data, out.len))
            debug_say(DEBUG_WARNING, "%s/%s: the job is not recorded", folder, name);
    }
    writer_close(&out);
}

int job_file_read(const char *name, const void *data, size_t len, struct job_file *out,
                  struct err *e)
{
    struct reader r = reader_over(data, len);
    struct view path = reader_blob(&r, PATH_MAX - 1);
    if (strlen(name) < WARM_KEY_TEXT || !key_from_text(name, WARM_KEY_TEXT - 1, &out->id) ||
        name[WARM_KEY_TEXT - 1] != '-')
        return err_set(e, WARM_EMALFORMED, "its name has no compiler's identity");
    if (r.failed || path.len == 0 || memchr(path.data, '\0', path.len))
        return err_set(e, WARM_EMALFORMED, "its compiler has no path");
    out->path = path;
    return job_decode(r.data, r.len, &out->job, e);
}
