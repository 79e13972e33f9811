# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
#
# root.sh - bare Debian roots. The scripts beside it source it, as root, and get:
#   root_new RELEASE PACKAGE…   makes a root of that release in a fresh folder, and prints the folder
#   root_run ROOT COMMAND…      runs a command in it, with a clean environment, and kills the processes
#                               that the command leaves behind
#   root_free ROOT              removes it
# Roots are kept as archives in $ROOTS (default: build/roots), so that only the first use downloads.

ROOTS=${ROOTS:-build/roots}

root_mirror() {
    cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
        sed -n 's/^URIs: *\([^ ]*\).*/\1/p; s/^deb .*\(http[^ ]*\) .*/\1/p' | head -n 1
}

root_new() {
    release=$1
    shift
    command -v debootstrap >/dev/null || apt-get install -y debootstrap >/dev/null
    mkdir -p "$ROOTS"
    root=$(mktemp -d /var/tmp/warm-root.XXXXXX)
    archive=$ROOTS/$release-${ROOT_ARCH:-}$(echo "$*" | cksum | cut -d' ' -f1).tar
    if [ ! -f "$archive" ]; then
        include=$(echo "ca-certificates $*" | tr ' ' ',')
        debootstrap ${ROOT_ARCH:+--arch="$ROOT_ARCH"} --variant=minbase --include="$include" "$release" "$root" "$(root_mirror)" \
            >"$ROOTS/$release.log" 2>&1 || {
            tail -n 3 "$ROOTS/$release.log" >&2
            rm -rf "$root"
            return 1
        }
        tar -C "$root" -cf "$archive" .
    else
        tar -C "$root" -xf "$archive"
    fi
    mount -t tmpfs tmpfs "$root/tmp"
    mknod -m 666 "$root/dev/null" c 1 3 2>/dev/null || true
    echo "$root"
}

# The first process of a PID namespace gets all orphans. A shell reaps them; Criterion waits for them forever.
# G_SLICE: without it, qemu-user before 8.0 hangs where a program with threads forks.
root_run() {
    root=$1
    shift
    env -i G_SLICE=always-malloc HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
        unshare --pid --fork --kill-child --mount-proc="$root/proc" chroot "$root" sh -c '"$@" || exit' sh "$@"
}

root_free() {
    umount "$1/tmp"
    rm -rf --one-file-system "$1"
}
