/* SPDX-License-Identifier: Apache-2.0 */
/*
 * export.c - `warm export`: writes entries into an archive, or into another program's cache folder.
 * main.c calls it.
 *
 * The rows are listed first, with all that belongs to them (CLOSURE in PROTOCOL.md); then each value is fetched,
 * verified, and written. An archive is complete or absent: it is written beside its place and renamed. The
 * exported entries are on the disk when the command reports success, because the user may clear the cache next.
 *
 * Thread: main.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/filter.h"
#include "client/cli/import/archive_stream.h"
#include "client/cli/import/foreign_cache.h"
#include "client/cli/json_reader.h"
#include "client/cli/json_writer.h"
#include "client/cli/listing.h"
#include "client/cli/output.h"
#include "client/cli/progress.h"
#include "client/cli/report/report.h"
#include "client/cli/rows.h"
#include "client/cli/units.h"
#include "keygen/quantity.h"

struct export_run {
    struct remote remote;
    struct wire_list message;
    const char *archive;     /* FILE; NULL: a folder */
    const char *to, *format; /* --to; --as, NULL: all formats, each in a folder of its name */
    FILE *file;              /* of the archive */
    struct archive_out *out;
    struct listing rows;
    const char *project; /* --project; NULL: none */
    const char *session; /* --session; "": --last; NULL: entries of any */
    uint64_t since_ms;   /* Unix time; 0: of any age */
    uint64_t n_entries, n_bytes, n_bad;
    uint64_t n_left;               /* evicted since they were listed, damaged, or another user's */
    struct report_missing missing; /* of the sessions */
    struct err err;
};

static int on_row(void *arg, const struct wire_row *row, struct view frame)
{
    struct export_run *run = arg;
    if (run->since_ms && row->accessed_ms < run->since_ms && row->created_ms < run->since_ms)
        return 0;
    if (row->kind == WIRE_KIND_FORM && run->message.filter.kind < 0)
        return 0; /* of use where it was made */
    return listing_keep(&run->rows, frame, 0);
}

static int on_closure(void *arg, const struct wire_row *row, struct view frame)
{
    struct export_run *run = arg;
    (void)row;
    return listing_keep(&run->rows, frame, 0);
}

/* ---- one entry ---- */

static int write_entry(struct export_run *run, const struct archive_entry *entry)
{
    if (!run->archive)
        return foreign_cache_write(run->format, run->to, entry, &run->err);
    struct writer head, padding;
    writer_init(&head, 0);
    writer_init(&padding, 0);
    archive_put_head(&head, entry, run->n_entries + 1);
    archive_put_padding(&padding, entry->value.len);
    int code = head.failed || padding.failed ? WARM_ENOMEM : 0;
    code = code ? code : archive_out_write(run->out, head.data, head.len, &run->err);
    code =
        code ? code : archive_out_write(run->out, entry->value.data, entry->value.len, &run->err);
    code = code ? code : archive_out_write(run->out, padding.data, padding.len, &run->err);
    writer_close(&head);
    writer_close(&padding);
    return code ? code : 1;
}

/* Fetches an entry. The daemon itself made the entries without a name: an archive keeps their key,
 * and no folder of another program has a place for them. */
static int get_row(struct export_run *run, const struct wire_row *row, struct archive_entry *entry,
                   struct warm_value *out)
{
    char key[WARM_KEY_TEXT];
    if (row->name.len)
        return warm_get(run->remote.w, row->name.data, row->name.len, 0, out);
    if (!run->archive || row->owner != ROWS_MADE_HERE)
        return WARM_ENOT_FOUND;
    entry->is_made = true;
    entry->made = (struct archive_made){row->compiler, row->graph, row->proof};
    key_to_text(&row->key, key);
    return warm_get(run->remote.w, key, strlen(key), WARM_BY_KEY, out);
}

static int export_row(struct export_run *run, const struct wire_row *row)
{
    struct warm_value value;
    struct archive_entry entry = {.kind = row->kind,
                                  .cost_ms = row->cost_ms,
                                  .expires_ms = row->expires_ms,
                                  .group = row->group,
                                  .name = row->name,
                                  .hardware = row->hardware,
                                  .compiler = row->compiler_text,
                                  .label = row->label};
    int code = get_row(run, row, &entry, &value);
    if (code == WARM_ENOT_FOUND || code == WARM_ECORRUPT)
        return run->n_left++, 0;
    if (code)
        return code;
    entry.value = (struct view){value.data, value.len};
    int written = write_entry(run, &entry);
    if (written == 1) {
        run->n_entries++;
        run->n_bytes += value.len;
    } else if (written < 0 && !run->archive) {
        cli_say("%.*s: %s", (int)row->name.len, (const char *)row->name.data, run->err.text);
        run->n_bad++;
    }
    warm_value_free(&value);
    return !run->archive || written >= 0 ? 0 : written;
}

static int export_rows(struct export_run *run)
{
    struct wire_row row;
    int code = 0;
    for (size_t i = 0; !code && i < run->rows.n; i++)
        if (listing_row(&run->rows, i, &row))
            code = export_row(run, &row), progress_show("exporting", i + 1, run->rows.n);
    progress_end();
    return code;
}

/* ---- the whole ---- */

static int write_edge(struct export_run *run, bool begin)
{
    struct writer w;
    writer_init(&w, 0);
    if (begin)
        archive_begin(&w);
    else
        archive_end(&w, run->n_entries);
    int code = w.failed ? WARM_ENOMEM : archive_out_write(run->out, w.data, w.len, &run->err);
    writer_close(&w);
    return code;
}

/* Writes the archive to `run->file`. */
static int write_archive(struct export_run *run)
{
    int code = archive_out_new(&run->out, run->file, &run->err);
    code = code ? code : write_edge(run, true);
    code = code ? code : export_rows(run);
    code = code ? code : write_edge(run, false);
    code = code ? code : archive_out_finish(run->out, &run->err);
    archive_out_close(run->out);
    return code;
}

/* Makes the written files durable: the names in a folder, or all of its file system. */
static int sync_folder(struct export_run *run, const char *folder, bool whole)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int failed = fd < 0 || (whole ? syncfs(fd) : fsync(fd));
    int error = errno;
    if (fd >= 0)
        close(fd);
    return failed ? err_sys(&run->err, WARM_EIO, error, "%s", folder) : 0;
}

static int sync_folder_of(struct export_run *run, const char *path)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (!slash)
        strcpy(folder, ".");
    else
        slash[slash == folder] = '\0';
    return sync_folder(run, folder, false);
}

/* The file that is being written; a signal removes it. */
static char unfinished[PATH_MAX];

static void on_end(int number)
{
    unlink(unfinished);
    signal(number, SIG_DFL);
    raise(number);
}

/* Sets what the signals do that end a command. */
static void on_signals(void (*handler)(int))
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGXFSZ};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        signal(numbers[i], handler);
}

/* Writes the archive to stdout, or to a device, a pipe or what a link leads to. */
static int export_stream(struct export_run *run)
{
    bool to_stdout = strcmp(run->archive, "-") == 0;
    run->file = to_stdout ? stdout : fopen(run->archive, "we");
    int code = run->file ? write_archive(run) : WARM_EIO;
    if (!run->file || (!code && fflush(run->file)))
        code = err_sys(&run->err, WARM_EIO, errno, "%s", run->archive);
    if (run->file && !to_stdout)
        fclose(run->file);
    return code;
}

/* Writes the archive through `run->file`; after an error no file is left. */
static int export_archive(struct export_run *run)
{
    char beside[PATH_MAX];
    if (strcmp(run->archive, "-") == 0 || output_goes_in_place(run->archive))
        return export_stream(run);
    if (snprintf(beside, sizeof beside, "%s.%d", run->archive, (int)getpid()) >= PATH_MAX)
        return err_set(&run->err, WARM_EINVALID, "%s: a path that is too long", run->archive);
    run->file = fopen(beside, "wx");
    if (!run->file)
        return err_sys(&run->err, WARM_EIO, errno, "%s", run->archive);
    strcpy(unfinished, beside);
    on_signals(on_end);
    int code = write_archive(run);
    if (!code && fflush(run->file))
        code = err_sys(&run->err, WARM_EIO, errno, "%s", run->archive);
    if (!code && fsync(fileno(run->file)))
        code = err_sys(&run->err, WARM_EIO, errno, "%s", run->archive);
    if (fclose(run->file) && !code)
        code = err_sys(&run->err, WARM_EIO, errno, "%s", run->archive);
    if (!code && rename(beside, run->archive))
        code = err_sys(&run->err, WARM_EIO, errno, "%s", run->archive);
    if (code)
        unlink(beside);
    on_signals(SIG_DFL);
    return code ? code : sync_folder_of(run, run->archive);
}

static void print_result(const struct export_run *run)
{
    char size[UNITS_TEXT];
    FILE *out = run->archive && strcmp(run->archive, "-") == 0 ? stderr : stdout;
    struct json j = {.out = out};
    units_size_text(run->n_bytes, size);
    if (!run->remote.as_json) {
        fprintf(out, "exported %llu %s, %s", (unsigned long long)run->n_entries,
                run->n_entries == 1 ? "entry" : "entries", size);
        if (run->n_left)
            fprintf(out, "; %llu left out: of other users, %sor gone meanwhile",
                    (unsigned long long)run->n_left, run->archive ? "" : "of the daemon itself, ");
        fputc('\n', out);
        return;
    }
    json_open(&j, '{');
    json_key(&j, "entries"), json_u64(&j, run->n_entries);
    json_key(&j, "bytes"), json_u64(&j, run->n_bytes);
    json_key(&j, "bad"), json_u64(&j, run->n_bad);
    json_key(&j, "left_out"), json_u64(&j, run->n_left);
    json_key(&j, "missing"), json_u64(&j, run->missing.gone + run->missing.lost);
    json_close(&j, '}');
}

/* Says what of a session is not in the archive, though its results need it. Returns the exit status. */
static int say_missing(const struct export_run *run)
{
    uint64_t gone = run->missing.gone + run->n_left;
    bool of_session = run->session || run->project;
    if (of_session && gone)
        cli_say("%" PRIu64 " %s that the session used %s not written: gone from the store, or not "
                "yours (an administrator exports what the daemon made)",
                gone, gone == 1 ? "entry" : "entries", gone == 1 ? "is" : "are");
    if (run->missing.lost)
        cli_say("the daemon no longer knows all entries of the session, and at least %" PRIu64
                " %s missing: there were too many, or it ended without warning",
                run->missing.lost, run->missing.lost == 1 ? "is" : "are");
    return run->n_bad || run->missing.lost || (of_session && gone) ? CLI_FINDING : CLI_OK;
}

/* Adds the entries that a session used. Returns 0 or an exit status, after printing the reason. */
static int list_session(struct export_run *run, const char *session)
{
    struct report_missing missing = {0};
    struct listing rows = {0};
    int status = report_uses(&run->remote, session, run->message.filter, &rows, &missing);
    run->missing.gone += missing.gone;
    run->missing.lost += missing.lost;
    for (size_t i = 0; i < rows.n && !status; i++) {
        struct view frame = {rows.rows[i].frame, rows.rows[i].len};
        if (listing_keep(&run->rows, frame, 0))
            status = remote_fail(&run->remote, WARM_ENOMEM);
    }
    listing_close(&rows);
    return status;
}

/* Lists the entries that the known sessions of the project used. */
static int list_project(struct export_run *run)
{
    struct wire_text text;
    struct view rest, session;
    struct writer copy; /* later questions use the connection's buffer */
    size_t n = 0;
    int status =
        remote_history(&run->remote, &(struct wire_history){.of = WIRE_HISTORY_USAGE}, &text);
    if (status)
        return status;
    writer_init(&copy, 0);
    writer_bytes(&copy, text.text.data, text.text.len);
    if (!json_reader_find((struct view){copy.data, copy.failed ? 0 : copy.len}, "sessions", &rest))
        status = remote_fail(&run->remote, WARM_ENOMEM);
    while (!status && json_reader_next(&rest, &session)) {
        char id[WIRE_SESSION_MAX + 1], project[WIRE_PROJECT_MAX + 1];
        json_reader_copy(session, "project", project, sizeof project);
        json_reader_copy(session, "id", id, sizeof id);
        if (strcmp(project, run->project) != 0)
            continue;
        n++;
        status = list_session(run, id);
    }
    writer_close(&copy);
    if (!status && !n) {
        cli_say("no session of the project %s is known", run->project);
        status = CLI_FINDING;
    }
    return status;
}

/* Lists the entries to export. Returns 0 or an exit status, after printing the reason. */
static int list_rows(struct export_run *run)
{
    bool is_part = run->since_ms || !filter_is_all(&run->message.filter);
    int code = 0, status = 0;
    if (run->session) {
        status = list_session(run, run->session);
    } else if (run->project) {
        status = list_project(run);
    } else {
        code = listing_ask(&run->remote, &run->message, on_row, run);
        if (!code && is_part && run->archive)
            code = listing_add_closure(&run->remote, &run->rows, on_closure, run);
    }
    if (!status && !code)
        code = listing_unique(&run->rows);
    return code ? remote_fail(&run->remote, code) : status;
}

static int export_all(struct export_run *run)
{
    int code = 0, status = remote_open(&run->remote);
    if (status)
        return status;
    if ((status = list_rows(run))) {
        listing_close(&run->rows);
        remote_close(&run->remote);
        return status;
    }
    if (!run->archive && mkdir(run->to, 0777) && errno != EEXIST)
        code = err_sys(&run->err, WARM_EIO, errno, "%s", run->to);
    if (!code)
        code = run->archive ? export_archive(run) : export_rows(run);
    if (!code && !run->archive)
        code = sync_folder(run, run->to, true);
    if (code && run->err.code == code)
        cli_say("%s", run->err.text), status = CLI_USAGE;
    else if (code)
        status = remote_fail(&run->remote, code);
    else
        print_result(run), status = say_missing(run);
    listing_close(&run->rows);
    remote_close(&run->remote);
    return status;
}

static int export_run(const struct command *self, int argc, char **argv)
{
    struct export_run run = {.message.filter = filter_all()};
    bool last = false;
    int status;
    const struct cli_option options[] = {
        {"to", '\0', cli_take_text, &run.to, "a folder"},
        {"as", '\0', foreign_cache_take_format, &run.format, FOREIGN_CACHE_FORMATS},
        {"session", '\0', cli_take_text, &run.session, "an ID"},
        {"last", '\0', NULL, &last, NULL},
        {"since", '\0', filter_take_since, &run.since_ms, CLI_SPAN},
        {"project", '\0', cli_take_text, &run.project, "a name"},
        FILTER_ROWS(run.message.filter),
        REMOTE_ROWS(run.remote),
        {0}};
    conn_administer();
    if (!cli_options(self, argc, argv, options, &status))
        return status;
    if (run.session && strlen(run.session) > WIRE_SESSION_MAX)
        return cli_usage(self, "--session: an ID has at most %u bytes", WIRE_SESSION_MAX);
    if (last)
        run.session = "";
    if (argc - optind > 1)
        return cli_usage(self, "it takes one file; choose entries with filters");
    if ((run.session != NULL) + (run.since_ms != 0) + (run.project != NULL) > 1)
        return cli_usage(self, "--session, --last, --since or --project: one of them");
    run.archive = argv[optind];
    if (!run.archive == !run.to || (run.archive && run.format))
        return cli_usage(self, "name a FILE, or --to DIR [--as FORMAT]");
    return export_all(&run);
}

const struct command cmd_export = {
    .name = "export",
    .run = export_run,
    .summary = "Write entries into an archive or a cache folder",
    .synopsis =
        "FILE | --to DIR [--as FORMAT] [--session ID | --last | --since SPAN | --project NAME] "
        "[filters] [--json]",
    .help =
        "Writes entries into one file, for images, CI and other machines; `warm import` stores\n"
        "them there, and `tar --zstd -tf FILE` lists them. What an entry needs comes along. Root "
        "and the daemon's own user also export what the daemon compiled itself.\n"
        "With --to writes the cache folders of other programs, which then start warm on machines\n"
        "without `warm`.\n\n"
        "  FILE                  an archive, `-` for stdout\n"
        "      --to DIR          cache folders beneath DIR, each named for its format\n"
        "      --as FORMAT       one format only, in DIR itself: jax, triton or inductor\n"
        "      --session ID      all that the results of a session of `warm run` need; exit status "
        "1\n"
        "                        if some of it is missing\n"
        "      --last            the same of the session that asked last\n"
        "      --project NAME    those that the known sessions with this $WARM_PROJECT used\n"
        "      --since SPAN      those that were made or used in the last 90s, 30m, 12h or "
        "7d\n" FILTER_HELP REMOTE_HELP "\nExample:\n"
        "  $ warm export cache.warm --kind triton\n"
        "  exported 41 entries, 12 MiB\n",
};
