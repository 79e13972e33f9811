/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tool.h - `warm tool -- PROGRAM ARGS…`: one run of a compiler, from the cache or for real.
 *
 *     command line ──front end: cc.c, ptxas.c, nvidia.c──▶ tool_job ──tool_run_cached──▶ status
 *                      │ not understood                                   │ not soundly
 *                      ▼                                                  ▼
 *                    exec of the real compiler, nothing in between (commands/tool.c)
 *
 * Two ways to a result:
 *     direct   the key covers all that the tool reads (ptxas: its one input): NAME ──▶ result
 *     traced   the key covers the command line, the sources and the environment. The other files
 *              are known from the last real run: NAME ──▶ sets of inputs (inputs.h) ──▶ NAME of the
 *              result. A library in the compiler (client/trace) records the files and variables
 *              that it reads, and the clock
 *
 * Tables of options: cc_options.c (gcc, g++, clang), keygen/cuda/options_tables.c (nvcc, ptxas),
 * nvidia_options.c (cicc, nvlink, fatbinary, tileiras). An option that is in no table is not understood. The
 * first key covers only what most results need; run_cached.c has the keys of runs that need more.
 *
 * Roots: folders and files whose own place does not count: those of the sources, the working folder, a
 * temporary folder with a random name.
 * In keys, names of inputs and texts a mark replaces the root, and a hit puts the root back.
 * Of a folder to search that is a root, too, its spelling does not count, and the folder that it leads to does:
 * /usr/local/cuda/include is /usr/local/cuda-13.0/include.
 *
 * Thread: main; the process does nothing else. Memory: a job borrows argv and the environment;
 * tool_job_close frees the rest.
 */
#ifndef WARM_TOOL_H
#define WARM_TOOL_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/lib/warm.h"
#include "keygen/bytes.h"
#include "keygen/err.h"
#include "keygen/key.h"

#define TOOL_ROOTS_MAX 9 /* one digit in texts */
#define TOOL_OUTPUTS_MAX 8
#define TOOL_SOURCES_MAX 64
#define TOOL_HEADERS_MAX 64
#define TOOL_NAME_TEXT 96            /* bytes of a name in the cache, NUL included */
#define TOOL_RESULT_MAX (256u << 20) /* bytes of a result; larger ones are not kept */
#define TOOL_FILE_LIMIT_MIN                                                                        \
    (1ull << 30) /* bytes: above any file that we write beside the compiler's */

/* The places that count as they are written, of a command whose result may show them. Each counts with those before it. */
enum tool_counts {
    COUNTS_NO_PLACE,
    COUNTS_SEARCHED, /* folders to search */
    COUNTS_SOURCE,   /* the folder of the sources */
    COUNTS_ALL,      /* the working folder, and the names of outputs */
};

struct tool_job {
    const char *program; /* the real tool's path */
    char **argv;         /* the real tool's arguments; NULL after argc */
    int argc;
    int (*plan)(struct tool_job *job, struct warm *w, struct err *e); /* the front end */

    const char *family; /* "cc", "ptxas": names in the cache begin with it */
    char label[128];    /* for people: "g++ foo.cpp" */
    bool traced;
    char cwd[PATH_MAX];  /* the working folder */
    bool in_top;         /* it is "/": no search of a result for that name tells anything */
    bool keys_cwd;       /* it is in the key, by its path: so it may show in the result */
    bool short_names;    /* the compiler names files in it with or without it */
    bool keys_path;      /* $PATH is in the key, so programs on it need no look */
    bool expands_macros; /* the compiler expands macros, and __TIME__ is one */
    bool preprocesses;   /* the command only preprocesses: it computes nothing with texts */
    bool reads_marks;    /* its source is preprocessed: line markers name the files */
    bool terminal;       /* an output is one, so messages have its colours and width */
    bool
        debug_shows; /* the roots may stand in debug information: any of several equal texts will do */
    bool times_show; /* the result has times of files: a touched file is a changed one */
    bool lazy;       /* the output is a precompiled header: made when it is needed (pch.h) */
    bool timed_log;  /* its messages may be of ptxas, with the time that it took */
    bool path_names; /* an output of nvcc may have names that are made of the source's path */
    bool reads_back; /* a step may read an output of an earlier one */
    bool shortens;   /* messages may have short names of headers: tool_may_shorten */
    bool by_form;    /* the key has a canonical form of the source: messages must not show it */
    /* Set before the front end plans: */
    enum tool_counts counts;
    bool
        exact; /* the same as COUNTS_ALL: the key has all folders as they are, and the source as it is */
    bool loud; /* messages count, and all that they depend on: locale, terminal */

    char *roots[TOOL_ROOTS_MAX]; /* no '/' at the end; owned */
    char *leads_to
        [TOOL_ROOTS_MAX]; /* of a folder to search: its name without links, which counts; owned. NULL: of a place */
    size_t n_roots;
    const char *outputs[TOOL_OUTPUTS_MAX]; /* files that a run may leave */
    size_t n_outputs;
    const char *dependencies; /* the one of them that dependencies.h describes; NULL: none */
    const char *sources[TOOL_SOURCES_MAX]; /* must be in the trace, or the result is not kept */
    size_t n_sources;
    bool any_source;                       /* one of them is enough: some may be mere names */
    const char *headers[TOOL_HEADERS_MAX]; /* precompiled headers that a real run would use */
    size_t n_headers;
    const char *header; /* a header to make for real, from outputs[0]: pch.h */

    /* Direct: names of the result, exact first; a miss stores under all, the last is leased.
     * Traced: one, of the manifest. */
    char names[2][TOOL_NAME_TEXT];
    size_t n_names;
    char group[TOOL_NAME_TEXT]; /* the first name of the first plan; "": this plan is the first */

    /* The arguments that the compiler gets instead of argv (NULL: argv); owned, but not its strings.
     * The run's output is held back, and if the result cannot stand, argv runs (spelling.c) */
    char **given;
    char **expanded;                       /* argv, if it had files of options; owned */
    const char *spelled[TOOL_SOURCES_MAX]; /* sources in their one spelling: it must not show */
    size_t n_spelled;
    bool
        maps_roots; /* the compiler replaces the roots in names of files: they cannot show there (nvcc: in __FILE__) */
    bool user_maps; /* by the command's own option: user_map.h */

    char *memory[2 * TOOL_SOURCES_MAX + 96]; /* strings made for the job */
    size_t n_memory;
};
/* Frees all that the job owns. */
void tool_job_close(struct tool_job *job);

/* Fills in the job by its front end. Errors: REFUSED, with the reason for `warm why`; NOT_FOUND, NOMEM, …
 * `w` may be NULL. */
int tool_plan(struct tool_job *job, struct warm *w, struct err *e);

/* Takes a string and keeps it as long as the job lives. Returns it; NULL without memory. */
char *tool_job_keep(struct tool_job *job, char *text);

/* Returns the argc - 1 arguments from argv[1] on (free()); NULL without memory. */
struct view *tool_arguments(const struct tool_job *job);

/*
 * Puts the words of files of options in their places: "@FILE", or for nvcc (`is_nvcc`) the value of --options-file.
 * The compiler then gets them as arguments, too. A file that warm cannot read alike stays as it is.
 */
void tool_expand(struct tool_job *job, bool is_nvcc);

/* True for a temporary folder itself, or one that has the user's home: too much lies there that is not the command's, so it
 * is never a root. */
bool tool_has_more(const char *folder);
/* Adds a root. False if there are too many. */
bool tool_add_root(struct tool_job *job, const char *path, size_t len);
/* Removes the root that was added last. */
void tool_drop_root(struct tool_job *job);
/* Adds the places of a command as roots, as far as an argument names them: the folder of its sources (the first `len`
 * bytes of `source`; 0: it has none of its own), the working folder, and the one in which both lie. Of COUNTS_SOURCE
 * only a working folder that does not have the source. False if there are too many. */
bool tool_add_places(struct tool_job *job, const char *source, size_t len);
/* Adds a folder to search as a root, if that is sound and there is room. Its places must be added before. */
void tool_add_folder(struct tool_job *job, const char *path, size_t len);
/* Adds the environment of Python as a root that has this folder: people make an equal one for each checkout or home. Not
 * the system's, or one with the compiler. False if there are too many roots. */
bool tool_add_python(struct tool_job *job, const char *path, size_t len);
/* Gives the compiler an option for each root, so that __FILE__ and its like name files without it. `before`: an argument
 * before each of these; NULL: none. Errors: NOMEM. */
int tool_map_roots(struct tool_job *job, char *before, struct err *e);
/* Returns the index of the root that `path` is or lies in, and in *out_rest the text behind it (""
 * or "/x"). -1: none. */
int tool_root_of(const struct tool_job *job, const char *path, const char **out_rest);

/*
 * Adds a file that a run may leave. Errors: NOMEM (`path` is NULL: no memory for it); REFUSED if replacing the
 * present file differs from writing over it. That is a device or a link, or a file of another user, with other
 * names, or with other permissions than a new file gets.
 */
int tool_add_output(struct tool_job *job, const char *path, struct err *e);

/* True if the argument is the name of an output, alone or behind "-o" or '='. */
bool tool_is_output(const struct tool_job *job, const char *arg);
/* True if the text names a root: then it means that folder, and not the root of another run. */
bool tool_names_root(const struct tool_job *job, const char *text, size_t len);
/* True if a variable with one of these names (as for tool_key_environment) names a root or a folder above it, or
 * a variable by which libraries are found names one. */
bool tool_environment_names_root(const struct tool_job *job, const char *const *names);

/* Adds the program. A compiler finds its parts by its own name, and by PATH if the name has no slash. If PATH does
 * not lead to this program, all of PATH counts. */
void tool_key_program(const struct tool_job *job, struct key_builder *key, uint32_t tag);
struct tool_folder {
    struct view path;
    bool is_system; /* of -isystem and the like, and GCC may read it */
};

/* Adds what counts of the folders to search beside their names: which are one, and which are the compiler's own. Sets
 * job->shortens. Errors: NOMEM. */
int tool_key_folders(struct tool_job *job, struct key_builder *key, uint32_t tag,
                     const struct tool_folder *folders, size_t n, struct err *e);
/* True if GCC may give a header of this system folder a shorter name, which is not in the folder's root. */
bool tool_may_shorten(const struct tool_job *job, struct view folder);

/* Adds a path to a key: by root and rest if it lies in a root. */
void tool_key_path(const struct tool_job *job, struct key_builder *key, uint32_t tag,
                   const char *path);
/* Returns the root whose whole name stands inside of a relative name, and in *out_at where: CMake puts the objects of a source
 * from another place below "t.dir/home/u/src/". -1: none. */
int tool_inner_root(const struct tool_job *job, const char *path, size_t *out_at);
/* Does what tool_key_path does for the name of an output, which may have a root inside. */
void tool_key_output(const struct tool_job *job, struct key_builder *key, uint32_t tag,
                     const char *path);
/* Adds the number of roots, and where those lead that are folders to search. */
void tool_key_roots(const struct tool_job *job, struct key_builder *key, uint32_t tag);
/* Adds which roots lie below a folder from which the compiler opens files, and where: the name of such a file then
 * depends on both places. */
void tool_key_reach(const struct tool_job *job, struct key_builder *key, uint32_t tag,
                    const char *folder, size_t len);
/* Ends a key: names[n_names++] = "FAMILY:2:" and 64 hex digits. */
void tool_key_end(struct tool_job *job, struct key_builder *key);
/* Ends a key and writes its name to `out`, `kind` after the family: "cc:2r:…". */
void tool_name(const struct tool_job *job, const char *kind, struct key_builder *key,
               char out[TOOL_NAME_TEXT]);

/* Adds the environment's variables of these names (one that ends in '*' is a prefix), sorted. False
 * if there are too many. */
bool tool_key_environment(struct key_builder *key, uint32_t tag, const char *const *names);

/* True if both outputs go to one place, so that their order shows. */
bool tool_prints_to_one_place(void);
/* Adds the surroundings of messages, if the job is loud: the locale, and one place or two for outputs. Also
 * adds the kind and width of a terminal, and sets job->terminal. */
void tool_key_messages(struct tool_job *job, struct key_builder *key, uint32_t tag);
/* True for variables that show in messages alone; tool_key_messages adds them. */
bool tool_is_of_messages(const char *variable);

/* Returns the next entry of LD_PRELOAD's value from `at` on that is not our own library; NULL:
 * none. */
const char *tool_next_preload(const char *at, size_t *out_len);
/* Adds all entries of LD_PRELOAD but our own. */
void tool_key_preloads(struct key_builder *key, uint32_t tag);

/* True if the program is GCC, by the name of the file that its path leads to. */
bool tool_is_gcc(const struct tool_job *job);

/* Returns the name of a path's file, without its folders. */
const char *tool_base(const char *path);
/* Returns the length of a file's folder in its name; 0: it names none. */
size_t tool_folder_len(const char *path);
/* True if the path lies below an absolute folder. False if `folder` is NULL. */
bool tool_is_below(const char *path, const char *folder);
/* True if the path lies in the folder that a variable names, however it is spelled: torch names its files without "..". */
bool tool_is_in(const char *path, const char *variable);
/* True if the file lies in a folder in which PyTorch builds extensions. */
bool tool_is_of_extension(const char *path);
/* True if the file lies in a folder in which FlashInfer or TVM FFI generates sources. */
bool tool_is_of_jit(const char *path);
/* True if the file lies in a folder in which PyTensor compiles its modules. */
bool tool_is_of_pytensor(const char *path);
/* True if the file lies in a folder in which pyKeOps generates sources. */
bool tool_is_of_keops(const char *path);
/* Returns the length of the first part of a path, if that has the name of a folder that pip makes for one build and then removes,
 * at random, in a temporary folder; else 0. */
size_t tool_pip_len(const char *path);
/* Puts a mark for each name of pip's in the comments of a source, in place, if Cython made it. Returns the new length. */
size_t tool_hide_pip(uint8_t *text, size_t len);
/* Puts a mark for the name of the file's folder in each #include by a whole name, in place, if pyKeOps generated the
 * file. Does tool_hide_pip and unity_hide, too. Returns the new length. */
size_t tool_hide_includes(const char *path, uint8_t *text, size_t len);
/* True if the file lies in a folder for temporary files: /tmp, $TMPDIR and so on. */
bool tool_is_temporary(const char *path);
/* True if it is such a folder. */
bool tool_is_temporary_folder(const char *path);

/* Reads a whole file of at most `max` bytes. Gives *out (free()). */
int tool_read_file(const char *path, size_t max, uint8_t **out, size_t *out_len, struct err *e);

/* Reads all of standard input, which the process's next program reads again: a copy takes its place. Gives *out (free()).
 * REFUSED for a terminal. */
int tool_read_input(size_t max, uint8_t **out, size_t *out_len, struct err *e);

/* Fills in the job of a host compiler from program and argv: a front end. Errors: as tool_plan. `w` may be
 * NULL. */
int cc_plan(struct tool_job *job, struct warm *w, struct err *e);
/* Does the same for ptxas. */
int ptxas_plan(struct tool_job *job, struct warm *w, struct err *e);
/* Does the same for nvcc, cicc, nvlink, fatbinary and tileiras. */
int nvidia_plan(struct tool_job *job, struct warm *w, struct err *e);

/* Runs the job from the cache, or for real, and stores the result. Returns the exit status, or -1
 * if the caller must run the real tool itself. `quick` is a connection with a short deadline. */
int tool_run_cached(struct tool_job *job, struct warm *quick);

/* Tells the daemon, for `warm why`, why the result of a run is not in the cache. `missed` is the
 * name that missed, whose reason it is; "": there is none. */
void tool_not_kept(const struct tool_job *job, struct warm *w, const char *missed,
                   const char *reason);

/* Returns the one spelling of a path below the working folder (free()); NULL if there is none, or no
 * memory. */
char *spelling_of(const struct tool_job *job, const char *path);
/* Computes the name of this command's note: that it had to run as the user wrote it (spelling.c). */
void spelling_note_name(const struct tool_job *job, char out[TOOL_NAME_TEXT]);

/* True if a source may show its own name, as far as its own text tells (root_names.c). Messages of asserts alone name a source
 * of PyTensor, and with NDEBUG there are none. */
bool root_names_may_show(const struct tool_job *job, const char *path, const void *data,
                         size_t len);

/* Writes the job's label, "g++ a.cc b.cc", of the sources that fit; without one its first argument. */
void tool_label(struct tool_job *job);

/* Writes one line about this run to the file in WARM_TOOL_DEBUG, and to the log of WARM_LOG. */
void tool_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Adds the CPU's features, for -march=native. False on a kind of machine that warm does not know. */
bool cpu_add(struct key_builder *key, uint32_t tag);

#endif
