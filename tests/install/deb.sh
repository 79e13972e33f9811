#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# deb.sh FOLDER RELEASE…: installs the packages of the folder in bare Debian roots, and builds a program
# twice with them, as a user of the system's socket. Then it installs them anew, removes and purges them.
# Only the user `warm` may be left. Needs root.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/root.sh"
folder=$1
shift
for release in "$@"; do
    case $release in bookworm) libraries="libuv1 libcurl4" ;; *) libraries="libuv1t64 libcurl4t64" ;; esac
    # shellcheck disable=SC2086
    root=$(root_new "$release" g++ pkgconf systemd $libraries liblmdb0)
    trap 'root_free "$root"' EXIT
    chmod 755 "$root"
    cp "$folder"/*.deb "$root/root/"
    cp "$here/program.sh" "$root/tmp/"
    root_run "$root" sh -euc '
        packages="/root/warm_*.deb /root/libwarm0_*.deb /root/libwarm-dev_*.deb"
        files() {
            find / -xdev -path /proc -prune -o -path /tmp -prune -o -path /root -prune -o \
                -path /var/lib/dpkg -prune -o -path /var/log -prune -o -path /var/cache/ldconfig -prune -o -print | sort
        }
        useradd somebody
        files >/root/before
        dpkg -i $packages >/dev/null
        [ -L /etc/systemd/system/sockets.target.wants/warmd.socket ]
        [ -L /etc/systemd/system/sockets.target.wants/warmd-admin.socket ]
        getent passwd warm >/dev/null
        [ -e /etc/warm/warmd.conf ]

        # a program with the library
        echo "#include <warm.h>
        int main(void) { return !warm_error_name(WARM_ENO_DAEMON); }" >/root/program.c
        cc -o /root/program /root/program.c $(pkg-config --cflags --libs warm)
        /root/program

        # as the unit starts it: the socket is root'\''s, the daemon is the user `warm`
        systemd-tmpfiles --create warm.conf
        systemd-socket-activate -l /run/warm/warmd.sock setpriv --reuid warm --regid warm --clear-groups \
            warmd --config /etc/warm/warmd.conf 2>/root/daemon.log &
        daemon=$!
        for try in 1 2 3 4 5 6 7 8 9 10; do [ -S /run/warm/warmd.sock ] && break; sleep 0.5; done
        chmod 666 /run/warm/warmd.sock
        setpriv --reuid somebody --regid somebody --clear-groups env HOME=/tmp sh /tmp/program.sh warm
        warm ping
        [ "$(stat -c %U /var/cache/warm/index/data.mdb)" = warm ]
        kill $daemon
        wait $daemon || true

        # an administrator'\''s choices outlive an upgrade
        echo "# changed" >>/etc/warm/warmd.conf
        systemctl disable warmd.socket >/dev/null 2>&1
        dpkg -i $packages >/dev/null
        grep -q "^# changed" /etc/warm/warmd.conf
        [ ! -L /etc/systemd/system/sockets.target.wants/warmd.socket ]

        dpkg -r warm libwarm-dev libwarm0 >/dev/null 2>&1
        [ ! -e /usr/bin/warm ] && [ -d /var/cache/warm ] && [ -e /etc/warm/warmd.conf ]
        dpkg -P warm libwarm-dev libwarm0 >/dev/null 2>&1
        files >/root/after
        diff /root/before /root/after'
    echo "deb: $release: installs, starts warm, is installed anew, leaves nothing"
    root_free "$root"
    trap - EXIT
done
