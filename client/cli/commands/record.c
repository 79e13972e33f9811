/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.c - `warm record`: runs a program as `warm run` does, and writes the keys of the entries that it
 * used, for `warm replay`. main.c calls it; client/cli/import/recording.h has the file's format.
 *
 *     a session of its own ─▶ warm run PROGRAM ─▶ what did the session use? ─▶ FILE
 *
 * The program's end is this command's, even if no file can be written: that is one line on stderr.
 *
 * Thread: main.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "client/cli/import/recording.h"
#include "client/cli/output.h"
#include "client/cli/report/report.h"
#include "client/cli/run/run.h"

/* Writes the recording of a session. */
static void write_recording(struct remote *r, const char *session, const char *path)
{
    struct report report = {.n_events = 0};
    struct listing rows = {0};
    struct wire_row row;
    struct writer text;
    writer_init(&text, RECORDING_MAX);
    int code, status = remote_open(r);
    if (!status)
        status = report_fetch(r, session, &report);
    if (!status && (code = report_rows_stored(r, &report, filter_all(), &rows)))
        status = remote_fail(r, code);
    recording_begin(&text);
    for (size_t i = 0; !status && i < rows.n; i++)
        if (listing_row(&rows, i, &row))
            recording_add(&text, &row);
    if (!status && text.failed)
        cli_say("%s: too many entries", path);
    else if (!status && output_write(path, text.data, text.len) == 0)
        cli_say("recorded %zu %s in %s", rows.n, rows.n == 1 ? "entry" : "entries", path);
    if (!status && report.n_forgotten)
        cli_say(REPORT_FORGOTTEN, report.n_forgotten);
    writer_close(&text);
    listing_close(&rows);
    report_free(&report);
    remote_close(r);
}

/* Runs `warm run` with the program, and waits for it. Returns its wait status. */
static int run_program(struct run_places *places, const char *socket, int argc, char **argv)
{
    char run[] = "run", no_report[] = "--no-report", option[] = "--socket", end[] = "--";
    char **all = calloc((size_t)argc + 7, sizeof *all);
    size_t n = 0;
    if (!all)
        return run_wait(argv);
    all[n++] = places->exe;
    all[n++] = run;
    all[n++] = no_report;
    if (socket) {
        all[n++] = option;
        all[n++] = places->socket;
    }
    all[n++] = end;
    memcpy(all + n, argv, (size_t)argc * sizeof *all);
    int status = run_wait(all);
    free(all);
    return status;
}

/* Makes the folder of jobs, and lets libwarm write into it. Says why that is not possible. */
static void record_jobs(const char *folder)
{
    char path[PATH_MAX];
    if ((mkdir(folder, 0700) != 0 && errno != EEXIST) || !realpath(folder, path) ||
        setenv("WARM_RECORD_JOBS", path, 1))
        cli_say("%s: %s: no job is recorded", folder, strerror(errno));
}

static int record_run(const struct command *self, int argc, char **argv)
{
    static const struct option longs[] = {{"output", required_argument, NULL, 'o'},
                                          {"jobs", required_argument, NULL, 'j'},
                                          {"socket", required_argument, NULL, 'S'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
    static struct run_places places;
    struct remote r = {0};
    const char *path = "warm.record", *jobs = NULL;
    int status;
    for (int c; (c = cli_option(self, argc, argv, "+:ho:", longs)) != -1;) {
        if (cli_option_ends(c, &status))
            return status;
        if (c == 'o')
            path = optarg;
        else if (c == 'j')
            jobs = optarg;
        else
            r.socket = optarg;
    }
    if (optind == argc)
        return cli_usage(self, "name a program to run");
    unsetenv("WARM_SESSION"); /* an outer session has used other entries, too */
    if (!run_places_fill(&places, r.socket) || setenv("WARM_SESSION", places.session, 1)) {
        cli_say("cannot tell where the daemon's socket is: nothing is recorded");
        return run_exec(argv + optind);
    }
    if (jobs)
        record_jobs(jobs);
    status = run_program(&places, r.socket, argc - optind, argv + optind);
    write_recording(&r, places.session, path);
    run_end_as(status);
}

const struct command cmd_record = {
    .name = "record",
    .run = record_run,
    .summary = "Run a program and write down which entries it used",
    .synopsis = "[-o FILE] [--jobs FOLDER] [--] PROGRAM [ARGUMENT...]",
    .help = "Runs PROGRAM as `warm run` does, and writes the keys of the entries that it used, in\n"
            "order, to FILE. `warm replay FILE` tells which of them are here, and brings in the\n"
            "others from an archive, before such a job begins.\n\n"
            "  -o, --output FILE     the recording; default: warm.record\n"
            "      --jobs FOLDER     also keep what NVRTC is given, sources too, for\n"
            "                        `warm replay --compile FOLDER`\n"
            "      --socket PATH     the daemon's socket ($WARM_SOCKET, or this user's default)\n"
            "  -h, --help            print this\n\n"
            "Exit status: that of PROGRAM.\n\n"
            "Example:\n"
            "  $ warm record -o train.record python train.py\n",
};
