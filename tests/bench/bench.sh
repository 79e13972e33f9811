#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# bench.sh BUILD [NAME…]: runs the benchmarks, each with the peers it is compared with, in a folder of
# its own that is removed at the end. Prints ratios with their medians and spread.
set -eu
build=$(cd "$1" && pwd)
shift
peers=$build/peers/usr
export LD_LIBRARY_PATH="$peers/lib/$(uname -m)-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
nvrtc=$build/toolchain/13.5.37/lib
folder=$(mktemp -d "${TMPDIR:-/tmp}/warm-bench.XXXXXX")
trap 'rm -rf "$folder"' EXIT INT TERM

echo "$(nproc) CPUs: $(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1), Linux $(uname -r)"
[ $# -gt 0 ] || set -- hit process miss store canon
for name; do
    case $name in
    hit) "$build/bench/hit" "$build/bin/warmd" "$peers/bin/redis-server" "$peers/bin/memcached" "$folder" ;;
    process) "$build/bench/process" "$build/bin/warm" "$build/bin/warmd" "$nvrtc" "$peers/bin/ccache" \
        kernels/mlp_forward.cu "$folder" ;;
    miss) "$build/bench/miss" "$build/libexec/warm/warm-nvrtc" "$build/toolchain/13.5.37" \
        kernels/cub_block.cu "$folder" ;;
    store) "$build/bench/store" "$folder" ;;
    canon) "$build/bench/canon" ;;
    esac
done
