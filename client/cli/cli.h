/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli.h - shared by the commands of `warm`: the table's entry, exit statuses, options, inputs.
 *
 * One command is one file, client/cli/commands/NAME.c, which defines one `struct command`; main.c
 * lists them, finds the command by its name, and returns its exit status. To add a command: write
 * the file, declare its struct at the end of this header, add it to the table in main.c.
 *
 * Every command does three things alike: `--help` prints its help on stdout and exits 0; a wrong
 * option is one line on stderr and exit status 2; messages are one line, "warm: ...", on stderr.
 *
 * Thread: main. Memory: as each function says.
 */
#ifndef WARM_CLI_CLI_H
#define WARM_CLI_CLI_H

#include <getopt.h> /* optind */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keygen/bytes.h"

enum cli_exit {
    CLI_OK = 0,
    CLI_FINDING = 1, /* a miss, or a fault that was found: scripts branch on it */
    CLI_USAGE = 2,   /* a wrong command line, or unusable input */
    CLI_NO_DAEMON = 3,
};

struct command {
    const char *name;
    /* argv[0] is the command's name; returns an exit status. */
    int (*run)(const struct command *self, int argc, char **argv);
    const char *summary;  /* one line of `warm --help`, no full stop */
    const char *synopsis; /* the text after "warm NAME " */
    const char *help;     /* options and an example, ends with a newline */
    bool takes_program;   /* its options end before the first word that is none */
    bool takes_nothing;   /* but options */
};

/* Prints a command's help on stdout. Returns CLI_OK. */
int cli_help(const struct command *c);

/* Prints "warm NAME: MESSAGE", and where to read more, on stderr. Returns CLI_USAGE. */
int cli_usage(const struct command *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Prints a text of anybody to stdout: it must not steer the terminal (keygen/shown.h). */
void cli_print(struct view text);
/* Prints "warm: MESSAGE" on stderr. */
void cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* An option of a command. `take` reads its value into *to: false if it is no such value. Without `take` the option has
 * no value, and sets the bool at `to`; without `what` it has none, either, and `take` gets NULL. */
struct cli_option {
    const char *name; /* "to-size" */
    char letter;      /* '\0': none */
    bool (*take)(const char *value, void *to);
    void *to;
    const char *what; /* its value is "a size with a unit, like 10G" */
};
/* Reads the options of a command; `options` ends with a row of zeroes, and --help is in none. optind is the first
 * argument then. False if the command ends here, with its exit status: help was printed, or an error. */
bool cli_options(const struct command *c, int argc, char **argv, const struct cli_option *options,
                 int *out_status);

/* Takes any text: *to is a const char *, and points to it. */
bool cli_take_text(const char *value, void *to);
/* Takes a number from 0 on; *to is a uint64_t, as below. */
bool cli_take_count(const char *value, void *to);
/* Takes a size, in bytes. */
bool cli_take_size(const char *value, void *to);
/* Takes a span of time, in ms. */
bool cli_take_span(const char *value, void *to);
#define CLI_COUNT "a number"
#define CLI_SIZE "a size with a unit, like 64K or 10G"
#define CLI_SPAN "a span of time like 12h or 7d"

/* A whole file or stdin in memory. Small files are read; large ones are mapped, so that 500 MB cost
 * no copy. */
struct cli_input {
    const uint8_t *data;
    size_t len; /* bytes */
    bool mapped;
};

/* Opens `path`, "-" for stdin. Returns 0, or the errno that stopped it. On success the caller
 * closes it with cli_input_close. */
int cli_input_open(struct cli_input *in, const char *path);
#define CLI_INPUT_NO_FILE                                                                          \
    (-1) /* a device, a socket or a FIFO: it may have no end, or never begin */
/* Returns the text of what cli_input_open returned. Static memory. */
const char *cli_input_text(int error);
/* Unmaps or frees the input. */
void cli_input_close(struct cli_input *in);

/* Makes `all`, with `n` commands, the list that cli_commands returns. main calls it first. */
void cli_set_commands(const struct command *const *all, size_t n);
/* Returns every command, in the order of `warm --help`. */
const struct command *const *cli_commands(size_t *out_n);

extern const struct command cmd_compile, cmd_hash, cmd_get, cmd_put, cmd_ls, cmd_show, cmd_stats,
    cmd_run, cmd_why, cmd_rm, cmd_evict, cmd_pin, cmd_unpin, cmd_verify, cmd_clear, cmd_doctor,
    cmd_ping, cmd_completion, cmd_tool, cmd_import, cmd_export, cmd_config, cmd_daemon, cmd_top,
    cmd_toolchain, cmd_report, cmd_tier, cmd_exec, cmd_events;

/* The end of a word behind a number: "1 hit", "2 hits"; "1 miss", "2 misses". */
#define CLI_S(n) ((n) == 1 ? "" : "s")
#define CLI_ES(n) ((n) == 1 ? "" : "es")

#endif
