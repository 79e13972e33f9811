#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# figures.sh TARGET: runs `make TARGET` and writes its tables into FIGURES.md, between the lines
# `<!-- TARGET -->` and `<!-- end -->`, under a line with date, machine and load.
set -eu
target=$1
file=$(dirname "$0")/FIGURES.md
grep -qx "<!-- $target -->" "$file" || { echo "FIGURES.md has no table of $target" >&2; exit 2; }
new=$(mktemp)
trap 'rm -f "$new" "$new.run"' EXIT
load=$(cut -d ' ' -f 1 /proc/loadavg)
{ ${MAKE:-make} -s "$target" && touch "$new.done"; } </dev/null | tee "$new.run"
[ -e "$new.done" ] || { echo "make $target failed: its table stays" >&2; exit 1; }
rm "$new.done"
{
    echo "On $(date +%F): $(nproc) CPUs, $(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)," \
        "Linux $(uname -r | cut -d - -f 1), load $load before and $(cut -d ' ' -f 1 /proc/loadavg) after."
    # Lines of Markdown stay as they are; the others go into a block. A last table with a head replaces earlier rows.
    awk '
        function block(text) { if (!open) { out = out "\n```console\n"; open = 1 } out = out text "\n" }
        function close_block() { if (open) out = out "```\n"; open = 0 }
        /^\|/ { if (!table) { close_block(); out = out "\n" } table = 1; out = out $0 "\n"; next }
        { table = 0 }
        /^ +median +lowest/ { out = ""; open = 0 }
        /^[A-Z][0-9]+ / && !open { block(sprintf("%-61s %8s  %-16s %s", "", "median", "lowest, highest", "target")) }
        /^ +median +lowest|^[A-Z][0-9]+ |inside a process$|^file +target|\.cu +sm_|^together |MB\/s/ { block($0) }
        END { close_block(); printf "%s", out }' "$new.run"
} >"$new"
[ "$(wc -l <"$new")" -gt 2 ] || { echo "make $target printed no table" >&2; exit 1; }
awk -v start="<!-- $target -->" -v new="$new" '
    $0 == start { print; while ((getline line < new) > 0) print line; skip = 1 }
    $0 == "<!-- end -->" { skip = 0 }
    !skip && $0 != start { print }' "$file" >"$new.run"
cat "$new.run" >"$file"
