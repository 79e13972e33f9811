# SPDX-License-Identifier: Apache-2.0
"""Programs by XLA on the CPU, and what they give, bit for bit."""

import os

os.environ["JAX_PLATFORMS"] = "cpu"

import numpy as np
import jax
from jax._src import xla_bridge
from jax._src.interpreters import mlir
from jax._src.lib import xla_client
from jax._src.lib.mlir import ir
from jaxlib import _hlo

from generate import numbers

DRAWS = 4  # inputs that each program is run on


class Xla:
    """The compiler, without any cache, and its readers."""

    def __init__(self):
        jax.config.update("jax_enable_x64", True)
        self.compiled = 0

    def spellings(self, text):
        """A module as MLIR's bytecode, and as the text that MLIR prints of it."""
        with mlir.make_ir_context():
            module = ir.Module.parse(text)
            return mlir.module_to_bytecode(module), str(module)

    def hlo_text(self, program):
        """The HLO that the compiler makes of a program first."""
        computation = xla_client._xla.mlir.mlir_module_to_xla_computation(
            self.spellings(program.text())[0], use_tuple_args=False, return_tuple=False)
        return computation.as_hlo_text(True)

    def code(self, program):
        """What the compiler takes."""
        if program.kind == b"mlir":
            return self.spellings(program.text())[0]
        module = _hlo.hlo_module_from_text(program.text())
        return xla_client._xla.mlir.hlo_to_stablehlo(module.as_serialized_hlo_module_proto())


class Cpu(Xla):
    def __init__(self):
        super().__init__()
        self.backend = xla_bridge.get_backend("cpu")
        self.devices = xla_client.DeviceList(tuple(self.backend.local_devices()[:1]))

    def results(self, program, seed):
        """What the program gives: for each draw of inputs a list of arrays."""
        executable = self.backend.compile_and_load(
            self.code(program), self.devices, xla_client.CompileOptions())
        self.compiled += 1
        random = np.random.default_rng(seed)
        results = []
        for _ in range(DRAWS):
            inputs = [jax.device_put(numbers(random, v.type)) for v in program.main.arguments]
            outputs = executable.execute_sharded(inputs).disassemble_into_single_device_arrays()
            results.append([np.asarray(one[0]) for one in outputs])
        return results


def different(a, b):
    """The draw and the result of which bits differ, or None."""
    for draw, (one, other) in enumerate(zip(a, b)):
        for i, (x, y) in enumerate(zip(one, other)):
            if not same(x, y):
                return draw, i
    return None


def same(x, y):
    """True if the bits are the same, those of two NaNs apart."""
    if x.tobytes() == y.tobytes():
        return True
    if x.dtype.kind == "c":
        x, y = (v.reshape(-1).view(v.real.dtype) for v in (x, y))
    if x.dtype.kind not in "fV":
        return False
    bits = f"u{x.dtype.itemsize}"
    equal = np.ascontiguousarray(x).view(bits) == np.ascontiguousarray(y).view(bits)
    return bool(np.all((x != x) & (y != y) | equal))
