/* SPDX-License-Identifier: Apache-2.0 */
/* Identities of files by content: equal for equal bytes, remembered by the daemon, never stale. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <utime.h>

#include "client/lib/warm.h"
#include "keygen/err.h"
#include "tests/support/warmd.h"

/* As a file that was not touched for a while. */
static char *old_file(const struct warmd *k, const char *name, const char *text)
{
    char *path = path_join(k->dir, name);
    file_write(path, text, strlen(text));
    return path;
}

static struct warm *open_warm(const struct warmd *k)
{
    struct warm *w;
    struct warm_options options = {.socket = k->socket, .connect_timeout_ms = WARMD_WAIT_MS};
    cr_assert_eq(warm_open(&w, &options), 0);
    return w;
}

Test(identity, known_digests_without_a_daemon)
{
    struct warmd k = warmd_new();
    char *path = old_file(&k, "abc", "abc"), id[WARM_IDENTITY_TEXT];
    cr_assert_eq(warm_file_identity(NULL, path, id), 0);
    cr_assert_str_eq(id, "06b05ab6733a618578af5f94892f3950"
                         "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    free(path);
    warmd_free(&k);
}

Test(identity, what_cannot_be_identified_is_an_error_and_nothing_is_written)
{
    char id[WARM_IDENTITY_TEXT] = "untouched";
    cr_assert_eq(warm_file_identity(NULL, "/nowhere/at/all", id), WARM_ENOT_FOUND);
    cr_assert_eq(warm_file_identity(NULL, "/dev/null", id), WARM_EINVALID);
    cr_assert_eq(warm_file_identity(NULL, "/tmp", id), WARM_EINVALID);
    cr_assert_str_eq(id, "untouched");
}

/* The daemon's word is taken: seen by putting a wrong one under the file's name. */
Test(identity, a_settled_file_is_remembered_and_a_fresh_one_is_not)
{
    struct warmd k = warmd_up(NULL);
    struct warm *w = open_warm(&k);
    char *path = old_file(&k, "f", "abc"), id[WARM_IDENTITY_TEXT], name[256];
    char wrong[WARM_IDENTITY_TEXT];
    memset(wrong, 'a', sizeof wrong - 1);
    wrong[sizeof wrong - 1] = '\0';
    struct stat st;
    cr_assert_eq(stat(path, &st), 0);
    snprintf(name, sizeof name, "file:%llx:%llx:%lld:%lld:%lld", (unsigned long long)st.st_dev,
             (unsigned long long)st.st_ino, (long long)st.st_size,
             st.st_mtim.tv_sec * 1000000000ll + st.st_mtim.tv_nsec,
             st.st_ctim.tv_sec * 1000000000ll + st.st_ctim.tv_nsec);
    cr_assert_eq(warm_put(w, name, strlen(name), wrong, strlen(wrong), NULL), 0);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    cr_assert_eq(warm_file_identity(w, path, id), 0);
    if (now.tv_sec - st.st_ctim.tv_sec < 1) /* a slow machine may be past the second already */
        cr_assert_str_neq(id, wrong, "a file of this moment was taken from memory");
    for (uint64_t end = clock_now_ms() + WARMD_WAIT_MS; clock_now_ms() < end; usleep(50000)) {
        cr_assert_eq(warm_file_identity(w, path, id), 0);
        if (strcmp(id, wrong) == 0)
            break;
    }
    cr_assert_str_eq(id, wrong);

    file_write(path, "abd", 3); /* changed: another name */
    cr_assert_eq(warm_file_identity(w, path, id), 0);
    cr_assert_str_neq(id, wrong);
    warm_close(w);
    free(path);
    warmd_down(&k);
}
