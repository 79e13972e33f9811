/* SPDX-License-Identifier: Apache-2.0 */
/*
 * redis_link.h - one connection to one Redis server, and the commands on it.
 *
 *     redis_link_send ─▶ waits for the connection ─▶ written ─▶ on_reply, n_replies times ─▶ on_end
 *                            └────────── the connection fails or ends ─────────────────────▶ on_end
 *
 * A command does not wait for the replies of those before it; replies come in order. The first command connects, to the
 * addresses of the host in turn. After a failure, commands fail at once until the time of the next try.
 *
 * Thread: loop thread. Memory: a command is the caller's and stays until on_end.
 */
#ifndef WARM_TIER_BACKENDS_REDIS_LINK_H
#define WARM_TIER_BACKENDS_REDIS_LINK_H

#include <string.h>

#include "tier/backend.h"
#include "tier/backends/tls.h"
#include "tier/resp_reply.h"

#define REDIS_VALUE_MAX (16u << 20) /* a larger value would hold up the others on the connection */

struct redis_link;

struct redis_command {
    struct redis_command *next; /* the link's */
    char *bytes;                /* from malloc; the link frees them */
    size_t len;
    unsigned n_replies, n_seen;
    bool unwanted; /* nobody waits any more: it is not sent if it has not been */
    void (*on_reply)(struct redis_command *command, const struct resp_reply *reply);
    /* The last call: TIER_OK after all replies, or why not. */
    void (*on_end)(struct redis_command *command, enum tier_outcome outcome, const char *why);
};

struct redis_link_settings {
    uv_loop_t *loop;
    struct tls_settings *tls;    /* NULL: none; borrowed */
    const char *credentials;     /* the file; "": none; borrowed */
    const char *user, *database; /* or ""; borrowed */
    uint64_t min_rate;           /* bytes a second; 0: none */
};

/* Makes a link; connects nothing yet. */
struct redis_link *redis_link_new(const struct redis_link_settings *settings, const char *host,
                                  uint16_t port);
/* Ends all commands and frees the link, then calls `closed`. */
void redis_link_close(struct redis_link *link, void (*closed)(void *user), void *user);

/* Sends a command. on_end is never called from within. */
void redis_link_send(struct redis_link *link, struct redis_command *command);

/* Returns the bytes of all commands that wait for replies. */
size_t redis_link_pending(const struct redis_link *link);
/* True if it failed, and its next try is not due. */
bool redis_link_is_off(const struct redis_link *link);

/* An argument of a command. */
struct redis_arg {
    const void *at;
    size_t len;
};

/* Adds a command's words to the bytes of `command`, and one to its replies. */
void redis_command_add(struct redis_command *command, const struct redis_arg *args, size_t n);
static inline struct redis_arg redis_text(const char *text)
{
    return (struct redis_arg){text, strlen(text)};
}

/* Maps an error of a server. `said` gets its first word alone: the rest may repeat the command. */
enum tier_outcome redis_error(const struct resp_item *error, char said[TIER_SAID_MAX]);
/* True if the first word of an error is `word`. */
bool redis_error_is(const struct resp_item *item, const char *word);

#endif
