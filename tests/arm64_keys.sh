#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# arm64_keys.sh BUILD: cross-builds the suites of keys and wire for aarch64 and runs them under qemu-user, with tests/plain in
# Criterion's place; then compares the keys of all corpora with those of this machine, which BUILD/bin/warm makes. The
# programs are static, so they need no root, and no privilege. It installs nothing: without qemu-user, Debian's cross
# compiler or the libraries of that architecture it says so, and ends with 0. `make test-arm64` runs more.
set -eu
cd "$(dirname "$0")/.."
build=$1/arm64-keys
cross=aarch64-linux-gnu
skip() { echo "test-arm64-keys: skipped: $*"; exit 0; }
[ "$(uname -m)" != aarch64 ] || skip "this machine is one: \`make test\`"
qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64) || skip "there is no qemu-aarch64"
command -v $cross-gcc >/dev/null || skip "there is no $cross-gcc"
mkdir -p "$build"
echo 'int main(void) { return 0; }' | $cross-gcc -static -x c -o "$build/links" - -lcrypto -lsodium -lz -lzstd -lncursesw -ltinfo 2>/dev/null ||
    skip "the libraries of arm64 are not there: \`make wheel ARCH=aarch64\` installs them"

make -j"$(nproc)" --no-print-directory B="$build" CC=$cross-gcc AR=$cross-ar "$build/plain/keys" "$build/bin/warm"
make -j"$(nproc)" --no-print-directory B="$1" "$1/bin/warm"
timeout 600 "$qemu" "$build/plain/keys"
tests/corpora.sh "$build/graphs" "$1/bin/warm" >"$build/keys-here"
tests/corpora.sh "$build/graphs" timeout 300 "$qemu" "$build/bin/warm" >"$build/keys-arm64"
diff "$build/keys-here" "$build/keys-arm64"
n=$(grep -c '"key":' "$build/keys-here")
[ "$n" -gt 300 ] || { echo "test-arm64-keys: only $n keys"; exit 1; }
echo "test-arm64-keys: the keys of $n files are those of this machine"
