#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# graph.sh BUILD: times the compiles of graphs: runs graph.c with a daemon on a store of its own.
# $BENCH_ROUNDS: rounds, 5 at most; $JOBS: compiles at a time (as many as there are CPUs).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
work=$(mktemp -d)
daemon=
jobs=${JOBS:-$(nproc)}
trap '[ -z "$daemon" ] || kill "$daemon"; wait; rm -rf "$work"' EXIT
"$build/bin/warmd" --config "" --socket "$work/warmd.sock" --store "$work/store" --jobs "$jobs" \
    --nvrtc "$build/toolchain/13.5.37/lib" 2>"$work/log" &
daemon=$!
tries=0
until grep -q '^warmd: ready on ' "$work/log"; do
    tries=$((tries + 1))
    [ $tries -lt 500 ] && kill -0 "$daemon" || { cat "$work/log" >&2; exit 1; }
    sleep 0.02
done
"$build/bench/graph" "$work/warmd.sock" "$daemon" "$here/../../kernels/examples" "$here/../data/jax_large.txt" "$jobs"
