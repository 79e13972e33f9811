/* SPDX-License-Identifier: Apache-2.0 */
/* test_version.c - the version grows with each commit, as each packager counts. packaging/version.sh makes it. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/support.h"

static char *
    tree; /* a repository with the script; v0.2.0 is its third commit, 0.3.0 begins with the 14th */

static void make_tree(void)
{
    char *out;
    tree = temp_dir_new();
    if (run_command(&out, "for tool in git dpkg rpm; do command -v $tool || exit; done") != 0)
        cr_skip_test("needs git, dpkg and rpm");
    free(out);
    int rc =
        run_command(&out,
                    "exec 2>&1; set -e; mkdir '%s/packaging'; cp packaging/version.sh "
                    "'%s/packaging'; cp .gitattributes '%s'; cd '%s'; git init -q .\n"
                    "echo '$Format:%%H %%ct %%(describe:match=v[0-9]*)$' >packaging/commit\n"
                    "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@a GIT_COMMITTER_NAME=a "
                    "GIT_COMMITTER_EMAIL=a@a\n"
                    "echo 0.2.0 >VERSION; git add .\n"
                    "for n in $(seq 16); do\n"
                    "    [ $n != 14 ] || echo 0.3.0 >VERSION\n"
                    "    GIT_COMMITTER_DATE=$((1700000000 + n)) git commit -qam $n --allow-empty\n"
                    "    [ $n != 3 ] || git tag -a -m v v0.2.0\n"
                    "    packaging/version.sh >>debs; packaging/version.sh wheel >>wheels\n"
                    "done",
                    tree, tree, tree, tree);
    cr_assert_eq(rc, 0, "%s", out);
    free(out);
}

static void remove_tree(void) { temp_dir_free(tree); }
TestSuite(version, .init = make_tree, .fini = remove_tree);

/* Runs a script in the tree, which must print nothing. */
static void expect_silence(const char *script)
{
    char *out;
    int rc = run_command(&out, "exec 2>&1; cd '%s'; %s", tree, script);
    cr_expect_eq(rc, 0, "%s", script);
    cr_expect_str_eq(out, "");
    free(out);
}

Test(version, each_commit_is_newer_for_dpkg_rpm_and_python)
{
    expect_silence(
        "set -- 0.1.0 $(cat debs); [ $# = 17 ] || echo \"$# versions\"\n"
        "while [ $# -gt 1 ]; do dpkg --compare-versions $1 lt $2 || echo \"dpkg: $1, then $2\"\n"
        "    newer=$(rpm --eval \"%{lua: print(rpm.vercmp('$1', '$2'))}\")\n"
        "    [ \"$newer\" = -1 ] || echo \"rpm: $1, then $2: $newer\"; shift; done");
    expect_silence("python3 -c '\n"
                   "from pip._vendor.packaging.version import Version\n"
                   "v = [\"0.1.0\", *open(\"wheels\").read().split()]\n"
                   "[print(a, b) for a, b in zip(v, v[1:]) if not Version(a) < Version(b) or "
                   "str(Version(b)) != b]'");
}

Test(version, release_has_no_commit_in_it_and_the_next_commit_has)
{
    expect_silence("[ $(sed -n 3p debs) = 0.2.0 ] && [ $(sed -n 3p wheels) = 0.2.0 ] || sed -n 3p "
                   "debs wheels\n"
                   "hash=$(git rev-list --reverse HEAD | sed -n 5p | cut -c1-8)\n"
                   "[ $(sed -n 5p debs) = 0.2.0+2.g$hash ] || sed -n 5p debs\n"
                   "[ $(sed -n 5p wheels) = 0.2.0.post2+g$hash ] || sed -n 5p wheels");
}

/* Before the first tag, at it, behind it, and before the second. */
Test(version, archive_has_that_of_its_clone)
{
    expect_silence("for n in 1 3 5 16; do commit=$(git rev-list --reverse HEAD | sed -n ${n}p)\n"
                   "    rm -rf archive; mkdir archive; git archive $commit | tar -C archive -x\n"
                   "    said=$(archive/packaging/version.sh)\n"
                   "    [ $said = $(sed -n ${n}p debs) ] || echo \"$n: $said\"; done");
}
