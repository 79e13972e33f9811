#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# release.sh BUILD [KEY]: collects in BUILD/release what a release consists of, after `make wheel deb rpm` for both
# architectures: their files, the sources, release notes, a list of what is inside (sbom.py), SHA256SUMS, and
# SHA256SUMS.sig if KEY names the releaser's SSH key. docs/releasing.md says what a person does with them.
#
# Equal sources make equal bytes, whoever runs it where and when, if the machines have the same Debian packages.
# No file has the time of the build, its folder, its user, or an order that a folder happened to have.
set -eu
cd "$(dirname "$0")/.."
export LC_ALL=C TZ=UTC
umask 022
build=$1
key=${2:-}
version=$(packaging/version.sh)
commit=$(packaging/version.sh commit)
out=$build/release
rm -rf "$out"
mkdir -p "$out"
install -m 644 "$build"/wheel/*.whl "$build"/deb/*.deb "$build"/rpm/*.rpm "$out/"

# The sources as `git archive` writes them, also from a tree without .git.
sources=$build/release-sources/warm-$version
rm -rf "$build/release-sources"
mkdir -p "$sources"
if [ -e .git ]; then git -c safe.directory='*' ls-files -z; else find . -path "./${build#./}" -prune -o -type f -print0; fi |
    xargs -0 cp --parents -P -t "$sources"
echo "$commit" >"$sources/packaging/commit"
tar -C "$build/release-sources" --sort=name --mtime="@$(echo "$commit" | cut -d' ' -f2)" --owner=0 --group=0 --numeric-owner \
    --mode='u+rw,go=rX' --format=gnu -cf - "warm-$version" | gzip -9n >"$out/warm-$version.tar.gz"
rm -rf "$build/release-sources"

# The newest section of the changelog.
awk '/^## /{ n++ } n == 1' CHANGELOG.md >"$out/NOTES.md"

cd "$out"
python3 "$OLDPWD/packaging/sbom.py" "$version" ./* >../sbom.json
mv ../sbom.json "warm-$version.cdx.json"
sha256sum ./* | sed 's|\./||' >../SHA256SUMS
mv ../SHA256SUMS .
[ -z "$key" ] || ssh-keygen -q -Y sign -f "$key" -n warm-release SHA256SUMS
cat SHA256SUMS
