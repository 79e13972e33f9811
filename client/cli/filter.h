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

/* Rows of cli_options; `f` is a struct wire_filter. */
#define FILTER_ROWS(f)                                                                             \
    {"kind", '\0', filter_take_kind, &(f).kind, FILTER_KINDS},                                     \
        {"arch", '\0', filter_take_text, &(f).hardware, FILTER_TEXT},                              \
        {"compiler", '\0', filter_take_text, &(f).compiler, FILTER_TEXT},                          \
        {"older-than", '\0', cli_take_span, &(f).min_age_ms, CLI_SPAN},                            \
        {"idle", '\0', cli_take_span, &(f).min_idle_ms, CLI_SPAN},                                 \
        {"min-size", '\0', cli_take_size, &(f).min_bytes, CLI_SIZE},                               \
        {"max-size", '\0', cli_take_size, &(f).max_bytes, CLI_SIZE},                               \
        {"min-hits", '\0', filter_take_hits, &(f).min_hits, CLI_COUNT},                            \
        {"max-hits", '\0', filter_take_hits, &(f).max_hits, CLI_COUNT},                            \
        {"user", '\0', filter_take_user, &(f).uid, FILTER_USER},                                   \
        {"pinned", '\0', filter_take_pinned, &(f).pinned, NULL},                                   \
        {"unpinned", '\0', filter_take_unpinned, &(f).pinned, NULL},                               \
    {                                                                                              \
        "text", '\0', filter_take_text, &(f).text, FILTER_TEXT                                     \
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

/* True if nothing was chosen. */
bool filter_is_all(const struct wire_filter *f);

/* Takes a kind of entry. */
bool filter_take_kind(const char *value, void *to);
/* Takes a text of 1 to 512 bytes. */
bool filter_take_text(const char *value, void *to);
/* Takes a number of hits. */
bool filter_take_hits(const char *value, void *to);
/* Takes --pinned. */
bool filter_take_pinned(const char *value, void *to);
/* Takes --unpinned. */
bool filter_take_unpinned(const char *value, void *to);
/* Takes a user, as an int64_t: a number, or a name of /etc/passwd. */
bool filter_take_user(const char *value, void *to);
/* Takes a span of time that ends now; *to is its begin as Unix time in ms, never 0. */
bool filter_take_since(const char *value, void *to);
#define FILTER_KIND_NAME(name, number, text) text " "
#define FILTER_KINDS "a kind of entry: " WIRE_KIND_LIST(FILTER_KIND_NAME)
#define FILTER_TEXT "a text of 1 to 512 bytes"
#define FILTER_USER "a user"

#endif
