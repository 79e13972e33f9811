/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h - parses command lines of NVRTC, ptxas and nvcc into the options that can change a result.
 *
 *     arguments as given ──options_parse──▶ struct options ──options_add──▶ fields of a key
 *                                             │ hardware, debug, include folders, ...
 *                                             └ pass: the arguments for the compiler
 *
 * Two command lines with the same meaning give equal fields. These differences do not count:
 *   - the spelling of an option (`-arch=X`, `--gpu-architecture=X`, `--gpu-architecture` `X`);
 *   - the order of options that commute;
 *   - explicit defaults;
 *   - options that cannot change the result (`--no-cache`, `--pch`).
 * -I, -D and -U, -include and options of one subject keep their order. Repetitions stay, since
 * compilers warn about them. CUDA.md has the tables and the arguments.
 *
 * The parser refuses a command line if the compiler would write files, put the clock into its output, or
 * read files that are in no dependency list. It refuses an unknown option too: that might do one of these.
 * The program then compiles by itself, and nobody keeps the result.
 *
 * Thread: any; no state. Memory: views in a struct options point into the caller's arguments, which
 * must outlive it; options_close frees the rest.
 */
#ifndef WARM_KEYGEN_CUDA_OPTIONS_H
#define WARM_KEYGEN_CUDA_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keygen/bytes.h"
#include "keygen/cuda/cuda.h"
#include "keygen/err.h"
#include "keygen/key.h"

#define OPTIONS_MAX_ARGS 4096          /* arguments of one command line */
#define OPTIONS_MAX_BYTES (256u << 10) /* all of them together */

enum options_tool {
    OPTIONS_NVRTC, /* the array that nvrtcCompileProgram takes */
    OPTIONS_PTXAS, /* argv[1...] of ptxas */
    OPTIONS_NVCC,  /* argv[1...] of nvcc */
};

struct option; /* private: one option as it is hashed */

/* Options of nvcc for another tool, joined by commas. They are hashed; the caller checks them by that tool's table. */
struct inner_options {
    enum inner_tool { INNER_HOST, INNER_FATBINARY, INNER_CUDAFE } tool;
    struct view value;
};

struct options {
    enum options_tool tool;

    /* The target: "sm_90a", "compute_80", or "default" if the command line names none: then the
     * compiler's identity decides. For nvcc with several targets: their list in order, joined by '+',
     * as a digest if it does not fit. The target is a part of the address, and is no field of
     * options_add unless -arch stands more than once. */
    char hardware[WARM_HARDWARE_MAX];

    bool debug;             /* -G: full debug output */
    bool line_info;         /* -lineinfo */
    bool no_debug_sections; /* ptxas --suppress-debug-info */
    bool relocatable;       /* -rdc=true, -dc, -dw, -ewp */
    bool lto;       /* -dlto, code=lto_90: the output has LTO IR, which shows the program's name */
    bool shows_cwd; /* one of debug, line_info, lto: the output may hold the working folder */
    bool verbose_log; /* asks for a log of a good compile too: -opt-info, -Xptxas -v */

    /* True if the canonical source may stand for the exact one in the shared key: no option puts names,
     * lines or the text itself into the result, or lets macros see white space. The caller still checks
     * the source and its headers (cuda_scan), and the result (status 0, empty log). */
    bool allows_canonical;

    const struct view *include_dirs; /* -I, in order (nvcc: -isystem after them) */
    size_t n_include_dirs;
    const struct view *pre_includes; /* -include, in order */
    size_t n_pre_includes;
    struct cuda_scan defines; /* scan of the -D values, to be merged with the source's */
    bool no_source_include;   /* -no-source-include: quotes do not search beside the source */

    /* ptxas and nvcc: indices into the caller's arguments, -1 if there is none. */
    int input;  /* the one input file */
    int output; /* the text that names the output file ("-o X": X; "-o=X": all of it) */

    /* nvcc: */
    bool dependencies;   /* -MD, -MMD */
    int dependency_file; /* the text that names it, as for `output` */
    const struct inner_options *inner;
    size_t n_inner;

    /* The arguments for the compiler: the caller's in their order, without the input and output files
     * of ptxas and nvcc. For NVRTC also without --no-cache and all options of precompiled headers: the
     * caller of options_parse appends its own. */
    const struct view *pass;
    size_t n_pass;

    struct option *list; /* private */
    size_t n_list;
    void *memory; /* private */
};

/*
 * Parses a command line. `version` is the compiler's, major * 100 + minor (12.9: 1209), or 0 if it is
 * unknown. Explicit defaults are dropped only for versions whose defaults were measured.
 * Errors: REFUSED (see above; e->text is one line that names the option and the reason), INVALID (an
 * option without its value, which the compiler would refuse too), TOO_BIG, NOMEM. After an error there is
 * nothing to close.
 */
int options_parse(enum options_tool tool, unsigned version, const struct view *args, size_t n_args,
                  struct options *out, struct err *e);

/* True if `arg` is an option whose value is the next argument, as in "-I" "folder". Callers use it to tell
 * options from file names. */
bool options_takes_next(enum options_tool tool, struct view arg);

/* Adds the number of canonical options and then each of them, as fields with the tag `tag`. */
void options_add(const struct options *options, struct key_builder *builder, uint32_t tag);

/* Adds the same fields for a shared key. Of an absolute -I only its presence counts. */
void options_add_shared(const struct options *options, struct key_builder *builder, uint32_t tag);

/* Frees the memory of parsed options. */
void options_close(struct options *options);

#endif
