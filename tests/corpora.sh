#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# corpora.sh FOLDER WARM…: prints key and SHA-256 of each input of tests/ and kernels/, a line each, as the command WARM makes
# them. Two architectures must print the same. FOLDER: an absent folder, for the graphs that lie many in a file.
set -eu
cd "$(dirname "$0")/.."
folder=$1
shift
mkdir -p "$folder"
awk -v to="$folder/" '/^graph / { close(file); file = to $2 ".mlir"; next } /^[^ }m]/ && !/^module/ { file = "" } file { print >file }' tests/data/jax_graphs.txt
"$@" hash --json "$folder"/*.mlir tests/data/*.mlir tests/data/*.mlirbc tests/data/*.vhlo tests/data/*.hlo \
    kernels/*.cu kernels/examples/*.mlir tests/programs/*.c | sed 's/},{/},\n{/g'
