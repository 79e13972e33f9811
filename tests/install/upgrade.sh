#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# upgrade.sh PREVIOUS BUILD [FORM…]: installs older packages from the folder PREVIOUS in a bare Debian root, and those
# of BUILD over them, while a daemon runs, its store is in use and a program is in the middle of a compile. Then it
# goes back. FORM: deb, wheel, rpm; all if none is named. Needs root. ROOT_ARCH=arm64: on that architecture, under
# qemu-user if this machine has another.
#
#     the running program ends right, with the same bytes as before
#     the new daemon has all entries; so has the old one after it, or its log says what was set aside
#     no file is left in the end
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/root.sh"
previous=$1 build=$2
shift 2
release=bookworm
arch=${ROOT_ARCH:-$(dpkg --print-architecture)}
case $arch in arm64) machine=aarch64 ;; *) machine=$(uname -m) ;; esac

# What a user does meanwhile. Files in /tmp/steps say how far each side is.
life() {
    cat <<'END'
set -eu
warm=$1
cd
step() { touch "/tmp/steps/$1"; }
await() { until [ -e "/tmp/steps/$1" ]; do sleep 0.2; done; }
keys() { $warm ls --all --json | grep -oE '"key": ?"[0-9a-f]+"' | sort >"$1"; }
all_there() { # KEYS: the daemon has all of these
    keys now
    [ -z "$(comm -23 "$1" now)" ] || { echo "entries are gone:"; comm -23 "$1" now; return 1; }
}
restart() { # the daemon has the version of the command afterwards
    $warm daemon restart >/dev/null || $warm daemon start >/dev/null # a busy machine starts it too slowly for the first
    $warm ping | grep -qF "warmd $($warm --version | sed 's/warm //')," || { $warm ping; exit 1; }
}
printf '#include <iostream>\n#include <regex>\nint main() { std::cout << std::regex_match("a", std::regex("[a-z]")) << N; }\n' >words.cc
head -c 100000 /dev/urandom >value
cat >program.sh <<'PROGRAM'
set -eu
n=1
until [ -e /tmp/steps/upgraded ]; do
    g++ -DN=$n -O2 -c words.cc -o other.o
    touch /tmp/steps/compiling
    n=$((n + 1))
done
g++ -DN=0 -O2 -c words.cc -o last.o
cmp first.o last.o
PROGRAM
$warm run g++ -DN=0 -O2 -c words.cc -o first.o
$warm put kept value
keys before
[ "$(wc -l <before)" -gt 1 ] || { echo "the store has nothing:"; $warm ls --all; exit 1; }
$warm --version
$warm run sh program.sh 2>program.txt &
program=$!
await compiling
step begun
await upgraded
wait $program || { cat program.txt; echo "the running program failed"; exit 1; }
$warm --version
restart
all_there before
$warm get kept -o got
cmp value got
$warm run g++ -DN=0 -O2 -c words.cc -o after.o
cmp first.o after.o
keys upgraded
$warm daemon stop >/dev/null
step to_downgrade
await downgraded
$warm --version
$warm run g++ -DN=0 -O2 -c words.cc -o back.o
cmp first.o back.o
all_there before || { $warm daemon log | grep "set aside"; }
$warm daemon stop >/dev/null
END
}

files='find / -xdev -path /proc -prune -o -path /tmp -prune -o -path /root -prune -o -path /home -prune -o -path "/var/lib/*" -prune -o \
    -path "/var/cache/*" -prune -o -path /var/log -prune -o -path /etc/dnf -prune -o -path "*/__pycache__" -prune -o -not -type d -print | sort'

# try WARM: a life in $root, with install_old, install_new, install_old and remove_all
try() {
    mkdir -p "$root/tmp/steps"
    chmod 777 "$root/tmp/steps"
    life >"$root/tmp/life.sh"
    root_run "$root" useradd -m somebody
    root_run "$root" sh -c "$files" >"$work/before"
    install_old
    root_run "$root" setpriv --reuid somebody --regid somebody --clear-groups env HOME=/home/somebody sh /tmp/life.sh "$1" &
    life=$!
    await begun
    install_new
    touch "$root/tmp/steps/upgraded"
    await to_downgrade
    install_old
    touch "$root/tmp/steps/downgraded"
    wait $life
    remove_all
    root_run "$root" sh -c "$files" >"$work/after"
    diff "$work/before" "$work/after"
}
await() {
    until [ -e "$root/tmp/steps/$1" ]; do
        kill -0 $life 2>/dev/null || exit 1
        sleep 0.2
    done
}

try_deb() {
    apt='export DEBIAN_FRONTEND=noninteractive; apt() { apt-get -qq -y --allow-downgrades "$@" >/root/apt.log 2>&1 || { cat /root/apt.log; exit 1; }; }; apt'
    mkdir "$root/root/old" "$root/root/new"
    cp "$previous"/*_"$arch".deb "$root/root/old/"
    cp "$build"/deb/*_"$arch".deb "$root/root/new/"
    root_run "$root" apt-get -qq update
    install_old() { root_run "$root" sh -c "$apt install /root/old/*.deb"; }
    install_new() { root_run "$root" sh -c "$apt install /root/new/*.deb"; }
    remove_all() { root_run "$root" sh -c "$apt purge warm libwarm0 libwarm-dev; apt -o APT::AutoRemove::RecommendsImportant=false -o APT::AutoRemove::SuggestsImportant=false autoremove --purge"; }
    try warm
}

try_wheel() {
    mkdir "$root/opt/old" "$root/opt/new"
    cp "$previous"/*"$machine.whl" "$root/opt/old/"
    cp "$build"/wheel/*"$machine.whl" "$root/opt/new/"
    root_run "$root" python3 -m venv /opt/venv
    pip() { root_run "$root" sh -c "/opt/venv/bin/pip $*"; }
    install_old() { pip install -q --no-index --force-reinstall /opt/old/*.whl; }
    install_new() { pip install -q --no-index --upgrade /opt/new/*.whl; }
    remove_all() { pip uninstall -q -y warm-cache; }
    try /opt/venv/bin/warm
}

try_rpm() {
    in_root() {
        dnf -y -q --forcearch="$machine" --installroot="$root" --releasever=1 --setopt=reposdir=/nonexistent --setopt=gpgcheck=0 --disableplugin='*' "$@" \
            >"$work/dnf.log" 2>&1 || { cat "$work/dnf.log"; exit 1; }
    }
    command -v dnf >/dev/null || apt-get install -y dnf >/dev/null
    cat >"$work/stub.spec" <<END
Name: stub
Version: 1
Release: 1
Summary: What a Debian root has
License: none
BuildArch: noarch
$(rpm -qp --requires "$previous"/*."$machine.rpm" "$build"/rpm/*."$machine.rpm" | grep -E '^(/|ld-linux|lib[a-z]*\.so\.[0-9]|rtld)' | grep -v '^libwarm' | sort -u | sed 's/^/Provides: /')
%description
What a Debian root has.
%files
END
    rpmbuild -bb --define "_topdir $work/build" --define "_rpmdir $work/stub" "$work/stub.spec" >"$work/rpmbuild.log" 2>&1 || { cat "$work/rpmbuild.log"; exit 1; }
    root_run "$root" sh -c 'mkdir -p /usr/lib64/pkgconfig /usr/share/licenses /usr/share/zsh/site-functions /usr/share/fish/vendor_completions.d
        echo /usr/lib64 >/etc/ld.so.conf.d/lib64.conf'
    in_root install "$work"/stub/*/*.rpm
    install_old() { in_root install "$previous"/*."$machine.rpm" || in_root downgrade "$previous"/*."$machine.rpm"; }
    install_new() { in_root upgrade "$build"/rpm/*."$machine.rpm"; }
    remove_all() { in_root remove warm warm-libs warm-devel; rm -rf "$root/etc/warm"; }
    try warm
}

work=$(mktemp -d)
for form in ${*:-deb wheel rpm}; do
    root=$(root_new "$release" g++ pkgconf systemd python3 python3-venv)
    trap 'root_free "$root"; rm -rf "$work"' EXIT
    chmod 755 "$root"
    "try_$form"
    echo "upgrade: $form: from $previous and back: the program in the middle ended right, all entries are there, nothing is left"
    root_free "$root"
    trap 'rm -rf "$work"' EXIT
done
