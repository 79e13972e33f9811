/* SPDX-License-Identifier: Apache-2.0 */
/*
 * answer.c - writes RESP answers, and decides how a value goes out: copied, from its place, or as a file.
 *
 * The other files of this folder call it.
 *
 * Thread: loop thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/pytorch/torch_store.h"
#include "daemon/pytorch/torch_value.h"
#include "daemon/redis/internal.h"

#define COPY_MAX 4096u /* bytes; a longer value is not copied, but sent from its place */

struct writer *redis_begin(struct redis *r) { return connection_begin(r->connection); }
void redis_commit(struct redis *r) { connection_commit(r->connection, NULL, 0); }

void redis_send_status(struct redis *r, const char *text)
{
    resp_put_status(redis_begin(r), text);
    redis_commit(r);
}

void redis_send_error(struct redis *r, const char *text)
{
    resp_put_error(redis_begin(r), text);
    redis_commit(r);
}

long redis_fail(struct redis *r, const struct err *e)
{
    char text[300];
    snprintf(text, sizeof text, "ERR Protocol error: %s", e->text);
    redis_send_error(r, text);
    return -1;
}

void redis_send_number(struct redis *r, int64_t n)
{
    resp_put_number(redis_begin(r), n);
    redis_commit(r);
}

void redis_send_null(struct redis *r)
{
    resp_put_null(redis_begin(r), r->version);
    redis_commit(r);
}

void redis_send_bytes(struct redis *r, const void *data, size_t len)
{
    struct writer *w = redis_begin(r);
    if (len <= COPY_MAX) {
        resp_put_bulk(w, data, len);
        redis_commit(r);
        return;
    }
    resp_put_bulk_head(w, len);
    redis_commit(r);
    connection_borrow(r->connection, data, len);
    resp_put_crlf(redis_begin(r));
    redis_commit(r);
}

/* Sends a value that is a file; `fd` is borrowed. False if there is no descriptor for it: nothing is sent. */
static bool send_file(struct redis *r, int fd, uint64_t len)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (copy < 0)
        return false;
    resp_put_bulk_head(redis_begin(r), len);
    redis_commit(r);
    connection_send_file(r->connection, copy, len);
    resp_put_crlf(redis_begin(r));
    redis_commit(r);
    return true;
}

/* Sends the JSON of a stored form in memory, which is small. False without memory. */
static bool send_json(struct redis *r, const void *stored, size_t len, uint32_t cost_ms)
{
    size_t json_len = torch_value_json_len(len, cost_ms);
    uint8_t *json = malloc(json_len);
    if (!json)
        return false;
    torch_value_put_together(stored, len, cost_ms, json);
    resp_put_bulk(redis_begin(r), json, json_len);
    redis_commit(r);
    free(json);
    return true;
}

/* Sends the JSON of a stored form in a file: it is encoded as the socket takes it. False without a descriptor. */
static bool send_json_file(struct redis *r, int fd, uint64_t len, uint32_t cost_ms)
{
    char end[TORCH_VALUE_WRAPPING_MAX];
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (copy < 0)
        return false;
    struct writer *w = redis_begin(r);
    resp_put_bulk_head(w, torch_value_json_len(len, cost_ms));
    writer_bytes(w, TORCH_VALUE_HEAD, sizeof TORCH_VALUE_HEAD - 1);
    redis_commit(r);
    connection_send_base64(r->connection, copy, TORCH_VALUE_MAGIC, len - TORCH_VALUE_MAGIC);
    size_t end_len = torch_value_end(cost_ms, end);
    w = redis_begin(r);
    writer_bytes(w, end, end_len);
    resp_put_crlf(w);
    redis_commit(r);
    return true;
}

/* Sends a value as it was put: PyTorch's are stored in another form. */
static bool send_together(struct redis *r, const void *data, int fd, uint64_t len, uint32_t cost_ms)
{
    return data ? send_json(r, data, len, cost_ms) : send_json_file(r, fd, len, cost_ms);
}

bool redis_send_stored(struct redis *r, const struct store_value *v)
{
    if (torch_store_is_stored(v->data, v->fd, v->row.len))
        return send_together(r, v->data, v->fd, v->row.len, v->row.cost_ms);
    if (!v->data)
        return send_file(r, v->fd, v->row.len);
    redis_send_bytes(r, v->data, v->row.len);
    return true;
}

static bool send_artifact(struct redis *r, struct artifact *a)
{
    if (torch_store_is_stored(a->data, a->fd, a->len))
        return send_together(r, a->data, a->fd, a->len, a->cost_ms);
    if (!a->data)
        return send_file(r, a->fd, a->len);
    resp_put_bulk_head(redis_begin(r), a->len);
    redis_commit(r);
    connection_share(r->connection, a);
    resp_put_crlf(redis_begin(r));
    redis_commit(r);
    return true;
}

void redis_send_answer(struct redis *r, const struct answer *a)
{
    bool sent = a->kind == ANSWER_VALUE &&
                (a->value ? redis_send_stored(r, a->value) : send_artifact(r, a->artifact));
    if (!sent)
        redis_send_null(r);
}
