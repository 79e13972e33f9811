#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# bench_programs.sh BUILD [ROW…]: times whole programs, cold and warm: runs bench_programs.py, with the
# packages that programs.txt pins.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
shift
venv=$("$here/../clients/venv.sh" "$here/programs.txt") || {
    echo "bench-programs: the packages cannot be installed" >&2
    exit 1
}
WARM_BUILD=$build PYTHONPATH=$here/../clients PYTHONDONTWRITEBYTECODE=1 \
    exec "$venv/bin/python" "$here/bench_programs.py" "$@"
