/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_record.c - `warm record`, `warm replay` and `warm export --session`: what a job used on one daemon is
 * brought into another.
 *
 * Compiles need a toolchain in $WARM_TOOLCHAIN, or beside the tests' folder.
 */
#include "tests/support/warmd.h"

/* Runs a command in `k`'s folder with `warm` as $W and its daemon; its status. */
static int sh(const struct warmd *k, char **out, const char *command)
{
    char *program = bin_path("warm");
    int status =
        run_command(out, "cd %s && export WARM_PROJECT=t WARM_SOCKET=%s W=%s; exec 2>&1; %s",
                    k->dir, k->socket, program, command);
    free(program);
    return status;
}

static void expect(const struct warmd *k, int status, const char *command, const char *text)
{
    char *out;
    int got = sh(k, &out, command);
    cr_assert_eq(got, status, "%s: %d: %s", command, got, out);
    cr_assert_not_null(strstr(out, text), "%s: no `%s` in: %s", command, text, out);
    free(out);
}

/* Empties the store. */
static void start_anew(struct warmd *k)
{
    expect(k, 0, "$W clear --yes", "");
    expect(k, 0, "$W ls --json", "[]");
}

Test(record, recording_has_the_keys_in_order_and_replay_brings_them_in)
{
    struct warmd k = warmd_up(NULL);
    expect(&k, 0,
           "for i in a b c d; do echo value of $i > v; $W put $i v --kind triton --cost-ms 7 "
           "--label \"label of $i\"; done",
           "");
    expect(&k, 3,
           "$W record -o job -- sh -c '$W get c -o /dev/null; $W get a -o /dev/null; "
           "$W get c -o /dev/null; $W get none -o /dev/null; exit 3'",
           "warm: recorded 2 entries in job");
    expect(&k, 0, "head -n 1 job", "warm record 2\n");
    expect(&k, 0, "tail -n +2 job | cut -d' ' -f2- | tr '\\n' '|'",
           "triton 11 7 n:63 label of c|triton 11 7 n:61 label of a|");
    expect(&k, 0, "$W replay job", "2 recorded: 2 were here, 0 brought in (0 B), 0 missing");
    expect(&k, 0, "$W export all.warm", "exported 4 entries");
    start_anew(&k);
    expect(&k, 1, "$W replay job", "2 recorded: 0 were here, 0 brought in (0 B), 2 missing");
    expect(&k, 1, "$W replay job --from all.warm --max-entries 1",
           "1 brought in (11 B), 1 missing; ended by --max-entries");
    expect(&k, 0, "$W get c -o /dev/null; $W ls --json | grep -c triton", "1\n");
    expect(&k, 1, "$W replay job --from all.warm --max-bytes 5", "ended by --max-bytes");
    expect(&k, 1, "$W replay job --from all.warm --max-time 0s", "ended by --max-time");
    expect(&k, 0, "$W replay job --from all.warm --json",
           "{\"schema\":1,\"recorded\":2,\"here\":1,\"brought\":1,\"bytes\":11,\"compiled\":0,"
           "\"missing\":0,"
           "\"limit\":null}");
    warmd_down(&k);
}

Test(record, job_that_the_daemon_compiles_for_hits_after_the_replay)
{
    char *lib = toolchain_lib("13.5.37");
    if (!lib)
        cr_skip_test("no CUDA toolchain: set WARM_TOOLCHAIN or run `make toolchain`");
    char *options[] = {"--nvrtc", lib, NULL};
    struct warmd k = warmd_up(options);
    expect(&k, 0,
           "echo '#define N 3' > h.h; printf '#include \"h.h\"\\n"
           "__global__ void k(float *x) { *x = N; }' > k.cu; "
           "$W record -o job sh -c '$W compile k.cu --arch sm_90 -o first'",
           "recorded ");
    expect(&k, 0, "$W export all.warm", "exported ");
    start_anew(&k);
    expect(&k, 0, "$W replay job --from all.warm", " 0 missing");
    expect(&k, 0, "$W compile k.cu --arch sm_90 --only-if-cached -o again; cmp first again", "");
    warmd_down(&k);
    free(lib);
}

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

Test(record, jobs_of_nvrtc_are_compiled_where_no_archive_has_their_results)
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
    expect(&k, 0,
           "echo '#define PART 4' > part.h; "
           "$W record -o job --jobs jobs ./client $LIB/libnvrtc.so.13 one $PWD > cold && stat -c "
           "%a jobs jobs/*",
           "700\n600\n");
    expect(&k, 0, "$W export all.warm", "exported ");
    start_anew(&k);
    expect(&k, 2, "$W replay job --compile absent", "absent: No such file or directory");
    expect(&k, 1, "$W replay job --compile jobs --max-time 0s", "0 compiled, ");
    expect(&k, 0, "$W replay job --compile jobs", " 0 brought in (0 B), ");
    expect(&k, 0, "$W replay job --compile jobs", " 0 compiled, 0 missing");
    expect(&k, 0, "$W run --report ./client $LIB/libnvrtc.so.13 one $PWD > warm && cmp cold warm",
           " 0 misses");

    start_anew(&k);
    expect(&k, 1,
           "f=$(ls jobs); for n in 10 60; do head -c $n jobs/$f > jobs/${f%.job}$n.job; done; rm "
           "jobs/$f; "
           "echo 1 > jobs/k.job; $W replay job --compile jobs || { rm jobs/*; false; }",
           "jobs/k.job: its name has no compiler's identity");
    expect(&k, 0, "$W replay job --compile jobs --from all.warm", " 0 compiled, 0 missing");
    warmd_down(&k);
    free(lib);
}

Test(record, export_takes_what_a_session_used_or_what_is_new)
{
    struct warmd k = warmd_up(NULL);
    expect(&k, 0, "echo 1 > v; for i in a b c d; do $W put $i v; done", "");
    expect(&k, 0, "WARM_SESSION=s $W run sh -c '$W get d -o /dev/null; $W get b -o /dev/null'", "");
    expect(&k, 0, "$W export s.warm --session s", "exported 2 entries");
    expect(&k, 1, "$W export s.warm --session nope", "no session nope is known");
    expect(&k, 0, "$W export new.warm --since 1h", "exported 4 entries");
    expect(&k, 0, "sleep 1.2; $W export new.warm --since 1s", "exported 0 entries");
    expect(&k, 2, "$W export new.warm --since long", "--since long is not a span of time");
    warmd_down(&k);
}

/* The daemon keeps HISTORY_EVENTS of all sessions: whoever asks more often is told that some are gone. */
Test(record, session_with_forgotten_requests_says_so)
{
    enum { MANY = 4096, ROUNDS = 3 };
    static struct warm_name names[MANY];
    static struct warm_value values[MANY];
    static int codes[MANY];
    struct warmd k = warmd_up(NULL);
    struct warm *w;
    expect(&k, 0, "echo 1 > v; $W put a v; $W put b v", "");
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
    expect(&k, 0, "$W export s.warm --session long",
           "the daemon no longer knows 4096 requests of this session: entries may be missing");
    expect(&k, 0, "$W export s.warm --session long", "exported 1 entry");
    warmd_down(&k);
}

Test(record, export_is_no_use_of_the_entries)
{
    struct warmd k = warmd_up(NULL);
    expect(&k, 0, "head -c 9000000 /dev/zero > big; $W put big big --cost-ms 100", "");
    expect(&k, 0, "echo 1 > v; $W put small v --cost-ms 100; $W get small -o out", "");
    expect(&k, 0, "$W export all.warm; $W export --to folders", "exported 2 entries");
    expect(&k, 0, "$W stats --json", "{\"hits\": 1, \"misses\": 0, ");
    expect(&k, 0, "$W stats --json", "\"saved_ms\": 100, ");
    expect(&k, 0, "$W show big --json", "\"hits\":0,");
    expect(&k, 0, "$W show small --json", "\"hits\":1,");
    warmd_down(&k);
}

Test(record, files_that_are_no_recording_are_refused)
{
    struct warmd k = warmd_up(NULL);
    expect(&k, 2, "echo something else > job; $W replay job", "no recording of `warm record`");
    expect(&k, 2, "printf 'warm record 1\\nzzz other 1 1 x\\n' > job; $W replay job",
           "line 2 has no key");
    expect(&k, 2, "$W replay absent", "No such file or directory");
    expect(&k, 0, "printf 'warm record 1\\n' > job; $W replay job", "0 recorded");
    expect(&k, 1,
           "printf 'warm record 1\\n44a1d0e79c18a9560cd344f1095e8acc other 1 1 x' > job; "
           "echo none > no.warm; $W replay job --from no.warm",
           "1 missing");
    warmd_down(&k);
}

/* Two daemons with one folder as their tier: what the first made, the second takes before the job. */
Test(record, replay_takes_from_the_tier_what_the_recording_names)
{
    struct warmd first = warmd_new(), second = warmd_new();
    char *tier, *key = path_join(first.dir, "tier.key"), *job = path_join(first.dir, "job"),
                *command;
    cr_assert_gt(asprintf(&tier, "file://%s/tier", first.dir), 0);
    expect(&first, 0, "$W tier keygen test tier.key && mkdir tier", "tier_key");
    char *options[] = {"--tier", tier, "--tier-key", key, "--tier-min-cost", "0", NULL};
    warmd_start(&first, options);
    expect(
        &first, 0,
        "echo bytes >v; $W record -o job -- sh -c '$W put graph-1 v --cost-ms 500; $W get graph-1 "
        "-o out'",
        "recorded 1 entry");
    expect(&first, 0,
           "for i in $(seq 600); do n=$(find tier -type f | wc -l); [ $n -gt 0 ] && break; "
           "sleep .1; done; echo $n objects",
           " objects");
    warmd_start(&second, options);
    cr_assert_gt(asprintf(&command, "$W replay %s --max-bytes 1", job), 0);
    expect(&second, 1, command, "0 brought in (0 B), 1 missing; ended by --max-bytes");
    free(command);
    cr_assert_gt(asprintf(&command, "$W replay %s", job), 0);
    expect(&second, 0, command, "1 brought in (6 B), 0 missing");
    free(command);
    cr_assert_gt(
        asprintf(
            &command,
            "for i in $(seq 600); do $W replay %s | grep '1 were here' && break; sleep .1; done",
            job),
        0);
    expect(&second, 0, command, "1 were here");
    expect(&second, 0, "$W get graph-1 -o -", "bytes");
    free(command);
    free(tier);
    free(key);
    free(job);
    warmd_down(&first);
    warmd_down(&second);
}
