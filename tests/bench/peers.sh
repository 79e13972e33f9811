#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# peers.sh FOLDER: puts the programs that benchmarks compare us with into FOLDER/usr/bin: redis-server,
# memcached, ccache. It unpacks them from their Debian packages, and installs or starts no service.
set -eu
mkdir -p "$1"
folder=$(cd "$1" && pwd)
[ -x "$folder/usr/bin/ccache" ] && exit 0
work=$folder.new
rm -rf "$work"
mkdir -p "$work/deb"
cd "$work/deb"
libraries="libhiredis0.14 libevent-2.1-7 libsasl2-2 liblzf1 libjemalloc2 libatomic1"
download() {
    apt-get download redis-tools memcached ccache $libraries >apt.log 2>&1
}
# The package lists may be older than the mirror's packages. Only root may update them.
download || { apt-get update >apt.log 2>&1 && download; } || {
    echo "peers.sh: cannot download the peers' packages:" >&2
    tail -n 2 apt.log >&2
    exit 1
}
for deb in ./*.deb; do dpkg-deb -x "$deb" "$work"; done
ln -s redis-check-rdb "$work/usr/bin/redis-server" # one program under two names
cd /
rm -rf "$work/deb" "$folder"
mv "$work" "$folder"
