#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# torch.sh BUILD [ROW…]: times the start of PyTorch and Triton, without the cache and with it.
# time_torch.py prints the table. A ROW is a word of a row's name.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
clients=$here/../clients
build=$(cd "$1" && pwd)
shift
torch=$("$clients/venv.sh" "$clients/torch.txt")
triton=$("$clients/venv.sh" "$clients/triton.txt")
export WARM_BUILD="$build" PYTHONPATH="$clients" PYTHONDONTWRITEBYTECODE=1
exec "$torch/bin/python" "$here/time_torch.py" --torch "$torch/bin/python" \
    --triton "$triton/bin/python" "$@"
