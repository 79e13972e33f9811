#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# portable.sh BUILD ARCH PREFIX ROOT: runs `make install` with PREFIX into the empty folder ROOT, for systems of
# that architecture with any glibc since 2.17. wheel.sh and rpm.sh pack ROOT.
#
# zig's C compiler has the headers and the symbols of that glibc. The other libraries are the system's,
# linked statically. The preloaded libraries need no newer glibc (`make check-glibc`), so the system's compiler,
# or Debian's cross compiler, builds them. Equal sources make equal bytes in any folder: docs/releasing.md.
set -eu
cd "$(dirname "$0")/.."
arch=$2
work=$1/portable/$arch # relative, so that no path of this machine gets into the files
mkdir -p "$work"
build=$(cd "$work" && pwd)
venv=$(cd "$1/portable" && pwd)/venv
prefix=$3
root=$4
umask 022

cmp -s packaging/wheel.txt "$venv/wheel.txt" || {
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q -r packaging/wheel.txt
    cp packaging/wheel.txt "$venv/"
}

# Only the headers of the libraries: those of the system's C library do not fit zig's.
include=$build/include
libraries=$build/libraries
rm -rf "$include" "$libraries" "$root"
mkdir -p "$include" "$libraries"
triplet=$arch-linux-gnu
for header in lmdb.h xxhash.h uv.h uv openssl zlib.h zconf.h zstd.h zstd_errors.h sodium.h sodium curl curses.h ncurses_dll.h unctrl.h; do
    for folder in /usr/include "/usr/include/$triplet"; do
        [ ! -e "$folder/$header" ] || cp -r "$folder/$header" "$include/"
    done
done
for library in lmdb ssl crypto z zstd sodium ncursesw tinfo; do
    ln -s "/usr/lib/$triplet/lib$library.a" "$libraries/"
done
ln -s "/usr/lib/$triplet/libuv_a.a" "$libraries/libuv.a"

cat >"$build/cc" <<END
#!/bin/sh
exec "$venv/bin/python" -m ziglang cc -target $triplet.2.17 "\$@"
END
chmod +x "$build/cc"
mkdir -p "$build/obj"
"$build/cc" -I. -D_GNU_SOURCE -O2 -fPIC -ffile-prefix-map="$PWD"=. -c -o "$build/obj/libc_gaps.o" packaging/libc_gaps.c

run() { "$@" >>"$build/make.log" 2>&1 || { tail -n 20 "$build/make.log" >&2; echo "portable: the build failed: $build/make.log" >&2; exit 1; }; }
: >"$build/make.log"
# The programs of another architecture do not run here: this machine's own writes the completions.
speaks=$work/obj/bin/warm
[ "$arch" = "$(uname -m)" ] || { run make -j"$(nproc)" B="$1" "$1/bin/warm" && speaks=$1/bin/warm; }
# -Wno-…: warnings of clang that the sources do cause
run make -j"$(nproc)" B="$work/obj" CC="$build/cc" WERROR= STATIC= PREFIX="$prefix" DESTDIR="$root" SPEAKS="$speaks" \
    CFLAGS="-O2 -ffile-prefix-map=$PWD=. -isystem $include -include packaging/libc_gaps.h -Wno-cast-qual -Wno-unused-command-line-argument" \
    LDFLAGS="-s $build/obj/libc_gaps.o -L$libraries" LOADED= install
loaded="lib/libwarm-preload.so libexec/warm/libwarm-trace.so libexec/warm/libwarm-python.so"
run make -j"$(nproc)" B="$work/loaded" CC="$triplet-gcc" CFLAGS="-O2 -g -ffile-prefix-map=$PWD=." \
    $(printf "$work/loaded/%s " $loaded) check-glibc
for library in $loaded; do
    install -D -m 644 "$work/loaded/$library" "$root$prefix/$library"
    "$triplet-strip" "$root$prefix/$library"
done
# A program that is linked for an older C library may start, or not.
[ "$arch" != "$(uname -m)" ] || "$root$prefix/bin/warmd" --version >/dev/null || { echo "portable: warmd does not start" >&2; exit 1; }
