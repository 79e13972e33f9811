/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote.h - shared by the commands that talk to the daemon: connecting, failures, keys, output.
 *
 * Nothing here starts a daemon: run_daemon_wake does, for some commands. A person waits longer for an answer than a
 * program should, so connecting has DEADLINE_PERSON_CONNECT_MS here, unless WARM_TIMEOUT_MS says otherwise.
 *
 * Thread: main. Memory: as each function says.
 */
#ifndef WARM_CLI_REMOTE_H
#define WARM_CLI_REMOTE_H

#include "client/cli/cli.h"
#include "client/lib/deadlines.h"
#include "client/lib/request.h"

/* Rows of cli_options that every such command has; `r` is its struct remote. */
#define REMOTE_ROWS(r)                                                                             \
    {"socket", '\0', cli_take_text, &(r).socket, "a path"},                                        \
    {                                                                                              \
        "json", '\0', NULL, &(r).as_json, NULL                                                     \
    }
#define REMOTE_HELP                                                                                \
    "      --json            print JSON\n"                                                         \
    "      --socket PATH     the daemon's socket ($WARM_SOCKET, or this user's default)\n"         \
    "  -h, --help            print this\n"

struct remote {
    struct warm *w;     /* NULL until remote_open */
    const char *socket; /* --socket; NULL: the default */
    bool as_json;
};

/* Reads all options of a command that has no others. False if the command ends here; then sets its exit
 * status. */
bool remote_options(struct remote *r, const struct command *self, int argc, char **argv,
                    int *out_status);

/* Why a daemon of a third user is not used, and what helps, also if a user namespace hides its uid. */
#define REMOTE_NOT_YOURS                                                                           \
    "it runs as another user than you or root: it is not used; a socket for others, or for a "     \
    "container, belongs at " WARM_SYSTEM_SOCKET

/* Connects. 0, or an exit status after printing the reason. */
int remote_open(struct remote *r);
/* Closes the connection, if there is one. */
void remote_close(struct remote *r);

/* Prints why a request failed. Returns the exit status. */
int remote_fail(const struct remote *r, int code);
/* Returns the exit status for an error code. */
int remote_exit_status(int code);

/* Sends the one frame that was put into r->w->request for `tag` and takes the first answer, which
 * must be of type `want`, or MISS: 0, CLI_FINDING for MISS, or another exit status. */
int remote_ask(struct remote *r, uint64_t tag, enum wire_type want, struct answer *out);

/* Asks for a TEXT with a request that has no fields. *out borrows the connection's buffer. 0 or an
 * exit status. */
int remote_text(struct remote *r, enum wire_type type, struct wire_text *out);

/* Asks for the history. *out borrows the connection's buffer. 0 or an exit status; CLI_FINDING, with nothing printed,
 * if nothing is known. */
int remote_history(struct remote *r, const struct wire_history *question, struct wire_text *out);

/* Asks for a REPORT; PROGRESS on the way is shown as `what`. 0 or an exit status. */
int remote_report(struct remote *r, uint64_t tag, const char *what, struct wire_report *out);

/* Prints the numbers of entries and bytes of a report, after the word `done`. */
void remote_print_report(const struct remote *r, const char *done, const struct wire_report *report,
                         bool dry_run);

/* Returns a time in milliseconds that never goes back, to measure a request. */
double remote_clock_ms(void);

/* Adds a KEY of the command line to a list: 32 hex digits may be an address key or a name, and are
 * added as both. Returns the number of added items. */
uint32_t remote_add_key(struct writer *list, const char *text);

#endif
