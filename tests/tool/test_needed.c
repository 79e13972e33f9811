/* SPDX-License-Identifier: Apache-2.0 */
/* test_needed.c - the names of the libraries that an ELF file needs, of whole and of damaged files. */
#include "client/tool/needed.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct names {
    char text[1024];
    int stop_at, n;
};

static int add(void *self, const char *name)
{
    struct names *names = self;
    strncat(names->text, name, 255);
    strcat(names->text, " ");
    return ++names->n == names->stop_at ? WARM_EBUSY : 0;
}

/* Returns the result for a file of these bytes. */
static int needed_of(const void *data, size_t len, struct names *out)
{
    char path[] = "/tmp/warm-needed-XXXXXX";
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, data, len), (ssize_t)len);
    close(fd);
    *out = (struct names){.stop_at = out->stop_at};
    int code = needed_libraries(path, add, out);
    unlink(path);
    return code;
}

/* This program, which needs libcriterion and libc. */
static uint8_t *program(size_t *len)
{
    uint8_t *data = NULL;
    FILE *f = fopen("/proc/self/exe", "rb");
    cr_assert(f && fseek(f, 0, SEEK_END) == 0);
    *len = (size_t)ftell(f);
    rewind(f);
    data = malloc(*len);
    cr_assert(data && fread(data, 1, *len, f) == *len);
    fclose(f);
    return data;
}

Test(needed, names_are_those_of_the_file_and_an_error_ends_them)
{
    struct names names = {0};
    cr_assert_eq(needed_libraries("/proc/self/exe", add, &names), 0);
    cr_expect(strstr(names.text, "libc.so.6 "), "%s", names.text);
    cr_expect(strstr(names.text, "libcriterion.so"), "%s", names.text);
    struct names first = {.stop_at = 1};
    cr_expect_eq(needed_libraries("/proc/self/exe", add, &first), WARM_EBUSY);
    cr_expect_eq(first.n, 1);
}

Test(needed, what_is_no_elf_file_needs_nothing)
{
    struct names names = {0};
    cr_expect_eq(needed_of("", 0, &names), 0);
    cr_expect_eq(needed_of("INPUT(-lc)\n", 11, &names), 0);
    cr_expect_eq(names.n, 0);
    cr_expect_eq(needed_libraries("/no/such/file", add, &names), WARM_EREFUSED);
}

Test(needed, of_a_damaged_file_nothing_is_read_beyond_its_end)
{
    size_t len;
    uint8_t *data = program(&len);
    struct names whole = {0}, names = {0};
    cr_assert_eq(needed_of(data, len, &whole), 0);
    for (size_t cut = 64; cut < 1024; cut += 56) /* in the headers: each part is missed */
        cr_expect_neq(needed_of(data, cut, &names), 0, "%zu bytes", cut);
    for (size_t at = 4; at < 64 + 13 * 56; at++) {
        data[at] ^= 0x80;
        needed_of(data, len < 65536 ? len : 65536, &names);
        data[at] ^= 0x80;
    }
    data[4] = 1; /* ELFCLASS32 */
    cr_expect_eq(needed_of(data, 4096, &names), WARM_EREFUSED);
    free(data);
}
