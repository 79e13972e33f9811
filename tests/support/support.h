/* SPDX-License-Identifier: Apache-2.0 */
/* support.h - what several test suites need: folders of their own, and files in them. */
#ifndef WARM_TESTS_SUPPORT_SUPPORT_H
#define WARM_TESTS_SUPPORT_SUPPORT_H

#include <stdbool.h>
#include <stddef.h>

/* Makes a new folder under $TMPDIR or /tmp and gives its path (free() it). Aborts the test if it
 * cannot. */
char *temp_dir_new(void);
#define MEMORY_DIR_BYTES (2ull << 30)
/* Makes a new folder in memory, for a test that waits for the disk again and again though nothing is asked of the
 * disk. Does what temp_dir_new does if $TMPDIR is set, or if /dev/shm has less than MEMORY_DIR_BYTES. */
char *memory_dir_new(void);
/* Removes a folder and everything in it, frees `path`. */
void temp_dir_free(char *path);

/* Returns "DIR/NAME" in memory that the caller frees. */
char *path_join(const char *dir, const char *name);
/* Writes a whole file, or aborts the test. */
void file_write(const char *path, const void *data, size_t len);
/* Reads a whole file into memory that the caller frees, or aborts the test. NUL follows the bytes.
 */
char *file_read(const char *path, size_t *out_len);

/* Returns the path of a program of this build, e.g. "warmd": beside this test program's own
 * folder. free() it. */
char *bin_path(const char *name);

/* Returns the path of a program, e.g. "bin/warm", in a copy of this build that every user reaches: the build
 * itself may lie in a home of mode 0700. The copy is made once for a test, in /var/tmp, and goes when the
 * process of the test ends. free() the path. */
char *public_path(const char *name);

/* True if a test can be two users: it is root, and another user reaches the folder of temporary
 * files. Some containers forbid that. */
bool two_users_can_be(void);
#define NEEDS_TWO_USERS()                                                                          \
    if (!two_users_can_be())                                                                       \
    cr_skip_test("needs root, and folders that another user reaches")

/* Returns how many descriptors this process has open, one of them for the count. */
unsigned open_descriptors(void);
/* Sends bytes in one message, with at most two descriptors. False unless all of them went. */
bool send_with_fds(int fd, const void *data, size_t len, const int *fds, size_t n_fds);

/* Runs a shell command made with printf and gives its standard output (free it). Returns its exit
 * status, or -1 if it ended by a signal. */
int run_command(char **out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A test that breaks a promise (keygen/expect.h) must set it: any other test that breaks one fails. */
extern bool promise_may_break;

/* Returns "…/toolchain/VERSION/lib" of the CUDA toolchain that the tests compile with; NULL if it
 * is not there. free() it. */
char *toolchain_lib(const char *version);

#endif
