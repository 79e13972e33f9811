/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_command.c - the `warm` command against a real daemon and a real compiler, as a shell
 * sees it: output, files, exit statuses.
 *
 * Compiles need a toolchain in $WARM_TOOLCHAIN, or beside the tests' folder.
 */
#include "daemon/service/old_keys.h"
#include "store/store.h"
#include "tests/support/warmd.h"

#include <dlfcn.h>

#define NEEDS_TOOLCHAIN(lib)                                                                       \
    if (!lib)                                                                                      \
    cr_skip_test("no CUDA toolchain: set WARM_TOOLCHAIN or run `make toolchain`")

static struct warmd warmd_with_compiler(char *lib)
{
    char *options[] = {"--nvrtc", lib, NULL};
    struct warmd k = warmd_up(options);
    return k;
}

/* Runs `warm ARGUMENTS` in the kit's folder; *out gets stdout and stderr. Returns the status. */
static int warm(const struct warmd *k, char **out, const char *arguments)
{
    char *program = bin_path("warm");
    int status = run_command(out, "cd %s && WARM_PROJECT=t WARM_SOCKET=%s %s %s 2>&1", k->dir,
                             k->socket, program, arguments);
    free(program);
    return status;
}

/* The same; the output must contain `text`. */
static void expect(const struct warmd *k, int status, const char *arguments, const char *text)
{
    char *out;
    int got = warm(k, &out, arguments);
    cr_assert_eq(got, status, "warm %s: exit status %d, not %d: %s", arguments, got, status, out);
    cr_assert_not_null(strstr(out, text), "warm %s: no `%s` in: %s", arguments, text, out);
    free(out);
}

static void write_in(const struct warmd *k, const char *name, const char *text)
{
    char *path = path_join(k->dir, name);
    file_write(path, text, strlen(text));
    free(path);
}

static char *read_in(const struct warmd *k, const char *name, size_t *out_len)
{
    char *path = path_join(k->dir, name), *data = file_read(path, out_len);
    free(path);
    return data;
}

static const char saxpy[] = "__global__ void saxpy(int n, float a, const float *x, float *y) {\n"
                            "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                            "    if (i < n) y[i] = a * x[i] + y[i];\n"
                            "}\n";

/* ---- usage: no daemon needed ---- */

Test(command, every_command_explains_itself)
{
    static const char *const names[] = {
        "run",  "compile",    "hash",   "get",    "put",    "ls",     "show",  "stats",
        "why",  "rm",         "evict",  "pin",    "unpin",  "verify", "clear", "doctor",
        "ping", "completion", "export", "import", "config", "daemon", "top",   "toolchain"};
    struct warmd k = warmd_new();
    char arguments[64], usage[64];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(arguments, sizeof arguments, "%s --help", names[i]);
        snprintf(usage, sizeof usage, "Usage: warm %s ", names[i]);
        expect(&k, 0, arguments, usage);
        expect(&k, 0, arguments, "Example:");
        if (strcmp(names[i], "compile") != 0) {
            snprintf(arguments, sizeof arguments, "%s --no-such-option", names[i]);
            expect(&k, 2, arguments, "unknown option --no-such-option");
        }
    }
    warmd_free(&k);
}

Test(command, without_a_daemon_the_status_is_3)
{
    struct warmd k = warmd_new();
    write_in(&k, "k.cu", saxpy);
    expect(&k, 3, "compile k.cu --arch sm_90", "no daemon answers at");
    expect(&k, 3, "ls", "no daemon answers at");
    expect(&k, 3, "stats --json", "no daemon answers at");
    expect(&k, 3, "doctor", "FAIL");
    expect(&k, 3, "ping", "`warm run true` starts one");
    cr_assert_neq(access(k.socket, F_OK), 0, "looking starts no daemon");
    warmd_free(&k);
}

Test(command, wrong_usage_is_2)
{
    struct warmd k = warmd_new();
    write_in(&k, "k.cu", saxpy);
    expect(&k, 2, "compile", "no file given");
    expect(&k, 2, "compile k.cu", "no target given");
    expect(&k, 2, "compile k.cu --arch", "needs a value");
    expect(&k, 2, "compile a.cu b.cu --arch sm_90 -o x", "one file only");
    expect(&k, 2, "ls --older-than soon", "soon is not a span of time");
    expect(&k, 2, "ls --min-size big", "big is not a size");
    expect(&k, 2, "ls --kind nonsense", "not a kind");
    expect(&k, 2, "evict", "choose entries");
    expect(&k, 2, "evict --to-size 0", "--to-size above 0; `warm clear` evicts all");
    expect(&k, 2, "evict --to-size 10X", "not a size");
    expect(&k, 2, "completion tcsh", "bash, zsh and fish");
    expect(&k, 2, "nonsense", "no command `nonsense`");
    expect(&k, 2, "shwo", "did you mean `show`?");
    expect(&k, 2, "help shwo", "did you mean `show`?");
    warmd_free(&k);
}

Test(command, help_explains_a_command)
{
    struct warmd k = warmd_new();
    expect(&k, 0, "help evict", "Usage: warm evict");
    expect(&k, 0, "help", "Usage: warm COMMAND");
    warmd_free(&k);
}

Test(command, doctor_says_which_daemon_it_looks_at_and_why)
{
    struct warmd k = warmd_up(NULL);
    expect(&k, 0, "doctor", "(WARM_SOCKET)");
    expect(&k, 0, "doctor", k.store);
    setenv("WARM_SOKET", "1", 1);
    expect(&k, 0, "doctor", "WARM_SOKET is no setting of warm");
    expect(&k, 3, "doctor --socket \"$(printf '/a\\033[31m\\302\\233b')\"", "/a?[31m?b (");
    expect(&k, 0, "ping", "warmd ");
    setenv("WARM_DISABLE", "1", 1);
    expect(&k, 3, "ping", "WARM_DISABLE is set");
    warmd_down(&k);
}

/* ---- values ---- */

Test(command, what_was_put_is_what_is_got)
{
    struct warmd k = warmd_up(NULL);
    char *big = malloc(300000);
    for (size_t i = 0; i < 300000; i++)
        big[i] = (char)(i * 2654435761u >> 13);
    char *path = path_join(k.dir, "big");
    file_write(path, big, 300000);
    write_in(&k, "empty", "");
    expect(&k, 0, "put one big --kind backward --label step", "");
    expect(&k, 0, "put nothing empty", "");
    expect(&k, 0, "get one -o out", "");
    expect(&k, 0, "get nothing -o none", "");
    size_t len;
    char *out = read_in(&k, "out", &len);
    cr_assert(len == 300000 && memcmp(out, big, len) == 0);
    free(out);
    free(read_in(&k, "none", &len));
    cr_assert_eq(len, 0);
    expect(&k, 1, "get two -o out2", "no such entry");
    free(big);
    free(path);
    warmd_down(&k);
}

Test(command, entries_are_listed_shown_pinned_evicted_and_removed)
{
    struct warmd k = warmd_up(NULL);
    write_in(&k, "v", "some value");
    expect(&k, 0, "put alpha v --kind backward --arch sm_90", "");
    expect(&k, 0, "put beta v --kind triton --arch sm_80", "");
    expect(&k, 0, "ls", "alpha");
    expect(&k, 0, "ls --kind triton --json", "\"name\":\"beta\"");
    expect(&k, 0, "ls --arch sm_90 --sort size", "alpha");
    expect(&k, 0, "ls --older-than 7d --json", "[]");
    expect(&k, 0, "show alpha --json", "\"kind\":\"backward\"");
    expect(&k, 1, "show gamma", "no such entry");
    expect(&k, 0, "pin alpha", "pinned 1 entry");
    expect(&k, 0, "ls --pinned", "(pinned)");
    expect(&k, 0, "evict --min-size 1B --dry-run", "would have evicted 1 entry");
    expect(&k, 0, "evict --min-size 1B --json", "\"entries\":1");
    expect(&k, 0, "get alpha -o out", "");
    expect(&k, 1, "get beta -o out", "no such entry");
    expect(&k, 0, "unpin alpha", "unpinned 1 entry");
    expect(&k, 1, "rm alpha gamma", "removed 1 entry");
    expect(&k, 0, "clear --yes", "evicted 0 entries");
    warmd_down(&k);
}

Test(command, show_takes_a_label_or_the_beginning_of_a_key)
{
    struct warmd k = warmd_up(NULL);
    char *out, part[16], arguments[64];
    write_in(&k, "v", "some value");
    expect(&k, 0, "put one v --label step", "");
    expect(&k, 0, "show step", "name         one");
    cr_assert_eq(warm(&k, &out, "ls"), 0);
    const char *row = strchr(out, '\n');
    cr_assert_not_null(row, "%s", out);
    snprintf(part, sizeof part, "%.8s", row + 1);
    free(out);
    snprintf(arguments, sizeof arguments, "show %s", part);
    expect(&k, 0, arguments, "name         one");
    expect(&k, 1, "show 0", "no such entry");
    expect(&k, 0, "put two v --label step", "");
    expect(&k, 1, "show step", "2 entries match; give a key");
    expect(&k, 1, "rm one none", "warm: none: not in the cache");
    expect(&k, 1, "show one", "no such entry");
    expect(&k, 1, "import --from triton /nonexistent", "warm: /nonexistent: No such file");
    warmd_down(&k);
}

/* A person is asked, and told what would go. */
Test(command, clear_on_a_terminal_says_how_much_would_go)
{
    struct warmd k = warmd_up(NULL);
    char *program = bin_path("warm"), *out;
    write_in(&k, "v", "some value");
    expect(&k, 0, "put one v", "");
    int status = run_command(&out,
                             "cd %s && export WARM_SOCKET=%s && "
                             "echo n | script -qec '%s clear' /dev/null 2>&1",
                             k.dir, k.socket, program);
    cr_assert_eq(status, 1, "%s", out);
    cr_assert_not_null(
        strstr(out, "Evict 1 entry of all users, all that are not pinned? It frees 10 B."), "%s",
        out);
    free(out);
    run_command(&out,
                "cd %s && WARM_SOCKET=%s script -qec '%s clear --yes >/dev/null; %s ls' /dev/null "
                "</dev/null 2>&1",
                k.dir, k.socket, program, program);
    cr_assert_not_null(strstr(out, "no entries"), "%s", out);
    free(out);
    free(program);
    warmd_down(&k);
}

Test(command, a_sample_of_all_entries_checks_each_once)
{
    struct warmd k = warmd_up(NULL);
    write_in(&k, "v", "some value");
    write_in(&k, "w", "another value");
    expect(&k, 0, "put one v", "");
    expect(&k, 0, "put two w", "");
    for (int i = 0; i < 8; i++)
        expect(&k, 0, "verify --sample 2", "checked 2 entries, 23 B: 0 damaged");
    warmd_down(&k);
}

Test(command, stats_verify_and_doctor_speak_json)
{
    struct warmd k = warmd_up(NULL);
    write_in(&k, "v", "some value");
    expect(&k, 0, "put alpha v", "");
    expect(&k, 0, "get alpha -o out", "");
    expect(&k, 0, "stats --json", "\"hits\": 1");
    expect(&k, 0, "stats", "hits");
    expect(&k, 0, "verify --json", "\"corrupt\":0");
    char *out;
    warm(&k, &out, "doctor --json");
    cr_assert(strstr(out, "\"check\":\"daemon\",\"health\":\"ok\"") && out[0] == '[', "%s", out);
    if (geteuid() == 0) /* others may use the socket: there is a second one */
        cr_assert(strstr(out, "\"check\":\"admin\",\"health\":\"ok\""), "%s", out);
    free(out);
    if (geteuid() == 0) {
        char *admin = path_join(k.dir, "admin.sock");
        cr_assert_eq(chmod(admin, 0660), 0);
        warm(&k, &out, "doctor --json");
        cr_assert(strstr(out, "\"check\":\"admin\",\"health\":\"fail\""), "%s", out);
        free(out);
        free(admin);
    }
    warmd_down(&k);
}

Test(command, warm_log_tells_of_each_request)
{
    struct warmd k = warmd_up(NULL);
    char text[256], *out, *log;
    size_t len;
    write_in(&k, "v", "some value");
    setenv("WARM_LOG", "debug", 1);
    expect(&k, 0, "put alpha v", " debug warm[");
    expect(&k, 0, "get alpha -o out", "get alpha: hit, 10 bytes, ");
    expect(&k, 1, "get 'beta\n' -o out", "get beta\\x0a: miss, 0 bytes, ");
    snprintf(text, sizeof text, "info:%s/log", k.dir);
    setenv("WARM_LOG", text, 1);
    warm(&k, &out, "run true");
    cr_expect_str_eq(out, "");
    free(out);
    log = read_in(&k, "log", &len);
    cr_expect(memmem(log, len, " info warm[", 11) && memmem(log, len, "a daemon answers", 16), "%s",
              log);
    free(log);
    setenv("WARM_LOG", "loud", 1);
    expect(&k, 0, "doctor", "WARM_LOG is \"loud\": it is error, ");
    unsetenv("WARM_LOG");
    warmd_down(&k);
}

Test(command, every_object_of_json_begins_with_the_version_of_its_schema)
{
    static const char *const commands[] = {"ls",
                                           "show alpha",
                                           "stats",
                                           "daemon status",
                                           "verify",
                                           "doctor",
                                           "ping",
                                           "config show",
                                           "toolchain list",
                                           "hash v",
                                           "put gamma v",
                                           "get alpha -o x",
                                           "export x.a",
                                           "import x.a",
                                           "evict --idle 9d",
                                           "rm gamma",
                                           "pin alpha",
                                           "top --count 1 --delay 1s",
                                           "clear --yes"};
    struct warmd k = warmd_up(NULL);
    char arguments[64];
    write_in(&k, "v", "some value");
    expect(&k, 0, "put alpha v", "");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char *out, *json;
        snprintf(arguments, sizeof arguments, "%s --json", commands[i]);
        warm(&k, &out, arguments);
        json = out + strspn(out, "[");
        cr_expect(strncmp(json, "{\"schema\":", 10) == 0, "warm %s: %s", arguments, out);
        free(out);
    }
    warmd_down(&k);
}

/* A daemon whose keys were others has left this folder. */
static void change_kept_keys(const struct warmd *k)
{
    struct store_config config = {.dir = k->store, .max_bytes = 1ull << 30};
    struct store *store;
    struct err e;
    cr_assert_eq(store_open(&store, &config, &e), 0, "%s", e.text);
    cr_assert_eq(store_meta_put(store, OLD_KEYS_META, "12345678mlir/1 ", 15), 0);
    store_close(store);
}

static void restart(struct warmd *k)
{
    kill(k->pid, SIGTERM);
    warmd_reap(k->pid);
    usleep(2000);
}

static void until_doctor_says(const struct warmd *k, const char *text)
{
    char *out = NULL;
    for (uint64_t end = clock_now_ms() + WARMD_WAIT_MS; clock_now_ms() < end; usleep(20000)) {
        free(out);
        warm(k, &out, "doctor");
        if (strstr(out, text)) {
            free(out);
            return;
        }
    }
    cr_assert_fail("%s", out);
}

Test(command, doctor_and_log_tell_of_entries_of_older_key_versions)
{
    static const char old[] = "1 entry of older key versions";
    struct warmd k = warmd_up(NULL);
    char *out;
    write_in(&k, "v", "some value");
    expect(&k, 0, "put cc:2:0123456789abcdef0123456789abcdef0123456789abcdef v", "");
    expect(&k, 0, "put alpha v", "");
    restart(&k);
    warmd_start(&k, NULL); /* with the same keys */
    warm(&k, &out, "doctor");
    cr_assert(!strstr(out, "older key"), "%s", out);
    free(out);
    restart(&k);
    change_kept_keys(&k);
    warmd_start(&k, NULL);
    until_doctor_says(&k, old);
    cr_assert(warmd_log_has(&k, old));
    restart(&k);
    cr_assert_eq(truncate(k.log, 0), 0);
    warmd_start(&k, NULL);
    until_doctor_says(&k, old);
    cr_assert(!warmd_log_has(&k, old), "the log says it once");
    expect(&k, 0, "clear --yes", "evicted 2 entries");
    warm(&k, &out, "doctor");
    cr_assert(!strstr(out, "older key"), "%s", out);
    free(out);
    warmd_down(&k);
}

/* ---- compiles ---- */

typedef void *nvrtc_program;

/* What the same NVRTC gives without us, in a process that does nothing else. The builtins are
 * opened first by their path: under a sanitizer the library does not find them itself. */
static int compile_plainly(const char *lib, const char *name, const char *source, const char *out)
{
    char builtins[4096], library[4096];
    snprintf(builtins, sizeof builtins, "%s/libnvrtc-builtins.so.13.5", lib);
    snprintf(library, sizeof library, "%s/libnvrtc.so.13", lib);
    dlopen(builtins, RTLD_NOW | RTLD_LOCAL);
    void *nvrtc = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!nvrtc)
        return 1;
    int (*create)(nvrtc_program *, const char *, const char *, int, void *, void *);
    int (*compile)(nvrtc_program, int, const char *const *);
    int (*size)(nvrtc_program, size_t *);
    int (*cubin)(nvrtc_program, char *);
    *(void **)&create = dlsym(nvrtc, "nvrtcCreateProgram");
    *(void **)&compile = dlsym(nvrtc, "nvrtcCompileProgram");
    *(void **)&size = dlsym(nvrtc, "nvrtcGetCUBINSize");
    *(void **)&cubin = dlsym(nvrtc, "nvrtcGetCUBIN");
    nvrtc_program p;
    size_t len;
    const char *options[] = {"--gpu-architecture=sm_90"};
    if (create(&p, source, name, 0, NULL, NULL) || compile(p, 1, options) || size(p, &len))
        return 2;
    char *data = malloc(len);
    if (!data || cubin(p, data))
        return 3;
    file_write(out, data, len);
    return 0;
}

static char *compile_here(const struct warmd *k, const char *lib, const char *name,
                          const char *source, size_t *out_len)
{
    char *path = path_join(k->dir, "plain.cubin");
    int status;
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0)
        _exit(compile_plainly(lib, name, source, path));
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert_eq(status, 0, "NVRTC failed by itself: %x", status);
    free(path);
    return read_in(k, "plain.cubin", out_len);
}

Test(command, compile_of_a_graph_shares_its_kernels_with_other_graphs)
{
    static const char two[] =
        "func.func public @main(%x: tensor<8xf32>) -> tensor<8xf32> {\n"
        "%0 = call @relu(%x) : (tensor<8xf32>) -> tensor<8xf32>\n"
        "%1 = stablehlo.tanh %0 : tensor<8xf32>\nreturn %1 : tensor<8xf32>\n}\n"
        "func.func private @relu(%x: tensor<8xf32>) -> tensor<8xf32> {\n"
        "%c = stablehlo.constant dense<0.0> : tensor<8xf32>\n"
        "%0 = stablehlo.maximum %x, %c : tensor<8xf32>\nreturn %0 : tensor<8xf32>\n}\n";
    static const char inlined[] =
        "func.func public @main(%a: tensor<8xf32>) -> tensor<8xf32> {\n"
        "%c = stablehlo.constant dense<0.0> : tensor<8xf32>\n"
        "%0 = stablehlo.maximum %a, %c : tensor<8xf32>\n%1 = stablehlo.tanh %0 : tensor<8xf32>\n"
        "return %1 : tensor<8xf32>\n}\n";
    char *lib = toolchain_lib("13.5.37");
    NEEDS_TOOLCHAIN(lib);
    struct warmd k = warmd_with_compiler(lib);
    write_in(&k, "two.mlir", two);
    write_in(&k, "inlined.mlir", inlined);
    write_in(&k, "loss.mlir",
             "func.func public @main(%x: tensor<8xf32>, %w: tensor<8xf32>) -> tensor<f32> {\n"
             "%0 = stablehlo.dot_general %x, %w, contracting_dims = [0] x [0] :"
             " (tensor<8xf32>, tensor<8xf32>) -> tensor<f32>\nreturn %0 : tensor<f32>\n}\n");
    write_in(&k, "int.mlir",
             "func.func public @main(%x: tensor<i32>) -> tensor<i32> {\n"
             "return %x : tensor<i32>\n}\n");
    write_in(
        &k, "cbrt.mlir",
        "func.func public @main(%x: tensor<f32>) -> tensor<f32> {\n"
        "%0 = \"stablehlo.fft\"(%x) : (tensor<f32>) -> tensor<f32>\nreturn %0 : tensor<f32>\n}\n");
    write_in(&k, "k.cu", saxpy);
    expect(&k, 0, "compile two.mlir --arch sm_90 --json",
           "\"kernels\":1,\"hits\":0,\"launches\":1");
    expect(&k, 0, "compile inlined.mlir --arch sm_90 --json",
           "\"kernels\":1,\"hits\":1,\"launches\":1");
    expect(&k, 0, "compile two.mlir --vjp --arch sm_90 -o g.bundle", "");
    expect(&k, 0, "compile loss.mlir --vjp --wrt 1 --arch sm_90 -o w.bundle", "");
    expect(&k, 0, "show --json w.bundle", "\"arguments\":3,\"results\":2");
    expect(&k, 0,
           "compile loss.mlir --vjp --wrt=1 --optimizer adam,lr=0.5 --arch sm_90 -o s.bundle", "");
    expect(&k, 0, "show --json s.bundle", "\"arguments\":5,\"results\":5");
    expect(&k, 2, "compile loss.mlir --vjp --wrt 1,x --arch sm_90", "--wrt 1,x is not a list of");
    expect(&k, 2, "compile loss.mlir --vjp --wrt 7 --arch sm_90", "argument 7, and there are 2");
    expect(&k, 2, "compile loss.mlir --wrt 1 --arch sm_90", "--wrt goes with --vjp");
    expect(&k, 2, "compile loss.mlir --vjp --optimizer lion --arch sm_90", "no such optimizer");
    expect(&k, 2, "compile two.mlir --vjp --optimizer sgd,lr=1 --arch sm_90",
           "needs parameters, and a loss");
    expect(&k, 0, "show two.bundle", "target     sm_90\n");
    expect(&k, 0, "show two.bundle", "  registers ");
    expect(&k, 0, "show --json g.bundle", "\"arguments\":2,\"results\":2");
    expect(&k, 2, "compile two.mlir --arch compute_80", "take one like sm_90");
    expect(&k, 2, "compile cbrt.mlir --arch sm_90", "stablehlo.fft: an operation that");
    expect(&k, 2, "compile int.mlir --vjp --arch sm_90", "nothing has a gradient");
    expect(&k, 2, "compile k.cu --vjp --arch sm_90", "--vjp is for StableHLO");
    warmd_down(&k);
    free(lib);
}

Test(command, compile_yields_what_nvrtc_yields_cold_and_warm)
{
    char *lib = toolchain_lib("13.5.37");
    NEEDS_TOOLCHAIN(lib);
    struct warmd k = warmd_with_compiler(lib);
    size_t len, here_len;
    write_in(&k, "k.cu", saxpy);
    char *here = compile_here(&k, lib, "k.cu", saxpy, &here_len);
    static const char *const outcomes[] = {"\"outcome\":\"miss\"", "\"outcome\":\""};
    for (size_t i = 0; i < 2; i++) {
        expect(&k, 0, "compile k.cu --arch sm_90 --json", outcomes[i]);
        char *cubin = read_in(&k, "k.cubin", &len);
        cr_assert(len == here_len && memcmp(cubin, here, len) == 0);
        free(cubin);
    }
    kill(k.pid, SIGTERM);
    warmd_reap(k.pid);
    char *options[] = {"--nvrtc", lib, NULL};
    warmd_start(&k, options);
    expect(&k, 0, "compile k.cu --arch sm_90 --json -o again.cubin", "\"outcome\":\"hit\"");
    char *cubin = read_in(&k, "again.cubin", &len);
    cr_assert(len == here_len && memcmp(cubin, here, len) == 0, "after a restart too");
    free(cubin);
    free(here);
    free(lib);
    warmd_down(&k);
}

Test(command, compile_takes_the_target_of_the_gpu_if_none_or_native_is_given)
{
    char *lib = toolchain_lib("13.5.37");
    NEEDS_TOOLCHAIN(lib);
    struct warmd k = warmd_with_compiler(lib);
    write_in(&k, "k.cu", saxpy);
    write_in(&k, "nvidia-smi", "#!/bin/sh\necho 8.6\n"); /* what the driver's tool prints */
    char *tool = path_join(k.dir, "nvidia-smi"), *path = NULL;
    cr_assert_eq(chmod(tool, 0700), 0);
    cr_assert(asprintf(&path, "%s:%s", k.dir, getenv("PATH")) > 0);
    setenv("PATH", path, 1);
    expect(&k, 0, "compile k.cu --json", "\"arch\":\"sm_86\"");
    expect(&k, 0, "compile k.cu --arch native --json", "\"arch\":\"sm_86\"");
    expect(&k, 0, "compile k.cu -arch=native --json", "\"arch\":\"sm_86\"");
    expect(&k, 0, "compile k.cu --gpu-architecture native --json", "\"arch\":\"sm_86\"");
    write_in(&k, "nvidia-smi", "#!/bin/sh\nexit 9\n");
    expect(&k, 2, "compile k.cu --arch native", "nvidia-smi names no GPU here");
    free(path);
    free(tool);
    free(lib);
    warmd_down(&k);
}

Test(command, compile_writes_where_it_is_told)
{
    char *lib = toolchain_lib("13.5.37");
    NEEDS_TOOLCHAIN(lib);
    struct warmd k = warmd_with_compiler(lib);
    write_in(&k, "k.cu", saxpy);
    expect(&k, 0, "compile k.cu --arch sm_90 --ptx -o -", ".target sm_90");
    expect(&k, 0, "compile k.cu --arch compute_80 && ls", "k.ptx");
    expect(&k, 0, "compile k.cu -arch=sm_90 -o /dev/null", "");
    expect(&k, 0, "compile - --arch sm_90 -o in.cubin <k.cu", "");
    expect(&k, 2, "compile k.cu --arch sm_90 -o nowhere/k.cubin", "cannot write nowhere/k.cubin");
    char *out;
    run_command(&out, "ls %s", k.dir);
    cr_assert_null(strstr(out, ".tmp"), "nothing is left beside: %s", out);
    free(out);
    free(lib);
    warmd_down(&k);
}

Test(command, a_changed_header_is_compiled_anew_and_the_old_one_hits_again)
{
    char *lib = toolchain_lib("13.5.37");
    NEEDS_TOOLCHAIN(lib);
    struct warmd k = warmd_with_compiler(lib);
    write_in(&k, "k.cu", "#include \"n.h\"\n__global__ void f(int *p) { *p = N; }\n");
    write_in(&k, "n.h", "#define N 1\n");
    expect(&k, 0, "compile k.cu --arch sm_90 --json", "\"outcome\":\"miss\"");
    write_in(&k, "n.h", "#define N 2\n");
    expect(&k, 0, "compile k.cu --arch sm_90 --json", "\"outcome\":\"miss\"");
    write_in(&k, "n.h", "#define N 1\n");
    expect(&k, 0, "compile k.cu --arch sm_90 --json --only-if-cached", "\"outcome\":\"");
    free(lib);
    warmd_down(&k);
}

Test(command, what_the_compiler_says_goes_to_stderr_and_the_status_is_1)
{
    char *lib = toolchain_lib("13.5.37");
    NEEDS_TOOLCHAIN(lib);
    struct warmd k = warmd_with_compiler(lib);
    write_in(&k, "bad.cu", "__global__ void f() { undeclared = 1; }\n");
    expect(&k, 1, "compile bad.cu --arch sm_90", "identifier \"undeclared\" is undefined");
    expect(&k, 1, "compile bad.cu --arch sm_90 --json", "\"status\":6");
    char *path = path_join(k.dir, "bad.cubin");
    cr_assert_neq(access(path, F_OK), 0);
    free(path);
    write_in(&k, "k.cu", saxpy);
    expect(&k, 1, "compile k.cu --arch sm_999", "invalid value for --gpu-architecture");
    expect(&k, 2, "compile k.cu --arch sm_90 --no-such-option",
           "is an unknown option: --no-such-option");
    expect(&k, 2, "compile k.cu --arch sm_90 --time=/tmp/t", "--time");
    expect(&k, 2, "compile k.cu --arch sm_90 --nvrtc 1.0", "no NVRTC '1.0'");
    expect(&k, 1, "compile k.cu --arch sm_90 --only-if-cached", "not in the cache");
    expect(&k, 0, "why", "cold: not here; --only-if-cached sends no source to compare");
    free(lib);
    warmd_down(&k);
}

Test(command, files_outside_the_include_folders_do_not_show)
{
    char *lib = toolchain_lib("13.5.37");
    NEEDS_TOOLCHAIN(lib);
    struct warmd k = warmd_with_compiler(lib);
    char *dir = temp_dir_new(), *secret = path_join(dir, "secret.h"), *source = NULL;
    file_write(secret, "top secret words\n", 17);
    cr_assert_geq(asprintf(&source, "#include \"%s\"\n#include \"/etc/passwd\"\n", secret), 0);
    write_in(&k, "k.cu", source);
    char *out;
    cr_assert_eq(warm(&k, &out, "compile k.cu --arch sm_90"), 1);
    cr_assert_not_null(strstr(out, "cannot open source file"), "%s", out);
    cr_assert_null(strstr(out, "top secret"), "%s", out);
    cr_assert_null(strstr(out, "root:"), "%s", out);
    cr_assert_not_null(strstr(out, "not shown to the compiler"), "the reason is told: %s", out);
    free(out);
    free(source);
    free(secret);
    temp_dir_free(dir);
    free(lib);
    warmd_down(&k);
}

Test(command, many_at_once_are_one_compile, .timeout = 120)
{
    char *lib = toolchain_lib("13.5.37"), *program = bin_path("warm"), *out;
    NEEDS_TOOLCHAIN(lib);
    struct warmd k = warmd_with_compiler(lib);
    write_in(&k, "k.cu", saxpy);
    int status = run_command(&out,
                             "cd %s && export WARM_SOCKET=%s && for i in $(seq 64); do %s compile "
                             "k.cu --arch sm_90 -o $i.cubin & done; wait; cat *.cubin | wc -c; "
                             "cksum *.cubin | cut -d' ' -f1,2 | sort -u | wc -l",
                             k.dir, k.socket, program);
    cr_assert_eq(status, 0);
    cr_assert_not_null(strstr(out, "\n1\n"), "one content: %s", out);
    free(out);
    expect(&k, 0, "stats --json", "\"compiles\": 1,");
    free(lib);
    free(program);
    warmd_down(&k);
}

/* ---- the daemon and its settings ---- */

Test(command, doctor_names_a_timeout_that_is_no_number)
{
    struct warmd k = warmd_new();
    setenv("WARM_TIMEOUT_MS", "1s", 1);
    expect(&k, 3, "doctor", "WARM_TIMEOUT_MS is \"1s\"");
    setenv("WARM_TIMEOUT_MS", "100", 1);
    char *out;
    cr_expect_eq(warm(&k, &out, "doctor"), 3);
    cr_expect_null(strstr(out, "no number"), "%s", out);
    free(out);
    unsetenv("WARM_TIMEOUT_MS");
    warmd_free(&k);
}

Test(command, config_shows_values_and_origins)
{
    char *options[] = {"--max-size", "64M", "--max-value", "1000B", NULL};
    struct warmd k = warmd_up(options);
    expect(&k, 0, "config get max-value", "1000B\n"); /* as `config set` takes it */
    expect(&k, 0, "config show", "max_size                  option      64M\n");
    expect(&k, 0, "config show", "wait_timeout              default     30s\n");
    expect(&k, 0, "config get max-size", "64M\n");
    expect(&k, 2, "config get no_such", "no setting \"no_such\"\n");
    expect(&k, 2, "config get max-sise", "no setting \"max-sise\": did you mean max_size?\n");
    expect(&k, 2, "config get min_fre --json", ": did you mean min_free?\n");
    warmd_down(&k);
}

Test(command, settings_that_no_daemon_starts_with_are_refused_by_reload)
{
    struct warmd k = warmd_new();
    char *config = path_join(k.dir, "warmd.conf");
    char *options[] = {"--config", config, NULL};
    file_write(config, "jobs = 2\n", 9);
    warmd_start(&k, options);
    expect(&k, 0, "daemon reload", "reads its settings again");
    file_write(config, "jops = 2\n", 9);
    expect(&k, 1, "daemon reload", "did you mean jobs?; the daemon goes on as it is");
    free(config);
    warmd_down(&k);
}

Test(command, daemon_is_started_shown_restarted_and_stopped)
{
    struct warmd k = warmd_new();
    char *first, *second;
    setenv("WARM_STORE", k.store, 1);
    expect(&k, 3, "daemon status", "no daemon answers at ");
    expect(&k, 3, "daemon stop", "no daemon answers at ");
    expect(&k, 0, "daemon start", "started: ");
    expect(&k, 0, "daemon start", "a daemon answers at ");
    expect(&k, 0, "daemon status", k.store);
    cr_assert_eq(warm(&k, &first, "daemon status | head -n 1"), 0);
    expect(&k, 0, "daemon restart", "started: ");
    cr_assert_eq(warm(&k, &second, "daemon status | head -n 1"), 0);
    cr_expect_str_neq(first, second, "another process: %s", second);
    expect(&k, 0, "daemon log", "stopping: Terminated");
    expect(&k, 0, "daemon stop", "stopped: process ");
    expect(&k, 3, "daemon status", "no daemon answers at ");
    expect(&k, 2, "daemon", "name one of");
    free(first);
    free(second);
    unsetenv("WARM_STORE");
    warmd_free(&k);
}

Test(command, that_shows_what_a_store_has_starts_its_daemon)
{
    static const char *const shows[] = {"ls", "stats", "why", "report"};
    struct warmd k = warmd_new();
    char *out;
    setenv("WARM_STORE", k.store, 1);
    write_in(&k, "value", "v");
    expect(&k, 3, "stats", "no daemon answers at "); /* there is no store */
    expect(&k, 0, "daemon start", "started: ");
    expect(&k, 0, "put kept value", "");
    for (size_t i = 0; i < sizeof shows / sizeof *shows; i++) {
        expect(&k, 0, "daemon stop", "stopped: process ");
        expect(&k, 3, "get kept -o got", "no daemon answers at ");
        warm(&k, &out, shows[i]);
        cr_expect(i || strstr(out, "kept"), "%s", out);
        expect(&k, 0, "daemon status", k.store);
        free(out);
    }
    expect(&k, 0, "daemon stop", "stopped: process ");
    setenv("WARM_DISABLE", "1", 1);
    expect(&k, 3, "ls", "WARM_DISABLE is set");
    unsetenv("WARM_DISABLE");
    expect(&k, 3, "daemon status", "no daemon answers at ");
    unsetenv("WARM_STORE");
    warmd_free(&k);
}
