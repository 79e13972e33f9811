#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# rpm.sh FOLDER RELEASE…: installs the packages of the folder with dnf in bare Debian roots. It builds a program
# twice with them, upgrades and removes them. Such a root has no package database of RPM, so a package without
# files stands for its glibc and shell. The upgrade is from the same files under an older version. The packages of other
# architectures in the folder are left alone. Needs root. ROOT_ARCH=arm64: on that architecture, under qemu-user if this
# machine has another.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/root.sh"
folder=$1
case ${ROOT_ARCH:-} in arm64) machine=aarch64 ;; *) machine=$(uname -m) ;; esac
shift
command -v dnf >/dev/null || apt-get install -y dnf >/dev/null
work=$(mktemp -d)

# build SPEC OPTION…: RPM packages into $work/SPEC's name
build() {
    spec=$1
    shift
    rpmbuild -bb --target "$machine-linux" --define "_topdir $work/build" --define "_rpmdir $work/$(basename "$spec" .spec)" "$@" "$spec" \
        >"$work/rpmbuild.log" 2>&1 || { cat "$work/rpmbuild.log"; exit 1; }
}
cat >"$work/stub.spec" <<END
Name: stub
Version: 1
Release: 1
Summary: What a Debian root has
License: none
ExclusiveArch: $machine
$(rpm -qp --requires "$folder"/*."$machine.rpm" | grep -E '^(/|ld-linux|lib[a-z]*\.so\.[0-9]|rtld)' | grep -v '^libwarm' | sort -u | sed 's/^/Provides: /')
%description
What a Debian root has.
%files
END
build "$work/stub.spec"
build packaging/warm.spec --define "version 0.0.1" --define "tree $PWD/$folder/root-$machine" --define "documents $PWD"

for release in "$@"; do
    root=$(root_new "$release" g++ pkgconf systemd)
    trap 'root_free "$root"; rm -r "$work"' EXIT
    chmod 755 "$root"
    cp "$here/program.sh" "$root/tmp/"
    dnf_in_root() {
        dnf -y -q --forcearch="$machine" --installroot="$root" --releasever=1 --setopt=reposdir=/nonexistent --setopt=gpgcheck=0 \
            --disableplugin='*' "$@" >"$work/dnf.log" 2>&1 || { cat "$work/dnf.log"; exit 1; }
    }
    cat >"$root/root/files" <<'END'
find / -xdev -path /proc -prune -o -path /tmp -prune -o -path /root -prune -o -path /home -prune -o \
    -path /var/lib/rpm -prune -o -path /var/lib/dnf -prune -o -path /var/cache/dnf -prune -o \
    -path /etc/dnf -prune -o -path /var/log -prune -o -path /var/cache/ldconfig -prune -o -print | sort
END
    root_run "$root" sh -euc '
        useradd -m somebody
        echo /usr/lib64 >/etc/ld.so.conf.d/lib64.conf # as on distributions with RPM
        mkdir -p /usr/lib64/pkgconfig /usr/share/licenses /usr/share/zsh/site-functions /usr/share/fish/vendor_completions.d
        sh /root/files >/root/before'
    dnf_in_root install "$work"/stub/*/*.rpm "$work"/warm/*/*.rpm
    root_run "$root" sh -euc '
        getent passwd warm >/dev/null
        [ -e /etc/warm/warmd.conf ]
        warm --version

        echo "#include <warm.h>
        int main(void) { return !warm_error_name(WARM_ENO_DAEMON); }" >/root/program.c
        cc -o /root/program /root/program.c $(PKG_CONFIG_PATH=/usr/lib64/pkgconfig pkg-config --cflags --libs warm)
        /root/program

        setpriv --reuid somebody --regid somebody --clear-groups env HOME=/home/somebody sh /tmp/program.sh warm
        echo "# changed" >>/etc/warm/warmd.conf'

    # an administrator's settings outlive an upgrade, and a removal
    dnf_in_root install "$folder"/*."$machine.rpm"
    rpm --root "$root" -q warm | grep -v -q '^warm-0\.0\.1'
    grep -q "^# changed" "$root/etc/warm/warmd.conf"
    dnf_in_root remove warm warm-libs warm-devel
    grep -q "^# changed" "$root/etc/warm/warmd.conf.rpmsave"
    root_run "$root" sh -euc '
        rm -r /etc/warm
        sh /root/files >/root/after
        diff /root/before /root/after'
    echo "rpm: $release ($(root_run "$root" ldd --version | sed -n 's/^ldd (\(.*\)) .*/\1/p')): dnf installs and upgrades it, it starts warm, nothing is left"
    root_free "$root"
    trap 'rm -r "$work"' EXIT
done
