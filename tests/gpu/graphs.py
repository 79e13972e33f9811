# SPDX-License-Identifier: Apache-2.0
"""Graphs of JAX through `warm compile` and `warm exec`, beside JAX's own jit: the largest error, and the time of
one run by each.

    python graphs.py WARM ARCH      WARM is the program; the daemon is that of WARM_SOCKET
"""

import json
import os
import subprocess
import sys
import tempfile
import time

import device

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # warm-exec needs memory beside JAX
jax = device.wanted("jax")
import jax.numpy as jnp
import numpy

WARM, ARCH = sys.argv[1:3]
REPEAT = 100
ERROR_MAX = 1e-3  # relative to the largest number of a result; sums of millions have it, too


def perceptron(w1, b1, w2, b2, x):
    return jnp.tanh(x @ w1 + b1) @ w2 + b2


def loss(w1, b1, w2, b2, x, y):
    return jnp.mean((perceptron(w1, b1, w2, b2, x) - y) ** 2)


def attention(q, k, v):
    s = jnp.einsum("bhqd,bhkd->bhqk", q, k) / 8.0
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(s), v)


def layer_norm(x, w, b):
    d = x - x.mean(-1, keepdims=True)
    return d / jnp.sqrt((d * d).mean(-1, keepdims=True) + 1e-5) * w + b


def adam(p, m, v, g):
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), m, v


def chain(w, x):
    return jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, w)[0]


MLP = [(256, 512), (512,), (512, 256), (256,), (128, 256)]
GRAPHS = {  # name: function, shapes of its arguments
    "mean of 4.2 M": (lambda x: jnp.mean(x), [(2048, 2048)]),
    "mse of 4.2 M": (lambda x, y: jnp.mean((x - y) ** 2), [(2048, 2048)] * 2),
    "sum of rows": (lambda x: x.sum(1), [(4096, 1024)]),
    "sum of columns": (lambda x: x.sum(0), [(4096, 1024)]),
    "softmax": (lambda x: jax.nn.softmax(x), [(1024, 1024)]),
    "layer norm": (layer_norm, [(2048, 768), (768,), (768,)]),
    "gelu": (lambda x: jax.nn.gelu(x), [(2048, 2048)]),
    "transpose and add": (lambda x, y: x.T + y, [(1024, 2048), (2048, 1024)]),
    "product 1024": (lambda x, y: x @ y, [(1024, 1024)] * 2),
    "products of a batch": (lambda x, y: x @ y, [(16, 256, 128), (16, 128, 256)]),
    "perceptron": (perceptron, MLP),
    "gradient of a perceptron": (lambda *a: jax.grad(loss, argnums=(0, 1, 2, 3))(*a), [*MLP, (128, 256)]),
    "attention": (attention, [(4, 8, 128, 64)] * 3),
    "adam": (adam, [(1 << 20,)] * 4),
    "scan of 16 layers": (chain, [(16, 128, 128), (64, 128)]),
}  # fmt: skip


def run(*arguments):
    return subprocess.run([WARM, *arguments], capture_output=True, text=True, timeout=120)


def time_of_jax(compiled, inputs):
    """Returns the mean milliseconds of a run, without transfers."""
    inputs = [jnp.asarray(x) for x in inputs]
    jax.block_until_ready(compiled(*inputs))
    began = time.perf_counter()
    for _ in range(REPEAT):
        out = compiled(*inputs)
    jax.block_until_ready(out)
    return 1000 * (time.perf_counter() - began) / REPEAT


def largest_error(is_, want):
    worst = 0.0
    for a, b in zip(is_, want):
        a, b = numpy.asarray(a, "f8"), numpy.asarray(b, "f8")
        if a.shape != b.shape or not numpy.isfinite(a).all():
            return float("inf")
        worst = max(worst, float(numpy.abs(a - b).max() / (numpy.abs(b).max() + 1e-30)))
    return worst


def look_at(folder, name, function, shapes):
    """Returns the row of a graph: {"refused": why} if `warm compile` does not take it."""
    random = numpy.random.default_rng(len(name))
    inputs = [(random.standard_normal(s) * 0.3).astype("f4") for s in shapes]
    if name == "adam":
        inputs[2] = numpy.abs(inputs[2])  # a second moment
    lowered = jax.jit(function).lower(*inputs)
    paths = [os.path.join(folder, f"in{i}.npy") for i in range(len(inputs))]
    for path, x in zip(paths, inputs):
        numpy.save(path, x)
    module, bundle, out = (os.path.join(folder, n) for n in ("graph.mlir", "graph.bundle", "out"))
    with open(module, "w") as f:
        f.write(lowered.as_text())
    made = run("compile", module, "--arch", ARCH, "-o", bundle, "--json")
    if made.returncode:
        return {"refused": made.stderr.strip()[:200]}
    row = {"kernels": json.loads(made.stdout)["kernels"]}
    ran = run("exec", bundle, *paths, "-o", out, "--json", "--repeat", str(REPEAT))
    if ran.returncode:
        return {**row, "failed": ran.stderr.strip()[:200]}
    compiled = lowered.compile()
    want = jax.tree.leaves(compiled(*inputs))
    row["ms"] = json.loads(ran.stdout)["each_ms"]
    row["error"] = largest_error([numpy.load(os.path.join(out, f"{i}.npy")) for i in range(len(want))], want)
    if device.COMPUTES and jax.default_backend() != "cpu":
        row["jax_ms"] = time_of_jax(compiled, inputs)
    return row


def main():
    if device.KIND == "gpu":
        jax.config.update("jax_default_matmul_precision", "highest")  # no TF32, which the bundles do not use
    rows = {}
    for name, (function, shapes) in GRAPHS.items():
        with tempfile.TemporaryDirectory() as folder:
            rows[name] = look_at(folder, name, function, shapes)
    refused = [n for n, r in rows.items() if "refused" in r]
    failed = [f"{n}: {r['failed']}" for n, r in rows.items() if "failed" in r]
    wrong = [f"{n}: error {r['error']:.1e}" for n, r in rows.items() if r.get("error", 0) > ERROR_MAX]
    for name, r in rows.items():
        print(f"{name:26s} {r}", file=sys.stderr)
    ratios = sorted(r["ms"] / r["jax_ms"] for r in rows.values() if r.get("jax_ms"))
    note = f"{len(rows) - len(refused)} of {len(rows)} graphs"
    if device.COMPUTES:
        note += f", error at most {max((r.get('error', 0) for r in rows.values()), default=0):.1e}"
    if ratios:
        note += f", {ratios[0]:.2f} to {ratios[-1]:.2f} times JAX's time, median {ratios[len(ratios) // 2]:.2f}"
    faults = failed + (wrong if device.COMPUTES else [])
    if not rows or len(refused) == len(rows):
        faults.append(f"no graph was compiled: {rows[refused[0]]['refused']}")
    device.done([], note=note, rows=rows, refused=refused, **({"wrong": "; ".join(faults)} if faults else {}))


main()
