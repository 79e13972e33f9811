/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_import.c - `warm import` and `warm export`: archives, other programs' cache folders, and what
 * is damaged in them.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "tests/support/archive.h"
#include "tests/support/warmd.h"

/* Runs `warm` with the test's daemon; returns its status, and its output in *out. */
#define warm(k, out, format, ...)                                                                  \
    run_command(out, "WARM_SOCKET=%s WARM_TIMEOUT_MS=%d '%s' " format " 2>&1", (k)->socket,        \
                WARMD_WAIT_MS, command_path(), ##__VA_ARGS__)

static const char *command_path(void)
{
    static char *path;
    if (!path)
        path = bin_path("warm");
    return path;
}

static void expect_output(int status, int wanted, char *out, const char *text)
{
    cr_expect_eq(status, wanted, "exit status %d: %s", status, out);
    cr_expect(strstr(out, text), "no \"%s\" in: %s", text, out);
    free(out);
}

/* Runs a command that sets `out`, and checks its status and output. */
#define expect(command, wanted, out, text)                                                         \
    do {                                                                                           \
        int status_ = command;                                                                     \
        expect_output(status_, wanted, out, text);                                                 \
    } while (0)

Test(import, takes_in_what_export_wrote_and_names_what_is_damaged)
{
    struct warmd k = warmd_up(NULL), other = warmd_up(NULL);
    char *out, *file = path_join(k.dir, "archive"), *cut = path_join(k.dir, "cut");
    expect(warm(&k, &out, "import %s/nothing", k.dir), 2, out, "No such file");
    struct writer w = archive_of_two();
    archive_write(file, w.data, w.len);
    expect(warm(&k, &out, "import %s", file), 0, out, "imported 2 entries");
    expect(warm(&k, &out, "get two -o -"), 0, out, "2nd");
    expect(warm(&k, &out, "export %s/again", k.dir), 0, out, "exported 2 entries");
    expect(warm(&other, &out, "import --json %s/again", k.dir), 0, out, "\"entries\":");
    expect(warm(&other, &out, "ls --kind executable --text one"), 0, out, "executable");
    expect(warm(&other, &out, "export - --text two | wc -c"), 0, out, "");
    expect(warm(&k, &out, "rm two"), 0, out, "");
    expect(warm(&k, &out, "import --keep-existing %s", file), 0, out,
           "imported 1 entry, 3 B; kept 1 that was here\n");
    expect(warm(&k, &out, "import --keep-existing --json %s", file), 0, out,
           "\"entries\":0,\"kept\":2,\"expired\":0,");
    expect(warm(&other, &out, "put brief %s --ttl 1s", file), 0, out, "");
    expect(warm(&other, &out, "export %s/brief --text brief; sleep 2", k.dir), 0, out, "");
    expect(warm(&other, &out, "import %s/brief", k.dir), 0, out, "0 entries, 0 B; 1 had expired\n");
    w.data[9 * 512] ^= 1; /* of the second value */
    archive_write(cut, w.data, w.len);
    expect(warm(&k, &out, "import %s", cut), 1, out, "two: damaged");
    archive_write(cut, w.data, w.len / 2 - 2);
    expect(warm(&k, &out, "import %s", cut), 1, out, "ends too early");
    w.data[13] ^= 1, w.data[153] ^= 1; /* "warm-archive-2", and the sum */
    archive_write(cut, w.data, w.len);
    expect(warm(&k, &out, "import %s", cut), 2, out, "another version");
    writer_close(&w);
    expect(warm(&k, &out, "import --from nobody %s", cut), 2, out,
           "one of jax, triton and inductor");
    free(file), free(cut);
    warmd_down(&k), warmd_down(&other);
}

static void wait_for_entries(struct warmd *k, unsigned n)
{
    char *out, wanted[32];
    bool there = false;
    snprintf(wanted, sizeof wanted, "\"entries\": %u,", n);
    for (unsigned left = WARMD_WAIT_MS / 20; left && !there; left--) {
        cr_assert_eq(warm(k, &out, "stats --json"), 0);
        there = strstr(out, wanted);
        free(out);
        usleep(20000);
    }
    cr_assert(there, "%u entries never came", n);
}

/* What the daemon compiled itself, with a header, so that there is a manifest, and without. */
Test(import, what_a_daemon_compiled_is_known_to_another_one_that_imports_it)
{
    char *beside = bin_path("../toolchain"), *root = getenv("WARM_TOOLCHAIN"), *out;
    char *nvrtc = path_join(root ? root : beside, "13.5.37/lib");
    if (access(nvrtc, R_OK) != 0)
        cr_skip_test("no CUDA toolchain: set WARM_TOOLCHAIN or run `make toolchain`");
    char *options[] = {"--nvrtc", nvrtc, "--jobs", "1", NULL};
    struct warmd k = warmd_up(options), other = warmd_up(options);
    char *plain = path_join(k.dir, "plain.cu"), *with = path_join(k.dir, "with.cu"),
         *header = path_join(k.dir, "mine.h");
    static const char text[] = "extern \"C\" __global__ void f(float *x) { *x += ADDED; }\n";
    static const char top[] = "#include \"mine.h\"\n";
    char source[256];
    file_write(header, "#define ADDED 2\n", 16);
    file_write(with, source, (size_t)snprintf(source, sizeof source, "%s%s", top, text));
    file_write(plain, source, (size_t)snprintf(source, sizeof source, "#define ADDED 3\n%s", text));
    expect(warm(&k, &out, "compile --arch sm_90 %s -o %s.1", plain, plain), 0, out, "");
    expect(warm(&k, &out, "compile --arch sm_90 %s -o %s.1", with, with), 0, out, "");
    wait_for_entries(
        &k, 5); /* two results, and what leads to them: an answer does not wait for the disk */
    expect(warm(&k, &out, "export %s/all", k.dir), 0, out, "exported 5 entries");
    expect(warm(&k, &out, "export --to %s/folders", k.dir), 0, out, "exported 0 entries");
    expect(warm(&other, &out, "import %s/all", k.dir), 0, out, "imported 5 entries");
    expect(warm(&other, &out, "compile --arch sm_90 %s -o %s.2", plain, plain), 0, out, "");
    expect(warm(&other, &out, "compile --arch sm_90 %s -o %s.2", with, with), 0, out, "");
    expect(warm(&other, &out, "stats --json"), 0, out, "\"compiles\": 0, \"coalesced");
    expect(warm(&other, &out, "verify; cmp %s.1 %s.2 && cmp %s.1 %s.2", plain, plain, with, with),
           0, out, "");
    file_write(header, "#define ADDED 4\n", 16); /* and what it was made of still counts */
    expect(warm(&other, &out, "compile --arch sm_90 %s -o %s.3", with, with), 0, out, "");
    expect(warm(&other, &out, "stats --json"), 0, out, "\"compiles\": 1, \"coalesced");
    free(beside), free(nvrtc), free(plain), free(with), free(header);
    warmd_down(&k), warmd_down(&other);
}

/* ---- compressed streams ---- */

/* The zstd frame of "zstd" 100 times, with its checksum. */
static const uint8_t zstd_frame[] = {0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58, 0x5d, 0x00,
                                     0x00, 0x20, 0x7a, 0x73, 0x74, 0x64, 0x01, 0x00,
                                     0x89, 0xab, 0x8e, 0x08, 0x6f, 0xd5, 0xe0, 0x3b};

/* A folder of JAX: streams of zlib at each level, small and over many chunks, each whole, cut and
 * with a byte behind it; and the same of zstd. */
static void make_streams(const char *dir)
{
    char *out, *frame = path_join(dir, "frame");
    file_write(frame, zstd_frame, sizeof zstd_frame);
    int status = run_command(
        &out,
        "mkdir %s/jax && cd %s && python3 -c 'import os, zlib\n"
        "text = open(\"/proc/self/exe\", \"rb\").read(1000000)\n"
        "streams = {\"empty\": zlib.compress(b\"\")}\n"
        "for level in range(10):\n"
        "  streams[\"small%%d\" %% level] = zlib.compress(text[:500], level)\n"
        "  streams[\"large%%d\" %% level] = zlib.compress(text, level)\n"
        "streams[\"zeros\"] = zlib.compress(bytes(9000000))\n"
        "streams[\"zstd\"] = open(\"frame\", \"rb\").read()\n"
        "for name, s in streams.items():\n"
        "  changed = bytearray(s); changed[-2] ^= 1\n"
        "  for kind, data in dict(whole=s, cut=s[:-1], half=s[:len(s) // 2], more=s + b\"x\",\n"
        "                         twice=s + s, changed=changed).items():\n"
        "    open(\"jax/\" + kind + \"-\" + name + \"-cache\", \"wb\").write(data)\n'",
        dir, dir);
    cr_assert_eq(status, 0, "%s", out);
    free(out), free(frame);
}

Test(import, streams_of_zlib_and_zstd_come_in_whole_or_are_named)
{
    struct warmd k = warmd_up(NULL);
    char *out;
    make_streams(k.dir);
    unsigned n_bad = 0;
    cr_assert_eq(warm(&k, &out, "import --from jax %s/jax", k.dir), 1);
    for (const char *at = out; (at = strstr(at, "-cache: cut short or damaged")); at++)
        n_bad++;
    cr_expect_eq(n_bad, 116, "%u: %s", n_bad, out);
    cr_expect(strstr(out, "imported 22 entries"), "%s", out);
    free(out);
    expect(warm(&k, &out, "ls --text jax:stock:whole --json | grep -o jax:stock:whole | wc -l"), 0,
           out, "44\n"); /* as the name and as the label */
    warmd_down(&k);
}

/* ---- folders ---- */

/* Makes folders of the five formats, each with something good and something bad. */
static void make_folders(const char *dir)
{
    char *out;
    int status = run_command(
        &out,
        "python3 -c 'import base64, hashlib, json, os, pickle, zlib\n"
        "os.chdir(\"%s\")\n"
        "def put(path, data):\n"
        "  os.makedirs(os.path.dirname(path), exist_ok=True)\n"
        "  open(path, \"wb\").write(data)\n"
        "whole = zlib.compress(b\"\\0\\0\\0\\2executable\" * 99)\n"
        "put(\"jax/jit_step-ab12-cache\", whole)\n"
        "put(\"jax/jit_step-ab12-atime\", b\"12345678\")\n"
        "put(\"jax/jit_cut-ab13-cache\", whole[:-3])\n"
        "put(\"jax/notes.txt\", b\"x\")\n"
        "files = {\"k.json\": b\"{}\", \"k.cubin\": b\"\\x7fELF\" * 20000, \"k.ptx\": "
        "b\".version\"}\n"
        "for n, d in files.items(): put(\"triton/KEY/\" + n, d)\n"
        "group = {n: \"/elsewhere/KEY/\" + n for n in files}\n"
        "put(\"triton/KEY/__grp__k.json\", json.dumps({\"child_paths\": group}).encode())\n"
        "put(\"triton/OTHER/launcher.so\", b\"\\x7fELF alone\")\n"
        "put(\"triton/LOST/__grp__m.json\", json.dumps({\"child_paths\": group}).encode())\n"
        "p = pickle.dumps({\"graph\": list(range(99))})\n"
        "name = base64.b32encode(hashlib.sha256(p).digest()).decode().lower()[:51]\n"
        "put(\"inductor/fxgraph/ab/fabcdef/\" + name, p)\n"
        "put(\"inductor/aotautograd/aabcdef/\" + name, p)\n"
        "put(\"inductor/fxgraph/cd/fcdefgh/\" + name, p[:-2])\n"
        "put(\"inductor/de/cdefgh.main.so\", b\"\\x7fELF kernels\")\n"
        "put(\"inductor/de/cdefgh.main.cpp\", b\"source\")\n"
        "put(\"inductor/triton/0/KEY2/launcher.so\", b\"\\x7fELF alone\")\n'",
        dir);
    cr_assert_eq(status, 0, "%s", out);
    free(out);
}

Test(import, folders_of_others_come_in_and_go_back_and_damage_is_named)
{
    static const struct {
        const char *format, *bad, *n, *name;
    } cases[] = {
        {"jax", "jit_cut-ab13-cache: cut short", "imported 1 entry", "jax:stock:jit_step-ab12"},
        {"triton", "LOST/__grp__m.json: files of this group are missing", "imported 2 entries",
         "triton:2:KEY:k.json"},
        {"inductor", "cut short or damaged", "imported 4 entries", "pt2:fx-graph-v1::fabcdef:c1"},
    };
    char *dir = temp_dir_new(), *out;
    struct warmd k = warmd_up(NULL);
    make_folders(dir);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *format = cases[i].format;
        cr_expect_eq(warm(&k, &out, "import --from %s %s/%s", format, dir, format), 1, "%s", out);
        cr_expect(strstr(out, cases[i].bad), "%s: %s", format, out);
        cr_expect(strstr(out, cases[i].n), "%s: %s", format, out);
        free(out);
        expect(warm(&k, &out, "get %s -o %s/value", cases[i].name, dir), 0, out, "");
        expect(warm(&k, &out, "export --as %s --to %s/back-%s", format, dir, format), 0, out,
               "exported");
    }
    expect(run_command(&out,
                       "cd %s && for f in jax/jit_step-ab12-cache triton/KEY/k.cubin "
                       "triton/KEY/k.json triton/OTHER/launcher.so "
                       "inductor/fxgraph/ab/fabcdef/* "
                       "inductor/de/cdefgh.main.so "
                       "inductor/aotautograd/aabcdef/*; do cmp $f back-$f || exit 1; done; "
                       "grep -c back-triton/KEY/k.ptx back-triton/KEY/__grp__k.json",
                       dir),
           0, out, "1");
    expect(warm(&k, &out, "export --to %s/all", dir), 0, out, "exported 7 entries");
    expect(run_command(&out,
                       "cd %s && for f in jax inductor; do diff -r back-$f all/$f || "
                       "exit 1; done; ls all/triton",
                       dir),
           0, out, "KEY\nKEY2\nOTHER\n");
    expect(warm(&k, &out, "export --to %s/all --as jax file", dir), 2, out, "name a FILE");
    expect(warm(&k, &out, "export"), 2, out, "name a FILE");
    expect(warm(&k, &out, "import --from jax %s/none", dir), 1, out, "No such file");
    warmd_down(&k);
    temp_dir_free(dir);
}

/* From now on the kernel's fsync and syncfs fail, in this process and its children. */
static void let_syncs_fail(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fsync, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_syncfs, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EIO),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    cr_assert_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    cr_assert_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0), 0);
}

Test(import, export_that_a_power_failure_could_lose_fails)
{
    struct warmd k = warmd_up(NULL);
    char *out, *file = path_join(k.dir, "archive");
    struct writer w = archive_of_two();
    archive_write(file, w.data, w.len);
    writer_close(&w);
    expect(warm(&k, &out, "import %s", file), 0, out, "imported 2 entries");
    let_syncs_fail(); /* the daemon runs already */
    expect(warm(&k, &out, "export %s/again", k.dir), 2, out, "Input/output error");
    expect(run_command(&out, "ls %s | grep -c again", k.dir), 1, out,
           "0"); /* nothing is left of it */
    expect(warm(&k, &out, "export --as jax --to %s/out", k.dir), 2, out, "Input/output error");
    free(file);
    warmd_down(&k);
}

Test(import, export_refuses_names_that_leave_their_folder)
{
    struct warmd k = warmd_up(NULL);
    char *out, *value = path_join(k.dir, "value");
    file_write(value, "x", 1);
    static const char *const names[] = {"jax:stock:../../evil", "triton:2:..:x",
                                        "triton:2:k:a/b",       "inductor:a/x.so",
                                        "inductor:ab/../x.so",  "inductor:../x.so"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char format[16];
        snprintf(format, sizeof format, "%.*s", (int)strcspn(names[i], ":"), names[i]);
        expect(warm(&k, &out, "put '%s' %s", names[i], value), 0, out, "");
        expect(warm(&k, &out, "export --as %s --to %s/out --text '%s'", format, k.dir, names[i]), 1,
               out, "no file's");
    }
    free(value);
    warmd_down(&k);
}
