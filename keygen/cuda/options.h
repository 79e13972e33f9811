/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h - command lines of NVRTC, ptxas and nvcc, as far as they decide the result.
 *
 *     arguments as given ──options_parse──▶ struct options ──options_add──▶ fields of a key
 *                                             │ hardware, debug, include folders, ...
 *                                             └ pass: what the compiler is to be given
 *
 * Two command lines that the tool must take alike give equal fields: the spelling of an option
 * (`-arch=X`, `--gpu-architecture=X`, `--gpu-architecture` `X`), the order of those that commute,
 * explicit defaults and options that cannot change the result (`--no-cache`, `--pch`) do not count.
 * What is ordered (-I, -D and -U, -include, options of one subject) stays in order; repetitions
 * stay, since compilers warn about them. CUDA.md has the tables and the arguments.
 *
 * A command line is refused, and its result never kept, if it makes the compiler write files, put
 * the clock into its output, or read files that no dependency list shows; or if we do not know an
 * option in it, because such an option might do one of these. The program then compiles by itself.
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

struct options {
    enum options_tool tool;

    /* What is compiled for: "sm_90a", "compute_80"; "default" if the command line does not say, in
     * which case the compiler's identity decides. nvcc with several targets: their list, joined by
     * '+', in order, cut to a digest if it does not fit. It is a part of the address by itself and
     * not among the fields of options_add, except where -arch stands more than once. */
    char hardware[WARM_HARDWARE_MAX];

    bool debug;       /* -G: full debug output */
    bool line_info;   /* -lineinfo */
    bool relocatable; /* -rdc=true, -dc, -dw, -ewp */
    bool lto;         /* -dlto: the output is LTO IR, in which the program's name shows */
    bool verbose_log; /* asks for a log even where nothing is wrong: -opt-info, -Xptxas -v */

    /* The canonical source may stand for the exact one in a second, shared key: nothing asked for
     * puts names, lines or the text itself into the result, or lets macros see white space. Still
     * to be checked by the caller: the source and its headers (cuda_scan), and the result (status
     * 0, empty log). */
    bool allows_canonical;

    const struct view *include_dirs; /* -I, in order (nvcc: -isystem after them) */
    size_t n_include_dirs;
    const struct view *pre_includes; /* -include, in order */
    size_t n_pre_includes;
    struct cuda_scan defines; /* what the -D values do: to be merged with the source's scan */
    bool no_source_include;   /* -no-source-include: quotes do not search beside the source */

    /* ptxas and nvcc: places in the caller's arguments, -1 where there is none. */
    int input;  /* the one input file */
    int output; /* the text that names the output file ("-o X": X; "-o=X": all of it) */

    /* What to give to the compiler: the caller's arguments in their order, without those that are
     * ours to decide (NVRTC: --no-cache and everything about precompiled headers; the caller
     * appends its own), and without the input and output files of ptxas and nvcc. */
    const struct view *pass;
    size_t n_pass;

    struct option *list; /* private */
    size_t n_list;
    void *memory; /* private */
};

/*
 * Parses a command line. `version` is the compiler's, major * 100 + minor (12.9: 1209), or 0 if it
 * is not known: explicit defaults are dropped only for versions whose defaults we have measured.
 *
 * Errors: REFUSED (see above; e->text is one line that names the option and says why), INVALID (an
 * option without its value: the compiler would refuse it too), TOO_BIG, NOMEM. On error nothing is
 * to be closed.
 */
int options_parse(enum options_tool tool, unsigned version, const struct view *args, size_t n_args,
                  struct options *out, struct err *e);

/* True if `arg` is an option whose value is the next argument, as in "-I" "folder". Callers use it to tell
 * options from file names. */
bool options_takes_next(enum options_tool tool, struct view arg);

/* Adds the canonical options as fields: tag `tag` for each, after one with their number. */
void options_add(const struct options *options, struct key_builder *builder, uint32_t tag);

/* Adds them for a shared key: of an absolute -I only its presence. */
void options_add_shared(const struct options *options, struct key_builder *builder, uint32_t tag);

/* Frees the memory of parsed options. */
void options_close(struct options *options);

#endif
