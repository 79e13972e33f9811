#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# progress.sh LOG TOTAL COMMAND…: runs a make that compiles TOTAL files, with its output in LOG, and says how far it
# is: on a terminal in one line, else in a line for each quarter. Its exit status is that of the command.
set -eu
log=$1 total=$2
shift 2
"$@" >"$log" 2>&1 &
pid=$!
trap 'kill "$pid" 2>/dev/null' HUP INT TERM
said=0

# say DONE
say() {
    [ "$total" -gt 0 ] || return 0
    if [ -t 2 ]; then
        printf '\r\033[Kdemo: compiled %d of %d files' "$1" "$total" >&2
    elif [ "$(($1 * 4 / total))" -gt "$said" ]; then
        said=$(($1 * 4 / total))
        echo "demo: compiled $1 of $total files" >&2
    fi
}

while kill -0 "$pid" 2>/dev/null; do
    say "$(grep -cE '^cc  |-c -o ' "$log" || true)"
    sleep 1
done
[ ! -t 2 ] || printf '\r\033[K' >&2
wait "$pid"
