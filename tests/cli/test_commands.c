/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_commands.c - what each command has: a help with an example, its place in the manual and in the completions,
 * and JSON if it prints data. The commands are those of cli_commands, as `warm --help` lists them; one that the table
 * below does not know fails.
 *
 * Two commands need a toolchain in $WARM_TOOLCHAIN, or beside the tests' folder, or else are not run.
 */
#include <ctype.h>

#include "tests/support/warmd.h"

/* How a command is tried on a daemon that has the entry "name", after those above it. */
static const struct tried {
    const char *name, *arguments;
    int status;
    bool prints_data; /* --json, or for the report --format json, makes it print JSON */
    bool needs_nvrtc;
} table[] = {
    {"run", "true", 0, false, false},
    {"put", "name v --json", 0, true, false},
    {"get", "name -o out --json", 0, true, false},
    {"hash", "k.cu --json", 0, true, false},
    {"compile", "k.cu --arch sm_90 -o k.cubin --json", 0, true, true},
    {"exec", "absent.bundle --json", 2, false, false}, /* a GPU: test_exec.c has a stand-in */
    {"ls", "--json", 0, true, false},
    {"show", "name --json", 0, true, false},
    {"stats", "--json", 0, true, false},
    {"top", "--count 1 --delay 1s --json", 0, true, false},
    {"why", "--session s --json", 0, true, false},
    {"report", "--session s --format json", 0, true, false},
    {"pin", "name --json", 0, true, false},
    {"unpin", "name --json", 0, true, false},
    {"export", "a.warm --json", 0, true, false},
    {"verify", "--json", 0, true, false},
    {"evict", "--kind other --json", 0, true, false},
    {"import", "a.warm --json", 0, true, false},
    {"rm", "name --json", 0, true, false},
    {"clear", "--yes --json", 0, true, false},
    {"config", "show --json", 0, true, false},
    {"daemon", "status --json", 0, true, false},
    {"toolchain", "list --json", 0, true, true},
    {"tier", "status --json", 0, true, false},
    {"doctor", "--json", 0, true, false},
    {"ping", "--json", 0, true, false},
    {"events", "--once", 0, false, false},
    {"completion", "bash", 0, false, false},
    {"tool", "-- true", 0, false, false},
};
#define N_TRIED (sizeof table / sizeof *table)

static struct warmd k;
static char *lib;

/* A daemon with a tier, and a session of which `why` and `report` know something. */
static void up(void)
{
    char *out, *warm = bin_path("warm"), *tier;
    k = warmd_new();
    lib = toolchain_lib("13.5.37");
    cr_assert_gt(asprintf(&tier, "file://%s/tier", k.dir), 0);
    char *key = path_join(k.dir, "tier.key");
    char *options[] = {"--tier", tier, "--tier-key", key, lib ? "--nvrtc" : NULL, lib, NULL};
    cr_assert_eq(run_command(&out,
                             "cd %s && %s tier keygen test tier.key && mkdir tier && echo 1 >v && "
                             "echo '__global__ void k() {}' "
                             ">k.cu 2>&1",
                             k.dir, warm),
                 0, "%s", out);
    free(out);
    warmd_start(&k, options);
    run_command(&out, "cd %s && WARM_SOCKET=%s WARM_SESSION=s %s run %s get none -o out 2>&1",
                k.dir, k.socket, warm, warm);
    free(out), free(warm), free(tier), free(key);
}

static void down(void)
{
    warmd_down(&k);
    free(lib);
}

TestSuite(commands, .init = up, .fini = down, .timeout = 300);

/* Runs `warm ARGUMENTS | FILTER` in the kit's folder. */
static int warm(char **out, const char *arguments, const char *filter)
{
    char *program = bin_path("warm");
    int status = run_command(out,
                             "cd %s && export WARM_SOCKET=%s HOME=$PWD; "
                             "%s %s %s",
                             k.dir, k.socket, program, arguments, filter);
    free(program);
    return status;
}

static const struct tried *find(const char *name)
{
    for (size_t i = 0; i < N_TRIED; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

/* Calls `each` for the commands that `warm --help` lists. */
static void for_each(void (*each)(const char *name))
{
    char *out, *line, *rest, name[32];
    unsigned n = 0;
    cr_assert_eq(warm(&out, "--help", ""), 0, "%s", out);
    for (line = strtok_r(out, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (sscanf(line, "  %31[a-z]", name) == 1 && strncmp(line, "  ", 2) == 0) {
            each(name);
            n++;
        }
    cr_expect_eq(n, N_TRIED, "the table has %zu commands, the help %u", N_TRIED, n);
    free(out);
}

static void has_help(const char *name)
{
    char *out, line[64];
    snprintf(line, sizeof line, "%s --help", name);
    cr_expect_eq(warm(&out, line, ""), 0, "%s", name);
    cr_expect(strncmp(out, "Usage: warm ", 12) == 0 && strstr(out, "\nExample"), "%s: %s", name,
              out);
    const struct tried *t = find(name);
    bool has_json = strstr(out, "--json") || strstr(out, "--format");
    cr_expect(t && (!t->prints_data || has_json), "%s has no --json", name);
    free(out);
}

Test(commands, each_has_a_help_with_an_example) { for_each(has_help); }

static void is_in_the_manual(const char *name)
{
    char *out;
    int status = run_command(
        &out, "grep -cE '^\\.It (Cm|Xo Cm) (.* , Cm )?%s( |$)' client/man/warm.1", name);
    cr_expect_eq(status, 0, "warm.1 has no item for %s", name);
    free(out);
}

Test(commands, each_is_in_the_manual) { for_each(is_in_the_manual); }

static void is_completed(const char *name)
{
    char filter[64], *out;
    snprintf(filter, sizeof filter, "| grep -c '^%s\t'", name);
    cr_expect_eq(warm(&out, "completion --words -- '' '' ''", filter), 0, "%s is not completed",
                 name);
    free(out);
}

Test(commands, each_is_completed) { for_each(is_completed); }

static void is_known(const char *name)
{
    cr_expect(find(name), "%s is in no row of the table", name);
}

/* Runs the table from top to bottom on one daemon. */
Test(commands, each_runs_and_prints_json_if_it_prints_data)
{
    for_each(is_known);
    for (size_t i = 0; i < N_TRIED; i++) {
        const struct tried *t = &table[i];
        char line[256], *out;
        if (t->needs_nvrtc && !lib)
            continue;
        snprintf(line, sizeof line, "%s %s </dev/null", t->name, t->arguments);
        int status = warm(&out, line, t->prints_data ? "2>told" : "2>&1");
        cr_expect_eq(status, t->status, "warm %s: %d, not %d: %s", line, status, t->status, out);
        free(out);
        if (!t->prints_data)
            continue;
        status = warm(&out, line,
                      "2>told | python3 -c 'import json, sys; [json.loads(l) for l in "
                      "[sys.stdin.read()] if l.strip()] or exit(5)' 2>&1");
        cr_expect_eq(status, 0, "warm %s prints no JSON: %s", line, out);
        free(out);
    }
}
