/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_shared_headers.c - shared keys of jobs with headers: a checkout that moved hits, and another file is
 * another header, whatever its name, place, size or XXH3.
 *
 * Needs a toolchain, or skips.
 */
#include <limits.h>

#include "tests/support/collision.h"
#include "tests/support/spelling.h"

static void write_in(const char *folder, const char *name, const char *text)
{
    char *path = path_join(folder, name);
    file_write(path, text, strlen(text));
    free(path);
}

Test(shared_headers, headers_beside_the_program_move_with_it)
{
    NEEDS_TOOLCHAIN(r);
    rig_up(&r);
    static const char *const versions[] = {"13.5", "12.9"};
    static const char source[] = "#include \"near.h\"\n#include <far.h>\n"
                                 "__global__ void k(int *x) { *x = NEAR + FAR; }\n";
    char *one = path_join(r.kit.dir, "one"), *two = path_join(r.kit.dir, "two");
    char *inc = path_join(r.kit.dir, "inc"), include[PATH_MAX], name_1[PATH_MAX], name_2[PATH_MAX];
    cr_assert_eq(mkdir(one, 0755) | mkdir(two, 0755) | mkdir(inc, 0755), 0);
    snprintf(include, sizeof include, "-I%s", inc);
    snprintf(name_1, sizeof name_1, "%s/k.cu", one);
    snprintf(name_2, sizeof name_2, "%s/k.cu", two);
    for (size_t v = 0; v < 2; v++) {
        write_in(inc, "far.h", "#define FAR 5\n");
        write_in(one, "near.h", "#include \"deep.h\"\n");
        write_in(one, "deep.h", "#define NEAR 7\n");
        write_in(two, "near.h", "#include \"deep.h\"\n");
        write_in(two, "deep.h", "#define NEAR 7\n");
        struct spelling a = {.name = name_1,
                             .cwd = r.kit.dir,
                             .source = source,
                             .version = versions[v],
                             .options = {include}};
        struct spelling b = a;
        b.name = name_2;
        struct key of_a, of_b, changed;
        cr_assert_eq(spelling_compile(r.warm, &a, &of_a), WARM_MISS);
        cr_assert_eq(spelling_compile(r.warm, &b, &of_b), WARM_HIT, "%s", versions[v]);
        cr_assert(key_equal(&of_a, &of_b));
        cr_assert_eq(spelling_compile(r.warm, &b, NULL), WARM_HIT, "by its alias");
        write_in(two, "deep.h", "#define NEAR 8\n");
        cr_assert_eq(spelling_compile(r.warm, &b, &changed), WARM_MISS);
        cr_assert(!key_equal(&changed, &of_b));
        cr_assert_eq(spelling_compile(r.warm, &a, NULL), WARM_HIT, "what it had is still there");
        write_in(two, "far.h", "#define FAR 6\n"); /* angle brackets do not look there */
        cr_assert_eq(spelling_compile(r.warm, &b, &of_b), WARM_HIT);
        cr_assert(key_equal(&changed, &of_b));
        write_in(inc, "far.h", "#define FAR 9\n");
        cr_assert_eq(spelling_compile(r.warm, &b, NULL), WARM_MISS);
        char *left = path_join(two, "far.h");
        unlink(left);
        free(left);
    }
    free(one);
    free(two);
    free(inc);
    rig_down(&r);
}

/* The same exact key in two working folders: where a file was looked for and absent, it is the
 * asker's own folder that counts. */
Test(shared_headers, a_header_that_only_the_asker_has_in_its_folder_counts)
{
    NEEDS_TOOLCHAIN(r);
    rig_up(&r);
    static const char *const versions[] = {"13.5", "12.9"};
    char *one = path_join(r.kit.dir, "one"), *two = path_join(r.kit.dir, "two");
    char *inc = path_join(r.kit.dir, "inc"), include[PATH_MAX];
    cr_assert_eq(mkdir(one, 0755) | mkdir(two, 0755) | mkdir(inc, 0755), 0);
    snprintf(include, sizeof include, "-I%s", inc);
    write_in(inc, "cfg.h", "#define CFG 1\n");
    write_in(two, "cfg.h", "#define CFG 2\n");
    for (size_t v = 0; v < 2; v++)
        for (int lines = 0; lines < 2; lines++) { /* without and with a shared key */
            struct spelling a = {.name = "k.cu",
                                 .cwd = one,
                                 .version = versions[v],
                                 .source = lines
                                               ? "#include \"cfg.h\"\n__global__ void k(int *x) { "
                                                 "*x = CFG * __LINE__; }\n"
                                               : "#include \"cfg.h\"\n__global__ void k(int *x) { "
                                                 "*x = CFG; }\n",
                                 .options = {include}};
            struct spelling b = a;
            b.cwd = two;
            struct key of_b, own = spelling_own_result(r.warm, &b);
            cr_assert_eq(spelling_compile(r.warm, &a, NULL), WARM_MISS);
            cr_assert_eq(spelling_compile(r.warm, &b, &of_b), WARM_MISS, "%s", versions[v]);
            cr_assert(key_equal(&of_b, &own), "%s", versions[v]);
            cr_assert_eq(spelling_compile(r.warm, &a, NULL), WARM_HIT);
            cr_assert_eq(spelling_compile(r.warm, &b, NULL), WARM_HIT);
        }
    free(one);
    free(two);
    free(inc);
    rig_down(&r);
}

/* Whether a file is found by its absolute path, or beside the program, its path does not tell. */
Test(shared_headers, a_header_with_an_absolute_path_is_that_file_for_everybody)
{
    NEEDS_TOOLCHAIN(r);
    rig_up(&r);
    static const char *const versions[] = {"13.5", "12.9"};
    char *one = path_join(r.kit.dir, "one"), *two = path_join(r.kit.dir, "two");
    char direct[PATH_MAX], by_macro[PATH_MAX], name_1[PATH_MAX], name_2[PATH_MAX];
    cr_assert_eq(mkdir(one, 0755) | mkdir(two, 0755), 0);
    snprintf(name_1, sizeof name_1, "%s/k.cu", one);
    snprintf(name_2, sizeof name_2, "%s/k.cu", two);
    snprintf(direct, sizeof direct, "#include \"%s/near.h\"\n%s", one,
             "__global__ void k(int *x) { *x = NEAR; }\n");
    snprintf(by_macro, sizeof by_macro, "#define S(x) #x\n#define T(x) S(x)\n%s%s/one\n%s%s",
             "#define DIR ", r.kit.dir, "#include T(DIR/near.h)\n",
             "__global__ void k(int *x) { *x = NEAR; }\n");
    for (size_t i = 0; i < 4; i++)
        for (int shared = 0; shared < 2; shared++) {
            struct spelling a = {.name = shared ? name_1 : name_2,
                                 .cwd = shared ? "/nowhere" : one,
                                 .source = i < 2 ? direct : by_macro,
                                 .version = versions[i % 2],
                                 .options = {shared ? "-DN" : "-I../one"}};
            struct spelling b = a;
            b.name = name_2;
            b.cwd = shared ? one : two;
            write_in(two, "near.h", "#define NEAR 7\n");
            write_in(one, "near.h", "#define NEAR 7\n");
            spelling_compile(r.warm, &a, NULL);
            write_in(one, "near.h", "#define NEAR 8\n");
            struct key of_b, own = spelling_own_result(r.warm, &b);
            spelling_compile(r.warm, &b, &of_b);
            cr_expect(key_equal(&of_b, &own), "%s, %d: %s", versions[i % 2], shared, a.source);
        }
    free(one);
    free(two);
    rig_down(&r);
}

/* Whoever asks with the same shared key has another header beside its program, and in its working
 * folder the one that the first had. */
Test(shared_headers, a_header_is_the_one_beside_the_program_however_its_name_is_spelt)
{
    NEEDS_TOOLCHAIN(r);
    rig_up(&r);
    static const char *const versions[] = {"13.5", "12.9"};
    char *one = path_join(r.kit.dir, "one"), *two = path_join(r.kit.dir, "two");
    char *three = path_join(r.kit.dir, "three"), *sub = path_join(one, "sub");
    char name_2[PATH_MAX];
    cr_assert_eq(mkdir(one, 0755) | mkdir(two, 0755) | mkdir(three, 0755) | mkdir(sub, 0755), 0);
    snprintf(name_2, sizeof name_2, "%s/k.cu", two);
    write_in(one, "near.h", "#define NEAR 7\n");
    write_in(three, "near.h", "#define NEAR 7\n");
    write_in(two, "near.h", "#define NEAR 8\n");
    static const char *const names[] = {"k.cu",           "./k.cu",      ".//k.cu",
                                        "sub/../k.cu",    "../one/k.cu", "%s/./k.cu",
                                        "%s/sub/../k.cu", "%s//k.cu",    "%s/k.cu"};
    for (size_t i = 0; i < 2 * sizeof names / sizeof *names; i++) {
        char name_1[PATH_MAX], source[200], option[20];
        snprintf(name_1, sizeof name_1, names[i / 2], one);
        snprintf(source, sizeof source,
                 "#include \"near.h\"\n__global__ void k(int *x) { *x = NEAR; }\n");
        snprintf(option, sizeof option, "-DN=%zu", i); /* each round is for itself */
        struct spelling a = {.name = name_1,
                             .cwd = one,
                             .source = source,
                             .version = versions[i % 2],
                             .options = {option}};
        struct spelling b = a;
        b.name = name_2;
        b.cwd = three;
        struct key of_b, own = spelling_own_result(r.warm, &b);
        spelling_compile(r.warm, &a, NULL);
        spelling_compile(r.warm, &b, &of_b);
        cr_expect(key_equal(&of_b, &own), "%s, %s", name_1, versions[i % 2]);
        struct spelling c = b; /* and the other way round */
        c.name = name_1;
        c.cwd = one;
        struct key of_c, own_c = spelling_own_result(r.warm, &c);
        spelling_compile(r.warm, &c, &of_c);
        cr_expect(key_equal(&of_c, &own_c), "%s, %s", name_1, versions[i % 2]);
    }
    free(one);
    free(two);
    free(three);
    free(sub);
    rig_down(&r);
}

Test(shared_headers, an_include_folder_of_the_options_stays_where_it_is)
{
    NEEDS_TOOLCHAIN(r);
    rig_up(&r);
    char *one = path_join(r.kit.dir, "one"), *two = path_join(r.kit.dir, "two");
    char include[PATH_MAX];
    cr_assert_eq(mkdir(one, 0755) | mkdir(two, 0755), 0);
    snprintf(include, sizeof include, "-I%s", one);
    write_in(one, "h.h", "#define H 1\n");
    write_in(two, "h.h", "#define H 1\n");
    struct spelling a = {.name = "/nowhere/k.cu",
                         .cwd = one,
                         .source = "#include <h.h>\n__global__ void k(int *x) { *x = H; }\n",
                         .options = {include}};
    struct spelling b = a;
    b.cwd = two;
    cr_assert_eq(spelling_compile(r.warm, &a, NULL), WARM_MISS);
    write_in(one, "h.h", "#define H 3\n");
    struct key of_b, own = spelling_own_result(r.warm, &b);
    cr_assert_eq(spelling_compile(r.warm, &b, &of_b), WARM_MISS,
                 "its -I leads to the first folder");
    cr_assert(key_equal(&of_b, &own));
    free(one);
    free(two);
    rig_down(&r);
}

/* An author's next version has the same XXH3-128, by chance or not. */
Test(shared_headers, a_header_of_equal_xxh3_is_another_header)
{
    NEEDS_TOOLCHAIN(r);
    rig_up(&r);
    static char one[COLLISION_LEN + 1], two[COLLISION_LEN + 1];
    collision_make(one, two);
    struct key first = key_of_bytes(one, COLLISION_LEN), second = key_of_bytes(two, COLLISION_LEN);
    cr_assert(key_equal(&first, &second) && memcmp(one, two, COLLISION_LEN) != 0);
    for (int shares = 0; shares < 2; shares++) {
        struct spelling s = {.name = "k.cu",
                             .cwd = r.kit.dir,
                             .version = "13.5",
                             .source =
                                 "#include \"h.h\"\n__global__ void k(int *x) { *x = VALUE; }\n",
                             .options = {shares ? "-DN" : "-lineinfo"}};
        write_in(r.kit.dir, "h.h", one);
        cr_assert_eq(spelling_compile(r.warm, &s, NULL), WARM_MISS);
        cr_assert_eq(spelling_compile(r.warm, &s, NULL), WARM_HIT);
        write_in(r.kit.dir, "h.h", two);
        cr_expect_eq(spelling_expect_own(r.warm, &s), WARM_MISS);
        cr_expect_eq(spelling_compile(r.warm, &s, NULL), WARM_HIT);
    }
    rig_down(&r);
}

/* `#pragma once` compares device and inode: a copy is another file. */
Test(shared_headers, copies_of_a_header_are_not_the_header_itself)
{
    NEEDS_TOOLCHAIN(r);
    rig_up(&r);
    static const char once[] = "#pragma once\n#ifndef A1\n#define A1\n#else\n#define A2\n#endif\n";
    static const char *const versions[] = {"13.5", "12.9"};
    static const char *const ways[] = {"cp a/h.h b/h.h", "ln -s ../a/h.h b/h.h", "ln a/h.h b/h.h",
                                       "rmdir b && ln -s a b"};
    for (size_t v = 0; v < 2; v++) {
        struct spelling s = {.name = "k.cu",
                             .cwd = r.kit.dir,
                             .version = versions[v],
                             .source = "#include \"a/h.h\"\n#include \"b/h.h\"\n#ifdef A2\n"
                                       "#define V 2\n#else\n#define V 1\n#endif\n"
                                       "__global__ void k(int *x) { *x = V; }\n"};
        struct key first = {{0}}, got;
        for (size_t i = 0; i < 8; i++) {
            char *out;
            cr_assert_eq(run_command(&out,
                                     "cd %s && rm -rf a b && mkdir a b && printf '%s' >a/h.h && %s",
                                     r.kit.dir, once, ways[i % 4]),
                         0);
            free(out);
            int outcome = spelling_expect_own(r.warm, &s);
            cr_expect_eq(outcome, i < 2 ? WARM_MISS : WARM_HIT, "%s: %d", ways[i % 4], outcome);
            spelling_compile(r.warm, &s, &got);
            if (i == 0)
                first = got;
            cr_expect_eq(key_equal(&got, &first), i % 4 == 0, "the pragma counts: %s", ways[i % 4]);
        }
    }
    rig_down(&r);
}

/* Two checkouts of one project in the kit's folder: inc/h.h, inc/deep.h, and what a test adds. */
static void check_out(const struct warmd *kit, const char *name)
{
    char *folder = path_join(kit->dir, name), *inc = path_join(folder, "inc");
    char *src = path_join(folder, "src");
    cr_assert_eq(mkdir(folder, 0755) | mkdir(inc, 0755) | mkdir(src, 0755), 0);
    write_in(inc, "h.h", "#pragma once\n#include \"deep.h\"\n");
    write_in(inc, "deep.h", "#pragma once\n#define H 3\n");
    free(folder);
    free(inc);
    free(src);
}

/* A job in one of them. */
struct checkout {
    char cwd[PATH_MAX], include[PATH_MAX], name[PATH_MAX];
    struct spelling job;
};

static const char uses_h[] = "#include \"h.h\"\n__global__ void k(int *x) { *x = H; }\n";

static void checkout_job(struct checkout *c, const struct warmd *kit, const char *name,
                         const char *version)
{
    snprintf(c->cwd, sizeof c->cwd, "%s/%s", kit->dir, name);
    snprintf(c->include, sizeof c->include, "-I%s/%s/inc", kit->dir, name);
    snprintf(c->name, sizeof c->name, "%s/%s/src/k.cu", kit->dir, name);
    c->job = (struct spelling){.name = "k.cu",
                               .cwd = c->cwd,
                               .source = uses_h,
                               .version = version,
                               .options = {c->include}};
}

static const char *const both[] = {"13.5", "12.9"};

Test(shared_headers, a_checkout_that_moved_hits)
{
    NEEDS_TOOLCHAIN(r);
    rig_up(&r);
    check_out(&r.kit, "one");
    check_out(&r.kit, "two");
    for (size_t v = 0; v < 2; v++) {
        struct checkout one, two;
        checkout_job(&one, &r.kit, "one", both[v]);
        checkout_job(&two, &r.kit, "two", both[v]);
        cr_expect_eq(spelling_expect_own(r.warm, &one.job), WARM_MISS);
        cr_expect_eq(spelling_expect_own(r.warm, &two.job), WARM_HIT, "%s: other -I and folder",
                     both[v]);
        cr_expect_eq(spelling_expect_own(r.warm, &two.job), WARM_HIT, "by its alias");
        two.job.cwd = "/";
        cr_expect_eq(spelling_expect_own(r.warm, &two.job), WARM_HIT, "%s: other folder", both[v]);
        two.job.name = two.name;
        cr_expect_eq(spelling_expect_own(r.warm, &two.job), WARM_HIT, "%s: the program's folder",
                     both[v]);
        char *deep = path_join(two.cwd, "inc/deep.h");
        file_write(deep, "#define H 4\n", 12);
        cr_expect_eq(spelling_expect_own(r.warm, &two.job), WARM_MISS, "its own header counts");
        cr_expect_eq(spelling_expect_own(r.warm, &one.job), WARM_HIT);
        file_write(deep, "#pragma once\n#define H 3\n", 25);
        free(deep);
    }
    rig_down(&r);
}

/* A header that shows its path must stay at this path. */
Test(shared_headers, a_header_that_shows_its_folder_does_not_move)
{
    NEEDS_TOOLCHAIN(r);
    rig_up(&r);
    check_out(&r.kit, "one");
    check_out(&r.kit, "second"); /* of another length */
    static const char *const shows[] = {
        "#define H sizeof(__FILE__)\n", "#define H (__FILE__[0] ? sizeof(__FILE__) : 0)\n",
        "#define P(a, b) a##b\n#define H sizeof(P(__FI, LE__))\n",
        "static __device__ inline int f(const char *p = __builtin_FILE()) { int n = 0; "
        "while (p[n]) n++; return n; }\n#define H f()\n"};
    for (size_t i = 0; i < sizeof shows / sizeof *shows; i++)
        for (size_t v = 0; v < 2; v++) {
            struct checkout one, two;
            checkout_job(&one, &r.kit, "one", both[v]);
            checkout_job(&two, &r.kit, "second", both[v]);
            char *a = path_join(one.cwd, "inc/deep.h"), *b = path_join(two.cwd, "inc/deep.h");
            file_write(a, shows[i], strlen(shows[i]));
            file_write(b, shows[i], strlen(shows[i]));
            spelling_expect_own(r.warm, &one.job);
            cr_expect_eq(spelling_expect_own(r.warm, &two.job), WARM_MISS, "%s: %s", both[v],
                         shows[i]);
            cr_expect_eq(spelling_expect_own(r.warm, &one.job), WARM_HIT);
            cr_expect_eq(spelling_expect_own(r.warm, &two.job), WARM_HIT);
            free(a);
            free(b);
        }
    rig_down(&r);
}

/* A path beneath the working folder and an -I folder may stem from either: what the source and the
 * options say decides whether it can. */
Test(shared_headers, a_header_found_from_the_working_folder_is_the_askers)
{
    NEEDS_TOOLCHAIN(r);
    rig_up(&r);
    check_out(&r.kit, "one");
    check_out(&r.kit, "two");
    static const struct {
        const char *source, *option, *name;
    } ways[] = {
        {"#include \"inc/h.h\"\n__global__ void k(int *x) { *x = H; }\n", NULL, "k.cu"},
        {"#include \"inc//h.h\"\n__global__ void k(int *x) { *x = H; }\n", NULL, "k.cu"},
        {"#include <h.h>\n__global__ void k(int *x) { *x = H; }\n", "-Iinc", "k.cu"},
        {"#include <inc/h.h>\n__global__ void k(int *x) { *x = H; }\n", "-I.", "k.cu"},
        {"#include \"h.h\"\n__global__ void k(int *x) { *x = H; }\n", NULL, "inc/k.cu"},
        {"#include X\n__global__ void k(int *x) { *x = H; }\n", "-DX=\"inc/h.h\"", "k.cu"},
        {"#define S(x) #x\n#define T(x) S(x)\n#define D inc\n#include T(D/h.h)\n"
         "__global__ void k(int *x) { *x = H; }\n",
         NULL, "k.cu"},
        {"__global__ void k(int *x) { *x = H; }\n", "--pre-include=inc/h.h", "k.cu"},
        {"#if __has_include(\"inc/h.h\")\n#define V 1\n#else\n#define V 2\n#endif\n"
         "__global__ void k(int *x) { *x = V; }\n",
         NULL, "k.cu"},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        for (size_t v = 0; v < 2; v++) {
            struct checkout one;
            checkout_job(&one, &r.kit, "one", both[v]);
            one.job.source = ways[i].source;
            one.job.name = ways[i].name;
            one.job.options[0] = ways[i].option ? ways[i].option : one.include;
            one.job.options[1] = ways[i].option ? one.include : NULL;
            struct spelling two = one.job;
            char cwd[PATH_MAX];
            snprintf(cwd, sizeof cwd, "%s/two", r.kit.dir);
            two.cwd = cwd; /* and the -I of the first */
            spelling_expect_own(r.warm, &one.job);
            spelling_expect_own(r.warm, &two);
            char *other = path_join(cwd, "inc/deep.h");
            file_write(other, "#define H 5\n", 12);
            cr_expect(spelling_expect_own(r.warm, &two) == WARM_MISS || i == 8, "%s: %zu", both[v],
                      i);
            free(other);
            other = path_join(cwd, "inc/h.h");
            unlink(other);
            struct warm_result result;
            cr_expect_eq(spelling_try(r.warm, &two, &result), 0);
            struct spelling own = two;
            own.flags = WARM_RECACHE | WARM_NO_STORE;
            int status = result.status;
            warm_result_free(&result);
            cr_expect_eq(spelling_try(r.warm, &own, &result), 0);
            cr_expect_eq(result.status, status, "%s: %zu", both[v], i);
            warm_result_free(&result);
            file_write(other, "#pragma once\n#include \"deep.h\"\n", 31);
            free(other);
            other = path_join(cwd, "inc/deep.h");
            file_write(other, "#pragma once\n#define H 3\n", 25);
            free(other);
        }
    rig_down(&r);
}

/* The maker read one file under one path; the asker may read it from two folders. */
Test(shared_headers, one_path_of_the_maker_may_be_two_files_of_the_asker)
{
    NEEDS_TOOLCHAIN(r);
    rig_up(&r);
    check_out(&r.kit, "one");
    check_out(&r.kit, "two");
    static const char counts[] = "#pragma once\n#ifdef A1\n#define A2\n#endif\n#define A1\n";
    static const char source[] = "#include <c.h>\n#include \"inc/c.h\"\n#ifdef A2\n#define V 2\n"
                                 "#else\n#define V 1\n#endif\n"
                                 "__global__ void k(int *x) { *x = V; }\n";
    for (int i = 0; i < 2; i++) {
        char *path = path_join(r.kit.dir, i ? "one/inc/c.h" : "two/inc/c.h");
        file_write(path, counts, sizeof counts - 1);
        free(path);
    }
    for (size_t v = 0; v < 2; v++) {
        struct checkout one, two;
        checkout_job(&one, &r.kit, "one", both[v]);
        checkout_job(&two, &r.kit, "two", both[v]);
        one.job.source = two.job.source = source;
        cr_expect_eq(spelling_expect_own(r.warm, &one.job), WARM_MISS);
        cr_expect_eq(spelling_expect_own(r.warm, &two.job), WARM_HIT);
        two.job.options[0] = one.include;
        cr_expect_eq(spelling_expect_own(r.warm, &two.job), WARM_MISS, "%s", both[v]);
        cr_expect_eq(spelling_expect_own(r.warm, &one.job), WARM_HIT);
    }
    rig_down(&r);
}

/* The compiler makes one '/' of several, in the working folder and the program's name too. */
Test(shared_headers, slashes_in_a_row_hide_no_folder)
{
    NEEDS_TOOLCHAIN(r);
    rig_up(&r);
    check_out(&r.kit, "one");
    check_out(&r.kit, "two");
    static const char tests[] = "#if __has_include(\"near.h\")\n#define V 1\n#else\n#define V 2\n"
                                "#endif\n__global__ void k(int *x) { *x = V; }\n";
    char *near = path_join(r.kit.dir, "two/near.h");
    for (size_t v = 0; v < 2; v++)
        for (int by_name = 0; by_name < 2; by_name++) {
            char first[PATH_MAX], second[PATH_MAX];
            snprintf(first, sizeof first, "%s//one%s", r.kit.dir, by_name ? "//k.cu" : "");
            snprintf(second, sizeof second, "%s//two%s", r.kit.dir, by_name ? "//k.cu" : "");
            struct spelling a = {.name = by_name ? first : "k.cu",
                                 .cwd = by_name ? "/" : first,
                                 .source = tests,
                                 .version = both[v]};
            struct spelling b = a;
            b.name = by_name ? second : "k.cu";
            b.cwd = by_name ? "/" : second;
            spelling_expect_own(r.warm, &a);
            file_write(near, "", 0);
            cr_expect_eq(spelling_expect_own(r.warm, &b), WARM_MISS, "%s, %d", both[v], by_name);
            unlink(near);
            cr_expect_eq(spelling_expect_own(r.warm, &b), WARM_HIT, "%s, %d", both[v], by_name);
        }
    free(near);
    rig_down(&r);
}
