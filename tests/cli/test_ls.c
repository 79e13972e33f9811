/* SPDX-License-Identifier: Apache-2.0 */
/* test_ls.c - `warm ls` on a terminal, and the short keys that it prints, with a real daemon. */
#include <pty.h>

#include "tests/support/warmd.h"

static void expect(const struct warmd *k, int status, const char *arguments, const char *text)
{
    char *out, *program = bin_path("warm");
    int got = run_command(&out, "cd %s && WARM_PROJECT=t WARM_SOCKET=%s %s %s 2>&1", k->dir,
                          k->socket, program, arguments);
    cr_assert_eq(got, status, "warm %s: %d: %s", arguments, got, out);
    cr_assert_not_null(strstr(out, text), "warm %s: no `%s` in: %s", arguments, text, out);
    free(out);
    free(program);
}

/* Returns what `warm ls OPTION` prints on a terminal of 80 columns; an empty option is none. */
static char *ls(const struct warmd *k, const char *option)
{
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    char *program = bin_path("warm");
    int fd;
    pid_t pid = forkpty(&fd, NULL, NULL, &size);
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        setenv("WARM_SOCKET", k->socket, 1);
        setenv("NO_COLOR", "1", 1);
        execl(program, program, "ls", *option ? option : NULL, (char *)NULL);
        _exit(127);
    }
    free(program);
    return warmd_read_terminal(fd, pid);
}

static struct warmd entries(void)
{
    struct warmd k = warmd_up(NULL);
    char *path = path_join(k.dir, "v");
    file_write(path, "some value", 10);
    free(path);
    expect(&k, 0, "put old v --kind triton --label the-oldest", "");
    expect(&k, 0, "put part v --kind manifest --group kernel --label its-manifest", "");
    expect(&k, 0, "put kernel v --kind cubin --group kernel --label its-kernel", "");
    expect(&k, 0,
           "put new v --label "
           "'\xc3\xa4 label that is so long that it does not fit a line of this terminal at all'",
           "");
    return k;
}

Test(ls, terminal_gets_the_newest_first_with_a_line_for_each_group)
{
    struct warmd k = entries();
    char *out = ls(&k, "");
    char *newest = strstr(out, "\xc3\xa4 label"), *kernel = strstr(out, "its-kernel +1"),
         *old = strstr(out, "the-oldest");
    cr_assert(newest && kernel && old, "%s", out);
    cr_assert(newest < kernel && kernel < old, "%s", out);
    cr_assert_null(strstr(out, "its-manifest"), "%s", out);
    cr_assert_not_null(strstr(out, "4 entries, 40 B"), "%s", out);
    for (char *line = strtok(out, "\r\n"); line; line = strtok(NULL, "\r\n")) {
        size_t columns = 0;
        for (const char *c = line; *c; c++)
            columns += (*c & 0xc0) != 0x80;
        cr_assert_leq(columns, 80, "%s", line);
    }
    out = ls(&k, "--all");
    cr_assert_not_null(strstr(out, "its-manifest"), "%s", out);
    cr_assert_not_null(strstr(out, "terminal at all"), "%s", out);
    out = ls(&k, "--pinned");
    cr_assert_str_eq(out, "no entries\r\n");
    warmd_down(&k);
}

Test(ls, short_keys_do_for_get_pin_and_rm)
{
    struct warmd k = entries();
    char part[13] = "", arguments[64];
    char *line = strstr(ls(&k, ""), "the-oldest");
    while (line[-1] != '\n')
        line--;
    memcpy(part, line, 12);
    snprintf(arguments, sizeof arguments, "get %s -o -", part);
    expect(&k, 0, arguments, "some value");
    snprintf(arguments, sizeof arguments, "pin %s", part);
    expect(&k, 0, arguments, "pinned 1 entry");
    snprintf(arguments, sizeof arguments, "rm %.7s", part);
    expect(&k, 1, arguments, "not in the cache"); /* seven digits may be a name */
    snprintf(arguments, sizeof arguments, "rm %s", part);
    expect(&k, 0, arguments, "removed 1 entry");
    expect(&k, 1, arguments, "no such entry");
    warmd_down(&k);
}

/* An adapter need not tell what its names say. */
Test(ls, an_entry_without_a_kind_has_that_of_its_name)
{
    struct warmd k = entries();
    expect(&k, 0, "put pt2:autograd-experimental::a:c1 v", "");
    expect(&k, 0, "ls --kind backward", "pt2:autograd-experimental::a:c1");
    expect(&k, 0, "put triton:said v --kind autotune", "");
    expect(&k, 0, "ls --kind autotune", "triton:said");
    warmd_down(&k);
}

Test(ls, stats_tell_the_hit_rate)
{
    struct warmd k = entries();
    expect(&k, 0, "stats", "hit rate                    -");
    expect(&k, 0, "get old -o out", "");
    expect(&k, 0, "get kernel -o out", "");
    expect(&k, 0, "get new -o out", "");
    expect(&k, 1, "get none -o out", "");
    expect(&k, 0, "stats", "hit rate                 75 %         75 %");
    warmd_down(&k);
}

/* Prints all that commands tell of an entry whose texts steer terminals. */
Test(ls, a_label_of_anybody_steers_no_terminal)
{
    static const char *const hostile[] = {"\x9b",         "\xc2\x9b",     "\xc2\x9d",
                                          "\xc2\x85",     "\xe2\x80\xae", "\x1b",
                                          "\xe2\x80\x8b", "\r",           "\nFORGED"};
    static const char *const commands[] = {"ls",
                                           "ls --json",
                                           "ls --all",
                                           "show n",
                                           "show n --json",
                                           "why --last",
                                           "why --last --json",
                                           "stats",
                                           "stats --json",
                                           "evict --dry-run --kind other",
                                           "report -o -"};
    char *out, *program = bin_path("warm"), text[128] = "a";
    struct warmd k = warmd_up(NULL);
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++)
        strcat(strcat(text, hostile[i]), "31m");
    struct warm *w = warmd_libwarm(&k);
    struct warm_put_options options = {.label = text, .hardware = text, .compiler = text};
    cr_assert_eq(warm_put(w, "n", 1, "v", 1, &options), 0, "%s", warm_message(w));
    cr_assert_eq(warm_put(w, text, strlen(text), "v", 1, &options), 0);
    struct warm_value v;
    char missed[140];
    snprintf(missed, sizeof missed, "%sx", text);
    cr_assert_neq(warm_get(w, missed, strlen(missed), 0, &v), 0);
    warm_close(w);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        run_command(&out, "cd %s && WARM_SOCKET=%s %s %s 2>&1", k.dir, k.socket, program,
                    commands[i]);
        cr_expect_gt(strlen(out), 10u, "%s", commands[i]);
        for (size_t h = 0; h < sizeof hostile / sizeof *hostile; h++)
            cr_expect_null(strstr(out, hostile[h]), "warm %s prints number %zu", commands[i], h);
        free(out);
    }
    free(program);
    warmd_down(&k);
}
