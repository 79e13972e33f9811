/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_log.c - decides which inputs the result of a traced run depends on, and which runs must not
 * be kept. run_cached.c calls it after a run; inputs.h has the contract, client/trace/trace.h the
 * records.
 *
 *     records ──▶ one entry a path: its first record, and all that was done to it
 *             ──▶ made by the run itself: must be gone again, or be one of its outputs
 *             ──▶ read:   FILE, its content           looked at: EXISTS
 *                 absent: ABSENT, of the topmost absent folder
 *
 * A record that does not fit ends it: REFUSED, and the result is not kept.
 *
 * Thread: main.
 */
#define XXH_INLINE_ALL
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/exec/programs.h"
#include "client/tool/file_state.h"
#include "client/tool/inputs.h"
#include "client/tool/libraries.h"
#include "client/tool/needed.h"
#include "client/tool/pch.h"
#include "client/tool/trace_log.h"
#include "client/tool/unity.h"
#include "client/trace/trace.h"
#include "keygen/cuda/cuda.h"
#include "keygen/vector.h"

enum seen {
    SEEN_READ = 1,
    SEEN_EXISTS = 2,
    SEEN_ABSENT = 4,
    SEEN_WRITE = 8,
    SEEN_LIST = 16,
    SEEN_FOUND = 32,
    SEEN_REAL = 64, /* its name without links was asked for */
    IS_INPUT = 128, /* it is an input already */
    IS_OURS = 256,  /* its path is not in the log: owned */
    SEEN_RUN = 512, /* it was started */
};

#define VARIABLES_MAX 256
#define INFERRED_MAX 4096 /* looks of the loader that are inferred */
#define NAMES_MAX 1024    /* of libraries */

struct entry {
    const char *path; /* in the log */
    unsigned first, all;
};

struct reading {
    const struct tool_job *job;
    struct warm *w;
    uint64_t started_ns;
    char folder[PATH_MAX]; /* the working folder, if its files go by short names */
    struct entry *table;   /* open addressing, never full */
    size_t slots, used;
    struct entry **order; /* as first seen */
    size_t n_order;
    unsigned begun, executed;
    bool clock_is_told; /* a compiler ran whose reading of the clock is recorded */
    struct inputs out;
    uint32_t room;
    struct writer paths, folders; /* all paths of out, one after the other; offsets until the end */
    struct inputs headers[TOOL_SOURCES_MAX]; /* of precompiled headers that were used */
    size_t n_headers;
    const char *variables[VARIABLES_MAX]; /* names of those that it read; in the log */
    const char *names[NAMES_MAX];         /* of libraries; in the log, or in owned */
    char *owned[NAMES_MAX];
    size_t n_variables, n_names, n_owned, n_inferred;
    bool counts_list; /* the loader's whole list of libraries is an input */
    const char
        *made[TOOL_OUTPUTS_MAX]; /* which file each output was when last opened; in the log */
};

/* Returns the short name of a path in the working folder: some tools complete names. */
static const char *short_name(const struct reading *r, const char *path)
{
    size_t len = strlen(r->folder);
    bool is_below = len && strncmp(path, r->folder, len) == 0 && path[len] == '/' && path[len + 1];
    return is_below ? path + len + 1 : path;
}

/* ---- the table ---- */

static struct entry *find(struct reading *r, const char *path)
{
    size_t at = (size_t)XXH3_64bits(path, strlen(path)) & (r->slots - 1);
    while (r->table[at].path && strcmp(r->table[at].path, path) != 0)
        at = (at + 1) & (r->slots - 1);
    return &r->table[at];
}

static void see(struct reading *r, const char *path, unsigned what)
{
    struct entry *entry = find(r, path);
    if (!entry->path) {
        *entry = (struct entry){path, what, 0};
        r->order[r->n_order++] = entry;
    }
    entry->all |= what;
}

static int see_variable(struct reading *r, const char *name, struct err *e)
{
    for (size_t i = 0; i < r->n_variables; i++)
        if (strcmp(r->variables[i], name) == 0)
            return 0;
    if (r->n_variables == VARIABLES_MAX)
        return err_set(e, WARM_EREFUSED, "it read more than 256 variables of the environment");
    r->variables[r->n_variables++] = name;
    return 0;
}

/* Notes which file an output is: `text` is "DEVICE:INODE:SECONDS:NANOSECONDS:PATH". */
static void see_made(struct reading *r, const char *text)
{
    const char *path = text;
    for (int colons = 0; colons < 4 && path; colons++)
        path = strchr(path, ':') ? strchr(path, ':') + 1 : NULL;
    for (size_t i = 0; path && i < r->job->n_outputs; i++)
        if (strcmp(r->job->outputs[i], short_name(r, path)) == 0)
            r->made[i] = text;
}

/* Notes a look of the loader that the trace has no record of. Takes ownership of the path. `if_there`:
 * how the file counts if it exists. */
static int see_inferred(struct reading *r, char *path, unsigned if_there, struct err *e)
{
    if (!path || r->n_inferred++ == INFERRED_MAX) {
        free(path);
        return err_set(e, WARM_ETOO_BIG,
                       "its libraries have more than 4096 variants for certain processors");
    }
    struct entry *entry = find(r, path);
    bool is_new = !entry->path;
    if (is_new) {
        *entry = (struct entry){path, 0, IS_OURS};
        r->order[r->n_order++] = entry;
    }
    entry->all |= access(path, F_OK) == 0 ? if_there : SEEN_ABSENT;
    if (!is_new)
        free(path);
    return 0;
}

/* Notes a name that the loader looked for. Copies it if `is_foreign`: the name is not in the log. */
static int see_name_of(struct reading *r, const char *name, size_t len, bool is_foreign,
                       struct err *e)
{
    static const char *const ours[] = {"libwarm-trace.so", "libwarm-preload.so"};
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        if (strlen(ours[i]) == len && memcmp(name, ours[i], len) == 0)
            return 0;
    for (size_t i = 0; i < r->n_names; i++)
        if (strlen(r->names[i]) == len && memcmp(r->names[i], name, len) == 0)
            return 0;
    char *copy = is_foreign && r->n_owned < NAMES_MAX ? strndup(name, len) : NULL;
    if (r->n_names == NAMES_MAX || (is_foreign && !copy))
        return free(copy), err_set(e, WARM_ETOO_BIG, "it looked for more than 1024 libraries");
    if (copy)
        r->owned[r->n_owned++] = copy;
    r->names[r->n_names++] = copy ? copy : name;
    return 0;
}

static int see_name(struct reading *r, const char *name, struct err *e)
{
    return see_name_of(r, name, strlen(name), false, e);
}

/* Infers the loader's looks for variants of a library, in the folders of "FOLDER/NAME". */
static int see_variants(struct reading *r, const char *text, struct err *e)
{
    const char *name = strrchr(text, '/');
    char *folder = name ? strndup(text, (size_t)(name - text)) : NULL, *path;
    DIR *d = folder ? opendir(folder) : NULL;
    int code = d ? see_name(r, LIBRARY_PROCESSOR, e)
                 : err_set(e, WARM_EREFUSED, "cannot list the folder of %s", text);
    for (struct dirent *entry; !code && (entry = readdir(d));)
        if (entry->d_name[0] != '.')
            code = asprintf(&path, "%s/%s%s", folder, entry->d_name, name) < 0
                       ? err_set(e, WARM_ENOMEM, "no memory for a trace")
                       : see_inferred(r, path, SEEN_READ, e);
    if (d)
        closedir(d);
    return code ? (free(folder), code) : see_inferred(r, folder, SEEN_LIST, e);
}

/* Notes the variables and files by which the loader loads libraries into each program. A name in
 * the file is looked for as well: then the whole list counts. */
static int see_preloads(struct reading *r, struct err *e)
{
    static const char path[] = "/etc/ld.so.preload";
    struct stat st;
    size_t len;
    int code = 0;
    see(r, path, stat(path, &st) == 0 ? SEEN_READ : SEEN_ABSENT);
    r->counts_list |= stat(path, &st) == 0 && st.st_size > 0;
    for (const char *at = getenv("LD_PRELOAD"); !code && (at = tool_next_preload(at, &len));
         at += len) {
        if (memchr(at, '/', len))
            continue;
        code = see_name_of(r, at, len, true, e);
    }
    return code;
}

/* Notes a library that was loaded. */
static int see_library(struct reading *r, const char *path, struct err *e)
{
    const char *slash = strrchr(path, '/');
    if (!slash || strcmp(slash, "/libwarm-trace.so") == 0 ||
        strcmp(slash, "/libwarm-preload.so") == 0)
        return 0;
    see(r, path, SEEN_READ);
    return see_name(r, slash + 1, e);
}

/* Notes by which folders a process finds libraries. A program that changes them for another one
 * makes a difference that our own environment does not show: then the whole list counts. */
static void see_search(struct reading *r, const char *folders)
{
    const char *ours = getenv("LD_LIBRARY_PATH");
    r->counts_list |= strcmp(folders, ours ? ours : "") != 0;
}

static bool is_script(const char *program)
{
    char head[2] = "";
    int fd = open(program, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    bool is = fd >= 0 && read(fd, head, sizeof head) == 2 && memcmp(head, "#!", 2) == 0;
    if (fd >= 0)
        close(fd);
    return is;
}

/* Shells find variables without getenv, so no record shows which of them a script reads. */
static int check_script(const char *program, struct err *e)
{
    return is_script(program)
               ? err_set(e, WARM_EREFUSED,
                         "%s is a script, which may read any variable of the environment", program)
               : 0;
}

static int see_record(struct reading *r, char what, const char *path, struct err *e)
{
    path = short_name(r, path);
    switch (what) {
    case TRACE_BEGIN:
        r->begun++;
        const char *base = tool_base(path);
        /* These tell when they read the clock (trace.c). */
        r->clock_is_told |=
            text_is_one_of(base, ONE_OF("cc1", "cc1plus", "cc1obj", "cc1objplus", "clang")) ||
            (text_begins(base, "clang-") && base[6] >= '0' && base[6] <= '9');
        see(r, path, SEEN_READ);
        return 0;
    case TRACE_EXEC:
        r->executed++;
        see(r, path, SEEN_READ);
        see(r, path, SEEN_RUN);
        return check_script(path, e);
    case TRACE_EXEC_FAILED: r->executed--; return 0;
    case TRACE_LIBRARY: return see_library(r, path, e);
    case TRACE_NAME: return see_name(r, path, e);
    case TRACE_VARIANTS: return see_variants(r, path, e);
    case TRACE_SEARCH: see_search(r, path); return 0;
    case TRACE_READ: see(r, path, SEEN_READ); return 0;
    case TRACE_VARIABLE: return see_variable(r, path, e);
    case TRACE_MADE: see_made(r, path); return 0;
    case TRACE_CLOCK:
        return err_set(e, WARM_EREFUSED,
                       "it uses the time (__DATE__, __TIME__ or __TIMESTAMP__): SOURCE_DATE_EPOCH "
                       "sets the first two");
    case TRACE_EXISTS: see(r, path, SEEN_EXISTS); return 0;
    case TRACE_REAL: see(r, path, SEEN_REAL); return 0;
    case TRACE_ABSENT: see(r, path, SEEN_ABSENT); return 0;
    case TRACE_LIST: see(r, path, SEEN_LIST); return 0;
    case TRACE_FOUND: see(r, path, SEEN_FOUND); return 0;
    case TRACE_WRITE: see(r, path, SEEN_WRITE); return 0;
    case TRACE_UNWRITTEN:
        return err_set(e, WARM_EREFUSED, "it could not write %s, which may pass", path);
    default:
        return err_set(e, WARM_EREFUSED, "warm cannot tell what the compiler did with %s", path);
    }
}

static int read_log(struct reading *r, const char *log, size_t len, struct err *e)
{
    size_t records = 0;
    for (size_t i = 0; i < len; i++)
        records += log[i] == '\0';
    if (len == 0 || log[len - 1] != '\0')
        return err_set(
            e, WARM_EREFUSED,
            "no trace of what it read: a static program, or a trace of more than 64 MiB");
    records += INFERRED_MAX;
    for (r->slots = 64; r->slots < 4 * records; r->slots *= 2) /* each record may add two */
        continue;
    r->table = calloc(r->slots, sizeof *r->table);
    r->order = calloc(records + 1, sizeof(struct entry *));
    if (!r->table || !r->order)
        return err_set(e, WARM_ENOMEM, "no memory for a trace");
    see(r, r->job->program, SEEN_READ); /* through links: their target may change */
    int code = check_script(r->job->program, e);
    if (!code)
        code = see_preloads(r, e);
    if (code)
        return code;
    for (const char *at = log; at < log + len; at += strlen(at) + 1) {
        code = see_record(r, at[0], at[0] ? at + 1 : at, e);
        if (code)
            return code;
    }
    if (r->counts_list)
        see(r, LOADER_LIST, access(LOADER_LIST, F_OK) == 0 ? SEEN_READ : SEEN_ABSENT);
    if (r->begun != r->executed + 1)
        return err_set(e, WARM_EREFUSED, "%u of its %u processes left no trace: static programs?",
                       r->executed + 1 - r->begun, r->executed + 1);
    return 0;
}

/* ---- records without effect ---- */

static bool is_output(const struct tool_job *job, const char *path)
{
    for (size_t i = 0; i < job->n_outputs; i++)
        if (strcmp(job->outputs[i], path) == 0)
            return true;
    return false;
}

static bool is_value_of(const char *text, const char *variable)
{
    const char *value = getenv(variable);
    return value && strcmp(text, value) == 0;
}

static bool is_temporary_folder(const char *path)
{
    return is_value_of(path, "TMPDIR") || is_value_of(path, "TMP") || is_value_of(path, "TEMP") ||
           text_is_one_of(path, ONE_OF("/tmp", "/var/tmp", "/usr/tmp"));
}

/* True for paths that every process looks at, and that no result depends on. nvcc lists the temporary folder
 * to tidy up. */
static bool is_harmless(const struct entry *entry)
{
    static const char *const read[] = {"/dev/null",
                                       "/dev/urandom",
                                       "/dev/random",
                                       "/dev/zero",
                                       "/dev/tty",
                                       "/proc/meminfo",
                                       "/proc/self/exe",
                                       "/proc/filesystems",
                                       "/proc/self/maps",
                                       "/proc/self/stat",
                                       "/proc/sys/vm/overcommit_memory",
                                       NULL};
    if (text_is_one_of(entry->path, read))
        return true;
    unsigned beyond = entry->all & ~(unsigned)(SEEN_EXISTS | SEEN_REAL | SEEN_WRITE);
    if ((beyond == 0 || beyond == SEEN_LIST) && is_temporary_folder(entry->path))
        return true;
    return beyond == 0 && (is_value_of(entry->path, "PWD") || is_value_of(entry->path, "HOME"));
}

static bool is_header(const char *path) { return text_ends(path, PCH_SUFFIX); }

/* ---- inputs ---- */

/* Adds an input, whose path is an offset into r->paths until finish. */
static struct input *add(struct reading *r, uint8_t kind, const char *path)
{
    bool failed = r->out.n == INPUTS_MAX;
    if (failed || (r->out.n == r->room &&
                   !vector_grow(&failed, &r->out.list, &r->room, r->room, sizeof *r->out.list)))
        return NULL;
    const char *rest;
    struct input *i = &r->out.list[r->out.n++];
    *i = (struct input){.kind = kind, .root = (uint8_t)(tool_root_of(r->job, path, &rest) + 1)};
    i->path = (const char *)(uintptr_t)r->paths.len;
    writer_bytes(&r->paths, rest, strlen(rest) + 1);
    return i;
}

static int add_text(struct reading *r, struct input *i, const char *text)
{
    i->program = (const char *)(uintptr_t)r->paths.len;
    writer_bytes(&r->paths, text, strlen(text) + 1);
    return 0;
}

static int no_room(struct err *e)
{
    return err_set(e, WARM_ETOO_BIG,
                   "it read or looked for more than 131072 files, or memory ran out");
}

/* True for files that decide more than their content shows. Compilers read some files of options by themselves.
 * Clang's precompiled headers have the times of their sources. */
static bool says_more(const struct tool_job *job, const char *path)
{
    return strcmp(job->family, "cc") == 0 &&
           (text_ends(path, ".cfg") || text_ends(path, "/specs") || text_ends(path, ".pch"));
}

static int add_file(struct reading *r, const char *path, const struct stat *st, bool is_plain,
                    struct err *e)
{
    if (says_more(r->job, path))
        return err_set(e, WARM_EREFUSED,
                       "it read %s, which can hold options or times beyond the key", path);
    struct stamp stamp = stamp_of(st);
    struct proof digest;
    bool may_change;
    if (!stamp_is_before(&stamp, r->started_ns))
        return err_set(e, WARM_EREFUSED, "%s changed during the run, or just before it", path);
    if (file_digest(r->w, path, &stamp, &digest, &may_change))
        return err_set(e, WARM_EREFUSED, "cannot read %s", path);
    struct input *i = add(r, INPUT_FILE, path);
    if (!i)
        return no_room(e);
    i->type = is_plain ? REAL_PLAIN : 0;
    i->stamp = stamp;
    i->may_change = may_change;
    i->digest = digest;
    return 0;
}

/* Adds the topmost absent part of an absent path: one entry for all look-ups in an absent
 * folder. */
static int add_absent(struct reading *r, const char *path, struct err *e)
{
    char top[PATH_MAX], parent[PATH_MAX];
    struct stat st;
    snprintf(top, sizeof top, "%s", path);
    if (lstat(path, &st) == 0) /* a dangling link, or made meanwhile */
        return err_set(e, WARM_EREFUSED, "%s is a broken link, or appeared during the run", path);
    for (;;) {
        snprintf(parent, sizeof parent, "%s", top);
        char *slash = strrchr(parent, '/');
        if (!slash || slash == parent)
            break;
        *slash = '\0';
        if (lstat(parent, &st) == 0)
            break;
        strcpy(top, parent);
    }
    struct entry *entry = find(r, top);
    if (entry->path && entry->all & IS_INPUT)
        return 0;
    if (!entry->path) {
        entry->path = strdup(top);
        entry->all = IS_OURS;
    }
    entry->all |= IS_INPUT;
    return entry->path && add(r, INPUT_ABSENT, top) ? 0 : no_room(e);
}

/* True if the path is a name in a folder of $PATH: the run may have looked for a program there. */
static bool is_on_path(const char *path)
{
    const char *slash = strrchr(path, '/'), *list = getenv("PATH");
    size_t len = slash ? (size_t)(slash - path) : 0, n;
    for (const char *at = list; at; at = at[n] ? at + n + 1 : NULL) {
        size_t kept = n = strcspn(at, ":");
        while (kept > 1 && at[kept - 1] == '/')
            kept--;
        if (kept == len && strncmp(at, path, len) == 0)
            return true;
    }
    return false;
}

/* Adds what PATH has for the name of a program that the run looked for there. `is_found`: it took this one. */
static int add_program(struct reading *r, const char *path, bool is_found, struct err *e)
{
    char now[PATH_MAX];
    const char *name = tool_base(path);
    if (!program_find(name, now))
        now[0] = '\0';
    if (is_found && strcmp(now, path) != 0)
        return err_set(e, WARM_EREFUSED, "it started %s, but not the one that PATH leads to", name);
    for (size_t i = 0; i < r->out.n; i++)
        if (r->out.list[i].kind == INPUT_PROGRAM &&
            strcmp((char *)r->paths.data + (uintptr_t)r->out.list[i].path, name) == 0)
            return 0;
    struct input *i = add(r, INPUT_PROGRAM, name);
    return i ? add_text(r, i, now) : no_room(e);
}

static int add_existing(struct reading *r, const char *path, const struct stat *st, struct err *e)
{
    struct input *i = add(r, INPUT_EXISTS, path);
    if (!i)
        return no_room(e);
    i->type = (uint8_t)file_type(st);
    return 0;
}

/* Adds that a file may be run: another one would be started without that right. */
static int add_runnable(struct reading *r, const char *path, struct err *e)
{
    struct input *i = add(r, INPUT_EXISTS, path);
    if (!i)
        return no_room(e);
    i->type = EXISTS_RUNNABLE;
    return 0;
}

/* Adds the name without links of a path whose own input does not cover it. */
static int add_real_name(struct reading *r, const char *path, char type, const char *real,
                         struct err *e)
{
    struct input *i = type ? add(r, INPUT_REAL, path) : NULL;
    if (!type)
        return err_set(e, WARM_EREFUSED, "warm cannot tell where %s leads", path);
    if (!i)
        return no_room(e);
    i->type = (uint8_t)type;
    return add_text(r, i, real);
}

static int add_list(struct reading *r, const char *path, struct err *e)
{
    struct proof digest;
    if (folder_digest(path, &digest))
        return err_set(e, WARM_EREFUSED, "cannot list the folder %s", path);
    struct input *i = add(r, INPUT_LIST, path);
    if (!i)
        return no_room(e);
    i->digest = digest;
    return 0;
}

/* True for a precompiled header that GCC read and warm did not make. GCC checks nothing beside the file itself,
 * so its bytes stand for its inputs. */
static bool is_header_of_others(const struct reading *r, const struct entry *entry)
{
    struct inputs made;
    if (!tool_is_gcc(r->job) || !(entry->all & SEEN_READ) || access(entry->path, F_OK) != 0 ||
        pch_is_stub(entry->path))
        return false;
    if (pch_read_inputs(entry->path, &made, NULL))
        return true;
    inputs_close(&made);
    return false;
}

/* Adds a precompiled header, which counts by its own inputs. */
static int add_header(struct reading *r, const struct entry *entry, struct err *e)
{
    if (entry->all & SEEN_READ && access(entry->path, F_OK) == 0 && !pch_is_stub(entry->path)) {
        if (r->n_headers == TOOL_SOURCES_MAX)
            return no_room(e);
        if (pch_read_inputs(entry->path, &r->headers[r->n_headers], NULL))
            return err_set(
                e, WARM_EREFUSED,
                "warm did not make the precompiled header %s, and does not know its inputs",
                entry->path);
        r->n_headers++;
    }
    return add(r, INPUT_HEADER, entry->path) ? 0 : no_room(e);
}

static int add_made(const struct entry *entry, struct err *e)
{
    struct stat st;
    if (entry->first == SEEN_READ || entry->first == SEEN_LIST)
        return err_set(e, WARM_EREFUSED, "it changed %s, which it had read before", entry->path);
    if (lstat(entry->path, &st) == 0)
        return err_set(e, WARM_EREFUSED, "it also wrote %s, which is not one of its known outputs",
                       entry->path);
    return 0;
}

/* True for a path below the working folder if the key does not have that folder: in another folder
 * the same command has another path. */
static bool is_made_from_folder(const struct reading *r, const char *path)
{
    const char *cwd = r->job->cwd, *rest;
    size_t len = strlen(cwd);
    return !r->job->keys_cwd && tool_root_of(r->job, cwd, &rest) < 0 &&
           tool_root_of(r->job, path, &rest) < 0 && strncmp(path, cwd, len) == 0 &&
           path[len] == '/';
}

/* True for a look for a precompiled header beside a file that the run made itself: its name is another one in
 * each run. */
static bool is_of_temporary(struct reading *r, const struct entry *entry)
{
    char path[PATH_MAX];
    if (!is_header(entry->path) || entry->all & ~(unsigned)SEEN_ABSENT)
        return false;
    snprintf(path, sizeof path, "%.*s", (int)(strlen(entry->path) - strlen(PCH_SUFFIX)),
             entry->path);
    const struct entry *made = find(r, path);
    return made->path && made->first == SEEN_WRITE && access(path, F_OK) < 0;
}

/* True for a source. GCC asks for its name without links only to see if that is an output, which cc.c refuses. */
static bool is_source(const struct tool_job *job, const char *path)
{
    bool is = false;
    for (size_t i = 0; !is && i < job->n_sources; i++)
        is = strcmp(job->sources[i], path) == 0;
    return is;
}

static int add_entry(struct reading *r, struct entry *entry, struct err *e)
{
    char real[PATH_MAX];
    struct stat st;
    const char *path = entry->path;
    if (is_output(r->job, path))
        return entry->all & SEEN_READ && (entry->first == SEEN_READ || !r->job->reads_back)
                   ? err_set(e, WARM_EREFUSED, "it read %s, which is its output, too", path)
                   : 0;
    if (is_harmless(entry) || entry->all & IS_INPUT || is_of_temporary(r, entry))
        return 0;
    if (entry->all & SEEN_WRITE)
        return add_made(entry, e);
    bool on_path = !r->job->keys_path && is_on_path(path) && strcmp(path, r->job->program) != 0;
    int code = on_path ? add_program(r, path, entry->all & SEEN_FOUND, e) : 0;
    if (code || entry->all == SEEN_FOUND)
        return code;
    if (!on_path && is_made_from_folder(r, path))
        return err_set(e, WARM_EREFUSED,
                       "it used %s by its full name, and another working folder has another name",
                       path);
    if (is_header(path) && !is_header_of_others(r, entry))
        return add_header(r, entry, e);
    if (on_path && stat(path, &st) < 0 && errno == EACCES)
        return 0; /* PATH leads to nothing in a folder that this user cannot search: add_program has it */
    entry->all |= IS_INPUT;
    if (stat(path, &st) < 0)
        return entry->all & (SEEN_READ | SEEN_LIST)
                   ? err_set(e, WARM_EREFUSED, "%s was read, and then removed", path)
                   : (entry->all &= ~(unsigned)IS_INPUT, add_absent(r, path, e));
    if (entry->all & SEEN_ABSENT)
        return err_set(e, WARM_EREFUSED, "%s was absent, and appeared during the run", path);
    bool asks = entry->all & SEEN_REAL && !is_source(r->job, path);
    char type = asks ? real_name(r->job, path, real) : 0;
    bool is_read = entry->all & SEEN_READ && S_ISREG(st.st_mode);
    bool is_plain = is_read && type == REAL_PLAIN;
    if (asks && !is_plain && (code = add_real_name(r, path, type, real, e)))
        return code;
    if (entry->all & SEEN_LIST)
        return add_list(r, path, e);
    if (is_read && unity_is_name(path) && !is_source(r->job, path))
        return err_set(e, WARM_EREFUSED, "%s is included, and no source of its own", path);
    if (is_read && entry->all & SEEN_RUN && (code = add_runnable(r, path, e)))
        return code;
    if (is_read)
        return strncmp(path, "/proc/", 6) != 0
                   ? add_file(r, path, &st, is_plain, e)
                   : err_set(e, WARM_EREFUSED, "it read %s, which differs in each process", path);
    if (entry->all & SEEN_READ && !S_ISDIR(st.st_mode))
        return err_set(e, WARM_EREFUSED, "it read %s, which is no plain file", path);
    return add_existing(r, path, &st, e);
}

/* Gives a header's input its stamp if it has none, because the file might still have changed when
 * the header was made. Names depend on stamps (inputs.h). A file with other content keeps none. */
static void stamp_again(const struct reading *r, const char *path, struct input *i)
{
    struct stat st;
    struct proof digest;
    bool may_change;
    if (i->stamp.inode || i->stamp.device || stat(path, &st) < 0)
        return;
    struct stamp stamp = stamp_of(&st);
    if (file_digest(r->w, path, &stamp, &digest, &may_change) ||
        memcmp(&digest, &i->digest, sizeof digest) != 0)
        return;
    i->stamp = stamp;
    i->may_change = may_change;
}

/* Adds the inputs of precompiled headers, with the digests of that time: other files now are
 * another input. */
static int add_headers_inputs(struct reading *r, struct err *e)
{
    for (size_t h = 0; h < r->n_headers; h++) {
        for (size_t n = 0; n < r->headers[h].n; n++) {
            struct input *from = &r->headers[h].list[n];
            struct entry *entry = find(r, from->path);
            if (from->kind == INPUT_FOLDER || from->kind == INPUT_VARIABLE ||
                (entry->path && entry->all & IS_INPUT && from->kind != INPUT_FILE &&
                 from->kind != INPUT_LIBRARY))
                continue;
            struct input *i = add(r, from->kind, from->path);
            if (!i)
                return no_room(e);
            i->type = from->type;
            i->stamp = from->stamp;
            i->digest = from->digest;
            if (from->kind == INPUT_FILE)
                stamp_again(r, from->path, i);
            if (input_has_text(from))
                add_text(r, i, from->program);
        }
    }
    return 0;
}

/* True for variables that show in no result: places for temporary files, and variables of `make`. Also true for
 * those that the key covers in another way. */
static bool is_harmless_variable(const struct reading *r, const char *name)
{
    if (text_is_one_of(
            name, ONE_OF("TMPDIR", "TMP", "TEMP", "TEMPDIR", "PWD", "PATH", "MAKEFLAGS", "MFLAGS")))
        return true;
    if (!r->job->loud)
        return tool_is_of_messages(name);
    return strcmp(name, "TERM") == 0 && !r->job->terminal;
}

/* ---- LD_LIBRARY_PATH ---- */

static int see_needed(void *self, const char *name)
{
    struct reading *r = self;
    return strchr(name, '/') ? WARM_EREFUSED : see_name_of(r, name, strlen(name), true, NULL);
}

/* Notes the names of all libraries that others need. GNU ld looks for these in LD_LIBRARY_PATH, if the
 * command's folders have none. So the files that it finds there count, not the variable's text. False if they
 * are not known. */
static bool see_needed_names(struct reading *r)
{
    const char *folders = getenv("LD_LIBRARY_PATH");
    struct proof unused;
    size_t n_before = r->n_names;
    bool ok = strcmp(r->job->family, "cc") == 0 && tool_is_gcc(r->job) &&
              !(folders && strchr(folders, ';')); /* for ld a part of a name */
    for (size_t i = 0; ok && i < r->n_order; i++)
        if (r->order[i]->all & SEEN_READ && r->order[i]->all & IS_INPUT)
            ok = needed_libraries(r->order[i]->path, see_needed, r) == 0;
    for (size_t i = n_before; ok && i < r->n_names; i++)
        ok = library_digest(r->w, r->names[i], r->started_ns, &unused) == 0;
    if (!ok)
        r->n_names = n_before;
    return ok;
}

/* True if the names of libraries cover the variable. nvcc only hands it on: none of its commands that are kept links. */
static bool is_covered(struct reading *r, const char *variable)
{
    return strcmp(variable, "LD_LIBRARY_PATH") == 0 &&
           (strcmp(r->job->family, "nvcc") == 0 || see_needed_names(r));
}

static int add_variables(struct reading *r, struct err *e)
{
    for (size_t i = 0; i < r->n_variables; i++) {
        if (is_harmless_variable(r, r->variables[i]) || is_covered(r, r->variables[i]))
            continue;
        struct input *input = add(r, INPUT_VARIABLE, r->variables[i]);
        if (!input)
            return no_room(e);
        struct input now = {.path = r->variables[i]};
        input_look_at_variable(&now);
        input->type = now.type;
        input->digest = now.digest;
    }
    return 0;
}

static int add_libraries(struct reading *r, struct err *e)
{
    for (size_t i = 0; i < r->n_names; i++) {
        struct proof digest;
        if (library_digest(r->w, r->names[i], r->started_ns, &digest))
            return err_set(e, WARM_EREFUSED, "warm cannot tell how the loader finds the library %s",
                           r->names[i]);
        struct input *input = add(r, INPUT_LIBRARY, r->names[i]);
        if (!input)
            return no_room(e);
        input->digest = digest;
    }
    return 0;
}

/* True for a file that nobody touched since the run began. */
static bool is_old(const struct reading *r, const char *path)
{
    struct stat st;
    if (lstat(path, &st) < 0)
        return false;
    struct stamp stamp = stamp_of(&st);
    return stamp_is_before(&stamp, r->started_ns);
}

/* Checks that each existing output is the file that the run opened last, or an old one that nobody touched. Another process
 * may have put its own file there at the same time, which must not become this run's result. */
static int check_outputs(struct reading *r, struct err *e)
{
    char text[96];
    struct statx st;
    for (size_t i = 0; i < r->job->n_outputs; i++) {
        const char *path = r->job->outputs[i];
        if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_INO | STATX_BTIME, &st) < 0 ||
            (!r->made[i] && is_old(r, path)))
            continue;
        int len = snprintf(text, sizeof text, "%x.%x:%llx:%llx:%x:", st.stx_dev_major,
                           st.stx_dev_minor, (unsigned long long)st.stx_ino,
                           (unsigned long long)st.stx_btime.tv_sec, st.stx_btime.tv_nsec);
        if (!r->made[i] || strncmp(text, r->made[i], (size_t)len) != 0 ||
            strcmp(short_name(r, r->made[i] + len), path) != 0)
            return err_set(e, WARM_EREFUSED, "another process wrote %s during the run", path);
    }
    return 0;
}

static int check_sources(struct reading *r, struct err *e)
{
    const struct tool_job *job = r->job;
    size_t n_seen = 0;
    const char *unseen = NULL;
    for (size_t i = 0; i < job->n_sources; i++) {
        struct entry *entry = find(r, job->sources[i]);
        if (entry->path && entry->all & SEEN_READ)
            n_seen++;
        else
            unseen = job->sources[i];
    }
    return unseen && !(job->any_source && n_seen)
               ? err_set(e, WARM_EREFUSED, "its trace does not show that it read %s", unseen)
               : 0;
}

/* ---- the clock, in texts ---- */

#define TEXT_MAX_BYTES (64u << 20)

static int scan_text(const char *path, struct cuda_scan *scan, struct err *e)
{
    uint8_t *data;
    size_t len;
    if (file_is_binary(path))
        return 0;
    if (tool_read_file(path, TEXT_MAX_BYTES, &data, &len, NULL))
        return err_set(e, WARM_EREFUSED, "cannot read %s, to look for __DATE__ and __TIME__ in it",
                       path);
    cuda_scan(data, len, scan);
    free(data);
    return 0;
}

/* Checks the texts of compilers whose use of the clock is not recorded. REFUSED if a text or an argument has
 * the name of a macro for the clock, or the pieces of such a name. */
static int check_clock(struct reading *r, struct err *e)
{
    struct cuda_scan scan = {0};
    int code = 0;
    if (!r->job->expands_macros || r->clock_is_told)
        return 0;
    for (size_t i = 0; !code && i < r->n_order; i++)
        if (r->order[i]->all & SEEN_READ && r->order[i]->all & IS_INPUT)
            code = scan_text(r->order[i]->path, &scan, e);
    for (int i = 1; i < r->job->argc; i++)
        cuda_scan(r->job->argv[i], strlen(r->job->argv[i]), &scan);
    if (!code && cuda_scan_uses_clock(&scan))
        code = err_set(
            e, WARM_EREFUSED,
            "it may use the time: a text or an option names __DATE__, __TIME__ or __TIMESTAMP__");
    return code;
}

/* ---- the times of files, in texts ---- */

/* Returns the end of the text before `at`, without white space, line ends and comments. */
static const uint8_t *end_before(const uint8_t *data, const uint8_t *at)
{
    for (;;) {
        while (at > data && strchr(" \t\r\n\\", at[-1]))
            at--;
        if (at - data < 4 || memcmp(at - 2, "*/", 2) != 0)
            return at;
        at -= 3;
        while (at > data && memcmp(at, "/*", 2) != 0)
            at--;
    }
}

/* True if the text has the pragma "GCC dependency" (for Clang also "clang dependency"), which compares times of files. */
static bool compares_times(const uint8_t *data, size_t len)
{
    static const char word[] = "dependency";
    const uint8_t *end = data + len, *at = data;
    while ((at = memmem(at, (size_t)(end - at), word, strlen(word)))) {
        const uint8_t *before = end_before(data, at++);
        if ((before - data >= 3 && memcmp(before - 3, "GCC", 3) == 0) ||
            (before - data >= 5 && memcmp(before - 5, "clang", 5) == 0))
            return true;
    }
    return false;
}

static int check_times(struct reading *r, struct err *e)
{
    uint8_t *data;
    size_t len;
    for (size_t i = 0; r->job->expands_macros && i < r->n_order; i++) {
        const struct entry *entry = r->order[i];
        bool is_text = entry->all & SEEN_READ && entry->all & IS_INPUT &&
                       !text_begins_with_one(entry->path, ONE_OF("/usr/include/", "/usr/lib/")) &&
                       !file_is_binary(entry->path);
        if (!is_text || tool_read_file(entry->path, TEXT_MAX_BYTES, &data, &len, NULL))
            continue;
        bool compares = compares_times(data, len);
        free(data);
        if (compares)
            return err_set(e, WARM_EREFUSED,
                           "%s may compare the times of files (#pragma GCC "
                           "dependency)",
                           entry->path);
    }
    return 0;
}

/* ---- the end ---- */

/* Turns offsets into pointers into one buffer: first all paths, then those of the folders. */
static int finish(struct reading *r, struct inputs *out, struct err *e)
{
    struct inputs grouped = {0};
    const char *paths = (const char *)r->paths.data;
    for (size_t i = 0; i < r->out.n; i++)
        r->out.list[i].path = paths + (uintptr_t)r->out.list[i].path;
    int code = inputs_group(r->job, r->started_ns, r->out.list, r->out.n, &grouped, &r->folders);
    uintptr_t base = (uintptr_t)paths;
    size_t split = r->paths.len, len;
    writer_bytes(&r->paths, r->folders.data, r->folders.len);
    uint8_t *bytes = code ? NULL : writer_take(&r->paths, &len);
    if (!bytes) {
        free(grouped.list);
        return err_set(e, WARM_ENOMEM, "no memory for a trace");
    }
    for (size_t i = 0; i < grouped.n; i++) {
        struct input *input = &grouped.list[i];
        size_t at = input->kind == INPUT_FOLDER ? split + (uintptr_t)input->path
                                                : (uintptr_t)input->path - base;
        input->path = (const char *)bytes + at;
        if (input_has_text(input))
            input->program = (const char *)bytes + (uintptr_t)input->program;
    }
    *out = grouped;
    out->bytes = bytes;
    out->len = len;
    out->n_sets = 1;
    out->sets[0] = out->list;
    out->set_len[0] = out->n;
    return 0;
}

int inputs_from_trace(const struct tool_job *job, struct warm *w, const void *log, size_t len,
                      struct timespec started, struct inputs *out, struct err *e)
{
    assert(job && job->traced && out && (log || len == 0));
    struct reading r = {.job = job,
                        .w = w,
                        .started_ns =
                            (uint64_t)started.tv_sec * 1000000000u + (uint64_t)started.tv_nsec};
    if (job->short_names)
        snprintf(r.folder, sizeof r.folder, "%s", job->cwd);
    writer_init(&r.paths, INPUTS_BYTES_MAX);
    writer_init(&r.folders, INPUTS_BYTES_MAX);
    int code = read_log(&r, log, len, e);
    if (!code)
        code = check_sources(&r, e);
    for (size_t i = 0; !code && i < r.n_order; i++)
        code = add_entry(&r, r.order[i], e);
    if (!code)
        code = add_headers_inputs(&r, e);
    if (!code)
        code = add_variables(&r, e);
    if (!code)
        code = add_libraries(&r, e);
    if (!code)
        code = check_outputs(&r, e);
    if (!code)
        code = check_clock(&r, e);
    if (!code)
        code = check_times(&r, e);
    if (!code)
        code = finish(&r, out, e);
    if (!code && (code = root_names_check(job, out, e)))
        inputs_close(out);
    for (size_t h = 0; h < r.n_headers; h++)
        inputs_close(&r.headers[h]);
    inputs_close(&r.out);
    writer_close(&r.paths);
    writer_close(&r.folders);
    for (size_t i = 0; r.table && i < r.slots; i++)
        if (r.table[i].all & IS_OURS)
            free((void *)(uintptr_t)r.table[i].path);
    for (size_t i = 0; i < r.n_owned; i++)
        free(r.owned[i]);
    free(r.table);
    free(r.order);
    return code;
}
