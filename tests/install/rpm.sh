#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# rpm.sh FOLDER RELEASE…: installs the packages of the folder with rpm in bare Debian roots, and builds a
# program twice with them. Then it upgrades and removes them. rpm knows no package of such a root, so it must
# not look at dependencies. packaging/rpm.sh has compared those with glibc's. Needs root.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/root.sh"
folder=$1
shift
for release in "$@"; do
    root=$(root_new "$release" g++ pkgconf systemd rpm)
    trap 'root_free "$root"' EXIT
    chmod 755 "$root"
    cp "$folder"/*.rpm "$root/root/"
    cp "$here/program.sh" "$root/tmp/"
    root_run "$root" sh -euc '
        files() {
            find / -xdev -path /proc -prune -o -path /tmp -prune -o -path /root -prune -o \
                -path /home -prune -o -path /var/lib/rpm -prune -o -path /var/log -prune -o -path /var/cache/ldconfig -prune -o -print | sort
        }
        useradd -m somebody
        rpm --initdb
        systemd-sysusers --version >/dev/null
        echo /usr/lib64 >/etc/ld.so.conf.d/lib64.conf # as on distributions with RPM
        mkdir -p /usr/lib64/pkgconfig /usr/share/licenses /usr/share/zsh/site-functions /usr/share/fish/vendor_completions.d
        files >/root/before
        rpm -i --nodeps /root/*.rpm
        getent passwd warm >/dev/null
        [ -e /etc/warm/warmd.conf ]
        warm --version

        echo "#include <warm.h>
        int main(void) { return !warm_error_name(WARM_ENO_DAEMON); }" >/root/program.c
        cc -o /root/program /root/program.c $(PKG_CONFIG_PATH=/usr/lib64/pkgconfig pkg-config --cflags --libs warm)
        /root/program

        setpriv --reuid somebody --regid somebody --clear-groups env HOME=/home/somebody sh /tmp/program.sh warm

        # an administrator'\''s settings outlive an upgrade, and a removal
        echo "# changed" >>/etc/warm/warmd.conf
        rpm -U --nodeps --force /root/*.rpm
        grep -q "^# changed" /etc/warm/warmd.conf
        rpm -e --nodeps warm warm-libs warm-devel 2>/dev/null
        grep -q "^# changed" /etc/warm/warmd.conf.rpmsave
        rm -r /etc/warm
        files >/root/after
        diff /root/before /root/after'
    echo "rpm: $release ($(root_run "$root" ldd --version | sed -n 's/^ldd (\(.*\)) .*/\1/p')): installs, starts warm, is upgraded, leaves nothing"
    root_free "$root"
    trap - EXIT
done
