#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# venv.sh PINS: prints the folder of a virtual environment with the packages of the file PINS. Makes it
# first if there is none, in the user's cache folder under the digest of PINS. Exit status 3: the package
# index could not be reached.
set -eu
pins=$1
digest=$(sha256sum "$pins" | cut -c1-16)
venv=${XDG_CACHE_HOME:-$HOME/.cache}/warm-venv/$(basename "$pins" .txt)-$digest
if [ ! -e "$venv/complete" ]; then
    mkdir -p "$(dirname "$venv")"
    exec 9>"$venv.lock" # another run may be making it
    flock 9
    if [ ! -e "$venv/complete" ]; then
        rm -rf "$venv"
        python3 -m venv "$venv" >&2
        "$venv/bin/python" -m pip install -q --disable-pip-version-check -r "$pins" \
            >"$venv.log" 2>&1 || {
            tail -n 3 "$venv.log" >&2
            grep -qE 'Failed to establish|Name or service|Temporary failure|timed out|ProxyError' \
                "$venv.log" && exit 3
            exit 1
        }
        touch "$venv/complete"
    fi
fi
echo "$venv"
