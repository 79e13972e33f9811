/* SPDX-License-Identifier: Apache-2.0 */
/* test_client.c - libwarm against a real daemon: values of every size, leases, restarts, compiles
 * with more headers than fit into a frame. */
#include "client/lib/warm.h"
#include "tests/support/warmd.h"

#include <sys/syscall.h>
#include <sys/wait.h>

static void put_text(struct warm *w, const char *name, const char *text)
{
    cr_assert_eq(warm_put(w, name, strlen(name), text, strlen(text), NULL), 0, "%s",
                 warm_message(w));
}

static void expect_text(struct warm *w, const char *name, const char *text)
{
    struct warm_value v;
    cr_assert_eq(warm_get(w, name, strlen(name), 0, &v), 0, "%s", warm_message(w));
    cr_assert(v.len == strlen(text) && memcmp(v.data, text, v.len) == 0);
    warm_value_free(&v);
}

Test(client, many_are_asked_for_in_one_round_trip)
{
    enum { N = 300 };
    struct warmd k = warmd_up(NULL);
    struct warm *w = warmd_libwarm(&k);
    static char texts[N][16], keys[N][33];
    static struct warm_name names[N], by_key[N];
    static struct warm_value values[N];
    static int codes[N];
    static uint8_t large[N * 1000];
    for (int i = 0; i < N; i++) {
        names[i] = (struct warm_name){texts[i], (size_t)snprintf(texts[i], 16, "many-%d", i)};
        if (i % 3)
            cr_assert_eq(warm_put(w, texts[i], names[i].len, large, (size_t)i * 1000, NULL), 0);
    }
    cr_assert_eq(warm_get_many(w, names, N, 0, values, codes), 0, "%s", warm_message(w));
    for (int i = 0; i < N; i++) {
        cr_assert_eq(codes[i], i % 3 ? 0 : WARM_ENOT_FOUND, "%d", i);
        if (codes[i])
            continue;
        cr_assert_eq(values[i].len, (size_t)i * 1000);
        memcpy(keys[i / 3 * 2 + i % 3 - 1], values[i].key, 33);
        warm_value_free(&values[i]);
    }
    for (int i = 0; i < N / 3 * 2; i++)
        by_key[i] = (struct warm_name){keys[i], 32};
    cr_assert_eq(warm_get_many(w, by_key, N / 3 * 2, WARM_BY_KEY, values, codes), 0);
    for (int i = 0; i < N / 3 * 2; i++) {
        cr_assert_eq(codes[i], 0);
        warm_value_free(&values[i]);
    }
    cr_assert_eq(warm_get_many(w, names, 0, 0, values, codes), 0);
    cr_assert_eq(warm_get_many(w, names, WARM_MANY_MAX + 1, 0, values, codes), WARM_ETOO_BIG);
    names[7].len = 0;
    cr_assert_eq(warm_get_many(w, names, N, 0, values, codes), WARM_EINVALID);
    cr_assert_eq(warm_get(w, "many-1", 6, 0, &values[0]), 0, "the connection goes on");
    warm_value_free(&values[0]);
    warm_close(w);
    warmd_down(&k);
}

Test(client, values_of_every_size_come_back)
{
    static const size_t sizes[] = {0, 1, 4096, 65535, 65536, 65537, 524288, 524289, 5000000};
    struct warmd k = warmd_up(NULL);
    struct warm *w = warmd_libwarm(&k);
    uint8_t *data = malloc(5000000);
    for (size_t i = 0; i < 5000000; i++)
        data[i] = (uint8_t)(i * 2654435761u >> 11);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct warm_value v;
        char name[32];
        int len = snprintf(name, sizeof name, "size-%zu", sizes[i]);
        cr_assert_eq(warm_put(w, name, (size_t)len, data, sizes[i], NULL), 0, "%s",
                     warm_message(w));
        cr_assert_eq(warm_get(w, name, (size_t)len, 0, &v), 0, "%s: %s", name, warm_message(w));
        cr_assert(v.len == sizes[i] && memcmp(v.data, data, v.len) == 0, "%s", name);
        cr_assert_eq(v.outcome, WARM_HIT);
        struct warm_value by_key;
        cr_assert_eq(warm_get(w, v.key, 32, WARM_BY_KEY, &by_key), 0, "%s", warm_message(w));
        cr_assert_eq(by_key.len, v.len);
        warm_value_free(&by_key);
        warm_value_free(&v);
    }
    free(data);
    warm_close(w);
    warmd_down(&k);
}

/* Large values keep the buffer in which they came. */
Test(client, values_stay_as_they_are_while_others_come)
{
    enum { N = 12, LEN = 65536 };
    struct warmd k = warmd_up(NULL);
    struct warm *w = warmd_libwarm(&k);
    struct warm_value values[N];
    static uint8_t data[LEN];
    for (uint8_t i = 0; i < N; i++) {
        memset(data, i, LEN);
        cr_assert_eq(warm_put(w, (char[]){(char)('a' + i)}, 1, data, LEN - i * 4000u, NULL), 0);
    }
    for (int round = 0; round < 3; round++) {
        for (uint8_t i = 0; i < N; i++) {
            cr_assert_eq(warm_get(w, (char[]){(char)('a' + i)}, 1, 0, &values[i]), 0);
            cr_assert_eq((uintptr_t)values[i].data % 16, 0, "aligned as malloc'ed memory is");
        }
        for (uint8_t i = 0; i < N; i++) {
            memset(data, i, LEN);
            cr_assert_eq(values[i].len, LEN - i * 4000u);
            cr_assert_eq(memcmp(values[i].data, data, values[i].len), 0);
            warm_value_free(&values[i]);
        }
    }
    warm_close(w);
    warmd_down(&k);
}

/* Whichever way it was forked; the process was asked for its id often enough to remember it. */
Test(client, in_a_forked_child_calls_are_closed_also_after_many)
{
    struct warmd k = warmd_up(NULL);
    struct warm *w = warmd_libwarm(&k);
    struct warm_value v;
    put_text(w, "name", "text");
    for (int i = 0; i < 10; i++)
        expect_text(w, "name", "text");
    for (int raw = 0; raw < 2; raw++) {
        pid_t pid = raw ? (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL) : fork();
        if (pid == 0)
            _exit(warm_get(w, "name", 4, 0, &v) == WARM_ECLOSED ? 0 : 1);
        int status;
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        cr_assert_eq(status, 0);
        expect_text(w, "name", "text");
    }
    warm_close(w);
    warmd_down(&k);
}

Test(client, names_have_1_to_512_bytes_and_may_be_any)
{
    struct warmd k = warmd_up(NULL);
    struct warm *w = warmd_libwarm(&k);
    struct warm_value v;
    char name[513];
    memset(name, 0xff, sizeof name);
    cr_assert_eq(warm_put(w, name, 512, "v", 1, NULL), 0);
    cr_assert_eq(warm_get(w, name, 512, 0, &v), 0);
    warm_value_free(&v);
    cr_assert_eq(warm_get(w, name, 511, 0, &v), WARM_ENOT_FOUND);
    cr_assert_eq(warm_get(w, name, 513, 0, &v), WARM_EINVALID);
    cr_assert_eq(warm_get(w, name, 0, 0, &v), WARM_EINVALID);
    cr_assert_eq(warm_get(w, "xyz", 3, WARM_BY_KEY, &v), WARM_EINVALID);
    cr_assert_eq(warm_put(w, "a\0b", 3, "v", 1, NULL), 0, "a name may hold NUL");
    warm_close(w);
    warmd_down(&k);
}

Test(client, a_lease_is_fulfilled_by_a_put)
{
    struct warmd k = warmd_up(NULL);
    struct warm *w = warmd_libwarm(&k);
    struct warm_value v;
    cr_assert_eq(warm_get(w, "key", 3, WARM_WANT_LEASE, &v), WARM_LEASE);
    cr_assert_neq(v.token, 0);
    struct warm_put_options options = {.token = v.token, .kind = "backward", .cost_ms = 77};
    cr_assert_eq(warm_put(w, "key", 3, "made", 4, &options), 0, "%s", warm_message(w));
    cr_assert_eq(warm_get(w, "key", 3, WARM_WANT_LEASE, &v), 0);
    cr_assert_eq(v.cost_ms, 77);
    warm_value_free(&v);
    warm_close(w);
    warmd_down(&k);
}

Test(client, a_released_lease_is_given_again)
{
    struct warmd k = warmd_up(NULL);
    struct warm *w = warmd_libwarm(&k);
    struct warm_value v;
    cr_assert_eq(warm_get(w, "key", 3, WARM_WANT_LEASE, &v), WARM_LEASE);
    cr_assert_eq(warm_release(w, v.token), 0, "%s", warm_message(w));
    cr_assert_eq(warm_get(w, "key", 3, WARM_WANT_LEASE, &v), WARM_LEASE);
    warm_close(w);
    warmd_down(&k);
}

Test(client, keep_existing_keeps)
{
    struct warmd k = warmd_up(NULL);
    struct warm *w = warmd_libwarm(&k);
    struct warm_put_options options = {.flags = WARM_KEEP_EXISTING};
    put_text(w, "key", "first");
    cr_assert_eq(warm_put(w, "key", 3, "second", 6, &options), 0);
    expect_text(w, "key", "first");
    put_text(w, "key", "third");
    expect_text(w, "key", "third");
    warm_close(w);
    warmd_down(&k);
}

Test(client, wrong_options_of_a_put_are_invalid)
{
    struct warmd k = warmd_up(NULL);
    struct warm *w = warmd_libwarm(&k);
    struct warm_put_options options = {.kind = "nonsense"};
    cr_assert_eq(warm_put(w, "key", 3, "v", 1, &options), WARM_EINVALID);
    char label[600];
    memset(label, 'l', sizeof label);
    label[sizeof label - 1] = '\0';
    options = (struct warm_put_options){.label = label};
    cr_assert_eq(warm_put(w, "key", 3, "v", 1, &options), WARM_ETOO_BIG);
    put_text(w, "key", "the connection is as it was");
    warm_close(w);
    warmd_down(&k);
}

/* The daemon is stopped and started between two calls: the second finds the new one by itself. */
Test(client, a_restarted_daemon_is_found_again)
{
    struct warmd k = warmd_up(NULL);
    struct warm *w = warmd_libwarm(&k);
    put_text(w, "key", "value");
    kill(k.pid, SIGTERM);
    warmd_reap(k.pid);
    warmd_start(&k, NULL);
    expect_text(w, "key", "value");
    warm_close(w);
    warmd_down(&k);
}

Test(client, recache_takes_nothing_and_readonly_stores_nothing)
{
    struct warmd k = warmd_up(NULL);
    struct warm_value v;
    struct warm *w = warmd_libwarm(&k);
    put_text(w, "key", "value");
    setenv("WARM_RECACHE", "1", 1);
    setenv("WARM_READONLY", "1", 1);
    struct warm *odd = warmd_libwarm(&k);
    cr_assert_eq(warm_get(odd, "key", 3, 0, &v), WARM_ENOT_FOUND);
    cr_assert_eq(warm_put(odd, "key", 3, "other", 5, NULL), WARM_EDENIED);
    expect_text(w, "key", "value");
    warm_close(odd);
    warm_close(w);
    warmd_down(&k);
}

/* ---- compiles ---- */

enum { N_HEADERS = 900 };

/* A source with so many headers, of names so long, that their list goes by descriptor. */
static char *write_headers(const char *dir)
{
    char *source = NULL, long_name[101];
    size_t len;
    memset(long_name, 'h', sizeof long_name - 1);
    long_name[100] = '\0';
    FILE *f = open_memstream(&source, &len);
    for (int i = 0; i < N_HEADERS; i++) {
        char name[128], text[64];
        snprintf(name, sizeof name, "%s%d.h", long_name, i);
        int n = snprintf(text, sizeof text, "#define N%d %d\n", i, i);
        char *path = path_join(dir, name);
        file_write(path, text, (size_t)n);
        free(path);
        fprintf(f, "#include \"%s\"\n", name);
    }
    fprintf(f, "__global__ void k(int *p) { *p = N%d; }\n", N_HEADERS - 1);
    fclose(f);
    return source;
}

static int compile_outcome(struct warm *w, const char *dir, const char *source)
{
    static const char *const options[] = {"-arch=sm_90"};
    struct warm_result r;
    struct warm_job job = {.name = "k.cu",
                           .source = source,
                           .source_len = strlen(source),
                           .options = options,
                           .n_options = 1,
                           .cwd = dir,
                           .timeout_ms = 120000};
    int code = warm_compile(w, &job, &r);
    cr_assert_eq(code, 0, "%s", warm_message(w));
    cr_assert_eq(r.status, 0, "%.*s", (int)r.log.len, (const char *)r.log.data);
    cr_assert(r.cubin.len > 100 && memcmp(r.cubin.data, "\177ELF", 4) == 0);
    int outcome = r.value.outcome;
    warm_result_free(&r);
    return outcome;
}

Test(client, a_long_list_of_headers_is_checked, .timeout = 200)
{
    char *lib, *beside = bin_path("../toolchain"), *root = getenv("WARM_TOOLCHAIN");
    cr_assert_geq(asprintf(&lib, "%s/13.5.37/lib", root && *root ? root : beside), 0);
    if (access(lib, R_OK) != 0)
        cr_skip_test("no CUDA toolchain: set WARM_TOOLCHAIN or run `make toolchain`");
    char *options[] = {"--nvrtc", lib, NULL};
    struct warmd k = warmd_up(options);
    char *source = write_headers(k.dir);
    struct warm *w = warmd_libwarm(&k);
    cr_assert_eq(compile_outcome(w, k.dir, source), WARM_MISS);
    cr_assert_neq(compile_outcome(w, k.dir, source), WARM_MISS);
    /* One of them changes: the old result is of no use. */
    size_t len;
    char *name = NULL, *path, *content;
    cr_assert_geq(asprintf(&name, "%0100d%d.h", 0, N_HEADERS - 1), 0);
    memset(name, 'h', 100);
    path = path_join(k.dir, name);
    content = file_read(path, &len);
    content[len - 2] = '7';
    file_write(path, content, len);
    cr_assert_eq(compile_outcome(w, k.dir, source), WARM_MISS);
    free(content);
    free(path);
    free(name);
    free(source);
    free(beside);
    free(lib);
    warm_close(w);
    warmd_down(&k);
}
