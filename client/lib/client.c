/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.c - libwarm's calls on entries: opening a connection, getting, putting, leases. Programs
 * call them; warm.h has the contract. request.c sends each request and waits for the answer.
 *
 * Get:  GET ─▶ HIT ─▶ verified value │ MISS ─▶ NOT_FOUND │ LEASE ─▶ the caller makes it
 *              │ WAIT ─▶ one of these later
 *       Many at once: MGET, and as many of these answers, in any order.
 *       A value that does not match its checksum is reported to the daemon and asked for once more.
 * Put:  PUT (larger values as a sealed memfd) ─▶ OK once it is committed.
 *
 * Thread: one at a time for each connection.
 */
#include "client/lib/warm.h" /* first: its own error codes are the ones that are checked below */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/lib/deadlines.h"
#include "client/lib/debug.h"
#include "client/lib/digests.h"
#include "client/lib/environment.h"
#include "client/lib/request.h"
#include "client/wire/memfd.h"
#include "keygen/expect.h"

#define X(name, number, text)                                                                      \
    _Static_assert(WARM_E##name == -(number), "warm.h has the same codes");
WARM_ERR_LIST(X)
#undef X

const char *warm_message(const struct warm *w) { return w->err.text; }
const char *warm_error_name(int code) { return err_name(code); }

/* ---- opening ---- */

static unsigned env_number(const char *name, unsigned otherwise)
{
    const char *text = getenv(name);
    char *end;
    if (!text || !*text)
        return otherwise;
    unsigned long value = strtoul(text, &end, 10);
    return *end || value == 0 || value > 3600 * 1000 ? otherwise : (unsigned)value;
}

/* Writes the socket of the user's own daemon, as warmd's default. Without a runtime folder it is in
 * /tmp. Returns its length, as snprintf. */
static int own_socket(uid_t uid, char *out, size_t cap)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    if (runtime && *runtime)
        return snprintf(out, cap, "%s/warm/warmd.sock", runtime);
    snprintf(out, cap, "/run/user/%u", (unsigned)uid);
    if (access(out, X_OK) == 0)
        return snprintf(out, cap, "/run/user/%u/warm/warmd.sock", (unsigned)uid);
    return snprintf(out, cap, "/tmp/warm-%u/warmd.sock", (unsigned)uid);
}

/* True if a daemon listens there, even if its queue is full. */
static bool is_listening(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return false;
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool listens = fd >= 0 && (connect(fd, (struct sockaddr *)&address, sizeof address) == 0 ||
                               errno == EAGAIN);
    if (fd >= 0)
        close(fd);
    return listens;
}

int warm_default_socket(char *out, size_t cap)
{
    const char *socket = getenv("WARM_SOCKET");
    uid_t uid = geteuid();
    int n;
    if (socket && *socket)
        n = snprintf(out, cap, "%s", socket);
    else if (uid == 0)
        n = snprintf(out, cap, "%s", WARM_SYSTEM_SOCKET);
    else
        n = own_socket(uid, out, cap);
    if (n < 0 || (size_t)n >= cap)
        return WARM_ETOO_BIG;
    if (!(socket && *socket) && uid != 0 && cap >= sizeof WARM_SYSTEM_SOCKET &&
        !is_listening(out) && is_listening(WARM_SYSTEM_SOCKET))
        strcpy(out, WARM_SYSTEM_SOCKET);
    return 0;
}

static int request_init(struct warm *w, const struct warm_options *options)
{
    static const struct warm_options defaults;
    if (!options)
        options = &defaults;
    *w = (struct warm){.conn.fd = -1,
                       .pid = getpid(),
                       .recache = environment_is_set("WARM_RECACHE"),
                       .read_only = environment_is_set("WARM_READONLY")};
    w->connect_timeout_ms = options->connect_timeout_ms
                                ? options->connect_timeout_ms
                                : env_number("WARM_TIMEOUT_MS", DEADLINE_CONNECT_MS);
    w->silence_ms = env_number("WARM_TIMEOUT_MS", w->connect_timeout_ms > DEADLINE_SILENCE_MS
                                                      ? w->connect_timeout_ms
                                                      : DEADLINE_SILENCE_MS);
    w->request_timeout_ms =
        options->request_timeout_ms ? options->request_timeout_ms : DEADLINE_REQUEST_MS;
    if (!options->socket)
        return warm_default_socket(w->socket, sizeof w->socket) ? WARM_EINVALID : 0;
    if (strlen(options->socket) >= sizeof w->socket)
        return WARM_EINVALID;
    strcpy(w->socket, options->socket);
    return 0;
}

int warm_open(struct warm **out, const struct warm_options *options)
{
    if (expect_is_off() || environment_is_set("WARM_DISABLE"))
        return WARM_ENO_DAEMON;
    struct warm *w = malloc(sizeof *w);
    if (!w)
        return WARM_ENOMEM;
    int code = request_init(w, options);
    if (!code)
        code = request_open(w);
    if (code)
        warm_close(w);
    else
        *out = w;
    return code;
}

void warm_close(struct warm *w)
{
    if (!w)
        return;
    conn_close(&w->conn);
    writer_close(&w->request);
    digests_free(w->digests);
    free(w->nvrtc.path);
    free(w);
}

/* ---- getting ---- */

/* Returns the daemon's deadline. It must give up a little earlier than we do, so that its answer
 * arrives. */
static uint32_t daemon_deadline(unsigned timeout_ms) { return timeout_ms - timeout_ms / 10; }

static int make_key(struct warm *w, const char *key, size_t key_len, unsigned flags,
                    struct key *address, enum wire_space *out_space, struct view *out_key)
{
    if (flags & WARM_BY_KEY) {
        if (!key_from_text(key, key_len, address))
            return err_set(&w->err, WARM_EINVALID, "a key is 32 hex digits");
        *out_space = WIRE_SPACE_KEY;
        *out_key = (struct view){address->bytes, sizeof address->bytes};
        return 0;
    }
    if (key_len == 0 || key_len > WIRE_NAME_MAX)
        return err_set(&w->err, WARM_EINVALID, "a name has 1 to %u bytes, not %zu", WIRE_NAME_MAX,
                       key_len);
    *out_space = WIRE_SPACE_NAME;
    *out_key = (struct view){key, key_len};
    return 0;
}

static int take_hit(struct warm *w, struct answer *answer, struct warm_value *out)
{
    struct wire_hit hit;
    if (wire_get_hit(&answer->frame, &hit, &w->err))
        return request_unexpected(w, answer);
    return request_value(w, answer, &hit, out);
}

static int take_lease(struct warm *w, struct answer *answer, struct warm_value *out)
{
    struct wire_lease lease;
    if (wire_get_lease(&answer->frame, &lease, &w->err))
        return request_unexpected(w, answer);
    *out = (struct warm_value){.token = lease.token, .lease_ms = lease.deadline_ms};
    return WARM_LEASE;
}

static int take_get_answer(struct warm *w, uint64_t tag, uint64_t deadline_ms,
                           struct answer *answer, struct warm_value *out)
{
    while (answer->frame.type == WIRE_WAIT) {
        int code = request_next(w, tag, -1, deadline_ms, answer);
        if (code)
            return code;
    }
    switch (answer->frame.type) {
    case WIRE_HIT: return take_hit(w, answer, out);
    case WIRE_LEASE: return take_lease(w, answer, out);
    case WIRE_MISS:
        conn_fds_close(answer->fds);
        return err_set(&w->err, WARM_ENOT_FOUND, "no such entry");
    default: return request_unexpected(w, answer);
    }
}

static int get_once(struct warm *w, const struct wire_get *get, struct warm_value *out)
{
    uint64_t deadline_ms = conn_now_ms() + w->request_timeout_ms;
    uint64_t tag = request_begin(w);
    struct answer answer;
    wire_put_get(&w->request, tag, get);
    int code = request_ask(w, tag, NULL, 0, deadline_ms, &answer);
    return code ? code : take_get_answer(w, tag, deadline_ms, &answer, out);
}

/* Returns the word for the end of a get. */
static const char *outcome_of(const struct warm *w, int code)
{
    switch (code) {
    case 0: return "hit";
    case WARM_LEASE: return "miss, with its lease";
    case WARM_ENOT_FOUND: return "miss";
    default: return w->err.text;
    }
}

int warm_get(struct warm *w, const char *key, size_t key_len, unsigned flags,
             struct warm_value *out)
{
    unsigned long long began_us = debug_now_us();
    struct key address;
    struct wire_get get = {.want_lease = flags & WARM_WANT_LEASE,
                           .deadline_ms = daemon_deadline(w->request_timeout_ms)};
    int code = make_key(w, key, key_len, flags, &address, &get.space, &get.key);
    if (code)
        return code;
    if (w->recache && !w->told_recache) {
        w->told_recache = true;
        request_note(w, &(struct wire_note){WIRE_REASON_DISABLED,
                                            {"", 0},
                                            view_of_text("WARM_RECACHE is set: nothing is taken")});
    }
    if (w->recache)
        return err_set(&w->err, WARM_ENOT_FOUND, "WARM_RECACHE is set: nothing is taken");
    code = get_once(w, &get, out);
    if (code == WARM_ECORRUPT)
        code = get_once(w, &get, out);
    debug_request("get", key, key_len, outcome_of(w, code), code ? 0 : out->len, began_us);
    return code == WARM_ECORRUPT ? WARM_ENOT_FOUND : code;
}

/* ---- getting many ---- */

#define UNANSWERED 1 /* among the codes */

static int add_names(struct warm *w, const struct warm_name *names, size_t n, unsigned flags,
                     struct writer *list)
{
    for (size_t i = 0; i < n; i++) {
        struct key address;
        enum wire_space space = WIRE_SPACE_NAME;
        struct view key = {0};
        int code = make_key(w, names[i].text, names[i].len, flags, &address, &space, &key);
        if (code)
            return code;
        wire_keys_add(list, space, key.data, key.len);
    }
    return list->failed ? err_set(&w->err, WARM_ETOO_BIG, "too many or too long names at once") : 0;
}

/* Takes one answer to MGET and returns the code of its name. After a failure of the connection,
 * w->connected is false. */
static int take_one(struct warm *w, struct answer *answer, struct warm_value *out)
{
    uint64_t n_tags = w->n_tags;
    int code = WARM_ENOT_FOUND;
    if (answer->frame.type == WIRE_HIT)
        code = take_hit(w, answer, out);
    else if (answer->frame.type != WIRE_MISS)
        return request_unexpected(w, answer);
    else
        conn_fds_close(answer->fds);
    w->n_tags = n_tags; /* a damaged value was reported in between */
    return code;
}

/* Takes answers until there is one for each name. Invariant (1): request_next returns only frames
 * with tags of this request, so that i < n. */
static int take_many(struct warm *w, uint64_t tag, size_t n, int code, struct answer *answer,
                     uint64_t deadline_ms, struct warm_value *out, int *codes)
{
    for (size_t left = n; w->connected; code = request_next(w, tag, -1, deadline_ms, answer)) {
        size_t i = (size_t)(answer->frame.tag - tag);
        if (code && answer->frame.type != WIRE_ERROR)
            return code;
        if (!WARM_EXPECT(i < n)) /* (1) */
            return request_unexpected(w, answer);
        if (!code && answer->frame.type == WIRE_WAIT)
            continue;
        if (codes[i] != UNANSWERED)
            return request_unexpected(w, answer);
        codes[i] = code ? code : take_one(w, answer, &out[i]);
        if (w->connected && --left == 0)
            return 0;
    }
    return w->err.code;
}

int warm_get_many(struct warm *w, const struct warm_name *names, size_t n, unsigned flags,
                  struct warm_value *out, int *out_codes)
{
    unsigned long long began_us = debug_now_us();
    struct writer list;
    struct answer answer = {.fds = {-1, -1}};
    uint64_t deadline_ms = conn_now_ms() + w->request_timeout_ms;
    if (n > WARM_MANY_MAX)
        return err_set(&w->err, WARM_ETOO_BIG, "%zu names at once; the limit is %u", n,
                       WARM_MANY_MAX);
    for (size_t i = 0; i < n; i++)
        out_codes[i] = w->recache ? WARM_ENOT_FOUND : UNANSWERED;
    if (n == 0 || w->recache)
        return 0;
    writer_init(&list, WIRE_PAYLOAD_MAX);
    int code = add_names(w, names, n, flags, &list);
    if (!code) {
        uint64_t tag = request_begin_many(w, n);
        wire_put_mget(&w->request, tag,
                      &(struct wire_mget){.deadline_ms = daemon_deadline(w->request_timeout_ms),
                                          .n = (uint32_t)n,
                                          .keys = {list.data, list.len}});
        code = request_ask(w, tag, NULL, 0, deadline_ms, &answer);
        if (w->connected)
            code = take_many(w, tag, n, code, &answer, deadline_ms, out, out_codes);
    }
    writer_close(&list);
    for (size_t i = 0; code && i < n; i++)
        if (out_codes[i] == 0)
            warm_value_free(&out[i]);
    for (size_t i = 0; !code && i < n; i++)
        if (out_codes[i] == WARM_ECORRUPT)
            out_codes[i] = warm_get(w, names[i].text, names[i].len, flags, &out[i]);
    for (size_t i = 0; i < n; i++)
        debug_request("get many", names[i].text, names[i].len,
                      outcome_of(w, code ? code : out_codes[i]),
                      code || out_codes[i] ? 0 : out[i].len, began_us);
    return code;
}

/* ---- putting ---- */

static int fill_put(struct warm *w, struct wire_put *put, const void *data, size_t len,
                    const struct warm_put_options *options)
{
    *put = (struct wire_put){.len = len,
                             .check = key_of_bytes(data, len),
                             .token = options->token,
                             .cost_ms = options->cost_ms,
                             .ttl_ms = options->ttl_ms,
                             .keep_existing = options->flags & WARM_KEEP_EXISTING,
                             .hardware = view_of_text(options->hardware),
                             .compiler = view_of_text(options->compiler),
                             .label = view_of_text(options->label)};
    if (options->kind && !wire_kind_from_name(options->kind, &put->kind))
        return err_set(&w->err, WARM_EINVALID, "no kind of entry is called %s", options->kind);
    if (options->group)
        put->group = key_of_bytes(options->group, strlen(options->group));
    if (len <= WIRE_INLINE_MAX)
        put->value = (struct view){data, len};
    return 0;
}

/* Takes the OK that comes when the value is committed. */
static int take_ok(struct warm *w, struct answer *answer, struct wire_ok *out)
{
    if (answer->frame.type != WIRE_OK || wire_get_ok(&answer->frame, out, &w->err))
        return request_unexpected(w, answer);
    return 0;
}

static int send_put(struct warm *w, const struct wire_put *put, const void *data)
{
    int fd = -1;
    if (put->len > put->value.len) {
        fd = memfd_sealed("warm", data, (size_t)put->len, &w->err);
        if (fd < 0)
            return fd;
    }
    struct answer answer;
    struct wire_ok ok;
    uint64_t tag = request_begin(w);
    wire_put_put(&w->request, tag, put);
    int code = request_ask(w, tag, &fd, fd >= 0, conn_now_ms() + w->request_timeout_ms, &answer);
    if (fd >= 0)
        close(fd);
    code = code ? code : take_ok(w, &answer, &ok);
    w->existed = !code && ok.existed;
    return code;
}

int warm_put(struct warm *w, const char *key, size_t key_len, const void *data, size_t len,
             const struct warm_put_options *options)
{
    static const struct warm_put_options defaults;
    unsigned long long began_us = debug_now_us();
    struct wire_put put;
    struct key address;
    if (w->read_only)
        return err_set(&w->err, WARM_EDENIED, "WARM_READONLY is set: nothing is stored");
    int code = fill_put(w, &put, data, len, options ? options : &defaults);
    if (!code)
        code = make_key(w, key, key_len, 0, &address, &put.space, &put.key);
    if (!code)
        code = send_put(w, &put, data);
    debug_request("put", key, key_len, code ? w->err.text : "stored", len, began_us);
    return code;
}

/* Stores an entry of an archive. */
static int put_entry(struct warm *w, enum wire_space space, struct view key,
                     const struct key *group, const void *data, size_t len,
                     const struct warm_put_options *options)
{
    struct wire_put put;
    if (!WARM_EXPECT(key.data && group && options))
        return err_set(&w->err, WARM_EINVALID, "an entry without its place");
    if (w->read_only)
        return err_set(&w->err, WARM_EDENIED, "WARM_READONLY is set: nothing is stored");
    int code = fill_put(w, &put, data, len, options);
    put.space = space;
    put.key = key;
    put.group = *group;
    return code ? code : send_put(w, &put, data);
}

int client_put_made(struct warm *w, const uint8_t place[WIRE_MADE_LEN], const struct key *group,
                    const void *data, size_t len, const struct warm_put_options *options)
{
    return put_entry(w, WIRE_SPACE_KEY, (struct view){place, WIRE_MADE_LEN}, group, data, len,
                     options);
}

int client_put_named(struct warm *w, struct view name, const struct key *group, const void *data,
                     size_t len, const struct warm_put_options *options)
{
    if (name.len == 0 || name.len > WIRE_NAME_MAX)
        return err_set(&w->err, WARM_EINVALID, "a name has 1 to %u bytes", WIRE_NAME_MAX);
    return put_entry(w, WIRE_SPACE_NAME, name, group, data, len, options);
}

void warm_note(struct warm *w, const char *reason, const char *label, const char *text)
{
    struct wire_note note = {.label = view_of_text(label), .text = view_of_text(text)};
    if (note.label.len > WIRE_NAME_MAX)
        note.label.len = WIRE_NAME_MAX;
    if (note.text.len > WIRE_NAME_MAX)
        note.text.len = WIRE_NAME_MAX;
    while (note.reason <= WIRE_REASON_STARTED && strcmp(wire_reason_name(note.reason), reason) != 0)
        note.reason++;
    if (note.reason <= WIRE_REASON_STARTED)
        request_note(w, &note);
}

int warm_release(struct warm *w, uint64_t token)
{
    struct wire_release release = {token};
    struct answer answer;
    struct wire_ok ok;
    uint64_t tag = request_begin(w);
    wire_put_release(&w->request, tag, &release);
    int code = request_ask(w, tag, NULL, 0, conn_now_ms() + w->request_timeout_ms, &answer);
    return code ? code : take_ok(w, &answer, &ok);
}

void warm_renew(struct warm *w, uint64_t token)
{
    uint64_t tag = request_begin(w);
    wire_put_renew(&w->request, tag, &(struct wire_release){token});
    if (w->connected && w->pid == getpid())
        request_tell(w, NULL, 0, conn_now_ms() + w->connect_timeout_ms);
}
