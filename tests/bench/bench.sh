#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# bench.sh BUILD [NAME…]: runs the benchmarks, each with the peers that it is compared with, in a folder
# of its own that is removed at the end. Ends with a table. A row has the median of a figure over the
# rounds, the lowest and the highest round, and the target. A line for each missed target follows.
# Missing peers are left out. Ratios are of the same round of the same run.
set -eu
build=$(cd "$1" && pwd)
shift
peers=$build/peers/usr
export LD_LIBRARY_PATH="$peers/lib/$(uname -m)-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
nvrtc=$build/toolchain/13.5.37
folder=$(mktemp -d "${TMPDIR:-/tmp}/warm-bench.XXXXXX")
memory=$folder
trap 'rm -rf "$folder" "$memory"' EXIT INT TERM
if [ "$(df -Pk /dev/shm 2>/dev/null | awk 'END { print $4 }')" -gt 4000000 ] 2>/dev/null; then
    memory=$(mktemp -d /dev/shm/warm-bench.XXXXXX)
fi
export BENCH_ROWS="$folder/rows"
: >"$BENCH_ROWS"

echo "$(nproc) CPUs: $(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1), Linux $(uname -r)," \
    "load $(cut -d ' ' -f 1 /proc/loadavg)"
[ $# -gt 0 ] || set -- hit process miss load store
failed=
for name; do
    echo
    mkdir "$folder/$name"
    case $name in
    hit) set -- "$build/bin/warmd" "$peers/bin/redis-server" "$peers/bin/memcached" ;;
    process) set -- "$build/bin/warm" "$build/bin/warmd" "$nvrtc/lib" "$peers/bin/ccache" \
        kernels/mlp_forward.cu ;;
    tier) set -- "$build/bin/warmd" "$build/bin/warm" "$(command -v redis-server)" \
        "$build/bench/send_times.so" ;;
    load) set -- "$build/bin/warmd" "$nvrtc/lib" ;;
    miss) set -- "$build/libexec/warm/warm-nvrtc" "$nvrtc" kernels/cub_block.cu ;;
    *) set -- ;;
    esac
    case $name in
    store) # each part in a new process: opening a store forks, which costs a large process more
        "$build/bench/store" "$folder/store" "$memory" put &&
            "$build/bench/store" "$folder/store" "$memory" churn &&
            "$build/bench/store" "$folder/store" "$memory" start ;;
    miss) "$build/bench/miss" "$@" ;;
    *) "$build/bench/$name" "$@" "$folder/$name" ;;
    esac || failed="$failed $name"
    rm -rf "${folder:?}/$name"
done

printf '\n%-4s %-56s %8s  %-16s %s\n' "" "" median "lowest, highest" target
cat "$BENCH_ROWS"
echo
sed -n 's/^\(P[0-9]*\) *\(.*[^ ]\)  *\([0-9.-]*\)  [0-9.-]* to [0-9.-]* *\([<>]= [0-9.]*\) *MISSED$/missed: \1 \2: \3, target \4/p' \
    "$BENCH_ROWS"
if grep -q 'MISSED$' "$BENCH_ROWS"; then
    echo "$(grep -c 'reached$' "$BENCH_ROWS") targets reached, $(grep -c 'MISSED$' "$BENCH_ROWS") missed"
else
    echo "all $(grep -c 'reached$' "$BENCH_ROWS") targets reached"
fi
[ -z "$failed" ] || { echo "did not run to the end:$failed"; exit 1; }
