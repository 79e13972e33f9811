#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# wheel.sh BUILD: makes BUILD/wheel/warm_cache-VERSION-py3-none-manylinux_2_17_x86_64.whl. It has everything
# that `make install` installs, built by portable.sh. At the end auditwheel checks that the tag is right.
set -eu
cd "$(dirname "$0")/.."
mkdir -p "$1/wheel"
packaging/portable.sh "$1" /warm "$1/wheel/root"
rm -f "$1"/wheel/*.whl
wheel=$(python3 packaging/wheel.py "$1/wheel/root/warm" "$1/wheel")
PATH=$(cd "$1/portable/venv/bin" && pwd):$PATH
auditwheel show "$wheel" | tr '\n' ' ' | grep -q '"manylinux_2_17_x86_64"' || {
    auditwheel show "$wheel" >&2
    exit 1
}
echo "$wheel"
