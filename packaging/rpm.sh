#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# rpm.sh BUILD ARCH: makes the RPM packages warm, warm-libs and warm-devel in BUILD/rpm, and prints their
# paths. portable.sh builds their files, so they run on every distribution with glibc 2.17 or newer.
set -eu
cd "$(dirname "$0")/.."
build=$(mkdir -p "$1/rpm" && cd "$1/rpm" && pwd)
packaging/portable.sh "$1" "$2" /usr "$build/root-$2"
rm -f "$build"/*."$2.rpm"
SOURCE_DATE_EPOCH=$(packaging/version.sh commit | cut -d' ' -f2)
export SOURCE_DATE_EPOCH
rpmbuild -bb --target "$2-linux" --define "_topdir $build/work" --define "_rpmdir $build" --define "_build_name_fmt %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm" \
    --define "_buildhost localhost" --define "use_source_date_epoch_as_buildtime 1" --define "clamp_mtime_to_source_date_epoch 1" \
    --define "version $(packaging/version.sh)" \
    --define "tree $build/root-$2" --define "documents $PWD" packaging/warm.spec >"$build/rpmbuild.log" 2>&1 || {
    tail -n 20 "$build/rpmbuild.log" >&2
    echo "rpm: the build failed: $build/rpmbuild.log" >&2
    exit 1
}
# The files may need glibc alone: some distribution lacks each other library, or has it under another name.
others=$(rpm -qp --requires "$build"/*."$2.rpm" | grep -v -E '^(lib(c|m|dl|pthread|rt|util)\.so\.|ld-linux|rtld\(|rpmlib\(|/bin/sh|/sbin/ldconfig|warm-libs|config\(warm\)|libwarm\.so\.0|pkgconfig|/usr/bin/pkg-config)' | sort -u)
[ -z "$others" ] || { echo "rpm: the packages also need $others" >&2; exit 1; }
ls "$build"/*."$2.rpm"
