#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# version.sh [wheel|commit]: prints the version of this tree, as Debian's packages, RPMs and `warm --version` have it,
# or as Python's packages have it. VERSION is in the file of that name, HASH names the commit:
#
#     the commit with the tag vVERSION    VERSION
#     N commits after it                  VERSION+N.gHASH             VERSION.postN+gHASH
#     before that tag                     VERSION~devTIME.gHASH       VERSION.devTIME+gHASH
#
# Each sorts behind the line below it (tests/install/test_version.c). `git archive` writes the commit into
# packaging/commit, so an archive has the same version as its clone. `version.sh commit` prints that line: the
# commit, its time in seconds since 1970, and the newest tag with the distance to it.
set -eu
cd "$(dirname "$0")/.."
version=$(cat VERSION)
read -r hash time tag <packaging/commit || :
case $hash in
\$Format*)
    git() { command git -c safe.directory='*' "$@" 2>/dev/null; }
    # A tree inside another project's repository is of no commit of ours.
    [ "$(git rev-parse --show-toplevel)" = "$PWD" ] || git() { false; }
    hash=$(git rev-parse HEAD) || hash=00000000
    time=$(git log -1 --format=%ct) || time=0
    tag=$(git describe --match 'v[0-9]*') || tag=
    ;;
esac
[ "${1:-}" != commit ] || { echo "$hash $time $tag"; exit; }
hash=g$(printf %.8s "$hash")
case $tag in
"v$version") n= ;;
"v$version"-*-g*) n=${tag#"v$version-"} n=${n%-g*} ;;
*) n=dev ;;
esac
case ${1:-}$n in
'' | wheel) echo "$version" ;;
dev) echo "$version~dev$time.$hash" ;;
wheeldev) echo "$version.dev$time+$hash" ;;
wheel*) echo "$version.post$n+$hash" ;;
*) echo "$version+$n.$hash" ;;
esac
