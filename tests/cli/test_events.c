/* SPDX-License-Identifier: Apache-2.0 */
/* test_events.c - `warm events`: what happens in the daemon, as it happens. */
#include "tests/support/warmd.h"

static char *warm(const struct warmd *k, const char *arguments)
{
    char *out, *program = bin_path("warm");
    int status = run_command(&out, "WARM_SOCKET=%s %s %s 2>&1", k->socket, program, arguments);
    cr_expect_eq(status, 0, "warm %s: %s", arguments, out);
    free(program);
    return out;
}

/* Expects that `warm events` prints these pieces in this order; a line has each once. */
static void expect_events(const struct warmd *k, const char *arguments, const char *const *pieces)
{
    char *out = warm(k, arguments), *at = out;
    for (; *pieces; pieces++) {
        char *found = strstr(at, *pieces);
        cr_expect(found, "warm %s: no %s in %s", arguments, *pieces, at);
        at = found ? found + 1 : at;
    }
    free(out);
}

static void use(const struct warmd *k, uid_t uid)
{
    int fd = uid ? warmd_native_as(k, uid) : warmd_native(k);
    warmd_get(fd, 1, "absent", false, 0);
    warmd_expect(fd, 1, WIRE_MISS);
    warmd_put(fd, 2, "a\x1b[2J", "a value", 0);
    warmd_expect(fd, 2, WIRE_OK);
    warmd_get(fd, 3, "a\x1b[2J", false, 0);
    warmd_expect_hit(fd, 3, "a value");
    close(fd);
}

Test(events, each_is_a_line_in_the_order_in_which_it_happened)
{
    struct warmd k = warmd_up(NULL);
    use(&k, 0);
    free(warm(&k, "evict --min-size 1B"));
    use(&k, 0);
    expect_events(&k, "events --once",
                  (const char *[]){"\"event\": \"miss\"", "\"label\": \"absent\"",
                                   "\"event\": \"put\"", "\"event\": \"hit\"",
                                   "\"event\": \"left\"", "evicted by `warm evict`",
                                   "\"event\": \"hit\"", NULL});
    char *out = warm(&k, "events --once");
    cr_expect_null(strchr(out, 0x1b), "labels must not steer the terminal");
    free(out);
    out = warm(&k, "events --once --event put");
    cr_expect(!strstr(out, "\"hit\"") && strstr(out, "\"put\""), "%s", out);
    free(out);
    warmd_down(&k);
}

/* A name that no line will have would wait for ever. */
Test(events, unknown_name_is_refused)
{
    struct warmd k = warmd_up(NULL);
    char *out, *program = bin_path("warm");
    const char *const options[] = {"--event misses", "--kind cubins"};
    for (size_t i = 0; i < 2; i++) {
        int status = run_command(&out, "WARM_SOCKET=%s %s events --once %s 2>&1", k.socket, program,
                                 options[i]);
        cr_expect_eq(status, 2, "%s: %s", options[i], out);
        cr_expect(strstr(out, "unknown"), "%s", out);
        free(out);
    }
    free(program);
    warmd_down(&k);
}

Test(events, one_that_was_lost_is_counted)
{
    struct warmd k = warmd_up(NULL);
    int fd = warmd_native(&k);
    for (uint64_t n = 1; n <= 4106; n++) {
        warmd_get(fd, n, "absent", false, 0);
        warmd_expect(fd, n, WIRE_MISS);
    }
    close(fd);
    expect_events(&k, "events --once",
                  (const char *[]){"{\"event\": \"dropped\", \"n\": 10}", NULL});
    warmd_down(&k);
}

Test(events, follower_sees_what_happens_later_and_nothing_from_before)
{
    struct warmd k = warmd_up(NULL);
    char *lines = path_join(k.dir, "lines"), *program = bin_path("warm"), *seen = NULL;
    int fd = warmd_native(&k);
    warmd_get(fd, 1, "before", false, 0);
    warmd_expect(fd, 1, WIRE_MISS);
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        dup2(open(lines, O_WRONLY | O_CREAT | O_CLOEXEC, 0600), STDOUT_FILENO);
        execl(program, program, "events", "--socket", k.socket, (char *)NULL);
        _exit(127);
    }
    for (uint64_t end = clock_now_ms() + WARMD_WAIT_MS; clock_now_ms() < end; usleep(50000)) {
        size_t len;
        warmd_get(fd, 2, "later", false, 0);
        warmd_expect(fd, 2, WIRE_MISS);
        free(seen);
        seen = access(lines, F_OK) == 0 ? file_read(lines, &len) : NULL;
        if (seen && strstr(seen, "\"label\": \"later\""))
            break;
    }
    cr_expect(seen && strstr(seen, "\"label\": \"later\""), "%s", seen);
    cr_expect(seen && !strstr(seen, "before"), "%s", seen);
    kill(pid, SIGTERM);
    warmd_reap(pid);
    close(fd);
    free(seen), free(lines), free(program);
    warmd_down(&k);
}

#define BOB 12345u

Test(events, user_sees_the_own_ones_alone)
{
    NEEDS_TWO_USERS();
    struct warmd k = warmd_up(NULL);
    use(&k, 0);
    int fd = warmd_native_as(&k, BOB);
    struct writer w;
    struct warmd_frame f;
    struct wire_text text;
    writer_init(&w, 0);
    wire_put_history(&w, 7,
                     &(struct wire_history){.of = WIRE_HISTORY_FEED, .id = view_of_text("0")});
    warmd_flush(fd, &w);
    warmd_frame(fd, &f, WIRE_TEXT, 7);
    cr_assert_eq(wire_get_text(&f.frame, &text, NULL), 0);
    cr_expect(text.text.len < 60, "Bob did nothing: %.*s", (int)text.text.len,
              (const char *)text.text.data);
    close(fd);
    warmd_down(&k);
}
