/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier_moves.c - asks the daemon to move entries to and from its tier. commands/tier.c calls it.
 *
 *     push   LIST, or what a session used ─▶ limits ─▶ PUSH, 1000 keys at a time
 *     pull   each entry of the list ─▶ SHOW: is it here? ─▶ GET, which has the daemon ask its tier
 *
 * Thread: main.
 */
#include "client/cli/commands/tier_moves.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/cli.h"
#include "client/cli/find.h"
#include "client/cli/json_reader.h"
#include "client/cli/json_writer.h"
#include "client/cli/progress.h"
#include "client/cli/report/report.h"
#include "client/cli/units.h"

#define PUSH_KEYS 1000u
#define PULL_MS 120000u /* for one entry: another node may be making it */
#define FIELD_MAX 600

/* ---- status ---- */

static void print_direction(struct view tier, const char *name)
{
    char path[40], state[16], said[200];
    snprintf(path, sizeof path, "%s.state", name);
    json_reader_copy(tier, path, state, sizeof state);
    snprintf(path, sizeof path, "%s.said", name);
    json_reader_copy(tier, path, said, sizeof said);
    printf("%-8s %s%s%s\n", name, state, *said ? ": " : "", said);
}

static void print_status(struct view stats, struct view tier)
{
    char url[300], hit[UNITS_TEXT], sent[UNITS_TEXT], age[UNITS_TEXT];
    json_reader_copy(tier, "url", url, sizeof url);
    bool ready = json_reader_is(tier, "ready", "true"),
         signs = json_reader_is(tier, "signs", "true");
    units_size_text(json_reader_count(stats, "tier_hit_bytes"), hit);
    units_size_text(json_reader_count(stats, "tier_sent_bytes"), sent);
    units_age_text(json_reader_count(tier, "queue_oldest_ms"), age);
    printf("tier     %s%s%s\n", url, ready ? "" : ", warm-tier does not run now",
           signs ? "" : ", only read");
    print_direction(tier, "reads");
    print_direction(tier, "writes");
    printf("came     %llu entries, %s; %llu were not there, %llu did not count, %llu errors, %llu "
           "without an answer in time\n",
           json_reader_count(stats, "tier_hits"), hit, json_reader_count(stats, "tier_misses"),
           json_reader_count(stats, "tier_refused"), json_reader_count(stats, "tier_errors"),
           json_reader_count(stats, "tier_timeouts"));
    printf("sent     %llu entries, %s; %llu wait", json_reader_count(stats, "tier_sent"), sent,
           json_reader_count(tier, "queue"));
    if (json_reader_count(tier, "queue"))
        printf(", the oldest for %s", age);
    printf("; %llu dropped\n", json_reader_count(stats, "tier_dropped"));
    printf(
        "nodes    %llu keys made here for all, %llu made by another node meanwhile, %llu beside a "
        "late one\n",
        json_reader_count(stats, "tier_leases"), json_reader_count(stats, "tier_waits"),
        json_reader_count(stats, "tier_hedges"));
}

int tier_moves_status(struct remote *r)
{
    assert(r);
    struct wire_text text;
    struct view tier;
    int status = remote_open(r);
    if (!status)
        status = remote_text(r, WIRE_STATS, &text);
    if (!status && (!json_reader_find(text.text, "tier", &tier) || view_is(tier, "null"))) {
        cli_say("the daemon has no tier: set tier in warmd.conf");
        status = CLI_FINDING;
    } else if (!status && r->as_json) {
        json_print(stdout, tier);
    } else if (!status) {
        print_status(text.text, tier);
    }
    remote_close(r);
    return status;
}

/* ---- push ---- */

struct push {
    const struct tier_moves *moves;
    struct listing rows;
};

/* True for an entry that came from the tier, or waits already. */
static bool is_there(const struct wire_row *row) { return row->tier == 1 || row->tier == 2; }

static int on_row(void *arg, const struct wire_row *row, struct view frame)
{
    struct push *p = arg;
    uint64_t since = p->moves->since_ms;
    if (is_there(row) || (since && row->accessed_ms < since && row->created_ms < since))
        return 0;
    return listing_keep(&p->rows, frame, row->cost_ms);
}

/* Takes what belongs to an entry that is pushed, whatever its age. */
static int on_closure(void *arg, const struct wire_row *row, struct view frame)
{
    struct push *p = arg;
    return is_there(row) ? 0 : listing_keep(&p->rows, frame, row->cost_ms);
}

/* Lists what is to be pushed. 0, or an error; or an exit status in *out_status. */
static int list_rows(struct remote *r, struct push *p, int *out_status)
{
    struct report_missing missing = {0};
    struct wire_list message = {.filter = p->moves->filter};
    int code = 0;
    if (!p->moves->session) {
        code = listing_ask(r, &message, on_row, p);
        if (!code)
            code = listing_add_closure(r, &p->rows, on_closure, p);
        if (!code)
            code = listing_unique(&p->rows);
        listing_sort(&p->rows);
        return code;
    }
    *out_status = report_uses(r, p->moves->session, p->moves->filter, &p->rows, &missing);
    if (!*out_status && missing.gone + missing.lost)
        cli_say("%" PRIu64 " entries of this session are gone, or not yours",
                missing.gone + missing.lost);
    return 0;
}

static int send_keys(struct remote *r, struct writer *keys, uint32_t n, struct wire_report *sum)
{
    assert(n <= PUSH_KEYS);
    struct wire_report report = {0};
    if (!n)
        return CLI_OK;
    uint64_t tag = request_begin(r->w);
    wire_put_push(&r->w->request, tag, &(struct wire_remove){n, {keys->data, keys->len}});
    int status = remote_report(r, tag, "queueing", &report);
    sum->n_entries += report.n_entries;
    sum->n_bytes += report.n_bytes;
    keys->len = 0;
    return status;
}

/* Queues the listed rows within the limits. */
static int push_rows(struct remote *r, struct push *p, struct wire_report *sum)
{
    struct writer keys;
    struct wire_row row;
    uint64_t bytes = 0, entries = 0;
    uint32_t n = 0;
    int status = CLI_OK;
    writer_init(&keys, 0);
    for (size_t i = 0; !status && i < p->rows.n && entries < p->moves->max_entries; i++) {
        if (!listing_row(&p->rows, i, &row) || is_there(&row) ||
            bytes + row.len > p->moves->max_bytes)
            continue;
        entries++;
        bytes += row.len;
        wire_keys_add(&keys, WIRE_SPACE_KEY, row.key.bytes, sizeof row.key.bytes);
        if (++n == PUSH_KEYS && !p->moves->dry_run) {
            status = send_keys(r, &keys, n, sum);
            n = 0;
        }
    }
    if (p->moves->dry_run)
        *sum = (struct wire_report){entries, bytes, 0};
    else if (!status)
        status = send_keys(r, &keys, n, sum);
    writer_close(&keys);
    return status;
}

int tier_moves_push(struct remote *r, const struct tier_moves *m)
{
    assert(r && m);
    struct push p = {.moves = m};
    struct wire_report sum = {0};
    int code = 0, status = remote_open(r);
    if (!status)
        code = list_rows(r, &p, &status);
    if (code)
        status = remote_fail(r, code);
    if (!status)
        status = push_rows(r, &p, &sum);
    if (!status)
        remote_print_report(r, "queued", &sum, m->dry_run);
    listing_close(&p.rows);
    remote_close(r);
    return status;
}

/* ---- pull ---- */

/* An entry of the list. */
struct wanted {
    enum wire_space space;
    struct key key;
    struct proof proof;
    bool has_proof;
    char name[WIRE_NAME_MAX + 1];
    struct view id; /* name or key */
    uint64_t bytes;
    bool stays; /* the other machine did not send it */
};

static bool read_hex(struct view object, const char *member, uint8_t *out, size_t n)
{
    char text[FIELD_MAX];
    json_reader_copy(object, member, text, sizeof text);
    if (strlen(text) != 2 * n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (sscanf(text + 2 * i, "%2hhx", &out[i]) != 1)
            return false;
    return true;
}

/* Reads one object of the list. False if nobody could ask for it. */
static bool read_wanted(struct view object, struct wanted *out)
{
    memset(out, 0, sizeof *out);
    json_reader_copy(object, "name", out->name, sizeof out->name);
    out->bytes = json_reader_count(object, "bytes");
    out->has_proof = read_hex(object, "proof", out->proof.bytes, sizeof out->proof.bytes);
    bool has_key = read_hex(object, "key", out->key.bytes, sizeof out->key.bytes);
    bool is_made = json_reader_is(object, "made_here", "true");
    out->stays = json_reader_is(object, "tier", "\"stays\"");
    out->space = is_made ? WIRE_SPACE_KEY : WIRE_SPACE_NAME;
    out->id =
        is_made ? (struct view){out->key.bytes, sizeof out->key.bytes} : view_of_text(out->name);
    return is_made ? has_key && out->has_proof : *out->name != '\0';
}

/* Asks for an entry; the daemon brings it from its tier. */
static int bring(struct remote *r, const struct wanted *w, bool *out)
{
    struct answer answer;
    struct wire_get get = {
        .space = w->space, .key = w->id, .has_proof = w->has_proof, .proof = w->proof};
    if (w->space == WIRE_SPACE_NAME)
        get.has_proof = false;
    uint64_t tag = request_begin(r->w), ends = conn_now_ms() + PULL_MS;
    wire_put_get(&r->w->request, tag, &get);
    int code = request_ask(r->w, tag, NULL, 0, ends, &answer);
    while (!code && answer.frame.type == WIRE_WAIT)
        code = request_next(r->w, tag, -1, ends, &answer);
    if (code)
        return remote_fail(r, code);
    *out = answer.frame.type == WIRE_HIT;
    for (size_t i = 0; i < WIRE_FDS_MAX; i++)
        if (answer.fds[i] >= 0)
            close(answer.fds[i]);
    return CLI_OK;
}

struct pulled {
    uint64_t here, brought, bytes, stay, missing;
};

static void print_pulled(const struct remote *r, const struct pulled *p)
{
    char size[UNITS_TEXT];
    struct json j = {.out = stdout};
    units_size_text(p->bytes, size);
    if (!r->as_json) {
        printf("%" PRIu64 " were here, %" PRIu64 " came from the tier (%s), %" PRIu64
               " are not there\n",
               p->here, p->brought, size, p->missing);
        if (p->stay)
            printf("%" PRIu64 " stay on the machine of the list: notes, other users' entries, and "
                   "what its settings keep\n",
                   p->stay);
        return;
    }
    json_open(&j, '{');
    json_key(&j, "here"), json_u64(&j, p->here);
    json_key(&j, "brought"), json_u64(&j, p->brought);
    json_key(&j, "bytes"), json_u64(&j, p->bytes);
    json_key(&j, "stay"), json_u64(&j, p->stay);
    json_key(&j, "missing"), json_u64(&j, p->missing);
    json_close(&j, '}');
}

int tier_moves_pull(struct remote *r, const struct tier_moves *m, const char *list)
{
    struct cli_input in;
    struct wanted w;
    struct view rest, object;
    struct pulled p = {0};
    int error = cli_input_open(&in, list), status = error ? CLI_USAGE : remote_open(r);
    if (error)
        cli_say("%s: %s", list, cli_input_text(error));
    else if (status)
        cli_input_close(&in);
    if (status)
        return status;
    rest = (struct view){in.data, in.len};
    while (!status && json_reader_next(&rest, &object)) {
        bool found = false;
        if (!read_wanted(object, &w))
            continue;
        struct answer answer;
        status = find_shown(r, w.space, w.id, &answer);
        found = status == CLI_OK;
        status = status == CLI_FINDING ? CLI_OK : status;
        p.here += found;
        if (status || found || p.brought == m->max_entries || p.bytes + w.bytes > m->max_bytes)
            continue;
        found = m->dry_run && !w.stays;
        if (!m->dry_run)
            status = bring(r, &w, &found);
        p.brought += found;
        p.bytes += found ? w.bytes : 0;
        p.stay += !found && w.stays;
        p.missing += !found && !w.stays;
        progress_show("entries", p.here + p.brought + p.missing, 0);
    }
    progress_end();
    cli_input_close(&in);
    remote_close(r);
    if (status)
        return status;
    print_pulled(r, &p);
    return p.missing ? CLI_FINDING : CLI_OK;
}
