#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# python.sh BUILD PACKAGES PROGRAM [ARGUMENT…]: runs a benchmark, PROGRAM.py of this folder, with the packages
# that a file pins.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd) packages=$2 program=$3
shift 3
venv=$("$here/../clients/venv.sh" "$packages") || {
    echo "$program: the packages cannot be installed" >&2
    exit 1
}
WARM_BUILD=$build PYTHONPATH=$here/../clients PYTHONDONTWRITEBYTECODE=1 \
    exec "$venv/bin/python" "$here/$program.py" "$@"
