# SPDX-License-Identifier: Apache-2.0
"""PJRT plugins under libwarm-preload.so: executables of one process start the next one warm.

The programs use JAX, on CPU plugins that come as packages. The tests preload only the library. The other
settings of `warm run` would serve JAX before it reaches its plugin.
"""

import json
import os
import subprocess
import sys
import sysconfig
import unittest

import kit

SITE = sysconfig.get_paths()["purelib"]
PRELOAD = os.path.join(kit.BUILD, "lib", "libwarm-preload.so")
INCLUDE = os.path.join(SITE, "xla_plugins/xla_cpu_pjrt/include")
HERE = os.path.dirname(os.path.abspath(__file__))

# The gradient step of a small network, under any name, from any file.
STEP = '''
import hashlib, json, os, sys, time
import jax, jax.numpy as jnp, numpy as np

def net(params, x):
    for w, b in params:
        x = jnp.tanh(x @ w + b)
    return x

name, layers, rate = os.environ.get("NAME", "step"), int(os.environ.get("LAYERS", "3")), os.environ.get("RATE", "0.03")
source = f"""
def {name}(params, x, y):
    loss, grads = jax.value_and_grad(lambda p: jnp.mean((net(p, x) - y) ** 2))(params)
    return loss, jax.tree_util.tree_map(lambda p, g: p - {rate} * g, params, grads)
"""
names = dict(jax=jax, jnp=jnp, net=net)
exec(compile(source, os.environ.get("FILE", "a.py"), "exec"), names)
random = np.random.RandomState(0)
widths = [1] + [16] * (layers - 1) + [1]
params = [(jnp.asarray(random.randn(a, b).astype("f4")), jnp.asarray(random.randn(b).astype("f4")))
          for a, b in zip(widths, widths[1:])]
x = jnp.asarray(random.randn(8, 1).astype("f4"))
lowered = jax.jit(names[name]).lower(params, x, 2 * x)
start, start_cpu = time.perf_counter(), time.process_time()
step = lowered.compile()
wall, cpu = time.perf_counter() - start, time.process_time() - start_cpu
leaves = jax.tree_util.tree_leaves(step(params, x, 2 * x))
digest = hashlib.sha256(b"".join(np.asarray(leaf).tobytes() for leaf in leaves)).hexdigest()
print(json.dumps(dict(result=digest, compile_ms=wall * 1e3, cpu_ms=cpu * 1e3)))
'''

# A product over a 2 x 2 mesh of four devices, with a sum between them.
MESH = '''
import hashlib, json, os
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

order = [int(i) for i in os.environ.get("ORDER", "0,1,2,3").split(",")]
shape = [int(i) for i in os.environ.get("SHAPE", "2,2").split(",")]
devices = np.array(jax.devices()[:4])[order].reshape(shape)
mesh = Mesh(devices, ("x", "y"))

def product(a, b):
    return jnp.tanh(a @ b).sum(axis=0)

product.__name__ = os.environ.get("NAME", "product")
a = np.arange(64, dtype="f4").reshape(8, 8) / 64
put = lambda v, spec: jax.device_put(v, NamedSharding(mesh, spec))
compiled = jax.jit(product, out_shardings=NamedSharding(mesh, P("y"))).lower(
    put(a, P("x", "y")), put(a, P("y", None))).compile()
out = np.asarray(compiled(put(a, P("x", "y")), put(a, P("y", None))))
print(json.dumps(dict(result=hashlib.sha256(out.tobytes()).hexdigest())))
'''


class Plugin:
    """The tests of one plugin; `library` is its path below site-packages."""

    library = None

    def setUp(self):
        self.daemon = kit.Daemon()
        self.daemon.__enter__()
        self.addCleanup(self.daemon.__exit__)

    def settings(self, settings):
        plugin = os.path.join(SITE, self.library)
        return dict(dict(PJRT_NAMES_AND_LIBRARY_PATHS=f"xcpu:{plugin}", JAX_PLATFORMS="xcpu",
                         LD_PRELOAD=PRELOAD, TF_CPP_MIN_LOG_LEVEL="3"), **settings)

    def run_program(self, program, **settings):
        out = self.daemon.run(program, warm=False, **self.settings(settings))
        return json.loads(out.stdout.splitlines()[-1])

    def executables(self):
        """Returns how many executables this daemon has served, and how many it has stored."""
        kinds = self.daemon.stats("kinds").get("executable", {})
        return kinds.get("hits", 0), kinds.get("puts", 0)

    def served_and_stored(self, program, **settings):
        before = self.executables()
        out = self.run_program(program, **settings)
        after = self.executables()
        return out, after[0] - before[0], after[1] - before[1]

    def test_fresh_process_is_warm_under_other_names(self):
        plain = self.run_program(STEP, LD_PRELOAD=None)
        cold, hits, puts = self.served_and_stored(STEP)
        self.assertEqual(cold["result"], plain["result"])
        self.assertEqual(hits, 0)
        self.assertGreaterEqual(puts, 1)
        with kit.Folder() as elsewhere:
            for changed in ({}, dict(NAME="renamed", FILE=os.path.join(elsewhere, "b.py"))):
                warm, again, stored = self.served_and_stored(STEP, **changed)
                self.assertEqual(warm["result"], plain["result"])
                self.assertEqual((again, stored), (puts, 0), changed)
        print(f"    compile: {plain['compile_ms']:.0f} ms without warm, {cold['compile_ms']:.0f} "
              f"cold, {warm['compile_ms']:.0f} warm", file=sys.stderr)

    def test_another_program_is_a_miss(self):
        self.run_program(STEP)
        for changed in (dict(RATE="0.02"), dict(LAYERS="4"),
                        dict(XLA_FLAGS="--xla_cpu_enable_fast_math=true"),
                        dict(XLA_FLAGS="--xla_cpu_enable_fast_min_max=true")):
            _, _, stored = self.served_and_stored(STEP, **changed)
            self.assertGreaterEqual(stored, 1, changed)

    def test_mesh_hits_under_another_name_and_misses_in_another_shape_or_order(self):
        four = dict(XLA_FLAGS="--xla_force_host_platform_device_count=4")
        plain = self.run_program(MESH, LD_PRELOAD=None, **four)
        cold, _, _ = self.served_and_stored(MESH, **four)
        self.assertEqual(cold, plain)
        warm, hits, stored = self.served_and_stored(MESH, NAME="other", **four)
        self.assertEqual(warm, plain)
        self.assertGreaterEqual(hits, 1)
        self.assertEqual(stored, 0)
        for changed in (dict(SHAPE="4,1"), dict(ORDER="0,1,3,2")):
            _, _, stored = self.served_and_stored(MESH, **changed, **four)
            self.assertGreaterEqual(stored, 1, changed)

    def test_damaged_entries_heal(self):
        plain = self.run_program(STEP)
        with open(os.path.join(self.daemon.folder, "junk"), "wb") as f:
            f.write(b"no executable" * 1000)
        entries = json.loads(self.daemon.warm("ls", "--json"))
        names = [e["name"] for e in entries if e["kind"] == "executable"]
        self.assertTrue(names)
        for name in names:
            self.daemon.warm("put", name, f.name)
        healed, _, stored = self.served_and_stored(STEP)
        self.assertEqual((healed["result"], stored), (plain["result"], len(names)))
        _, hits, stored = self.served_and_stored(STEP)
        self.assertEqual((hits, stored), (len(names), 0))

    def test_without_a_daemon_the_result_is_the_same(self):
        plain = self.run_program(STEP)
        self.assertEqual(self.run_program(STEP, WARM_DISABLE=1)["result"], plain["result"])
        self.daemon.suspend()
        self.assertEqual(self.run_program(STEP)["result"], plain["result"])
        self.daemon.resume()
        self.daemon.kill()
        self.assertEqual(self.run_program(STEP)["result"], plain["result"])


class XlaCpuPjrt(Plugin, kit.TestCase):
    library = "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"


class Fastatomstruct(Plugin, kit.TestCase):
    library = "fastatomstruct_xla_cpu/libpjrt_cpu.so"


class Lammps(Plugin, kit.TestCase):
    library = "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so"

    def test_processes_at_once_compile_each_program_once(self):
        with kit.Daemon() as alone:
            alone.run(STEP, warm=False, **self.settings(dict(WARM_SOCKET=alone.socket)))
            once = alone.stats("kinds")["executable"]["puts"]
        started = [self.daemon.spawn(STEP, warm=False, **self.settings({})) for _ in range(4)]
        results = [json.loads(p.communicate(timeout=kit.RUN_S)[0].splitlines()[-1])["result"]
                   for p in started]
        self.assertEqual(len(set(results)), 1)
        self.assertEqual(self.executables()[1], once)

    def test_unmodified_program_under_warm_run(self):
        settings = self.settings({})
        del settings["LD_PRELOAD"]
        cold, warm = (json.loads(self.daemon.run(STEP, **settings).stdout.splitlines()[-1])
                      for _ in range(2))
        self.assertEqual(cold["result"], warm["result"])
        self.assertGreaterEqual(self.daemon.stats("kinds")["executable"]["hits"], 1)


class Layout(kit.TestCase):
    def test_our_declarations_are_the_interfaces(self):
        root = os.path.dirname(os.path.dirname(HERE))
        with kit.Folder() as folder:
            program = os.path.join(folder, "layout")
            subprocess.run(["cc", "-std=c11", "-I", root, "-I", INCLUDE, "-o", program,
                            os.path.join(HERE, "pjrt_layout.c")], check=True)
            subprocess.run([program], check=True)


if __name__ == "__main__":
    unittest.main()
