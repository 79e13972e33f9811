/* SPDX-License-Identifier: Apache-2.0 */
/* test_top.c - `warm top` on a pseudo-terminal and in a pipe, with a real daemon. */
#include <pty.h>

#include "tests/support/warmd.h"

#define ALICE 4201
#define BOB 4202

struct terminal {
    int fd;
    pid_t pid;
    char seen[256 << 10];
    size_t len;
    unsigned n_screens; /* how often it was painted anew */
};

/* Starts `warm top` on a terminal of 40 lines. */
static void open_terminal(struct terminal *t, const struct warmd *k, const char *term,
                          unsigned short columns)
{
    struct winsize size = {.ws_row = 40, .ws_col = columns};
    char *program = bin_path("warm");
    t->pid = forkpty(&t->fd, NULL, NULL, &size);
    cr_assert_geq(t->pid, 0);
    if (t->pid == 0) {
        setenv("TERM", term, 1);
        setenv("LC_ALL", "C", 1);
        setenv("WARM_SOCKET", k->socket, 1);
        execl(program, program, "top", "--delay", "1s", (char *)NULL);
        _exit(127);
    }
    free(program);
}

static void press(struct terminal *t, const char *keys)
{
    cr_assert_eq(write(t->fd, keys, strlen(keys)), (ssize_t)strlen(keys));
}

/* Returns what was written since the screen was last cleared; NULL before the `n`-th time. */
static const char *screen(const struct terminal *t, unsigned n)
{
    const char *at = t->seen;
    for (unsigned i = 0; at && i < n; i++) {
        at = strstr(at, "\033[2J");
        at = at ? at + 4 : NULL;
    }
    return at;
}

/* Reads until the text was written after the screen was cleared so often. Only texts without blanks:
 * ncurses moves the cursor over those. */
static const char *await_text(struct terminal *t, const char *text)
{
    uint64_t end_ms = clock_now_ms() + WARMD_WAIT_MS;
    const char *at = screen(t, t->n_screens);
    while (!at || !strstr(at, text)) {
        struct pollfd p = {t->fd, POLLIN, 0};
        cr_assert(clock_now_ms() < end_ms && t->len + 1 < sizeof t->seen, "no `%s` in: %s", text,
                  t->seen);
        if (poll(&p, 1, 1000) <= 0)
            continue;
        ssize_t n = read(t->fd, t->seen + t->len, sizeof t->seen - 1 - t->len);
        cr_assert_gt(n, 0, "it ended without `%s`: %s", text, t->seen);
        t->len += (size_t)n;
        t->seen[t->len] = '\0';
        at = screen(t, t->n_screens);
    }
    return at;
}

/* Presses keys and has the screen painted anew: it must have the text. Returns it all. */
static const char *press_and_see(struct terminal *t, const char *keys, const char *text)
{
    press(t, keys);
    press(t, "\x0c"); /* Control-L */
    t->n_screens++;
    await_text(t, "reverse"); /* of the last line */
    return await_text(t, text);
}

/* Presses q; the status must be 0. */
static void quit(struct terminal *t)
{
    char rest[4096];
    press(t, "q");
    while (read(t->fd, rest, sizeof rest) > 0)
        ;
    int status = warmd_reap(t->pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(t->fd);
}

static void put(const struct warmd *k, const char *name, const char *kind)
{
    char *program = bin_path("warm"), *out;
    cr_assert_eq(run_command(&out, "echo x | WARM_SOCKET=%s %s put %s - --kind %s 2>&1", k->socket,
                             program, name, kind),
                 0, "%s", out);
    free(out);
    free(program);
}

Test(top, live_view_shows_counters_and_tables_and_obeys_its_keys)
{
    struct warmd k = warmd_up(NULL);
    struct terminal *t = calloc(1, sizeof *t);
    put(&k, "one", "triton");
    put(&k, "two", "backward");
    int fd = warmd_native(&k), other = warmd_native(&k);
    warmd_get(fd, 1, "jit_step", true, 0);
    uint64_t token = warmd_expect_lease(fd, 1);
    warmd_get(other, 2, "jit_step", true, 60000);
    warmd_expect(other, 2, WIRE_WAIT);

    open_terminal(t, &k, "xterm", 132);
    t->n_screens = 1;
    await_text(t, "evictions");
    press_and_see(t, "", "*HITS");
    await_text(t, "triton");
    await_text(t, "backward");
    press_and_see(t, "s", "*MISSES");
    const char *now = press_and_see(t, "/trit\r", "triton");
    cr_assert_null(strstr(now, "backward"), "a filter hides the others: %s", now);
    now = press_and_see(t, "\t", "BEING");
    cr_assert_null(strstr(now, "jit_step"), "it filters each table: %s", now);
    press_and_see(t, "\033", "jit_step");
    await_text(t, "program");
    press_and_see(t, "\t", "PINNED");
    press_and_see(t, "\t", "FROM THE TIER");
    quit(t);

    warmd_put(fd, 3, "jit_step", "made", token);
    warmd_expect(fd, 3, WIRE_OK);
    warmd_expect_hit(other, 2, "made");
    close(fd);
    close(other);
    free(t);
    warmd_down(&k);
}

Test(top, each_table_fits_a_terminal_of_80_columns)
{
    static const char *const last_columns[] = {"SIZE", "SINCE", "PINNED", "DROPPED"};
    struct warmd k = warmd_up(NULL);
    struct terminal *t = calloc(1, sizeof *t);
    put(&k, "one", "triton");
    open_terminal(t, &k, "xterm", 80);
    t->n_screens = 1;
    await_text(t, "evictions");
    for (size_t i = 0; i < sizeof last_columns / sizeof *last_columns; i++)
        press_and_see(t, i ? "\t" : "", last_columns[i]);
    quit(t);
    free(t);
    warmd_down(&k);
}

Test(top, an_unknown_terminal_gets_lines)
{
    struct warmd k = warmd_up(NULL);
    struct terminal *t = calloc(1, sizeof *t);
    open_terminal(t, &k, "no-such-terminal", 132);
    await_text(t, "compiles/s");
    await_text(t, " 0.0 ");
    kill(t->pid, SIGTERM);
    warmd_reap(t->pid);
    close(t->fd);
    free(t);
    warmd_down(&k);
}

Test(top, in_a_pipe_prints_a_line_for_each_look)
{
    struct warmd k = warmd_up(NULL);
    char *program = bin_path("warm"), *out;
    put(&k, "one", "triton");
    int rc = run_command(&out, "WARM_SOCKET=%s %s top --count 2 --delay 1 2>&1", k.socket, program);
    cr_assert_eq(rc, 0, "%s", out);
    cr_assert_not_null(strstr(out, "evicted/s"), "%s", out);
    size_t lines = 0;
    for (const char *at = out; (at = strchr(at, '\n')); at++)
        lines++;
    cr_assert_eq(lines, 3, "titles and two looks: %s", out);
    free(out);
    rc = run_command(&out, "WARM_SOCKET=%s %s top --count 1 --json 2>&1", k.socket, program);
    cr_assert(rc == 0 && out[0] == '{' && strstr(out, "\"making\": []"), "%s", out);
    free(out);
    rc = run_command(&out, "WARM_SOCKET=%s/none %s top 2>&1", k.dir, program);
    cr_assert_eq(rc, 3, "%s", out);
    free(out);
    free(program);
    warmd_down(&k);
}

/* What STATS tells a user of what is being made. */
static char *stats_of(int fd)
{
    struct writer w;
    struct warmd_frame f;
    struct wire_text text;
    writer_init(&w, 0);
    wire_put_empty(&w, WIRE_STATS, 9);
    warmd_flush(fd, &w);
    writer_close(&w);
    warmd_frame(fd, &f, WIRE_TEXT, 9);
    cr_assert_eq(wire_get_text(&f.frame, &text, NULL), 0);
    return strndup((const char *)text.text.data, text.text.len);
}

Test(top, a_user_is_told_of_what_this_user_makes_alone)
{
    NEEDS_TWO_USERS();
    struct warmd k = warmd_up(NULL);
    int alice = warmd_native_as(&k, ALICE), bob = warmd_native_as(&k, BOB), admin = warmd_admin(&k);
    warmd_get(alice, 1, "secret", true, 0);
    warmd_expect_lease(alice, 1);
    char *hers = stats_of(alice), *his = stats_of(bob), *all = stats_of(admin);
    cr_assert_not_null(strstr(hers, "\"label\": \"secret\", \"uid\": 4201, \"by\": \"client\""),
                       "%s", hers);
    cr_assert_not_null(strstr(his, "\"making\": []"), "%s", his);
    cr_assert_not_null(strstr(all, "\"uid\": 4201"), "%s", all);
    free(hers);
    free(his);
    free(all);
    close(alice);
    close(bob);
    close(admin);
    warmd_down(&k);
}
