#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# arm64.sh BUILD SUITES PACKAGE…: cross-builds the tests for aarch64 and runs those whose names match the pattern SUITES in a bare
# arm64 Debian with these packages, under qemu-user. It is slow, and qemu-user has no seccomp, no Landlock and the memory order of this
# machine: a test that needs what is not there skips itself. Without root, qemu-user or binfmt it says so, and ends
# with 0.
set -eu
cd "$(dirname "$0")/.."
build=$1 suites=$2
shift 2
skip() { echo "test-arm64: skipped: $*"; exit 0; }
[ "$(uname -m)" != aarch64 ] || skip "this machine is one: \`make test\`"
[ "$(id -u)" = 0 ] || skip "a bare root needs root"
./setup.sh qemu-user-static debootstrap gcc-aarch64-linux-gnu g++-aarch64-linux-gnu || skip "qemu-user or the cross compiler is not to be had"
if ! [ -e /proc/sys/fs/binfmt_misc/qemu-aarch64 ]; then
    [ -e /proc/sys/fs/binfmt_misc/register ] || mount -t binfmt_misc none /proc/sys/fs/binfmt_misc || skip "this kernel has no binfmt_misc"
    # F: the kernel keeps the interpreter open, so it need not be in the root.
    printf %s ':qemu-aarch64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:/usr/bin/qemu-aarch64-static:F' \
        >/proc/sys/fs/binfmt_misc/register || skip "binfmt_misc takes no interpreter here"
fi

. tests/install/root.sh
root=${ARM64_ROOT:-$(ROOT_ARCH=arm64 root_new bookworm "$@")}
trap '[ -n "${ARM64_ROOT:-}" ] || root_free "$root"' EXIT
make -j"$(nproc)" B="$build" CC="aarch64-linux-gnu-gcc --sysroot=$root" CXX="aarch64-linux-gnu-g++ --sysroot=$root" AR=aarch64-linux-gnu-ar \
    all "$build/tests/all"
rm -rf "$root/root/warm"
mkdir -p "$root/root/warm"
if [ -e .git ]; then git -c safe.directory='*' ls-files -z; else find . -path ./build -prune -o -type f -print0; fi |
    xargs -0 cp --parents -P -t "$root/root/warm"
mkdir -p "$root/root/warm/build"
cp -r "$build"/bin "$build"/lib "$build"/libexec "$build"/tests "$root/root/warm/build/"
mkdir "$root/root/warm/build/share" && mkdir "$root/root/warm/build/share/warm" && ln -s ../../../client/python "$root/root/warm/build/share/warm/python"

# The keys of all corpora, made by both architectures.
make -j"$(nproc)" all
tests/corpora.sh "$build/graphs" build/bin/warm >"$build/keys-here"
tests/corpora.sh "$build/graphs" "$build/bin/warm" >"$build/keys-arm64"
diff "$build/keys-here" "$build/keys-arm64"
echo "test-arm64: the keys of $(grep -c '"key":' "$build/keys-here") files are those of this machine"

# Entries of both in one store and one tier: what runs on the CPU of one never meets the other.
cat >"$root/tmp/both.sh" <<'END'
set -eu
cd "$1"
export HOME="$1" WARM_SOCKET="$1/sock"
mkdir -p tier
[ -e key ] || "$2" tier keygen both key >/dev/null
printf 'tier = file://%s/tier\ntier_key = %s/key\ntier_min_cost = 0\n' "$1" "$1" >conf
"$2"d --config "$1/conf" --socket "$1/sock" --store "$1/store" 2>log & # root's own would read /etc/warm
trap "kill $! 2>/dev/null && wait $! || :" EXIT
tries=0
until "$2" ping 2>/dev/null; do [ $((tries += 1)) -lt 100 ] || { cat log; exit 1; }; sleep 0.5; done
echo 'int twice(int n) { return 2 * n; }' >twice.cc
"$2" run --report g++ -O2 -c twice.cc -o twice.o 2>report
cat report
[ "$(od -An -tu2 -j18 -N2 twice.o | tr -d ' ')" = "$3" ] # the machine of the ELF header
grep -q " $4 hit" report
"$2" tier push >/dev/null
"$2" daemon stop >/dev/null
END
mkdir "$root/tmp/both"
here="$(pwd)/build/bin/warm"
sh "$root/tmp/both.sh" "$root/tmp/both" "$here" 62 0
root_run "$root" sh /tmp/both.sh /tmp/both /root/warm/build/bin/warm 183 0
# Now from the tier alone. An ask gives up on an answer that is late, as an emulated one may be.
from_tier() { for _ in 1 2 3 4 5; do rm -r "$root/tmp/both/store"; "$@" && return; done; false; }
from_tier sh "$root/tmp/both.sh" "$root/tmp/both" "$here" 62 1
from_tier root_run "$root" sh /tmp/both.sh /tmp/both /root/warm/build/bin/warm 183 1
echo "test-arm64: entries of both architectures in one store and one tier: each found its own"

root_run "$root" sh -euc 'cd /root/warm; kernels/toolchain.sh build/toolchain
    WARM_TOOLCHAIN=$PWD/build/toolchain exec build/tests/all -j"$(nproc)" --filter "$1"' sh "$suites"
