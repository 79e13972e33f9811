#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# wheel.sh WHEEL RELEASE…: installs the wheel into virtual environments of bare Debian roots, once with the
# release's pip and once with the uv of packaging/wheel.txt. It builds a program twice with the wheel, and removes it. No
# file may be left; pip leaves empty folders. Needs root. ROOT_ARCH=arm64: on that architecture, under qemu-user if this
# machine has another.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/root.sh"
wheel=$1
case ${ROOT_ARCH:-} in arm64) machine=aarch64 ;; *) machine=$(uname -m) ;; esac
shift
for release in "$@"; do
    root=$(root_new "$release" python3 python3-venv g++)
    trap 'root_free "$root"' EXIT
    cp "$wheel" "$here/program.sh" "$root/root/"
    python3 -m pip install -q --target "$root/root/uv" --platform "manylinux_2_17_$machine" --only-binary=:all: --no-deps \
        "$(grep '^uv=' packaging/wheel.txt)"
    cp "$root/root/uv/bin/uv" "$root/usr/local/bin/"
    root_run "$root" sh -euc '
        export WARM_STORE=/tmp/store
        files() { # without those of Python and of uv
            find /root/venv -not -type d -not -path "*/__pycache__/*" -not -name .lock | sort
        }
        try() { # INSTALL REMOVE: commands
            files >/root/before
            $1 /root/*.whl
            sh /root/program.sh /root/venv/bin/warm
            /root/venv/bin/python -c "import warm"
            /root/venv/bin/warm daemon stop
            rm -r "$WARM_STORE"
            $2 warm-cache
            files >/root/after
            diff /root/before /root/after
            rm -r /root/venv
        }
        python3 -m venv /root/venv
        try "/root/venv/bin/pip install -q --no-index" "/root/venv/bin/pip uninstall -q -y"
        export VIRTUAL_ENV=/root/venv UV_NO_CACHE=1 UV_OFFLINE=1
        uv venv -q /root/venv
        try "uv pip install -q" "uv pip uninstall -q"'
    echo "wheel: $release ($(root_run "$root" ldd --version | sed -n 's/^ldd (\(.*\)) .*/\1/p')): pip and uv install it, it starts warm, no file is left"
    root_free "$root"
    trap - EXIT
done
