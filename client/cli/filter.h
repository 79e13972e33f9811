/* SPDX-License-Identifier: Apache-2.0 */
/*
 * filter.h - the options by which `ls` and `evict` choose entries.
 *
 * Thread: main. Memory: texts are borrowed from the command line.
 */
#ifndef WARM_CLI_FILTER_H
#define WARM_CLI_FILTER_H

#include "client/cli/cli.h"
#include "client/wire/wire.h"

/* Numbers of the long options; they do not clash with letters. */
enum filter_option {
    FILTER_KIND = 0x100,
    FILTER_ARCH,
    FILTER_COMPILER,
    FILTER_OLDER_THAN,
    FILTER_IDLE,
    FILTER_MIN_SIZE,
    FILTER_MAX_SIZE,
    FILTER_MIN_HITS,
    FILTER_MAX_HITS,
    FILTER_USER,
    FILTER_PINNED,
    FILTER_UNPINNED,
    FILTER_TEXT,
};
#define FILTER_OPTIONS                                                                             \
    {"kind", required_argument, NULL, FILTER_KIND},                                                \
        {"arch", required_argument, NULL, FILTER_ARCH},                                            \
        {"compiler", required_argument, NULL, FILTER_COMPILER},                                    \
        {"older-than", required_argument, NULL, FILTER_OLDER_THAN},                                \
        {"idle", required_argument, NULL, FILTER_IDLE},                                            \
        {"min-size", required_argument, NULL, FILTER_MIN_SIZE},                                    \
        {"max-size", required_argument, NULL, FILTER_MAX_SIZE},                                    \
        {"min-hits", required_argument, NULL, FILTER_MIN_HITS},                                    \
        {"max-hits", required_argument, NULL, FILTER_MAX_HITS},                                    \
        {"user", required_argument, NULL, FILTER_USER},                                            \
        {"pinned", no_argument, NULL, FILTER_PINNED},                                              \
        {"unpinned", no_argument, NULL, FILTER_UNPINNED},                                          \
    {                                                                                              \
        "text", required_argument, NULL, FILTER_TEXT                                               \
    }
#define FILTER_HELP                                                                                \
    "      --kind KIND       cubin, backward, executable, fx-graph, triton, autotune, …\n"       \
    "      --arch ARCH       this hardware, e.g. sm_90, whichever device of it\n"                  \
    "      --compiler TEXT   compilers whose description has TEXT, e.g. 12.9\n"                    \
    "      --older-than SPAN made longer ago than 90s, 30m, 12h or 7d\n"                           \
    "      --idle SPAN       not used for that long\n"                                             \
    "      --min-size SIZE, --max-size SIZE   bytes; K, M, G, T for powers of 1024\n"              \
    "      --min-hits N, --max-hits N         times used\n"                                        \
    "      --user UID        made by this user (name or number)\n"                                 \
    "      --pinned, --unpinned\n"                                                                 \
    "      --text TEXT       TEXT is in the entry's name or label\n"

/* Returns a filter that matches every entry. */
struct wire_filter filter_all(void);

/* Reads one option: 1 if it is one of ours, 0 if not, -1 if its value is wrong, which it
 * reports. */
int filter_option(const struct command *c, struct wire_filter *f, int option);

/* True if nothing was chosen. */
bool filter_is_all(const struct wire_filter *f);

/* Reads a user: a number, or a name of /etc/passwd. False if there is none. */
bool filter_user(const char *text, int64_t *out);

#endif
