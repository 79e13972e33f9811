/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_plan_memory.c - planning a graph without memory: each allocation fails once. A plan that is stored is
 * used by others, so there must be none that lacks a part (tests/programs/plan_memory.c).
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/jax_graphs.h"
#include "tests/support/support.h"

/* Expects that no plan of a module is wrong. */
static void is_sound(const char *path, const char *mode)
{
    char *out, *program = bin_path("plan_memory");
    int status = run_command(&out, "%s %s %s 2>&1", program, path, mode);
    cr_expect_eq(status, 0, "%s %s: %d", path, mode, status);
    cr_expect_str_eq(out, "0, 0 wrong, many errors\n", "%s %s: %s", path, mode, out);
    free(out);
    free(program);
}

Test(plan_memory, a_plan_of_a_model_is_whole_or_an_error)
{
    is_sound("kernels/examples/mlp_1_16_1.mlir", "forward");
    is_sound("kernels/examples/mlp_1_16_1.mlir", "vjp");
    is_sound("kernels/examples/mlp_1_16_1.mlir", "adam");
}

Test(plan_memory, a_plan_of_loops_is_whole_or_an_error)
{
    static const char *const NAMES[] = {"nested", "counted", "random_200"};
    char *folder = temp_dir_new();
    struct jax_graph *graphs;
    size_t n = jax_graphs_read(&graphs), n_done = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < 3; k++) {
            if (strcmp(graphs[i].name, NAMES[k]) != 0)
                continue;
            char *path = path_join(folder, NAMES[k]);
            file_write(path, graphs[i].module, graphs[i].module_len);
            is_sound(path, "forward");
            is_sound(path, "vjp");
            free(path);
            n_done++;
        }
    cr_expect_eq(n_done, (size_t)3);
    temp_dir_free(folder);
}
