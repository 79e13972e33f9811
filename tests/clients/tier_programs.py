# SPDX-License-Identifier: Apache-2.0
"""Two machines and one tier: a program of PyTorch and one of JAX, with models and training loops of others, run on the
first machine. The second one has an empty store, another home and another folder. It starts from the tier nearly as
fast as from its own store, with the same bits. The programs are rows of tests/bench/programs.py."""

import os
import subprocess
import sys
import time
import unittest

import kit
import tier_engines

BENCH = os.path.join(kit.ROOT, "tests/bench")
sys.path.insert(0, BENCH)
from bench_programs import CACHES, SETTINGS, copy  # noqa: E402

ROUNDS = 3
MOST = 1.3  # times a start from the own store


def interpreter():
    """The Python with the programs' packages."""
    venv = subprocess.run([os.path.join(kit.ROOT, "tests/clients/venv.sh"), os.path.join(BENCH, "programs.txt")],
                          stdout=subprocess.PIPE, text=True)
    return os.path.join(venv.stdout.strip(), "bin/python") if venv.returncode == 0 else None


PYTHON = interpreter()


class Machine(kit.Daemon):
    """A daemon with a tier, and the programs that run there. Each run has a folder and caches of its own."""

    def is_quiet(self):
        """True if nothing waits to be sent, or is being sent."""
        tier = self.stats("tier")
        return tier["queue"] == 0 and tier["sending"] == 0

    def time(self, row):
        """Runs a program; its seconds and the digest of what it computed."""
        at = os.path.join(self.folder, f"run-{time.monotonic_ns()}")
        settings = dict(SETTINGS)
        for variable, folder in CACHES.items():
            settings[variable] = os.path.join(at, folder)
            os.makedirs(settings[variable], exist_ok=True)
        settings["JAX_COMPILATION_CACHE_DIR"] = None
        path = copy(at)
        began = time.perf_counter()
        ended = self.run([PYTHON, path, row], cwd=at, **settings)
        return time.perf_counter() - began, kit.result(ended)["digest"]


@unittest.skipUnless(PYTHON, "the programs' packages cannot be installed")
class Programs(kit.TestCase):
    def start_elsewhere(self, row, url, folder):
        options = ("--tier", url, "--tier-key", os.path.join(folder, "key"), "--tier-credentials",
                   tier_engines.credentials(folder))
        from_tier, own = [], []
        with Machine(*options) as first:
            cold, digest = first.time(row)
            tier_engines.wait_until("all is sent", first.is_quiet)
            sent = first.stats("tier_sent")
        for _ in range(ROUNDS):
            with Machine(*options) as second:
                for times in (from_tier, own):
                    seconds, same = second.time(row)
                    times.append(seconds)
                    self.assertEqual(same, digest)
                hits = second.stats("tier_hits")
        ratio = min(from_tier) / min(own)
        print(f"\n{row}, {url.split(':')[0]}: cold {cold:.1f} s, from the tier {min(from_tier):.1f} s, from its own "
              f"store {min(own):.1f} s: {ratio:.2f} times; {sent} sent, {hits} came", file=sys.stderr)
        self.assertGreater(hits, 0)
        self.assertLess(ratio, MOST)

    def on(self, engine, row):
        with kit.Folder() as folder, engine(folder) as url:
            subprocess.run([kit.program("warm"), "tier", "keygen", "test-1", os.path.join(folder, "key")], check=True,
                           stdout=subprocess.DEVNULL)
            self.start_elsewhere(row, url, folder)

    def test_pytorch_starts_on_a_second_machine_from_redis(self):
        self.on(tier_engines.valkey, "Hugging Face Trainer")

    def test_jax_starts_on_a_second_machine_from_redis(self):
        self.on(tier_engines.valkey, "flax nnx training")

    def test_jax_starts_on_a_second_machine_from_s3(self):
        self.on(tier_engines.seaweedfs, "flax nnx training")


if __name__ == "__main__":
    kit.main()
