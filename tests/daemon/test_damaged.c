/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_damaged.c - who may have an entry put aside or replaced that was made here, and on which others
 * rely.
 *
 * ALICE's compile makes it; BOB and CAROL have the same source, so they know its key and checksum.
 * Needs root, to be three users, and a toolchain: see support/pool.h.
 */
#include "tests/support/compile.h"

enum { ALICE = 12345, BOB = 23456, CAROL = 34567 };

static const char source[] = "extern \"C\" __global__ void f(float *x) { x[threadIdx.x] *= 5; }\n";

TestSuite(damaged, .fini = compile_teardown);

struct scene {
    struct warmd kit;
    struct ask ask;
    int alice, bob, carol;
    struct key key, check; /* of the result */
};

static void take_hit(int fd, uint64_t tag, struct wire_hit *out)
{
    static struct warmd_frame f;
    await_end(fd, tag, "", &f);
    cr_assert_eq(f.frame.type, WIRE_HIT, "got %s", wire_type_name(f.frame.type));
    cr_assert_eq(wire_get_hit(&f.frame, out, NULL), 0);
}

/* The row of the entry, as an administrator sees it; false if there is none. */
static bool find_row(const struct scene *s, struct wire_row *out)
{
    static struct warmd_frame f;
    struct writer w;
    int fd = warmd_admin(&s->kit);
    writer_init(&w, 0);
    wire_put_show(&w, 1, &(struct wire_show){WIRE_SPACE_KEY, {&s->key, sizeof s->key}});
    warmd_flush(fd, &w);
    cr_assert(warmd_frame_try(fd, &f));
    writer_close(&w);
    close(fd);
    return f.frame.type == WIRE_ROW && wire_get_row(&f.frame, out, NULL) == 0;
}

static void await_row(const struct scene *s, bool there)
{
    struct wire_row row;
    for (unsigned i = 0; find_row(s, &row) != there; i++) {
        cr_assert_lt(i, WARMD_WAIT_MS / 10);
        usleep(10000);
    }
}

static void scene_up(struct scene *s, char *nvrtc)
{
    struct wire_hit hit;
    s->kit = warmd_with_nvrtc(nvrtc, NULL, NULL);
    s->ask = ask_of(source);
    s->alice = warmd_native_as(&s->kit, ALICE);
    s->bob = warmd_native_as(&s->kit, BOB);
    s->carol = warmd_native_as(&s->kit, CAROL);
    lead_compile(s->alice, 1, &s->ask, 0, "");
    take_hit(s->alice, 1, &hit);
    s->key = hit.key;
    s->check = hit.check;
    await_row(s, true);
}

static void scene_down(struct scene *s)
{
    close(s->alice);
    close(s->bob);
    close(s->carol);
    warmd_down(&s->kit);
}

static void say_damaged(const struct scene *s, int fd, const struct key *seen)
{
    struct writer w;
    writer_init(&w, 0);
    wire_put_damaged(&w, 90, &(struct wire_damaged){s->key, *seen});
    wire_put_release(&w, 91, &(struct wire_release){0}); /* a round trip */
    warmd_flush(fd, &w);
    writer_close(&w);
    warmd_expect(fd, 91, WIRE_OK);
}

static void expect_known(const struct scene *s, int fd)
{
    struct wire_hit hit;
    send_compile(fd, 5, &s->ask, 0);
    take_hit(fd, 5, &hit);
    cr_assert_eq(hit.outcome, WIRE_WAS_HIT, "outcome %u", hit.outcome);
}

/* `fd` compiles it, though it is there for others. */
static void compile_anew(const struct scene *s, int fd, uint32_t flags)
{
    struct wire_hit hit;
    lead_compile(fd, 6, &s->ask, flags, "");
    take_hit(fd, 6, &hit);
    cr_assert_eq(hit.outcome, WIRE_WAS_MISS);
}

static void expect_alices(const struct scene *s)
{
    struct wire_row row;
    cr_assert(find_row(s, &row));
    cr_assert_eq(row.maker, ALICE);
}

#define SCENE(s)                                                                                   \
    NEEDS_TWO_USERS();                                                                             \
    NEEDS_TOOLCHAIN(nvrtc);                                                                        \
    static struct scene s;                                                                         \
    scene_up(&s, nvrtc)

Test(damaged, one_user_who_refuses_what_another_made_has_it_made_for_itself)
{
    SCENE(s);
    expect_known(&s, s.bob);
    say_damaged(&s, s.bob, &s.check);
    say_damaged(&s, s.bob, &s.check); /* twice is still one user */
    compile_anew(&s, s.bob, 0);
    compile_anew(&s, s.bob, 0);
    expect_known(&s, s.alice);
    expect_known(&s, s.carol);
    expect_alices(&s);
    cr_assert(warmd_stats_have(&s.kit, "\"compiles\": 3,"));
    cr_assert(warmd_log_has(&s.kit, "uid 23456 "));
    scene_down(&s);
}

Test(damaged, what_two_users_refuse_is_put_aside)
{
    SCENE(s);
    say_damaged(&s, s.bob, &s.check);
    say_damaged(&s, s.carol, &s.check);
    await_row(&s, false);
    compile_anew(&s, s.alice, 0);
    scene_down(&s);
}

Test(damaged, what_its_maker_refuses_is_put_aside)
{
    SCENE(s);
    say_damaged(&s, s.alice, &s.check);
    await_row(&s, false);
    compile_anew(&s, s.bob, 0);
    scene_down(&s);
}

Test(damaged, what_an_administrator_refuses_is_put_aside)
{
    SCENE(s);
    int root = warmd_native(&s.kit), admin = warmd_admin(&s.kit);
    say_damaged(&s, root, &s.check); /* on everybody's socket it is a user like any other */
    expect_alices(&s);
    say_damaged(&s, admin, &s.check);
    await_row(&s, false);
    close(root);
    close(admin);
    scene_down(&s);
}

Test(damaged, other_bytes_than_the_entrys_only_have_it_verified)
{
    SCENE(s);
    struct key seen = key_of_bytes("other bytes", 11);
    say_damaged(&s, s.bob, &seen);
    say_damaged(&s, s.carol, &seen);
    say_damaged(&s, s.alice, &seen);
    expect_known(&s, s.bob);
    expect_alices(&s);
    scene_down(&s);
}

static uint64_t removed_by(const struct scene *s, int fd)
{
    static struct warmd_frame f;
    struct wire_report report;
    struct writer w, list;
    writer_init(&w, 0);
    writer_init(&list, 0);
    wire_keys_add(&list, WIRE_SPACE_KEY, &s->key, sizeof s->key);
    wire_put_remove(&w, 7, &(struct wire_remove){.n = 1, .keys = {list.data, list.len}});
    warmd_flush(fd, &w);
    warmd_frame(fd, &f, WIRE_REPORT, 7);
    cr_assert_eq(wire_get_report(&f.frame, &report, NULL), 0);
    writer_close(&w);
    writer_close(&list);
    return report.n_entries;
}

Test(damaged, to_compile_it_once_more_makes_nobody_its_maker)
{
    SCENE(s);
    compile_anew(&s, s.bob, 1);
    cr_assert_eq(removed_by(&s, s.bob), 0);
    expect_alices(&s);
    say_damaged(&s, s.bob, &s.check);
    expect_known(&s, s.carol);
    cr_assert_eq(removed_by(&s, s.alice), 1);
    scene_down(&s);
}
