/* SPDX-License-Identifier: Apache-2.0 */
/*
 * import.c - `warm import`: stores the entries of an archive, or of another program's cache folder.
 * main.c calls it.
 *
 * Good entries are stored. Each of the others is one line on stderr, and the exit status is then 1.
 *
 * Thread: main.
 */
#include <string.h>

#include "client/cli/import/archive_stream.h"
#include "client/cli/import/foreign_cache.h"
#include "client/cli/import/store_entry.h"
#include "client/cli/json_writer.h"
#include "client/cli/progress.h"
#include "client/cli/remote.h"
#include "client/cli/units.h"

struct import_run {
    struct remote remote;
    const char *format; /* --from; NULL: archives */
    bool keep;          /* --keep-existing */
    uint64_t n_done[STORE_ENTRY_DONES], n_bytes, n_bad;
    bool unusable; /* a file cannot be read, or is no archive */
    struct json json;
    struct err err;
};

static void on_bad(void *arg, const char *path, const char *why)
{
    struct import_run *run = arg;
    run->n_bad++;
    if (!run->remote.as_json) {
        progress_end();
        cli_say("%s: %s", path, why);
        return;
    }
    json_open(&run->json, '{');
    json_key(&run->json, "path"), json_text(&run->json, path);
    json_key(&run->json, "why"), json_text(&run->json, why);
    json_close(&run->json, '}');
}

static int on_entry(void *arg, const struct archive_entry *entry)
{
    struct import_run *run = arg;
    char name[ARCHIVE_TEXT_MAX + 1];
    int code = store_entry(run->remote.w, entry, run->keep ? WARM_KEEP_EXISTING : 0);
    if (code < 0 && store_entry_failed_alone(code)) {
        on_bad(run, store_entry_text(entry->is_made ? entry->label : entry->name, name),
               warm_message(run->remote.w));
        return 0;
    }
    if (code < 0)
        return code;
    run->n_done[code]++;
    run->n_bytes += code == STORE_ENTRY_STORED ? entry->value.len : 0;
    return 0;
}

/* Stores the entries of an archive. 0, or the daemon's error. */
static int take_entries(struct import_run *run, const char *path, struct archive_in *in, size_t len)
{
    struct archive_reader r = {.read = archive_in_read, .arg = in};
    struct archive_entry entry;
    char name[ARCHIVE_TEXT_MAX + 1];
    struct err e = {0};
    int code = archive_open(&r, &e), put = 0;
    run->unusable |= code != 0;
    for (uint64_t n = 0; !code && !put; n++) {
        code = archive_next(&r, n, &entry, &e);
        if (!code)
            put = on_entry(run, &entry), progress_show("importing", archive_in_done(in), len);
        if (code == WARM_ECORRUPT) {
            on_bad(run, store_entry_text(entry.name, name), "damaged");
            code = 0;
        }
    }
    progress_end();
    if (!put && code != WARM_ENOT_FOUND)
        on_bad(run, path, e.text);
    archive_close(&r);
    return put;
}

static int read_archive(struct import_run *run, const char *path)
{
    struct cli_input in;
    struct archive_in *stream;
    struct err e = {0};
    int error = cli_input_open(&in, path), code = 0;
    if (error) {
        on_bad(run, path, cli_input_text(error));
        run->unusable = true;
        return 0;
    }
    if (archive_in_new(&stream, (struct view){in.data, in.len}, &e)) {
        on_bad(run, path, e.text);
        run->unusable = true;
    } else {
        code = take_entries(run, path, stream, in.len);
        archive_in_close(stream);
    }
    cli_input_close(&in);
    return code;
}

/* Prints how many entries were stored, kept and left out. */
static void print_result(struct import_run *run)
{
    unsigned long long n = run->n_done[STORE_ENTRY_STORED], kept = run->n_done[STORE_ENTRY_KEPT],
                       expired = run->n_done[STORE_ENTRY_EXPIRED];
    char size[UNITS_TEXT];
    if (run->remote.as_json) {
        json_close(&run->json, ']');
        json_key(&run->json, "entries"), json_u64(&run->json, n);
        json_key(&run->json, "kept"), json_u64(&run->json, kept);
        json_key(&run->json, "expired"), json_u64(&run->json, expired);
        json_key(&run->json, "bytes"), json_u64(&run->json, run->n_bytes);
        json_close(&run->json, '}');
        return;
    }
    units_size_text(run->n_bytes, size);
    printf("imported %llu %s, %s", n, n == 1 ? "entry" : "entries", size);
    if (kept)
        printf("; kept %llu that %s here", kept, kept == 1 ? "was" : "were");
    if (expired)
        printf("; %llu had expired", expired);
    putchar('\n');
}

static int import_all(struct import_run *run, int n, char **paths)
{
    const struct foreign_sink sink = {on_entry, on_bad, run};
    int status = remote_open(&run->remote), code = 0;
    if (status)
        return status;
    if (run->remote.as_json) {
        json_open(&run->json, '{');
        json_key(&run->json, "bad");
        json_open(&run->json, '[');
    }
    for (int i = 0; i < n && !code; i++) {
        code = run->format ? foreign_cache_read(run->format, paths[i], &sink, &run->err)
                           : read_archive(run, paths[i]);
        if (run->err.code) { /* the folder, not the daemon */
            size_t len = strlen(paths[i]);
            bool named = strncmp(run->err.text, paths[i], len) == 0 && run->err.text[len] == ':';
            on_bad(run, paths[i],
                   run->err.text + (named ? len + 1 + strspn(run->err.text + len + 1, " ") : 0));
            run->err.code = code = 0;
        }
    }
    if (run->remote.as_json || !code)
        print_result(run);
    if (code)
        status = remote_fail(&run->remote, code);
    else if (run->unusable && run->n_done[STORE_ENTRY_STORED] == 0)
        status = CLI_USAGE;
    else
        status = run->n_bad ? CLI_FINDING : CLI_OK;
    remote_close(&run->remote);
    return status;
}

static int import_run(const struct command *self, int argc, char **argv)
{
    struct import_run run = {.json = {.out = stdout}};
    int status;
    const struct cli_option options[] = {
        {"from", '\0', foreign_cache_take_format, &run.format, FOREIGN_CACHE_FORMATS},
        {"keep-existing", '\0', NULL, &run.keep, NULL},
        REMOTE_ROWS(run.remote),
        {0}};
    conn_administer(); /* what a system's daemon made itself, only an administrator brings */
    if (!cli_options(self, argc, argv, options, &status))
        return status;
    if (optind == argc)
        return cli_usage(self, "name an archive, or with --from a folder");
    for (int i = optind; i < argc; i++)
        if (!*argv[i])
            return cli_usage(self, "an empty path");
    return import_all(&run, argc - optind, argv + optind);
}

const struct command cmd_import = {
    .name = "import",
    .run = import_run,
    .summary = "Store the entries of an archive or of a cache folder",
    .synopsis = "[--from FORMAT] PATH... [--json]",
    .help =
        "Stores the entries of an archive of `warm export`, `-` for stdin, or with --from those "
        "of\n"
        "another program's cache folder. Names damaged entries, and then exits with status 1.\n"
        "A user who can write such a file or folder can run code in the programs that use the\n"
        "cache.\n\n"
        "      --from FORMAT     jax (JAX_COMPILATION_CACHE_DIR), triton (~/.triton/cache) or "
        "inductor\n"
        "                        (TORCHINDUCTOR_CACHE_DIR)\n"
        "      --keep-existing   leave existing entries as they are, and say how many\n" REMOTE_HELP
        "\nExample:\n"
        "  $ warm import --from triton ~/.triton/cache\n"
        "  imported 41 entries, 12 MiB\n",
};
