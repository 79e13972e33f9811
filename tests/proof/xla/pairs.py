# SPDX-License-Identifier: Apache-2.0
"""A proof of keys by XLA: all spellings of one program have one key, and XLA makes one executable of them.

    pairs.py --library libwarm.so [--cases N] [--seed N]

Each case is a function of JAX, drawn and differentiated at random, and another spelling of its StableHLO.
The spelling differs in one or several of these: names of all values and private functions, locations,
attributes that do not count, the generic form, bytecode. The keys must be equal. XLA compiles both
for the CPU: the optimized modules must be equal but for metadata and names, and the results bit for bit.
A program with another constant must have another key. The exit status is 0 if all of this holds."""

import argparse
import os
import random
import re
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import compiler, xla_bridge
from jax._src.interpreters import mlir
from jax._src.lib import xla_client
from jax._src.lib.mlir import ir
from jaxlib import _hlo
from keys import Keys

PRINT = _hlo.HloPrintOptions.canonical()
PRINT.print_large_constants = True
INNER = [jnp.tanh, jnp.sin, jax.nn.relu, jax.nn.softmax, jax.nn.gelu, jnp.exp, jax.nn.logsumexp,
         lambda x: jnp.sort(x, axis=-1), lambda x: jnp.cumsum(x, axis=0), lambda x: x[::-1] * 0.5,
         lambda x: jax.lax.fori_loop(0, 3, lambda i, y: y * 0.9 + i, x),
         lambda x: jax.lax.cond(x.sum() > 0, jnp.cos, jnp.abs, x), lambda x: x @ x.T @ x]


def function(draw):
    """Draws a chain of functions from one array to a number. Half of the chains have the gradient, too."""
    chain = [draw.choice(INNER) for _ in range(draw.randint(1, 5))]

    def f(x):
        for inner in chain:
            x = jnp.broadcast_to(inner(x), (8, 8))
        return (x * x).mean()
    return jax.value_and_grad(f) if draw.random() < 0.5 else f


def renamed(text, salt):
    """Returns a text with other names of values and of private functions."""
    private = set(re.findall(r"func\.func private @(\w+)", text))
    text = re.sub(r"%([A-Za-z_]\w*|\d+)", lambda m: f"%n{salt}_{m[1]}", text)
    return re.sub(r"@(\w+)", lambda m: f"@f{salt}_{m[1]}" if m[1] in private else m[0], text)


def attributed(text, salt):
    """Returns a text with other attributes that do not count, on arguments and results of functions."""
    def head(m):
        named = re.sub(r'(jax\.result_info = )"[^"]*"', rf'\1"{salt}"', m[0])
        return re.sub(r"(%arg\d+: tensor<[^>]*>)(?=[,)])", r'\1 {mhlo.layout_mode = "default"}', named)
    return re.sub(r"func\.func .*", head, text)


def respelled(draw, module):
    """Returns another spelling of a module: its description, its kind and bytes, and a text for XLA."""
    how = draw.choice(["names", "locations", "attributes", "generic", "bytecode", "names in the generic form"])
    located = how == "locations" or draw.random() < 0.3
    text = module.operation.get_asm(enable_debug_info=located, print_generic_op_form="generic" in how)
    if "names" in how:
        text = renamed(text, draw.randrange(1000))
    if how == "attributes":
        text = attributed(text, draw.randrange(1000))
    if how == "bytecode":
        return how, b"mlirbc", mlir.module_to_bytecode(module), text
    return how, b"mlir", text.encode(), text


def compiled(backend, text):
    """Returns the optimized module without names and metadata, and its results."""
    options = compiler.get_compile_options(num_replicas=1, num_partitions=1)
    with mlir.make_ir_context():
        code = mlir.module_to_bytecode(ir.Module.parse(text))
    devices = xla_client.DeviceList(tuple(backend.local_devices()[:1]))
    executable = backend.compile_and_load(code, devices, options)
    optimized = executable.hlo_modules()[0].to_string(PRINT)
    x = jax.device_put(np.random.default_rng(0).standard_normal((8, 8), dtype=np.float32))
    parts = executable.execute_sharded([x]).disassemble_into_single_device_arrays()
    names = r"HloModule \S+|\b[A-Za-z_][\w-]*\.\d+[\w.]*"
    return re.sub(names, "", optimized), [np.asarray(p[0]).tobytes() for p in parts]


def case(seed, keys, backend):
    draw = random.Random(seed)
    x = jax.ShapeDtypeStruct((8, 8), jnp.float32)
    module = jax.jit(function(draw)).lower(x).compiler_ir()
    text = module.operation.get_asm(enable_debug_info=False)
    how, kind, data, other = respelled(draw, module)
    key = keys.of(b"mlir", text.encode())
    if key is None or keys.of(kind, data) != key:
        return f"{how}: another key"
    if (mutant := re.sub(r"dense<([1-9])", r"dense<-\1", text, count=1)) != text:
        if keys.of(b"mlir", mutant.encode()) == key:
            return "another constant: the same key"
    one, two = compiled(backend, text), compiled(backend, other)
    return None if one == two else f"{how}: another executable" if one[0] != two[0] else f"{how}: other bits"


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--library", required=True)
    options.add_argument("--cases", type=int, default=100)
    options.add_argument("--seed", type=int, default=1)
    options = options.parse_args()
    keys, backend = Keys(options.library), xla_bridge.get_backend("cpu")
    wrong = 0
    for seed in range(options.seed, options.seed + options.cases):
        if what := case(seed, keys, backend):
            print(f"seed {seed}: {what}")
            wrong += 1
    print(f"pairs: {options.cases} cases, {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
