/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_why.c - `warm why`: one seeded cause of each kind against a real daemon, as a shell sees it;
 * then recipes and the history by themselves.
 *
 * What compiles needs a toolchain in $WARM_TOOLCHAIN, or beside the tests' folder.
 */
#include "tests/support/warmd.h"

#include <ftw.h>

#include "client/lib/warm.h"
#include "daemon/history/history.h"

/* Runs `warm ARGUMENTS` in the kit's folder, with variables in front; its status. */
static int warm(const struct warmd *k, char **out, const char *variables, const char *arguments)
{
    char *program = bin_path("warm");
    int status = run_command(out, "cd %s && %s WARM_SOCKET=%s %s %s 2>&1", k->dir, variables,
                             k->socket, program, arguments);
    free(program);
    return status;
}

static void must(const struct warmd *k, int status, const char *arguments)
{
    char *out;
    int got = warm(k, &out, "", arguments);
    cr_assert_eq(got, status, "warm %s: %d: %s", arguments, got, out);
    free(out);
}

/* `warm why ARGUMENTS` says `text`. */
static void expect_why(const struct warmd *k, const char *arguments, const char *text)
{
    char *out, *command;
    cr_assert_geq(asprintf(&command, "why %s", arguments), 0);
    int status = warm(k, &out, "", command);
    cr_assert_eq(status, 0, "warm %s: %d: %s", command, status, out);
    cr_assert_not_null(strstr(out, text), "warm %s: no `%s` in: %s", command, text, out);
    free(command);
    free(out);
}

static void write_in(const struct warmd *k, const char *name, const char *text)
{
    char *path = path_join(k->dir, name);
    file_write(path, text, strlen(text));
    free(path);
}

/* `to` becomes another name of `from`. */
static void link_in(const struct warmd *k, const char *from, const char *to)
{
    char *old = path_join(k->dir, from), *new = path_join(k->dir, to);
    cr_assert_eq(unlink(new) | link(old, new), 0);
    free(old);
    free(new);
}

static void restart(struct warmd *k)
{
    kill(k->pid, SIGTERM);
    warmd_reap(k->pid);
    warmd_start(k, NULL);
}

/* ---- causes that need no compiler ---- */

Test(why, nothing_like_it_is_cold)
{
    struct warmd k = warmd_up(NULL);
    must(&k, 1, "get never -o out");
    expect_why(&k, "never", "cold: nothing like it was made here before");
    expect_why(&k, "", "cold");
    must(&k, 1, "why another");
    warmd_down(&k);
}

Test(why, evicted_expired_and_removed_entries_say_when_and_by_what)
{
    struct warmd k = warmd_up(NULL);
    write_in(&k, "v", "some value");
    must(&k, 0, "put a v");
    must(&k, 0, "evict --min-size 1");
    must(&k, 1, "get a -o out");
    expect_why(&k, "a", "evicted: 20");
    expect_why(&k, "a", "UTC: evicted by `warm evict`");
    must(&k, 0, "put b v");
    must(&k, 0, "rm b");
    must(&k, 1, "get b -o out");
    expect_why(&k, "b", "removed by `warm rm`");
    warmd_down(&k);
}

Test(why, eviction_is_remembered_over_a_restart)
{
    struct warmd k = warmd_up(NULL);
    write_in(&k, "v", "some value");
    must(&k, 0, "put a v");
    must(&k, 0, "evict --min-size 1");
    restart(&k);
    must(&k, 1, "get a -o out");
    expect_why(&k, "a", "evicted by `warm evict`");
    restart(&k);
    expect_why(&k, "a", "evicted by `warm evict`");
    warmd_down(&k);
}

static char damaged_file[4096];

static int on_blob(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)ftw;
    if (type == FTW_F && st->st_size >= 100000)
        snprintf(damaged_file, sizeof damaged_file, "%s", path);
    return 0;
}

Test(why, damaged_values_are_corrupt)
{
    struct warmd k = warmd_up(NULL);
    char *big = calloc(1, 200000), *path = path_join(k.dir, "big"),
         *blobs = path_join(k.store, "blobs");
    file_write(path, big, 200000);
    must(&k, 0, "put a big");
    kill(k.pid, SIGTERM);
    warmd_reap(k.pid);
    nftw(blobs, on_blob, 16, FTW_PHYS);
    chmod(damaged_file, 0600);
    int fd = open(damaged_file, O_WRONLY);
    cr_assert(fd >= 0 && pwrite(fd, "x", 1, 1000) == 1, "%s", damaged_file);
    close(fd);
    warmd_start(&k, NULL);
    must(&k, 1, "get a -o out");
    expect_why(&k, "a", "corrupt: ");
    free(blobs);
    free(path);
    free(big);
    warmd_down(&k);
}

Test(why, what_cannot_be_kept_names_its_token)
{
    struct warmd k = warmd_up(NULL);
    write_in(&k, "k.cu", "__global__ void k(const char **s) { *s = __TIME__; }\n");
    must(&k, 2, "compile k.cu --arch sm_90");
    expect_why(&k, "k.cu", "uncacheable: ");
    expect_why(&k, "k.cu", "__TIME__");
    warmd_down(&k);
}

Test(why, what_was_switched_off_is_disabled)
{
    struct warmd k = warmd_up(NULL);
    char *out;
    warm(&k, &out, "WARM_RECACHE=1", "get a -o out");
    free(out);
    expect_why(&k, "--last", "disabled: WARM_RECACHE is set");
    cr_assert_eq(warm(&k, &out, "WARM_DISABLE=1", "run true"), 0);
    cr_assert_str_eq(out, "");
    free(out);
    expect_why(&k, "--last", "disabled: WARM_DISABLE was set");
    expect_why(&k, "true", "disabled");
    warmd_down(&k);
}

Test(why, requests_that_a_hung_daemon_did_not_answer_are_timeouts)
{
    struct warmd k = warmd_up(NULL);
    struct warm_options options = {
        .socket = k.socket, .connect_timeout_ms = 10, .request_timeout_ms = 10};
    struct warm *w;
    struct warm_value v;
    setenv("WARM_SESSION", "hung", 1);
    cr_assert_eq(warm_open(&w, &options), 0);
    kill(k.pid, SIGSTOP);
    cr_assert_eq(warm_get(w, "a", 1, 0, &v), WARM_ETIMEOUT);
    kill(k.pid, SIGCONT);
    warm_close(w);
    options.connect_timeout_ms = options.request_timeout_ms = WARMD_WAIT_MS;
    int code;
    for (uint64_t end = clock_now_ms() + WARMD_WAIT_MS; /* it is left alone for a second */
         (code = warm_open(&w, &options)) == WARM_ENO_DAEMON && clock_now_ms() < end;)
        usleep(10000);
    cr_assert_eq(code, 0);
    cr_assert_eq(warm_get(w, "b", 1, 0, &v), WARM_ENOT_FOUND);
    cr_assert_eq(warm_get(w, "c", 1, 0, &v), WARM_ENOT_FOUND);
    warm_close(w);
    expect_why(&k, "--session hung", "timeout: 1 request was not answered in time");
    warmd_down(&k);
}

Test(why, name_of_a_redis_client_tells_its_session)
{
    struct warmd k = warmd_up(NULL);
    int fd = warmd_connect(&k);
    warmd_redis(fd, "CLIENT SETNAME warm-session-r.1\r\n", "+OK\r\n");
    warmd_redis(fd, "GET a\r\n", "$-1\r\n");
    warmd_redis(fd, "SET a 1\r\n", "+OK\r\n");
    warmd_redis(fd, "GET a\r\n", "$1\r\n1\r\n");
    close(fd);
    expect_why(&k, "--session r.1", "session r.1: asked 2: 1 hits, 0 coalesced, 1 misses");
    warmd_down(&k);
}

/* ---- what clients make themselves ---- */

static void make(struct warm *w, const char *name, const char *hardware, const char *compiler,
                 const char *label)
{
    struct warm_value v;
    cr_assert_eq(warm_get(w, name, strlen(name), WARM_WANT_LEASE, &v), WARM_LEASE);
    struct warm_put_options put = {.token = v.token,
                                   .kind = "executable",
                                   .hardware = hardware,
                                   .compiler = compiler,
                                   .label = label};
    cr_assert_eq(warm_put(w, name, strlen(name), "x", 1, &put), 0);
}

Test(why, what_clients_say_of_their_artifacts_is_compared)
{
    struct warmd k = warmd_up(NULL);
    struct warm_options options = {.socket = k.socket, .connect_timeout_ms = WARMD_WAIT_MS};
    struct warm *w;
    cr_assert_eq(warm_open(&w, &options), 0);
    make(w, "ptxas:1", "sm_90", "ptxas 12.9; driver=550.54", "step.ptx; -O3");
    make(w, "ptxas:2", "sm_90", "ptxas 13.0; driver=550.54", "step.ptx; -O3");
    make(w, "ptxas:3", "sm_90", "ptxas 13.0; driver=560.10", "step.ptx; -O3");
    make(w, "ptxas:4", "sm_90", "ptxas 13.0; driver=560.10", "step.ptx; -O0");
    make(w, "ptxas:5", "sm_90a", "ptxas 13.0; driver=560.10", "step.ptx; -O0");
    make(w, "ptxas:6", "sm_90a", "ptxas 13.0; driver=560.10", "step.ptx; -O0");
    make(w, "ptxas:7", "sm_90a", "ptxas 13.0; driver=560.10", "other.ptx; -O0");
    warm_close(w);
    expect_why(&k, "ptxas:1", "cold");
    expect_why(&k, "ptxas:2", "compiler: ptxas 12.9 \xe2\x86\x92 ptxas 13.0");
    expect_why(&k, "ptxas:3", "driver: 550.54 \xe2\x86\x92 560.10");
    expect_why(&k, "ptxas:4", "option -O3: given \xe2\x86\x92 (none)");
    expect_why(&k, "ptxas:5", "hardware: sm_90 \xe2\x86\x92 sm_90a");
    expect_why(&k, "ptxas:6", "in input: ");
    expect_why(&k, "ptxas:7", "cold");
    warmd_down(&k);
}

/* JAX's own key is asked for when the canonical one has missed: one compile, one miss. */
Test(why, second_name_that_misses_is_no_second_miss)
{
    struct warmd k = warmd_up(NULL);
    char *out;
    static const char *const names[] = {"jax:1:0123", "jax:stock:jit_f-0123"};
    write_in(&k, "v", "value");
    for (size_t i = 0; i < 2; i++) {
        char command[64];
        snprintf(command, sizeof command, "get %s -o o", names[i]);
        cr_assert_eq(warm(&k, &out, "WARM_SESSION=s", command), 1, "%s", out);
        free(out);
    }
    expect_why(&k, "--session s", "asked 1: 0 hits, 0 coalesced, 1 misses");
    must(&k, 0, "put jax:stock:jit_f-0123 v");
    cr_assert_eq(warm(&k, &out, "WARM_SESSION=s", "get jax:stock:jit_f-0123 -o o"), 0, "%s", out);
    free(out);
    expect_why(&k, "--session s", "asked 2: 1 hits, 0 coalesced, 1 misses");
    warmd_down(&k);
}

/* ---- compiles ---- */

Test(why, each_part_of_a_compile_is_named)
{
    char *lib = toolchain_lib("13.5.37");
    if (!lib)
        cr_skip_test("no CUDA toolchain: set WARM_TOOLCHAIN or run `make toolchain`");
    char *options[] = {(char *)(uintptr_t) "--nvrtc", lib, NULL};
    struct warmd k = warmd_up(options);
    write_in(&k, "h.h", "#define A 1\n");
    write_in(&k, "k.cu", "#include \"h.h\"\n__global__ void k(int *x) { *x = A; }\n");
    must(&k, 0, "compile k.cu --arch sm_90 -o o");
    expect_why(&k, "k.cu", "cold");
    must(&k, 0, "compile k.cu --arch sm_90 -o o --std=c++20");
    expect_why(&k, "--last", "option --std: (none) \xe2\x86\x92 c++20");
    must(&k, 0, "compile k.cu --arch sm_80 -o o");
    expect_why(&k, "--last", "arch: sm_90 \xe2\x86\x92 sm_80");
    must(&k, 0, "compile k.cu --arch sm_90 -o o --name renamed");
    expect_why(&k, "--last", "name: k.cu \xe2\x86\x92 renamed");
    write_in(&k, "h.h", "#define A 2\n");
    kill(k.pid, SIGTERM);
    warmd_reap(k.pid);
    warmd_start(&k, options); /* what it knew of the header outlives it */
    must(&k, 0, "compile k.cu --arch sm_90 -o o");
    expect_why(&k, "--last", "header ");
    expect_why(&k, "--last", "h.h line 1: ");
    char *out;
    cr_assert_eq(warm(&k, &out, "", "why --last"), 0);
    char *first = strstr(out, "header ");
    cr_assert(first && !strstr(first + 1, "header "), "one file is named once: %s", out);
    free(out);
    write_in(&k, "k.cu", "#include \"h.h\"\n__global__ void k(int *x) { *x = A + 1; }\n");
    must(&k, 0, "compile k.cu --arch sm_90 -o o");
    expect_why(&k, "--last", "source: ");
    write_in(&k, "h.h", "#pragma once\n#define A 2\n");
    write_in(&k, "copy.h", "#pragma once\n#define A 2\n");
    write_in(&k, "k.cu", "#include \"h.h\"\n#include \"copy.h\"\n__global__ void k(int *x) {}\n");
    must(&k, 0, "compile k.cu --arch sm_90 -o o");
    link_in(&k, "h.h", "copy.h");
    must(&k, 0, "compile k.cu --arch sm_90 -o o");
    expect_why(&k, "--last", "copy.h: a file of its own \xe2\x86\x92 one file with another header");
    must(&k, 0, "compile k.cu --arch sm_90 -o o --recache");
    expect_why(&k, "--last", "disabled: compiled anew");
    must(&k, 0, "clear --yes");
    must(&k, 0, "compile k.cu --arch sm_90 -o o");
    expect_why(&k, "--last", "evicted by `warm evict` or `warm clear`");
    warmd_down(&k);
    free(lib);
}

/* ---- recipes ---- */

static struct view text(const char *t) { return (struct view){t, strlen(t)}; }

static void recipe(struct writer *out, const char *hardware, const char *label, const char *source)
{
    static struct recipe r;
    recipe_begin(&r);
    recipe_add_text(&r, "hardware", text(hardware));
    recipe_add_text(&r, "label", text(label));
    if (source)
        recipe_add(&r, "source", text(source));
    writer_init(out, RECIPE_MAX);
    recipe_end(&r, out);
    cr_assert(!out->failed);
}

static void expect_change(const struct recipe_change *c, const char *part, const char *old,
                          const char *now)
{
    char got[256], want[256];
    snprintf(got, sizeof got, "%.*s: %.*s, %.*s", (int)c->part.len, (const char *)c->part.data,
             (int)c->old.len, (const char *)c->old.data, (int)c->now.len,
             (const char *)c->now.data);
    snprintf(want, sizeof want, "%s: %s, %s", part, old, now);
    cr_assert_str_eq(got, want);
}

Test(recipe, comparison_pairs_what_has_one_name)
{
    struct recipe_change c[8];
    struct writer a, b;
    recipe(&a, "sm_90", "k; -O3; x=1; -v", NULL);
    recipe(&b, "sm_80", "k; -O3; x=2", NULL);
    struct view old = {a.data, a.len}, now = {b.data, b.len};
    cr_assert_eq(recipe_compare(old, old, c, 8), 0);
    cr_assert_eq(recipe_compare(old, now, c, 8), 3);
    expect_change(&c[0], "hardware", "sm_90", "sm_80");
    expect_change(&c[1], "option -v", "given", "");
    expect_change(&c[2], "x", "1", "2");
    cr_assert_eq(recipe_compare(now, old, c, 1), 3, "all are counted");
    writer_close(&a);
    writer_close(&b);
}

Test(recipe, options_of_a_job_have_names_and_values)
{
    static struct recipe r;
    struct view options[] = {text("-DN=4"),
                             text("-I"),
                             text("inc"),
                             text("--std=c++17"),
                             text("--gpu-architecture=sm_90"),
                             text("-lineinfo")};
    struct job job = {.language = JOB_CUDA,
                      .name = text("k.cu"),
                      .source = text("source"),
                      .options = options,
                      .n_options = 6};
    struct writer w;
    struct view value;
    recipe_begin(&r);
    recipe_add_job(&r, &job);
    writer_init(&w, RECIPE_MAX);
    recipe_end(&r, &w);
    struct view bytes = {w.data, w.len};
    static const char *const parts[][2] = {{"option -D", "N=4"},
                                           {"option -I", "inc"},
                                           {"option --std", "c++17"},
                                           {"option -lineinfo", "given"},
                                           {"name", "k.cu"}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        cr_assert(recipe_find(bytes, parts[i][0], &value), "%s", parts[i][0]);
        cr_assert(value.len == strlen(parts[i][1]) && !memcmp(value.data, parts[i][1], value.len));
    }
    cr_assert(!recipe_find(bytes, "option --gpu-architecture", &value), "that is the target's");
    writer_close(&w);
}

Test(recipe, parts_beyond_the_limit_still_tell_a_difference)
{
    static struct recipe r;
    struct recipe_change c[2];
    struct writer w[2];
    char name[32];
    for (int side = 0; side < 2; side++) {
        recipe_begin(&r);
        for (unsigned i = 0; i < 300; i++) {
            snprintf(name, sizeof name, "part %u", i);
            recipe_add(&r, name, text(i == 299 && side ? "other" : "same"));
        }
        writer_init(&w[side], RECIPE_MAX);
        recipe_end(&r, &w[side]);
        cr_assert(!w[side].failed);
    }
    cr_assert_eq(recipe_compare((struct view){w[0].data, w[0].len},
                                (struct view){w[1].data, w[1].len}, c, 2),
                 1);
    writer_close(&w[0]);
    writer_close(&w[1]);
}

/* ---- the history ---- */

static struct store_id id_of(const char *name)
{
    return (struct store_id){7, key_of_bytes(name, strlen(name))};
}

static uint64_t miss(struct history *h, const char *name, uint32_t session, uint64_t at_ms)
{
    return history_miss(
        h,
        &(struct history_ask){.id = id_of(name), .uid = 7, .session = session, .name = text(name)},
        at_ms);
}

/* The JSON of a key's misses; "" if there are none. */
static char *json_of(struct history *h, enum wire_history_of of, const char *id)
{
    static char out[65536];
    struct writer w;
    writer_init(&w, sizeof out - 1);
    *out = '\0';
    if (history_write_json(
            h,
            &(struct history_query){
                .of = of, .id = text(id), .uid = -1, .asker = 7, .max_bytes = sizeof out / 2},
            &w))
        snprintf(out, sizeof out, "%.*s", (int)w.len, (const char *)w.data);
    writer_close(&w);
    return out;
}

static void expect_json(struct history *h, enum wire_history_of of, const char *id,
                        const char *part)
{
    char *json = json_of(h, of, id);
    cr_assert_not_null(strstr(json, part), "no %s in %s", part, json);
}

static void remember(struct history *h, const char *name, uint32_t session, const struct writer *w)
{
    history_remember(h, &(struct history_made){.id = id_of(name), .uid = 7, .session = session},
                     (struct view){w->data, w->len}, 1000);
}

Test(history, sessions_are_counted_apart)
{
    struct history *h = history_new(NULL);
    uint32_t a = history_join(h, 7, text("a"), 1), b = history_join(h, 7, text("b"), 2);
    cr_assert(a && b && a != b);
    cr_assert_eq(history_join(h, 7, text("a"), 3), a);
    cr_assert_eq(history_join(h, 7, text("not/an id"), 3), HISTORY_NO_SESSION);
    cr_assert_neq(history_join(h, 8, text("a"), 3), a, "another user's");
    history_count(h, a, HISTORY_hits, 2, 4);
    history_count(h, b, HISTORY_hits, 5, 5);
    miss(h, "x", a, 6);
    miss(h, "y", b, 7);
    expect_json(h, WIRE_HISTORY_SESSION, "a", "\"hits\": 2");
    expect_json(h, WIRE_HISTORY_SESSION, "a", "\"name\": \"x\"");
    cr_assert_null(strstr(json_of(h, WIRE_HISTORY_SESSION, "a"), "\"name\": \"y\""));
    expect_json(h, WIRE_HISTORY_LAST, "", "\"id\": \"b\"");
    cr_assert_str_eq(json_of(h, WIRE_HISTORY_SESSION, "c"), "");
    history_free(h);
}

Test(history, sessions_and_misses_are_bounded)
{
    struct history *h = history_new(NULL);
    char name[32];
    uint32_t held = history_join(h, 7, text("held"), 1);
    for (unsigned i = 0; i < 3 * HISTORY_SESSIONS; i++) {
        snprintf(name, sizeof name, "s%u", i);
        history_leave(h, history_join(h, 7, text(name), 2 + i));
    }
    cr_assert_eq(history_join(h, 7, text("held"), 9), held, "who is connected keeps its session");
    for (unsigned i = 0; i < 3 * HISTORY_MISSES; i++) {
        snprintf(name, sizeof name, "m%u", i);
        miss(h, name, held, i + 1);
    }
    cr_assert_eq(history_find(h, &(struct store_id){7, key_of_bytes("m0", 2)}), 0);
    struct store_id last = id_of(name);
    cr_assert_eq(history_find(h, &last), 3 * HISTORY_MISSES);
    cr_assert_str_eq(json_of(h, WIRE_HISTORY_KEY, "m0"), "");
    history_free(h);
}

Test(history, recipes_are_bounded_in_bytes)
{
    struct history *h = history_new(NULL);
    struct writer w;
    writer_init(&w, 0);
    writer_text(&w, "label");
    writer_text(&w, "l");
    while (w.len < 8000) {
        writer_text(&w, "part");
        writer_text(&w, "0123456789012345678901234567890123456789");
    }
    char name[32];
    for (unsigned i = 0; i < 2 * HISTORY_KNOWN; i++) {
        snprintf(name, sizeof name, "k%u", i);
        remember(h, name, 0, &w);
    }
    uint64_t number = miss(h, name, 0, 1);
    history_explain(h, number, (struct view){w.data, w.len});
    expect_json(h, WIRE_HISTORY_KEY, name, "made here before");
    number = miss(h, "k0", 0, 1);
    history_explain(h, number, (struct view){w.data, w.len});
    expect_json(h, WIRE_HISTORY_KEY, "k0", "\"part\": \"input\"");
    writer_close(&w);
    history_free(h);
}

Test(history, sibling_of_the_same_session_is_no_older_version)
{
    struct history *h = history_new(NULL);
    struct writer w[3];
    recipe(&w[0], "sm_90", "k", "1");
    recipe(&w[1], "sm_90", "k", "2");
    recipe(&w[2], "sm_90", "k", "3");
    uint32_t now = history_join(h, 7, text("now"), 1), later = history_join(h, 7, text("later"), 2);
    remember(h, "one", now, &w[0]);
    uint64_t two = miss(h, "two", now, 2);
    history_explain(h, two, (struct view){w[1].data, w[1].len});
    expect_json(h, WIRE_HISTORY_KEY, "two", "\"reason\": \"cold\"");
    uint64_t three = miss(h, "three", later, 3);
    history_explain(h, three, (struct view){w[2].data, w[2].len});
    expect_json(h, WIRE_HISTORY_KEY, "three",
                "\"part\": \"source\", \"old\": \"1\", \"new\": \"3\"");
    struct store_id one = id_of("one");
    history_hit(h, later, &one);
    uint64_t four = miss(h, "four", later, 4);
    history_explain(h, four, (struct view){w[1].data, w[1].len});
    expect_json(h, WIRE_HISTORY_KEY, "four", "\"reason\": \"cold\"");
    for (int i = 0; i < 3; i++)
        writer_close(&w[i]);
    history_free(h);
}

Test(history, other_users_misses_are_not_shown)
{
    struct history *h = history_new(NULL);
    struct writer w;
    miss(h, "x", 0, 1);
    writer_init(&w, 0);
    struct history_query q = {
        .of = WIRE_HISTORY_KEY, .id = text("x"), .uid = 8, .asker = 8, .max_bytes = 65536};
    cr_assert(!history_write_json(h, &q, &w) && w.len == 0);
    q.of = WIRE_HISTORY_LAST;
    cr_assert(!history_write_json(h, &q, &w));
    q.uid = q.asker = 7;
    cr_assert(history_write_json(h, &q, &w));
    writer_close(&w);
    history_free(h);
}

/* A history with one of each, written to `path`. */
static void write_history(const char *path)
{
    struct history *h = history_new(path);
    struct writer w;
    recipe(&w, "sm_90", "k", "1");
    remember(h, "made", 0, &w);
    history_left(h, &(struct store_departure){
                        .id = id_of("gone"), .cause = STORE_LEFT_FOR_ROOM, .at_ms = 86400000});
    uint64_t n = miss(h, "missed", 0, 1);
    history_change(h, n, &(struct recipe_change){text("arch"), text("sm_80"), text("sm_90")});
    history_save(h);
    writer_close(&w);
    history_free(h);
}

Test(history, file_keeps_what_is_gone_what_was_made_and_what_was_missed)
{
    char *dir = temp_dir_new(), *path = path_join(dir, "history");
    struct writer w;
    write_history(path);
    struct history *h = history_new(path);
    expect_json(h, WIRE_HISTORY_KEY, "missed", "\"old\": \"sm_80\", \"new\": \"sm_90\"");
    miss(h, "gone", 0, 2);
    expect_json(h, WIRE_HISTORY_KEY, "gone", "1970-01-02 00:00:00 UTC: evicted, to stay below");
    recipe(&w, "sm_80", "k", "1");
    history_explain(h, miss(h, "next", 0, 3), (struct view){w.data, w.len});
    expect_json(h, WIRE_HISTORY_KEY, "next", "\"part\": \"hardware\"");
    writer_close(&w);
    history_free(h);
    free(path);
    temp_dir_free(dir);
}

Test(history, damaged_file_is_as_good_as_none)
{
    char *dir = temp_dir_new(), *path = path_join(dir, "history");
    size_t len;
    write_history(path);
    char *bytes = file_read(path, &len);
    for (size_t i = 0; i <= len; i += 7) {
        char *copy = malloc(len);
        memcpy(copy, bytes, len);
        if (i < len)
            copy[i] ^= 0x20;
        file_write(path, copy, i < len ? len : len - 1);
        struct history *h = history_new(path);
        cr_assert_str_eq(json_of(h, WIRE_HISTORY_KEY, "missed"), "", "byte %zu", i);
        history_free(h);
        free(copy);
    }
    free(bytes);
    free(path);
    temp_dir_free(dir);
}
