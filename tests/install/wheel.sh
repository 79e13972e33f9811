#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# wheel.sh WHEEL RELEASE…: installs the wheel with pip into a virtual environment of bare Debian roots,
# and builds a program twice with it. Then it removes the wheel. No file may be left. Needs root.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/root.sh"
wheel=$1
shift
for release in "$@"; do
    root=$(root_new "$release" python3 python3-venv g++)
    trap 'root_free "$root"' EXIT
    cp "$wheel" "$here/program.sh" "$root/root/"
    root_run "$root" sh -euc '
        python3 -m venv /root/venv
        find /root/venv -type f | sort >/root/before
        /root/venv/bin/pip install -q --no-index /root/*.whl
        sh /root/program.sh /root/venv/bin/warm
        /root/venv/bin/python -c "import warm"
        /root/venv/bin/pip uninstall -q -y warm-cache
        find /root/venv -type f -not -path "*/__pycache__*" | sort >/root/after
        grep -v /__pycache__ /root/before | diff - /root/after'
    echo "wheel: $release ($(root_run "$root" ldd --version | sed -n 's/^ldd (\(.*\)) .*/\1/p')): installs, starts warm, leaves nothing"
    root_free "$root"
    trap - EXIT
done
