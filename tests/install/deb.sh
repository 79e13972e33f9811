#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# deb.sh FOLDER RELEASE…: installs the packages of the folder with apt-get in bare Debian roots, so the index
# of the release decides which packages they need. It builds a program twice with them, as a user of the
# system's socket, upgrades, removes and purges them. The upgrade is from the same files under an older
# version. Only the user `warm` may be left. The packages of other architectures in the folder are left alone. Needs root.
# ROOT_ARCH=arm64: on that architecture, under qemu-user if this machine has another.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/root.sh"
folder=$1
shift
for release in "$@"; do
    root=$(root_new "$release" g++ pkgconf systemd)
    trap 'root_free "$root"' EXIT
    chmod 755 "$root"
    mkdir "$root/root/new" "$root/root/old"
    cp "$folder"/*_"${ROOT_ARCH:-$(dpkg --print-architecture)}.deb" "$root/root/new/"
    cp "$here/program.sh" "$root/tmp/"
    root_run "$root" sh -euc '
        export DEBIAN_FRONTEND=noninteractive
        files() {
            find / -xdev -path /proc -prune -o -path /tmp -prune -o -path /root -prune -o \
                -path /var/lib/dpkg -prune -o -path /var/lib/apt -prune -o -path /var/cache/apt -prune -o \
                -path /var/cache/debconf -prune -o -path /var/log -prune -o -path /var/cache/ldconfig -prune -o \
                -print | sort
        }
        apt() { apt-get -qq -y "$@" >/root/apt.log 2>&1 || { cat /root/apt.log; exit 1; }; }
        older() { # PACKAGE: the same under version 0.0.1
            dpkg-deb -R "$1" /root/unpacked
            sed -i "s/^Version: .*/Version: 0.0.1/; s/(= [^)]*)/(= 0.0.1)/" /root/unpacked/DEBIAN/control
            dpkg-deb -b /root/unpacked /root/old >/dev/null
            rm -r /root/unpacked
        }
        for package in /root/new/*.deb; do older "$package"; done
        useradd somebody
        apt update
        files >/root/before
        apt install /root/old/*.deb
        [ -L /etc/systemd/system/sockets.target.wants/warmd.socket ]
        [ -L /etc/systemd/system/sockets.target.wants/warmd-admin.socket ]
        getent passwd warm >/dev/null
        [ -e /etc/warm/warmd.conf ]
        ldconfig -p | grep -q "libcurl\.so\.4" # without it, warm-tier reaches no https://

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

        # an administrator'\''s choices and the store outlive an upgrade
        echo "# changed" >>/etc/warm/warmd.conf
        systemctl disable warmd.socket >/dev/null 2>&1
        apt install /root/new/*.deb
        [ "$(dpkg-query -W -f "\${Version}" warm)" != 0.0.1 ]
        grep -q "^# changed" /etc/warm/warmd.conf
        [ ! -L /etc/systemd/system/sockets.target.wants/warmd.socket ]
        [ -e /var/cache/warm/index/data.mdb ]

        apt remove warm libwarm-dev libwarm0
        [ ! -e /usr/bin/warm ] && [ -d /var/cache/warm ] && [ -e /etc/warm/warmd.conf ]
        apt purge warm
        # what base packages only suggest goes, too
        apt -o APT::AutoRemove::RecommendsImportant=false -o APT::AutoRemove::SuggestsImportant=false autoremove --purge
        files >/root/after
        diff /root/before /root/after'
    echo "deb: $release: installs, starts warm, is upgraded, leaves nothing"
    root_free "$root"
    trap - EXIT
done
