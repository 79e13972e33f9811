/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options_internal.h - the tables of options, for options*.c only.
 *
 *   options_tables.c   the options of each tool, with the rule for each
 *   options.c          one parser over the tables
 *
 * Thread: any; constant. Memory: static.
 */
#ifndef WARM_KEYGEN_CUDA_OPTIONS_INTERNAL_H
#define WARM_KEYGEN_CUDA_OPTIONS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

/* How an option takes its value. */
enum value {
    NONE,     /* never: "-w" */
    SEPARATE, /* "-arch=X" or "-arch" "X" */
    EQUALS,   /* "-std=X" only */
    JOINED,   /* as SEPARATE, and "-DX" */
    OPTIONAL, /* "--time" or "--time=X" */
};

enum rule {
    KEEP,
    DROP,    /* cannot change the result */
    REFUSE,  /* `note` says why */
    ARCH,    /* names the hardware */
    DEFINE,  /* "X" means "X=1" */
    INCLUDE, /* a folder to search */
    PREINCLUDE,
    TO_PTXAS, /* its value is options of ptxas; the next three: of another tool, for the caller to check */
    TO_HOST,
    TO_FATBINARY,
    TO_CUDAFE,
    DEPENDENCIES,    /* a file of dependencies is written, too */
    DEPENDENCY_FILE, /* names it: not hashed */
    OUTPUT,          /* the output file's name: not hashed */
};

/* Flags of an option, beside its value. */
enum effect {
    DEBUG = 1,
    LINE_INFO = 2,
    RELOCATABLE = 4,
    LTO = 8,
    VERBOSE = 16,
    NO_SOURCE_INCLUDE = 32,
    OVERRIDES = 64, /* in a group with it, explicit defaults of the other options count */
    IF_TRUE = 128,  /* the flags hold unless the value is "false" */
    NO_DEBUG_SECTIONS = 256,
    FORWARDS = 512, /* unknown options are the host compiler's */
};

struct spec {
    const char *long_name;
    const char *short_name; /* NULL if there is none */
    enum value value;
    enum rule rule;
    int group; /* 0: a group of its own */
    unsigned effects;
    const char *note; /* KEEP: the default value, or NULL; REFUSE: the reason */
};

enum group {
    MACROS = 1,
    FOLDERS,
    FILES,
    DIAGNOSTICS,
    MATH,
    LINKING,
    DEBUGGING,
    PTXAS_OPTIONS,
    TARGET,
    HOST
};

struct options_table {
    const char *tool;
    const struct spec *specs;
    size_t n_specs;
    bool takes_input;                     /* an argument that is no option is the input file */
    bool sorted;                          /* groups commute; else all options stay in their order */
    unsigned first_version, last_version; /* with measured defaults; 0: none */
};

extern const struct options_table options_tables[]; /* by enum options_tool */

#endif
