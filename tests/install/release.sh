#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# release.sh ARCH…: two users make a release of the tagged commit for these architectures, one in a clone, one later in an
# unpacked archive of it, in two folders, with other time zones, languages and umasks. All files must be equal. If some
# differ, both folders are kept. Needs root, to be two users.
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d /var/tmp/warm-release.XXXXXX)
keep=
free() {
    [ -n "$keep" ] && echo "release: kept $work" >&2 || rm -rf "$work"
    for user in $users; do userdel -r "$user" 2>/dev/null || :; done
}
trap free EXIT
trap 'exit 1' HUP INT TERM
chmod 755 "$work"
users="warm-one warm-two-with-a-longer-name"
for arch in "$@"; do make setup-release ARCH="$arch"; done # an ordinary user cannot

# A tag of this test's own, so that the names are those of a release.
git -c safe.directory='*' clone -q --no-hardlinks . "$work/clone"
tag=v$(cat VERSION)
git -C "$work/clone" rev-parse -q --verify "refs/tags/$tag" >/dev/null ||
    git -C "$work/clone" -c user.name=warm -c user.email=warm@localhost tag -m test "$tag"
git -C "$work/clone" checkout -q "$tag" && git -C "$work/clone" archive -o "$work/archive.tar" HEAD

# run USER FOLDER ENVIRONMENT…
run() {
    user=$1 folder=$2
    shift 2
    useradd -m "$user"
    chown -R "$user:" "$folder"
    su "$user" -c "umask 0$umask; cd '$folder' && env $* make release ARCHES='$arches'" >"$work/$user.log" 2>&1 ||
        { tail -n 20 "$work/$user.log"; keep=1; exit 1; }
}
arches=$*
umask=077
run warm-one "$work/clone" TZ=Asia/Tokyo LC_ALL=C.UTF-8
mkdir -p "$work/another/folder" && tar -C "$work/another/folder" -xf "$work/archive.tar"
umask=002
run warm-two-with-a-longer-name "$work/another/folder" TZ=America/Lima LC_ALL=C LANGUAGE=de

keep=1
diff -r "$work/clone/build/release" "$work/another/folder/build/release"
keep=
echo "release: $(wc -l <"$work/clone/build/release/SHA256SUMS") files, equal bytes by two users in two folders"
