/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_export.c - `warm export` and `warm import`: what a job used on one daemon is brought into an empty one, and
 * every look-up of the job hits there.
 *
 * Compiles need a toolchain in $WARM_TOOLCHAIN, or beside the tests' folder.
 */
#include "tests/support/warmd.h"

#include <signal.h>

/* A use of `warm get` counts only for a project, or in a session. */
static void setup(void) { setenv("WARM_PROJECT", "t", 1); }
TestSuite(export, .init = setup);

/* Compiles the program that uses NVRTC into `k`'s folder. False if libwarm-preload.so is not built. */
static bool build_client(const struct warmd *k)
{
    char *preload = bin_path("../lib/libwarm-preload.so"), *out;
    bool built = access(preload, R_OK) == 0;
    free(preload);
    if (!built)
        return false;
    int status = run_command(&out,
                             "cc -D_GNU_SOURCE -pthread -o %s/client "
                             "tests/programs/nvrtc_client.c -ldl 2>&1",
                             k->dir);
    cr_assert_eq(status, 0, "%s", out);
    free(out);
    return true;
}

Test(export, export_takes_what_a_session_used_or_what_is_new)
{
    struct warmd k = warmd_up(NULL);
    warmd_shell(&k, 0, "echo 1 > v; for i in a b c d; do $W put $i v; done", "");
    warmd_shell(&k, 0, "WARM_SESSION=s $W run sh -c '$W get d -o /dev/null; $W get b -o /dev/null'",
                "");
    warmd_shell(&k, 0, "$W export s.warm --session s", "exported 2 entries");
    warmd_shell(&k, 0, "$W export l.warm --last && cmp s.warm l.warm", "exported 2 entries");
    warmd_shell(&k, 1, "$W export s.warm --session nope", "no session nope is known");
    warmd_shell(&k, 0, "$W export new.warm --since 1h", "exported 4 entries");
    warmd_shell(&k, 0, "sleep 1.2; $W export new.warm --since 1s", "exported 0 entries");
    warmd_shell(&k, 2, "$W export new.warm --since long", "--since long is not a span of time");
    warmd_down(&k);
}

Test(export, an_archive_goes_through_a_pipe_a_link_and_a_device_and_leaves_them)
{
    struct warmd k = warmd_up(NULL);
    warmd_shell(&k, 0, "echo 1 >v; $W put a v; $W export want.warm", "exported 1 entry");
    warmd_shell(&k, 0, "mkfifo p; cat p >got & $W export p; wait; test -p p && cmp got want.warm",
                "exported 1 entry");
    warmd_shell(&k, 0, "$W export /dev/fd/3 3>&1 >said | cat >got2; cmp got2 want.warm && cat said",
                "exported 1 entry");
    warmd_shell(&k, 0, "ln -s to l; $W export l; test -L l && cmp to want.warm",
                "exported 1 entry");
    warmd_shell(&k, 2, "$W export /dev/full; rc=$?; test -c /dev/full && exit $rc",
                "No space left");
    warmd_shell(&k, 2, "mkdir d; $W export d", "d: Is a directory");
    warmd_shell(&k, 2, "$W import --from jax ''", "an empty path");
    warmd_down(&k);
}

/* Skips a test of g++ if what sees its files is not built. */
static void needs_trace(void)
{
    char *trace = bin_path("../libexec/warm/libwarm-trace.so");
    bool built = access(trace, R_OK) == 0;
    free(trace);
    if (!built)
        cr_skip_test("libwarm-trace.so is not built with sanitizers");
}

/* Starts another daemon with an empty store and another home on the same socket. */
static void start_elsewhere(struct warmd *k, char *const *options)
{
    cr_assert_eq(kill(k->pid, SIGTERM), 0);
    warmd_reap(k->pid);
    free(k->store);
    k->store = path_join(k->dir, "elsewhere");
    warmd_shell(k, 0, "mkdir -p other-home", "");
    warmd_start(k, options);
}

#define ELSEWHERE "HOME=$PWD/other-home "

/* A result of g++ is a manifest and an object, and marks if it prints: each is of no use without the others. */
Test(export, results_of_gcc_hit_where_their_session_is_imported)
{
    static const char job[] =
        "$W run --report sh -c 'g++ -O2 -c a.cc && g++ -Wall -O2 -c b.cc && g++ a.o b.o -o p'";
    needs_trace();
    struct warmd k = warmd_up(NULL);
    char *line;
    warmd_shell(&k, 0,
                "printf '#include \"h.h\"\n#include <vector>\nint f(int n) { return "
                "std::vector<int>(n, N)[0]; }\n' >a.cc; echo '#define N 3' >h.h; "
                "echo 'int f(int); int main() { int unused; return f(1); }' >b.cc",
                "");
    cr_assert_gt(asprintf(&line, "export HOME=$PWD; %s", job), 0);
    warmd_shell(&k, 0, line, "0 hits, ");
    warmd_shell(&k, 0, "$W export cold.warm --last", "exported ");
    warmd_shell(&k, 0, line, " 0 misses");
    warmd_shell(&k, 0, "$W export warm.warm --last", "exported ");
    free(line);
    static const char *const archives[] = {"cold.warm", "warm.warm"};
    for (size_t i = 0; i < 2; i++) {
        if (i)
            warmd_shell(&k, 0, "$W clear --yes", "");
        else
            start_elsewhere(&k, NULL);
        cr_assert_gt(asprintf(&line, ELSEWHERE "$W import %s && rm *.o && " ELSEWHERE "%s",
                              archives[i], job),
                     0);
        warmd_shell(&k, 0, line, " 0 misses");
        free(line);
    }
    warmd_shell(&k, 0, "$W export part.warm --kind object && $W clear --yes && $W import part.warm",
                "");
    cr_assert_gt(asprintf(&line, "rm *.o && " ELSEWHERE "%s", job), 0);
    warmd_shell(&k, 0, line, " 0 misses"); /* marks of messages, too */
    free(line);
    warmd_shell(&k, 0, "$W export again.warm --last && tar --zstd -tf again.warm",
                "-object/g++ a.cc\n");
    warmd_down(&k);
}

Test(export, a_compile_with_headers_hits_where_its_session_is_imported)
{
    char *lib = toolchain_lib("13.5.37");
    if (!lib)
        cr_skip_test("no CUDA toolchain: set WARM_TOOLCHAIN or run `make toolchain`");
    char *options[] = {"--nvrtc", lib, NULL};
    struct warmd k = warmd_up(options);
    if (!build_client(&k)) {
        warmd_down(&k);
        cr_skip_test("libwarm-preload.so is not built with sanitizers");
    }
    cr_assert_eq(setenv("LIB", lib, 1), 0);
    warmd_shell(&k, 0,
                "echo '#define PART 4' > part.h; HOME=$PWD "
                "$W run --report ./client $LIB/libnvrtc.so.13 one $PWD 2>told > cold && cat told",
                " 0 hits, ");
    warmd_shell(&k, 0, "$W export s.warm --last", "exported ");
    start_elsewhere(&k, options);
    warmd_shell(&k, 0, ELSEWHERE "$W import s.warm", "imported ");
    warmd_shell(&k, 0,
                ELSEWHERE
                "$W run --report ./client $LIB/libnvrtc.so.13 one $PWD > warm && cmp cold warm",
                " 0 misses");
    warmd_down(&k);
    free(lib);
}

/* The daemon remembers the entries apart from its 8192 events. */
Test(export, all_entries_of_a_long_session_are_exported_after_a_restart_of_the_daemon)
{
    enum { MANY = 4096, ROUNDS = 3 };
    static struct warm_name names[MANY];
    static struct warm_value values[MANY];
    static int codes[MANY];
    struct warmd k = warmd_up(NULL);
    struct warm *w;
    warmd_shell(&k, 0, "echo 1 > v; $W put a v; $W put b v", "");
    setenv("WARM_SESSION", "long", 1);
    cr_assert_eq(warm_open(&w, &(struct warm_options){.socket = k.socket}), 0);
    unsetenv("WARM_SESSION");
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < MANY; i++)
            names[i] = (struct warm_name){round == 0 && i == 0 ? "b" : "a", 1};
        cr_assert_eq(warm_get_many(w, names, MANY, 0, values, codes), 0, "%s", warm_message(w));
        for (int i = 0; i < MANY; i++)
            warm_value_free(&values[i]);
    }
    warm_close(w);
    warmd_shell(&k, 0, "$W export s.warm --session long", "exported 2 entries");
    kill(k.pid, SIGTERM);
    warmd_reap(k.pid);
    warmd_start(&k, NULL);
    warmd_shell(&k, 0, "$W export s.warm --session long", "exported 2 entries");
    warmd_shell(&k, 0, "$W export s.warm --last", "exported 2 entries");
    warmd_down(&k);
}

Test(export, what_a_session_lacks_is_said_and_is_a_finding)
{
    struct warmd k = warmd_up(NULL);
    warmd_shell(&k, 0,
                "echo 1 > v; for i in a b; do $W put $i v; done; "
                "WARM_SESSION=s $W run sh -c '$W get a -o /dev/null; $W get b -o /dev/null'",
                "");
    warmd_shell(&k, 0, "$W rm a", "");
    warmd_shell(&k, 1, "$W export s.warm --session s",
                "1 entry that the session used is not written");
    warmd_shell(&k, 1, "$W export s.warm --session s --json", "\"missing\":1}");
    warmd_shell(&k, 0, "WARM_SESSION=t $W run $W get b -o /dev/null", "");
    kill(k.pid, SIGKILL); /* before it wrote what the session t used */
    warmd_reap(k.pid);
    warmd_start(&k, NULL);
    warmd_shell(&k, 1, "$W export s.warm --session t", "no session t is known");
    warmd_shell(&k, 0, "WARM_SESSION=t $W run $W get b -o /dev/null", "");
    warmd_shell(&k, 1, "$W export s.warm --session t", "the daemon no longer knows all entries");
    warmd_down(&k);
}

Test(export, entries_that_belong_together_are_pinned_and_go_together)
{
    needs_trace();
    struct warmd k = warmd_up(NULL);
    warmd_shell(
        &k, 0,
        "echo 'int a;' >a.cc; $W run g++ -c a.cc; $W ls --json | grep -o '\"kind\":\"object\"'",
        "object");
    warmd_shell(
        &k, 0,
        "key=$($W ls --json --kind object | grep -o '\"key\":\"[0-9a-f]*' | cut -d'\"' -f4); "
        "$W pin $key",
        "pinned 2 entries");
    warmd_shell(&k, 0, "$W ls --json --pinned | grep -o '\"kind\":\"[a-z]*' | sort | tr '\\n' ' '",
                "\"kind\":\"manifest \"kind\":\"object ");
    warmd_shell(&k, 0, "$W export o.warm --kind object", "exported 2 entries");
    warmd_shell(
        &k, 0,
        "for k in $($W ls --json --pinned | grep -o '\"key\":\"[0-9a-f]*' | cut -d'\"' -f4); do "
        "$W unpin $k; done; true",
        "");
    warmd_shell(&k, 0, "$W evict --kind object --dry-run", "would have evicted 2 entries, ");
    warmd_shell(&k, 0, "$W evict --kind object", "evicted 2 entries, ");
    warmd_shell(&k, 0, "$W ls --json --kind manifest", "[]");
    warmd_down(&k);
}

Test(export, what_belongs_to_an_entry_is_pushed_to_the_tier_with_it)
{
    needs_trace();
    struct warmd first = warmd_new(), second = warmd_new(), third = warmd_new();
    char *tier, *key = path_join(first.dir, "tier.key"), *line, *pull;
    cr_assert_gt(asprintf(&tier, "file://%s/tier", first.dir), 0);
    warmd_shell(&first, 0, "$W tier keygen test tier.key && mkdir tier && echo 'int a;' >a.cc",
                "tier_key");
    char *options[] = {"--tier", tier, "--tier-key", key, "--tier-min-cost", "1h", NULL};
    warmd_start(&first, options);
    warmd_shell(&first, 0, "$W run g++ -c a.cc; $W tier push --kind object --dry-run",
                "would have queued 2 entries");
    warmd_shell(&first, 0, "$W tier push --kind object", "queued 2 entries");
    warmd_shell(
        &first, 0,
        "for i in $(seq 600); do $W tier status | grep '^sent  *2 ' && break; sleep .1; done",
        "2 entries");
    warmd_start(&second, options);
    cr_assert_gt(asprintf(&line, "cd %s && $W run --report g++ -c a.cc", first.dir), 0);
    warmd_shell(&second, 0, line, " 0 misses");
    warmd_shell(&first, 0, "$W ls --json --kind object --closure >list", "");
    warmd_start(&third, options);
    cr_assert_gt(asprintf(&pull, "$W tier pull %s/list", first.dir), 0);
    warmd_shell(&third, 0, pull, "0 were here, 2 came from the tier");
    free(pull), free(line), free(tier), free(key);
    warmd_down(&third);
    warmd_down(&second);
    warmd_down(&first);
}

Test(export, near_equal_values_take_little_room_in_an_archive)
{
    struct warmd k = warmd_up(NULL);
    warmd_shell(
        &k, 0,
        "head -c 9000000 /dev/urandom >v; for i in 1 2 3 4; do echo $i >>v; $W put $i v; done; "
        "$W export a.warm && [ $(stat -c %s a.warm) -lt 10000000 ] && tar --zstd -tf a.warm",
        "entries/000004-other/value\n");
    warmd_shell(
        &k, 0,
        "$W get 3 -o before && $W clear --yes && $W import a.warm && $W get 3 -o after && cmp "
        "before after",
        "imported 4 entries");
    warmd_down(&k);
}

/* PyTorch's remote caches: what is taken apart for the store comes back as it was. */
Test(export, large_values_that_came_by_redis_travel_with_their_session)
{
    static const char script[] =
        "import base64, json, os, redis, sys\n"
        "r = redis.Redis(unix_socket_path=os.environ['WARM_SOCKET'], "
        "client_name='warm-session-s')\n"
        "pickle = base64.b64encode(b'\\x80\\x04' + bytes(range(256)) * 4000).decode()\n"
        "values = {'plain': bytes(range(255, -1, -1)) * 20000,\n"
        "          'pt2:fx-graph-v1::f1:c1': json.dumps({'data': pickle, 'time_taken_ms': "
        "7}).encode()}\n"
        "if sys.argv[1] == 'set':\n"
        "    for name in values: r.set(name, values[name])\n"
        "assert all(r.get(name) == values[name] for name in values), 'another value'\n";
    struct warmd k = warmd_up(NULL);
    char *path = path_join(k.dir, "job.py");
    file_write(path, script, strlen(script));
    warmd_shell(&k, 0, "/usr/bin/python3 job.py set && $W export s.warm --session s",
                "exported 2 entries");
    warmd_shell(&k, 0, "$W clear --yes && $W import s.warm && /usr/bin/python3 job.py get",
                "imported 2 entries");
    free(path);
    warmd_down(&k);
}

/* The adapter's graphs have names of their own; a folder of PyTorch has those that PyTorch looks for. */
Test(export, graphs_that_our_adapter_checked_come_into_a_folder_of_pytorch)
{
    struct warmd k = warmd_up(NULL);
    warmd_shell(&k, 0,
                "printf '\\0torch1\\n\\200\\4.' >v; $W put pt2:fx-graph-v1::fabcdef:c1:checked v; "
                "$W put pt2:autograd-experimental::aghijkl:c1:checked v; $W put "
                "pt2:fx-graph-v1::fabcdef:c2 v; "
                "$W export --as inductor --to folder; cd folder; ls -d */*/*",
                "aotautograd/aghijkl/");
    warmd_shell(&k, 0, "cat folder/fxgraph/ab/fabcdef/* | od -An -tx1", "80 04 2e");
    warmd_down(&k);
}

#define BOB "setpriv --reuid 23456 --regid 23456 --clear-groups env HOME=$PWD/bob "

/* What the system's daemon compiled itself counts for all users: a cubin, and the alias that leads to it. */
Test(export, what_a_systems_daemon_made_is_brought_by_administrators_alone)
{
    NEEDS_TWO_USERS();
    char *lib = toolchain_lib("13.5.37"), *warm = public_path("bin/warm"), *line;
    if (!lib)
        cr_skip_test("no CUDA toolchain: set WARM_TOOLCHAIN or run `make toolchain`");
    char *options[] = {"--nvrtc", lib, NULL};
    struct warmd k = warmd_up(options);
    warmd_shell(&k, 0,
                "mkdir -m 777 bob; cd bob; echo '__global__ void k() {}' >k.cu; "
                "$W compile k.cu --arch sm_90 -o k.cubin; chmod 666 k.cubin; "
                "for i in $(seq 100); do $W ls --json | grep cubin && break; sleep .1; done",
                "");
    cr_assert_gt(asprintf(&line, "cd bob && " BOB "%s run %s compile k.cu --arch sm_90 -o k.cubin",
                          warm, warm),
                 0);
    warmd_shell(&k, 0, line, "");
    free(line);
    cr_assert_gt(asprintf(&line, BOB "%s export bob/his.warm --last", warm), 0);
    warmd_shell(&k, 1, line, "1 entry that the session used is not written");
    free(line);
    warmd_shell(&k, 0, "$W export all.warm --kind cubin && chmod 644 all.warm",
                "exported 2 entries");
    warmd_shell(&k, 0, "$W clear --yes", "");
    cr_assert_gt(asprintf(&line, BOB "%s import all.warm", warm), 0);
    warmd_shell(&k, 1, line, "only the daemon makes entries under an address key");
    free(line);
    warmd_shell(&k, 0, "$W import all.warm", "imported 2 entries");
    cr_assert_gt(
        asprintf(&line, "cd bob && " BOB "%s compile k.cu --arch sm_90 -o k.cubin --only-if-cached",
                 warm),
        0);
    warmd_shell(&k, 0, line, "");
    free(line), free(lib), free(warm);
    warmd_down(&k);
}

Test(export, an_archive_of_another_version_is_named)
{
    struct warmd k = warmd_up(NULL);
    warmd_shell(&k, 2, "printf 'warm archive 2\\r\\n' >old.warm; $W import old.warm",
                "old.warm: an archive of another version");
    warmd_shell(&k, 2, "echo something else >no.warm; $W import no.warm", "no.warm: ");
    warmd_down(&k);
}

Test(export, export_is_no_use_of_the_entries)
{
    struct warmd k = warmd_up(NULL);
    warmd_shell(&k, 0, "head -c 9000000 /dev/zero > big; $W put big big --cost-ms 100", "");
    warmd_shell(&k, 0, "echo 1 > v; $W put small v --cost-ms 100; $W get small -o out", "");
    warmd_shell(&k, 0, "$W export all.warm; $W export --to folders", "exported 2 entries");
    warmd_shell(&k, 0, "$W stats --json", "{\"hits\": 1, \"misses\": 0, ");
    warmd_shell(&k, 0, "$W stats --json", "\"saved_ms\": 100, ");
    warmd_shell(&k, 0, "$W show big --json", "\"hits\":0,");
    warmd_shell(&k, 0, "$W show small --json", "\"hits\":1,");
    warmd_down(&k);
}
