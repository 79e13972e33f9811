/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hash_command.c - `warm hash` as a user runs it: output, messages, exit statuses.
 *
 * The program is bin/warm of the build tree that this test stands in (or $WARM_BIN).
 */
#include <criterion/criterion.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "keygen/key.h"
#include "tests/support/support.h"

#define ARGS_MAX 12

/* The output and the exit status of a command. */
struct outcome {
    char *out, *err;
    int status;
};

static const char module[] = "HloModule m\n"
                             "ENTRY e {\n"
                             "  p = s32[4]{0} parameter(0)\n"
                             "  ROOT r = s32[4]{0} negate(p)\n"
                             "}\n";

static char *program(void)
{
    const char *given = getenv("WARM_BIN");
    char self[4096] = "";
    if (given)
        return strdup(given);
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    cr_assert_gt(n, 0);
    self[n] = '\0';
    char *path = path_join(dirname(dirname(self)), "bin/warm");
    cr_assert_eq(access(path, X_OK), 0, "%s is not built", path);
    return path;
}

/* Runs `warm ARGS` in `dir`, with `input` (may be NULL) as stdin. */
static struct outcome run_in(const char *dir, const char *input, const char *const *args)
{
    char *warm = program(), *out = path_join(dir, ".out"), *err = path_join(dir, ".err"),
         *in = path_join(dir, ".in");
    const char *argv[ARGS_MAX + 2] = {"warm"};
    for (size_t i = 0; args[i]; i++)
        argv[i + 1] = args[i];
    file_write(in, input ? input : "", input ? strlen(input) : 0);
    pid_t child = fork();
    if (child == 0) {
        if (chdir(dir) || !freopen(in, "r", stdin) || !freopen(out, "w", stdout) ||
            !freopen(err, "w", stderr))
            _exit(99);
        execv(warm, (char *const *)(uintptr_t)argv);
        _exit(98);
    }
    int status = 0;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status), "ended by a signal");
    size_t len;
    struct outcome o = {.status = WEXITSTATUS(status)};
    o.out = file_read(out, &len);
    o.err = file_read(err, &len);
    free(warm);
    free(out);
    free(err);
    free(in);
    return o;
}
#define RUN(dir, input, ...) run_in(dir, input, (const char *const[]){__VA_ARGS__, NULL})

static void outcome_free(struct outcome *o)
{
    free(o->out);
    free(o->err);
}

static char *dir_with_module(void)
{
    char *dir = temp_dir_new(), *path = path_join(dir, "a.hlo");
    file_write(path, module, sizeof module - 1);
    free(path);
    return dir;
}

Test(hash_command, prints_a_key_two_spaces_and_the_name_as_given)
{
    char *dir = dir_with_module();
    struct outcome o = RUN(dir, NULL, "hash", "a.hlo", "./a.hlo");
    struct key key;
    cr_expect_eq(o.status, 0, "%s", o.err);
    cr_assert(key_from_text(o.out, 32, &key), "%s", o.out);
    cr_expect_eq(strncmp(o.out + 32, "  a.hlo\n", 8), 0, "%s", o.out);
    cr_expect_eq(strncmp(o.out + 40, o.out, 32), 0, "the same file has the same key");
    cr_expect_str_eq(o.out + 72, "  ./a.hlo\n");
    outcome_free(&o);
    temp_dir_free(dir);
}

Test(hash_command, reads_stdin_as_a_dash)
{
    char *dir = dir_with_module();
    struct outcome file = RUN(dir, NULL, "hash", "a.hlo"), in = RUN(dir, module, "hash", "-");
    cr_expect_eq(in.status, 0, "%s", in.err);
    cr_expect_eq(strncmp(file.out, in.out, 32), 0);
    cr_expect_str_eq(in.out + 32, "  -\n");
    outcome_free(&file);
    outcome_free(&in);
    temp_dir_free(dir);
}

Test(hash_command, what_cannot_be_used_is_one_line_with_its_place_and_the_others_are_done)
{
    char *dir = dir_with_module(), *bad = path_join(dir, "bad.hlo");
    file_write(bad, "HloModule m\nENTRY e {\n  r = s32[] negate(x)\n}\n", 46);
    struct outcome o = RUN(dir, NULL, "hash", "bad.hlo", "none.hlo", "a.hlo");
    cr_expect_eq(o.status, 2);
    cr_expect_eq(strncmp(o.err, "warm: bad.hlo:3:20: ", 20), 0, "%s", o.err);
    char *second = strchr(o.err, '\n');
    cr_assert_not_null(second);
    cr_expect_eq(strncmp(second, "\nwarm: none.hlo:0:0: ", 21), 0, "%s", second);
    cr_expect_str_eq(o.out + 32, "  a.hlo\n");
    outcome_free(&o);
    free(bad);
    temp_dir_free(dir);
}

Test(hash_command, explains_with_the_canonical_form_alone)
{
    char *dir = dir_with_module(), *renamed = path_join(dir, "b.hlo");
    static const char same[] = "HloModule n\n"
                               "ENTRY main.2 {\n"
                               "  y.7 = s32[4]{0} parameter(0)\n"
                               "  ROOT x.1 = s32[4]{0} negate(y.7)\n"
                               "}\n";
    file_write(renamed, same, sizeof same - 1);
    struct outcome a = RUN(dir, NULL, "hash", "--explain", "a.hlo"),
                   b = RUN(dir, NULL, "hash", "--explain", "b.hlo");
    cr_expect_str_eq(a.out, b.out);
    cr_expect_not_null(strstr(a.out, "negate"), "%s", a.out);
    cr_expect_str_eq(a.err, "");
    outcome_free(&a);
    outcome_free(&b);
    free(renamed);
    temp_dir_free(dir);
}

Test(hash_command, says_when_the_exact_bytes_were_used)
{
    char *dir = temp_dir_new(), *path = path_join(dir, "x.mlirbc");
    static const char later[] = "ML\xefR\xff"
                                "later";
    file_write(path, later, sizeof later);
    struct outcome o = RUN(dir, NULL, "hash", "--explain", "x.mlirbc");
    cr_expect_eq(o.status, 0, "%s", o.err);
    cr_expect_not_null(strstr(o.err, "exact bytes"), "%s", o.err);
    outcome_free(&o);
    free(path);
    temp_dir_free(dir);
}

Test(hash_command, json_is_an_array_of_objects_whatever_the_names)
{
    char *dir = temp_dir_new(), *path = path_join(dir, "q\"\\\xff\n.hlo");
    file_write(path, module, sizeof module - 1);
    struct outcome o = RUN(dir, NULL, "hash", "--json", "q\"\\\xff\n.hlo");
    cr_expect_eq(o.status, 0, "%s", o.err);
    cr_expect_eq(strncmp(o.out, "[{\"schema\":1,\"key\":\"", 20), 0, "%s", o.out);
    cr_expect_not_null(strstr(o.out, "\",\"file\":\"q\\\"\\\\\\ufffd\\n.hlo\",\"kind\":\"hlo\","
                                     "\"exact\":false,\"sha256\":\""),
                       "%s", o.out);
    cr_expect_str_eq(o.out + strlen(o.out) - 4, "\"}]\n");
    outcome_free(&o);
    free(path);
    temp_dir_free(dir);
}

Test(hash_command, kind_is_found_or_given)
{
    char *dir = dir_with_module();
    struct outcome found = RUN(dir, NULL, "hash", "a.hlo"),
                   given = RUN(dir, NULL, "hash", "--kind", "hlo", "a.hlo"),
                   raw = RUN(dir, NULL, "hash", "--kind=raw", "a.hlo"),
                   wrong = RUN(dir, NULL, "hash", "--kind=noise", "a.hlo");
    cr_expect_str_eq(found.out, given.out);
    cr_expect_str_neq(found.out, raw.out);
    cr_expect_eq(wrong.status, 2);
    cr_expect_str_eq(wrong.out, "");
    outcome_free(&found);
    outcome_free(&given);
    outcome_free(&raw);
    outcome_free(&wrong);
    temp_dir_free(dir);
}

Test(hash_command, a_wrong_command_line_is_status_2_and_help_is_0)
{
    char *dir = temp_dir_new();
    struct outcome none = RUN(dir, NULL, "hash"), unknown = RUN(dir, NULL, "hash", "--nonsense"),
                   value = RUN(dir, NULL, "hash", "--kind"),
                   help = RUN(dir, NULL, "hash", "--help"), version = RUN(dir, NULL, "--version"),
                   command = RUN(dir, NULL, "nonsense");
    cr_expect_eq(none.status, 2);
    cr_expect_eq(unknown.status, 2);
    cr_expect_not_null(strstr(unknown.err, "--nonsense"), "%s", unknown.err);
    cr_expect_eq(value.status, 2);
    cr_expect_eq(help.status, 0);
    cr_expect_not_null(strstr(help.out, "Example"), "%s", help.out);
    cr_expect_eq(version.status, 0);
    cr_expect_eq(strncmp(version.out, "warm ", 5), 0);
    cr_expect_eq(command.status, 2);
    struct outcome all[] = {none, unknown, value, help, version, command};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        outcome_free(&all[i]);
    temp_dir_free(dir);
}

Test(hash_command, a_large_file_has_the_key_of_the_same_bytes_on_stdin)
{
    char *dir = temp_dir_new(), *path = path_join(dir, "big.hlo");
    size_t n = 200000, len = 0;
    char *text = malloc(n * 4 + 200);
    len += (size_t)sprintf(text, "HloModule m\nENTRY e {\n  ROOT c = s32[%zu]{0} constant({", n);
    for (size_t i = 0; i < n; i++)
        len += (size_t)sprintf(text + len, i ? ", %d" : "%d", (int)(i % 10));
    len += (size_t)sprintf(text + len, "})\n}\n");
    file_write(path, text, len);
    struct outcome file = RUN(dir, NULL, "hash", "big.hlo"), in = RUN(dir, text, "hash", "-");
    cr_expect_eq(file.status, 0, "%s", file.err);
    cr_expect_eq(strncmp(file.out, in.out, 32), 0);
    outcome_free(&file);
    outcome_free(&in);
    free(text);
    free(path);
    temp_dir_free(dir);
}
