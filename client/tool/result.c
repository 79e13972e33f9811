/* SPDX-License-Identifier: Apache-2.0 */
/*
 * result.c - decides if the result of a run may be kept, packs it, and replays a packed one.
 * run_cached.c calls it after each run and each hit; result.h has the contract.
 *
 * Thread: main.
 */
#define XXH_INLINE_ALL
#include "client/tool/result.h"

#include <assert.h>
#include <ctype.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/lib/ptxas_log.h"
#include "client/lib/whole_io.h"
#include "client/tool/dependencies.h"
#include "client/tool/path_names.h"
#include "client/tool/pch.h"
#include "client/tool/preprocessed.h"
#include "keygen/domains.h"

static const char magic[4] = "WRES";
#define ROOT_MARK 1     /* the byte in texts, before a digit, */
#define NO_ROOT ':'     /* or before this: then it is that byte */
#define FILE_NAME_MIN 3 /* characters: shorter names of outputs are not searched for in files */

/* ---- texts ---- */

/* Returns the root whose name stands at `at`, or -1. A longer name that only begins like a root is none. */
static int root_at(const struct tool_job *job, const char *at, size_t left)
{
    int best = -1;
    for (size_t i = 0; i < job->n_roots; i++) {
        size_t len = strlen(job->roots[i]);
        bool whole = len == left || (len < left && !isalnum((unsigned char)at[len]) &&
                                     at[len] != '_' && at[len] != '-');
        if (whole && memcmp(at, job->roots[i], len) == 0 &&
            (best < 0 || len > strlen(job->roots[best])))
            best = (int)i;
    }
    return best;
}

/* Appends a blob of the text with its roots as marks, without ptxas's times. */
static int write_text(const struct tool_job *job, const struct writer *text, struct writer *w,
                      struct err *e)
{
    struct writer marked;
    const char *data = (const char *)text->data;
    if (text->failed)
        return err_set(e, WARM_EREFUSED, "its messages have more than 64 MiB");
    writer_init(&marked, 0);
    for (size_t i = 0; i < text->len;) {
        int root = data[i] == '/' ? root_at(job, data + i, text->len - i) : -1;
        if (root < 0) {
            writer_u8(&marked, (uint8_t)data[i]);
            if (data[i++] == ROOT_MARK)
                writer_u8(&marked, NO_ROOT);
            continue;
        }
        writer_u8(&marked, ROOT_MARK);
        writer_u8(&marked, (uint8_t)('0' + root));
        i += strlen(job->roots[root]);
    }
    if (job->timed_log && !marked.failed)
        marked.len = ptxas_log_drop_times(marked.data, marked.len);
    writer_blob(w, marked.data, marked.len);
    bool failed = marked.failed;
    writer_close(&marked);
    return failed ? err_set(e, WARM_ENOMEM, "no memory for the compiler's messages") : 0;
}

static void print_text(const struct tool_job *job, struct view text, int fd)
{
    const char *at = text.data, *end = at + text.len;
    while (at < end) {
        const char *mark = memchr(at, ROOT_MARK, (size_t)(end - at));
        size_t root = mark && mark + 1 < end ? (size_t)(mark[1] - '0') : TOOL_ROOTS_MAX;
        whole_write(fd, at, (size_t)((mark ? mark : end) - at));
        if (!mark)
            return;
        if (root < job->n_roots)
            whole_write(fd, job->roots[root], strlen(job->roots[root]));
        else if (mark + 1 < end && mark[1] == NO_ROOT)
            whole_write(fd, mark, 1);
        at = mark + 2;
    }
}

/* ---- outputs named in texts ---- */

static bool is_in_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

static bool shows_word(struct view text, const char *word)
{
    const char *data = text.data, *end = data + text.len, *at = data;
    size_t len = strlen(word);
    while (text.len && (at = memmem(at, (size_t)(end - at), word, len))) {
        if ((at == data || !is_in_word(at[-1])) && (at + len == end || !is_in_word(at[len])))
            return true;
        at++;
    }
    return false;
}

static struct proof outputs_names(const struct tool_job *job)
{
    struct key_builder key;
    struct key unused;
    struct proof names;
    key_begin(&key, DOMAIN_OUTPUTS);
    for (size_t i = 0; i < job->n_outputs; i++)
        tool_key_output(job, &key, 1, job->outputs[i]);
    key_end(&key, &unused, &names);
    return names;
}

/* True if the text has the name of an output. Names of less than `min_len` characters do not count. */
static bool names_output(const struct tool_job *job, struct view text, size_t min_len)
{
    for (size_t i = 0; i < job->n_outputs; i++)
        if (strlen(job->outputs[i]) >= min_len && shows_word(text, job->outputs[i]))
            return true;
    return false;
}

/* ---- results that must not be kept ---- */

static bool has_text(const struct writer *w, const char *text)
{
    return w->len && memmem(w->data, w->len, text, strlen(text));
}

/* True for a failure that may not happen again. */
static bool is_passing(const struct compiler_run *run)
{
    static const char *const texts[] = {
        "internal compiler error",
        "fatal error: Killed",
        "out of memory",
        "memory exhausted",
        "Cannot allocate memory",
        "No space left",
        "Permission denied",
        "Read-only file",
        "Resource temporarily",
        "Too many open files",
        "Input/output error",
        "cannot execute",
        "Disk quota",
        "Stale file handle",
        "ailed to write", /* ptxas, mold */
        "ould not write",
        "annot write",
        "while writing",
        "signal terminated",
        "terminated with signal",
        "due to signal",
        "unable to execute command",
        "Text file busy",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (has_text(&run->err, texts[i]) || has_text(&run->out, texts[i]))
            return true;
    return false;
}

static bool is_set(const char *value) { return value && *value; }

/* True if messages may be in another language than English, in which is_passing does not know them. */
static bool is_foreign(void)
{
    static const char *const names[] = {"LC_ALL", "LC_MESSAGES", "LANG"};
    const char *locale = "C", *languages = getenv("LANGUAGE");
    for (size_t i = sizeof names / sizeof names[0]; i--;)
        if (is_set(getenv(names[i])))
            locale = getenv(names[i]);
    bool is_plain = text_is_one_of(locale, ONE_OF("C", "POSIX"));
    const char *language = !is_plain && is_set(languages) ? languages : locale;
    return !is_plain && !text_begins_with_one(language, ONE_OF("C.", "en"));
}

static int check_status(const struct compiler_run *run, struct err *e)
{
    int status = WEXITSTATUS(run->wait_status);
    if (run->got_signal)
        return err_set(e, WARM_EREFUSED, "a signal came during the run");
    if (!WIFEXITED(run->wait_status))
        return err_set(e, WARM_EREFUSED, "the compiler died of signal %d",
                       WTERMSIG(run->wait_status));
    if (status == 126 || status == 127 || (status && is_passing(run)))
        return err_set(e, WARM_EREFUSED,
                       "the compiler failed for a reason that may pass, such as memory, disk or "
                       "permissions: see its message");
    if (status && is_foreign())
        return err_set(e, WARM_EREFUSED,
                       "the compiler failed, and warm reads its reason in English alone: set "
                       "LC_ALL=C.UTF-8");
    return 0;
}

/* NULL-terminated lists of what the names of sections begin with. */
static const char *const debug_sections[] = {".debug", ".zdebug", ".rela.debug", ".nv_debug", NULL};
static const char *const symbol_names[] = {".strtab", NULL};
static const char *const no_sections[] = {NULL};

static bool begins_with_one(const char *name, size_t left, const char *const *list)
{
    for (; *list; list++)
        if (strlen(*list) < left && strncmp(name, *list, strlen(*list)) == 0)
            return true;
    return false;
}

/* True if byte `at` of an ELF file is in one of these sections. Checks every offset of the file. */
static bool is_in_section(const uint8_t *data, size_t len, size_t at, const char *const *sections)
{
    Elf64_Ehdr head;
    Elf64_Shdr s, names;
    if (len < sizeof head)
        return false;
    memcpy(&head, data, sizeof head);
    if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
        head.e_shentsize != sizeof s || head.e_shoff > len ||
        head.e_shnum > (len - head.e_shoff) / sizeof s || head.e_shstrndx >= head.e_shnum)
        return false;
    memcpy(&names, data + head.e_shoff + head.e_shstrndx * sizeof s, sizeof names);
    for (size_t i = 0; i < head.e_shnum; i++) {
        memcpy(&s, data + head.e_shoff + i * sizeof s, sizeof s);
        if (s.sh_type == SHT_NOBITS || at < s.sh_offset || at - s.sh_offset >= s.sh_size ||
            names.sh_offset > len || s.sh_name >= len - names.sh_offset)
            continue;
        size_t name = names.sh_offset + s.sh_name;
        if (begins_with_one((const char *)data + name, len - name, sections))
            return true;
    }
    return false;
}

/* True if a text stands in characters of `width` bytes outside of these sections. */
static bool shows_text(const uint8_t *data, size_t len, const char *text, size_t width,
                       const char *const *sections)
{
    char wide[4 * PATH_MAX] = {0};
    size_t n = strlen(text);
    if (n == 0 || n > PATH_MAX)
        return true; /* no name of a file */
    for (size_t i = 0; i < n; i++)
        wide[i * width] = text[i];
    const uint8_t *at = data;
    while ((at = memmem(at, len - (size_t)(at - data), wide, n * width))) {
        if (!is_in_section(data, len, (size_t)(at - data), sections))
            return true;
        at++;
    }
    return false;
}

/* Returns REFUSED if a text shows outside of these sections, also as UTF-16 or UTF-32. */
static int check_text(const uint8_t *data, size_t len, const char *text,
                      const char *const *sections, struct err *e)
{
    for (size_t width = 1; width <= 4; width *= 2)
        if (shows_text(data, len, text, width, sections))
            return err_set(e, WARM_EREFUSED,
                           "the result contains the name %s, which differs in another folder",
                           text);
    return 0;
}

/* Returns REFUSED if the bytes show a root, unless debug information may, or the spelling of a source
 * outside of symbol names. (The symbol of a source file has the source's name without folders.) */
static int check_names(const struct tool_job *job, const uint8_t *data, size_t len, struct err *e)
{
    int code = 0;
    for (size_t i = 0; !code && i < job->n_roots; i++)
        code = check_text(data, len, job->roots[i], job->debug_shows ? debug_sections : no_sections,
                          e);
    for (size_t i = 0; !code && i < job->n_spelled; i++)
        code = check_text(data, len, job->spelled[i], symbol_names, e);
    return code;
}

/* ---- files ---- */

/* Returns REFUSED if the working folder shows in the data, but is not in the key. */
static int check_folder(const struct tool_job *job, const void *data, size_t len, struct err *e)
{
    const char *rest;
    if (!job->traced || job->keys_cwd || tool_root_of(job, job->cwd, &rest) >= 0 || len == 0 ||
        !memmem(data, len, job->cwd, strlen(job->cwd)))
        return 0;
    return err_set(e, WARM_EREFUSED,
                   "the result contains the working folder %s, which its key lacks", job->cwd);
}

/* How a file is kept: as it is, or packed, with marks in place of the job's roots. */
enum packing { PLAIN, OF_DEPENDENCIES, PREPROCESSED };

static enum packing packing_of(const struct tool_job *job, const char *path)
{
    if (job->n_roots == 0)
        return PLAIN;
    if (job->dependencies && strcmp(job->dependencies, path) == 0)
        return OF_DEPENDENCIES;
    return job->preprocesses ? PREPROCESSED : PLAIN;
}

/* True if a file can be made in the folder of an output. */
static bool has_folder(const char *path)
{
    char folder[PATH_MAX];
    int n = snprintf(folder, sizeof folder, "%.*s.", (int)(tool_base(path) - path), path);
    return n > 0 && n < PATH_MAX && access(folder, W_OK | X_OK) == 0;
}

/* Tells what a run did to the file of an output. REFUSED if over another old file it might do something else. */
static int state_of(const struct tool_job *job, size_t at, const struct compiler_run *run,
                    struct output_state *out_now, enum result_state *out, struct err *e)
{
    const struct output_state *before = &run->before[at];
    *out_now = output_state_of(job->outputs[at]);
    bool is_same = output_is_same(before, out_now);
    bool is_untouched = is_same && before->change.tv_sec == out_now->change.tv_sec &&
                        before->change.tv_nsec == out_now->change.tv_nsec;
    bool is_there = job->lazy ? run->wait_status == 0 : out_now->is_there;
    *out = is_there ? RESULT_FILE : before->is_there ? RESULT_REMOVED : RESULT_ABSENT;
    if (!is_there && run->wait_status && !has_folder(job->outputs[at]))
        return err_set(e, WARM_EREFUSED, "the folder of %s is not there, or may not be written",
                       job->outputs[at]);
    if (job->lazy || !is_there)
        return 0;
    if (is_untouched && run->wait_status == 0)
        return err_set(e, WARM_EREFUSED, "%s was there before, and the compiler wrote none",
                       job->outputs[at]);
    if (is_untouched)
        *out = RESULT_UNTOUCHED;
    else if (is_same && before->is_executable && out_now->is_executable)
        return err_set(e, WARM_EREFUSED, "%s could be run before, and the compiler wrote over it",
                       job->outputs[at]);
    return 0;
}

/* Appends a file that the run left. Sets *out_named if it has the name of an output. Short names occur by
 * chance, and do not count. */
static int write_file(const struct tool_job *job, size_t at, const struct compiler_run *run,
                      struct writer *w, bool *out_named, struct err *e)
{
    const char *path = job->outputs[at];
    struct writer packed;
    struct output_state now;
    enum result_state state;
    uint8_t *data = NULL;
    size_t len = 0;
    int code = state_of(job, at, run, &now, &state, e);
    if (!code && state == RESULT_FILE && !job->lazy)
        code = tool_read_file(path, TOOL_RESULT_MAX, &data, &len, e);
    enum packing packing = packing_of(job, path);
    struct view kept = {data, len};
    writer_init(&packed, 0);
    if (!code && packing == OF_DEPENDENCIES)
        code = dependencies_pack(job, kept, (struct view){run->log, run->log_len}, &packed, e);
    else if (!code && packing == PREPROCESSED)
        code = preprocessed_pack(job, kept, &packed, e);
    else if (!code && len)
        code = check_names(job, data, len, e);
    if (!code && len && job->path_names &&
        path_names_show(job->sources[0], job->counts >= COUNTS_SOURCE && job->sources[0][0] == '/',
                        kept))
        code = err_set(
            e, WARM_EREFUSED,
            "%.200s: it has names that are made of the source's path, or of a process number",
            path);
    if (packing != PLAIN)
        kept = (struct view){packed.data, packed.len};
    if (!code)
        code = check_folder(job, data, len, e);
    if (!code) {
        writer_u8(w, (uint8_t)state);
        writer_u8(w, state == RESULT_FILE && now.is_executable);
        writer_u64(w, kept.len);
        writer_bytes(w, kept.data, kept.len);
        *out_named |= len && names_output(job, (struct view){data, len}, FILE_NAME_MIN);
    }
    writer_close(&packed);
    free(data);
    return code;
}

static struct view view_of(const struct writer *w) { return (struct view){w->data, w->len}; }

int result_write(const struct tool_job *job, const struct compiler_run *run, struct writer *w,
                 struct err *e)
{
    assert(job && run && w);
    static const struct proof none;
    int code = check_status(run, e);
    writer_bytes(w, magic, sizeof magic);
    writer_u16(w, RESULT_VERSION);
    writer_u16(w, (uint16_t)job->n_outputs);
    writer_u32(w, (uint32_t)WEXITSTATUS(run->wait_status));
    size_t at = w->len;
    writer_bytes(w, none.bytes, sizeof none.bytes);
    bool named =
        names_output(job, view_of(&run->out), 1) || names_output(job, view_of(&run->err), 1);
    if (!code)
        code = check_folder(job, run->out.data, run->out.len, e);
    if (!code)
        code = check_folder(job, run->err.data, run->err.len, e);
    if (!code && job->shortens && (run->out.len || run->err.len))
        code = err_set(e, WARM_EREFUSED,
                       "its messages may have names of headers that GCC shortens, which differ in "
                       "another folder");
    if (!code)
        code = write_text(job, &run->out, w, e);
    if (!code)
        code = write_text(job, &run->err, w, e);
    for (size_t i = 0; !code && i < job->n_outputs; i++)
        code = write_file(job, i, run, w, &named, e);
    if (!code && w->failed)
        code = err_set(e, WARM_ETOO_BIG, "the result has more than 256 MiB");
    if (!code && named) {
        struct proof names = outputs_names(job);
        memcpy(w->data + at, names.bytes, sizeof names.bytes);
    }
    return code;
}

static bool shows_source(const struct writer *text)
{
    const char *at = (const char *)text->data, *end = at + text->len;
    while (at < end) {
        const char *line = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((line ? line : end) - at);
        if (!ptxas_log_is_info((struct view){at, len}) && (len && *at != ' '))
            return true;
        if (len && memmem(at, len, ", line ", 7))
            return true;
        at += len + 1;
    }
    return false;
}

bool result_shows_source(const struct compiler_run *run)
{
    assert(run);
    return run->wait_status != 0 || shows_source(&run->out) || shows_source(&run->err);
}

int result_read(const void *data, size_t len, struct result *out, struct err *e)
{
    assert(data && out);
    struct reader r = reader_over(data, len);
    struct view head = reader_bytes(&r, sizeof magic);
    uint16_t version = reader_u16(&r);
    struct result result = {.n_files = reader_u16(&r)};
    if (r.failed || memcmp(head.data, magic, sizeof magic) != 0 || version != RESULT_VERSION ||
        result.n_files > TOOL_OUTPUTS_MAX)
        return err_set(e, WARM_EVERSION, "the stored result is of another version of warm");
    result.status = (int)reader_u32(&r);
    reader_copy(&r, result.named.bytes, sizeof result.named.bytes);
    result.out = reader_blob(&r, TOOL_RESULT_MAX);
    result.err = reader_blob(&r, TOOL_RESULT_MAX);
    for (size_t i = 0; i < result.n_files; i++) {
        struct result_file *f = &result.files[i];
        f->state = reader_u8(&r);
        f->is_executable = reader_u8(&r);
        r.failed |= f->state > RESULT_UNTOUCHED;
        uint64_t n = reader_u64(&r);
        f->data = reader_bytes(&r, n > TOOL_RESULT_MAX ? SIZE_MAX : (size_t)n);
    }
    if (!reader_done(&r))
        return err_set(e, WARM_EMALFORMED, "the stored result is damaged");
    *out = result;
    return 0;
}

/* Makes the file of an output by way of a temporary one, which a signal must not leave behind. */
static bool write_whole(const char *temporary, const char *path, const struct result_file *file)
{
    sigset_t ends, old;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    sigprocmask(SIG_BLOCK, &ends, &old);
    unlink(temporary); /* left by a killed process that had the same id */
    int fd =
        open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, file->is_executable ? 0777 : 0666);
    bool ok = fd >= 0 && whole_write(fd, file->data.data, file->data.len) == 0;
    ok = fd >= 0 && close(fd) == 0 && ok && rename(temporary, path) == 0;
    if (!ok && fd >= 0)
        unlink(temporary);
    sigprocmask(SIG_SETMASK, &old, NULL);
    return ok;
}

/* Writes a new file beside the old one, then renames it: no process sees a part of it. It gets the
 * permissions of any new file. False if only the compiler knows whether the old permissions stay:
 * assemblers drop the right to run, others keep it. */
static bool put_file(const char *path, const struct result_file *file)
{
    char temporary[PATH_MAX];
    struct stat old;
    if (!file->is_executable && stat(path, &old) == 0 && old.st_mode & S_IXUSR)
        return false;
    int n = snprintf(temporary, sizeof temporary, "%s.warm-%d", path, (int)getpid());
    return n > 0 && n < PATH_MAX && write_whole(temporary, path, file);
}

static bool replay_file(const struct tool_job *job, const char *path,
                        const struct result_file *file)
{
    struct stat st;
    bool is_free = lstat(path, &st) < 0 && (errno == ENOENT || errno == ENOTDIR);
    if (file->state == RESULT_ABSENT || file->state == RESULT_UNTOUCHED)
        return is_free || file->state == RESULT_UNTOUCHED;
    if (file->state == RESULT_REMOVED)
        return is_free || unlink(path) == 0;
    if (job->lazy)
        return pch_write_stub(job, NULL) == 0;
    enum packing packing = packing_of(job, path);
    if (packing == PLAIN)
        return put_file(path, file);
    struct writer whole;
    struct result_file unpacked = *file;
    writer_init(&whole, 0);
    bool ok = packing == OF_DEPENDENCIES ? dependencies_unpack(job, file->data, &whole)
                                         : preprocessed_unpack(job, file->data, &whole);
    ok = ok && !whole.failed;
    unpacked.data = (struct view){whole.data, whole.len};
    ok = ok && put_file(path, &unpacked);
    writer_close(&whole);
    return ok;
}

int result_replay(const struct tool_job *job, const struct result *result)
{
    assert(job && result && result->n_files <= TOOL_OUTPUTS_MAX);
    static const struct proof none;
    struct proof names = outputs_names(job);
    if (result->n_files != job->n_outputs || (memcmp(&result->named, &none, sizeof none) != 0 &&
                                              memcmp(&result->named, &names, sizeof names) != 0))
        return -1;
    for (size_t i = 0; i < result->n_files; i++)
        if (!replay_file(job, job->outputs[i], &result->files[i]))
            return -1;
    print_text(job, result->out, STDOUT_FILENO);
    print_text(job, result->err, STDERR_FILENO);
    return result->status;
}
