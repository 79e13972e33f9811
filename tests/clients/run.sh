#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILD [GROUP…]: runs unmodified programs of others against the warm in BUILD. A group is
# tests/clients/GROUP.txt, its pinned packages, and tests/clients/GROUP_*.py, its tests.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- $(cd "$here" && ls *.txt | sed 's/\.txt$//')
failed=
skipped=
for group; do
    venv=$("$here/venv.sh" "$here/$group.txt")
    case $? in
    0) ;;
    3) skipped="$skipped $group" && continue ;;
    *) failed="$failed $group" && continue ;;
    esac
    for test in "$here/${group}"_*.py; do
        echo "clients: $(basename "$test")"
        WARM_BUILD=$build PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1 \
            timeout "${WARM_CLIENTS_TIMEOUT:-1200}" "$venv/bin/python" "$test" -v ||
            failed="$failed $(basename "$test")"
    done
done
[ -z "$skipped" ] || echo "clients: skipped, the package index cannot be reached:$skipped"
[ -z "$failed" ] || { echo "clients: FAILED:$failed"; exit 1; }
echo "clients: all passed"
