/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recipe.c - makes recipes as the daemon's bookkeeping does. The suites of the history call it.
 *
 * Thread: the test's own.
 */
#include "tests/support/recipe.h"

#include <criterion/criterion.h>

#include "daemon/history/recipe.h"

void recipe_make(struct writer *out, const char *hardware, const char *label, const char *source)
{
    static struct recipe r;
    recipe_begin(&r);
    recipe_add_text(&r, "hardware", view_of_text(hardware));
    recipe_add_text(&r, "label", view_of_text(label));
    if (source)
        recipe_add(&r, "source", view_of_text(source));
    writer_init(out, RECIPE_MAX);
    recipe_end(&r, out);
    cr_assert(!out->failed);
}
