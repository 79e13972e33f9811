/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front_end.c - shared by the front ends (cc.c, nvidia.c, ptxas.c): roots, keys, the environment,
 * files. It decides which parts of a command's surroundings go into its key; tool.h has the
 * contract.
 *
 * Thread: main.
 */
#define XXH_INLINE_ALL
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/exec/compilers.h"
#include "client/exec/programs.h"
#include "client/lib/debug.h"
#include "client/lib/whole_io.h"
#include "client/tool/tool.h"
#include "client/tool/unity.h"

extern char **environ;

#define INCLUDE_MARK 1      /* the byte in place of a folder in #include "FOLDER/NAME" */
#define ENVIRONMENT_MAX 256 /* variables that may count */

void tool_debug(const char *format, ...)
{
    const char *path = getenv("WARM_TOOL_DEBUG");
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    debug_say(DEBUG_INFO, "tool: %s", text);
    if (!path || path[0] != '/')
        return;
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    dprintf(fd, "%s\n", text);
    close(fd);
}

const char *tool_base(const char *path)
{
    assert(path);
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

size_t tool_folder_len(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) : 0;
}

void tool_label(struct tool_job *job)
{
    assert(job && job->argc);
    size_t at = (size_t)snprintf(job->label, sizeof job->label, "%s", tool_base(job->argv[0]));
    for (size_t i = 0; i < job->n_sources && at < sizeof job->label; i++) {
        const char *name = tool_base(job->sources[i]);
        if (i && at + 1 + strlen(name) >= sizeof job->label)
            break; /* a part of a name would find another file */
        at += (size_t)snprintf(job->label + at, sizeof job->label - at, " %s", name);
    }
    if (!job->n_sources && job->argc > 1 && at < sizeof job->label)
        snprintf(job->label + at, sizeof job->label - at, " %s", job->argv[1]);
}

void tool_not_kept(const struct tool_job *job, struct warm *w, const char *missed,
                   const char *reason)
{
    assert(job && w && missed && reason);
    tool_debug("not kept: %s", reason);
    warm_note(w, "uncacheable", *missed ? missed : job->label, reason);
}

/* ---- memory and roots ---- */

char *tool_job_keep(struct tool_job *job, char *text)
{
    assert(job);
    if (!text || job->n_memory == sizeof job->memory / sizeof job->memory[0]) {
        free(text);
        return NULL;
    }
    return job->memory[job->n_memory++] = text;
}

void tool_drop_root(struct tool_job *job)
{
    assert(job && job->n_roots);
    job->n_roots--;
    free(job->roots[job->n_roots]);
    free(job->leads_to[job->n_roots]);
    job->leads_to[job->n_roots] = NULL;
}

void tool_job_close(struct tool_job *job)
{
    while (job->n_roots)
        tool_drop_root(job);
    for (size_t i = 0; i < job->n_memory; i++)
        free(job->memory[i]);
    job->n_memory = 0;
    free(job->given);
    free(job->expanded);
    job->given = job->expanded = NULL;
}

/* True if the kernel could end us, or the compiler, for the size of a file that we write beside its own. */
static bool are_files_limited(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < TOOL_FILE_LIMIT_MIN;
}

int tool_plan(struct tool_job *job, struct warm *w, struct err *e)
{
    assert(job && job->plan && e);
    const char *exact = getenv("WARM_TOOL_EXACT");
    snprintf(job->label, sizeof job->label, "%s", tool_base(job->argv[0]));
    if (exact && strcmp(exact, "1") == 0)
        job->counts = COUNTS_ALL;
    job->exact = job->counts == COUNTS_ALL;
    if (getenv("LD_AUDIT"))
        return err_set(e, WARM_EREFUSED,
                       "LD_AUDIT is set, and such a library can change which files the loader "
                       "finds: unset it");
    if (are_files_limited())
        return err_set(e, WARM_EREFUSED,
                       "the limit on the size of files (ulimit -f) is below %llu bytes",
                       TOOL_FILE_LIMIT_MIN);
    if (!getcwd(job->cwd, sizeof job->cwd))
        return err_sys(e, WARM_EREFUSED, errno, "cannot tell the name of the working folder");
    job->in_top = job->cwd[1] == '\0';
    return job->plan(job, w, e);
}

struct view *tool_arguments(const struct tool_job *job)
{
    assert(job && job->argc >= 1);
    struct view *args = calloc((size_t)job->argc, sizeof *args);
    for (int i = 1; args && i < job->argc; i++)
        args[i - 1] = (struct view){job->argv[i], strlen(job->argv[i])};
    return args;
}

/* ---- files of options ---- */

#define EXPANDED_MAX_BYTES (64u << 10)
#define EXPANDED_MAX 4096

/* Cuts the next word out of a text, in place: at white space, without quotes and backslashes, as GCC and Clang do.
 * Returns NULL at the end. */
static char *next_word(char **at)
{
    char *from = *at + strspn(*at, " \t\n\r\f\v"), *word = from, *to = from, quote = '\0';
    if (!*from)
        return NULL;
    for (; *from && (quote || !isspace((unsigned char)*from)); from++) {
        if (*from == '\\' && from[1])
            *to++ = *++from;
        else if (quote ? *from == quote : *from == '\'' || *from == '"')
            quote = quote ? '\0' : *from;
        else
            *to++ = *from;
    }
    *at = from + (*from != '\0');
    *to = '\0';
    return word;
}

/* Returns the text of a file of options; NULL if there is none, or a compiler may read it in another way. */
static char *options_of(struct tool_job *job, const char *path, bool is_nvcc)
{
    uint8_t *data;
    size_t len;
    if (tool_read_file(path, EXPANDED_MAX_BYTES, &data, &len, NULL))
        return NULL;
    char *text = tool_job_keep(job, (char *)data);
    bool plain =
        text && strlen(text) == len && !strstr(text, "\\\n") && !(is_nvcc && strpbrk(text, "'\\#"));
    return plain ? text : NULL;
}

/* Returns the file that argument `i` names; *out_next if the next argument is its name. */
static const char *options_file(const struct tool_job *job, int i, bool is_nvcc, bool *out_next)
{
    static const char *const names[] = {"--options-file", "-optf"};
    const char *arg = job->argv[i];
    *out_next = false;
    if (!is_nvcc)
        return arg[0] == '@' ? arg + 1 : NULL;
    for (size_t k = 0; k < 2; k++) {
        size_t len = strlen(names[k]);
        if (strncmp(arg, names[k], len) != 0 || (arg[len] && arg[len] != '='))
            continue;
        *out_next = arg[len] == '\0';
        return *out_next ? job->argv[i + 1] : arg + len + 1;
    }
    return NULL;
}

void tool_expand(struct tool_job *job, bool is_nvcc)
{
    assert(job && job->argc >= 1);
    char **args = NULL, *word;
    int n = 0;
    bool next;
    for (int i = 0; i < job->argc && n < EXPANDED_MAX; i++) {
        const char *file = i ? options_file(job, i, is_nvcc, &next) : NULL;
        char *text = file ? options_of(job, file, is_nvcc) : NULL;
        if (text && !args) {
            args = calloc(EXPANDED_MAX + 1, sizeof *args);
            if (!args)
                return;
            memcpy(args, job->argv, (size_t)n * sizeof *args);
        }
        while (text && n < EXPANDED_MAX && (word = next_word(&text)))
            args[n++] = word;
        if (text)
            i += next;
        else if (args)
            args[n++] = job->argv[i];
        else
            n++;
    }
    if (!args || n == EXPANDED_MAX) {
        free(args);
        return;
    }
    free(job->expanded);
    job->argv = job->expanded = args;
    job->argc = n;
}

/* ---- */

bool tool_add_root(struct tool_job *job, const char *path, size_t len)
{
    assert(job && path && job->n_roots <= TOOL_ROOTS_MAX);
    const char *rest;
    char *root = strndup(path, len);
    if (!root || len < 2 || job->n_roots == TOOL_ROOTS_MAX ||
        (tool_root_of(job, root, &rest) >= 0 && *rest == '\0')) {
        bool there = root && tool_root_of(job, root, &rest) >= 0 && *rest == '\0';
        free(root);
        return there;
    }
    job->roots[job->n_roots++] = root;
    return true;
}

bool tool_is_output(const struct tool_job *job, const char *arg)
{
    assert(job && arg);
    for (size_t k = 0; k < job->n_outputs; k++) {
        size_t len = strlen(arg), n = strlen(job->outputs[k]), before = len - n;
        if (len >= n && strcmp(arg + before, job->outputs[k]) == 0 &&
            (before == 0 || arg[before - 1] == '=' || (before == 2 && strncmp(arg, "-o", 2) == 0)))
            return true;
    }
    return false;
}

/* True if an argument names something in the folder. The name of an output counts in a file of dependencies. */
static bool is_mentioned(const struct tool_job *job, const char *folder, size_t len)
{
    for (int i = 1; i < job->argc; i++) {
        const char *at = job->given ? job->given[i] : job->argv[i];
        bool counts = job->dependencies || !tool_is_output(job, at);
        while (counts && (at = memmem(at, strlen(at), folder, len))) {
            at += len;
            if (*at == '/' || *at == '\0')
                return true;
        }
    }
    return false;
}

bool tool_has_more(const char *folder)
{
    assert(folder);
    const char *home = getenv("HOME");
    return tool_is_temporary_folder(folder) ||
           (home && (strcmp(home, folder) == 0 || tool_is_below(home, folder)));
}

/* Adds a folder that the command names. */
static bool add_place(struct tool_job *job, const char *path, size_t len)
{
    char folder[PATH_MAX];
    if (len < 2 || len >= sizeof folder || !is_mentioned(job, path, len))
        return true;
    memcpy(folder, path, len);
    folder[len] = '\0';
    return tool_has_more(folder) || tool_add_root(job, folder, len);
}

/* Returns the length of the folder that has both. */
static size_t common_len(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t len = 0;
    for (size_t i = 0; i <= a_len && i <= b_len; i++) {
        bool ends = (i == a_len || a[i] == '/') && (i == b_len || b[i] == '/');
        if (ends)
            len = i;
        if (i == a_len || i == b_len || a[i] != b[i])
            break;
    }
    return len;
}

/* Returns the length of a folder's part to which the "../" of a source lead. */
static size_t folder_above(const char *folder, const char *source)
{
    size_t len = strlen(folder);
    for (; strncmp(source, "../", 3) == 0; source += 3)
        while (len && folder[--len] != '/')
            continue;
    return len;
}

/* True for a folder with two names or more: /home/u, but not /home. */
static bool is_deep(const char *folder, size_t len)
{
    return len && memchr(folder + 1, '/', len - 1);
}

/* Adds the working folder by one of its names, and the folder that has it and the source. */
static bool add_working(struct tool_job *job, const char *cwd, const char *source, size_t len)
{
    size_t n = strlen(cwd),
           common = len ? common_len(source, len, cwd, n) : folder_above(cwd, source);
    return add_place(job, cwd, job->in_top ? 0 : n) &&
           add_place(job, cwd, is_deep(cwd, common) ? common : 0);
}

bool tool_add_places(struct tool_job *job, const char *source, size_t len)
{
    assert(job && source);
    /* A shell may name the working folder by a link: /home/u for /mnt/home/u. */
    const char *pwd = getenv("PWD");
    struct stat named, here;
    bool is_link = pwd && pwd[0] == '/' && pwd[1] && strlen(pwd) < PATH_MAX &&
                   strcmp(pwd, job->cwd) != 0 && pwd[strlen(pwd) - 1] != '/' &&
                   !strstr(pwd, "//") && !strstr(pwd, "/..") && stat(pwd, &named) == 0 &&
                   stat(job->cwd, &here) == 0 && named.st_ino == here.st_ino &&
                   named.st_dev == here.st_dev;
    const char *linked = is_link ? pwd : NULL;
    if (job->counts >=
        COUNTS_SOURCE) /* of a relative source the working folder is a part of the place */
        return len == 0 || tool_is_below(source, job->cwd) ||
               add_place(job, job->cwd, job->in_top ? 0 : strlen(job->cwd));
    return add_place(job, source, len) && add_working(job, job->cwd, source, len) &&
           (!linked || add_working(job, linked, source, len));
}

/* True for a folder that the compiler may search anyhow: it then takes one of the two names. */
static bool is_of_system(const char *folder)
{
    static const char *const folders[] = {"/usr/include", "/usr/local/include", "/usr/lib"};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        if (strcmp(folder, folders[i]) == 0 || tool_is_below(folder, folders[i]))
            return true;
    return false;
}

/* True if the working folder or a root lies in the folder. */
static bool has_place(const struct tool_job *job, const char *folder)
{
    bool has = strcmp(job->cwd, folder) == 0 || tool_is_below(job->cwd, folder);
    for (size_t i = 0; !has && i < job->n_roots; i++)
        has = tool_is_below(job->roots[i], folder);
    return has;
}

/* Adds the nearest folder that has both this one and a place of the command, as that of a project whose build lies
 * elsewhere; none, if a root in it has this folder already. */
static void add_project(struct tool_job *job, const char *folder)
{
    const char *rest;
    int in = tool_root_of(job, folder, &rest);
    size_t nearest = in < 0 ? 0 : strlen(job->roots[in]);
    for (size_t i = 0, n = job->n_roots; i < n; i++) {
        char project[PATH_MAX];
        const char *root = job->roots[i];
        size_t len = common_len(root, strlen(root), folder, strlen(folder));
        memcpy(project, folder, len);
        project[len] = '\0';
        if (!job->leads_to[i] && len > nearest && is_deep(folder, len) &&
            !tool_is_below(folder, "/usr") && !tool_is_below(job->program, project) &&
            job->n_roots < TOOL_ROOTS_MAX)
            add_place(job, project, len);
    }
}

void tool_add_folder(struct tool_job *job, const char *path, size_t len)
{
    assert(job && path);
    char folder[PATH_MAX], real[PATH_MAX];
    const char *rest;
    if (len < 2 || len >= sizeof folder || path[0] != '/' || path[len - 1] == '/' ||
        job->n_roots == TOOL_ROOTS_MAX)
        return;
    memcpy(folder, path, len);
    folder[len] = '\0';
    add_project(job, folder);
    if (job->n_roots == TOOL_ROOTS_MAX)
        return;
    char *copy = tool_root_of(job, folder, &rest) < 0 && realpath(folder, real) &&
                         !is_of_system(real) && !has_place(job, folder)
                     ? strdup(real)
                     : NULL;
    if (copy && tool_add_root(job, folder, len))
        job->leads_to[job->n_roots - 1] = copy;
    else
        free(copy);
}

bool tool_add_python(struct tool_job *job, const char *path, size_t len)
{
    assert(job && path);
    static const char *const parts[] = {"/lib/python3.", "/include/python3."};
    char folder[PATH_MAX], real[PATH_MAX];
    const char *at = NULL;
    for (size_t i = 0; !at && i < sizeof parts / sizeof parts[0]; i++)
        at = memmem(path, len, parts[i], strlen(parts[i]));
    size_t n = at ? (size_t)(at - path) : 0;
    if (n == 0 || n >= sizeof folder || path[0] != '/' || !memchr(path + 1, '/', n - 1) ||
        memchr(path, '=', n)) /* which ends a name in that option */
        return true;
    memcpy(folder, path, n);
    folder[n] = '\0';
    bool is_own = realpath(folder, real) && strcmp(real, "/usr") != 0 &&
                  strcmp(real, "/usr/local") != 0 && !has_place(job, folder) &&
                  !tool_is_below(job->program, folder) && !tool_is_below(job->program, real);
    return !is_own || add_place(job, folder, n);
}

int tool_root_of(const struct tool_job *job, const char *path, const char **out_rest)
{
    assert(job && path && out_rest);
    int best = -1;
    size_t best_len = 0;
    for (size_t i = 0; i < job->n_roots; i++) {
        size_t len = strlen(job->roots[i]);
        if (len > best_len && strncmp(path, job->roots[i], len) == 0 &&
            (path[len] == '/' || path[len] == '\0')) {
            best = (int)i;
            best_len = len;
        }
    }
    *out_rest = path + best_len;
    return best;
}

static int by_length(const void *a, const void *b)
{
    size_t x = strlen(*(char *const *)a), y = strlen(*(char *const *)b);
    return (x > y) - (x < y);
}

/* Adds the outer roots first. The last option that fits counts: of a root in another one, the inner, as for
 * tool_root_of. */
int tool_map_roots(struct tool_job *job, char *before, struct err *e)
{
    assert(job && !job->given);
    char *roots[TOOL_ROOTS_MAX], *text;
    size_t n = (size_t)job->argc;
    job->given = calloc(n + 2 * job->n_roots + 1, sizeof *job->given);
    if (!job->given)
        return err_set(e, WARM_ENOMEM, "no memory for arguments");
    memcpy(job->given, job->argv, n * sizeof *job->given);
    memcpy(roots, job->roots, job->n_roots * sizeof *roots);
    qsort(roots, job->n_roots, sizeof *roots, by_length);
    for (size_t i = 0; i < job->n_roots; i++) {
        if (asprintf(&text, "-fmacro-prefix-map=%s/=", roots[i]) < 0 || !tool_job_keep(job, text))
            return err_set(e, WARM_ENOMEM, "no memory for arguments");
        if (before)
            job->given[n++] = before;
        job->given[n++] = text;
    }
    job->maps_roots = true;
    return 0;
}

/* ---- outputs ---- */

int tool_add_output(struct tool_job *job, const char *path, struct err *e)
{
    assert(job && job->n_outputs <= TOOL_OUTPUTS_MAX);
    struct stat st;
    if (!path)
        return err_set(e, WARM_ENOMEM, "no memory for the name of an output");
    if (job->n_outputs == TOOL_OUTPUTS_MAX)
        return err_set(e, WARM_EREFUSED, "the command writes more than %d files", TOOL_OUTPUTS_MAX);
    mode_t mask = umask(0);
    umask(mask);
    if (mask & S_IRWXU)
        return err_set(e, WARM_EREFUSED, "the umask %03o takes rights from the owner of new files",
                       (unsigned)mask);
    if (lstat(path, &st) == 0) {
        mode_t mode = st.st_mode & 07777;
        bool is_plain = S_ISREG(st.st_mode) && st.st_nlink == 1 && st.st_uid == geteuid() &&
                        (mode == (0666 & ~mask) || mode == (0777 & ~mask));
        if (!is_plain)
            return err_set(
                e, WARM_EREFUSED,
                "the output %s exists, and is no plain file of this user with usual permissions",
                path);
    }
    job->outputs[job->n_outputs++] = path;
    return 0;
}

/* ---- keys ---- */

void tool_key_program(const struct tool_job *job, struct key_builder *key, uint32_t tag)
{
    assert(job && job->program && key);
    char found[PATH_MAX];
    const char *argv0 = job->argv[0], *path = getenv("PATH"), *slash = strrchr(argv0, '/');
    bool by_path = !slash && program_find(argv0, found) && strcmp(found, job->program) == 0;
    key_add_text(key, tag, job->program);
    key_add_text(key, tag, by_path ? job->program : argv0);
    if (!slash && !by_path)
        key_add_text(key, tag, path ? path : "");
#ifdef __aarch64__
    /* Its sets of inputs never fit another machine, which would only push them out of a tier. */
    key_add_text(key, tag, "aarch64");
#endif
}

void tool_key_path(const struct tool_job *job, struct key_builder *key, uint32_t tag,
                   const char *path)
{
    assert(job && key && path);
    const char *rest;
    int root = tool_root_of(job, path, &rest);
    key_add_u64(key, tag, (uint64_t)(root + 1));
    key_add_text(key, tag, rest);
}

int tool_inner_root(const struct tool_job *job, const char *path, size_t *out_at)
{
    assert(job && path && out_at);
    int best = -1;
    for (size_t i = 0; path[0] != '/' && i < job->n_roots; i++) {
        const char *found = strstr(path, job->roots[i]);
        size_t len = strlen(job->roots[i]), at = found ? (size_t)(found - path) : 0;
        if (!found || found[len] != '/' || (best >= 0 && at > *out_at) ||
            (best >= 0 && at == *out_at && len < strlen(job->roots[best])))
            continue;
        best = (int)i;
        *out_at = at;
    }
    return best;
}

void tool_key_output(const struct tool_job *job, struct key_builder *key, uint32_t tag,
                     const char *path)
{
    size_t at = 0;
    int root = tool_inner_root(job, path, &at);
    if (root >= 0) {
        key_add_u64(key, tag, UINT64_MAX);
        key_add(key, tag, path, at);
        key_add_u64(key, tag, (uint64_t)(root + 1));
        key_add_text(key, tag, path + at + strlen(job->roots[root]));
    } else {
        tool_key_path(job, key, tag, path);
    }
}

void tool_key_roots(const struct tool_job *job, struct key_builder *key, uint32_t tag)
{
    assert(job && key);
    key_add_u64(key, tag, job->n_roots);
    for (size_t i = 0; i < job->n_roots; i++)
        key_add_text(key, tag, job->leads_to[i] ? job->leads_to[i] : "");
}

void tool_key_reach(const struct tool_job *job, struct key_builder *key, uint32_t tag,
                    const char *folder, size_t len)
{
    assert(job && key && folder);
    while (len && folder[len - 1] == '/')
        len--;
    for (size_t i = 0; len && folder[0] == '/' && i < job->n_roots; i++) {
        if (strncmp(job->roots[i], folder, len) != 0 || job->roots[i][len] != '/')
            continue;
        key_add_u64(key, tag, i);
        key_add_text(key, tag, job->roots[i] + len);
    }
}

void tool_name(const struct tool_job *job, const char *kind, struct key_builder *key,
               char out[TOOL_NAME_TEXT])
{
    assert(job && job->family && kind && key);
    struct key short_key;
    struct proof proof;
    key_end(key, &short_key, &proof);
    int at = snprintf(out, TOOL_NAME_TEXT, "%s:%s:", job->family, kind);
    assert(at > 0 && (size_t)at + 2 * sizeof proof < TOOL_NAME_TEXT);
    bytes_to_hex(&proof, sizeof proof, out + at);
}

void tool_key_end(struct tool_job *job, struct key_builder *key)
{
    tool_name(job, "2", key, job->names[job->n_names++]);
}

static bool is_listed(const char *variable, const char *const *names)
{
    size_t len = strcspn(variable, "=");
    for (size_t i = 0; names[i]; i++) {
        size_t n = strlen(names[i]);
        if (names[i][n - 1] == '*' ? strncmp(variable, names[i], n - 1) == 0
                                   : n == len && strncmp(variable, names[i], n) == 0)
            return true;
    }
    return false;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

bool tool_key_environment(struct key_builder *key, uint32_t tag, const char *const *names)
{
    assert(key && names);
    const char *found[ENVIRONMENT_MAX];
    size_t n = 0;
    for (char **v = environ; *v; v++) {
        if (!is_listed(*v, names))
            continue;
        if (n == ENVIRONMENT_MAX)
            return false;
        found[n++] = *v;
    }
    qsort(found, n, sizeof found[0], by_text);
    key_add_u64(key, tag, n);
    for (size_t i = 0; i < n; i++)
        key_add_text(key, tag, found[i]);
    return true;
}

bool tool_names_root(const struct tool_job *job, const char *text, size_t len)
{
    assert(job && (text || len == 0));
    for (size_t i = 0; i < job->n_roots; i++)
        if (len && memmem(text, len, job->roots[i], strlen(job->roots[i])))
            return true;
    return false;
}

/* True if a root lies below a folder that the compiler searches by a variable, "A:B" or "-IA -IB": a file in the root
 * then has two names. */
static bool reaches_root(const struct tool_job *job, const char *variable)
{
    static const char *const searched[] = {"CPATH",         "C_INCLUDE_PATH", "CPLUS_*", "OBJC_*",
                                           "CUDA_INC_PATH", "INCLUDES",       NULL};
    bool starts = true;
    if (!is_listed(variable, searched))
        return false;
    for (const char *at = strchr(variable, '='); at && *at; at++) {
        size_t len = starts && *at == '/' ? strcspn(at, ": ") : 0;
        while (len && at[len - 1] == '/')
            len--;
        for (size_t i = 0; len && i < job->n_roots; i++)
            if (strncmp(job->roots[i], at, len) == 0 && job->roots[i][len] == '/')
                return true;
        starts = strchr("=: I", *at) != NULL;
    }
    return false;
}

bool tool_environment_names_root(const struct tool_job *job, const char *const *names)
{
    static const char *const found_by[] = {"LD_LIBRARY_PATH", "LD_PRELOAD", NULL};
    for (char **v = environ; *v; v++)
        if (((is_listed(*v, names) || is_listed(*v, found_by)) &&
             tool_names_root(job, *v, strlen(*v))) ||
            reaches_root(job, *v))
            return true;
    return false;
}

bool tool_prints_to_one_place(void)
{
    struct stat out, err;
    return fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 &&
           out.st_dev == err.st_dev && out.st_ino == err.st_ino;
}

static const char *const locale_variables[] = {"LANG", "LANGUAGE", "LC_*", NULL};
static const char *const terminal_variables[] = {"TERM",     "COLUMNS",   "COLORTERM", "GCC_COLORS",
                                                 "GCC_URLS", "TERM_URLS", "NO_COLOR",  NULL};

bool tool_is_of_messages(const char *variable)
{
    return is_listed(variable, locale_variables) || is_listed(variable, terminal_variables);
}

void tool_key_messages(struct tool_job *job, struct key_builder *key, uint32_t tag)
{
    assert(job && key);
    struct winsize size = {0};
    bool out = isatty(STDOUT_FILENO), err = isatty(STDERR_FILENO);
    key_add_u64(key, tag, job->loud);
    if (!job->loud)
        return;
    tool_key_environment(key, tag, locale_variables);
    job->terminal = out || err;
    key_add_u64(key, tag,
                (uint64_t)tool_prints_to_one_place() | (uint64_t)out << 1 | (uint64_t)err << 2);
    if (!job->terminal)
        return;
    ioctl(err ? STDERR_FILENO : STDOUT_FILENO, TIOCGWINSZ, &size);
    key_add_u64(key, tag, size.ws_col);
    tool_key_environment(key, tag, terminal_variables);
}

const char *tool_next_preload(const char *at, size_t *out_len)
{
    assert(out_len);
    static const char own[] = "libwarm-preload.so";
    while (at && *at) {
        size_t len = strcspn(at, ": ");
        bool ours = len >= strlen(own) && memcmp(at + len - strlen(own), own, strlen(own)) == 0;
        if (len && !ours) {
            *out_len = len;
            return at;
        }
        at += len + (at[len] != '\0');
    }
    return NULL;
}

void tool_key_preloads(struct key_builder *key, uint32_t tag)
{
    size_t len;
    for (const char *at = getenv("LD_PRELOAD"); (at = tool_next_preload(at, &len)); at += len)
        key_add(key, tag, at, len);
}

/* ---- files ---- */

bool tool_is_gcc(const struct tool_job *job)
{
    assert(job && job->program);
    char path[PATH_MAX];
    const char *name = realpath(job->program, path) ? compiler_name(path) : NULL;
    return name && (strcmp(name, "g++") == 0 || strcmp(name, "gcc") == 0);
}

bool tool_is_below(const char *path, const char *folder)
{
    size_t len = folder ? strlen(folder) : 0;
    while (len && folder[len - 1] == '/')
        len--;
    return len && folder[0] == '/' && strncmp(path, folder, len) == 0 && path[len] == '/';
}

/* Calls `fits` for a path and a folder as they are written, then without links and "..". `folder` may be NULL. */
static bool fits_somehow(const char *path, const char *folder,
                         bool (*fits)(const char *path, const char *folder))
{
    char real_path[PATH_MAX], real_folder[PATH_MAX];
    return folder && path[0] == '/' &&
           (fits(path, folder) || (realpath(path, real_path) && realpath(folder, real_folder) &&
                                   fits(real_path, real_folder)));
}

bool tool_is_in(const char *path, const char *variable)
{
    assert(path && variable);
    return fits_somehow(path, getenv(variable), tool_is_below);
}

bool tool_is_of_extension(const char *path)
{
    assert(path);
    return strstr(path, "/torch_extensions/") || tool_is_in(path, "TORCH_EXTENSIONS_DIR");
}

bool tool_is_of_jit(const char *path)
{
    assert(path);
    return strstr(path, "/.cache/flashinfer/") || strstr(path, "/.cache/tvm-ffi/") ||
           tool_is_in(path, "TVM_FFI_CACHE_DIR");
}

bool tool_is_of_pytensor(const char *path)
{
    assert(path);
    const char *folder = strstr(path, "/compiledir_Linux-");
    return folder && strchr(folder + 1, '/');
}

bool tool_is_of_keops(const char *path)
{
    assert(path);
    const char *folder = strstr(path, "/.cache/keops");
    return folder && isdigit((unsigned char)folder[strlen("/.cache/keops")]);
}

size_t tool_hide_includes(const char *path, uint8_t *text, size_t len)
{
    assert(path && (text || len == 0));
    static const char include[] = "#include \"";
    const char *slash = strrchr(path, '/');
    size_t folder = slash ? (size_t)(slash - path) : 0, n = sizeof include - 1, to = 0;
    len = unity_hide(path, text, tool_hide_pip(text, len));
    if (!folder || !tool_is_of_keops(path) || !len || memchr(text, INCLUDE_MARK, len))
        return len;
    for (size_t at = 0; at < len; at++) {
        bool names = (at == 0 || text[at - 1] == '\n') && len - at > n + folder &&
                     memcmp(text + at, include, n) == 0 &&
                     memcmp(text + at + n, path, folder) == 0 && text[at + n + folder] == '/';
        if (names) {
            memmove(text + to, text + at, n);
            to += n;
            text[to++] = INCLUDE_MARK;
            at += n + folder;
        }
        text[to++] = text[at];
    }
    return to;
}

/* Calls `fits` for each folder of temporary files. */
static bool any_temporary(const char *path, bool (*fits)(const char *path, const char *folder))
{
    static const char *const variables[] = {"TMPDIR", "TORCHINDUCTOR_CACHE_DIR",
                                            "TRITON_CACHE_DIR"};
    static const char *const folders[] = {"/tmp", "/var/tmp", "/dev/shm"};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        if (fits(path, folders[i]))
            return true;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        if (fits_somehow(path, getenv(variables[i]), fits))
            return true;
    return false;
}

static bool is_same(const char *path, const char *folder) { return strcmp(path, folder) == 0; }

bool tool_is_temporary_folder(const char *path)
{
    assert(path);
    return any_temporary(path, is_same);
}

bool tool_is_temporary(const char *path)
{
    assert(path);
    return any_temporary(path, tool_is_below) || tool_is_of_extension(path) ||
           tool_is_of_pytensor(path);
}

int tool_read_input(size_t max, uint8_t **out, size_t *out_len, struct err *e)
{
    assert(out && out_len);
    static bool is_copy; /* an earlier plan of this command took it */
    char buffer[1 << 16];
    ssize_t n;
    if (is_copy)
        return lseek(STDIN_FILENO, 0, SEEK_SET) == 0
                   ? tool_read_file("/proc/self/fd/0", max, out, out_len, e)
                   : err_set(e, WARM_EREFUSED, "cannot read standard input again");
    if (isatty(STDIN_FILENO))
        return err_set(e, WARM_EREFUSED, "the source is what somebody types");
    int fd = memfd_create("warm-input", MFD_CLOEXEC);
    if (fd < 0)
        return err_sys(e, WARM_EREFUSED, errno, "no memory for standard input");
    bool ok = true;
    while (ok && (n = read(STDIN_FILENO, buffer, sizeof buffer)) != 0)
        ok = n > 0 ? write(fd, buffer, (size_t)n) == n : errno == EINTR;
    ok = ok && lseek(fd, 0, SEEK_SET) == 0 && dup2(fd, STDIN_FILENO) >= 0;
    close(fd);
    is_copy = ok;
    return ok ? tool_read_file("/proc/self/fd/0", max, out, out_len, e)
              : err_set(e, WARM_EREFUSED, "cannot read standard input");
}

int tool_read_file(const char *path, size_t max, uint8_t **out, size_t *out_len, struct err *e)
{
    assert(path && out && out_len);
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return err_sys(e, WARM_ENOT_FOUND, errno, "cannot open %s", path);
    int code = 0;
    uint8_t *data = NULL;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        code = err_set(e, WARM_EINVALID, "%s is no plain file", path);
    else if ((uint64_t)st.st_size > max)
        code = err_set(e, WARM_ETOO_BIG, "%s has %lld bytes, more than the limit of %zu", path,
                       (long long)st.st_size, max);
    else if (!(data = malloc((size_t)st.st_size + 1)))
        code = err_set(e, WARM_ENOMEM, "no memory for %s", path);
    if (!code && whole_read(fd, data, (size_t)st.st_size, 0) != st.st_size)
        code = err_set(e, WARM_EIO, "cannot read %s", path);
    close(fd);
    if (code) {
        free(data);
        return code;
    }
    data[st.st_size] = '\0';
    *out = data;
    *out_len = (size_t)st.st_size;
    return 0;
}
