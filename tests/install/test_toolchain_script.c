/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_toolchain_script.c - how kernels/toolchain.sh behaves: downloads once, checks digests each time,
 * leaves nothing half. The script is the real one; its table names a small wheel made here, which
 * pip finds in a folder instead of a network.
 */
#include "tests/support/support.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *root; /* of: toolchain.sh, toolchain.sums, index/ (pip's), cache/, out/ */

/* A wheel laid out as NVIDIA's are, with an empty library, and the script with a table for it. */
static void make_wheel(void)
{
    char *out;
    root = temp_dir_new();
    int rc = run_command(
        &out,
        "exec 2>&1; set -e; cp kernels/toolchain.sh '%s'; cd '%s'; mkdir index tree; cd tree\n"
        "mkdir -p nvidia/cu/lib nvidia/cu/include tiny_nvrtc-1.0.dist-info\n"
        "echo 'int nvrtcVersion(void); int nvrtcVersion(void) { return 0; }' |\n"
        "    cc -x c -shared -fPIC -o nvidia/cu/lib/libnvrtc.so.1 -\n"
        "cp nvidia/cu/lib/libnvrtc.so.1 nvidia/cu/lib/libnvrtc.alt.so.1\n"
        "echo '/* nvrtc */' >nvidia/cu/include/nvrtc.h\n"
        "printf 'Metadata-Version: 2.1\\nName: tiny-nvrtc\\nVersion: 1.0\\n' "
        "    >tiny_nvrtc-1.0.dist-info/METADATA\n"
        "printf 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n' "
        "    >tiny_nvrtc-1.0.dist-info/WHEEL\n"
        ": >tiny_nvrtc-1.0.dist-info/RECORD\n"
        "python3 -m zipfile -c ../index/tiny_nvrtc-1.0-py3-none-any.whl nvidia tiny*\n"
        "set -- $(sha256sum ../index/*.whl)\n"
        "echo \"$(uname -m) 1.0 tiny-nvrtc $1\" >../toolchain.sums\n",
        root, root);
    cr_assert_eq(rc, 0, "%s", out);
    free(out);
}

static void remove_root(void) { temp_dir_free(root); }

TestSuite(toolchain_script, .init = make_wheel, .fini = remove_root);

/* Runs a shell script in the folder, with pip reading only `index`; its output is in *out. */
static int in_root(char **out, const char *script)
{
    return run_command(out,
                       "exec 2>&1; cd '%s'; export XDG_CACHE_HOME=\"$PWD/cache\" PIP_NO_INDEX=1 "
                       "PIP_FIND_LINKS=\"$PWD/index\" PIP_CONFIG_FILE=/dev/null\n%s",
                       root, script);
}

static void expect(const char *script, int status, const char *said)
{
    char *out;
    int rc = in_root(&out, script);
    cr_expect_eq(rc, status, "%s: status %d, %s", script, rc, out);
    cr_expect(*said ? strstr(out, said) != NULL : !*out, "%s: said \"%s\", expected \"%s\"", script,
              out, said);
    free(out);
}

Test(toolchain_script, unpacks_library_and_header_and_one_build_only)
{
    expect("./toolchain.sh out", 0, "1.0 is ready in out/1.0");
    expect("cd out && find . -type f | sort | tr '\\n' ' '", 0,
           "./1.0/PINS ./1.0/include/nvrtc.h ./1.0/lib/libnvrtc.so.1 ");
}

Test(toolchain_script, second_run_does_and_says_nothing)
{
    expect("./toolchain.sh out", 0, "ready");
    expect("rm -r index cache && ./toolchain.sh out", 0, "");
}

Test(toolchain_script, fresh_clone_needs_no_network)
{
    expect("./toolchain.sh out", 0, "fetching tiny-nvrtc 1.0");
    expect("rm -r index out && ./toolchain.sh out", 0, "ready");
}

Test(toolchain_script, no_network_is_one_line_and_leaves_nothing)
{
    expect("rm -r index; ./toolchain.sh out | wc -l; ./toolchain.sh out", 1,
           "cannot download tiny-nvrtc 1.0, is there a network?");
    expect("ls -A out; ls cache/warm-toolchain", 0, "lock\n");
    expect("ls -A out", 0, "");
}

Test(toolchain_script, another_file_than_the_pinned_one_is_refused)
{
    expect("sed -i 's/ [0-9a-f]\\{8\\}/ 00000000/' toolchain.sums; ./toolchain.sh out", 1,
           "expected 00000000");
    expect("ls -A out; ls cache/warm-toolchain/*.whl 2>/dev/null | wc -l", 0, "0\n");
}

Test(toolchain_script, damaged_download_is_fetched_again)
{
    expect("./toolchain.sh out; rm -r out; for w in cache/warm-toolchain/*.whl; do echo x "
           ">>\"$w\"; done; ./toolchain.sh out",
           0, "is damaged (its SHA-256 is not the pinned one): fetching it again");
    expect("ls out/1.0/lib", 0, "libnvrtc.so.1\n");
}

Test(toolchain_script, changed_pin_replaces_the_folder)
{
    expect(
        "./toolchain.sh out; echo old >out/1.0/PINS; touch out/1.0/lib/stray; ./toolchain.sh out",
        0, "1.0 is ready in out/1.0");
    expect("test -e out/1.0/lib/stray", 1, "");
}

/* Killed at many moments, each run either finished its folder or did not begin it; the next one
 * cleans up. */
Test(toolchain_script, killed_run_leaves_nothing_half)
{
    expect("for t in 0.01 0.05 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8; do\n"
           "    rm -rf out/1.0; timeout -s KILL $t ./toolchain.sh out >/dev/null 2>&1\n"
           "    [ ! -e out/1.0 ] || [ -s out/1.0/PINS -a -s out/1.0/lib/libnvrtc.so.1 ] || exit 1\n"
           "done\n"
           "./toolchain.sh out >/dev/null 2>&1 && ls -A out cache/warm-toolchain | grep -c new",
           1, "0\n");
}

Test(toolchain_script, two_runs_at_once_make_it_once)
{
    expect("./toolchain.sh out & ./toolchain.sh out; wait; ls out", 0, "1.0");
    expect("rm -r out; (./toolchain.sh out & ./toolchain.sh out; wait) 2>&1 | grep -c ready", 0,
           "1\n");
}

Test(toolchain_script, machine_without_a_pin_is_told)
{
    expect("sed -i 's/^[^ ]*/pdp11/' toolchain.sums; ./toolchain.sh out", 1,
           "no compiler is pinned for");
}
