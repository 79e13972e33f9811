/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.c - `warm run CMD…`: runs a program whose compiles come from the cache. main.c calls it;
 * run.h has the parts.
 *
 *     a daemon answers, or is started ─▶ the environment is set ─▶ exec
 *
 * Whatever goes wrong, the program runs, as it would without us. As with env(1), no process of ours
 * stays between the caller and the program, unless the report at its end has to wait for it.
 *
 * Thread: main.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/cli.h"
#include "client/cli/run/run.h"
#include "client/lib/debug.h"
#include "client/lib/environment.h"
#include "client/lib/warm.h"
#include "client/wire/wire.h"

struct options {
    bool no_start, report, no_report, regional;
    const char *socket;
};

/* Starts a daemon if none answers, and sets the environment. True if both succeeded. */
static bool prepare(struct run_places *p, const struct options *o, const char *program)
{
    if (!run_places_fill(p, o->socket)) {
        cli_say("cannot tell where the daemon's socket is");
        return false;
    }
    enum run_daemon daemon = run_daemon_look(p);
    if (daemon == RUN_DAEMON_NONE && o->no_start)
        cli_say("no daemon answers at %s", p->socket);
    else if (daemon == RUN_DAEMON_NONE)
        daemon = run_daemon_start(p);
    debug_say(DEBUG_INFO, "run: session %s, socket %s, %s", p->session, p->socket,
              daemon == RUN_DAEMON_ANSWERS ? "a daemon answers" : "no daemon");
    return daemon == RUN_DAEMON_ANSWERS && run_env_set(p, program);
}

/* Tells the daemon, if one answers, that caching is disabled, for `warm why`. */
static void note_disabled(const struct options *o, const char *program)
{
    char *value = strdup(getenv("WARM_DISABLE"));
    struct warm_options options = {.socket = o->socket};
    struct warm *w;
    if (!value)
        return;
    unsetenv("WARM_DISABLE");
    if (warm_open(&w, &options) == 0) {
        warm_note(w, "disabled", program, "WARM_DISABLE was set: the program ran without");
        warm_close(w);
    }
    setenv("WARM_DISABLE", value, 1);
    free(value);
}

/* Tells the daemon what this session runs, for `warm report`. */
static void note_command(const struct run_places *p, char *const *argv)
{
    char line[WIRE_NAME_MAX + 1] = "";
    struct warm_options options = {.socket = p->socket};
    struct warm *w;
    for (size_t i = 0, n = 0; argv[i] && n < sizeof line; i++) {
        const char *quote = strcspn(argv[i], " \t\n\"'*$&;<>|") < strlen(argv[i]) ? "'" : "";
        n += (size_t)snprintf(line + n, sizeof line - n, "%s%s%s%s", i ? " " : "", quote, argv[i],
                              quote);
    }
    if (warm_open(&w, &options))
        return;
    warm_note(w, "started", argv[0], line);
    warm_close(w);
}

static int run_run(const struct command *self, int argc, char **argv)
{
    static struct run_places places;
    struct options o = {0};
    int status;
    const struct cli_option options[] = {{"no-start", '\0', NULL, &o.no_start, NULL},
                                         {"report", '\0', NULL, &o.report, NULL},
                                         {"no-report", '\0', NULL, &o.no_report, NULL},
                                         {"regional", '\0', NULL, &o.regional, NULL},
                                         {"socket", '\0', cli_take_text, &o.socket, "a path"},
                                         {0}};
    if (!cli_options(self, argc, argv, options, &status))
        return status;
    if (optind == argc)
        return cli_usage(self, "name a program to run");
    argv += optind;
    if (environment_is_set("WARM_DISABLE")) {
        note_disabled(&o, argv[0]);
        return run_exec(argv);
    }
    if (o.regional) /* warm/_autoload.py reads it */
        setenv("WARM_REGIONAL", "1", 1);
    /* The line at the end is due without --report on a terminal, and not inside another `warm run`, which
     * has a line for both. */
    bool line = !o.no_report && !getenv("WARM_SESSION") && isatty(STDERR_FILENO);
    bool prepared = prepare(&places, &o, argv[0]);
    if (prepared)
        note_command(&places, argv);
    if (!prepared || !(o.report || line))
        return run_exec(argv);
    status = run_wait(argv);
    run_summary(&places, !o.report);
    run_end_as(status);
}

const struct command cmd_run = {
    .name = "run",
    .takes_program = true,
    .run = run_run,
    .summary = "Run a program whose compiles come from the cache",
    .synopsis = "[--no-start] [--regional] [--report | --no-report] [--] PROGRAM [ARGUMENT...]",
    .help =
        "Runs PROGRAM so that it, and the processes that it starts, take compiled code from the\n"
        "cache. Its exit status, signals, input and output are its own; no process of `warm`\n"
        "stays in between, unless it reports at the end. If no daemon answers, one is started for\n"
        "this user; if that fails, PROGRAM runs without the cache.\n\n"
        "      --no-start        do not start a daemon\n"
        "      --regional        PyTorch compiles equal parts of a model once (its graph\n"
        "                        deduplication, which is off by default)\n"
        "      --report          at the end, print requests, hits and saved time on stderr; the\n"
        "                        default on a terminal, if the program asked for something\n"
        "      --no-report       print nothing at the end\n"
        "      --socket PATH     the daemon's socket ($WARM_SOCKET, or this user's default)\n"
        "  -h, --help            print this\n\n"
        "WARM_DISABLE=1 runs PROGRAM as if without `warm run`; WARM_RECACHE=1 compiles\n"
        "everything again; WARM_READONLY=1 stores nothing.\n"
        "Exit status: that of PROGRAM; 127 if it is not found, 126 if it cannot be executed.\n\n"
        "Example:\n"
        "  $ warm run --report python train.py\n",
};
