# SPDX-License-Identifier: Apache-2.0
"""Programs by XLA on the CPU, and what they give, bit for bit."""

import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # no warnings of what cannot be divided well
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"

import numpy as np
import jax
from jax._src import xla_bridge
from jax._src.interpreters import mlir
from jax._src.lib import xla_client
from jax._src.lib.mlir import ir
from jax._src.sharding_impls import GSPMDSharding
from jaxlib import _hlo

from generate import numbers

Refused = jax.errors.JaxRuntimeError
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

    def options(self, program):
        """How to compile it."""
        options = xla_client.CompileOptions()
        build, shape = options.executable_build_options, (program.replicas, program.partitions)
        options.num_replicas, options.num_partitions = shape
        build.num_replicas, build.num_partitions = shape
        numbers_of_devices = np.arange(np.prod(shape)).reshape(shape)
        build.device_assignment = xla_client.DeviceAssignment.create(numbers_of_devices)
        if program.partitions > 1:
            build.use_spmd_partitioning, build.use_shardy_partitioner = True, program.shardy
            build.allow_spmd_sharding_propagation_to_output = [True]
        return options


class Cpu(Xla):
    def __init__(self):
        super().__init__()
        self.backend = xla_bridge.get_backend("cpu")
        self.devices = self.backend.local_devices()

    def results(self, program, seed):
        """What the program gives: for each draw of inputs a list of arrays, those of all devices in one."""
        devices = xla_client.DeviceList(tuple(self.devices[:program.partitions * program.replicas]))
        executable = self.backend.compile_and_load(self.code(program), devices, self.options(program))
        self.compiled += 1
        places = executable.get_parameter_shardings() or (
            [xla_client.HloSharding.replicate()] * len(program.main.arguments))
        random = np.random.default_rng(seed)
        results = []
        for _ in range(DRAWS):
            inputs = [self.input(random, v.type, program, devices, where)
                      for v, where in zip(program.main.arguments, places)]
            outputs = executable.execute_sharded(inputs).disassemble_into_single_device_arrays()
            results.append([np.stack([np.asarray(part) for part in one]) for one in outputs])
        return results

    def input(self, random, type, program, devices, where):
        if program.partitions > 1:
            return jax.device_put(numbers(random, type), GSPMDSharding(devices, where))
        parts = [jax.device_put(numbers(random, type), one) for one in devices]
        return jax.make_array_from_single_device_arrays(
            type.shape, GSPMDSharding.get_replicated(devices), parts)


def different(a, b):
    """The draw and the result of which bits differ, or None."""
    for draw, (one, other) in enumerate(zip(a, b)):
        for i, (x, y) in enumerate(zip(one, other)):
            if not same(x, y):
                return draw, i
    return None


def same(x, y):
    """True if the bits are the same, those of two NaNs apart."""
    if x.tobytes() == y.tobytes() or x.shape != y.shape:
        return x.shape == y.shape
    if x.dtype.kind == "c":
        x, y = (v.reshape(-1).view(v.real.dtype) for v in (x, y))
    if x.dtype.kind not in "fV":
        return False
    bits = f"u{x.dtype.itemsize}"
    equal = np.ascontiguousarray(x).view(bits) == np.ascontiguousarray(y).view(bits)
    return bool(np.all((x != x) & (y != y) | equal))
