/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cc_options.h - what the options of gcc, g++ and clang do to a key: one table, cc_options.c.
 *
 *     an argument ──cc_option_find──▶ its row: how its value is given, and a rule
 *                                     NULL: no row has it, and the command is run and not kept
 *
 * Thread: any; no state. Memory: static.
 */
#ifndef WARM_TOOL_CC_OPTIONS_H
#define WARM_TOOL_CC_OPTIONS_H

#include <stdbool.h>

enum cc_form {
    ALONE,    /* exactly this */
    PREFIX,   /* whatever begins so: the rest belongs to it */
    SEPARATE, /* exactly this, and the next argument */
    EITHER,   /* this and the next argument, or the rest of this one */
};

enum cc_rule {
    KEEP, /* counts as it is written, in its place; what it makes the compiler read is traced */
    PATH, /* the same; its value is a path that may be in a root */
    FOLDER_TO_SEARCH, /* the same; one that is not there does not count */
    INCLUDE,          /* a path, beside which a precompiled header may stand */
    OUTPUT,           /* -o: its name does not count unless the result shows it */
    LANGUAGE,         /* -x */
    STOP,             /* -c, -S, -E: no linking */
    PRINT,            /* nothing is written but what is printed */
    VERBOSE,          /* prints the commands of a run, which name temporary files */
    DEPENDENCIES,     /* a file of dependencies too: the working folder counts */
    DEPENDENCY_FILE,
    DEBUG, /* the working folder counts */
    NO_DEBUG,
    LINKER,    /* what it hands to the linker must be in the linker's list */
    ASSEMBLER, /* the same, of the assembler */
    PREPROCESSOR,
    REFUSE, /* run, and not kept */
};

struct cc_option {
    const char *name;
    enum cc_form form;
    enum cc_rule rule;
    const char *note; /* REFUSE: why */
};

const struct cc_option *cc_option_find(const char *arg);

/* True if options for the linker or the assembler, joined by commas, are in our lists of them. */
bool cc_linker_knows(const char *options);
bool cc_assembler_knows(const char *options);
/* True if it is one macro. */
bool cc_preprocessor_knows(const char *options);

#endif
