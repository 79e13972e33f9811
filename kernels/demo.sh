#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# demo.sh BUILD: measures on real kernels how much time a cache that outlives the process saves.
#
# Starts a private daemon on an empty store. Compiles this folder's kernels for two GPU generations, each
# in a process of its own: cold, then warm, then warm again after a restart of the daemon. Every figure of
# the table is the wall time of such processes in this run, from before the fork to after the exit.
# "identical" is cmp's answer on the files that they wrote. With a GPU it then runs the compiled kernels.
# At the end it trains a model from its StableHLO, on the GPU or else on the CPU.
# A kernel without system-call filters (qemu-user has none) cannot confine NVRTC, and the daemon keeps nothing that it
# makes there. Then nothing is compiled warm, and the script says so.
# Leaves no process and no file behind, also on Ctrl-C.
set -euo pipefail

[ $# = 1 ] || { echo "usage: demo.sh BUILD" >&2; exit 2; }
build=$(realpath "$1")
kernels=$(realpath "$(dirname "$0")")
cuda=$build/toolchain/13.5.37
files="mlp_forward mlp_backward adam flash_attention cub_block"
targets="sm_80 sm_90"
warm_runs=5 # a warm figure is the median of so many processes

work=$(mktemp -d)
daemon=
export WARM_SOCKET=$work/warmd.sock

stop_daemon() {
    [ -n "$daemon" ] || return 0
    kill -TERM "$daemon" 2>/dev/null || true
    for _ in {1..100}; do
        kill -0 "$daemon" 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL "$daemon" 2>/dev/null || true
    wait "$daemon" 2>/dev/null || true
    daemon=
}
trap 'stop_daemon; rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

die() {
    printf '\ndemo: %s\n' "$*" >&2
    [ ! -s "$work/log" ] || tail -n 5 "$work/log" >&2
    exit 1
}

progress() { [ ! -t 2 ] || printf '\r\033[K%s' "$*" >&2; }

start_daemon() {
    : >"$work/log"
    "$build/bin/warmd" --socket "$WARM_SOCKET" --store "$work/store" --nvrtc "$cuda/lib" \
        2>"$work/log" &
    daemon=$!
    for _ in {1..1500}; do # half a minute: a busy or emulated machine starts it slowly
        ! grep -q '^warmd: ready on ' "$work/log" || return 0
        kill -0 "$daemon" 2>/dev/null || break
        sleep 0.02
    done
    die "the daemon did not start"
}

# compile FILE TARGET OUT: one compile in a fresh process. Sets `us` and `outcome`.
compile() {
    local begin=${EPOCHREALTIME/[.,]/} # without the decimal point: microseconds
    "$build/bin/warm" compile "$kernels/$1.cu" --arch "$2" -o "$3" --json \
        -I"$cuda/include-bundled" -I"$cuda/include-bundled/cccl" >"$work/json" 2>"$work/stderr" ||
        die "warm compile $1.cu --arch $2: $(head -n 3 "$work/stderr")"
    us=$((${EPOCHREALTIME/[.,]/} - begin))
    outcome=$(sed -n 's/.*"outcome": *"\([a-z]*\)".*/\1/p' "$work/json")
}

# pass NAME OUTCOME RUNS: compiles every kernel RUNS times. times[NAME.FILE.TARGET] gets the median in
# microseconds. Every compile must end with OUTCOME.
declare -A times
pass() {
    for file in $files; do
        for target in $targets; do
            progress "$1: $file for $target"
            local all=
            for ((i = 0; i < $3; i++)); do
                compile "$file" "$target" "$work/$1.$file.$target.cubin"
                [ "$outcome" = "$2" ] || die "$file for $target: a $outcome where a $2 was expected"
                all+="$us "
            done
            times[$1.$file.$target]=$(tr ' ' '\n' <<<"$all" | sed '/^$/d' | sort -n |
                sed -n "$((($3 + 1) / 2))p")
        done
    done
}

ms() { printf '%d.%02d' $(($1 / 1000)) $(($1 % 1000 / 10)); }

# row FILE TARGET COLD WARM AGAIN BYTES SAME: prints a row of the table. Times are in microseconds.
row() {
    printf '%-20s %-7s %10s %10s %15s %8s %9s  %s\n' "$1" "$2" "$(ms "$3")" "$(ms "$4")" \
        "$(ms "$5")" "$(($3 / $4))x" "$6" "$7"
}

table() {
    local cold_sum=0 warm_sum=0 again_sum=0 bytes_sum=0 all_same=yes
    printf '%-20s %-7s %10s %10s %15s %8s %9s  %s\n' file target 'cold ms' 'warm ms' \
        'restarted ms' ratio bytes identical
    for file in $files; do
        for target in $targets; do
            local name=$file.$target same=yes
            local cold=${times[cold.$name]} warm=${times[warm.$name]} again=${times[again.$name]}
            local bytes
            bytes=$(stat -c %s "$work/cold.$name.cubin")
            cmp -s "$work/cold.$name.cubin" "$work/warm.$name.cubin" &&
                cmp -s "$work/cold.$name.cubin" "$work/again.$name.cubin" || same=no all_same=no
            row "$file.cu" "$target" "$cold" "$warm" "$again" "$bytes" "$same"
            cold_sum=$((cold_sum + cold)) warm_sum=$((warm_sum + warm))
            again_sum=$((again_sum + again)) bytes_sum=$((bytes_sum + bytes))
        done
    done
    row together '' $cold_sum $warm_sum $again_sum $bytes_sum $all_same
    [ $all_same = yes ] || die "what came back is not what was compiled"
}

start_daemon
pass cold miss 1
progress
last=cold
if grep -q 'this kernel has no system-call filters' "$work/log"; then
    echo "demo: compiled ${#times[@]} kernels cold. This kernel has no system-call filters to confine NVRTC with, so the" \
        "daemon kept none of them: warm compiles are skipped" >&2
else
    pass warm hit $warm_runs
    stop_daemon
    start_daemon
    pass again hit $warm_runs
    progress
    table
    last=again
fi

mkdir "$work/run"
for cubin in "$work/$last".*.cubin; do
    mv "$cubin" "$work/run/$(basename "${cubin#"$work/$last."}")"
done
(cd "$work/run" && "$build/bin/warm-kernels" ./*.cubin)
PYTHONPATH=$build/share/warm/python PYTHONDONTWRITEBYTECODE=1 WARM_LIBRARY=$build/lib/libwarm.so \
    python3 "$kernels/examples/train.py"
