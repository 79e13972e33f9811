/* SPDX-License-Identifier: Apache-2.0 */
/*
 * top.c - `warm top`: what the daemon does, each second: a live view on a terminal, else one line for
 * each second. main.c calls it.
 *
 * Thread: main.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/cli/json_writer.h"
#include "client/cli/top/top.h"
#include "keygen/quantity.h"

#define DELAY_MS 1000u
#define DELAY_MAX_MS (3600u * 1000)

static volatile sig_atomic_t ended;

static void on_signal(int number)
{
    (void)number;
    ended = 1;
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* ---- plain lines ---- */

static void print_line(const struct top *t)
{
    static const enum top_counter shown[] = {TOP_hits,      TOP_misses, TOP_compiles,
                                             TOP_coalesced, TOP_puts,   TOP_evictions};
    char when[16], size[UNITS_TEXT];
    time_t now = time(NULL);
    struct tm tm;
    localtime_r(&now, &tm);
    strftime(when, sizeof when, "%H:%M:%S", &tm);
    printf("%s", when);
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
        printf(" %9.1f", top_rate(t, shown[i], 0));
    top_number_text(TOP_BYTES, t->bytes, size);
    printf(" %9u %9.0f %9s\n", t->n_making, t->entries, size);
}

/* Sleeps; false if a signal ended it. */
static bool sleep_ms(uint64_t ms)
{
    struct timespec span = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    return nanosleep(&span, NULL) == 0 || !ended;
}

static int run_plain(struct top *t, uint64_t delay_ms, uint64_t count)
{
    if (!t->remote.as_json)
        printf("%-8s %9s %9s %9s %9s %9s %9s %9s %9s %9s\n", "time", "hits/s", "misses/s",
               "compiles/s", "waits/s", "puts/s", "evicted/s", "making", "entries", "size");
    for (uint64_t i = 0; !count || i < count; i++) {
        fflush(stdout);
        if (ferror(stdout) || !sleep_ms(delay_ms) || ended)
            break;
        int code = top_sample(t);
        if (code)
            return remote_fail(&t->remote, code);
        if (!t->remote.as_json)
            print_line(t);
        else
            json_print(stdout, (struct view){t->stats.data, t->stats.len});
    }
    return CLI_OK;
}

/* ---- the live view ---- */

static int run_live(struct top *t, uint64_t delay_ms, uint64_t count)
{
    enum top_key key = TOP_REDRAW;
    int code = 0;
    for (uint64_t i = 0; !ended && key != TOP_QUIT && (!count || i < count);) {
        uint64_t now_ms = conn_now_ms(), next_ms = t->at_ms + delay_ms;
        if (key != TOP_NO_KEY)
            screen_draw(t);
        key = screen_key(t, next_ms > now_ms ? (int)(next_ms - now_ms) : 0);
        if (conn_now_ms() < next_ms)
            continue;
        code = top_sample(t);
        if (code)
            break;
        i++;
        key = key == TOP_QUIT ? key : TOP_REDRAW;
    }
    screen_close();
    return code ? remote_fail(&t->remote, code) : CLI_OK;
}

static int run_top(struct top *t, uint64_t delay_ms, uint64_t count)
{
    int status = remote_open(&t->remote);
    if (status)
        return status;
    writer_init(&t->stats, WIRE_PAYLOAD_MAX);
    for (size_t i = 0; i < TOP_TABLES; i++)
        t->sort[i] = top_layouts[i].sort;
    int code = top_sample(t);
    if (code)
        status = remote_fail(&t->remote, code);
    else if (!t->remote.as_json && isatty(STDOUT_FILENO) && isatty(STDIN_FILENO) && screen_open())
        catch_signals(), status = run_live(t, delay_ms, count);
    else
        status = run_plain(t, delay_ms, count);
    writer_close(&t->stats);
    remote_close(&t->remote);
    return status;
}

static bool take_delay(const char *value, void *to)
{
    uint64_t *ms = to;
    return cli_take_span(value, ms) && *ms && *ms <= DELAY_MAX_MS;
}

static bool take_samples(const char *value, void *to)
{
    return quantity_count(value, UINT32_MAX, to) && *(uint64_t *)to;
}

static int top_run(const struct command *self, int argc, char **argv)
{
    static struct top t;
    uint64_t delay_ms = DELAY_MS, count = 0;
    int status;
    const struct cli_option options[] = {
        {"delay", 'd', take_delay, &delay_ms, "a span of time of at most 1h"},
        {"count", 'n', take_samples, &count, CLI_COUNT},
        REMOTE_ROWS(t.remote),
        {0}};
    return cli_options(self, argc, argv, options, &status) ? run_top(&t, delay_ms, count) : status;
}

const struct command cmd_top = {
    .name = "top",
    .takes_nothing = true,
    .run = top_run,
    .summary = "Watch what the daemon does",
    .synopsis = "[--delay SPAN] [--count N] [--json]",
    .help =
        "Shows hits, misses, compiles, waits and evictions each second, who makes what, how many "
        "wait\n"
        "for it, and what each user takes of the daemon. An administrator sees all users. If\n"
        "standard output is no terminal, it prints one line a second.\n\n"
        "  -d, --delay SPAN      time between two samples (1s)\n"
        "  -n, --count N         end after N samples\n" REMOTE_HELP
        "\nKeys: q quit, Tab next table (kinds, being made, users, tier), s or arrows sort, r "
        "reverse,\n"
        "/ filter rows by name, Escape all rows.\n--json prints the daemon's counters, one object "
        "a second.\n\n"
        "Example:\n"
        "  $ warm top --count 60 >minute.txt\n",
};
