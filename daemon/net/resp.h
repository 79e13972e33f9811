/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resp.h - the bytes of RESP2 and RESP3
 * (https://redis.io/docs/latest/develop/reference/protocol-spec/): commands in, replies out. Pure:
 * no sockets, no state of the daemon.
 *
 *     *3\r\n $3\r\nSET\r\n $1\r\nk\r\n $5\r\nvalue\r\n      a command: an array of bulk strings
 *     GET k\r\n                                             the same typed by hand ("inline")
 *
 * A long argument is not collected in the buffer. resp_parse tells that one comes, and the caller takes
 * it from the stream. Its header line stays in the buffer, its bytes and their CRLF do not:
 *
 *     buffer   *3\r\n $3\r\nSET\r\n $1\r\nk\r\n $900000\r\n │ *1\r\n…
 *     elsewhere                                      900000 bytes
 *
 * Thread: any; no state. Memory: arguments borrow the buffer that was parsed.
 */
#ifndef WARM_DAEMON_NET_RESP_H
#define WARM_DAEMON_NET_RESP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keygen/bytes.h"
#include "keygen/err.h"

#define RESP_ARGS_MAX 4096u              /* arguments of one command */
#define RESP_LINE_MAX (64u << 10)        /* bytes of an inline command, or of a header line */
#define RESP_COMMAND_MAX (1u << 20)      /* bytes of a command without its spilled arguments */
#define RESP_SPILL_MIN ((64u << 10) + 1) /* bytes: arguments from here on are spilled */
#define RESP_SPILLS_MAX 16u              /* spilled arguments of one command */
#define RESP_BULK_MAX (4ull << 30)       /* bytes of one argument */

struct resp_arg {
    const uint8_t *data; /* NULL if it was spilled */
    uint64_t len;        /* bytes */
};

struct resp_command {
    size_t n_args; /* 0: an empty line, which is ignored */
    struct resp_arg args[RESP_ARGS_MAX];
    /* If resp_parse returned 0: */
    size_t spill_at;    /* the argument to spill begins here in the buffer, and has */
    uint64_t spill_len; /* this many bytes, and CRLF after them; 0: just more bytes are needed */
};

/* Parses one command at the start of `data`, without its first `n_spilled` long arguments. Returns
 * its length in the buffer and fills *out; 0 if more bytes are needed, or an argument must be
 * spilled; MALFORMED or TOO_BIG. */
long resp_parse(const void *data, size_t len, unsigned n_spilled, struct resp_command *out,
                struct err *e);

/* True if the argument is `text` in any case of letters. */
bool resp_arg_is(const struct resp_arg *arg, const char *text);
/* True if the argument is a decimal number that fits. */
bool resp_arg_number(const struct resp_arg *arg, int64_t *out);
/* True if `name` matches the glob pattern: * ? [abc] [^a-z] \x. The worst time is proportional to
 * the product of the lengths. */
bool resp_glob(struct view pattern, struct view name);

/* Writes one reply, or its beginning: each of these. `version` is 2 or 3. */
void resp_put_status(struct writer *w, const char *text);
void resp_put_error(struct writer *w, const char *text); /* line ends in it become spaces */
void resp_put_number(struct writer *w, int64_t n);
void resp_put_bulk(struct writer *w, const void *data, size_t len); /* a bulk string */
void resp_put_bulk_head(struct writer *w, uint64_t len); /* then the bytes, then resp_put_crlf */
void resp_put_crlf(struct writer *w);
void resp_put_text(struct writer *w, const char *text); /* a bulk string */
void resp_put_null(struct writer *w, unsigned version);
void resp_put_array(struct writer *w, size_t n);                 /* then n elements */
void resp_put_map(struct writer *w, size_t n, unsigned version); /* RESP2: an array of 2n */

#endif
