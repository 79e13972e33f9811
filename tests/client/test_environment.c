/* SPDX-License-Identifier: Apache-2.0 */
/* test_environment.c - switches in the environment: one value means the same to all programs. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "client/lib/environment.h"

Test(environment, a_switch_is_on_unless_it_is_empty_or_0)
{
    static const struct {
        const char *value;
        bool is_on;
    } values[] = {{"1", true},  {"yes", true}, {"no", true},
                  {"00", true}, {"0", false},  {"", false}};
    unsetenv("WARM_TEST_SWITCH");
    cr_expect_not(environment_is_set("WARM_TEST_SWITCH"));
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        setenv("WARM_TEST_SWITCH", values[i].value, 1);
        cr_expect_eq(environment_is_set("WARM_TEST_SWITCH"), values[i].is_on, "\"%s\"",
                     values[i].value);
    }
}
