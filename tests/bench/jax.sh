#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# jax.sh BUILD [ROW…]: times the start of JAX programs: runs time_jax.py, with the packages that
# tests/clients/jax.txt pins. $ROUNDS: processes for each figure (3). $TOGETHER: processes at once (8; 0:
# not measured). CLOCK=cpu: counts CPU time of all threads, for a machine with other load.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$1
shift
exec "$here/python.sh" "$build" "$here/../clients/jax.txt" time_jax "${ROUNDS:-3}" "${CLOCK:-wall}" "$@"
