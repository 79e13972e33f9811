#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# wheel.sh BUILD: makes BUILD/wheel/warm_cache-VERSION-py3-none-manylinux_2_17_x86_64.whl: everything
# that `make install` installs, for programs with any glibc since 2.17.
#
# zig's C compiler brings the headers and the symbols of that glibc; the other libraries are the
# system's, linked statically. The preloaded libraries are old enough as they are (`make check-glibc`).
# auditwheel says at the end for which systems the wheel is.
set -eu
cd "$(dirname "$0")/.."
build=$(mkdir -p "$1/wheel" && cd "$1/wheel" && pwd)
venv=$build/venv
target=x86_64-linux-gnu.2.17

[ -x "$venv/bin/auditwheel" ] || {
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q -r packaging/wheel.txt
}

# The headers of the libraries alone: the system's C library has others.
include=$build/include
libraries=$build/libraries
rm -rf "$include" "$libraries"
mkdir -p "$include" "$libraries"
triplet=$(cc -print-multiarch)
for header in lmdb.h xxhash.h uv.h uv openssl zlib.h zconf.h zstd.h zstd_errors.h sodium.h sodium curses.h ncurses_dll.h unctrl.h; do
    for folder in /usr/include "/usr/include/$triplet"; do
        [ ! -e "$folder/$header" ] || cp -r "$folder/$header" "$include/"
    done
done
for library in lmdb crypto z zstd sodium ncursesw tinfo; do
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

# -Wno-…: clang's warnings beyond those that the sources are kept free of
rm -rf "$build/root"
make -j"$(nproc)" B="$build/obj" CC="$build/cc" WERROR= STATIC= PREFIX=/warm DESTDIR="$build/root" \
    OPT="-O2 -isystem $include -include packaging/libc_gaps.h -Wno-cast-qual -Wno-unused-command-line-argument" \
    LDFLAGS="-pthread -s $build/obj/libc_gaps.o -L$libraries" LOADED= install >"$build/make.log" 2>&1 || {
    tail -n 20 "$build/make.log" >&2
    echo "wheel: the build failed: $build/make.log" >&2
    exit 1
}
make B="$1" check-glibc >"$build/check.log" 2>&1 || { tail -n 20 "$build/check.log" >&2; exit 1; }
for library in lib/libwarm-preload.so libexec/warm/libwarm-trace.so; do
    install -D -m 644 -s "$1/$library" "$build/root/warm/$library"
done
rm -f "$build"/*.whl
wheel=$(python3 packaging/wheel.py "$build/root/warm" "$build")
PATH=$venv/bin:$PATH auditwheel show "$wheel" | tr '\n' ' ' | grep -q '"manylinux_2_17_x86_64"' || {
    PATH=$venv/bin:$PATH auditwheel show "$wheel" >&2
    exit 1
}
echo "$wheel"
