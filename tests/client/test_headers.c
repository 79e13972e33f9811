/* SPDX-License-Identifier: Apache-2.0 */
/* test_headers.c - which of this process's files a compiler elsewhere may see. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/lib/headers.h"
#include "tests/support/support.h"

/* A folder DIR with DIR/cwd, DIR/inc and DIR/outside, each with a file f.h. */
struct fixture {
    char *dir;
    char cwd[256], inc[256], outside[256], option[300];
    struct headers *headers;
};

static void make_folder(char out[256], const char *dir, const char *name)
{
    snprintf(out, 256, "%s/%s", dir, name);
    cr_assert_eq(mkdir(out, 0700), 0);
    char *file = path_join(out, "f.h");
    file_write(file, name, strlen(name));
    free(file);
}

static struct fixture fixture_open(const char *name)
{
    struct fixture f = {.dir = temp_dir_new()};
    make_folder(f.cwd, f.dir, "cwd");
    make_folder(f.inc, f.dir, "inc");
    make_folder(f.outside, f.dir, "outside");
    snprintf(f.option, sizeof f.option, "-I%s", f.inc);
    struct view option = view_of_text(f.option);
    struct job job = {.language = JOB_CUDA,
                      .name = view_of_text(name),
                      .cwd = view_of_text(f.cwd),
                      .options = &option,
                      .n_options = 1};
    struct err e = {0};
    cr_assert_eq(headers_open(&f.headers, &job, &e), 0, "%s", e.text);
    return f;
}

static void fixture_close(struct fixture *f)
{
    headers_close(f->headers);
    temp_dir_free(f->dir);
}

/* The state of a path; for a file its bytes must be `content`. */
static enum wire_path_state look(struct fixture *f, const char *path, const char *content)
{
    int fd;
    uint64_t len;
    char bytes[64];
    enum wire_path_state state = headers_find(f->headers, view_of_text(path), &fd, &len);
    cr_assert_eq(fd >= 0, state == WIRE_PATH_FILE);
    if (fd >= 0) {
        cr_assert_eq(read(fd, bytes, sizeof bytes), (ssize_t)len);
        cr_assert(content && strlen(content) == len && memcmp(bytes, content, len) == 0);
        close(fd);
    }
    return state;
}

static enum wire_path_state look_in(struct fixture *f, const char *dir, const char *rest,
                                    const char *content)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", dir, rest);
    return look(f, path, content);
}

Test(headers, relative_paths_are_in_the_jobs_folder)
{
    struct fixture f = fixture_open("k.cu");
    cr_assert_eq(look(&f, "f.h", "cwd"), WIRE_PATH_FILE);
    cr_assert_eq(look(&f, "./x/../f.h", "cwd"), WIRE_PATH_ABSENT, "the kernel wants x to be there");
    cr_assert_eq(look(&f, "none.h", NULL), WIRE_PATH_ABSENT);
    cr_assert_null(headers_refused(f.headers));
    fixture_close(&f);
}

Test(headers, include_folders_and_the_folder_of_the_name_are_roots)
{
    char *other = temp_dir_new();
    char folder[256], name[300];
    make_folder(folder, other, "named");
    snprintf(name, sizeof name, "%s/k.cu", folder);
    struct fixture f = fixture_open(name);
    cr_assert_eq(look_in(&f, f.inc, "f.h", "inc"), WIRE_PATH_FILE);
    cr_assert_eq(look_in(&f, folder, "f.h", "named"), WIRE_PATH_FILE);
    cr_assert_eq(look_in(&f, other, "named/f.h", "named"), WIRE_PATH_FILE);
    fixture_close(&f);
    temp_dir_free(other);
}

Test(headers, everything_else_is_refused_and_remembered)
{
    struct fixture f = fixture_open("k.cu");
    cr_assert_eq(look_in(&f, f.outside, "f.h", NULL), WIRE_PATH_REFUSED);
    cr_assert_eq(look(&f, "/etc/passwd", NULL), WIRE_PATH_REFUSED);
    cr_assert_eq(look(&f, "/proc/self/environ", NULL), WIRE_PATH_REFUSED);
    cr_assert(strstr(headers_refused(f.headers), "outside/f.h"), "the first one");
    fixture_close(&f);
}

Test(headers, dots_do_not_lead_out)
{
    struct fixture f = fixture_open("k.cu");
    cr_assert_eq(look(&f, "../outside/f.h", NULL), WIRE_PATH_REFUSED);
    cr_assert_eq(look(&f, "../../../../../../etc/passwd", NULL), WIRE_PATH_REFUSED);
    cr_assert_eq(look_in(&f, f.inc, "../outside/f.h", NULL), WIRE_PATH_REFUSED);
    cr_assert_eq(look_in(&f, f.inc, "../inc/f.h", "inc"), WIRE_PATH_FILE, "and back in is fine");
    cr_assert_eq(look_in(&f, f.inc, ".//f.h", "inc"), WIRE_PATH_FILE);
    fixture_close(&f);
}

/* "DIR/inc" must not open "DIR/inc-private". */
Test(headers, a_root_is_a_folder_and_not_a_prefix)
{
    struct fixture f = fixture_open("k.cu");
    char private[256];
    make_folder(private, f.dir, "inc-private");
    cr_assert_eq(look_in(&f, private, "f.h", NULL), WIRE_PATH_REFUSED);
    fixture_close(&f);
}

Test(headers, links_beneath_a_root_are_followed)
{
    struct fixture f = fixture_open("k.cu");
    char link[600], target[600];
    snprintf(link, sizeof link, "%s/link.h", f.inc);
    snprintf(target, sizeof target, "%s/f.h", f.outside);
    cr_assert_eq(symlink(target, link), 0);
    cr_assert_eq(look(&f, link, "outside"), WIRE_PATH_FILE);
    fixture_close(&f);
}

Test(headers, only_regular_files_and_nothing_blocks, .timeout = 10)
{
    struct fixture f = fixture_open("k.cu");
    char path[600];
    snprintf(path, sizeof path, "%s/fifo", f.inc);
    cr_assert_eq(mkfifo(path, 0600), 0);
    cr_assert_eq(look(&f, path, NULL), WIRE_PATH_REFUSED);
    snprintf(path, sizeof path, "%s/device", f.inc);
    cr_assert_eq(symlink("/dev/zero", path), 0);
    cr_assert_eq(look(&f, path, NULL), WIRE_PATH_REFUSED);
    snprintf(path, sizeof path, "%s/folder", f.inc);
    cr_assert_eq(mkdir(path, 0700), 0);
    cr_assert_eq(look(&f, path, NULL), WIRE_PATH_ABSENT);
    fixture_close(&f);
}

Test(headers, a_file_above_the_limit_is_refused)
{
    struct fixture f = fixture_open("k.cu");
    char path[600];
    snprintf(path, sizeof path, "%s/big.h", f.inc);
    file_write(path, "", 0);
    cr_assert_eq(truncate(path, (off_t)JOB_SOURCE_MAX + 1), 0);
    cr_assert_eq(look(&f, path, NULL), WIRE_PATH_REFUSED);
    fixture_close(&f);
}

/* A service whose working folder is "/" offers no more than the files in it. */
Test(headers, the_root_folder_offers_only_its_own_files)
{
    struct job job = {.language = JOB_CUDA, .name = view_of_text("k.cu"), .cwd = view_of_text("/")};
    struct headers *h;
    int fd;
    uint64_t len;
    cr_assert_eq(headers_open(&h, &job, NULL), 0);
    cr_assert_eq(headers_find(h, view_of_text("/etc/passwd"), &fd, &len), WIRE_PATH_REFUSED);
    cr_assert_eq(headers_find(h, view_of_text("etc/passwd"), &fd, &len), WIRE_PATH_REFUSED);
    cr_assert_eq(headers_find(h, view_of_text("/no-such-header.h"), &fd, &len), WIRE_PATH_ABSENT);
    headers_close(h);
}

Test(headers, a_relative_working_folder_is_invalid)
{
    struct job job = {
        .language = JOB_CUDA, .name = view_of_text("k.cu"), .cwd = view_of_text("src")};
    struct headers *h;
    struct err e;
    cr_assert_eq(headers_open(&h, &job, &e), WARM_EINVALID);
}

Test(headers, a_check_answers_each_path_in_order)
{
    struct fixture f = fixture_open("k.cu");
    struct writer paths, states;
    writer_init(&paths, 0);
    writer_init(&states, 0);
    wire_paths_add(&paths, "f.h", 3);
    wire_paths_add(&paths, "none.h", 6);
    wire_paths_add(&paths, "/etc/passwd", 11);
    wire_paths_add(&paths, "./f.h", 5);
    struct wire_check check = {.n = 4};
    cr_assert_eq(
        headers_check(f.headers, &check, (struct view){paths.data, paths.len}, &states, NULL), 0);
    struct reader list = reader_over(states.data, states.len);
    struct wire_path_seen seen[4];
    struct proof expected = proof_of_bytes("cwd", 3);
    for (uint32_t i = 0; i < 4; i++)
        cr_assert(wire_states_next(&list, seen, i));
    cr_assert(reader_done(&list));
    cr_assert_eq(seen[0].state, WIRE_PATH_FILE);
    cr_assert_eq(memcmp(&seen[0].sha256, &expected, sizeof expected), 0);
    cr_assert_eq(seen[0].same, 0);
    cr_assert_eq(seen[1].state, WIRE_PATH_ABSENT);
    cr_assert_eq(seen[2].state, WIRE_PATH_REFUSED);
    cr_assert(seen[3].state == WIRE_PATH_FILE && seen[3].same == 0, "another name of the first");
    check.n = 5;
    cr_assert_eq(
        headers_check(f.headers, &check, (struct view){paths.data, paths.len}, &states, NULL),
        WARM_EMALFORMED);
    writer_close(&paths);
    writer_close(&states);
    fixture_close(&f);
}

/* Reads one answer and its descriptor. */
static int receive(int channel, struct wire_opened *out)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    uint8_t packet[64];
    struct iovec part = {packet, sizeof packet};
    struct msghdr m = {.msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof control.bytes};
    ssize_t n = recvmsg(channel, &m, MSG_CMSG_CLOEXEC);
    cr_assert_gt(n, 0);
    cr_assert_eq(wire_get_opened(packet, (size_t)n, out, NULL), 0);
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    int fd = -1;
    if (h)
        memcpy(&fd, CMSG_DATA(h), sizeof fd);
    return fd;
}

Test(headers, the_channel_is_answered_with_descriptors)
{
    struct fixture f = fixture_open("k.cu");
    int ends[2];
    char bytes[8];
    struct writer w;
    struct wire_opened opened;
    struct err e;
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    writer_init(&w, 0);
    wire_put_open(&w, &(struct wire_open){42, view_of_text("f.h")});
    cr_assert_eq(send(ends[1], w.data, w.len, 0), (ssize_t)w.len);
    cr_assert_eq(headers_serve(f.headers, ends[0], &e), 0);
    int fd = receive(ends[1], &opened);
    cr_assert(opened.id == 42 && opened.state == WIRE_PATH_FILE && fd >= 0);
    cr_assert_eq(read(fd, bytes, sizeof bytes), 3);
    cr_assert_eq(write(fd, "x", 1), -1, "it is read-only");
    close(fd);
    cr_assert_eq(send(ends[1], "rubbish", 7, 0), 7);
    cr_assert_lt(headers_serve(f.headers, ends[0], &e), 0);
    close(ends[1]);
    cr_assert_eq(headers_serve(f.headers, ends[0], &e), WARM_ECLOSED);
    close(ends[0]);
    writer_close(&w);
    fixture_close(&f);
}
