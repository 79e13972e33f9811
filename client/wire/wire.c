/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.c - decides how each message looks in bytes: one table of fields for each. The daemon and
 * libwarm call it for every frame that they send or receive.
 *
 *     NAME_FIELDS(X)   X(type of the field, member, limit) …, in the order of the payload
 *          │
 *          ├──▶ wire_put_NAME   appends the frame
 *          └──▶ wire_get_NAME   reads it, checks it, names the field that is wrong
 *
 * So the two sides of a message cannot disagree, and PROTOCOL.md is these tables in prose. The
 * limit of a number is its highest value (0: all that fit), that of a view its length in bytes.
 *
 * Thread: any; no state. Memory: decoded messages borrow the payload.
 */
#include "client/wire/wire.h"

#include <ctype.h>
#include <string.h>

#include "keygen/expect.h"

/* ---- frames ---- */

#define FLAG_FDS 0x3u /* how many descriptors come along */

const char *wire_type_name(uint8_t type)
{
    switch (type) {
#define X(name, number)                                                                            \
    case number: return #name;
        WIRE_TYPE_LIST(X)
#undef X
    default: return "UNKNOWN";
    }
}

const char *wire_kind_name(uint8_t kind)
{
    switch (kind) {
#define X(name, number, text)                                                                      \
    case number: return text;
        WIRE_KIND_LIST(X)
#undef X
    default: return "unknown";
    }
}

bool wire_kind_from_name(const char *name, uint8_t *out)
{
#define X(NAME, number, text)                                                                      \
    if (strcmp(name, text) == 0) {                                                                 \
        *out = number;                                                                             \
        return true;                                                                               \
    }
    WIRE_KIND_LIST(X)
#undef X
    return false;
}

static bool begins(struct view name, const char *prefix)
{
    size_t len = strlen(prefix);
    return name.len > len && memcmp(name.data, prefix, len) == 0;
}

bool wire_name_is_note(struct view name)
{
    return begins(name, "file:") || begins(name, "jax:ahead:") || begins(name, "form:") ||
           begins(name, "cc:2n:") || begins(name, "nvcc:2n:");
}

bool wire_name_is_catalogue(struct view name) { return begins(name, "torch-catalogue:"); }

bool wire_name_is_second(struct view name)
{
    return begins(name, "jax:stock:") || begins(name, "ptxas:exact:");
}

/* True for "pt2:", 64 digits, "::": PyTorch's best configuration of one kernel, under the digest of
 * the candidates. */
static bool is_tuned_kernel(struct view name)
{
    static const char start[] = "pt2:", end[] = "::";
    const char *at = name.data;
    return name.len > 70 && memcmp(at, start, 4) == 0 && memcmp(at + 68, end, 2) == 0 &&
           strspn(at + 4, "0123456789abcdef") >= 64;
}

uint8_t wire_kind_of_name(struct view name)
{
    static const struct {
        const char *prefix;
        uint8_t kind;
    } known[] = {{"pt2:fx-graph", WIRE_KIND_FX_GRAPH},
                 {"pt2:autograd", WIRE_KIND_BACKWARD},
                 {"pt2:bundled-autotune", WIRE_KIND_AUTOTUNE},
                 {"triton:", WIRE_KIND_TRITON},
                 {"jax:", WIRE_KIND_EXECUTABLE},
                 {"pjrt:", WIRE_KIND_EXECUTABLE},
                 {"enzyme:", WIRE_KIND_BACKWARD},
                 {"mlir:", WIRE_KIND_GRAPH},
                 {"cc:", WIRE_KIND_OBJECT},
                 {"nvrtc:", WIRE_KIND_CUBIN},
                 {"nvjitlink", WIRE_KIND_CUBIN},
                 {"nvvm:", WIRE_KIND_OBJECT},
                 {"graph:", WIRE_KIND_GRAPH},
                 {"cuda-jit:", WIRE_KIND_CUBIN},
                 {"cuda-link", WIRE_KIND_CUBIN},
                 {"ptxas:", WIRE_KIND_CUBIN},
                 {"form:", WIRE_KIND_FORM}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (begins(name, known[i].prefix))
            return known[i].kind;
    return is_tuned_kernel(name) ? WIRE_KIND_AUTOTUNE : WIRE_KIND_OTHER;
}

const char *wire_reason_name(uint8_t reason)
{
    switch (reason) {
#define X(name, number, text)                                                                      \
    case number: return text;
        WIRE_REASON_LIST(X)
#undef X
    default: return "unknown";
    }
}

bool wire_session_ok(const void *id, size_t len)
{
    const char *text = id;
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)text[i]) && !memchr("._-", text[i], 3))
            return false;
    return len >= 1 && len <= WIRE_SESSION_MAX;
}

struct view wire_word_after(struct view client, const char *mark)
{
    const char *at = memmem(client.data, client.len, mark, strlen(mark));
    if (!at)
        return (struct view){"", 0};
    at += strlen(mark);
    size_t left = client.len - (size_t)(at - (const char *)client.data);
    const char *end = memchr(at, ' ', left);
    return (struct view){at, end ? (size_t)(end - at) : left};
}

struct view wire_session_of(struct view client)
{
    struct view id = wire_word_after(client, " session=");
    return wire_session_ok(id.data, id.len) ? id : (struct view){"", 0};
}

struct view wire_project_of(struct view client)
{
    struct view name = wire_word_after(client, " project=");
    bool is_ok = name.len <= WIRE_PROJECT_MAX && wire_session_ok(name.data, name.len);
    return is_ok ? name : (struct view){"", 0};
}

bool wire_administers(struct view client)
{
    static const char mark[] = " administers";
    return memmem(client.data, client.len, mark, sizeof mark - 1) != NULL;
}

long wire_parse(const void *data, size_t len, struct wire_frame *out, struct err *e)
{
    struct reader r = reader_over(data, len);
    if (len && *r.data != WIRE_MAGIC)
        return err_set(e, WARM_EMALFORMED, "frame begins with 0x%02x, not 0x%02x", *r.data,
                       WIRE_MAGIC);
    if (len < WIRE_HEADER)
        return 0;
    reader_u8(&r);
    uint8_t type = reader_u8(&r);
    uint16_t flags = reader_u16(&r);
    uint32_t payload_len = reader_u32(&r);
    uint64_t tag = reader_u64(&r);
    if (flags & ~FLAG_FDS || (flags & FLAG_FDS) > WIRE_FDS_MAX)
        return err_set(e, WARM_EMALFORMED, "frame of type %s has unknown flags 0x%04x",
                       wire_type_name(type), flags);
    if (payload_len > WIRE_PAYLOAD_MAX)
        return err_set(e, WARM_ETOO_BIG, "frame of type %s has %u bytes, above the limit of %u",
                       wire_type_name(type), payload_len, WIRE_PAYLOAD_MAX);
    if (r.len < payload_len)
        return 0;
    *out = (struct wire_frame){.type = type,
                               .n_fds = (uint8_t)(flags & FLAG_FDS),
                               .tag = tag,
                               .payload = reader_bytes(&r, payload_len)};
    return (long)(WIRE_HEADER + payload_len);
}

size_t wire_begin(struct writer *w, enum wire_type type, unsigned n_fds, uint64_t tag)
{
    if (!WARM_EXPECT(n_fds <= WIRE_FDS_MAX))
        w->failed = true;
    size_t begun = w->len;
    writer_u8(w, WIRE_MAGIC);
    writer_u8(w, (uint8_t)type);
    writer_u16(w, (uint16_t)n_fds);
    writer_u32(w, 0); /* the length: wire_end */
    writer_u64(w, tag);
    return begun;
}

static void frame_set_len(struct writer *w, size_t begun, size_t len)
{
    w->failed |= len > WIRE_PAYLOAD_MAX;
    if (!w->failed && !WARM_EXPECT(begun + WIRE_HEADER <= w->len))
        w->failed = true;
    for (size_t i = 0; i < 4 && !w->failed; i++)
        w->data[begun + 4 + i] = (uint8_t)(len >> (8 * i));
}

void wire_end(struct writer *w, size_t begun)
{
    frame_set_len(w, begun, w->len - begun - WIRE_HEADER);
}

void wire_put_empty(struct writer *w, enum wire_type type, uint64_t tag)
{
    wire_end(w, wire_begin(w, type, 0, tag));
}

/* ---- one field ---- */

/* A payload that is being read; remembers its first wrong field. */
struct fields {
    struct reader r;
    const char *message;
    const char *wrong; /* NULL so far */
    int code;
};

static void field_wrong(struct fields *in, const char *field, int code)
{
    if (!in->wrong) {
        in->wrong = field;
        in->code = code;
    }
}

static uint64_t field_uint(struct fields *in, const char *field, size_t size, uint64_t limit)
{
    uint64_t v = 0;
    if (size == 1)
        v = reader_u8(&in->r);
    else if (size == 2)
        v = reader_u16(&in->r);
    else if (size == 4)
        v = reader_u32(&in->r);
    else
        v = reader_u64(&in->r);
    if (in->r.failed)
        field_wrong(in, field, WARM_ETRUNCATED);
    else if (limit && v > limit)
        field_wrong(in, field, WARM_EMALFORMED);
    return v;
}

static void field_copy(struct fields *in, const char *field, void *out, size_t len)
{
    reader_copy(&in->r, out, len);
    if (in->r.failed)
        field_wrong(in, field, WARM_ETRUNCATED);
}

static struct view field_view(struct fields *in, const char *field, size_t max_len)
{
    uint32_t len = reader_u32(&in->r);
    if (!in->r.failed && len > max_len)
        field_wrong(in, field, WARM_ETOO_BIG);
    struct view v = reader_bytes(&in->r, in->wrong ? 0 : len);
    if (in->r.failed)
        field_wrong(in, field, WARM_ETRUNCATED);
    return v;
}

static void put_view(struct writer *w, struct view v, size_t max_len)
{
    if (v.len > max_len)
        w->failed = true;
    else
        writer_blob(w, v.data, v.len);
}

static int fields_end(struct fields *in, struct err *e)
{
    if (!in->wrong && in->r.len)
        return err_set(e, WARM_EMALFORMED, "%s has %zu bytes after its last field", in->message,
                       in->r.len);
    if (!in->wrong)
        return 0;
    return err_set(e, in->code, "%s: field %s %s", in->message, in->wrong,
                   in->code == WARM_ETRUNCATED ? "is cut short"
                   : in->code == WARM_ETOO_BIG ? "is above its limit"
                                               : "has no such value");
}

/* Each type of field: how a member is written to the payload, and how it is read from there. */
#define PUT_u8(member, limit) writer_u8(w, (uint8_t)(member));
#define PUT_u16(member, limit) writer_u16(w, member);
#define PUT_u32(member, limit) writer_u32(w, (uint32_t)(member));
#define PUT_u64(member, limit) writer_u64(w, (uint64_t)(member));
#define PUT_i32 PUT_u32
#define PUT_i64 PUT_u64
#define PUT_digest(member, limit) writer_bytes(w, &(member), sizeof(member));
#define PUT_view(member, limit) put_view(w, member, limit);

#define TAKE_u8(member, limit) m->member = (uint8_t)field_uint(in, #member, 1, limit);
#define TAKE_u16(member, limit) m->member = (uint16_t)field_uint(in, #member, 2, limit);
#define TAKE_u32(member, limit) m->member = (uint32_t)field_uint(in, #member, 4, limit);
#define TAKE_u64(member, limit) m->member = field_uint(in, #member, 8, limit);
#define TAKE_i32(member, limit) m->member = (int32_t)field_uint(in, #member, 4, limit);
#define TAKE_i64(member, limit) m->member = (int64_t)field_uint(in, #member, 8, limit);
#define TAKE_digest(member, limit) field_copy(in, #member, &m->member, sizeof m->member);
#define TAKE_view(member, limit) m->member = field_view(in, #member, limit);

#define PUT(type, member, limit) PUT_##type(m->member, limit)
#define TAKE(type, member, limit) TAKE_##type(member, limit)

/* ---- the messages ---- */

#define LIMIT_TEXT (WIRE_PAYLOAD_MAX - 4)  /* the one field of its message */
#define LIMIT_LIST (WIRE_PAYLOAD_MAX - 64) /* beside some numbers */

#define HELLO_FIELDS(X)                                                                            \
    X(u16, version_min, 0)                                                                         \
    X(u16, version_max, 0) X(u32, capabilities, 0) X(view, client, WIRE_NAME_MAX)

#define WELCOME_FIELDS(X)                                                                          \
    X(u16, version, 0) X(u32, capabilities, 0) X(u32, daemon_uid, 0) X(view, daemon, WIRE_NAME_MAX)

#define GET_FIELDS(X)                                                                              \
    X(u8, space, WIRE_SPACE_KEY)                                                                   \
    X(u8, want_lease, 1)                                                                           \
    X(u8, has_proof, 1)                                                                            \
    X(u32, deadline_ms, 0)                                                                         \
    X(digest, proof, 0)                                                                            \
    X(view, key, WIRE_NAME_MAX)

#define MGET_FIELDS(X)                                                                             \
    X(u8, want_lease, 1) X(u32, deadline_ms, 0) X(u32, n, WIRE_KEYS_MAX) X(view, keys, LIMIT_LIST)

#define PUT_FIELDS(X)                                                                              \
    X(u8, space, WIRE_SPACE_KEY)                                                                   \
    X(u8, kind, 0)                                                                                 \
    X(u8, keep_existing, 1)                                                                        \
    X(u64, token, 0)                                                                               \
    X(u32, cost_ms, 0)                                                                             \
    X(u64, ttl_ms, 0)                                                                              \
    X(u64, len, 0)                                                                                 \
    X(digest, check, 0)                                                                            \
    X(digest, group, 0)                                                                            \
    X(view, key, WIRE_NAME_MAX)                                                                    \
    X(view, hardware, WIRE_NAME_MAX)                                                               \
    X(view, compiler, WIRE_NAME_MAX)                                                               \
    X(view, label, WIRE_NAME_MAX)                                                                  \
    X(view, value, WIRE_INLINE_MAX)

#define RELEASE_FIELDS(X) X(u64, token, 0)
#define RENEW_FIELDS RELEASE_FIELDS

#define COMPILE_ALL (WIRE_COMPILE_RECACHE | WIRE_COMPILE_NO_STORE | WIRE_COMPILE_ONLY_IF_CACHED)
#define COMPILE_FIELDS(X)                                                                          \
    X(u32, flags, COMPILE_ALL)                                                                     \
    X(u32, deadline_ms, 0)                                                                         \
    X(u16, language, 0)                                                                            \
    X(digest, graph, 0)                                                                            \
    X(digest, proof, 0)                                                                            \
    X(view, hardware, WARM_HARDWARE_MAX - 1)                                                       \
    X(view, compiler, WIRE_NAME_MAX)                                                               \
    X(view, label, WIRE_NAME_MAX)

#define SOURCE_FIELDS(X) X(u64, len, 0) X(view, job, WIRE_INLINE_MAX)

#define CHECK_FIELDS(X)                                                                            \
    X(u32, n, WIRE_CHECK_PATHS_MAX) X(u64, len, WIRE_CHECK_MAX) X(view, list, LIMIT_LIST)
#define CHECKED_FIELDS CHECK_FIELDS

#define DAMAGED_FIELDS(X) X(digest, key, 0) X(digest, seen, 0)

#define NOTE_FIELDS(X)                                                                             \
    X(u8, reason, WIRE_REASON_STARTED)                                                             \
    X(view, label, WIRE_NAME_MAX) X(view, text, WIRE_NAME_MAX)

#define AUDIT_FIELDS(X)                                                                            \
    X(digest, key, 0) X(view, compiler, WIRE_NAME_MAX) X(view, job, WIRE_INLINE_MAX)

#define FILTER_FIELDS(X)                                                                           \
    X(i64, filter.uid, 0)                                                                          \
    X(i32, filter.kind, 0)                                                                         \
    X(i32, filter.pinned, 0)                                                                       \
    X(u64, filter.min_bytes, 0)                                                                    \
    X(u64, filter.max_bytes, 0)                                                                    \
    X(u64, filter.min_age_ms, 0)                                                                   \
    X(u64, filter.min_idle_ms, 0)                                                                  \
    X(u32, filter.min_hits, 0)                                                                     \
    X(u32, filter.max_hits, 0)                                                                     \
    X(view, filter.hardware, WIRE_NAME_MAX)                                                        \
    X(view, filter.compiler, WIRE_NAME_MAX)                                                        \
    X(view, filter.text, WIRE_NAME_MAX)

#define LIST_FIELDS(X) FILTER_FIELDS(X) X(digest, cursor, 0) X(u32, max_rows, WIRE_ROWS_MAX)
#define SHOW_FIELDS(X) X(u8, space, WIRE_SPACE_KEY) X(view, key, WIRE_NAME_MAX)
#define REMOVE_FIELDS(X) X(u32, n, WIRE_KEYS_MAX) X(view, keys, LIMIT_LIST)
#define PUSH_FIELDS REMOVE_FIELDS
#define CLOSURE_FIELDS REMOVE_FIELDS
#define EVICT_FIELDS(X) FILTER_FIELDS(X) X(u64, to_bytes, 0) X(u8, dry_run, 1)
#define PIN_FIELDS(X) X(u8, pinned, 1) X(u32, n, WIRE_KEYS_MAX) X(view, keys, LIMIT_LIST)
#define VERIFY_FIELDS(X) X(u64, sample, 0)
#define HISTORY_FIELDS(X)                                                                          \
    X(u8, of, WIRE_HISTORY_FEED) X(u32, max_misses, 0) X(view, id, WIRE_NAME_MAX)

#define HIT_HEAD_FIELDS(X)                                                                         \
    X(u8, outcome, WIRE_WAS_HIT_AUDIT)                                                             \
    X(u8, kind, 0)                                                                                 \
    X(u32, cost_ms, 0)                                                                             \
    X(u64, len, 0)                                                                                 \
    X(digest, key, 0) X(digest, check, 0)
#define HIT_FIELDS(X) HIT_HEAD_FIELDS(X) X(view, value, WIRE_INLINE_MAX)
#define FAILED_FIELDS HIT_FIELDS

#define LEASE_FIELDS(X) X(u64, token, 0) X(u32, deadline_ms, 0)
#define WAIT_FIELDS(X) X(u32, n_waiters, 0) X(u32, elapsed_ms, 0)
#define NEED_FIELDS(X) X(u64, max_bytes, 0)
#define OK_FIELDS(X) X(u8, existed, 1) X(digest, key, 0)
#define ERROR_FIELDS(X) X(u32, code, 0) X(view, text, WIRE_NAME_MAX)

#define ROW_FIELDS(X)                                                                              \
    X(digest, key, 0)                                                                              \
    X(u32, owner, 0)                                                                               \
    X(u32, maker, 0)                                                                               \
    X(u8, kind, 0)                                                                                 \
    X(u8, pinned, 1)                                                                               \
    X(u8, is_blob, 1)                                                                              \
    X(u64, len, 0)                                                                                 \
    X(u64, created_ms, 0)                                                                          \
    X(u64, accessed_ms, 0)                                                                         \
    X(u64, expires_ms, 0)                                                                          \
    X(u32, cost_ms, 0)                                                                             \
    X(u32, hits, 0)                                                                                \
    X(digest, check, 0)                                                                            \
    X(digest, compiler, 0)                                                                         \
    X(digest, graph, 0)                                                                            \
    X(digest, group, 0)                                                                            \
    X(digest, proof, 0)                                                                            \
    X(digest, content, 0)                                                                          \
    X(view, hardware, WIRE_NAME_MAX)                                                               \
    X(view, compiler_text, WIRE_NAME_MAX)                                                          \
    X(view, name, WIRE_NAME_MAX)                                                                   \
    X(view, label, WIRE_NAME_MAX)                                                                  \
    X(u8, tier, 3)                                                                                 \
    X(view, signer, WIRE_NAME_MAX)

#define END_FIELDS(X) X(u8, more, 1) X(digest, cursor, 0)
#define TEXT_FIELDS(X) X(view, text, LIMIT_TEXT)
#define REPORT_FIELDS(X) X(u64, n_entries, 0) X(u64, n_bytes, 0) X(u64, n_corrupt, 0)
#define PROGRESS_FIELDS(X) X(u64, done, 0) X(u64, total, 0)

/* ---- fields that depend on one another ---- */

/* Returns 1 for a value or list that has a length but no inline bytes: it travels as a
 * descriptor. */
static unsigned n_carried(struct view inline_bytes, uint64_t len)
{
    return inline_bytes.len == 0 && len > 0;
}

static void check_carried(struct fields *in, const char *field, struct view inline_bytes,
                          uint64_t len)
{
    if (inline_bytes.len && inline_bytes.len != len)
        field_wrong(in, field, WARM_EMALFORMED);
}

static void check_key(struct fields *in, enum wire_space space, struct view key)
{
    if (key.len == 0 || (space == WIRE_SPACE_KEY && key.len != sizeof(struct key)))
        field_wrong(in, "key", WARM_EMALFORMED);
}

static void check_put_key(struct fields *in, enum wire_space space, struct view key)
{
    if (key.len == 0 || (space == WIRE_SPACE_KEY && key.len != WIRE_MADE_LEN))
        field_wrong(in, "key", WARM_EMALFORMED);
}

static void check_keys(struct fields *in, struct view keys, uint32_t n)
{
    struct reader list = reader_over(keys.data, keys.len);
    enum wire_space space;
    struct view key;
    uint32_t seen = 0;
    while (wire_keys_next(&list, &space, &key))
        seen++;
    if (list.failed || seen != n)
        field_wrong(in, "keys", WARM_EMALFORMED);
}

/* ---- encoders and decoders ---- */

/* Defines both functions of a message. n_fds_expected and check are expressions over the message,
 * m; check may also use the fields, in. */
#define MESSAGE(TYPE, name, body, n_fds_expected, check)                                           \
    void wire_put_##name(struct writer *w, uint64_t tag, const struct wire_##body *m)              \
    {                                                                                              \
        size_t begun = wire_begin(w, WIRE_##TYPE, n_fds_expected, tag);                            \
        TYPE##_FIELDS(PUT) wire_end(w, begun);                                                     \
    }                                                                                              \
    int wire_get_##name(const struct wire_frame *f, struct wire_##body *out, struct err *e)        \
    {                                                                                              \
        struct fields fields = {reader_over(f->payload.data, f->payload.len), #TYPE, NULL, 0};     \
        struct fields *in = &fields;                                                               \
        struct wire_##body message, *m = &message;                                                 \
        if (!WARM_EXPECT(f->type == WIRE_##TYPE))                                                  \
            return err_set(e, WARM_EINVALID, "%s: a frame of another type", #TYPE);                \
        TYPE##_FIELDS(TAKE) check;                                                                 \
        if (f->n_fds != (n_fds_expected))                                                          \
            field_wrong(in, "descriptors", WARM_EMALFORMED);                                       \
        int code = fields_end(in, e);                                                              \
        if (!code)                                                                                 \
            *out = message;                                                                        \
        return code;                                                                               \
    }

#define NONE (void)0

MESSAGE(HELLO, hello, hello, 0, NONE)
MESSAGE(WELCOME, welcome, welcome, 0, NONE)
MESSAGE(GET, get, get, 0, check_key(in, m->space, m->key))
MESSAGE(MGET, mget, mget, 0, check_keys(in, m->keys, m->n))
MESSAGE(PUT, put, put, n_carried(m->value, m->len),
        (check_put_key(in, m->space, m->key), check_carried(in, "value", m->value, m->len)))
MESSAGE(RELEASE, release, release, 0, NONE)
MESSAGE(RENEW, renew, release, 0, NONE)
MESSAGE(COMPILE, compile, compile, 0, NONE)
MESSAGE(SOURCE, source, source, 1 + n_carried(m->job, m->len),
        check_carried(in, "job", m->job, m->len))
MESSAGE(CHECK, check, check, n_carried(m->list, m->len), check_carried(in, "list", m->list, m->len))
MESSAGE(CHECKED, checked, checked, n_carried(m->list, m->len),
        check_carried(in, "list", m->list, m->len))
MESSAGE(DAMAGED, damaged, damaged, 0, NONE)
MESSAGE(NOTE, note, note, 0, NONE)
MESSAGE(AUDIT, audit, audit, 0, NONE)
MESSAGE(LIST, list, list, 0, NONE)
MESSAGE(SHOW, show, show, 0, check_key(in, m->space, m->key))
MESSAGE(REMOVE, remove, remove, 0, check_keys(in, m->keys, m->n))
MESSAGE(PUSH, push, remove, 0, check_keys(in, m->keys, m->n))
MESSAGE(CLOSURE, closure, remove, 0, check_keys(in, m->keys, m->n))
MESSAGE(EVICT, evict, evict, 0, NONE)
MESSAGE(PIN, pin, pin, 0, check_keys(in, m->keys, m->n))
MESSAGE(VERIFY, verify, verify, 0, NONE)
MESSAGE(HISTORY, history, history, 0, NONE)
MESSAGE(HIT, hit, hit, n_carried(m->value, m->len), check_carried(in, "value", m->value, m->len))
MESSAGE(FAILED, failed, hit, n_carried(m->value, m->len),
        check_carried(in, "value", m->value, m->len))
MESSAGE(LEASE, lease, lease, 0, NONE)
MESSAGE(WAIT, wait, wait, 0, NONE)
MESSAGE(NEED, need, need, 0, NONE)
MESSAGE(OK, ok, ok, 0, NONE)
MESSAGE(ERROR, error, error, 0, NONE)
MESSAGE(ROW, row, row, 0, NONE)
MESSAGE(END, end, end, 0, NONE)
MESSAGE(TEXT, text, text, 0, NONE)
MESSAGE(REPORT, report, report, 0, NONE)
MESSAGE(PROGRESS, progress, progress, 0, NONE)

void wire_put_hit_head(struct writer *w, enum wire_type type, uint64_t tag,
                       const struct wire_hit *m)
{
    if (!WARM_EXPECT(m->value.len <= WIRE_INLINE_MAX))
        w->failed = true;
    size_t begun = wire_begin(w, type, 0, tag);
    HIT_HEAD_FIELDS(PUT)
    writer_u32(w, (uint32_t)m->value.len);
    frame_set_len(w, begun, w->len - begun - WIRE_HEADER + m->value.len);
}

/* ---- lists: each item carries its own length, nothing stands between them ---- */

void wire_keys_add(struct writer *list, enum wire_space space, const void *key, size_t len)
{
    writer_u8(list, (uint8_t)space);
    put_view(list, (struct view){key, len}, WIRE_NAME_MAX);
}

bool wire_keys_next(struct reader *list, enum wire_space *out_space, struct view *out_key)
{
    if (list->failed || list->len == 0)
        return false;
    uint8_t space = reader_u8(list);
    struct view key = reader_blob(list, WIRE_NAME_MAX);
    if (key.len == 0 || space > WIRE_SPACE_KEY ||
        (space == WIRE_SPACE_KEY && key.len != sizeof(struct key)))
        list->failed = true;
    if (list->failed)
        return false;
    *out_space = space;
    *out_key = key;
    return true;
}

void wire_paths_add(struct writer *list, const void *path, size_t len)
{
    put_view(list, (struct view){path, len}, WIRE_PATH_MAX);
}

bool wire_paths_next(struct reader *list, struct view *out_path)
{
    if (list->failed || list->len == 0)
        return false;
    struct view path = reader_blob(list, WIRE_PATH_MAX);
    if (path.len == 0 || memchr(path.data, '\0', path.len))
        list->failed = true;
    if (list->failed)
        return false;
    *out_path = path;
    return true;
}

#define SAME_FILE                                                                                  \
    3u /* in a list of states: the same file as an earlier path, whose number follows */

void wire_states_add(struct writer *list, const struct wire_path_seen *state, uint32_t i)
{
    bool same = state->state == WIRE_PATH_FILE && state->same != i;
    writer_u8(list, same ? SAME_FILE : (uint8_t)state->state);
    if (same)
        writer_u32(list, state->same);
    else if (state->state == WIRE_PATH_FILE)
        writer_bytes(list, &state->sha256, sizeof state->sha256);
}

/* Reads the number of an earlier path and copies its state. False unless that path is a file, and
 * the first of the list that leads to it. */
static bool take_same(struct reader *list, const struct wire_path_seen *states, uint32_t i,
                      struct wire_path_seen *out)
{
    uint32_t same = reader_u32(list);
    if (list->failed || same >= i || states[same].state != WIRE_PATH_FILE ||
        states[same].same != same)
        return false;
    *out = states[same];
    return true;
}

bool wire_states_next(struct reader *list, struct wire_path_seen *states, uint32_t i)
{
    if (list->failed || list->len == 0)
        return false;
    uint8_t state = reader_u8(list);
    struct wire_path_seen seen = {.state = state, .same = i};
    if (state == SAME_FILE)
        list->failed |= !take_same(list, states, i, &seen);
    else if (state == WIRE_PATH_FILE)
        reader_copy(list, &seen.sha256, sizeof seen.sha256);
    else
        list->failed |= state > WIRE_PATH_REFUSED;
    if (list->failed)
        return false;
    states[i] = seen;
    return true;
}

/* ---- the channel of SOURCE: packets without a frame ---- */

#define OPEN_FIELDS(X) X(u32, id, 0) X(view, path, WIRE_PATH_MAX)
#define OPENED_FIELDS(X) X(u32, id, 0) X(u8, state, WIRE_PATH_REFUSED)

#define PACKET(TYPE, name, check)                                                                  \
    void wire_put_##name(struct writer *w, const struct wire_##name *m) { TYPE##_FIELDS(PUT) }     \
    int wire_get_##name(const void *packet, size_t len, struct wire_##name *out, struct err *e)    \
    {                                                                                              \
        struct fields fields = {reader_over(packet, len), #TYPE, NULL, 0}, *in = &fields;          \
        struct wire_##name message, *m = &message;                                                 \
        TYPE##_FIELDS(TAKE) check;                                                                 \
        int code = fields_end(in, e);                                                              \
        if (!code)                                                                                 \
            *out = message;                                                                        \
        return code;                                                                               \
    }

static void check_path(struct fields *in, struct view path)
{
    if (path.len == 0 || memchr(path.data, '\0', path.len))
        field_wrong(in, "path", WARM_EMALFORMED);
}

PACKET(OPEN, open, check_path(in, m->path))
PACKET(OPENED, opened, NONE)
