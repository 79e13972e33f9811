/* SPDX-License-Identifier: Apache-2.0 */
/* test_ptx_files.c - files that PTX names count in a key, however the directive is written. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/lib/ptx_files.h"
#include "tests/support/support.h"

static struct key key_of(const char *text)
{
    struct key_builder b;
    struct key key;
    struct proof proof;
    key_begin(&b, "test");
    ptx_files_add(&b, 1, text, strlen(text));
    key_end(&b, &key, &proof);
    return key;
}

/* Makes a file of `len` bytes, last changed in second `s`. */
static void make_file(const char *path, off_t len, time_t s)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    struct timespec times[2] = {{.tv_sec = s}, {.tv_sec = s}};
    cr_assert(fd >= 0 && ftruncate(fd, len) == 0 && futimens(fd, times) == 0);
    close(fd);
}

Test(ptx_files, size_and_time_of_a_named_file_count_however_it_is_written)
{
    static const char *const directives[] = {
        ".file 1 \"%s\"\n",
        ".file\t1\n\"%s\"\n",
        ".file/**/1 /* \"x */ \"%s\"\n",
        ".file 1 // \"\n \"%s\"\n",
        ".file 1 \"%s\", 1, 2\n",
        ".file 1 \"none\"\n.file 2 \"%s\"\n",
        ".pragma \"nounroll\";\n.file 1 \"%s\"\n",
        ".pragma \"a\"; \"\n.file 1 \"%s\"",
    };
    char *folder = temp_dir_new(), path[512], text[1024];
    snprintf(path, sizeof path, "%s/a.cu", folder);
    for (size_t i = 0; i < sizeof directives / sizeof *directives; i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(text, sizeof text, directives[i], path);
#pragma GCC diagnostic pop
        unlink(path);
        struct key absent = key_of(text);
        make_file(path, 3, 1000000000);
        struct key there = key_of(text), again = key_of(text);
        make_file(path, 4, 1000000000);
        struct key longer = key_of(text);
        make_file(path, 3, 1000000001);
        struct key later = key_of(text);
        cr_expect(key_equal(&there, &again), "%s", text);
        cr_expect(!key_equal(&absent, &there), "%s", text);
        cr_expect(!key_equal(&there, &longer), "%s", text);
        cr_expect(!key_equal(&there, &later), "%s", text);
    }
    temp_dir_free(folder);
}

Test(ptx_files, text_without_the_directive_adds_nothing)
{
    struct key empty = key_of(""), pragma = key_of(".pragma \"/\";\n"),
               open = key_of(".file 1 \"/");
    cr_expect(key_equal(&empty, &pragma));
    cr_expect(key_equal(&empty, &open));
}
