/* SPDX-License-Identifier: Apache-2.0 */
/* test_cli.c - what all commands share: options that are none, messages, and inputs of any size and kind. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/cli.h"
#include "tests/support/printed.h"
#include "tests/support/support.h"

static const struct command self = {
    .name = "x", .synopsis = "[FILE]", .summary = "Does it", .help = "  -h, --help\n"};

TestSuite(cli, .init = printed_setup, .fini = printed_teardown, .timeout = 120);

/* ---- messages ---- */

Test(cli, messages_name_the_command)
{
    cr_expect_eq(cli_help(&self), CLI_OK);
    printed_expect("Usage: warm x [FILE]\n\nDoes it.\n\n  -h, --help\n");
    cr_expect_eq(cli_usage(&self, "no %s", "file"), CLI_USAGE);
    printed_expect("warm x: no file (see `warm x --help`)\n");
    cli_say("%d%%", 5);
    printed_expect("warm: 5%\n");
}

/* ---- options ---- */

static bool json;
static const char *output, *socket_path;

/* Reads the words. Returns true if the command goes on. */
static bool options(char *const *words, int *status)
{
    const struct cli_option rows[] = {{"json", '\0', NULL, &json, NULL},
                                      {"output", 'o', cli_take_text, &output, "a file"},
                                      {"socket", '\0', cli_take_text, &socket_path, "a path"},
                                      {0}};
    char *argv[8] = {0};
    int argc = 1;
    argv[0] = (char *)(uintptr_t) "x";
    for (; words[argc - 1]; argc++)
        argv[argc] = words[argc - 1];
    optind = 0;
    json = false;
    output = socket_path = NULL;
    *status = -1;
    return cli_options(&self, argc, argv, rows, status);
}

#define OPTIONS(...) options((char *[]){__VA_ARGS__, NULL}, &status)

Test(cli, options_are_read_in_both_spellings)
{
    static char j[] = "--json", o[] = "-o", v[] = "v", o_value[] = "-ov",
                socket_value[] = "--socket=/s", file[] = "file", end[] = "--",
                abbreviated[] = "--js";
    int status;
    cr_expect(OPTIONS(j) && json && status == -1);
    cr_expect(OPTIONS(abbreviated) && json && status == -1);
    cr_expect(OPTIONS(o, v) && status == -1);
    cr_expect_str_eq(output, "v");
    cr_expect(OPTIONS(o_value) && status == -1);
    cr_expect_str_eq(output, "v");
    cr_expect(OPTIONS(socket_value) && status == -1);
    cr_expect_str_eq(socket_path, "/s");
    cr_expect(OPTIONS(file) && !json && status == -1);
    cr_expect(OPTIONS(end, j) && !json && status == -1);
    printed_expect("");
}

Test(cli, an_option_that_is_none_is_named)
{
    static char wrong[] = "--wrong", w[] = "-w", o[] = "-o", socket_option[] = "--socket",
                help[] = "--help", json_value[] = "--json=1", j[] = "--json", file[] = "file",
                cluster[] = "-wo";
    int status;
    cr_expect(!OPTIONS(wrong) && status == CLI_USAGE);
    printed_expect("warm x: unknown option --wrong (see `warm x --help`)\n");
    cr_expect(!OPTIONS(j, w) && status == CLI_USAGE);
    printed_expect("warm x: unknown option -w (see `warm x --help`)\n");
    cr_expect(!OPTIONS(o) && status == CLI_USAGE);
    printed_expect("warm x: option -o needs a value (see `warm x --help`)\n");
    cr_expect(!OPTIONS(socket_option) && status == CLI_USAGE);
    printed_expect("warm x: option --socket needs a value (see `warm x --help`)\n");
    cr_expect(!OPTIONS(json_value) && status == CLI_USAGE);
    printed_expect("warm x: unknown option --json=1: did you mean --json? (see `warm x --help`)\n");
    cr_expect(!OPTIONS(file, wrong) && status == CLI_USAGE);
    printed_expect("warm x: unknown option --wrong (see `warm x --help`)\n");
    cr_expect(!OPTIONS(j, cluster) && status == CLI_USAGE);
    printed_expect("warm x: unknown option -wo (see `warm x --help`)\n");
    cr_expect(!OPTIONS(help) && status == CLI_OK);
    printed_expect("Usage: warm x [FILE]\n\nDoes it.\n\n  -h, --help\n");
}

/* ---- inputs ---- */

static uint8_t *bytes_of(size_t len)
{
    uint8_t *data = malloc(len + 1);
    for (size_t i = 0; i < len; i++)
        data[i] = (uint8_t)(i * 31 ^ i >> 9);
    return data;
}

static void expect_input(const char *path, const uint8_t *want, size_t len, bool mapped)
{
    struct cli_input in;
    cr_assert_eq(cli_input_open(&in, path), 0, "%zu", len);
    cr_expect(in.len == len && memcmp(in.data, want, len) == 0, "%zu bytes", len);
    cr_expect_eq(in.mapped, mapped, "%zu bytes", len);
    cli_input_close(&in);
    cr_expect(!in.data && !in.len && !in.mapped);
    cli_input_close(&in);
}

Test(cli, a_file_of_any_size_is_read)
{
    static const size_t lens[] = {0, 1, 65536, 262143, 262144, 262145, 5000000};
    char *path = path_join(printed_folder, "in");
    uint8_t *data = bytes_of(5000000);
    for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
        file_write(path, data, lens[i]);
        expect_input(path, data, lens[i], lens[i] >= 262144);
    }
    free(data), free(path);
}

struct feed {
    const uint8_t *data;
    size_t len;
    int fd;
};

static void *feed_main(void *arg)
{
    struct feed *f = arg;
    for (size_t at = 0; at < f->len;) {
        ssize_t n = write(f->fd, f->data + at, f->len - at);
        cr_assert_gt(n, 0);
        at += (size_t)n;
    }
    close(f->fd);
    return NULL;
}

Test(cli, standard_input_of_any_size_is_read)
{
    static const size_t lens[] = {0, 1, 65535, 65536, 65537, 300000};
    uint8_t *data = bytes_of(300000);
    for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
        int ends[2];
        pthread_t thread;
        cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
        cr_assert_eq(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
        close(ends[0]);
        struct feed f = {data, lens[i], ends[1]};
        cr_assert_eq(pthread_create(&thread, NULL, feed_main, &f), 0);
        expect_input("-", data, lens[i], false);
        pthread_join(thread, NULL);
    }
    free(data);
}

Test(cli, an_input_that_cannot_be_read_is_its_errno)
{
    struct cli_input in;
    cr_expect_eq(cli_input_open(&in, "/nonexistent"), ENOENT);
    cr_expect_eq(cli_input_open(&in, ""), ENOENT);
    cr_expect_eq(cli_input_open(&in, printed_folder), EISDIR);
    cr_expect_eq(cli_input_open(&in, "/dev/zero"), CLI_INPUT_NO_FILE, "it has no end");
    char *fifo = path_join(printed_folder, "fifo");
    cr_assert_eq(mkfifo(fifo, 0600), 0);
    cr_expect_eq(cli_input_open(&in, fifo), CLI_INPUT_NO_FILE, "it does not hang");
    unlink(fifo);
    free(fifo);
    close(STDIN_FILENO);
    cr_expect_eq(cli_input_open(&in, "-"), EBADF);
}

Test(cli, a_file_without_a_size_is_read)
{
    struct cli_input in;
    cr_assert_eq(cli_input_open(&in, "/proc/self/cmdline"), 0);
    cr_expect(in.len > 0 && !in.mapped);
    cli_input_close(&in);
}
