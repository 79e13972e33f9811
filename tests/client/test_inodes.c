/* SPDX-License-Identifier: Apache-2.0 */
/* test_inodes.c - paths that lead to one file get the number of the first of them. */
#include <criterion/criterion.h>

#include "client/lib/inodes.h"

static uint32_t first(struct inodes *all, dev_t dev, ino_t ino, uint32_t number)
{
    struct stat st = {.st_dev = dev, .st_ino = ino};
    uint32_t out = UINT32_MAX;
    cr_assert(inodes_first(all, &st, number, &out));
    return out;
}

Test(inodes, a_file_keeps_its_first_number)
{
    struct inodes all = {0};
    cr_expect_eq(first(&all, 1, 7, 0), 0);
    cr_expect_eq(first(&all, 1, 8, 1), 1);
    cr_expect_eq(first(&all, 1, 7, 2), 0);
    cr_expect_eq(first(&all, 2, 7, 3), 3, "the same inode of another device");
    inodes_close(&all);
    cr_expect_eq(first(&all, 1, 7, 4), 4, "a closed table is empty");
    inodes_close(&all);
}

Test(inodes, numbers_survive_growing)
{
    struct inodes all = {0};
    for (uint32_t i = 0; i < 5000; i++)
        cr_assert_eq(first(&all, 1, i + 1, i), i);
    for (uint32_t i = 0; i < 5000; i++)
        cr_assert_eq(first(&all, 1, i + 1, 9999), i);
    inodes_close(&all);
}
