# SPDX-License-Identifier: Apache-2.0
"""Programs by XLA for a GPU that need not be there: nothing runs, what the code computes is compared."""

import os

import numpy as np
import nvidia

# The compiler tries nothing out to see what is faster, and has its tools from their package.
os.environ["XLA_FLAGS"] = ("--xla_gpu_autotune_level=0 --xla_gpu_cuda_data_dir=" +
                           os.path.join(nvidia.__path__[0], "cuda_nvcc"))

import computed
from plugin import Plugin
from run import Xla
from jax.experimental import topologies
from jax._src.interpreters import mlir
from jax._src.lib import xla_client
from jax._src.lib.mlir import ir
from jaxlib import _hlo


class Gpu(Xla):
    def __init__(self, described):
        """described: a file with a GpuTargetConfigProto as text."""
        super().__init__()
        with open(described) as file:
            target = file.read()
        self.devices = {n: xla_client.DeviceList(tuple(topologies.get_topology_desc(
            platform="cuda", topology=f"1x1x{n}", target_config=target).devices)) for n in (1, 4)}
        self.plugin = Plugin()
        self.topologies = {n: self.plugin.topology(n, target) for n in self.devices}
        self.printed = _hlo.HloPrintOptions()
        self.printed.print_large_constants = True

    def results(self, program, seed):
        """In place of what the program gives, a digest of how each of its results is computed."""
        n, options = program.partitions * program.replicas, self.options(program)
        if program.kind == b"hlo":
            module = self.plugin.optimized(self.topologies[n], program.text(), options)
        else:
            module = self.of_mlir(self.devices[n], program, options)
        self.compiled += 1
        return [[np.frombuffer(one.encode(), np.uint8)
                 for one in computed.results(module.to_string(self.printed))]]

    def of_mlir(self, devices, program, options):
        with mlir.make_ir_context():
            executable = devices[0].client.compile(ir.Module.parse(self.code(program)), devices, options)
        module, = executable.hlo_modules()
        return module
