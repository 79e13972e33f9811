# SPDX-License-Identifier: Apache-2.0
"""jax_key.py CANON: compares JAX's own key of a module with ours, on the same modules, in one run.

CANON is the benchmark program `canon` (canon.c). Needs jax; the CPU is enough. For each depth of a
network's training step it prints three figures: the time of jax's cache_key.get, the time of our key of
the module's text, and their ratio. The times are medians of rounds in turns, because a processor with
other load changes its speed."""
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault('JAX_PLATFORMS', 'cpu')
import jax
import jax.numpy as jnp
import numpy as np
from jax._src import cache_key, compiler, xla_bridge


def step(params, x, y):
    def loss(p):
        h = x
        for w, b in p:
            h = jax.nn.relu(h @ w + b)
        return ((h - y) ** 2).mean()
    return jax.tree.map(lambda p, g: p - 0.03 * g, params, jax.grad(loss)(params))


ROUNDS = 15


def jax_seconds(module, rounds=9):
    backend = xla_bridge.get_backend()
    options = compiler.get_compile_options(num_replicas=1, num_partitions=1)
    devices = np.array(jax.devices()[:1])
    times = []
    for _ in range(rounds):
        start = time.thread_time()
        cache_key.get(module, devices, options, backend)
        times.append(time.thread_time() - start)
    return statistics.median(times)


def our_seconds(canon, path):
    line = subprocess.run([canon, '--ms', '200', path], capture_output=True, text=True, check=True).stdout
    return float(re.search(r'([\d.]+) ms', line).group(1)) / 1e3


def main(canon):
    with tempfile.TemporaryDirectory() as folder:
        for depth in (3, 16, 64, 128):
            params = [(jnp.ones((64, 64)), jnp.ones(64)) for _ in range(depth)]
            lowered = jax.jit(step).lower(params, jnp.ones((32, 64)), jnp.ones((32, 64)))
            path = os.path.join(folder, f'{depth}.mlir')
            with open(path, 'w') as f:
                f.write(lowered.as_text())
            times = [(jax_seconds(lowered.compiler_ir()), our_seconds(canon, path))
                     for _ in range(ROUNDS)]
            theirs, ours = (statistics.median(t) * 1e3 for t in zip(*times))
            ratio = statistics.median(t / o for t, o in times)
            print(f'{depth:4d} layers {os.path.getsize(path):9d} B  jax {theirs:8.2f} ms  '
                  f'warm {ours:8.2f} ms  {ratio:6.1f} x')


if __name__ == '__main__':
    main(sys.argv[1])
