# SPDX-License-Identifier: Apache-2.0
"""Modules sharded over a 2 x 2 mesh of 4 virtual devices. Names and numbers do not count: those of the
module, the operations, the channels and the file. The mesh, the order of its devices, the partitions and
the pairs of sender and receiver do."""

import json
import os
import re
import socket
import unittest

import kit
from jax_cache import JaxCase, outcome

# Options: "module" and "scope" are names, "channel" is the number of the first channel. "mesh", "order",
# "axes", "spec", "shift" and "local" change the program itself.
PROGRAM = '''
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
import hashlib, json, sys
import numpy as np
import jax, jax.monitoring
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

o = {"module": "module_0076", "scope": "pad.5725", "channel": 0, "mesh": [2, 2],
     "order": [0, 1, 2, 3], "axes": ["x", "y"], "spec": [1, 0], "shift": 1, "local": False,
     **json.loads(sys.argv[1])}
counts = {}
def count(name, **_):
    name = name.rsplit("/", 1)[-1]
    counts[name] = counts.get(name, 0) + 1
jax.monitoring.register_event_listener(count)

devices = np.array(jax.devices())[np.array(o["order"])].reshape(o["mesh"])
x_axis, y_axis = o["axes"]
mesh = Mesh(devices, (x_axis, y_axis))
field = NamedSharding(mesh, P(*[o["axes"][i] for i in o["spec"]]))

def loop(u, w):
    """An ocean's step: neighbours exchange their edges along x, then a product over all."""
    def local(u):
        n = mesh.shape[x_axis]
        with jax.named_scope(o["scope"]):
            edge = jax.lax.ppermute(u[-1:], x_axis, [(i, (i + o["shift"]) % n) for i in range(n)])
        if o["local"]:
            edge = u[-1:]
        total = jax.lax.psum(u, y_axis)
        return u + .5 * jnp.concatenate([edge, u[:-1]]) + 0.1 * total
    exchange = jax.shard_map(local, mesh=mesh, in_specs=P(x_axis, y_axis), out_specs=P(x_axis, y_axis))
    with jax.named_scope(o["scope"]):
        return jnp.tanh(exchange(u) @ w), (u * u).sum()

def gradient(u, w):
    return jax.grad(lambda u: loop(u, w)[0].sum())(u)

# The first channel has another number.
sys.modules["jax._src.interpreters.mlir"].COLLECTIVE_CHANNEL_ID += o["channel"]

u = np.arange(64, dtype="f").reshape(8, 8) / 64
w = np.eye(8, dtype="f") + .1
digests = []
for f in (loop, gradient):
    f.__name__ = f.__qualname__ = o["module"] + "_" + f.__name__
    jitted = jax.jit(f, in_shardings=(field, NamedSharding(mesh, P())))
    if len(sys.argv) > 2:
        print(jitted.lower(u, w).as_text() if sys.argv[2] == "mlir"
              else jitted.lower(u, w).compile().as_text())
        sys.exit()
    for leaf in jax.tree_util.tree_leaves(jitted(u, w)):
        digests.append(hashlib.sha256(np.asarray(leaf).tobytes()).hexdigest())
print(json.dumps({"digest": digests, "hits": counts.get("cache_hits", 0),
                  "misses": counts.get("cache_misses", 0)}))
'''

# One of two processes that run a program together. Its arguments: its number, the coordinator's port, and
# whether the sum's operands are exchanged. The processes exchange elements in the order of the operands.
APART = '''
import json, sys
import numpy as np
import jax, jax.monitoring
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

rank, port, turned = int(sys.argv[1]), sys.argv[2], sys.argv[3] == "turned"
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize("127.0.0.1:" + port, 2, rank)
counts = {}
def count(name, **_):
    name = name.rsplit("/", 1)[-1]
    counts[name] = counts.get(name, 0) + 1
jax.monitoring.register_event_listener(count)
mesh = Mesh(np.array(jax.devices()), "x")
halves = NamedSharding(mesh, P("x"))
a, b = (jax.make_array_from_callback((8,), halves, lambda at, v=v: v[at])
        for v in (np.arange(8, dtype="i"), np.arange(100, 92, -1, dtype="i")))

def together(a, b):
    there, sorted_ = a[::-1], jnp.sort(b)
    return sorted_ + there if turned else there + sorted_

total = jax.jit(together, out_shardings=NamedSharding(mesh, P()))(a, b)
print(json.dumps({"digest": np.asarray(total.addressable_data(0)).tolist(),
                  "hits": counts.get("cache_hits", 0), "misses": counts.get("cache_misses", 0)}))
'''

NAMES = {
    "the number of the module": dict(module="module_0177"),
    "the names of operations": dict(scope="concatenate.61"),
    "the numbers of channels": dict(channel=500),
    "all of them": dict(module="reactant_loop_1", scope="slice", channel=7),
}
OTHERS = {
    "another mesh": dict(mesh=[4, 1]),
    "another order of the devices": dict(order=[0, 2, 1, 3]),
    "another partition": dict(spec=[0, 1]),
    "other pairs of source and target": dict(shift=0),
    "no exchange": dict(local=True),
}


class Sharded(JaxCase):
    def test_names_and_numbers_do_not_matter_and_meshes_do(self):
        with kit.Daemon() as daemon, kit.Folder() as elsewhere:
            plain = daemon.run(PROGRAM, "{}", warm=False)
            cold = daemon.run(PROGRAM, "{}")
            self.assertEqual(outcome(cold)["misses"], 2)
            self.assertEqual(outcome(cold)["digest"], outcome(plain)["digest"])
            path = os.path.join(elsewhere, "other_file.py")
            with open(path, "w") as f:
                f.write("\n\n" + PROGRAM)
            for what, options in NAMES.items():
                with self.subTest(what):
                    found = daemon.run([kit.sys.executable, path, json.dumps(options)],
                                       cwd=elsewhere, WARM_READONLY=1)
                    self.hit(found, plain)
            for what, options in OTHERS.items():
                with self.subTest(what):
                    found = daemon.run(PROGRAM, json.dumps(options), WARM_READONLY=1)
                    self.assertEqual(outcome(found)["hits"], 0, what)

    def test_processes_that_compile_apart_run_the_same_code(self):
        """Two processes compile one program, each for itself, and sum over both. If the order of their code
        differed, they would wait for each other for ever. So exchanged operands make another program. The
        processes have one daemon, or a daemon for each host, of which only one has the entry."""
        def together(hosts, order, **settings):
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = str(free.getsockname()[1])
            processes = [host.spawn(APART, str(rank), port, order, **settings)
                         for rank, host in enumerate(hosts)]
            try:
                results = [p.communicate(timeout=kit.WAIT_S * 2) for p in processes]
            finally:
                for p in processes:
                    p.kill()
                    p.communicate()
            for process, (_, error) in zip(processes, results):
                self.assertEqual(process.returncode, 0, error[-4000:])
            return [json.loads(out.splitlines()[-1]) for out, _ in results]

        with kit.Daemon() as first, kit.Daemon() as second:
            hosts = first, second
            for order, hits in (("plain", [0, 0]), ("plain", [1, 0]), ("turned", [0, 0])):
                found = together(hosts, order)
                self.assertEqual([f["digest"] for f in found], [[100] * 8] * 2)
                self.assertEqual([f["hits"] for f in found], hits, order)
            for order in "plain", "turned":
                found = together((first, first), order)
                self.assertEqual([f["digest"] for f in found], [[100] * 8] * 2)
                self.assertEqual([f["hits"] for f in found], [1, 0], order)  # only the first puts
            names = [row["name"] for row in json.loads(first.warm("ls", "--json"))]
            self.assertEqual(len([name for name in names if name.startswith("jax:1:")]), 2, names)
            with kit.Folder() as shared, kit.Daemon() as third:  # the user's own cache folder, for all hosts
                settings = dict(JAX_COMPILATION_CACHE_DIR=shared,
                                JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0)
                for host, hits in ((first, [0, 0]), (third, [1, 0])):
                    found = together((host, second), "plain", **settings)
                    self.assertEqual([f["hits"] for f in found], hits)

    def test_the_text_of_a_partitioned_module_has_one_key_whatever_its_numbers(self):
        """The text is that of frameworks' dumps: HLO after partitioning, with channels, pairs and metadata."""
        with kit.Daemon() as daemon:
            keys = {}

            def key(name, text):
                path = os.path.join(daemon.folder, "module")
                with open(path, "w") as f:
                    f.write(text)
                keys[name] = daemon.warm("hash", path).split()[0]
                return keys[name]

            hlo = daemon.run(PROGRAM, "{}", "hlo", warm=False).stdout
            for needed in ("channel_id=", "source_target_pairs=", "op_name=", "HloModule"):
                self.assertIn(needed, hlo)
            base = key("base", hlo)
            renumbered = re.sub(r"channel_id=(\d+)", lambda m: f"channel_id={int(m[1]) + 40}", hlo)
            self.assertNotEqual(key("renumbered", renumbered), base, "numbers count in HLO text")
            relabelled = re.sub(r'op_name="[^"]*"', 'op_name="a/b:c.1"', hlo)
            renamed = re.sub(r"HloModule [\w.]+", "HloModule module_9999.reactant", relabelled)
            self.assertEqual(key("renamed", renamed), base)
            pairs = re.sub(r"source_target_pairs=\{\{0,(\d)\}", "source_target_pairs={{0,0}", hlo)
            self.assertNotEqual(pairs, hlo)
            self.assertNotEqual(key("pairs", pairs), base)
            mlir = daemon.run(PROGRAM, "{}", "mlir", warm=False).stdout
            other = daemon.run(PROGRAM, json.dumps(NAMES["all of them"]), "mlir", warm=False).stdout
            self.assertIn("handle = 1,", mlir)
            self.assertNotIn("handle = 1,", other)
            self.assertEqual(key("mlir", mlir), key("mlir again", other))

    def test_any_label_is_safe(self):
        """A `/` in a branch's name must not become a folder: no name reaches a file system as it is."""
        label = "ap/persistent_compile_cache: ../../etc/x\ty"
        with kit.Daemon() as daemon:
            before = set(os.listdir(daemon.folder))
            daemon.run("import sys, warm\nassert warm.put(sys.argv[1], b'v' * 100000, label=sys.argv[1])"
                       "\nassert warm.get(sys.argv[1]) == b'v' * 100000", label)
            self.assertEqual(set(os.listdir(daemon.folder)), before)
            for folder, _, files in os.walk(daemon.store):
                for name in files:
                    self.assertRegex(name, r"^[\w.-]+$", folder)
            listed = daemon.warm("ls")
            self.assertNotIn("\ty", listed)
            rows = json.loads(daemon.warm("ls", "--json"))
            self.assertIn(label, [r["name"] for r in rows])


if __name__ == "__main__":
    unittest.main()
