#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# portable.sh BUILD PREFIX ROOT: runs `make install` with PREFIX into the empty folder ROOT, for systems
# with any glibc since 2.17. wheel.sh and rpm.sh pack ROOT.
#
# zig's C compiler has the headers and the symbols of that glibc. The other libraries are the system's,
# linked statically. The preloaded libraries come from BUILD, because they need no newer glibc
# (`make check-glibc`).
set -eu
cd "$(dirname "$0")/.."
build=$(mkdir -p "$1/portable" && cd "$1/portable" && pwd)
prefix=$2
root=$3
venv=$build/venv
target=x86_64-linux-gnu.2.17

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
triplet=$(cc -print-multiarch)
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
exec "$venv/bin/python" -m ziglang cc -target $target "\$@"
END
chmod +x "$build/cc"
mkdir -p "$build/obj"
"$build/cc" -I. -D_GNU_SOURCE -O2 -fPIC -c -o "$build/obj/libc_gaps.o" packaging/libc_gaps.c

# -Wno-…: warnings of clang that the sources do cause
make -j"$(nproc)" B="$build/obj" CC="$build/cc" WERROR= STATIC= PREFIX="$prefix" DESTDIR="$root" \
    CFLAGS="-O2 -isystem $include -include packaging/libc_gaps.h -Wno-cast-qual -Wno-unused-command-line-argument" \
    LDFLAGS="-s $build/obj/libc_gaps.o -L$libraries" LOADED= install >"$build/make.log" 2>&1 || {
    tail -n 20 "$build/make.log" >&2
    echo "portable: the build failed: $build/make.log" >&2
    exit 1
}
make B="$1" check-glibc >"$build/check.log" 2>&1 || { tail -n 20 "$build/check.log" >&2; exit 1; }
for library in lib/libwarm-preload.so libexec/warm/libwarm-trace.so; do
    install -D -m 644 -s "$1/$library" "$root$prefix/$library"
done
