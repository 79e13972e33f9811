#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# wheel.sh BUILD ARCH: makes BUILD/wheel/warm_cache-VERSION-py3-none-manylinux_2_17_ARCH.whl. It has everything
# that `make install` installs, built by portable.sh. At the end auditwheel checks that the tag is right.
set -eu
cd "$(dirname "$0")/.."
tag=manylinux_2_17_$2
mkdir -p "$1/wheel"
packaging/portable.sh "$1" "$2" /warm "$1/wheel/root-$2"
rm -f "$1"/wheel/*"$tag.whl"
wheel=$(python3 packaging/wheel.py "$1/wheel/root-$2/warm" "$1/wheel" "py3-none-$tag")
PATH=$(cd "$1/portable/venv/bin" && pwd):$PATH
auditwheel show "$wheel" | tr '\n' ' ' | grep -q "\"$tag\"" || {
    auditwheel show "$wheel" >&2
    exit 1
}
echo "$wheel"
