#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# release.sh: two users make a release in two clones, in two folders, one after the other. SHA256SUMS must be equal.
# Needs root, to be two users.
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d /var/tmp/warm-release.XXXXXX)
trap 'rm -rf "$work"; userdel -r warm-one 2>/dev/null || true; userdel -r warm-two-with-a-longer-name 2>/dev/null || true' EXIT
chmod 755 "$work"
for arch in x86_64 aarch64; do make setup-release ARCH=$arch; done # an ordinary user cannot
for user in warm-one warm-two-with-a-longer-name; do
    useradd -m "$user"
    home=$work/of-$user
    mkdir "$home"
    if [ -e .git ]; then git -c safe.directory='*' archive HEAD; else tar --exclude=./build -c .; fi | tar -C "$home" -xf -
    chown -R "$user:" "$home"
    su "$user" -c "cd '$home' && make release" >"$work/$user.log" 2>&1 || { tail -n 20 "$work/$user.log"; exit 1; }
    cp "$home/build/release/SHA256SUMS" "$work/$user.sums"
done
diff "$work/warm-one.sums" "$work/warm-two-with-a-longer-name.sums"
echo "release: $(wc -l <"$work/warm-one.sums") files, equal bytes by two users in two folders"
