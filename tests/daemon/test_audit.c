/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_audit.c - hits that are compiled once more: equal bytes are counted, other bytes are an alarm.
 * With a real daemon and NVRTC; a wrong value is put into the store while no daemon has it.
 */
#include "keygen/cuda/job.h"
#include "store/store.h"
#include "tests/support/warmd.h"

static char *folder;

#define NEEDS_TOOLCHAIN(nvrtc)                                                                     \
    char *nvrtc = toolchain_lib("13.5.37");                                                        \
    if (!nvrtc)                                                                                    \
    cr_skip_test("no CUDA toolchain: set WARM_TOOLCHAIN or run `make toolchain`")

static struct warmd audit_kit(char *nvrtc, char *one_of)
{
    char *options[] = {"--nvrtc", nvrtc, "--verify-hits", one_of, NULL};
    struct warmd k = warmd_up(options);
    folder = k.dir;
    return k;
}

static void restart(struct warmd *k, char *nvrtc, char *one_of)
{
    char *options[] = {"--nvrtc", nvrtc, "--verify-hits", one_of, NULL};
    warmd_start(k, options);
}

static void stop(const struct warmd *k)
{
    kill(k->pid, SIGTERM);
    warmd_reap(k->pid);
}

/* Returns the output of `warm ARGUMENTS`, and its status in *out_status. */
static char *warm(const struct warmd *k, const char *arguments, int *out_status)
{
    char *program = bin_path("warm"), *out;
    int status = run_command(&out, "cd %s && WARM_SOCKET=%s %s %s 2>&1", k->dir, k->socket, program,
                             arguments);
    if (out_status)
        *out_status = status;
    free(program);
    return out;
}

/* Compiles NAME.cu, which multiplies by `factor`, into NAME.out; the outcome must be this one. Beside
 * it is a table of `n_table` numbers. */
static void compiles_table(const struct warmd *k, const char *name, int factor, unsigned n_table,
                           const char *outcome)
{
    char path[4096], source[256], arguments[256];
    int status;
    snprintf(path, sizeof path, "%s/%s.cu", folder, name);
    snprintf(source, sizeof source,
             "// %d\nextern \"C\" { __device__ int table[%u] = {%d};\n"
             "__global__ void k(float *x) { x[threadIdx.x] *= %d; } }\n",
             factor, n_table, factor, factor);
    file_write(path, source, strlen(source));
    snprintf(arguments, sizeof arguments, "compile %s.cu --arch sm_90 -o %s.out --json", name,
             name);
    char *out = warm(k, arguments, &status);
    cr_assert_eq(status, 0, "%s", out);
    cr_assert_not_null(strstr(out, outcome), "%s, not %s", out, outcome);
    free(out);
}

static void compiles(const struct warmd *k, const char *name, int factor, const char *outcome)
{
    compiles_table(k, name, factor, 1, outcome);
}

static char *compiled(const char *name, size_t *out_len)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.out", folder, name);
    return file_read(path, out_len);
}

/* Waits until STATS has this text. */
static void await_stats(const struct warmd *k, const char *text)
{
    for (uint64_t end = clock_now_ms() + WARMD_WAIT_MS;; usleep(20000)) {
        char *out = warm(k, "stats --json", NULL);
        bool there = strstr(out, text) != NULL;
        cr_assert(there || clock_now_ms() < end, "no %s: %s", text, out);
        free(out);
        if (there)
            return;
    }
}

/* ---- a wrong value ---- */

struct swap {
    struct store_row from, to; /* rows of b.cu and a.cu; texts point into `texts` */
    char texts[3][512];
    bool done;
    int status;
};

static void on_row(void *arg, const struct store_row *row)
{
    struct swap *s = arg;
    if (row->kind != STORE_CUBIN || row->label.len != 4)
        return;
    if (memcmp(row->label.data, "b.cu", 4) == 0)
        s->from = *row;
    if (memcmp(row->label.data, "a.cu", 4) != 0)
        return;
    s->to = *row;
    struct view *texts[] = {&s->to.hardware, &s->to.compiler_text, &s->to.label};
    for (size_t i = 0; i < 3; i++) {
        memcpy(s->texts[i], texts[i]->data, texts[i]->len);
        texts[i]->data = s->texts[i];
    }
    s->to.name = (struct view){NULL, 0};
}

static void on_put(void *arg, int status, bool existed, const struct err *e)
{
    struct swap *s = arg;
    (void)existed, (void)e;
    s->done = true;
    s->status = status;
}

/* As a compiler that went wrong would have: a.cu's entry gets the result of b.cu. */
static void give_a_the_result_of_b(const struct warmd *k)
{
    struct store_config config = {.dir = k->store, .max_bytes = 1ull << 30};
    struct store_cursor cursor = {{0}};
    struct store *store;
    struct store_value v;
    struct swap s = {.done = false};
    struct err e;
    cr_assert_eq(store_open(&store, &config, &e), 0, "%s", e.text);
    while (store_scan(store, &cursor, 100, on_row, &s, &e) == 1)
        ;
    cr_assert(s.from.len && s.to.len, "the entries of both");
    cr_assert_eq(store_get(store, &s.from.id, &v, &e), 0, "%s", e.text);
    s.to.len = v.row.len;
    struct store_put put = {.row = s.to,
                            .data = v.data,
                            .fd = v.data ? -1 : fcntl(v.fd, F_DUPFD_CLOEXEC, 3),
                            .on_done = on_put,
                            .arg = &s};
    cr_assert_eq(store_put(store, &put, &e), 0, "%s", e.text);
    for (uint64_t end = clock_now_ms() + WARMD_WAIT_MS; !s.done && clock_now_ms() < end;
         usleep(2000))
        store_poll(store);
    cr_assert(s.done && s.status == 0);
    store_close(store);
}

TestSuite(audit, .timeout = 180);

/* Hits with a table of `n_table` numbers are compiled anew and found good. */
static void finds_right_value(char *nvrtc, unsigned n_table)
{
    struct warmd k = audit_kit(nvrtc, "1");
    compiles_table(&k, "a", 3, n_table, "\"miss\"");
    await_stats(&k,
                "\"entries\": 2"); /* the result, and what leads to it: hits are the store's now */
    compiles_table(&k, "a", 3, n_table, "\"hit\"");
    await_stats(&k, "\"audits\": 1, \"audit_differences\": 0");
    compiles_table(&k, "a", 3, n_table, "\"hit\"");
    await_stats(&k, "\"audits\": 2, \"audit_differences\": 0");
    warmd_down(&k);
}

Test(audit, a_hit_that_compiles_to_the_same_is_counted)
{
    NEEDS_TOOLCHAIN(nvrtc);
    finds_right_value(nvrtc, 1);
    finds_right_value(nvrtc, 50000);
    free(nvrtc);
}

/* A wrong value with a table of `n_table` numbers is found and set aside. */
static void finds_wrong_value(char *nvrtc, unsigned n_table)
{
    struct warmd k = audit_kit(nvrtc, "0");
    size_t right_len, wrong_len, len;
    int status;
    compiles_table(&k, "a", 3, n_table, "\"miss\"");
    compiles_table(&k, "b", 5, n_table, "\"miss\"");
    char *right = compiled("a", &right_len), *wrong = compiled("b", &wrong_len);
    cr_assert_eq(right_len, wrong_len);
    cr_assert(n_table == 1 || right_len > 100000);
    stop(&k);
    give_a_the_result_of_b(&k);
    restart(&k, nvrtc, "1");
    compiles_table(&k, "a", 3, n_table, "\"hit\"");
    char *got = compiled("a", &len);
    cr_assert(len == wrong_len && memcmp(got, wrong, len) == 0, "the entry is not the wrong one");
    free(got);
    await_stats(&k, "\"audit_differences\": 1");
    cr_expect(warmd_log_has(&k, "ALARM"));
    char *out = warm(&k, "doctor", &status);
    cr_expect_neq(status, 0);
    cr_expect_not_null(strstr(out, "not what their sources compile to"), "%s", out);
    free(out);
    compiles_table(&k, "a", 3, n_table, "\"miss\"");
    got = compiled("a", &len);
    cr_expect(len == right_len && memcmp(got, right, len) == 0, "made anew");
    free(got);
    free(right);
    free(wrong);
    warmd_down(&k);
}

Test(audit, a_hit_that_compiles_to_something_else_is_an_alarm_and_set_aside)
{
    NEEDS_TOOLCHAIN(nvrtc);
    finds_wrong_value(nvrtc, 1);
    free(nvrtc);
}

Test(audit, so_is_a_large_one_that_differs_in_a_few_bytes)
{
    NEEDS_TOOLCHAIN(nvrtc);
    finds_wrong_value(nvrtc, 50000);
    free(nvrtc);
}

Test(audit, none_where_it_is_switched_off)
{
    NEEDS_TOOLCHAIN(nvrtc);
    struct warmd k = audit_kit(nvrtc, "0");
    compiles(&k, "a", 3, "\"miss\"");
    for (int i = 0; i < 5; i++)
        compiles(&k, "a", 3, "\"hit\"");
    compiles(&k, "b", 5, "\"miss\""); /* an audit would have come first */
    await_stats(&k, "\"audits\": 0, \"audit_differences\": 0");
    warmd_down(&k);
    free(nvrtc);
}

Test(audit, one_that_nobody_asked_for_is_ignored)
{
    NEEDS_TOOLCHAIN(nvrtc);
    struct warmd k = audit_kit(nvrtc, "1");
    struct key key = {{1}};
    struct writer w;
    int fd = warmd_native(&k);
    writer_init(&w, 0);
    wire_put_audit(&w, 1, &(struct wire_audit){key, {"", 0}, {"nonsense", 8}});
    wire_put_empty(&w, WIRE_STATS, 2);
    warmd_flush(fd, &w);
    writer_close(&w);
    warmd_expect(fd, 2, WIRE_TEXT);
    close(fd);
    warmd_down(&k);
    free(nvrtc);
}
