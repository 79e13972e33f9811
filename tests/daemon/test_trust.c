/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_trust.c - two real users on one daemon of root: what one put, the other neither sees nor
 * replaces nor removes. Needs root, to become them.
 */
#include <grp.h>

#include "keygen/key.h"
#include "tests/support/collision.h"
#include "tests/support/warmd.h"

enum { ALICE = 12345, BOB = 23456, FRIENDS = 34567 };

/* Runs `body` as a user in a process of its own; a failed assertion in it fails the test. */
static void as_user(uid_t uid, const gid_t *group, void (*body)(const struct warmd *k),
                    const struct warmd *k)
{
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        if (setgroups(group ? 1 : 0, group) || setgid(uid) || setuid(uid))
            _exit(2);
        body(k);
        _exit(0);
    }
    int status = warmd_reap(pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "uid %u: %x", (unsigned)uid, status);
}

/* In a child, an assertion would run the test's own clean-up: it says what is wrong and leaves. */
static void expect_redis(const struct warmd *k, const char *command, const char *answer)
{
    char got[512] = "";
    int fd = warmd_try_connect(k->socket);
    if (fd < 0 || send(fd, command, strlen(command), MSG_NOSIGNAL) < 0 ||
        !warmd_recv(fd, got, strlen(answer)) || strcmp(got, answer) != 0) {
        fprintf(stderr, "uid %u: %s -> %s, expected %s\n", (unsigned)getuid(), command, got,
                answer);
        _exit(3);
    }
    close(fd);
}

static void alice_puts(const struct warmd *k)
{
    expect_redis(k, "SET shared alice\r\n", "+OK\r\n");
}
static void alice_looks(const struct warmd *k)
{
    expect_redis(k, "GET shared\r\n", "$5\r\nalice\r\n");
    expect_redis(k, "SCAN 0\r\n", "*2\r\n$1\r\n0\r\n*1\r\n$6\r\nshared\r\n");
}
static void bob_looks(const struct warmd *k)
{
    expect_redis(k, "GET shared\r\n", "$-1\r\n");
    expect_redis(k, "EXISTS shared\r\n", ":0\r\n");
    expect_redis(k, "DEL shared\r\n", ":0\r\n");
    expect_redis(k, "DBSIZE\r\n", ":0\r\n");
    expect_redis(k, "SCAN 0\r\n", "*2\r\n$1\r\n0\r\n*0\r\n");
    expect_redis(k, "SET shared bob\r\n", "+OK\r\n");
    expect_redis(k, "GET shared\r\n", "$3\r\nbob\r\n");
    expect_redis(k, "DEL shared\r\n", ":1\r\n");
    expect_redis(k, "GET shared\r\n", "$-1\r\n");
}

Test(trust, another_user_neither_sees_nor_replaces_nor_removes)
{
    NEEDS_TWO_USERS();
    struct warmd k = warmd_up(NULL);
    as_user(ALICE, NULL, alice_puts, &k);
    as_user(BOB, NULL, bob_looks, &k);
    as_user(ALICE, NULL, alice_looks, &k);
    warmd_down(&k);
}

static struct key alices_key(void) { return key_of_bytes("shared", 6); }

/* The native wire, by key, with filters, and as an administrator would. */
static void bob_tries(const struct warmd *k)
{
    int fd = warmd_try_connect(k->socket);
    static struct warmd_frame f;
    struct key key = alices_key();
    struct writer w;
    struct wire_report report;
    struct wire_filter all = {.uid = -1, .kind = -1, .pinned = -1, .max_hits = UINT32_MAX};
    warmd_hello(fd);
    writer_init(&w, 0);
    wire_put_get(&w, 1, &(struct wire_get){.space = WIRE_SPACE_KEY, .key = {&key, sizeof key}});
    wire_put_show(&w, 2, &(struct wire_show){WIRE_SPACE_KEY, {&key, sizeof key}});
    wire_put_list(&w, 3, &(struct wire_list){.filter = all});
    wire_put_evict(&w, 4, &(struct wire_evict){.filter = all});
    all.uid = ALICE;
    wire_put_list(&w, 5, &(struct wire_list){.filter = all});
    wire_put_verify(&w, 6, &(struct wire_verify){0});
    warmd_flush(fd, &w);
    warmd_expect(fd, 1, WIRE_MISS);
    warmd_expect(fd, 2, WIRE_MISS);
    warmd_expect(fd, 3, WIRE_END);
    warmd_expect(fd, 5, WIRE_END);
    warmd_expect(fd, 6, WIRE_ERROR);
    warmd_frame(fd, &f, WIRE_REPORT, 4);
    wire_get_report(&f.frame, &report, NULL);
    if (report.n_entries)
        _exit(3);
    close(fd);
}

static void root_lists(const struct warmd *k)
{
    int fd = warmd_admin(k);
    struct writer w;
    static struct warmd_frame f;
    struct wire_row row;
    writer_init(&w, 0);
    struct wire_filter filter = {.uid = ALICE, .kind = -1, .pinned = -1, .max_hits = UINT32_MAX};
    wire_put_list(&w, 1, &(struct wire_list){.filter = filter});
    warmd_flush(fd, &w);
    warmd_frame(fd, &f, WIRE_ROW, 1);
    cr_assert_eq(wire_get_row(&f.frame, &row, NULL), 0);
    cr_assert_eq(row.owner, ALICE);
    warmd_expect(fd, 1, WIRE_END);
    writer_close(&w);
    close(fd);
}

static uint64_t removed_by_key(int fd)
{
    static struct warmd_frame f;
    struct wire_report report;
    struct key key = key_of_bytes("shared", 6);
    struct writer w, list;
    writer_init(&w, 0);
    writer_init(&list, 0);
    wire_keys_add(&list, WIRE_SPACE_KEY, &key, sizeof key);
    wire_put_remove(&w, 1, &(struct wire_remove){.n = 1, .keys = {list.data, list.len}});
    warmd_flush(fd, &w);
    warmd_frame(fd, &f, WIRE_REPORT, 1);
    if (wire_get_report(&f.frame, &report, NULL))
        _exit(3);
    writer_close(&w);
    writer_close(&list);
    close(fd);
    return report.n_entries;
}

static void removes_nothing(const struct warmd *k)
{
    if (removed_by_key(warmd_native(k)))
        _exit(3);
}
static void finds_nothing(const struct warmd *k) { expect_redis(k, "GET shared\r\n", "$-1\r\n"); }

Test(trust, root_removes_by_key_what_another_user_put)
{
    NEEDS_TWO_USERS();
    struct warmd k = warmd_up(NULL);
    as_user(ALICE, NULL, alice_puts, &k);
    as_user(BOB, NULL, removes_nothing, &k);
    as_user(ALICE, NULL, alice_looks, &k);
    cr_assert_eq(removed_by_key(warmd_native(&k)), 0,
                 "on the shared socket nobody is the administrator");
    cr_assert_eq(removed_by_key(warmd_admin(&k)), 1);
    as_user(ALICE, NULL, finds_nothing, &k);
    warmd_down(&k);
}

Test(trust, keys_filters_and_evictions_do_not_reach_another_users_entries)
{
    NEEDS_TWO_USERS();
    struct warmd k = warmd_up(NULL);
    as_user(ALICE, NULL, alice_puts, &k);
    as_user(BOB, NULL, bob_tries, &k);
    as_user(ALICE, NULL, alice_looks, &k);
    root_lists(&k);
    warmd_down(&k);
}

/* What the answer to a PUT of what a daemon made is: OK or ERROR. */
static uint8_t bring_made(int fd, uint32_t *out_code)
{
    static struct warmd_frame f;
    static const uint8_t place[WIRE_MADE_LEN] = {7};
    struct wire_error error = {0};
    struct writer w;
    writer_init(&w, 0);
    wire_put_put(&w, 1,
                 &(struct wire_put){.space = WIRE_SPACE_KEY,
                                    .kind = 1,
                                    .len = 1,
                                    .check = key_of_bytes("v", 1),
                                    .key = {place, sizeof place},
                                    .hardware = {"sm_90", 5},
                                    .value = {"v", 1}});
    warmd_flush(fd, &w);
    if (!warmd_frame_try(fd, &f))
        _exit(3);
    if (f.frame.type == WIRE_ERROR && wire_get_error(&f.frame, &error, NULL))
        _exit(3);
    *out_code = error.code;
    writer_close(&w);
    close(fd);
    return f.frame.type;
}

static void brings_made_in_vain(const struct warmd *k)
{
    uint32_t code;
    if (bring_made(warmd_native(k), &code) != WIRE_ERROR || code != (uint32_t)-WARM_EDENIED)
        _exit(3);
}

Test(trust, only_an_administrator_brings_what_counts_as_made_here)
{
    NEEDS_TWO_USERS();
    struct warmd k = warmd_up(NULL);
    uint32_t code;
    as_user(BOB, NULL, brings_made_in_vain, &k);
    brings_made_in_vain(&k); /* root, as in a container */
    cr_expect_eq(bring_made(warmd_admin(&k), &code), WIRE_OK);
    warmd_down(&k);
}

static char *admin_path(const struct warmd *k)
{
    char *path = calloc(1, 200);
    cr_assert(conn_admin_path(k->socket, path, 200));
    return path;
}

static void cannot_reach_the_administrators_socket(const struct warmd *k)
{
    if (warmd_try_connect(admin_path(k)) >= 0 || errno != EACCES)
        _exit(3);
}

Test(trust, the_administrators_socket_is_for_root_and_the_daemons_user)
{
    NEEDS_TWO_USERS();
    struct warmd k = warmd_up(NULL);
    char *path = admin_path(&k);
    struct stat st;
    cr_expect_not(warmd_may_verify(warmd_native(&k))); /* it answers: both sockets are there */
    cr_assert_eq(stat(path, &st), 0);
    cr_expect_eq(st.st_mode & 07777, 0600);
    as_user(BOB, NULL, cannot_reach_the_administrators_socket, &k);
    cr_expect(warmd_may_verify(warmd_admin(&k)));
    /* were the file opened to all, its users would still be asked who they are */
    cr_assert_eq(chmod(path, 0666), 0);
    as_user(BOB, NULL, bob_tries, &k);
    warmd_down(&k);
    cr_expect_neq(access(path, F_OK), 0);
    free(path);
}

Test(trust, there_is_no_administrator_if_the_setting_says_so)
{
    NEEDS_TWO_USERS();
    char *options[] = {"--admin", "none", NULL};
    struct warmd k = warmd_up(options);
    char *path = admin_path(&k);
    cr_expect_neq(access(path, F_OK), 0);
    cr_expect_not(warmd_may_verify(warmd_native(&k)));
    free(path);
    warmd_down(&k);
}

static void has_a_daemon_of_her_own(const struct warmd *k)
{
    struct warmd mine = *k;
    warmd_start(&mine, NULL);
    if (!warmd_may_verify(warmd_native(&mine)) || access(admin_path(&mine), F_OK) == 0)
        _exit(3);
    kill(mine.pid, SIGTERM);
    warmd_reap(mine.pid);
}

Test(trust, a_users_own_daemon_is_administered_through_its_only_socket)
{
    NEEDS_TWO_USERS();
    struct warmd k = warmd_new();
    cr_assert_eq(chown(k.dir, ALICE, ALICE), 0);
    k.program = public_path("bin/warmd");
    as_user(ALICE, NULL, has_a_daemon_of_her_own, &k);
    warmd_free(&k);
}

static void gets_alices(const struct warmd *k)
{
    expect_redis(k, "GET shared\r\n", "$5\r\nalice\r\n");
}
static void gets_nothing(const struct warmd *k) { expect_redis(k, "GET shared\r\n", "$-1\r\n"); }

Test(trust, members_of_the_trusted_group_share_and_nobody_else_does)
{
    NEEDS_TWO_USERS();
    char *options[] = {"--trust-group", "34567", NULL};
    const gid_t friends = FRIENDS;
    struct warmd k = warmd_up(options);
    as_user(ALICE, &friends, alice_puts, &k);
    as_user(BOB, &friends, gets_alices, &k);
    as_user(BOB, NULL, gets_nothing, &k);
    as_user(ALICE, NULL, gets_nothing, &k);
    warmd_down(&k);
}

/* A lease of one user does not hold up another who asks for the same name. */
static void takes_the_lease(const struct warmd *k)
{
    int fd = warmd_try_connect(k->socket);
    warmd_hello(fd);
    warmd_get(fd, 1, "leased", true, 0);
    warmd_expect_lease(fd, 1);
}

Test(trust, a_lease_is_among_the_users_of_one_space)
{
    NEEDS_TWO_USERS();
    struct warmd k = warmd_up(NULL);
    int fd = warmd_native(&k);
    warmd_get(fd, 1, "leased", true, 0);
    warmd_expect_lease(fd, 1);
    as_user(BOB, NULL, takes_the_lease, &k);
    close(fd);
    warmd_down(&k);
}

static void is_refused(const struct warmd *k)
{
    int fd = warmd_try_connect(k->socket);
    if (fd < 0 || !warmd_is_closed(fd))
        _exit(3);
}

Test(trust, a_reserved_uid_is_refused)
{
    NEEDS_TWO_USERS();
    struct warmd k = warmd_up(NULL);
    as_user((uid_t)0xfffffffe, NULL, is_refused, &k);
    warmd_down(&k);
}

/* ---- one source, two headers ---- */

/* Compiles FOLDER/NAME.cu into FOLDER/NAME.UID as this user. */
static void compiles(const struct warmd *k, uid_t uid, const char *folder, const char *name)
{
    char command[4096], *program = public_path("bin/warm"), *out;
    snprintf(
        command, sizeof command,
        "cd %s && WARM_SOCKET=%s HOME=%s setpriv --reuid %u --regid %u --clear-groups %s compile "
        "%s.cu --arch sm_90 -o %s.%u 2>&1",
        folder, k->socket, folder, (unsigned)uid, (unsigned)uid, program, name, name,
        (unsigned)uid);
    int rc = run_command(&out, "%s", command);
    cr_assert_eq(rc, 0, "uid %u, %s: %s", (unsigned)uid, name, out);
    free(out);
    free(program);
}

static char *bytes_of(const char *folder, const char *name, size_t *out_len)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return file_read(path, out_len);
}

/* The author of a published header has two versions of equal size, time and XXH3: one for himself. */
Test(trust, a_header_that_collides_gives_another_user_no_wrong_bytes)
{
    static char evil[COLLISION_LEN], honest[COLLISION_LEN];
    NEEDS_TWO_USERS();
    char *nvrtc = toolchain_lib("13.5.37");
    if (!nvrtc)
        cr_skip_test("no CUDA toolchain: set WARM_TOOLCHAIN or run `make toolchain`");
    char *options[] = {"--nvrtc", nvrtc, NULL};
    struct warmd k = warmd_up(options), fresh = warmd_up(options);
    char *folder = path_join(k.dir, "sources"), *header = path_join(folder, "h.h");
    char *other = path_join(folder, "other.cu"), *source = path_join(folder, "k.cu");
    static const char text[] = "#include \"h.h\"\n__global__ void k(int *x) { *x = VALUE; }\n",
                      more[] = "#include \"h.h\"\n__global__ void o(int *x) { *x += VALUE; }\n";
    const struct timespec times[] = {{1700000000, 0}, {1700000000, 0}};
    mkdir(folder, 0700);
    chmod(folder, 01777);
    collision_make(honest, evil);
    file_write(source, text, sizeof text - 1);
    file_write(other, more, sizeof more - 1);
    file_write(header, evil, sizeof evil);
    utimensat(AT_FDCWD, header, times, 0);
    compiles(&k, ALICE, folder, "other");
    compiles(&k, ALICE, folder, "k");
    file_write(header, honest, sizeof honest);
    utimensat(AT_FDCWD, header, times, 0);
    compiles(&k, BOB, folder, "k");
    compiles(&k, ALICE, folder, "other");
    size_t alices_len, bobs_len, right_len;
    char *alices = bytes_of(folder, "k.12345", &alices_len);
    char *bobs = bytes_of(folder, "k.23456", &bobs_len);
    compiles(&fresh, BOB, folder, "k");
    char *right = bytes_of(folder, "k.23456", &right_len);
    cr_expect(bobs_len == right_len && memcmp(bobs, right, right_len) == 0, "Bob has other bytes");
    cr_expect(alices_len != right_len || memcmp(alices, right, right_len) != 0,
              "the two headers are to differ in what is compiled");
    free(alices);
    free(bobs);
    free(right);
    free(source);
    free(other);
    free(header);
    free(folder);
    free(nvrtc);
    warmd_down(&fresh);
    warmd_down(&k);
}
