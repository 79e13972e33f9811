/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_transparency.c - a library between a program and its driver is invisible unless it serves a hit. A client of
 * the driver (tests/programs/driver_client.c) runs on the stand-in (tests/fakecuda) in each shape, and finds the
 * driver's functions in each way: without us; under `warm run` cold and warm; with no daemon; with one that hangs
 * or dies after HELLO; with WARM_DISABLE=1. The log of all calls that reach the driver must be that of the run without us.
 *
 * Differences that are allowed: tests/README.md, "The log of the driver".
 * What the program prints is equal always.
 */
#include <pthread.h>

#include "tests/support/warmd.h"

#define PTX ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry "

/* A socket between clients and the daemon. It passes HELLO and its answer, and nothing more. */
struct proxy {
    const struct warmd *daemon;
    bool hangs_up; /* then; else it leaves the connection open */
    int listener;
    pthread_t thread;
};

struct rig {
    struct warmd kit;
    char *warm;
    struct proxy hangs, dies;
};

static void write_text(struct rig *r, const char *name, const char *text)
{
    char *path = path_join(r->kit.dir, name);
    file_write(path, text, strlen(text));
    free(path);
}

static void build(struct rig *r, const char *arguments)
{
    char *out;
    int status = run_command(&out, "cc -I. -D_GNU_SOURCE -std=c11 -w -L%1$s -o %1$s/%2$s 2>&1",
                             r->kit.dir, arguments);
    cr_assert_eq(status, 0, "%s", out);
    free(out);
}

/* Makes the link of this way one that no daemon knows. */
static void write_other(struct rig *r, const char *name)
{
    char text[256];
    snprintf(text, sizeof text, PTX "other_%s() { ret; }\n", name);
    write_text(r, "b.ptx", text);
}

/* ---- a daemon that hangs or dies after HELLO ---- */

static bool pass_frame(int from, int to)
{
    uint8_t bytes[4096];
    uint32_t len;
    if (!warmd_recv(from, bytes, WIRE_HEADER))
        return false;
    memcpy(&len, bytes + 4, sizeof len);
    return len <= sizeof bytes - WIRE_HEADER && warmd_recv(from, bytes + WIRE_HEADER, len) &&
           send(to, bytes, WIRE_HEADER + len, MSG_NOSIGNAL) == WIRE_HEADER + (ssize_t)len;
}

static void *proxy_serve(void *arg)
{
    struct proxy *p = arg;
    int client;
    while ((client = accept(p->listener, NULL, NULL)) >= 0) {
        int daemon = warmd_connect(p->daemon);
        (void)(pass_frame(client, daemon) && pass_frame(daemon, client));
        if (p->hangs_up)
            close(client);
        close(daemon);
    }
    return NULL;
}

static void proxy_up(struct proxy *p, const struct warmd *daemon, const char *name, bool hangs_up)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    *p = (struct proxy){.daemon = daemon, .hangs_up = hangs_up};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/%s", daemon->dir, name);
    p->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(p->listener, (struct sockaddr *)&address, sizeof address), 0);
    cr_assert_eq(listen(p->listener, 64), 0);
    cr_assert_eq(pthread_create(&p->thread, NULL, proxy_serve, p), 0);
}

static void proxy_down(struct proxy *p)
{
    shutdown(p->listener, SHUT_RDWR);
    pthread_join(p->thread, NULL);
    close(p->listener);
}

/* ---- the rig ---- */

/* False, and the test is skipped, where nothing is built to be preloaded (sanitizers). */
static bool rig_up(struct rig *r)
{
    char *preload = bin_path("../lib/libwarm-preload.so");
    bool is_built = access(preload, R_OK) == 0;
    free(preload);
    if (!is_built) {
        cr_skip_test("libwarm-preload.so is not part of this build");
        return false;
    }
    *r = (struct rig){.kit = warmd_up((char *[]){(char *)"--nvrtc", (char *)"/nowhere", NULL}),
                      .warm = bin_path("warm")};
    build(r, "libcuda.so.1 -shared -fPIC -Wl,-Bsymbolic,-soname,libcuda.so.1 "
             "tests/fakecuda/libcuda.c");
    build(r, "plugin.so -shared -fPIC tests/programs/driver_client.c -l:libcuda.so.1");
    build(r, "main -DMAIN tests/programs/driver_client.c -l:libcuda.so.1");
    build(r, "unlinked.so -shared -fPIC -DUNLINKED tests/programs/driver_client.c");
    build(r, "unlinked -DMAIN -DUNLINKED tests/programs/driver_client.c");
    build(r, "host tests/programs/plugin_host.c");
    write_text(r, "a.ptx", PTX "twice(.param .u64 p) { ret; }\n");
    write_text(r, "broken.ptx", PTX "broken() { ret; }\n");
    char *out;
    cr_assert_eq(run_command(&out, "cp tests/data/compressed.fatbin %s", r->kit.dir), 0);
    free(out);
    proxy_up(&r->hangs, &r->kit, "hangs", false);
    proxy_up(&r->dies, &r->kit, "dies", true);
    return true;
}

static void rig_down(struct rig *r)
{
    proxy_down(&r->hangs);
    proxy_down(&r->dies);
    warmd_down(&r->kit);
    free(r->warm);
}

/* ---- runs ---- */

struct run {
    char *out, *log; /* free() both */
};

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Writes the calls of each thread one after the other, without process and thread, and without the queries if
 * `no_queries`. Which thread comes first is chance: their texts are sorted. */
static void log_shorten(char *log, bool no_queries)
{
    enum { THREADS_MAX = 8 };
    char *texts[THREADS_MAX], *to = log;
    size_t len = strlen(log);
    for (size_t i = 0; i < THREADS_MAX; i++)
        texts[i] = calloc(1, len + 1);
    for (char *line = log, *next; *line; line = next) {
        unsigned long thread = strtoul(strchr(line, '/') + 1, NULL, 10);
        char *text = strchr(line, ' ') + 1;
        next = strchr(line, '\n') + 1;
        cr_assert(thread && thread <= THREADS_MAX);
        if (!no_queries || *text != '?')
            strncat(texts[thread - 1], text, (size_t)(next - text));
    }
    qsort(texts, THREADS_MAX, sizeof *texts, compare_texts);
    for (size_t i = 0; i < THREADS_MAX; i++) {
        to = stpcpy(to, texts[i]);
        free(texts[i]);
    }
}

/* Runs a client; `settings` are variables, `prefix` is what runs it. */
static struct run run(struct rig *r, const char *settings, const char *prefix, const char *client)
{
    struct run it;
    size_t len;
    char *path = path_join(r->kit.dir, "calls");
    file_write(path, "", 0);
    int status = run_command(&it.out,
                             "cd %s && env FAKECUDA_INIT=1 FAKECUDA_CC=90,80 LD_LIBRARY_PATH=$PWD "
                             "CUDA_CACHE_DISABLE=1 FAKECUDA_CALLS=%s "
                             "WARM_SOCKET=%s WARM_TIMEOUT_MS=10000 %s %s %s 2>stderr",
                             r->kit.dir, path, r->kit.socket, settings, prefix, client);
    it.log = file_read(path, &len);
    cr_assert_eq(status, 0, "%s %s: status %d: %s", settings, client, status, it.out);
    free(path);
    return it;
}

static void run_free(struct run *it)
{
    free(it->out);
    free(it->log);
}

/* Removes the lines that begin with a name. */
static void remove_lines(char *log, const char *name)
{
    for (char *line = log; *line;) {
        char *next = strchr(line, '\n') + 1;
        if (strncmp(line, name, strlen(name)) == 0)
            memmove(line, next, strlen(next) + 1);
        else
            line = next;
    }
}

/* Returns how often the driver was asked for the address of a function that loads. */
static int questions(const char *log)
{
    int n = 0;
    while ((log = strstr(log, "?cuGetProcAddress"))) {
        log = strchr(log, '(') + 1;
        n += strncmp(log, "cuModuleLoad", 12) == 0 || strncmp(log, "cuLibraryLoad", 13) == 0;
    }
    return n;
}

enum how { ALL, NO_QUERIES, LINK_IS_SERVED };

/* Runs the client under `warm run`, and compares with the run without us. */
static void same(struct rig *r, const struct run *plain, const char *settings, const char *client,
                 enum how how)
{
    char prefix[256], *want = strdup(plain->log);
    snprintf(prefix, sizeof prefix, "%s run --no-start --", r->warm);
    struct run it = run(r, settings, prefix, client);
    cr_expect(strcmp(it.out, plain->out) == 0, "%s %s: %s\nprints without us: %s", settings, client,
              it.out, plain->out);
    cr_expect_eq(questions(it.log), questions(want), "%s %s", settings, client);
    log_shorten(it.log, how != ALL);
    log_shorten(want, how != ALL);
    if (how == LINK_IS_SERVED) {
        remove_lines(want, "cuLinkAddData_v2");
        remove_lines(want, "cuLinkComplete");
    }
    cr_expect(strcmp(it.log, want) == 0, "%s %s: %s\ncalls without us: %s", settings, client,
              it.log, want);
    run_free(&it);
    free(want);
}

/* Tries a client in all modes. `serves`: its links are served. */
static void try_client(struct rig *r, const char *client, bool serves)
{
    char settings[256];
    struct run plain = run(r, "", "", client);
    /* the driver's functions have no versions, and those of a local library are not the program's */
    bool has_run = strstr(plain.out, "device Stand-in 80") && strstr(plain.log, "cuLinkComplete(");
    cr_expect(has_run || strstr(plain.out, "a function is missing"), "%s: %s", client, plain.out);
    same(r, &plain, "", client, NO_QUERIES);
    same(r, &plain, "", client, serves ? LINK_IS_SERVED : NO_QUERIES);
    same(r, &plain, "WARM_DISABLE=1", client, ALL);
    same(r, &plain, "WARM_SOCKET=/nowhere/warmd.sock", client, ALL);
    snprintf(settings, sizeof settings, "WARM_SOCKET=%s/hangs WARM_TIMEOUT_MS=50", r->kit.dir);
    same(r, &plain, settings, client, NO_QUERIES);
    snprintf(settings, sizeof settings, "WARM_SOCKET=%s/dies", r->kit.dir);
    same(r, &plain, settings, client, NO_QUERIES);
    run_free(&plain);
}

/* Tries all ways to find functions. `served`: the ways in which links are served. */
static void try_ways(const char *command, const char *served)
{
    static const char *const ways[] = {"linked",  "handle", "self",   "default",
                                       "version", "next",   "address"};
    struct rig r;
    if (!rig_up(&r))
        return;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char client[64];
        snprintf(client, sizeof client, "%s %s", command, ways[i]);
        write_other(&r, ways[i]);
        try_client(&r, client, strstr(served, ways[i]));
    }
    rig_down(&r);
}

/* Links of a process are not served if an object in it is linked with the linker's functions. */
Test(transparency, linked_main_program) { try_ways("./main", ""); }
Test(transparency, plugin_that_is_local) { try_ways("./host ./plugin.so local", ""); }
Test(transparency, plugin_that_is_global) { try_ways("./host ./plugin.so global", ""); }
Test(transparency, plugin_that_is_bound_deeply) { try_ways("./host ./plugin.so deepbind", ""); }
Test(transparency, plugin_in_a_namespace) { try_ways("./host ./plugin.so namespace", ""); }

Test(transparency, main_program_that_looks_all_up) { try_ways("./unlinked", "handle address"); }
Test(transparency, plugin_that_looks_all_up)
{
    try_ways("./host ./unlinked.so local", "handle address");
}

/* Tries a client that is served and one that is not, with a variable set. */
static void try_with(const char *name, const char *value)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    setenv(name, value, 1);
    write_other(&r, "this");
    try_client(&r, "./host ./unlinked.so local handle", true);
    try_client(&r, "./main linked", false);
    rig_down(&r);
}

Test(transparency, threads_with_a_device_each) { try_with("CLIENT_THREADS", "1"); }
Test(transparency, a_link_has_its_log) { try_with("FAKECUDA_SAYS", "ptxas warning : a stack"); }

/* Cuts the bytes from `at` to `end` out of a text. */
static void cut(char *at, const char *end) { memmove(at, end, strlen(end) + 1); }

/* Takes images, options and logs of them out of the lines that load. Returns how many images are cubins. */
static int hide_images(char *log)
{
    int n = 0;
    for (char *line = log; *line; line = strchr(line, '\n') + 1) {
        if (strncmp(line, "cuModuleLoad", 12) != 0 && strncmp(line, "cuLibraryLoad", 13) != 0)
            continue;
        char *image = strchr(line, ',');
        n += strncmp(image, ", cubin", 7) == 0;
        cut(image, strstr(image, ") = "));
        char *logs = strchr(image, '{');
        if (logs && logs < strchr(line, '\n'))
            cut(logs, strchr(line, '\n'));
    }
    return n;
}

/* Logs are not asked for with a cubin. The registers of the code differ: this part is off by default. */
Test(transparency, a_served_load_differs_in_its_image_alone)
{
    static const char *const clients[] = {"./host ./unlinked.so local handle",
                                          "./unlinked address"};
    static const char settings[] = "WARM_DRIVER_JIT=1 CLIENT_ANY_CODE=1";
    char prefix[256];
    struct rig r;
    if (!rig_up(&r))
        return;
    snprintf(prefix, sizeof prefix, "%s run --no-start --", r.warm);
    write_text(&r, "broken.ptx", PTX "whole() { ret; }\n");
    for (size_t i = 0; i < sizeof clients / sizeof *clients; i++) {
        write_other(&r, i ? "first" : "second");
        struct run plain = run(&r, settings, "", clients[i]),
                   cold = run(&r, settings, prefix, clients[i]),
                   warm = run(&r, settings, prefix, clients[i]);
        cr_expect(strcmp(plain.out, cold.out) == 0, "%s\n%s", plain.out, cold.out);
        cr_expect(strcmp(plain.out, warm.out) == 0, "%s\n%s", plain.out, warm.out);
        log_shorten(plain.log, true);
        log_shorten(warm.log, true);
        int n_plain = hide_images(plain.log), n_warm = hide_images(warm.log);
        cr_expect_geq(n_warm, n_plain + 3, "%d %d", n_warm, n_plain);
        remove_lines(plain.log, "cuLinkAddData_v2");
        remove_lines(plain.log, "cuLinkComplete");
        cr_expect(strcmp(plain.log, warm.log) == 0, "%s\ncalls without us: %s", warm.log,
                  plain.log);
        run_free(&plain);
        run_free(&cold);
        run_free(&warm);
    }
    rig_down(&r);
}
