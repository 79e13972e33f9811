/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay.c - `warm replay`: tells which entries of a recording are here, and brings in the others from
 * archives, within limits. main.c calls it.
 *
 *     the recording's keys ─▶ which are missing? ─▶ which are in the archives? ─▶ stored in the job's order
 *                                                     ─▶ recorded jobs of NVRTC: compiled
 *
 * Thread: main.
 */
#include <assert.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/import/recorded_jobs.h"
#include "client/cli/import/recording.h"
#include "client/cli/import/store_entry.h"
#include "client/cli/json_writer.h"
#include "client/cli/progress.h"
#include "client/cli/remote.h"
#include "client/cli/units.h"
#include "client/lib/warm.h"

#define ARCHIVES_MAX 16
#define MAX_ENTRIES 10000u
#define MAX_BYTES (2ull << 30)
#define MAX_MS 300000u
#define TIER_MS 30000u /* for one entry */
#define STORED_MS 1000u
#define LOOK_AGAIN_MS 20

enum { OPTION_FROM = 0x200, OPTION_COMPILE, OPTION_ENTRIES, OPTION_BYTES, OPTION_TIME };

/* A recorded entry. */
struct wanted {
    struct key key;
    struct recorded recorded;
    size_t order;
    bool here;
    struct archive_entry entry; /* in an archive, if its value's data is not NULL */
};

struct replay {
    struct remote remote;
    const char *archive[ARCHIVES_MAX], *jobs; /* --compile; NULL: none */
    struct cli_input recording, input[ARCHIVES_MAX];
    int n_archives, n_open;
    uint64_t max_entries, max_bytes, max_ms;
    struct wanted *wanted;
    size_t n;
    uint64_t n_here, n_brought, n_compiled, bytes, n_bad;
    const char *limit; /* that ended it; NULL: none */
};

static int by_key(const void *a, const void *b)
{
    const struct wanted *x = a, *y = b;
    return memcmp(&x->key, &y->key, sizeof x->key);
}

static int by_order(const void *a, const void *b)
{
    const struct wanted *x = a, *y = b;
    return (x->order > y->order) - (x->order < y->order);
}

/* Reads the recording; a key that stands in it twice counts once. */
static int read_recording(struct replay *p, const char *path)
{
    struct cli_input in;
    struct recorded *list;
    size_t n, kept = 0;
    struct err e = {0};
    int error = cli_input_open(&in, path);
    if (error) {
        cli_say("%s: %s", path, strerror(error));
        return CLI_USAGE;
    }
    int code = recording_read(in.data, in.len, &list, &n, &e);
    if (!code && !(p->wanted = calloc(n ? n : 1, sizeof *p->wanted)))
        free(list), code = err_set(&e, WARM_ENOMEM, "no memory");
    p->recording = in; /* its bytes are borrowed until the end */
    if (code) {
        cli_say("%s: %s", path, e.text);
        return CLI_USAGE;
    }
    for (size_t i = 0; i < n; i++)
        p->wanted[i] = (struct wanted){.key = list[i].key, .recorded = list[i], .order = i};
    free(list);
    if (n)
        qsort(p->wanted, n, sizeof *p->wanted, by_key);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || !key_equal(&p->wanted[kept - 1].key, &p->wanted[i].key))
            p->wanted[kept++] = p->wanted[i];
    p->n = kept;
    return CLI_OK;
}

/* Asks which of the entries that were missing are here, and adds their number to *n_here. */
static int look(struct replay *p, uint64_t *n_here)
{
    for (size_t i = 0; i < p->n; i++) {
        if (p->wanted[i].here)
            continue;
        struct answer answer;
        struct remote *r = &p->remote;
        uint64_t tag = request_begin(r->w);
        struct view key = {p->wanted[i].key.bytes, sizeof p->wanted[i].key.bytes};
        wire_put_show(&r->w->request, tag, &(struct wire_show){WIRE_SPACE_KEY, key});
        int status = remote_ask(r, tag, WIRE_ROW, &answer);
        if (status && status != CLI_FINDING)
            return status;
        p->wanted[i].here = !status;
        *n_here += !status;
    }
    return CLI_OK;
}

/* ---- archives ---- */

static void bad(struct replay *p, const char *path, const char *why)
{
    p->n_bad++;
    cli_say("%s: %s", path, why);
}

/* Notes the wanted entries of an archive, which stays open. The first archive that has one wins. */
static void search_archive(struct replay *p, const char *path)
{
    struct cli_input *in = &p->input[p->n_open];
    struct archive_entry entry;
    struct reader r;
    struct err e = {0};
    uint64_t n = 0;
    assert(p->n_open < p->n_archives && p->n_archives <= (int)ARCHIVES_MAX);
    int error = cli_input_open(in, path);
    if (error) {
        bad(p, path, strerror(error));
        return;
    }
    p->n_open++;
    int code = archive_open(in->data, in->len, &r, &e);
    for (; !code || code == WARM_ECORRUPT; n++) {
        code = archive_next(&r, n, &entry, &e);
        if (code == WARM_ECORRUPT)
            bad(p, path, "an entry is damaged");
        if (code)
            continue;
        struct wanted like = {.key = recording_key_of(&entry)};
        struct wanted *w = bsearch(&like, p->wanted, p->n, sizeof like, by_key);
        if (w && !w->here && !w->entry.value.data)
            w->entry = entry;
    }
    if (code != WARM_ENOT_FOUND)
        bad(p, path, e.text);
}

/* Returns the limit that storing this entry would pass; NULL: none. */
static const char *limit_at(const struct replay *p, const struct wanted *w, uint64_t began_ms)
{
    assert(!w->here && p->n_brought <= p->max_entries && p->bytes <= p->max_bytes);
    if (p->n_brought == p->max_entries)
        return "--max-entries";
    if (p->bytes + (w->entry.value.data ? w->entry.value.len : w->recorded.bytes) > p->max_bytes)
        return "--max-bytes";
    return conn_now_ms() - began_ms >= p->max_ms ? "--max-time" : NULL;
}

/* ---- the tier ---- */

/* Reads hex digits. False if there are others, or too many. */
static bool read_hex(struct view hex, uint8_t *out, size_t cap, size_t *out_len)
{
    const char *digits = hex.data;
    if (hex.len % 2 || hex.len / 2 > cap)
        return false;
    for (size_t i = 0; i < hex.len; i += 2)
        if (sscanf(digits + i, "%2hhx", &out[i / 2]) != 1)
            return false;
    *out_len = hex.len / 2;
    return true;
}

/* Asks for an entry: the daemon takes it from its tier. False if it is not there, or nobody can ask. */
static bool ask_tier(struct replay *p, const struct wanted *w)
{
    struct wire_get get = {.space = WIRE_SPACE_NAME};
    uint8_t bytes[WIRE_NAME_MAX];
    struct answer answer;
    size_t len;
    if (!w->recorded.how || !read_hex(w->recorded.hex, bytes, sizeof bytes, &len))
        return false;
    get.key = (struct view){bytes, len};
    if (w->recorded.how == 'p') {
        if (len != sizeof get.proof.bytes)
            return false;
        get.space = WIRE_SPACE_KEY;
        get.has_proof = true;
        memcpy(get.proof.bytes, bytes, len);
        get.key = (struct view){w->key.bytes, sizeof w->key.bytes};
    }
    uint64_t tag = request_begin(p->remote.w), ends = conn_now_ms() + TIER_MS;
    wire_put_get(&p->remote.w->request, tag, &get);
    int code = request_ask(p->remote.w, tag, NULL, 0, ends, &answer);
    while (!code && answer.frame.type == WIRE_WAIT)
        code = request_next(p->remote.w, tag, -1, ends, &answer);
    if (code)
        return false;
    conn_fds_close(answer.fds);
    return answer.frame.type == WIRE_HIT;
}

/* Stores the entries that were found, in the order of the job; of others it asks the tier. */
static int bring_in(struct replay *p, uint64_t began_ms)
{
    qsort(p->wanted, p->n, sizeof *p->wanted, by_order);
    for (size_t i = 0; i < p->n; i++) {
        struct wanted *w = &p->wanted[i];
        if (w->here || (!w->entry.value.data && !w->recorded.how))
            continue;
        if ((p->limit = limit_at(p, w, began_ms)))
            break;
        progress_show("entries", i, p->n);
        if (!w->entry.value.data) {
            if ((w->here = ask_tier(p, w))) {
                p->n_brought++;
                p->bytes += w->recorded.bytes;
            }
            continue;
        }
        int code = store_entry(p->remote.w, &w->entry, WARM_KEEP_EXISTING);
        if (code && store_entry_failed_alone(code)) {
            char key[WARM_KEY_TEXT];
            key_to_text(&w->key, key);
            bad(p, key, warm_message(p->remote.w));
            continue;
        }
        if (code) {
            progress_end();
            return remote_fail(&p->remote, code);
        }
        w->here = true;
        p->n_brought++;
        p->bytes += w->entry.value.len;
    }
    progress_end();
    return CLI_OK;
}

static uint64_t n_missing(const struct replay *p)
{
    return p->n - p->n_here - p->n_brought - p->n_compiled;
}

/* Compiles the recorded jobs, and asks which entries that made. The daemon writes a result after it has sent
 * it, so this looks until STORED_MS bring no more. */
static int compile_jobs(struct replay *p, uint64_t began_ms)
{
    bool late = false;
    int status = recorded_jobs_compile(&p->remote, p->jobs, began_ms + p->max_ms, &p->n_bad, &late);
    uint64_t news_ms = conn_now_ms(), before;
    if (late)
        p->limit = "--max-time";
    while (!status && n_missing(p) && conn_now_ms() - news_ms <= STORED_MS) {
        before = p->n_compiled;
        status = look(p, &p->n_compiled);
        if (p->n_compiled > before)
            news_ms = conn_now_ms();
        else
            poll(NULL, 0, LOOK_AGAIN_MS);
    }
    return status;
}

static void print_result(const struct replay *p)
{
    assert(p->n_here + p->n_brought + p->n_compiled <= p->n);
    uint64_t missing = n_missing(p);
    char size[UNITS_TEXT], compiled[48] = "";
    if (p->remote.as_json) {
        struct json j;
        json_init(&j, stdout);
        json_open(&j, '{');
        json_key(&j, "recorded"), json_u64(&j, p->n);
        json_key(&j, "here"), json_u64(&j, p->n_here);
        json_key(&j, "brought"), json_u64(&j, p->n_brought);
        json_key(&j, "bytes"), json_u64(&j, p->bytes);
        json_key(&j, "compiled"), json_u64(&j, p->n_compiled);
        json_key(&j, "missing"), json_u64(&j, missing);
        json_key(&j, "limit");
        if (p->limit)
            json_text(&j, p->limit);
        else
            json_null(&j);
        json_close(&j, '}');
        return;
    }
    units_size_text(p->bytes, size);
    if (p->jobs)
        snprintf(compiled, sizeof compiled, " %" PRIu64 " compiled,", p->n_compiled);
    printf("%zu recorded: %" PRIu64 " were here, %" PRIu64 " brought in (%s),%s %" PRIu64
           " missing%s%s\n",
           p->n, p->n_here, p->n_brought, size, compiled, missing, p->limit ? "; ended by " : "",
           p->limit ? p->limit : "");
    if (missing && !p->limit)
        puts("the job itself makes what is missing");
}

static int replay(struct replay *p, const char *path)
{
    uint64_t began_ms = conn_now_ms();
    int status = read_recording(p, path);
    if (!status)
        status = remote_open(&p->remote);
    if (!status)
        status = look(p, &p->n_here);
    for (int i = 0; !status && i < p->n_archives; i++)
        search_archive(p, p->archive[i]);
    if (!status)
        status = bring_in(p, began_ms);
    if (!status && p->jobs && n_missing(p) && !p->limit)
        status = compile_jobs(p, began_ms);
    if (!status) {
        print_result(p);
        status = p->n_bad || n_missing(p) ? CLI_FINDING : CLI_OK;
    }
    for (int i = 0; i < p->n_open; i++)
        cli_input_close(&p->input[i]);
    cli_input_close(&p->recording);
    free(p->wanted);
    remote_close(&p->remote);
    return status;
}

static int replay_run(const struct command *self, int argc, char **argv)
{
    static const struct option longs[] = {{"from", required_argument, NULL, OPTION_FROM},
                                          {"compile", required_argument, NULL, OPTION_COMPILE},
                                          {"max-entries", required_argument, NULL, OPTION_ENTRIES},
                                          {"max-bytes", required_argument, NULL, OPTION_BYTES},
                                          {"max-time", required_argument, NULL, OPTION_TIME},
                                          REMOTE_OPTIONS,
                                          {0}};
    struct replay p = {.max_entries = MAX_ENTRIES, .max_bytes = MAX_BYTES, .max_ms = MAX_MS};
    int status;
    for (int c; (c = cli_option(self, argc, argv, ":h", longs)) != -1;) {
        if (cli_option_ends(c, &status))
            return status;
        if (c == OPTION_FROM && p.n_archives == ARCHIVES_MAX)
            return cli_usage(self, "at most %d archives", ARCHIVES_MAX);
        else if (c == OPTION_FROM)
            p.archive[p.n_archives++] = optarg;
        else if (c == OPTION_COMPILE)
            p.jobs = optarg;
        else if (c == OPTION_ENTRIES && !units_parse_number(optarg, UINT64_MAX, &p.max_entries))
            return cli_usage(self, "--max-entries %s is not a number", optarg);
        else if (c == OPTION_BYTES && !units_parse_size(optarg, &p.max_bytes))
            return cli_usage(self, "--max-bytes %s is not a size like 64K or 10G", optarg);
        else if (c == OPTION_TIME && !units_parse_span(optarg, &p.max_ms))
            return cli_usage(self, "--max-time %s is not a span like 90s or 5m", optarg);
        else
            remote_option(&p.remote, c);
    }
    conn_administer(); /* asking is no use of the entries */
    if (argc - optind != 1)
        return cli_usage(self, "name one FILE of `warm record`");
    return replay(&p, argv[optind]);
}

const struct command cmd_replay = {
    .name = "replay",
    .run = replay_run,
    .summary = "Bring in the entries of a recording",
    .synopsis = "FILE [--from ARCHIVE]... [--compile FOLDER] [limits] [--json]",
    .help =
        "Says how many entries of a recording of `warm record` are here, and stores the others in\n"
        "the order in which the job used them. They come from archives of `warm export`, else "
        "from\n"
        "the daemon's tier.\n\n"
        "      --from ARCHIVE    an archive with some of them; may be given more than once\n"
        "      --compile FOLDER  if some are missing then, compile the jobs of `warm record "
        "--jobs`\n"
        "      --max-entries N   store at most N; default: 10000\n"
        "      --max-bytes SIZE  store at most that many bytes; default: 2G\n"
        "      --max-time SPAN   begin no further entry after that; default: 5m\n" REMOTE_HELP
        "\n--json has recorded, here, brought, bytes, compiled, missing and limit (the option "
        "that\n"
        "ended it, or null).\n"
        "Exit status: 1 if some are missing, or damaged in an archive.\n\n"
        "Example:\n"
        "  $ warm replay train.record --from /shared/seed.warm\n"
        "  41 recorded: 3 were here, 38 brought in (12 MiB), 0 missing\n",
};
