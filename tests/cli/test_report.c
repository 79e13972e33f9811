/* SPDX-License-Identifier: Apache-2.0 */
/* test_report.c - `warm report` with a real daemon: the page, the JSON, the trace, and a browser if one is
 * on PATH. */
#include "client/cli/json_reader.h"
#include "tests/support/warmd.h"

/* Runs `warm ARGUMENTS` in the kit's folder as a part of a session; its status. */
static int warm(const struct warmd *k, const char *session, const char *arguments, char **out)
{
    char *program = bin_path("warm");
    /* two seconds, as a person waits for a connection, may pass on a busy machine */
    int status =
        run_command(out, "cd %s && WARM_TIMEOUT_MS=60000 WARM_SESSION=%s WARM_SOCKET=%s %s %s 2>&1",
                    k->dir, session, k->socket, program, arguments);
    free(program);
    return status;
}

static void must(const struct warmd *k, const char *session, int status, const char *arguments)
{
    char *out;
    cr_assert_eq(warm(k, session, arguments, &out), status, "warm %s: %s", arguments, out);
    free(out);
}

/* Returns what `warm report ARGUMENTS` writes; free() it. */
static char *report(const struct warmd *k, const char *arguments)
{
    char *out, *command;
    cr_assert_geq(asprintf(&command, "report %s", arguments), 0);
    cr_assert_eq(warm(k, "other", command, &out), 0, "%s", out);
    free(command);
    return out;
}

/* Makes sessions `one` and `two`, whose names are hostile. */
static struct warmd sessions(void)
{
    struct warmd k = warmd_up(NULL);
    char *path = path_join(k.dir, "v");
    file_write(path, "value", 5);
    free(path);
    must(&k, "one", 1, "get \"pt2:x\" -o out");
    must(&k, "one", 0, "put kept v --cost-ms 2500 --label '</script><img src=x onerror=alert(1)>'");
    must(&k, "one", 0, "get kept -o out");
    must(&k, "one", 1, "get '</script><img src=x onerror=alert(1)>' -o out");
    must(&k, "two", 0, "get kept -o out");
    must(&k, "two", 0, "put pt2:x v");
    must(&k, "two", 0, "get pt2:x -o out");
    return k;
}

Test(report, page_shows_sessions_and_escapes_all_names)
{
    struct warmd k = sessions();
    char *page = report(&k, "--session one --compare two");
    cr_assert_null(strstr(page, "<img"), "%s", page);
    cr_assert_null(strstr(page, "</script"), "%s", page);
    cr_assert_null(strstr(page, "http://"));
    cr_assert_null(strstr(page, "https://"));
    cr_assert_not_null(strstr(page, "&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;"));
    cr_assert_not_null(strstr(page, "<rect class=hit"));
    cr_assert_not_null(strstr(page, "<b>cold</b>"));
    cr_assert_not_null(strstr(page, "<tr><td>PyTorch<td>other"));
    cr_assert_not_null(strstr(page, "Compared with session two"));
    cr_assert_not_null(strstr(page, "<b>2.50 s</b>saved, at least"));
    free(page);
    warmd_down(&k);
}

Test(report, json_has_the_session_its_events_and_its_misses)
{
    struct warmd k = sessions();
    char *json = report(&k, "--session one --format json");
    struct view doc = view_of_text(json), value, item;
    cr_assert_eq(json_reader_count(doc, "session.asked"), 3);
    cr_assert_eq(json_reader_count(doc, "session.gained_ms"), 2500);
    cr_assert(json_reader_find(doc, "events", &value));
    size_t n = 0;
    while (json_reader_next(&value, &item))
        n++;
    cr_assert_eq(n, 3, "%s", json);
    cr_assert(json_reader_find(doc, "misses", &value));
    cr_assert(json_reader_item(value, 1, &item) && !json_reader_item(value, 2, &item), "%s", json);
    free(json);
    json = report(&k, ""); /* the page of the last session */
    cr_assert_not_null(strstr(json, "<h1>Session two</h1>"), "%s", json);
    free(json);
    must(&k, "other", 1, "report --session nope");
    must(&k, "other", 2, "report --format pdf");
    warmd_down(&k);
}

/* The command line is told by `warm run`; an inner one is a part of it. */
Test(report, it_names_the_program_and_its_command_line)
{
    struct warmd k = sessions();
    char *program = bin_path("warm"), *line, *page, text[600] = "";
    cr_assert_gt(asprintf(&line, "run sh -c '%s run true; %s get kept -o out </dev/null' x",
                          program, program),
                 0);
    must(&k, "run", 0, line);
    must(&k, "idle", 0, "run true"); /* it asked nothing, so it is not the last one that did */
    page = report(&k, "");
    cr_expect_not_null(strstr(page, "<p><code>sh -c &#39;/"), "%s", page);
    cr_expect_not_null(strstr(page, " get kept -o out &lt;/dev/null&#39; x</code></p>"), "%s",
                       page);
    free(page);
    page = report(&k, "--session run --format json");
    struct view command;
    cr_assert(json_reader_find(view_of_text(page), "session.command", &command), "%s", page);
    json_reader_text(command, text, sizeof text);
    cr_expect_str_eq(text, line + strlen("run "));
    free(page), free(line), free(program);
    warmd_down(&k);
}

/* The rules of "Trace Event Format": an object with traceEvents; each event has ph, pid and tid, complete
 * events also ts and dur, and those of one thread nest. */
Test(report, trace_follows_the_trace_event_format)
{
    struct warmd k = warmd_up(NULL);
    int fd[3];
    char hello[] = "CLIENT SETNAME warm-session-t\r\n";
    for (size_t i = 0; i < 3; i++) {
        fd[i] = warmd_connect(&k);
        warmd_redis(fd[i], hello, "+OK\r\n");
    }
    for (size_t i = 0; i < 3; i++) /* overlapping: nobody has put them yet */
        warmd_redis(fd[i], i == 0 ? "GET a\r\n" : i == 1 ? "GET b\r\n" : "GET c\r\n", "$-1\r\n");
    for (size_t i = 0; i < 3; i++) {
        warmd_redis(fd[i],
                    i == 0   ? "SET a 1\r\n"
                    : i == 1 ? "SET b 1\r\n"
                             : "SET c 1\r\n",
                    "+OK\r\n");
        close(fd[i]);
    }
    char *json = report(&k, "--session t --format trace");
    struct view doc = view_of_text(json), rest, event, value;
    double end[3] = {0};
    size_t n_complete = 0;
    cr_assert(json_reader_find(doc, "traceEvents", &rest), "%s", json);
    while (json_reader_next(&rest, &event)) {
        double ts, dur, tid;
        cr_assert(json_reader_find(event, "name", &value) && ((const char *)value.data)[0] == '"');
        cr_assert_eq(json_reader_count(event, "pid"), (unsigned long long)getpid());
        cr_assert(json_reader_find(event, "tid", &value) && json_reader_number(value, &tid));
        cr_assert(json_reader_find(event, "ph", &value));
        if (view_is(value, "\"M\"")) {
            cr_assert(json_reader_find(event, "args.name", &value));
            continue;
        }
        cr_assert(view_is(value, "\"X\""));
        cr_assert(json_reader_find(event, "cat", &value) && view_is(value, "\"make\""), "%s", json);
        cr_assert(json_reader_find(event, "ts", &value) && json_reader_number(value, &ts));
        cr_assert(json_reader_find(event, "dur", &value) && json_reader_number(value, &dur));
        cr_assert(tid >= 0 && tid < 3 && dur > 0 && ts >= end[(int)tid], "%s", json);
        end[(int)tid] = ts + dur;
        n_complete++;
    }
    cr_assert_eq(n_complete, 3, "%s", json);
    cr_assert(end[0] > 0 && end[1] > 0 && end[2] > 0, "each in a lane of its own: %s", json);
    free(json);
    warmd_down(&k);
}

Test(report, browser_shows_the_page_and_runs_nothing_of_it)
{
    char *out;
    if (run_command(&out, "command -v chromium") != 0) {
        free(out);
        cr_skip_test("no chromium on PATH");
    }
    free(out);
    struct warmd k = sessions();
    must(&k, "other", 0, "report --session one -o page.html");
    cr_assert_eq(run_command(&out,
                             "cd %s && HOME=%s timeout 120 chromium --headless --no-sandbox "
                             "--disable-gpu --user-data-dir=%s/profile --dump-dom "
                             "file://%s/page.html 2>/dev/null",
                             k.dir, k.dir, k.dir, k.dir),
                 0);
    cr_assert_not_null(strstr(out, "<rect class=\"hit\""), "%s", out);
    cr_assert_not_null(strstr(out, "<tbody>"), "%s", out);
    cr_assert_null(strstr(out, "<img"), "%s", out);
    free(out);
    warmd_down(&k);
}
