#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# prefix.sh RELEASE…: builds the tree in bare Debian roots as a user who is not root, and installs it with
# PREFIX=~/.local. Then it builds a program twice with it, and uninstalls it. No file may be left. Needs root.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/root.sh"
packages=$(sed -n 's/^PACKAGES_BUILD = //p' setup.mk)
for release in "$@"; do
    # shellcheck disable=SC2086 # a list of words
    root=$(root_new "$release" make g++ python3 $packages)
    trap 'root_free "$root"' EXIT
    chmod 755 "$root"
    mkdir "$root/home/tree"
    git ls-files -z | xargs -0 cp --parents -t "$root/home/tree"
    root_run "$root" sh -euc '
        useradd -m somebody
        chown -R somebody /home/tree
        cat >/home/install.sh <<END
set -eu
cd /home/tree
SETUP=no make -j2 install PREFIX=~/.local >/tmp/make.log 2>&1 || { tail -n 20 /tmp/make.log; exit 1; }
sh tests/install/program.sh ~/.local/bin/warm
PYTHONPATH=~/.local/share/warm/python python3 -c "import warm.graph"
SETUP=no make uninstall PREFIX=~/.local >/dev/null
find ~/.local -not -type d -o -name warm
END
        left=$(setpriv --reuid somebody --regid somebody --clear-groups env HOME=/home/somebody sh /home/install.sh | tee /dev/stderr | grep ^/ || true)
        [ -z "$left" ] || { echo "left: $left"; exit 1; }'
    echo "prefix: $release: installs without root, starts warm, leaves nothing"
    root_free "$root"
    trap - EXIT
done
