# SPDX-License-Identifier: Apache-2.0
"""The programs of time_jax.py: each is one process, times its stages, and prints a line of JSON.

    jax_programs.py ROW FORM

time_jax.py copies this file into another folder, and changes the names in NAMES: the same programs, as
another user would have them. FORM "jit" is jax.jit in stages, "warm" is warm.jax.jit."""

import json
import os
import sys
import time

ROW, FORM = sys.argv[1:3]
if ROW.startswith("sharded"):
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
os.environ["JAX_PLATFORMS"] = "cpu"
clock = {"wall": time.perf_counter, "cpu": time.process_time}[os.environ.get("BENCH_CLOCK", "wall")]
times = {}
last = [clock()]


def stage(name):
    now = clock()
    times[name] = now - last[0]
    last[0] = now


import hashlib

if FORM == "warm":
    import warm.jax

import numpy as np

import jax
import jax.monitoring
import jax.numpy as jnp

if ROW.startswith("enzyme"):
    import enzyme_ad.jax.primitives as primitives
    from enzyme_ad.jax import enzyme_jax_ir
if "scan" in ROW or "packed" in ROW:
    import warm.jax
if FORM == "warm":
    warm.jax.jit  # this imports it
stage("import")
jax.devices()  # the backend starts, and with it the plugins
stage("start")

n_compiles = [0]


def on_event(name, **_):
    if name == "/jax/compilation_cache/cache_misses":
        n_compiles[0] += 1


jax.monitoring.register_event_listener(on_event)
rng = np.random.default_rng(0)


def draw(*shape):
    return (rng.standard_normal(shape) * 0.2).astype("f")


# ---- multilayer perceptrons: y = x^2 - 2x with noise, 128 points ----


def layers_of(widths):
    return {f"layer{i:03}": {"weight": draw(a, b), "bias": np.zeros(b, "f")}
            for i, (a, b) in enumerate(zip(widths, widths[1:]))}


def predict(params, x):
    for i, name in enumerate(sorted(params)):
        x = x @ params[name]["weight"] + params[name]["bias"]
        if i + 1 < len(params):
            x = jax.nn.relu(x)
    return x


def mean_error(params, x, y):
    return jnp.mean((predict(params, x) - y) ** 2)


def points():
    x = np.linspace(-2, 2, 128, dtype="f").reshape(-1, 1)
    return x, x * x - 2 * x + draw(128, 1)


def perceptron(widths, with_enzyme=False):
    loss = mean_error
    if with_enzyme:
        @enzyme_jax_ir(argv=())
        def enzyme_loss(params, x, y):
            return mean_error(params, x, y)
        loss = enzyme_loss
    return loss, (layers_of(widths), *points())


# ---- a chain of 16 equal modules, with Adam: four forms ----


def module(params, x):
    h = x * params["scale"] / jnp.sqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)
    return x + jnp.tanh(h @ params["inner"] + params["bias"]) @ params["outer"]


def modules_of(count, width):
    return [{"scale": np.ones(width, "f"), "inner": draw(width, width),
             "bias": np.zeros(width, "f"), "outer": draw(width, width)} for _ in range(count)]


def forward_loop(all_params, x):
    for params in all_params:
        x = module(params, x)
    return x


def chain_error(forward):
    return lambda all_params, x, y: jnp.mean((forward(all_params, x) - y) ** 2)


def adam(p, g, m, v, t):
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return p - 0.03 * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8), m, v


def train(error, params, x, y):
    zeros = jax.tree_util.tree_map(jnp.zeros_like, params)

    def body(carry):
        params, m, v, t = carry
        flat, tree = jax.tree_util.tree_flatten(params)
        grads = jax.grad(error)(params, x, y)
        each = zip(flat, *map(jax.tree_util.tree_leaves, (grads, m, v)))
        made = zip(*[adam(*arrays, t + 1) for arrays in each])
        return (*(jax.tree_util.tree_unflatten(tree, part) for part in made), t + 1)

    state = (params, zeros, zeros, jnp.float32(0))
    return jax.lax.while_loop(lambda carry: carry[3] < 10.0, body, state)[0]


def training(is_scan, is_packed):
    error = chain_error(warm.jax.chain if is_scan else forward_loop)

    def by_array(all_params, x, y):
        return train(error, all_params, x, y)

    def by_dtype(all_params, x, y):
        packed = warm.jax.Packed.of(all_params)
        return train(lambda p, x, y: error(p.unpack(), x, y), packed, x, y).unpack()

    params, x = modules_of(16, 28), draw(8, 28)
    if is_scan:
        stacked = jax.tree_util.tree_map(lambda *arrays: np.stack(arrays), *params)
        params = warm.jax.Stack(module, stacked, len(params))
    return by_dtype if is_packed else by_array, (params, x, np.tanh(x))


# ---- modules sharded over 2 x 2 devices ----


def sharded(is_loop):
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("rows", "columns"))
    place = NamedSharding(mesh, P("columns", "rows"))

    def exchange(field):
        with jax.named_scope("halo_exchange"):
            edge = jax.lax.ppermute(field[-1:], "rows", [(0, 1), (1, 0)])
        return field + 0.5 * jnp.concatenate([edge, field[:-1]])

    spread = P("rows", "columns")
    halo = jax.shard_map(exchange, mesh=mesh, in_specs=spread, out_specs=spread)

    def ocean(field, weight):
        def body(_, field):
            return jnp.tanh(halo(field) @ weight) * 0.9 + 0.1 * field
        if is_loop:
            return jax.lax.fori_loop(0, 20, body, field)
        for _ in range(12):
            field = body(0, field)
        return jax.grad(lambda f: (body(0, f) ** 2).sum())(field)

    return ocean, (draw(64, 64), np.eye(64, dtype="f")), (place, place)


# ---- rows ----

WIDTHS = {
    "1-16-1": [1, 16, 1],
    "1-256-1": [1, 256, 1],
    "1-16-16-1": [1, 16, 16, 1],
    "1-16-16-16-1": [1, 16, 16, 16, 1],
    "five layers": [1, 16, 16, 16, 16, 1],
    "64 layers": [1, *[64] * 63, 1],
    "128 layers": [1, *[64] * 127, 1],
}


def program():
    """Returns the function to compile, as jax.jit or warm.jax.jit takes it, its arguments and its options."""
    kind, _, rest = ROW.partition(" ")
    if kind in ("grad", "enzyme"):
        loss, arguments = perceptron(WIDTHS[rest], kind == "enzyme")
        if FORM == "warm":
            return warm.jax.value_and_grad(loss), arguments, {}
        return jax.value_and_grad(loss), arguments, {}
    if kind == "chain":
        form, _, state = rest.partition(", ")
        step, arguments = training(form == "scan", state == "packed")
        return step, arguments, {}
    step, arguments, places = sharded(rest == "loop")
    return step, arguments, {"in_shardings": places}


def timed_passes():
    """Times Enzyme's passes, or the look-up that replaces them."""
    if not ROW.startswith("enzyme"):
        return
    run = primitives.enzyme_call.run_pass_pipeline

    def timed(*a, **k):
        start = clock()
        try:
            return run(*a, **k)
        finally:
            times["passes"] = times.get("passes", 0) + clock() - start

    primitives.enzyme_call.run_pass_pipeline = timed


def key_times(lowered):
    """Returns the CPU seconds of our key and of JAX's own for this module."""
    from jax._src import cache_key, compiler, xla_bridge

    from warm.jax import _keys

    m, n = lowered.compiler_ir(), 4 if ROW.startswith("sharded") else 1
    backend, devices = xla_bridge.get_backend(), np.array(jax.devices()[:n])
    options = compiler.get_compile_options(num_replicas=1, num_partitions=n)

    def ours():
        _keys.name_of(m, _keys.module_bytes(m), devices, options, backend, cache_key, "zlib")

    def theirs():
        cache_key.get(m, devices, options, backend)

    found = [], []
    for _ in range(9):  # in turns: a processor's speed changes
        for f, seconds in zip((ours, theirs), found):
            start = time.process_time()
            f()
            seconds.append(time.process_time() - start)
    return [sorted(seconds)[4] for seconds in found]


def main():
    timed_passes()
    step, arguments, options = program()
    stage("data")
    lowered = None
    if FORM == "jit":
        traced = jax.jit(step, **options).trace(*arguments)
        stage("trace")
        lowered = traced.lower()
        stage("lower")
        compiled = lowered.compile()
        stage("compile")
        result = jax.block_until_ready(compiled(*arguments))
        stage("call")
    else:
        result = jax.block_until_ready(warm.jax.jit(step, **options)(*arguments))
        stage("first call")
    passes = times.get("passes", 0)
    for name in ("trace", "lower"):  # wherever they ran
        if passes and times.get(name, 0) >= passes:
            times[name] -= passes
            break
    digest = hashlib.sha256()
    for leaf in jax.tree_util.tree_leaves(result):
        digest.update(np.asarray(leaf).tobytes())
    print(json.dumps({
        "times": times, "digest": digest.hexdigest(), "compiles": n_compiles[0],
        "keys": key_times(lowered) if os.environ.get("BENCH_KEYS") else None,
    }))


main()
