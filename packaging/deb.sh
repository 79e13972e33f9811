#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# deb.sh BUILD: makes the Debian packages warm, libwarm0 and libwarm-dev in BUILD/deb from
# packaging/debian, checks them with lintian, and prints their paths.
#
# The packages run on the release that built them, and on later ones. Debian 13 provides the libraries of
# Debian 12 under the same names, so one package for both is simpler than a build in each release.
set -eu
cd "$(dirname "$0")/.."
build=$(mkdir -p "$1/deb" && cd "$1/deb" && pwd)
version=$(sed -n 's/.*WARM_VERSION "\(.*\)"/\1/p' client/wire/version.h)
sources=$build/warm-$version

rm -rf "$sources" "$build"/*.deb
mkdir "$sources"
cp -r Makefile CHANGELOG.md keygen kernels store client tier daemon systemd "$sources/"
mkdir "$sources/packaging"
cp packaging/packaging.mk "$sources/packaging/"
cp -r packaging/debian "$sources/debian"
date=$(git log -1 --format=%cD 2>/dev/null || date -R)
cat >"$sources/debian/changelog" <<END
warm ($version) unstable; urgency=medium

  * /usr/share/doc/warm/changelog.gz says what changed.

 -- $(sed -n 's/^Maintainer: //p' packaging/debian/control)  $date
END

# The package's build must not inherit the settings of the make that runs this script.
(cd "$sources" && env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS -u B DEB_BUILD_OPTIONS="noautodbgsym parallel=$(nproc)" \
    dpkg-buildpackage -b -uc -us) >"$build/make.log" 2>&1 || {
    tail -n 20 "$build/make.log" >&2
    echo "deb: the build failed: $build/make.log" >&2
    exit 1
}
# The project has no mail address (SECURITY.md says how to report), so Maintainer has one that nobody reads.
lintian --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog --fail-on error,warning --allow-root \
    "$build/warm_${version}_amd64.changes" >&2
ls "$build"/*.deb
