#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# setup.sh PACKAGE…: installs the missing ones of these Debian packages, as root or through sudo. If none is
# missing, it ends after one look at the package database. PACKAGE:arm64 is one of another architecture, which it
# makes known to dpkg. SETUP=no skips it, for machines that got the
# libraries in another way.
set -eu

[ "${SETUP:-}" != no ] || exit 0
command -v dpkg-query >/dev/null || {
    echo "setup: not a Debian system: install the packages that correspond to: $*; then run make with SETUP=no" >&2
    exit 1
}

missing=
for package in "$@"; do
    case $package in *:*) arch=${package#*:} ;; *) arch=$(dpkg --print-architecture) ;; esac
    case " $(dpkg-query -W -f='${Architecture}=${db:Status-Status} ' "$package" 2>/dev/null)" in
    *" $arch=installed "* | *" all=installed "*) ;;
    *) missing="$missing $package" ;;
    esac
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
    as_root=env
elif command -v sudo >/dev/null; then
    as_root='sudo env'
else
    echo "setup: packages are missing, and without root or sudo they cannot be installed: apt-get install$missing" >&2
    exit 1
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
trap 'exit 1' HUP INT TERM

# shellcheck disable=SC2086 # lists of words
install_missing() {
    $as_root DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        -o DPkg::Lock::Timeout=300 $missing >"$log" 2>&1
}

echo "setup: installing$missing" >&2
for package in $missing; do
    case $package:$(dpkg --print-foreign-architectures | tr '\n' ,) in
    *:*:*"${package#*:}",*) ;;
    *:*:*) $as_root dpkg --add-architecture "${package#*:}" && $as_root apt-get update >"$log" 2>&1 ;;
    esac
done
# The package lists may be missing, or older than the mirror's packages.
install_missing || { $as_root apt-get update >"$log" 2>&1 && install_missing; } || {
    tail -n 5 "$log" >&2
    echo "setup: apt-get could not install$missing" >&2
    exit 1
}
