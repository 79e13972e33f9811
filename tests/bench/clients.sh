#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# clients.sh BUILD: times hits inside a process, beside a raw ping-pong (preload.c). Then it times
# whole programs: without warm, cold, warm, and with their own cache (time_clients.py). The programs are
# those of `make test-clients CLIENTS="nvrtc nvrtc12 tools"`, in the same environments.
# BENCH_ROUNDS=N: medians of N rounds instead of 5.
set -eu
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")/../clients" && pwd)
bench=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d "${TMPDIR:-/tmp}/warm-bench.XXXXXX")
trap 'rm -rf "$folder"' EXIT INT TERM

echo "$(nproc) CPUs: $(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1), Linux $(uname -r)"
python_of() { # GROUP: its interpreter
    echo "$("$here/venv.sh" "$here/$1.txt")/bin/python"
}
places() { # GROUP: sets packages, lib, includes
    packages=$(echo "$("$here/venv.sh" "$here/$1.txt")"/lib/python3*/site-packages)
    case $1 in
    nvrtc) nvidia=$packages/nvidia/cu13 lib=$nvidia/lib/libnvrtc.so.13
        includes="-I$nvidia/include -I$nvidia/include/cccl" ;;
    *) nvidia=$packages/nvidia lib=$nvidia/cuda_nvrtc/lib/libnvrtc.so.12
        includes="-I$nvidia/cuda_runtime/include -I$nvidia/cuda_cccl/include" ;;
    esac
}
whole() { # INTERPRETER'S-GROUP ARGUMENT…
    python=$(python_of "$1")
    shift
    WARM_BUILD=$build PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1 \
        "$python" "$bench/time_clients.py" "$@"
}

for group in nvrtc nvrtc12; do
    places $group
    echo
    echo "$(basename "$lib"), inside a process"
    mkdir "$folder/$group"
    "$build/bench/preload" "$build/bin/warmd" "$build/lib/libwarm-preload.so" "$lib" \
        "$folder/$group" "-I$packages/cupy/_core/include" $includes
done

echo
whole nvrtc head
for group in nvrtc nvrtc12; do
    places $group
    whole $group $group "$lib"
done
whole tools tools
