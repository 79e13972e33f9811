# SPDX-License-Identifier: Apache-2.0
"""Import and export of JAX's persistent cache folder, which JAX itself writes and reads. JAX's keys depend
on the path of the folder. So both runs have the same path, once with a filled folder and once with an
empty one."""

import os
import shutil
import subprocess

import kit

PROGRAM = '''
import json
import numpy as np
import jax, jax.numpy as jnp, jax.monitoring
counts = {}
def count(name, **_):
    name = name.rsplit("/", 1)[-1]
    counts[name] = counts.get(name, 0) + 1
jax.monitoring.register_event_listener(count)
def loss(w, x):
    return jnp.mean(jnp.tanh(x @ w) ** 2)
value, gradient = jax.jit(jax.value_and_grad(loss))(np.full((8, 8), .1, "f"), np.ones((4, 8), "f"))
print(json.dumps(dict(value=float(value), gradient=np.asarray(gradient).tolist(),
                      hits=counts.get("cache_hits", 0), misses=counts.get("cache_misses", 0))))
'''
ALL = dict(JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0", JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES="-1")


class Folders(kit.TestCase):
    def setUp(self):
        folder = kit.Folder()
        self.root = folder.__enter__()
        self.addCleanup(folder.__exit__)
        self.cache = os.path.join(self.root, "cache")  # the path that JAX gets
        self.other = os.path.join(self.root, "other")

    def run_in(self, daemon, warm):
        return kit.result(daemon.run(PROGRAM, warm=warm, JAX_COMPILATION_CACHE_DIR=self.cache, **ALL))

    def test_a_folder_that_jax_wrote_is_warm_in_an_empty_one(self):
        with kit.Daemon() as daemon:
            plain = self.run_in(daemon, warm=False)
            os.rename(self.cache, self.other)
            daemon.warm("import", "--from", "jax", self.other)
            warm = self.run_in(daemon, warm=True)
            self.assertEqual((warm["hits"], warm["misses"]), (plain["misses"], 0))
            self.assertEqual((warm["value"], warm["gradient"]), (plain["value"], plain["gradient"]))

    def test_a_session_that_was_moved_is_warm_in_an_empty_store(self):
        with kit.Daemon() as daemon:
            cold = self.run_in(daemon, warm=True)
            shutil.rmtree(self.cache, ignore_errors=True)
            daemon.move_session()
            warm = self.run_in(daemon, warm=True)
            self.assertEqual((warm["hits"], warm["misses"]), (cold["misses"], 0))
            self.assertEqual((warm["value"], warm["gradient"]), (cold["value"], cold["gradient"]))
            self.assertEqual(daemon.last_session()["misses"], 0)

    def test_a_folder_that_was_exported_is_warm_without_warm(self):
        with kit.Daemon() as daemon:
            cold = self.run_in(daemon, warm=True)
            daemon.warm("export", "--to", self.other)
            daemon.stop()
            shutil.rmtree(self.cache, ignore_errors=True)
            os.rename(os.path.join(self.other, "jax"), self.cache)
            plain = self.run_in(daemon, warm=False)
            self.assertEqual((plain["hits"], plain["misses"]), (cold["misses"], 0))
            self.assertEqual((plain["value"], plain["gradient"]), (cold["value"], cold["gradient"]))

    def test_of_a_damaged_folder_the_good_comes_in_and_the_rest_is_named(self):
        with kit.Daemon() as daemon:
            plain = self.run_in(daemon, warm=False)
            os.rename(self.cache, self.other)
            entry = [f for f in os.listdir(self.other) if "loss" in f and f.endswith("-cache")][0]
            with open(os.path.join(self.other, entry), "r+b") as f:
                f.truncate(os.path.getsize(f.name) - 9)
            said = subprocess.run([kit.program("warm"), "import", "--from", "jax", self.other],
                                  env=daemon.environment(), capture_output=True, text=True)
            self.assertEqual(said.returncode, 1)
            self.assertIn(entry, said.stderr)
            warm = self.run_in(daemon, warm=True)
            self.assertEqual((warm["hits"], warm["misses"]), (plain["misses"] - 1, 1))
            self.assertEqual(warm["gradient"], plain["gradient"])


if __name__ == "__main__":
    kit.main()
