/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cc_options.h - the effect of each option of gcc, g++ and clang on a key: one table, cc_options.c.
 *
 *     an argument ──cc_option_find──▶ its row: the form of its value, and a rule
 *                                     NULL: no row has it; the command runs and is not kept
 *
 * Thread: any; no state. Memory: static.
 */
#ifndef WARM_TOOL_CC_OPTIONS_H
#define WARM_TOOL_CC_OPTIONS_H

#include <stdbool.h>

enum cc_form {
    ALONE,    /* exactly this */
    PREFIX,   /* any argument that begins so: the rest belongs to it */
    SEPARATE, /* exactly this, and the next argument */
    EITHER,   /* this and the next argument, or the rest of this one */
};

enum cc_rule {
    KEEP, /* counts as it is written, in its place; the files that it names are traced */
    PATH, /* the same; its value is a path that may be in a root */
    FOLDER_TO_SEARCH, /* the same; an absent folder does not count */
    INCLUDE,          /* a path, beside which a precompiled header may stand */
    OUTPUT,           /* -o: its name counts only if the result shows it */
    SHOWS,            /* the same as KEEP; the result may show the names of sources */
    LANGUAGE,         /* -x */
    STOP,             /* -c, -S, -E: no linking */
    PRINT,            /* it prints, and writes no file */
    VERBOSE,          /* prints the commands of a run, which name temporary files */
    DEPENDENCIES,     /* writes a file of dependencies, too */
    DEPENDENCY_FILE,  /* names it */
    DEBUG,            /* the working folder counts */
    NO_DEBUG,
    SPLIT,        /* the same as DEBUG, and writes a file of debug information beside the object */
    LTO,          /* the same as DEBUG: the object has packed texts. GCC's has random names */
    SEED,         /* then it has none */
    STDIN,        /* the source is standard input */
    LINKER,       /* -Wl: each option must be in the linker's list */
    ASSEMBLER,    /* -Wa: each option must be in the assembler's list */
    PREPROCESSOR, /* -Wp: it defines one macro, undefines one, or names a file of dependencies */
    REFUSE,       /* the command runs, and its result is not kept */
};

struct cc_option {
    const char *name;
    enum cc_form form;
    enum cc_rule rule;
    const char *note; /* REFUSE: why */
};

/* Returns the row of an argument; NULL if there is none. */
const struct cc_option *cc_option_find(const char *arg);

/* True if the linker's list has all of the options, joined by commas. */
bool cc_linker_knows(const char *options);
/* True if the assembler's list has all of the options, joined by commas. */
bool cc_assembler_knows(const char *options);
/* True for "-DNAME…" or "-UNAME" alone. */
bool cc_preprocessor_knows(const char *options);

#endif
