/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec_graph.c - `warm exec`: runs a compiled graph on this machine's GPU, by libexec/warm/warm-exec. A static program
 * cannot load the CUDA driver, so this one only has the help and finds the other. main.c calls it.
 *
 * Thread: main.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/cli.h"
#include "client/cli/run/run.h"

static int exec_run(const struct command *self, int argc, char **argv)
{
    struct run_places places;
    char program[PATH_MAX + 32];
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return cli_help(self);
    if (argc < 2)
        return cli_usage(self, "no bundle given");
    if (!run_places_fill(&places, "")) {
        cli_say("cannot find the folder of this program");
        return CLI_USAGE;
    }
    snprintf(program, sizeof program, "%s/libexec/warm/warm-exec", places.prefix);
    execv(program, argv);
    cli_say("%s: %s", program, strerror(errno));
    return CLI_USAGE;
}

const struct command cmd_exec = {
    .name = "exec",
    .run = exec_run,
    .summary = "Run a compiled graph on this machine's GPU, or on the CPU",
    .synopsis = "BUNDLE [INPUT...] [-o FOLDER] [--device cpu] [--check] [--repeat N] [--json]",
    .help =
        "BUNDLE is what `warm compile MODEL.mlir` wrote. Give an INPUT for each argument, in "
        "order:\n"
        "a .npy file, a file of its elements alone, or =NUMBER for a tensor of equal elements. "
        "With\n"
        "--vjp the cotangents follow the arguments: =1 for a loss.\n"
        "\n"
        "  -o, --output FOLDER  write the results to FOLDER/0.npy, FOLDER/1.npy, …; without it\n"
        "                       print the first elements of each\n"
        "  --repeat N           run it N times more and print the mean time: as one CUDA graph,\n"
        "                       or launch by launch if a loop makes more than 4096 launches\n"
        "  --device cpu         run the graph that was compiled by an interpreter, without a GPU: "
        "slow\n"
        "  --check              compare the GPU's results with those of that interpreter\n"
        "  --json               print device and times as one JSON object\n"
        "\n"
        "Exit status: 0 done, 1 no GPU that can run it or a fault there, 2 usage or unusable\n"
        "input.\n"
        "\n"
        "Example:\n"
        "  $ warm compile mlp.mlir --vjp --arch sm_90 -o mlp.bundle\n"
        "  $ warm exec mlp.bundle w.npy b.npy x.npy y.npy =1 -o results\n",
};
