#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# deb.sh BUILD ARCH: makes the Debian packages warm, libwarm0 and libwarm-dev in BUILD/deb from packaging/debian,
# checks them with lintian, and prints their paths. ARCH is Debian's name: amd64, arm64.
#
# The packages run on the release that built them, and on later ones. Debian 13 provides the libraries of
# Debian 12 under the same names, so one package for both is simpler than a build in each release.
set -eu
cd "$(dirname "$0")/.."
build=$(mkdir -p "$1/deb" && cd "$1/deb" && pwd)
version=$(packaging/version.sh)
commit=$(packaging/version.sh commit)
sources=$build/warm-$version
umask 022

rm -rf "$sources" "$build"/*_"$2.deb"
mkdir -p "$sources/packaging"
cp -r VERSION Makefile setup.mk CHANGELOG.md keygen kernels store client tier daemon systemd "$sources/"
cp packaging/packaging.mk packaging/version.sh "$sources/packaging/"
echo "$commit" >"$sources/packaging/commit"
cp -r packaging/debian "$sources/debian"
cat >"$sources/debian/changelog" <<END
warm ($version) unstable; urgency=medium

  * /usr/share/doc/warm/changelog.gz says what changed.

 -- $(sed -n 's/^Maintainer: //p' packaging/debian/control)  $(date -uRd "@$(echo "$commit" | cut -d' ' -f2)")
END

# The package's build must not inherit the settings of the make that runs this script.
clean() { env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS -u B -u ARCH "$@"; }
run() { "$@" >>"$build/make.log" 2>&1 || { tail -n 20 "$build/make.log" >&2; echo "deb: the build failed: $build/make.log" >&2; exit 1; }; }
: >"$build/make.log"
# The programs of another architecture do not run here: this machine's own writes the completions.
speaks=
[ "$2" = "$(dpkg --print-architecture)" ] || { run make -j"$(nproc)" B="$1" "$1/bin/warm" && speaks=$(cd "$1" && pwd)/bin/warm; }
cd "$sources"
run clean SPEAKS="$speaks" DEB_BUILD_OPTIONS="noautodbgsym parallel=$(nproc)" dpkg-buildpackage -a "$2" -b -uc -us
# The project has no mail address (SECURITY.md says how to report), so Maintainer has one that nobody reads.
lintian --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog --fail-on error,warning --allow-root \
    "$build/warm_${version}_$2.changes" >&2
ls "$build"/*_"$2.deb"
