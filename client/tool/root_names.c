/* SPDX-License-Identifier: Apache-2.0 */
/*
 * root_names.c - decides if a result may depend on the place of a source in a root, or on its
 * spelling. trace_log.c calls it at the end of a traced run.
 *
 * result.c finds a root's name that shows in the bytes. This file looks for texts that compute with
 * the name: its length, a hash, wide characters. A file's name comes from these places:
 *     __FILE__         names the file in which it is expanded: a file in a root that spells it, or
 *                      a macro of any header that leads to it
 *     __BASE_FILE__,   name the source, or the caller's file, from any header: so no header outside
 *     __builtin_FILE,  of the system's folders may spell them (a list of known headers may, by their
 *     source_location  digests)
 *     __PRETTY_FUNCTION__  with Clang, which names a lambda and a type without a name by the file and line:
 *                      "(lambda at /tmp/x/m.cc:3:1)". So no text may spell it, or a macro that leads to it, but
 *                      headers of the standard library
 *     ##               may join any of them: no such text may spell a first piece of one, such as __FI,
 *                      but CUDA's own headers, which join none to what they are given
 *
 * A preprocessor alone cannot compute with texts: a name shows as it is, or not at all.
 *
 * A text that spells a root, as #include "/tmp/x/a.h" does, means that folder, wherever it is
 * compiled. No result of such a text is kept for another folder.
 *
 * Thread: main.
 */
#define XXH_INLINE_ALL
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tool/file_state.h"
#include "client/tool/pch.h"
#include "client/tool/trace_log.h"
#include "keygen/cuda/cuda.h"
#include "keygen/cuda/reach.h"

#define TEXT_MAX_BYTES (64u << 20)

static const char *const caller_names[] = {"__BASE_FILE__", "__builtin_FILE", "__builtin_FILE_NAME",
                                           "source_location", "__builtin_source_location"};

static bool is_system(const char *path)
{
    return text_begins_with_one(path, ONE_OF("/usr/include/", "/usr/lib/")) ||
           text_has_one_of(path, ONE_OF("/include/c++/", "/include/python3.", "/lib/gcc/",
                                        "/lib/clang/", "/lib/llvm-"));
}

/* True for a header whose use of names is harmless. A root with Python's headers, or NumPy's, is an environment. */
static bool is_system_header(const struct input *i)
{
    return i->root ? text_begins(i->path, "/include/python3.") ||
                         text_has_one_of(i->path, ONE_OF("/numpy/_core/include/numpy/",
                                                         "/numpy/core/include/numpy/"))
                   : is_system(i->path);
}

static bool is_assert_header(const struct input *i)
{
    return i->root == 0 && strcmp(i->path, "/usr/include/assert.h") == 0;
}

/* True for headers of the standard library and of Clang. They hand __PRETTY_FUNCTION__ on to functions that print it,
 * and compute nothing with it; other system headers may. */
static bool is_standard_library(const struct input *i)
{
    return is_assert_header(i) || (i->root == 0 && is_system(i->path) &&
                                   text_has_one_of(i->path, ONE_OF("/c++/", "/lib/clang/")));
}

struct toolkit {
    char name[PATH_MAX], real[PATH_MAX]; /* the second without links; "": no nvcc ran */
};

/* Finds the folder of the CUDA toolkit whose nvcc ran. nvcc reads TOOLKIT/bin/nvcc.profile. */
static struct toolkit toolkit_of(const struct inputs *in)
{
    static const char profile[] = "/bin/nvcc.profile";
    struct toolkit t = {0};
    for (size_t i = 0; i < in->n; i++) {
        size_t len = strlen(in->list[i].path), n = sizeof profile - 1;
        if (in->list[i].kind != INPUT_FILE || in->list[i].root || len <= n || len >= PATH_MAX ||
            strcmp(in->list[i].path + len - n, profile) != 0)
            continue;
        memcpy(t.name, in->list[i].path, len - n);
        if (!realpath(t.name, t.real))
            t = (struct toolkit){0};
        return t;
    }
    return t;
}

static bool is_header_below(const char *path, const char *toolkit)
{
    size_t len = strlen(toolkit);
    return len && strncmp(path, toolkit, len) == 0 &&
           text_begins_with_one(path + len, ONE_OF("/include/", "/targets/", "/bin/../include/",
                                                   "/bin/../targets/"));
}

/* True for a header of that toolkit, in no root, or in a folder to search that leads there. */
static bool is_of_toolkit(const struct tool_job *job, const struct input *i,
                          const struct toolkit *toolkit)
{
    char path[2 * PATH_MAX];
    const char *folder = i->root ? job->leads_to[i->root - 1] : "";
    if (!folder)
        return false;
    snprintf(path, sizeof path, "%s%s", folder, i->path);
    return is_header_below(path, toolkit->name) || is_header_below(path, toolkit->real);
}

static const char *const pasted_names[] = {"__FILE__", "__BASE_FILE__", "__builtin_FILE",
                                           "__PRETTY_FUNCTION__"};
enum { N_PASTED_NAMES = sizeof pasted_names / sizeof pasted_names[0] };

/* True for the first piece of a name that ## can join to it, or the second after a '_'. Every name begins with two. A
 * header that does not count joins at most one, so each such name needs a piece from another text that begins with '_';
 * the later ones need not count. `can` tells which names the words of all texts can make. */
static bool is_piece(struct view word, const bool *can)
{
    for (size_t i = 0; i < N_PASTED_NAMES; i++)
        for (size_t at = 0; can[i] && at < 2; at++)
            if (word.len < strlen(pasted_names[i]) &&
                strncmp(pasted_names[i] + at, word.data, word.len) == 0)
                return true;
    return false;
}

#define FAILS "pybind11_fail" /* throws its text; any header of its release may call it */

/* Headers, by the digest of all their bytes, whose use of such names is harmless: they hand them on to functions that
 * are compiled elsewhere. So the name stands in the result as it is, where result.c finds it. Another text that could
 * compute with it must spell the type, or FAILS. Other headers of that release, in the same folder, join at most one '_' to what
 * they are given, so a text that makes a name with them spells a piece of it. (Of CCCL, __ in macros for #if alone.) */
static const struct harmless {
    const char *sha256, *path,
        *type; /* path: below the release's folder; type NULL: there is none */
} harmless[] = {
    /* CCCL of CUDA 13.0; of FlashInfer 0.7 as in its repository, with CUB and Thrust; of CUDA 13.5: no such name */
    {"be141a1d239d70e850e6c99757685cfb55f1816cca988aab7a0fed867ebc469b", "nv/detail/__preprocessor",
     NULL},
    {"e0d746ea364e52ab89e5ab395762f3859c923dd4b88aee4657023b85172ba541",
     "libcudacxx/include/nv/detail/__preprocessor", NULL},
    {"e0d746ea364e52ab89e5ab395762f3859c923dd4b88aee4657023b85172ba541", "nv/detail/__preprocessor",
     NULL},
    /* CUDA 13.0, 13.4 and 13.5: __##a##__ is for Microsoft's compiler, behind #if defined(__GNUC__) … #else */
    {"61b41d1a8c439d26fe6652ad21d94ca9478a938f6722d9a4137390a700dc9de7", "crt/host_defines.h",
     NULL},
    {"11b67879d28c09ee4b1aba1ebeeae7c62a0af7be8bcb6ffd499c34f10981e288", "crt/host_defines.h",
     NULL},
    {"263c17b5d4847692246c7002232a0269c9a111c9d50ad2cd3449baef58a6004b", "crt/host_defines.h",
     NULL},
    /* pybind11 2.10.4, 2.11.1 and 2.12.0, 2.13.6, 3.0.1, 3.1.0: a function has the name _ */
    {"517512f617dfda931ea633d8a18e2ee4d3e7d8f27a5ccd4b6a845d60d0a67f65", "detail/descr.h", NULL},
    {"9359efcadc75ce1321f0444bdb14bc5276f1722a397daede648aa74ec674a2b1", "detail/descr.h", NULL},
    {"0fade9207b05de5b8efe0e750a36c953c5a5f553a285c8845d0857bdf460f919", "detail/descr.h", NULL},
    {"777d3c459f772f414b13b30a4867d7dc9993ac263cc3f3af521106844be21a74", "detail/descr.h", NULL},
    {"8b225ac30dcaea0540fe5c5e83af6f359c8de375eb3d5b7251b8665cc0625459", "detail/descr.h", NULL},
    /* pybind11 3.0.0, 3.0.1, 3.0.4, 3.1.0: __FILE__ in messages of FAILS */
    {"0c8cc0571183e5b5626c87ef41eec9562ee918719f8d7ef787d3bb329877c3ff", "cast.h", FAILS},
    {"7d33db068e6cf32fb1384a05f18f7546f683312284c33ffee5546f3f8376c6c9", "cast.h", FAILS},
    {"a44c37dee8641b78eb4f44cc55acc6fba674546e7a07745b4ccdbb6e002d25e4", "cast.h", FAILS},
    {"54cfdb09535529c4b33f5cb06312ea008260d43e71289b5221897c9c8dc8efed", "cast.h", FAILS},
    /* PyTorch 2.13: a default argument; parameters; arguments of the logger's constructor */
    {"a013b3b06b1f1f691c21dbd30f2555f49fabbadcaa9a6c457fe7c79637d91915", "c10/util/StringUtil.h",
     "SourceLocation"},
    {"fdc201485183bb83a21e48f829f78c78dcfbcac23cfdca08c9c7098707f8d733", "c10/util/Exception.h",
     "SourceLocation"},
    {"b6f3aa374a0f2d3251678eee879c5aa4732065a6162e210dab33ac69d39a4780",
     "c10/util/logging_common.h", "SourceLocation"},
    {"0f6575659cae938aed7812ca7a12bc86b9dbdfcf47e9ca60bffab51e98f7427a",
     "c10/util/logging_is_not_google_glog.h", "SourceLocation"},
};

/* Returns the row of a harmless header; NULL for other inputs. */
static const struct harmless *find_harmless(const struct input *i)
{
    char text[2 * sizeof i->digest + 1];
    size_t len = i && i->kind == INPUT_FILE ? strlen(i->path) : 0;
    if (!len)
        return NULL;
    for (size_t k = 0; k < sizeof harmless / sizeof harmless[0]; k++) {
        size_t n = strlen(harmless[k].path);
        if (len <= n || strcmp(i->path + len - n, harmless[k].path) != 0)
            continue;
        bytes_to_hex(&i->digest, sizeof i->digest, text);
        if (strcmp(harmless[k].sha256, text) == 0)
            return &harmless[k];
    }
    return NULL;
}

static bool hands_file_to_fails(const struct harmless *h)
{
    return h && h->type && strcmp(h->type, FAILS) == 0;
}

#define RELEASES_MAX 4

/* The releases that harmless headers belong to. */
struct releases {
    struct release {
        const char *folder;
        size_t len;
        uint8_t root;
    } list[RELEASES_MAX];
    size_t n;
    const char *type; /* NULL: no such header has one */
    bool fails;       /* a header hands its __FILE__ to FAILS */
};

static bool is_of_release(const struct input *i, const struct releases *r)
{
    for (size_t k = 0; k < r->n; k++)
        if (i->root == r->list[k].root && strncmp(i->path, r->list[k].folder, r->list[k].len) == 0)
            return true;
    return false;
}

static struct releases releases_of(const struct inputs *in)
{
    struct releases r = {0};
    for (size_t i = 0; i < in->n; i++) {
        const struct input *from = &in->list[i];
        const struct harmless *h = find_harmless(from);
        if (hands_file_to_fails(h))
            r.fails = true;
        else if (h && h->type)
            r.type = h->type;
        if (h && r.n < RELEASES_MAX && !is_of_release(from, &r))
            r.list[r.n++] =
                (struct release){from->path, strlen(from->path) - strlen(h->path), from->root};
    }
    return r;
}

struct asking {
    const char *type; /* of a harmless header that was read; NULL: none was */
    bool fails;       /* a harmless header hands a name to FAILS */
    bool is_harmless; /* the text is such a header: the names of callers do not count */
    bool is_system;   /* the text is a system's header: no name counts */
    bool
        joins_none; /* it is a header of CUDA's toolkit, or of a known release: pieces do not count */
    bool can_paste[N_PASTED_NAMES];
    bool asks;
};

static void on_word(void *self, enum cuda_place place, struct view word)
{
    struct asking *a = self;
    (void)place;
    a->asks |= !a->is_system && !a->is_harmless && a->type && view_is(word, a->type);
    for (size_t i = 0;
         !a->is_system && !a->is_harmless && i < sizeof caller_names / sizeof caller_names[0]; i++)
        a->asks |= view_is(word, caller_names[i]);
    a->asks |= !a->is_system && !a->joins_none &&
               (is_piece(word, a->can_paste) || (a->fails && view_is(word, FAILS)));
}

static int read_text(const struct tool_job *job, const struct input *i, uint8_t **out,
                     size_t *out_len)
{
    char path[PATH_MAX];
    const char *root = i->root ? job->roots[i->root - 1] : "";
    int n = snprintf(path, sizeof path, "%s%s", root, i->path);
    if (n < 0 || n >= PATH_MAX)
        return WARM_ETOO_BIG;
    if (file_is_binary(path)) {
        *out = NULL;
        *out_len = 0;
        return 0;
    }
    int code = tool_read_file(path, TEXT_MAX_BYTES, out, out_len, NULL);
    if (!code && (i->root || i->path[0] != '/'))
        *out_len = tool_hide_includes(path, *out, *out_len);
    return code;
}

struct texts {
    struct view *list; /* of each input; empty if it is no text. Then of each -D */
    size_t n;
    struct cuda_reach *reach; /* NULL: no result can compute with a name, so it is not needed */
};

static void add_text(struct texts *t, const void *data, size_t len)
{
    t->list[t->n++] = (struct view){data, len};
}

/* Adds "-DNAME=VALUE" as "#define NAME VALUE". */
static bool add_definition(struct texts *t, const char *macro)
{
    char *text;
    int len = asprintf(&text, "#define %s\n", macro);
    if (len < 0)
        return false;
    char *equals = strchr(text, '=');
    if (equals)
        *equals = ' ';
    add_text(t, text, (size_t)len);
    return true;
}

static bool add_definitions(const struct tool_job *job, struct texts *t)
{
    bool ok = true;
    for (int i = 1; ok && i < job->argc; i++) {
        const char *arg = strncmp(job->argv[i], "-Wp,", 4) == 0 ? job->argv[i] + 4 : job->argv[i];
        if (strncmp(arg, "-D", 2) == 0 && (arg[2] || i + 1 < job->argc))
            ok = add_definition(t, arg[2] ? arg + 2 : job->argv[i + 1]);
    }
    return ok;
}

/* ---- macros that name a file in a debugging build alone ---- */

/* True if the command defines NDEBUG, and says nothing else about it. */
static bool has_ndebug(const struct tool_job *job)
{
    static const char *const variables[] = {"NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"};
    bool defines = false, is_clear = true;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        is_clear &= !getenv(variables[i]) || !strstr(getenv(variables[i]), "NDEBUG");
    for (int i = 1; i < job->argc; i++) {
        const char *arg = job->argv[i], *name = strstr(arg, "NDEBUG");
        if (!name)
            continue;
        bool is_behind = name == arg && strcmp(job->argv[i - 1], "-D") == 0;
        bool is_defined = is_behind || (name == arg + 2 && strncmp(arg, "-D", 2) == 0);
        is_clear &= is_defined && (name[6] == '\0' || name[6] == '=');
        defines |= is_defined;
    }
    return defines && is_clear;
}

/* What must hold in all texts: NDEBUG is defined throughout, and only the headers of the system and of CUDA define assert;
 * Py_DEBUG is not, and only Python's headers define Py_DECREF. Then neither names a file. */
struct build {
    bool is_release, no_asserts, no_counts;
    bool is_standard, is_python; /* the text is a header that may define them */
    bool follows_undef;          /* the last word was #undef's */
};

static void on_build(void *self, enum cuda_place place, struct view word)
{
    struct build *b = self;
    bool is_condition = place == CUDA_DIRECTIVE && !b->follows_undef;
    if (view_is(word, "UNDEBUG") || /* -UNDEBUG in a file of options */
        (view_is(word, "NDEBUG") && !is_condition && place != CUDA_MACRO))
        b->is_release = false;
    if (view_is(word, "assert") && place == CUDA_MACRO && !b->is_standard)
        b->no_asserts = false;
    if (place == CUDA_MACRO &&
        (view_is(word, "Py_DEBUG") ||
         (!b->is_python && (view_is(word, "Py_REF_DEBUG") || view_is(word, "Py_DECREF")))))
        b->no_counts = false;
    b->follows_undef = place == CUDA_DIRECTIVE && view_is(word, "undef");
}

/* True for a file whose texts are not among the inputs. */
static bool is_precompiled(const struct input *i)
{
    return i->kind == INPUT_FILE && text_has_one_of(i->path, ONE_OF(".gch", ".pch", ".pcm"));
}

static bool is_of_python(const struct input *i)
{
    return i->kind == INPUT_FILE && text_has_one_of(i->path, ONE_OF("/include/python3."));
}

static struct build build_of(const struct tool_job *job, const struct inputs *in,
                             const struct texts *t)
{
    struct toolkit toolkit = toolkit_of(in);
    bool is_release = has_ndebug(job);
    struct build b = {.is_release = is_release, .no_asserts = is_release};
    for (size_t i = 0; i < in->n; i++)
        b.no_counts |= is_of_python(&in->list[i]);
    for (size_t i = 0; i < t->n && (b.is_release || b.no_counts); i++) {
        struct view text = t->list[i];
        const struct input *from = i < in->n ? &in->list[i] : NULL;
        if (from && is_precompiled(from))
            return (struct build){0};
        if (!text.len)
            continue;
        b.is_python = from && is_of_python(from);
        bool is_cudas = from && is_of_toolkit(job, from, &toolkit);
        b.is_standard = from && (is_assert_header(from) ||
                                 (is_cudas && text_ends(from->path, "/crt/common_functions.h")));
        if (!(from && is_system_header(from)) && !is_cudas &&
            memmem(text.data, text.len, "pop_macro", 9))
            b.is_release = false;
        cuda_read_words(text.data, text.len, on_build, &b);
    }
    b.no_asserts &= b.is_release;
    return b;
}

/* Drops what a release leaves out. */
static void blank_debugging(uint8_t *text, size_t len)
{
    if (len && memmem(text, len, "NDEBUG", 6))
        cuda_blank_excluded(text, len, "NDEBUG");
}

/* Reads all texts and adds them. False if one cannot be read. */
static bool read_all(const struct tool_job *job, const struct inputs *in, bool computes,
                     struct texts *t)
{
    t->list = calloc(in->n + (size_t)job->argc, sizeof *t->list);
    t->reach = computes ? cuda_reach_new() : NULL;
    if (!t->list || (computes && !t->reach))
        return false;
    for (size_t i = 0; i < in->n; i++) {
        uint8_t *data = NULL;
        size_t len = 0;
        if (in->list[i].kind == INPUT_FILE && read_text(job, &in->list[i], &data, &len))
            return false;
        add_text(t, data, len);
    }
    if (!add_definitions(job, t))
        return false;
    struct build b = t->reach ? build_of(job, in, t) : (struct build){0};
    for (size_t i = 0; b.is_release && i < in->n; i++)
        blank_debugging((uint8_t *)(uintptr_t)t->list[i].data, t->list[i].len);
    for (size_t i = 0; t->reach && i < t->n; i++)
        (i < in->n && is_system_header(&in->list[i]) ? cuda_reach_add_systems : cuda_reach_add)(
            t->reach, t->list[i].data, t->list[i].len);
    if (b.no_asserts)
        cuda_reach_ignore(t->reach, "assert");
    if (b.no_counts)
        cuda_reach_ignore(t->reach, "Py_DECREF");
    return true;
}

/* True if a text lies in a root, or has a spelling that must not show. If none does, no name of a file has a root. */
static bool has_place(const struct tool_job *job, const struct inputs *in, const struct texts *t)
{
    bool has = job->n_spelled > 0;
    for (size_t i = 0; !has && i < in->n; i++)
        has = in->list[i].root && t->list[i].len;
    return has;
}

/* True if a source's one spelling may show in the name of this text. GCC names a header that it found by a whole name
 * by that, however the source is spelled. */
static bool is_spelled(const struct tool_job *job, const struct input *i)
{
    return job->n_spelled && !(i->root == 0 && i->path[0] == '/' && tool_is_gcc(job));
}

/* Returns the first text that may use a name: its index + 1. 0: none. */
static size_t may_show(const struct tool_job *job, const struct inputs *in, const struct texts *t)
{
    struct asking a = {0};
    bool names_types = strcmp(job->family, "cc") == 0 && !tool_is_gcc(job);
    struct toolkit toolkit = toolkit_of(in);
    struct releases releases = releases_of(in);
    a.type = releases.type;
    a.fails = releases.fails;
    bool hides = false;
    for (size_t i = 0; i < in->n; i++)
        hides |= is_precompiled(&in->list[i]);
    for (size_t i = 0; i < N_PASTED_NAMES; i++)
        a.can_paste[i] = hides || cuda_reach_can_paste(t->reach, pasted_names[i]);
    for (size_t i = 0; i < t->n; i++) {
        struct view text = t->list[i];
        const struct input *from = i < in->n ? &in->list[i] : NULL;
        a.joins_none =
            from && (is_of_toolkit(job, from, &toolkit) || is_of_release(from, &releases));
        a.is_system = from && is_system_header(from);
        const struct harmless *known = find_harmless(from);
        a.is_harmless = known != NULL;
        if (text.len && names_types && !(from && is_standard_library(from)) &&
            cuda_reach_spells_function(t->reach, text.data, text.len))
            return i + 1;
        if (text.len == 0 || a.is_system)
            continue;
        cuda_read_words(text.data, text.len, on_word, &a);
        bool is_placed = from && from->root && !job->maps_roots; /* __FILE__ shows it */
        if (a.asks ||
            (from && !hands_file_to_fails(known) && (is_placed || is_spelled(job, from)) &&
             cuda_reach_spells_file(t->reach, text.data, text.len)))
            return i + 1;
    }
    return 0;
}

/* True if a preprocessor writes the roots into texts without escapes. */
static bool are_plain(const struct tool_job *job)
{
    for (size_t i = 0; i < job->n_roots; i++)
        for (const char *c = job->roots[i]; *c; c++)
            if (*c < ' ' || *c > '~' || *c == '"' || *c == '\\')
                return false;
    return true;
}

/* Returns the same for a text that spells a root. */
static size_t names_root(const struct tool_job *job, const struct texts *t)
{
    for (size_t i = 0; i < t->n; i++)
        if (tool_names_root(job, t->list[i].data, t->list[i].len))
            return i + 1;
    return 0;
}

/* True for a file outside of the root that GCC takes for one in it, and for a precompiled header, whose names no text tells. */
static bool is_renamed(const struct tool_job *job, const struct input *i)
{
    return i->kind == INPUT_FILE && ((i->root == 0 && text_begins(i->path, job->roots[0])) ||
                                     text_ends(i->path, PCH_SUFFIX));
}

/* Returns the first such input of a job with user_maps: its index + 1. 0: none. */
static size_t renames(const struct tool_job *job, const struct inputs *in)
{
    for (size_t i = 0; job->user_maps && i < in->n; i++)
        if (is_renamed(job, &in->list[i]))
            return i + 1;
    return 0;
}

int root_names_check(const struct tool_job *job, const struct inputs *in, struct err *e)
{
    assert(job && in);
    struct texts t = {0};
    if ((job->n_roots == 0 && job->n_spelled == 0) || job->reads_marks)
        return 0;
    bool is_nvcc =
        strcmp(job->family, "nvcc") == 0; /* its parts expand __builtin_FILE themselves */
    bool computes = job->expands_macros && !(job->maps_roots && !is_nvcc) &&
                    !(job->preprocesses && are_plain(job));
    bool unread = !read_all(job, in, computes, &t);
    size_t shows = unread ? 0 : names_root(job, &t);
    if (!unread && !shows)
        shows = renames(job, in);
    if (!unread && !shows && computes && has_place(job, in, &t))
        shows = may_show(job, in, &t);
    for (size_t i = 0; i < t.n; i++)
        free((void *)(uintptr_t)t.list[i].data);
    free(t.list);
    cuda_reach_free(t.reach);
    if (!unread && !shows)
        return 0;
    const struct input *text = shows && shows <= in->n ? &in->list[shows - 1] : NULL;
    return err_set(e, WARM_EREFUSED, "%s%s may use the name of %s (__FILE__ and the like)",
                   text && text->root ? job->roots[text->root - 1] : "",
                   text     ? text->path
                   : unread ? "a text that warm cannot read"
                            : "a macro of the command",
                   job->n_roots ? "a folder" : "a source");
}

/* True if the text spells __FILE__, or a macro of its own that leads to it, in a release if `is_release`. */
static bool spells_file(const void *data, size_t len, bool is_release)
{
    struct cuda_reach *reach = cuda_reach_new();
    uint8_t *text = malloc(len + 1);
    bool spells = true;
    if (reach && text) {
        memcpy(text, data, len);
        if (is_release)
            blank_debugging(text, len);
        cuda_reach_add(reach, text, len);
        spells = cuda_reach_spells_file(reach, text, len);
    }
    cuda_reach_free(reach);
    free(text);
    return spells;
}

bool root_names_may_show(const struct tool_job *job, const char *path, const void *data, size_t len)
{
    assert(job && path);
    struct cuda_scan scan = {0};
    cuda_scan(data, len, &scan);
    bool is_release = has_ndebug(job);
    return cuda_scan_uses_file(&scan) &&
           !((tool_is_of_pytensor(path) || is_release) && !spells_file(data, len, is_release));
}
