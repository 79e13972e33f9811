/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli.c - help, usage errors, options and inputs, the same for every command of `warm`. Each file
 * of commands/ calls it; cli.h has the contract.
 *
 * Thread: main.
 */
#include "client/cli/cli.h"
#include "client/cli/units.h"
#include "keygen/misspelt.h"
#include "keygen/quantity.h"
#include "keygen/shown.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* A larger file is mapped; for a smaller one, one read is cheaper than page faults. */
#define MAP_FROM_BYTES ((size_t)256 * 1024)
/* First size of the buffer for inputs without a size: pipes, /proc. */
#define PIPE_START_BYTES ((size_t)64 * 1024)
#define OPTIONS_MAX 32         /* of one command */
#define FIRST_LONG 0x100       /* above all letters */
#define INPUT_MAX (2ull << 30) /* bytes that are read into memory: standard input may have no end */

static const struct command *const *commands;
static size_t n_commands;

void cli_set_commands(const struct command *const *all, size_t n)
{
    assert(all && n && !commands);
    commands = all;
    n_commands = n;
}

const struct command *const *cli_commands(size_t *out_n)
{
    assert(commands);
    *out_n = n_commands;
    return commands;
}

int cli_help(const struct command *c)
{
    assert(c && c->name && c->help);
    printf("Usage: warm %s %s\n\n%s.\n\n%s", c->name, c->synopsis, c->summary, c->help);
    return CLI_OK;
}

void cli_print(struct view text)
{
    char piece[4096];
    const char *at = text.data;
    for (size_t n; text.len; at += n, text.len -= n) {
        n = text.len < sizeof piece ? text.len : sizeof piece;
        memcpy(piece, at, n);
        fwrite(piece, 1, shown_clean(piece, n), stdout);
    }
}

/* Prints a message to stderr. Its arguments may be texts of anybody; line ends are ours only if the format has them. */
static void print_message(const char *format, va_list args)
{
    char *text = NULL;
    if (vasprintf(&text, format, args) < 0)
        return;
    char *end, *at = text;
    for (; strchr(format, '\n') && (end = strchr(at, '\n')); at = end + 1) {
        fwrite(at, 1, shown_clean(at, (size_t)(end - at)), stderr);
        fputc('\n', stderr);
    }
    fwrite(at, 1, shown_clean(at, strlen(at)), stderr);
    free(text);
}

int cli_usage(const struct command *c, const char *format, ...)
{
    assert(c && format);
    va_list args;
    va_start(args, format);
    fprintf(stderr, "warm %s: ", c->name);
    print_message(format, args);
    fprintf(stderr, " (see `warm %s --help`)\n", c->name);
    va_end(args);
    return CLI_USAGE;
}

void cli_say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("warm: ", stderr);
    print_message(format, args);
    fputc('\n', stderr);
    va_end(args);
}

static void unknown_option(const struct command *c, const char *option, const struct option *longs)
{
    char name[64];
    struct misspelt m = {.word = name};
    const char *at = option + strspn(option, "-");
    snprintf(name, sizeof name, "%.*s", (int)strcspn(at, "="), at);
    for (size_t i = 0; longs[i].name && strncmp(option, "--", 2) == 0; i++)
        misspelt_try(&m, longs[i].name);
    if (misspelt_meant(&m))
        cli_usage(c, "unknown option %s: did you mean --%s?", option, misspelt_meant(&m));
    else
        cli_usage(c, "unknown option %s", option);
}

/* Returns what getopt_long returns for the next option. If it is unknown or has no value, prints why and returns '?'. */
static int next_option(const struct command *c, int argc, char **argv, const char *shorts,
                       const struct option *longs)
{
    opterr = 0; /* our own messages: getopt's name neither the command nor its help */
    int at = optind ? optind : 1;
    int got = getopt_long(argc, argv, shorts, longs, NULL);
    if (got == ':')
        cli_usage(c, "option %s needs a value", argv[optind - 1]);
    else if (got == '?' && optopt && optopt < FIRST_LONG && strchr(shorts, optopt))
        cli_usage(c, "option -%c needs a value", optopt);
    else if (got == '?')
        unknown_option(c, argv[optind > at ? optind - 1 : at], longs);
    return got == ':' ? '?' : got;
}

/* Takes an option's value. False if it is none. */
static bool take(const struct command *c, const struct cli_option *o)
{
    if (!o->take)
        *(bool *)o->to = true;
    else if (!o->take(o->what ? optarg : NULL, o->to))
        return cli_usage(c, "--%s %s is not %s", o->name, optarg, o->what), false;
    return true;
}

bool cli_options(const struct command *c, int argc, char **argv, const struct cli_option *options,
                 int *out_status)
{
    struct option longs[OPTIONS_MAX + 2] = {{"help", no_argument, NULL, 'h'}};
    char shorts[3 * OPTIONS_MAX + 8];
    int len = sprintf(shorts, "%s:h", c->takes_program ? "+" : ""), got;
    for (int i = 0; options[i].name; i++) {
        const struct cli_option *o = &options[i];
        bool has_value = o->take && o->what;
        assert(i < OPTIONS_MAX);
        longs[i + 1] = (struct option){o->name, has_value ? required_argument : no_argument, NULL,
                                       FIRST_LONG + i};
        if (o->letter)
            len += sprintf(shorts + len, "%c%s", o->letter, has_value ? ":" : "");
    }
    while ((got = next_option(c, argc, argv, shorts, longs)) != -1) {
        const struct cli_option *o = options + (got < FIRST_LONG ? 0 : got - FIRST_LONG);
        while (got < FIRST_LONG && o->name && o->letter != got)
            o++;
        if (got != 'h' && o->name && take(c, o))
            continue;
        *out_status = got == 'h' ? cli_help(c) : CLI_USAGE;
        return false;
    }
    if (c->takes_nothing && optind < argc)
        *out_status = cli_usage(c, "it takes no arguments");
    return !c->takes_nothing || optind == argc;
}

bool cli_take_text(const char *value, void *to)
{
    *(const char **)to = value;
    return true;
}

bool cli_take_count(const char *value, void *to) { return quantity_count(value, UINT64_MAX, to); }
bool cli_take_size(const char *value, void *to) { return units_parse_size(value, to); }
bool cli_take_span(const char *value, void *to) { return quantity_span(value, to); }

/* Reads fd to its end, or to INPUT_MAX, into malloc'ed memory; `hint` is the expected size. 0 or an errno. */
static int input_read(struct cli_input *in, int fd, size_t hint)
{
    size_t cap = hint, len = 0;
    uint8_t *data = malloc(cap);
    for (;;) {
        if (!data)
            return ENOMEM;
        ssize_t n = read(fd, data + len, cap - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            int error = errno;
            free(data);
            return error;
        }
        if (n == 0)
            break;
        len += (size_t)n;
        if (len > INPUT_MAX) {
            free(data);
            return EFBIG;
        }
        if (len == cap) {
            uint8_t *more = realloc(data, cap *= 2);
            if (!more)
                free(data);
            data = more;
        }
    }
    *in = (struct cli_input){.data = data, .len = len};
    return 0;
}

static int input_map(struct cli_input *in, int fd, size_t len)
{
    void *data = mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        return errno;
    madvise(data, len, MADV_SEQUENTIAL);
    *in = (struct cli_input){.data = data, .len = len, .mapped = true};
    return 0;
}

int cli_input_open(struct cli_input *in, const char *path)
{
    assert(in && path);
    if (strcmp(path, "-") == 0)
        return input_read(in, STDIN_FILENO, PIPE_START_BYTES);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not hold us */
    if (fd < 0)
        return errno;
    struct stat st;
    int error = 0;
    if (fstat(fd, &st) < 0)
        error = errno;
    else if (!S_ISREG(st.st_mode))
        error = S_ISDIR(st.st_mode) ? EISDIR : CLI_INPUT_NO_FILE;
    else if ((size_t)st.st_size >= MAP_FROM_BYTES)
        error = input_map(in, fd, (size_t)st.st_size);
    else
        error = input_read(in, fd, (size_t)st.st_size + 1);
    close(fd);
    return error;
}

const char *cli_input_text(int error)
{
    return error == CLI_INPUT_NO_FILE ? "not a regular file; \"-\" is standard input"
                                      : strerror(error);
}

void cli_input_close(struct cli_input *in)
{
    void *data = (void *)(uintptr_t)in->data;
    if (in->mapped)
        munmap(data, in->len);
    else
        free(data);
    *in = (struct cli_input){0};
}
